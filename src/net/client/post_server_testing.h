// A blocking server for tests of requests with a body: a script reads as much as it likes, and answers when
// it likes.
#pragma once

#include <openssl/ssl.h>
#include <sys/socket.h>

#include <atomic>
#include <charconv>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/check.h"
#include "base/fd.h"
#include "net/message/address.h"
#include "net/testing/scripted_server.h"
#include "net/tls.h"

namespace gpulens::testing {

// Thread-safe. Every connection has a thread, which runs the script and then closes: with a reset, as the
// kernel does, when not all that came was read. Destruction ends all connections and waits for the scripts.
class PostServer {
 public:
  // The server's side of a connection. All of it returns early when the connection ends.
  class Peer {
   public:
    // The next request's head, with the blank line; empty when none comes.
    std::string Head() {
      size_t end;
      while ((end = seen_.find("\r\n\r\n")) == std::string::npos) {
        if (!Fill(4096)) return {};
      }
      std::string head = seen_.substr(0, end + 4);
      seen_.erase(0, end + 4);
      return head;
    }
    // The body that a head announces, up to `step` bytes a read; fewer when the connection ends.
    std::string Body(const std::string& head, size_t step = 64u << 10) {
      size_t size = LengthOf(head);
      while (seen_.size() < size && Fill(step)) {
      }
      std::string body = seen_.substr(0, size);
      seen_.erase(0, body.size());
      return body;
    }
    // Some of a body and not the rest of it.
    void Some(size_t size) {
      while (seen_.size() < size && Fill(4096)) {
      }
    }
    bool Write(std::string_view bytes) {
      while (!bytes.empty()) {
        ssize_t n = ssl_ ? SSL_write(ssl_, bytes.data(), static_cast<int>(bytes.size()))
                         : ::send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
        if (n <= 0) return false;
        bytes.remove_prefix(static_cast<size_t>(n));
      }
      return true;
    }
    // Reads and drops everything until the client leaves. How much that was.
    size_t Linger() {
      size_t bytes = seen_.size();
      for (seen_.clear(); Fill(64u << 10); seen_.clear()) bytes += seen_.size();
      return bytes;
    }
    // Neither reads nor closes until the server ends.
    void Sit() {
      std::unique_lock lock(server_.mutex_);
      server_.ends_.wait(lock, [&] { return server_.stopping_.load(); });
    }
    void CloseWithReset() {
      linger off{1, 0};
      ::setsockopt(fd_.get(), SOL_SOCKET, SO_LINGER, &off, sizeof off);
    }

   private:
    friend class PostServer;
    explicit Peer(PostServer& server) : server_(server) {}

    static size_t LengthOf(const std::string& head) {
      constexpr std::string_view kName = "\r\nContent-Length: ";
      size_t at = head.find(kName), size = 0;
      if (at == std::string::npos) return 0;
      at += kName.size();
      std::from_chars(head.data() + at, head.data() + head.size(), size);
      return size;
    }
    bool Fill(size_t step) {
      size_t had = seen_.size();
      seen_.resize(had + step);
      ssize_t n = ssl_ ? SSL_read(ssl_, &seen_[had], static_cast<int>(step))
                       : ::recv(fd_.get(), &seen_[had], step, 0);
      seen_.resize(had + static_cast<size_t>(std::max<ssize_t>(n, 0)));
      return n > 0;
    }

    PostServer& server_;
    UniqueFd fd_;  // closed under the server's mutex
    SSL* ssl_ = nullptr;
    std::string seen_;
    std::thread thread_;
  };
  // `connection` counts from 0. Called by several threads.
  using Script = std::function<void(Peer& peer, int connection)>;

  explicit PostServer(Script script, std::shared_ptr<const TlsContext> tls = nullptr,
                      const std::string& listen = "127.0.0.1:0")
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
  ~PostServer() {
    {
      std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    ends_.notify_all();
    ::shutdown(listener_.get(), SHUT_RDWR);
    thread_.join();
    {
      std::lock_guard lock(mutex_);
      for (const auto& peer : peers_) ::shutdown(peer->fd_.get(), SHUT_RDWR);
    }
    for (const auto& peer : peers_) peer->thread_.join();
  }

  const Endpoint& endpoint() const noexcept { return endpoint_; }
  std::string Url(const std::string& path) const {
    return (tls_ ? "https://" : "http://") + endpoint_.ToString() + path;
  }
  int connections() const noexcept { return connections_; }
  // Connections whose script has ended, and which are closed.
  int closed() const noexcept { return closed_; }

 private:
  void Accept() {
    while (!stopping_) {
      int fd = ::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC);
      if (fd < 0) continue;
      std::unique_ptr<Peer> peer(new Peer(*this));
      peer->fd_.reset(fd);
      std::lock_guard lock(mutex_);
      Peer& kept = *peers_.emplace_back(std::move(peer));
      kept.thread_ = std::thread([this, &kept, number = connections_++] { Serve(kept, number); });
    }
  }

  void Serve(Peer& peer, int number) {
    BlockSigpipe();
    bool good = true;
    if (tls_) {
      peer.ssl_ = SSL_new(static_cast<SSL_CTX*>(tls_->native()));
      SSL_set_fd(peer.ssl_, peer.fd_.get());
      good = SSL_accept(peer.ssl_) == 1;
    }
    if (good) script_(peer, number);
    if (tls_ && good) SSL_shutdown(peer.ssl_);
    SSL_free(peer.ssl_);
    std::lock_guard lock(mutex_);
    peer.fd_.reset();
    ++closed_;
  }

  const Script script_;
  const std::shared_ptr<const TlsContext> tls_;
  Endpoint endpoint_;
  UniqueFd listener_;
  std::atomic<int> connections_{0}, closed_{0};
  std::atomic<bool> stopping_{false};  // set under the mutex
  std::mutex mutex_;                   // guards what follows
  std::condition_variable ends_;
  std::vector<std::unique_ptr<Peer>> peers_;
  std::thread thread_;
};

}  // namespace gpulens::testing
