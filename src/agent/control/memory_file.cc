#include "agent/control/memory_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>
#include <cerrno>

#include "base/files.h"
#include "base/result.h"

namespace gpulens {
namespace {

Result<UniqueFd> NewMemoryFile(std::string_view text) {
  UniqueFd file(::memfd_create("gpulens", MFD_CLOEXEC));
  if (!file) return ErrnoStatus("memfd_create", errno);
  if (::pwrite(file.get(), text.data(), text.size(), 0) != static_cast<ssize_t>(text.size()))
    return ErrnoStatus("write a file in memory", errno);
  return file;
}

}  // namespace

Status MemoryFile::Open() {
  ASSIGN_OR_RETURN(file_, NewMemoryFile(""));
  path_ = "/proc/" + std::to_string(::getpid()) + "/fd/" + std::to_string(file_.get());
  return Ok();
}

Status MemoryFile::Write(std::string_view text) {
  if (!file_) return {Code::kUnavailable, "there is no file for the reader process"};
  ASSIGN_OR_RETURN(UniqueFd next, NewMemoryFile(text));
  if (::dup3(next.get(), file_.get(), O_CLOEXEC) < 0) return ErrnoStatus("dup3", errno);
  return Ok();
}

}  // namespace gpulens
