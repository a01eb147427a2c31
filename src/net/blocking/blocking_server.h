// An HTTP server of pages (GET, HEAD) for programs without an I/O loop: one thread, a few connections, no
// TLS. Slow clients are closed. At the limit a new connection replaces the one closest to its deadline, or
// waits in the kernel's queue while all are being answered. Requests of foreign web pages are refused
// (net/message/request_origin.h). Links neither Asio nor OpenSSL.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include <gpulens/status.h>

#include "base/clock.h"
#include "base/fd.h"
#include "net/message/address.h"
#include "net/message/http_message.h"

namespace gpulens {

class BlockingServer {
 public:
  // Called on the thread of Serve.
  using Page = std::function<HttpResponse(const HttpRequest& request)>;
  struct Limits {
    size_t connections = 16;
    Duration request = std::chrono::seconds(10);  // from the accept to the end of the request
    Duration answer = std::chrono::seconds(30);   // to receive the response
  };

  // Listens. Errors are those of OpenListeningSocket.
  static Result<std::unique_ptr<BlockingServer>> Open(const Endpoint& at, Page page, const Limits& limits);
  static Result<std::unique_ptr<BlockingServer>> Open(const Endpoint& at, Page page) {
    return Open(at, std::move(page), Limits());
  }
  ~BlockingServer();
  BlockingServer(const BlockingServer&) = delete;
  BlockingServer& operator=(const BlockingServer&) = delete;

  const Endpoint& address() const noexcept { return at_; }
  // Serves on the calling thread until Stop.
  void Serve();
  // Any thread; also before Serve, which then returns at once.
  void Stop() noexcept;
  // In the child after a fork: closes its copies of the parent's sockets, so that the port is free when the
  // parent ends. Unusable afterwards.
  void LeaveBehind() noexcept;

 private:
  struct Client;
  BlockingServer(UniqueFd listening, UniqueFd stop, Endpoint at, Page page, const Limits& limits);
  bool Full() const noexcept;
  void Accept(int64_t now_ns);
  void Turn(Client& client, int64_t now_ns);
  bool Read(Client& client, int64_t now_ns);
  void Answer(Client& client, HttpResponse response, bool head_only, int64_t now_ns);
  bool Write(Client& client, int64_t now_ns);

  const UniqueFd listening_, stop_;
  const Endpoint at_;
  const Page page_;
  const Limits limits_;
  std::vector<std::unique_ptr<Client>> clients_;
};

}  // namespace gpulens
