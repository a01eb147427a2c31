#include "net/accept/listener.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>

#include "base/log.h"
#include "base/result.h"

namespace gpulens {
namespace {

// After so many the other sockets have their turn, or a flood would starve the clients already here.
constexpr int kAcceptsPerTurn = 32;
constexpr Duration kBackOff = std::chrono::milliseconds(100);

}  // namespace

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
