// HTTP/1.1 server and router. Responses are sent from the bytes that a handler shares, without copying. Slow,
// half-open or too many clients cost little and do not delay others; see HttpLimits.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include <gpulens/status.h>

#include "base/ref.h"
#include "net/auth/authenticator.h"
#include "net/io_loop.h"
#include "net/message/http_parser.h"
#include "net/server/server.h"
#include "net/stream.h"

namespace gpulens {

class HttpConnection;

// The right to answer one request, once. Move-only. Send from any thread; when destroyed unsent it answers
// 500. Destroyed before the IoLoop.
class HttpResponder {
 public:
  HttpResponder(IoLoop& loop, Ref<HttpConnection> connection, uint64_t number) noexcept;
  HttpResponder(HttpResponder&&) noexcept;
  HttpResponder& operator=(HttpResponder&&) noexcept;
  ~HttpResponder();

  void Send(HttpResponse response);
  // False once the client is gone and work for it can stop. Any thread.
  bool wanted() const noexcept;

 private:
  IoLoop* loop_;
  Ref<HttpConnection> connection_;
  uint64_t number_;
};

// A connection whose client requests another protocol, after the checks of its request: origin and access.
struct HttpUpgrade {
  Stream stream;
  Endpoint peer;
  std::shared_ptr<const WebRules> rules;
  const HttpRequest& request;  // valid during TakeOver
  std::string early;           // what was received after the request
};

// Answers such a request, and serves the connection from then on. On the loop's thread.
class HttpUpgrader {
 public:
  virtual void TakeOver(HttpUpgrade upgrade) = 0;

 protected:
  ~HttpUpgrader() = default;
};

class HttpHandler {
 public:
  virtual ~HttpHandler() = default;
  // Called on the loop's thread: answers at once, or hands the responder to a worker and returns.
  virtual void Handle(const HttpRequest& request, HttpResponder responder) = 0;
  // Whether this is answered without a password, as for probes. On the loop's thread.
  virtual bool IsForAll(const HttpRequest& request) const;
  // Returns who takes over the connection of this request, which has an Upgrade field; null: Handle answers
  // it. On the loop's thread. The upgrader outlives the server's connections. Not called for a request that
  // came before the answers to earlier ones were sent.
  virtual HttpUpgrader* UpgraderOf(const HttpRequest& request);
  // Called on the loop's thread when the server itself refuses a request (401, 403, 408, 413, 429, 503 …), of
  // which only a part may be known. May replace the body, a sentence, and its type.
  virtual void Refuse(const HttpRequest& request, HttpResponse& refusal);
};

// Thread-safe. `handler` and the Authenticator outlive it.
class HttpServer : public Server {
 public:
  struct Options {
    HttpLimits limits;
    Authenticator* authenticator = nullptr;  // null: neither authentication nor TLS
  };

  HttpServer(IoLoop& loop, HttpHandler& handler, Options options);

  const ServerStats& stats() const noexcept;

 private:
  class Core;
};

// Finds the handler of an exact path and method; answers 404, 405 and OPTIONS. HEAD goes to the handler of
// GET: the server leaves the body out. Filled before the server starts, read-only afterwards.
class HttpRouter final : public HttpHandler {
 public:
  using Function = std::function<void(const HttpRequest&, HttpResponder)>;
  // As HttpHandler::Refuse.
  using Refusing = std::function<void(const HttpRequest&, HttpResponse&)>;

  // `methods` as in an Allow header: "GET", "GET, POST"; HEAD and OPTIONS are added. `refuse` is called for
  // refusals at this path, also for 405.
  void Add(std::string path, std::string methods, Function function, Refusing refuse = nullptr);
  void Handle(const HttpRequest& request, HttpResponder responder) override;
  void Refuse(const HttpRequest& request, HttpResponse& refusal) override;

 private:
  struct Route {
    std::string path;
    std::vector<std::string> methods;
    std::string allow;
    Function function;
    Refusing refuse;
  };
  const Route* Find(const HttpRequest& request) const;

  std::vector<Route> routes_;
};

}  // namespace gpulens
