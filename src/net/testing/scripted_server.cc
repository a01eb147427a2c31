#include "net/testing/scripted_server.h"

#include <openssl/ssl.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/check.h"
#include "base/parse.h"

namespace gpulens::testing {

void BlockSigpipe() noexcept {
  sigset_t pipe;
  sigemptyset(&pipe);
  sigaddset(&pipe, SIGPIPE);
  ::pthread_sigmask(SIG_BLOCK, &pipe, nullptr);
}

struct ScriptedServer::Peer {
  UniqueFd fd;
  SSL* ssl = nullptr;
  std::thread thread;

  ~Peer() { SSL_free(ssl); }
  ssize_t Read(char* into, size_t size) {
    return ssl ? SSL_read(ssl, into, static_cast<int>(size)) : ::recv(fd.get(), into, size, 0);
  }
  bool Write(const char* from, size_t size) {
    while (size > 0) {
      ssize_t n =
          ssl ? SSL_write(ssl, from, static_cast<int>(size)) : ::send(fd.get(), from, size, MSG_NOSIGNAL);
      if (n <= 0) return false;
      from += n;
      size -= static_cast<size_t>(n);
    }
    return true;
  }
  bool WriteInSteps(const std::string& bytes, size_t step) {
    if (step == 0) step = bytes.size();
    for (size_t at = 0; at < bytes.size(); at += step) {
      if (!Write(bytes.data() + at, std::min(step, bytes.size() - at))) return false;
    }
    return true;
  }
};

ScriptedServer::ScriptedServer(Play play, std::shared_ptr<const TlsContext> tls, const std::string& listen)
    : play_(std::move(play)), tls_(std::move(tls)) {
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

ScriptedServer::~ScriptedServer() {
  stopping_ = true;
  ::shutdown(listener_.get(), SHUT_RDWR);
  thread_.join();
  DropConnections();
  for (const auto& peer : peers_) peer->thread.join();
}

void ScriptedServer::DropConnections() {
  std::lock_guard lock(mutex_);
  for (const auto& peer : peers_) ::shutdown(peer->fd.get(), SHUT_RDWR);
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
    int fd = ::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC);
    if (fd < 0) continue;
    auto peer = std::make_unique<Peer>();
    peer->fd.reset(fd);
    std::lock_guard lock(mutex_);
    Peer& kept = *peers_.emplace_back(std::move(peer));
    kept.thread = std::thread([this, &kept, number = connections_++] { Serve(kept, number); });
  }
}

namespace {
// What Content-Length says in this head; 0 without.
size_t BodyBytes(std::string_view head) {
  constexpr std::string_view kName = "\r\nContent-Length: ";
  const size_t at = head.find(kName);
  if (at == head.npos) return 0;
  std::string_view rest = head.substr(at + kName.size());
  return ParseInt<size_t>(TakeUntil(rest, '\r')).value_or(0);
}

}  // namespace

void ScriptedServer::Serve(Peer& peer, int number) {
  BlockSigpipe();
  if (tls_) {
    peer.ssl = SSL_new(static_cast<SSL_CTX*>(tls_->native()));
    SSL_set_fd(peer.ssl, peer.fd.get());
    if (SSL_accept(peer.ssl) != 1) {
      ::shutdown(peer.fd.get(), SHUT_RDWR);
      return;
    }
  }
  std::string seen;
  char buffer[4096];
  for (int exchange = 0;; ++exchange) {
    size_t end;
    while ((end = seen.find("\r\n\r\n")) == std::string::npos) {
      ssize_t n = peer.Read(buffer, sizeof buffer);
      if (n <= 0) return;
      seen.append(buffer, static_cast<size_t>(n));
    }
    const size_t whole = end + 4 + BodyBytes(std::string_view(seen).substr(0, end));
    while (seen.size() < whole) {
      ssize_t n = peer.Read(buffer, sizeof buffer);
      if (n <= 0) return;
      seen.append(buffer, static_cast<size_t>(n));
    }
    std::string request = seen.substr(0, whole);
    seen.erase(0, whole);
    {
      std::lock_guard lock(mutex_);
      requests_.push_back(request);
    }
    Turn turn = play_(number, exchange, request);
    while (peer.WriteInSteps(turn.answer, turn.step) && turn.endless) {
    }
    if (turn.reset) {
      linger off{1, 0};
      ::setsockopt(peer.fd.get(), SOL_SOCKET, SO_LINGER, &off, sizeof off);
      std::lock_guard lock(mutex_);
      peer.fd.reset();
      return;
    }
    if (turn.close) {
      if (peer.ssl) SSL_shutdown(peer.ssl);
      ::shutdown(peer.fd.get(), SHUT_RDWR);
      return;
    }
  }
}

std::string Answer200(const std::string& body, const std::string& fields) {
  return "HTTP/1.1 200 OK\r\n" + fields + "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" +
         body;
}

}  // namespace gpulens::testing
