#include "net/testing/scripted_server.h"

#include <openssl/ssl.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/check.h"
#include "base/parse.h"

namespace gpulens::testing {
namespace {

// OpenSSL's own socket writes without MSG_NOSIGNAL.
void BlockSigpipe() noexcept {
  sigset_t pipe;
  sigemptyset(&pipe);
  sigaddset(&pipe, SIGPIPE);
  ::pthread_sigmask(SIG_BLOCK, &pipe, nullptr);
}

// The Content-Length of a head; 0 without.
size_t BodyBytes(std::string_view head) {
  constexpr std::string_view kName = "\r\nContent-Length: ";
  const size_t at = head.find(kName);
  if (at == head.npos) return 0;
  std::string_view rest = head.substr(at + kName.size());
  return ParseInt<size_t>(TakeUntil(rest, '\r')).value_or(0);
}

}  // namespace

ScriptedServer::Peer::~Peer() { SSL_free(ssl_); }

bool ScriptedServer::Peer::Fill(size_t step) {
  const size_t had = seen_.size();
  seen_.resize(had + step);
  const ssize_t n =
      ssl_ ? SSL_read(ssl_, &seen_[had], static_cast<int>(step)) : ::recv(fd_.get(), &seen_[had], step, 0);
  seen_.resize(had + static_cast<size_t>(std::max<ssize_t>(n, 0)));
  return n > 0;
}

std::string ScriptedServer::Peer::Head() {
  size_t end;
  while ((end = seen_.find("\r\n\r\n")) == std::string::npos) {
    if (!Fill(4096)) return {};
  }
  std::string head = seen_.substr(0, end + 4);
  seen_.erase(0, end + 4);
  return head;
}

std::string ScriptedServer::Peer::Body(const std::string& head, size_t step) {
  const size_t size = BodyBytes(head);
  while (seen_.size() < size && Fill(step)) {
  }
  std::string body = seen_.substr(0, size);
  seen_.erase(0, body.size());
  return body;
}

void ScriptedServer::Peer::Some(size_t size) {
  while (seen_.size() < size && Fill(4096)) {
  }
}

bool ScriptedServer::Peer::Write(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ssl_ ? SSL_write(ssl_, bytes.data(), static_cast<int>(bytes.size()))
                           : ::send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (n <= 0) return false;
    bytes.remove_prefix(static_cast<size_t>(n));
  }
  return true;
}

size_t ScriptedServer::Peer::Linger() {
  size_t bytes = seen_.size();
  for (seen_.clear(); Fill(64u << 10); seen_.clear()) bytes += seen_.size();
  return bytes;
}

void ScriptedServer::Peer::Sit() {
  std::unique_lock lock(server_.mutex_);
  server_.ends_.wait(lock, [&] { return server_.stopping_.load(); });
}

void ScriptedServer::Peer::CloseWithReset() {
  linger off{1, 0};
  ::setsockopt(fd_.get(), SOL_SOCKET, SO_LINGER, &off, sizeof off);
}

ScriptedServer::ScriptedServer(Script script, std::shared_ptr<const TlsContext> tls,
                               const std::string& listen)
    : script_(std::move(script)), tls_(std::move(tls)) {
  auto to = ParseListenAddress(listen);
  CHECK(to.ok());
  sockaddr_storage address{};
  socklen_t size = to->ToSockaddr(address);
  listener_.reset(::socket(address.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  CHECK(::bind(listener_.get(), reinterpret_cast<sockaddr*>(&address), size) == 0);
  CHECK(::listen(listener_.get(), 64) == 0);
  size = sizeof address;
  CHECK(::getsockname(listener_.get(), reinterpret_cast<sockaddr*>(&address), &size) == 0);
  endpoint_ = Endpoint::FromSockaddr(address, size);
  thread_ = std::thread([this] { Accept(); });
}

ScriptedServer::ScriptedServer(Play play, std::shared_ptr<const TlsContext> tls, const std::string& listen)
    : ScriptedServer(
          Script([this, play = std::move(play)](Peer& peer, int number) { Perform(play, peer, number); }),
          std::move(tls), listen) {}

ScriptedServer::~ScriptedServer() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  ends_.notify_all();
  ::shutdown(listener_.get(), SHUT_RDWR);
  thread_.join();
  DropConnections();
  for (const auto& peer : peers_) peer->thread_.join();
}

void ScriptedServer::DropConnections() {
  std::lock_guard lock(mutex_);
  for (const auto& peer : peers_) ::shutdown(peer->fd_.get(), SHUT_RDWR);
}

std::string ScriptedServer::Url(const std::string& path) const {
  return (tls_ ? "https://" : "http://") + endpoint_.ToString() + path;
}

std::vector<std::string> ScriptedServer::requests() const {
  std::lock_guard lock(mutex_);
  return requests_;
}

void ScriptedServer::Accept() {
  while (!stopping_) {
    const int fd = ::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC);
    if (fd < 0) continue;
    std::lock_guard lock(mutex_);
    Peer& kept = *peers_.emplace_back(new Peer(*this, fd));
    kept.thread_ = std::thread([this, &kept, number = connections_++] { Serve(kept, number); });
  }
}

void ScriptedServer::Serve(Peer& peer, int number) {
  BlockSigpipe();
  bool good = true;
  if (tls_) {
    peer.ssl_ = SSL_new(static_cast<SSL_CTX*>(tls_->native()));
    SSL_set_fd(peer.ssl_, peer.fd_.get());
    good = SSL_accept(peer.ssl_) == 1;
  }
  if (good) script_(peer, number);
  if (tls_ && good) SSL_shutdown(peer.ssl_);
  std::lock_guard lock(mutex_);
  peer.fd_.reset();
  ++closed_;
}

void ScriptedServer::Perform(const Play& play, Peer& peer, int number) {
  for (int exchange = 0;; ++exchange) {
    std::string request = peer.Head();
    if (request.empty()) return;
    const std::string body = peer.Body(request);
    if (body.size() < BodyBytes(request)) return;
    request += body;
    {
      std::lock_guard lock(mutex_);
      requests_.push_back(request);
    }
    const Turn turn = play(number, exchange, request);
    const size_t step = turn.step ? turn.step : std::max<size_t>(turn.answer.size(), 1);
    bool more = true;
    do {
      for (size_t at = 0; more && at < turn.answer.size(); at += step)
        more = peer.Write(std::string_view(turn.answer).substr(at, step));
    } while (more && turn.endless);
    if (turn.reset) peer.CloseWithReset();
    if (turn.reset || turn.close) return;
  }
}

std::string Answer200(const std::string& body, const std::string& fields) {
  return "HTTP/1.1 200 OK\r\n" + fields + "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" +
         body;
}

}  // namespace gpulens::testing
