#include "base/service_manager.h"

#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>

#include <cstddef>
#include <cstdlib>
#include <cstring>

#include "base/fd.h"

namespace gpulens {

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
  // A manager that does not read must not hold up who sends. A sign of life that is lost is followed by
  // others; for the rest it has a second.
  const int flags = MSG_NOSIGNAL | (state.starts_with("WATCHDOG") ? MSG_DONTWAIT : 0);
  const timeval longest{.tv_sec = 1, .tv_usec = 0};
  ::setsockopt(fd.get(), SOL_SOCKET, SO_SNDTIMEO, &longest, sizeof longest);
  ::sendto(fd.get(), state.data(), state.size(), flags, reinterpret_cast<const sockaddr*>(&address), size);
}

}  // namespace gpulens
