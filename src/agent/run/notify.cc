#include "agent/run/notify.h"

#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <string>

#include "base/fd.h"
#include "base/parse.h"

namespace gpulens {
namespace {

// More files than it needs with everything on; and fewer than it needs when nobody asks anything.
constexpr rlim_t kFilesWanted = 4096, kFilesLeast = 64;

}  // namespace

void NotifyServiceManager(std::string_view state) {
  const char* path = ::getenv("NOTIFY_SOCKET");
  if (!path || (path[0] != '/' && path[0] != '@')) return;
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  size_t length = std::strlen(path);
  if (length >= sizeof address.sun_path) return;
  std::memcpy(address.sun_path, path, length);
  if (path[0] == '@') address.sun_path[0] = '\0';  // the abstract namespace
  UniqueFd fd(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!fd) return;
  auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + length);
  // A manager that does not read must not hold up the agent. A sign of life that is lost is followed by
  // others; for the rest it has a second.
  const int flags = MSG_NOSIGNAL | (state.starts_with("WATCHDOG") ? MSG_DONTWAIT : 0);
  const timeval longest{.tv_sec = 1, .tv_usec = 0};
  ::setsockopt(fd.get(), SOL_SOCKET, SO_SNDTIMEO, &longest, sizeof longest);
  ::sendto(fd.get(), state.data(), state.size(), flags, reinterpret_cast<const sockaddr*>(&address), size);
}

Duration WatchdogInterval() {
  const char* pid = ::getenv("WATCHDOG_PID");
  if (pid && ParseInt<int64_t>(pid) != static_cast<int64_t>(::getpid())) return {};
  const char* period = ::getenv("WATCHDOG_USEC");
  int64_t microseconds = period ? ParseInt<int64_t>(period).value_or(0) : 0;
  return microseconds > 0 ? std::chrono::microseconds(microseconds / 2) : Duration{};
}

Status RaiseFileLimit() {
  rlimit files{};
  if (::getrlimit(RLIMIT_NOFILE, &files) != 0) return Ok();
  if (files.rlim_cur < kFilesWanted) {
    rlimit raised = files;
    raised.rlim_cur = std::min(files.rlim_max, kFilesWanted);
    if (::setrlimit(RLIMIT_NOFILE, &raised) == 0) files = raised;
  }
  if (files.rlim_cur >= kFilesLeast) return Ok();
  return {Code::kExhausted, "the agent may open " + std::to_string(files.rlim_cur) + " files and needs " +
                                std::to_string(kFilesLeast) + ": raise LimitNOFILE, or ulimit -n"};
}

void LeaveNoDump() noexcept { ::prctl(PR_SET_DUMPABLE, 0); }

}  // namespace gpulens
