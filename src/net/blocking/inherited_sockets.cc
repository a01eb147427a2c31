#include "net/blocking/inherited_sockets.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <mutex>
#include <utility>

#include "base/parse.h"
#include "base/result.h"
#include "base/text.h"

namespace gpulens {
namespace {

constexpr int kMostSockets = 64;

struct InheritedSocket {
  UniqueFd fd;
  Endpoint at;
  std::string name;
};

struct InheritedSockets {
  std::mutex mutex;
  std::vector<InheritedSocket> all;
};

InheritedSockets& Inherited() {
  static InheritedSockets sockets;
  return sockets;
}

std::string TakeVariable(const char* name) {
  const char* value = ::getenv(name);
  std::string text = value ? value : "";
  ::unsetenv(name);
  return text;
}

bool HasOption(int fd, int level, int option) {
  int value = 0;
  socklen_t size = sizeof value;
  return ::getsockopt(fd, level, option, &value, &size) == 0 && value != 0;
}

// The address at which the socket listens. kInvalidArgument: it does not, or has none that can be configured.
Result<Endpoint> ListenAddressOf(int fd) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  int type = 0;
  socklen_t type_size = sizeof type;
  if (::getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &type_size) != 0 || type != SOCK_STREAM ||
      !HasOption(fd, SOL_SOCKET, SO_ACCEPTCONN) ||
      ::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) != 0)
    return Status{Code::kInvalidArgument, "it is no listening stream socket"};
  Endpoint at = Endpoint::FromSockaddr(address, size);
  const bool abstract = at.family == Endpoint::Family::kUnix && at.path.empty();
  if (at.family == Endpoint::Family::kNone || abstract)
    return Status{Code::kInvalidArgument, "its address is none of IPv4, IPv6 and a Unix socket's file"};
  at.any_family = at.family == Endpoint::Family::kIpv6 && at.ip == decltype(at.ip){} &&
                  !HasOption(fd, IPPROTO_IPV6, IPV6_V6ONLY);
  return at;
}

bool SameAddress(const Endpoint& inherited, const Endpoint& at) {
  // A listener reports the address without any_family.
  Endpoint plain = inherited;
  plain.any_family = false;
  return at == inherited || at == plain;
}

const InheritedSocket* FindInherited(const InheritedSockets& sockets, const Endpoint& at) {
  for (const InheritedSocket& each : sockets.all) {
    if (SameAddress(each.at, at)) return &each;
  }
  return nullptr;
}

// Open descriptors of this process that are the same socket.
size_t DescriptorsOf(const struct stat& socket, int limit) {
  size_t found = 0;
  for (int fd = 0; fd < limit; ++fd) {
    struct stat other{};
    found +=
        ::fstat(fd, &other) == 0 && other.st_ino == socket.st_ino && other.st_dev == socket.st_dev ? 1 : 0;
  }
  return found;
}

}  // namespace

Status TakeInheritedSockets(int first) {
  const std::string pid = TakeVariable("LISTEN_PID"), count_text = TakeVariable("LISTEN_FDS"),
                    names_text = TakeVariable("LISTEN_FDNAMES");
  if (ParseInt<int64_t>(pid) != static_cast<int64_t>(::getpid())) return Ok();
  const std::optional<int> count = ParseInt<int>(count_text);
  if (!count || *count < 0 || *count > kMostSockets)
    return {Code::kInvalidArgument, "LISTEN_FDS is \"" + Printable(count_text) +
                                        "\", and no number from 0 to " + std::to_string(kMostSockets)};
  std::vector<InheritedSocket> taken;
  std::string_view names = names_text;
  for (int fd = first; fd < first + *count; ++fd) {
    const std::string name = Printable(TakeUntil(names, ':'));
    Result<Endpoint> at = ListenAddressOf(fd);
    if (!at)
      return {at.error().code, "the service manager hands over descriptor " + std::to_string(fd) +
                                   (name.empty() ? "" : " (" + name + ")") + ": " + at.error().detail};
    ::fcntl(fd, F_SETFD, FD_CLOEXEC);
    ::fcntl(fd, F_SETFL, ::fcntl(fd, F_GETFL) | O_NONBLOCK);
    taken.push_back({UniqueFd(fd), *std::move(at), name});
  }
  std::lock_guard lock(Inherited().mutex);
  Inherited().all = std::move(taken);
  return Ok();
}

std::optional<UniqueFd> InheritedSocketAt(const Endpoint& at) {
  std::lock_guard lock(Inherited().mutex);
  const InheritedSocket* found = FindInherited(Inherited(), at);
  if (!found) return std::nullopt;
  UniqueFd copy(::fcntl(found->fd.get(), F_DUPFD_CLOEXEC, 0));
  if (!copy) return std::nullopt;
  return copy;
}

bool IsInherited(const Endpoint& at) {
  std::lock_guard lock(Inherited().mutex);
  return FindInherited(Inherited(), at) != nullptr;
}

std::vector<std::string> UnusedInheritedSockets() {
  std::vector<std::string> unused;
  std::lock_guard lock(Inherited().mutex);
  if (Inherited().all.empty()) return unused;
  rlimit files{};
  ::getrlimit(RLIMIT_NOFILE, &files);
  // What the agent needs at its start has low numbers.
  const int limit = static_cast<int>(std::min<rlim_t>(files.rlim_cur, 4096));
  for (const InheritedSocket& each : Inherited().all) {
    struct stat socket{};
    if (::fstat(each.fd.get(), &socket) != 0 || DescriptorsOf(socket, limit) > 1) continue;
    unused.push_back(each.at.ToString() + (each.name.empty() ? "" : " (" + each.name + ")"));
  }
  return unused;
}

void ForgetInheritedSockets() {
  std::lock_guard lock(Inherited().mutex);
  Inherited().all.clear();
}

}  // namespace gpulens
