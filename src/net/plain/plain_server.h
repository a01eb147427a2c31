// Pages for GET and HEAD, for programs that have no I/O loop: one thread waits for a few connections at once,
// in the clear. Slow clients are closed; one too many takes the place of whoever has said least for longest,
// or waits in the kernel's queue while all are being answered. Web pages elsewhere are refused
// (net/accept/visitor.h). Its parts are small, and it links neither Asio nor OpenSSL.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <gpulens/status.h>

#include "base/clock.h"
#include "base/fd.h"
#include "net/address.h"
#include "net/http/http_message.h"

namespace gpulens {

class PlainServer {
 public:
  // Called by the thread that serves.
  using Page = std::function<HttpResponse(const HttpRequest& request)>;
  struct Limits {
    size_t connections = 16;
    Duration request = std::chrono::seconds(10);  // from the accept to the end of the request
    Duration answer = std::chrono::seconds(30);   // to take all of the answer
  };

  // Listens when it returns; errors are those of OpenListeningSocket.
  static Result<std::unique_ptr<PlainServer>> Open(const Endpoint& at, Page page, const Limits& limits);
  static Result<std::unique_ptr<PlainServer>> Open(const Endpoint& at, Page page) {
    return Open(at, std::move(page), Limits());
  }
  ~PlainServer();
  PlainServer(const PlainServer&) = delete;
  PlainServer& operator=(const PlainServer&) = delete;

  const Endpoint& address() const noexcept { return at_; }
  // Serves on the calling thread until Stop.
  void Serve();
  // Any thread; also before Serve, which then returns at once.
  void Stop() noexcept;
  // In the child after a fork: closes what it has of the parent's sockets, so that the port is free when the
  // parent ends. For nothing else afterwards.
  void LeaveBehind() noexcept;

 private:
  struct Client;
  PlainServer(UniqueFd listening, UniqueFd stop, Endpoint at, Page page, const Limits& limits);
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
