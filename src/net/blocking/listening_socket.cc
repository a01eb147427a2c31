#include "net/blocking/listening_socket.h"

#include <dirent.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <vector>

#include "base/files.h"
#include "base/parse.h"
#include "base/process_files.h"
#include "net/blocking/inherited_sockets.h"

namespace gpulens {
namespace {

constexpr int kPacketBacklog = 64;
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

// Removes the file of a server that is gone, which refuses connections.
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
  if (std::optional<UniqueFd> inherited = InheritedSocketAt(at)) return *std::move(inherited);
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

namespace {

struct CloseDir {
  void operator()(DIR* folder) const { ::closedir(folder); }
};
using DirPtr = std::unique_ptr<DIR, CloseDir>;

// Adds the inodes of the sockets that listen on `port`.
void AddListening(const char* table, uint16_t port, std::vector<uint64_t>& inodes) {
  auto text = ReadFile(table, 16 << 20);
  if (!text) return;
  std::string_view rest = *text;
  TakeUntil(rest, '\n');
  while (!rest.empty()) {
    std::string_view line = TakeUntil(rest, '\n');
    std::string_view fields[10];
    for (auto& field : fields) {
      line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));
      field = TakeUntil(line, ' ');
    }
    size_t colon = fields[1].rfind(':');
    if (fields[3] != "0A" || colon == std::string_view::npos) continue;  // 0A: TCP_LISTEN
    if (ParseInt<uint16_t>(fields[1].substr(colon + 1), 16) == port) {
      if (const auto inode = ParseInt<uint64_t>(fields[9])) inodes.push_back(*inode);
    }
  }
}

bool HoldsOne(const std::string& fd_folder, const std::vector<uint64_t>& inodes) {
  constexpr size_t kMostDescriptors = 65'536;
  const auto sockets = SocketsOfProcess(fd_folder, kMostDescriptors);
  return sockets && std::ranges::find_first_of(*sockets, inodes) != sockets->end();
}

}  // namespace

Result<UniqueFd> OpenPacketSocket(const std::string& path) {
  sockaddr_un at{};
  at.sun_family = AF_UNIX;
  if (path.size() >= sizeof at.sun_path)
    return Status{Code::kInvalidArgument, "the path of the socket is too long: " + path};
  path.copy(at.sun_path, sizeof at.sun_path - 1);
  const auto* name = reinterpret_cast<const sockaddr*>(&at);
  // A socket of another agent answers; a stale one does not.
  UniqueFd querying(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!querying) return ErrnoStatus("socket", errno);
  if (::connect(querying.get(), name, sizeof at) == 0 || errno == EAGAIN)
    return Status{Code::kUnavailable, "another agent listens at " + path};
  if (errno == ECONNREFUSED) ::unlink(path.c_str());
  UniqueFd socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket) return ErrnoStatus("socket", errno);
  if (::bind(socket.get(), name, sizeof at) != 0) return ErrnoStatus("bind " + path, errno);
  if (::chmod(path.c_str(), 0666) != 0) return ErrnoStatus("chmod " + path, errno);
  if (::listen(socket.get(), kPacketBacklog) != 0) return ErrnoStatus("listen " + path, errno);
  return socket;
}

std::string FindPortOwner(const Endpoint& at) {
  std::vector<uint64_t> inodes;
  if (at.family == Endpoint::Family::kUnix) return {};
  AddListening("/proc/net/tcp", at.port, inodes);
  AddListening("/proc/net/tcp6", at.port, inodes);
  if (inodes.empty()) return {};
  DirPtr proc(::opendir("/proc"));
  while (const dirent* entry = proc ? ::readdir(proc.get()) : nullptr) {
    std::string_view name = entry->d_name;
    if (!ParseInt<int>(name)) continue;
    std::string base = "/proc/" + std::string(name);
    if (!HoldsOne(base + "/fd", inodes)) continue;
    auto command = ReadFile(base + "/comm");
    return (command ? std::string(Trim(*command)) : "a process") + " (pid " + std::string(name) + ")";
  }
  return {};
}

}  // namespace gpulens
