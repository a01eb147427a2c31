#include "net/server/server.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <map>
#include <mutex>
#include <string>

#include "base/files.h"
#include "base/log.h"
#include "base/result.h"
#include "net/blocking/inherited_sockets.h"
#include "net/blocking/listening_socket.h"

namespace gpulens {
namespace {

constexpr int64_t kStalledNs = 1'000'000'000;
// Maximum delay of deadlines, so that a busy server does not re-arm its timer all the time.
constexpr int64_t kGrainNs = 10'000'000;

int64_t NowNs() { return std::chrono::steady_clock::now().time_since_epoch().count(); }

}  // namespace

ConnectionSet::ConnectionSet(IoLoop& loop, std::array<Duration, kPhases> timeouts)
    : loop_(loop), timeouts_(timeouts) {}

ConnectionSet::~ConnectionSet() {
  empty_ = nullptr;
  CloseAll();
  if (timer_) loop_.Cancel(timer_);
}

void ConnectionSet::Link(Connection& connection, Phase phase) {
  List& list = lists_[static_cast<size_t>(phase)];
  connection.phase_ = phase;
  connection.entered_ns_ = NowNs();
  connection.before_ = list.last;
  connection.after_ = nullptr;
  (list.last ? list.last->after_ : list.first) = &connection;
  list.last = &connection;
  Duration timeout = timeouts_[static_cast<size_t>(phase)];
  if (timeout.count() > 0 && (timer_ == 0 || timer_at_ns_ > connection.entered_ns_ + timeout.count())) {
    Arm(connection.entered_ns_ + timeout.count());
  }
}

void ConnectionSet::Unlink(Connection& connection) {
  List& list = lists_[static_cast<size_t>(connection.phase_)];
  (connection.before_ ? connection.before_->after_ : list.first) = connection.after_;
  (connection.after_ ? connection.after_->before_ : list.last) = connection.before_;
  connection.before_ = connection.after_ = nullptr;
}

void ConnectionSet::Add(Connection& connection, Phase phase) {
  connection.Acquire();
  connection.member_ = true;
  ++size_;
  Link(connection, phase);
}

void ConnectionSet::Remove(Connection& connection) {
  if (!connection.member_) return;
  connection.member_ = false;
  Unlink(connection);
  --size_;
  connection.Release();
  if (size_ > 0 || !empty_) return;
  loop_.Post(std::exchange(empty_, nullptr));
}

void ConnectionSet::Enter(Connection& connection, Phase phase) {
  if (!connection.member_) return;
  Unlink(connection);
  Link(connection, phase);
}

bool ConnectionSet::CloseOne() {
  for (Phase phase : {Phase::kLinger, Phase::kRequest, Phase::kIdle, Phase::kWrite}) {
    Connection* oldest = lists_[static_cast<size_t>(phase)].first;
    if (!oldest || (phase == Phase::kWrite && NowNs() - oldest->entered_ns_ < kStalledNs)) continue;
    oldest->Close();
    return true;
  }
  return false;
}

void ConnectionSet::CloseAll() {
  for (List& list : lists_) {
    while (list.first) list.first->Close();
  }
}

void ConnectionSet::FinishAll() {
  for (List& list : lists_) {
    // FinishAndClose may unlink its own connection or move it to another list, never another one.
    for (Connection* each = list.first; each;) {
      Connection* next = each->after_;
      each->FinishAndClose();
      each = next;
    }
  }
}

void ConnectionSet::OnEmpty(std::function<void()> empty) {
  if (size_ == 0) return loop_.Post(std::move(empty));
  empty_ = std::move(empty);
}

void ConnectionSet::Arm(int64_t at_ns) {
  if (timer_) loop_.Cancel(timer_);
  timer_at_ns_ = at_ns;
  timer_ = loop_.After(Duration(std::max<int64_t>(at_ns - NowNs(), 0) + kGrainNs), [this] {
    timer_ = 0;
    Expire();
  });
}

void ConnectionSet::Expire() {
  int64_t next = 0;
  for (size_t i = 0; i < kPhases; ++i) {
    if (timeouts_[i].count() == 0) continue;
    // A connection that enters the same phase again has a later time, so this ends.
    int64_t now = NowNs();
    while (Connection* first = lists_[i].first) {
      int64_t due = first->entered_ns_ + timeouts_[i].count();
      if (due > now) {
        if (next == 0 || due < next) next = due;
        break;
      }
      Ref<Connection> guard(first);
      first->OnDeadline(static_cast<Phase>(i));
    }
  }
  if (next != 0 && (timer_ == 0 || timer_at_ns_ > next)) Arm(next);
}

namespace {

// Accepted in one turn; a flood would otherwise starve the present clients.
constexpr int kAcceptsPerTurn = 32;
constexpr Duration kBackOff = std::chrono::milliseconds(100);

}  // namespace

// A listening socket, whose Stream only waits for readability.
class Listeners::Listener final : public StreamHandler {
 public:
  Listener(Listeners& owner, Stream stream) : at_(stream.local()), owner_(owner), stream_(std::move(stream)) {
    stream_.SetHandler(this);
    stream_.WaitReadable();
  }
  ~Listener() {
    if (timer_) owner_.loop_.Cancel(timer_);
    if (at_.family == Endpoint::Family::kUnix && !IsInherited(at_)) ::unlink(at_.path.c_str());
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
  // False when no client waits, or when accepting pauses.
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

  // Without room, accepts the client with the spare descriptor and drops it.
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
  all_.push_back(std::make_unique<Listener>(*this, std::move(stream)));
  return all_.back()->at();
}

void Listeners::Remove(const Endpoint& at) {
  std::erase_if(all_, [&at](const auto& listener) { return listener->at() == at; });
}

void Listeners::RemoveAll() { all_.clear(); }

std::vector<Endpoint> Listeners::addresses() const {
  std::vector<Endpoint> found;
  for (const auto& listener : all_) found.push_back(listener->at());
  return found;
}

Result<std::shared_ptr<SharedSocket>> SharedSocket::Get(const Endpoint& at) {
  static std::mutex mutex;
  static std::map<std::string, std::weak_ptr<SharedSocket>> sockets;
  const bool shared = at.family != Endpoint::Family::kUnix && at.port != 0;
  std::lock_guard lock(mutex);
  std::erase_if(sockets, [](const auto& item) { return item.second.expired(); });
  if (shared) {
    if (auto found = sockets.find(at.ToString()); found != sockets.end()) {
      if (auto socket = found->second.lock()) return socket;
    }
  }
  ASSIGN_OR_RETURN(UniqueFd fd, OpenListeningSocket(at));
  std::shared_ptr<SharedSocket> socket(new SharedSocket(std::move(fd), at));
  if (shared) sockets[at.ToString()] = socket;
  return socket;
}

Result<UniqueFd> SharedSocket::Copy() const {
  UniqueFd copy(::fcntl(fd_.get(), F_DUPFD_CLOEXEC, 0));
  if (!copy) return ErrnoStatus("listen on " + at_.ToString(), errno);
  return copy;
}

Server::Core::Core(const Dependencies& dependencies)
    : dependencies_(dependencies), listeners_(dependencies.loop, *this) {}

Server::Core::~Core() {
  if (deadline_) dependencies_.loop.Cancel(deadline_);
}

bool Server::Core::Admit() {
  dependencies_.stats.accepted.fetch_add(1, std::memory_order_relaxed);
  return dependencies_.connections.size() < dependencies_.max_connections || MakeRoom();
}

void Server::Core::OnAccept(UniqueFd socket, const Endpoint& peer) {
  if (!Admit()) return;
  static const auto kPlain = std::make_shared<const WebRules>();
  auto rules = dependencies_.authenticator ? dependencies_.authenticator->Rules() : kPlain;
  auto stream = Stream::Adopt(dependencies_.loop, std::move(socket), rules->tls, {}, dependencies_.protocol);
  if (!stream) return dependencies_.stats.Refused(Refusal::kLimit);
  Serve(*std::move(stream), peer, std::move(rules));
}

bool Server::Core::MakeRoom() {
  dependencies_.stats.Refused(Refusal::kLimit);
  return dependencies_.connections.CloseOne();
}

Server::Server(IoLoop& loop, std::unique_ptr<Core> core) : loop_(loop), core_(std::move(core)) {}

Server::~Server() {
  loop_.Call([this] { core_ = nullptr; });
}

Result<Endpoint> Server::Listen(const Endpoint& at) {
  ASSIGN_OR_RETURN(UniqueFd socket, OpenListeningSocket(at));
  return Listen(std::move(socket));
}

Result<Endpoint> Server::Listen(UniqueFd listening) {
  Result<Endpoint> added = Status{Code::kIo, "not run"};
  loop_.Call([&] { added = core_->listeners_.Add(std::move(listening)); });
  return added;
}

void Server::StopListening(const Endpoint& at) {
  loop_.Call([&] { core_->listeners_.Remove(at); });
}

std::vector<Endpoint> Server::addresses() const {
  std::vector<Endpoint> found;
  loop_.Call([&] { found = core_->listeners_.addresses(); });
  return found;
}

void Server::Shutdown(Duration deadline, std::function<void()> done) {
  loop_.Call([&] {
    core_->listeners_.RemoveAll();
    ConnectionSet& connections = core_->dependencies_.connections;
    core_->deadline_ = loop_.After(deadline, [core = core_.get(), &connections] {
      core->deadline_ = 0;
      connections.CloseAll();
    });
    connections.OnEmpty(std::move(done));
    connections.FinishAll();
  });
}

}  // namespace gpulens
