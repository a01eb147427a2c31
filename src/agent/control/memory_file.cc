#include "agent/control/memory_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <unistd.h>
#include <cerrno>

#include "base/files.h"

namespace gpulens {
namespace {

// Reading takes microseconds. Who is stopped while it reads is not waited for.
constexpr int kTries = 10;
constexpr useconds_t kPauseUs = 1000;

}  // namespace

Status MemoryFile::Open() {
  file_.reset(::memfd_create("gpulens", MFD_CLOEXEC));
  return file_ ? Ok() : ErrnoStatus("memfd_create", errno);
}

std::string MemoryFile::path() const {
  return file_ ? "/proc/self/fd/" + std::to_string(file_.get()) : std::string();
}

Status MemoryFile::Write(std::string_view text) {
  if (!file_) return {Code::kUnavailable, "there is no file for the reader process"};
  // Of two texts of one size in one tick of the kernel's clock, the second would look like the first.
  std::string out(text);
  out.append(++writes_ % 2, '\n');
  bool locked = false;
  for (int i = 0; i < kTries && !locked; ++i) {
    locked = ::flock(file_.get(), LOCK_EX | LOCK_NB) == 0;
    if (!locked) ::usleep(kPauseUs);
  }
  const bool written = ::pwrite(file_.get(), out.data(), out.size(), 0) == static_cast<ssize_t>(out.size()) &&
                       ::ftruncate(file_.get(), static_cast<off_t>(out.size())) == 0;
  const int error = errno;
  if (locked) ::flock(file_.get(), LOCK_UN);
  return written ? Ok() : ErrnoStatus("write a file in memory", error);
}

}  // namespace gpulens
