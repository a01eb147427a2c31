#include "net/accept/listener.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "base/files.h"
#include "base/log.h"
#include "base/result.h"
#include "net/accept/port_owner.h"

namespace gpulens {
namespace {

constexpr int kBacklog = 4096;  // the kernel cuts it to net.core.somaxconn
// After so many the other sockets have their turn, or a flood would starve the clients already here.
constexpr int kAcceptsPerTurn = 32;
constexpr Duration kBackOff = std::chrono::milliseconds(100);

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

// Waits on the listening socket by a Stream, which is only asked for readability.
class Listeners::One final : public StreamHandler {
 public:
  One(Listeners& owner, Stream stream) : at_(stream.local()), owner_(owner), stream_(std::move(stream)) {
    stream_.SetHandler(this);
    stream_.WaitReadable();
  }
  ~One() {
    if (timer_) owner_.loop_.Cancel(timer_);
    if (at_.family == Endpoint::Family::kUnix) ::unlink(at_.path.c_str());
  }
  const Endpoint& at() const noexcept { return at_; }

  void OnReadable() override {
    for (int i = 0; i < kAcceptsPerTurn && stream_; ++i) {
      if (AcceptOne()) continue;
      if (timer_ != 0) return;
      break;
    }
    stream_.WaitReadable();
  }
  void OnWritable() override {}

 private:
  // False when nobody waits, or when accepting has to rest.
  bool AcceptOne() {
    sockaddr_storage address{};
    socklen_t size = sizeof(address);
    UniqueFd socket(
        ::accept4(stream_.fd(), reinterpret_cast<sockaddr*>(&address), &size, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (socket) {
      owner_.acceptor_.OnAccept(std::move(socket), Endpoint::FromSockaddr(address, size));
      return true;
    }
    if (errno == EAGAIN) return false;
    if (errno != EMFILE && errno != ENFILE && errno != ENOBUFS && errno != ENOMEM) return true;
    return Exhausted();
  }

  // Room first; where that does not help, the spare descriptor takes the client in and drops it.
  bool Exhausted() {
    Log(LogLevel::kWarn, "net", "out_of_descriptors",
        "no file descriptor left for a new connection; raise LimitNOFILE", at_.ToString());
    if (owner_.acceptor_.MakeRoom()) return true;
    owner_.spare_.reset();
    UniqueFd turned_away(::accept4(stream_.fd(), nullptr, nullptr, SOCK_CLOEXEC));
    turned_away.reset();
    owner_.spare_.reset(::open("/dev/null", O_RDONLY | O_CLOEXEC));
    timer_ = owner_.loop_.After(kBackOff, [this] {
      timer_ = 0;
      stream_.WaitReadable();
    });
    return false;
  }

  Endpoint at_;
  Listeners& owner_;
  Stream stream_;
  IoLoop::TimerId timer_ = 0;
};

Listeners::Listeners(IoLoop& loop, Acceptor& acceptor)
    : loop_(loop), acceptor_(acceptor), spare_(::open("/dev/null", O_RDONLY | O_CLOEXEC)) {}
Listeners::~Listeners() = default;

Result<Endpoint> Listeners::Add(UniqueFd listening) {
  ASSIGN_OR_RETURN(Stream stream, Stream::Adopt(loop_, std::move(listening)));
  all_.push_back(std::make_unique<One>(*this, std::move(stream)));
  return all_.back()->at();
}

void Listeners::Remove(const Endpoint& at) {
  std::erase_if(all_, [&at](const auto& one) { return one->at() == at; });
}

void Listeners::RemoveAll() { all_.clear(); }

std::vector<Endpoint> Listeners::addresses() const {
  std::vector<Endpoint> found;
  for (const auto& one : all_) found.push_back(one->at());
  return found;
}

}  // namespace gpulens
