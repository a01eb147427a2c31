#include "net/accept/listening_socket.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "base/files.h"
#include "net/accept/port_owner.h"

namespace gpulens {
namespace {

constexpr int kBacklog = 4096;  // the kernel cuts it to net.core.somaxconn

Status ListenError(const Endpoint& at, int error) {
  Status status = ErrnoStatus("listen on " + at.ToString(), error);
  if (error == EADDRINUSE) {
    status.detail = "listen on " + at.ToString() + ": address already in use";
    if (std::string owner = FindPortOwner(at); !owner.empty()) status.detail += " by " + owner;
  } else if (error == EADDRNOTAVAIL) {
    status.detail += " (no interface of this machine has it)";
  }
  return status;
}

// The file of a server that is gone refuses connections; that of a live one must not be taken away.
void RemoveDeadSocketFile(const sockaddr_storage& address, socklen_t size, const std::string& path) {
  struct stat info{};
  if (::lstat(path.c_str(), &info) != 0 || !S_ISSOCK(info.st_mode)) return;
  UniqueFd probe(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (::connect(probe.get(), reinterpret_cast<const sockaddr*>(&address), size) != 0 &&
      errno == ECONNREFUSED) {
    ::unlink(path.c_str());
  }
}

}  // namespace

Result<UniqueFd> OpenListeningSocket(const Endpoint& at) {
  sockaddr_storage address{};
  socklen_t size = at.ToSockaddr(address);
  if (size == 0) return Status{Code::kInvalidArgument, "listen: no address"};
  UniqueFd socket(::socket(address.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket && errno == EAFNOSUPPORT && at.any_family) {
    Endpoint ipv4;
    ipv4.family = Endpoint::Family::kIpv4;
    ipv4.port = at.port;
    return OpenListeningSocket(ipv4);
  }
  if (!socket) return ListenError(at, errno);
  int on = 1, off = 0;
  if (at.family == Endpoint::Family::kUnix) {
    RemoveDeadSocketFile(address, size, at.path);
  } else {
    ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  }
  if (at.family == Endpoint::Family::kIpv6) {
    int& only = at.any_family ? off : on;
    ::setsockopt(socket.get(), IPPROTO_IPV6, IPV6_V6ONLY, &only, sizeof(only));
  }
  if (::bind(socket.get(), reinterpret_cast<sockaddr*>(&address), size) != 0 ||
      ::listen(socket.get(), kBacklog) != 0) {
    return ListenError(at, errno);
  }
  return socket;
}

}  // namespace gpulens
