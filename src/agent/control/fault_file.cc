#include "agent/control/fault_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>

#include "base/files.h"
#include "base/result.h"

namespace gpulens {
namespace {

Result<UniqueFd> NewFile(std::string_view text) {
  UniqueFd file(::memfd_create("gpulens-faults", MFD_CLOEXEC));
  if (!file) return ErrnoStatus("memfd_create", errno);
  if (::pwrite(file.get(), text.data(), text.size(), 0) != static_cast<ssize_t>(text.size()))
    return ErrnoStatus("write the faults", errno);
  return file;
}

}  // namespace

Status FaultFile::Open() {
  ASSIGN_OR_RETURN(file_, NewFile(""));
  path_ = "/proc/" + std::to_string(::getpid()) + "/fd/" + std::to_string(file_.get());
  return Ok();
}

Result<std::string> FaultFile::Fail(std::string_view words, int64_t now_ns, size_t gpus) {
  ASSIGN_OR_RETURN(std::string done, list_.Fail(words, now_ns, gpus));
  RETURN_IF_ERROR(Write());
  return done;
}

Result<std::string> FaultFile::Heal(std::string_view words, int64_t now_ns) {
  ASSIGN_OR_RETURN(std::string done, list_.Heal(words, now_ns));
  RETURN_IF_ERROR(Write());
  return done;
}

// A whole file in place of the old one under the same number: a reader never sees a part.
Status FaultFile::Write() {
  if (!file_) return {Code::kUnavailable, "the faults cannot be handed to the reader process"};
  ASSIGN_OR_RETURN(UniqueFd next, NewFile(nvml::FormatFaultScript(list_.faults())));
  if (::dup3(next.get(), file_.get(), O_CLOEXEC) < 0) return ErrnoStatus("dup3", errno);
  return Ok();
}

}  // namespace gpulens
