#include "reader/reader_child.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <utility>

#include "base/files.h"
#include "base/result.h"

namespace gpulens::reader {
namespace {

std::string Hex(uint64_t mask) {
  char text[20];
  std::snprintf(text, sizeof text, "%llx", static_cast<unsigned long long>(mask));
  return text;
}

std::string Number(const char* key, int64_t value) { return std::string(key) + "=" + std::to_string(value); }

constexpr int64_t kTimeoutNs = 1'000'000'000;  // A process that was killed ends within milliseconds.

}  // namespace

Status ReaderLink::Start(const SourceOptions& options, const StartOptions& how) {
  Close();
  ASSIGN_OR_RETURN(SocketPair ends, MakeSocketPair());
  // Room for a first round of many devices with many links; the kernel gives what it allows.
  int room = 1 << 20;
  ::setsockopt(ends.theirs.get(), SOL_SOCKET, SO_SNDBUF, &room, sizeof room);
  UniqueFd page(::memfd_create("gpulens-calls", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!page || ::ftruncate(page.get(), kCallPageBytes) != 0) return ErrnoStatus("memfd_create", errno);
  // The driver must not be able to shrink what we read: that would be SIGBUS here.
  ::fcntl(page.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
  void* memory = ::mmap(nullptr, kCallPageBytes, PROT_READ, MAP_SHARED, page.get(), 0);
  if (memory == MAP_FAILED) return ErrnoStatus("mmap", errno);
  page_ = static_cast<CallPage*>(memory);

  ChildProcess::Options child_options;
  child_options.program = options.program;
  child_options.arguments = options.arguments;
  child_options.environment = options.environment;
  // The same numbers in the child: none can be overwritten by another.
  child_options.pass_fds = {{ends.theirs.get(), ends.theirs.get()}, {page.get(), page.get()}};
  auto& arguments = child_options.arguments;
  arguments.push_back(Number("--socket-fd", ends.theirs.get()));
  arguments.push_back(Number("--page-fd", page.get()));
  arguments.push_back(Number("--interval-ns", options.interval.count()));
  arguments.push_back(Number("--medium-ns", options.medium.count()));
  arguments.push_back(Number("--slow-ns", options.slow.count()));
  if (!options.library_path.empty()) arguments.push_back("--library=" + options.library_path);
  if (!options.build_id.empty()) arguments.push_back("--build-id=" + options.build_id);
  if (!options.device_folder.empty()) arguments.push_back("--device-folder=" + options.device_folder);
  if (how.left_out) arguments.push_back("--leave-out=" + Hex(how.left_out));
  if (!how.watch) arguments.push_back("--watch=0");
  ASSIGN_OR_RETURN(child, ChildProcess::Start(child_options));
  socket = std::move(ends.ours);
  return Ok();
}

void ReaderLink::Close() noexcept {
  socket.reset();
  if (page_) ::munmap(page_, kCallPageBytes);
  page_ = nullptr;
}

void Reaper::Take(ChildProcess child, int64_t boot_ns) {
  child.Signal(SIGKILL);
  if (child.running() && !child.TryWait()) dying_.push_back({std::move(child), boot_ns});
}

pid_t Reaper::Reap(Instant now, std::vector<int>& stuck) {
  if (dying_.empty()) return -1;
  std::erase_if(dying_, [](Dying& dying) { return dying.child.TryWait().has_value(); });
  stuck.clear();
  pid_t first = -1;
  for (Dying& dying : dying_) {
    if (now.boot_ns - dying.since_ns <= kTimeoutNs) continue;
    stuck.push_back(dying.child.pid());
    if (first < 0 && !std::exchange(dying.reported, true)) first = dying.child.pid();
  }
  return first;
}

}  // namespace gpulens::reader
