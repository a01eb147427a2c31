// An HTTP/1.1 server for pages that are ready or made by workers.
//
// Not a web framework: no files, no templates; http_router.h finds the handler of a path. Answers are
// sent from the bytes that the handler shares, without copying. Clients that are slow, half-open or
// too many cost little and never keep others from being answered; see HttpLimits.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include <gpulens/status.h>

#include "base/fd.h"
#include "base/ref.h"
#include "net/accept/connection_set.h"
#include "net/auth/authenticator.h"
#include "net/io_loop.h"
#include "net/message/http_parser.h"

namespace gpulens {

class HttpConnection;

// The right to answer one request, once. Move-only. Send from any thread; destroyed unsent it answers
// 500. Must be gone before the IoLoop is.
class HttpResponder {
 public:
  HttpResponder(IoLoop& loop, Ref<HttpConnection> connection, uint64_t number) noexcept;
  HttpResponder(HttpResponder&&) noexcept;
  HttpResponder& operator=(HttpResponder&&) noexcept;
  ~HttpResponder();

  void Send(HttpResponse response);
  // False once the client is known to be gone: work for it can stop. Any thread.
  bool wanted() const noexcept;

 private:
  IoLoop* loop_;
  Ref<HttpConnection> connection_;
  uint64_t number_;
};

class HttpHandler {
 public:
  virtual ~HttpHandler() = default;
  // Called on the loop's thread: answers at once, or hands the responder to a worker and returns.
  virtual void Handle(const HttpRequest& request, HttpResponder responder) = 0;
  // Whether this is answered without a password: what a probe asks for. On the loop's thread.
  virtual bool IsForAll(const HttpRequest& request) const;
  // On the loop's thread, too: the server refuses `request` by itself (401, 403, 408, 413, 429, 503 …), or
  // what is known of it; its path may be empty. The body, a sentence, and its type may be put in other words.
  virtual void Refuse(const HttpRequest& request, HttpResponse& refusal);
};

// Thread-safe except where said. `handler` and the Authenticator outlive it, and the loop outlives all.
class HttpServer {
 public:
  struct Options {
    HttpLimits limits;
    Authenticator* authenticator = nullptr;  // null: plain, everybody
  };

  HttpServer(IoLoop& loop, HttpHandler& handler, Options options);
  ~HttpServer();  // closes everything at once

  // Serves at one more address. Errors are those of OpenListeningSocket. Returns the real port.
  Result<Endpoint> Listen(const Endpoint& at);
  // The same with a socket that is bound already (socket activation, a test).
  Result<Endpoint> Listen(UniqueFd listening);
  // Accepts no more there; its connections live on. For a swap, Listen at the new address first.
  void StopListening(const Endpoint& at);
  std::vector<Endpoint> addresses() const;

  // Accepts no more, closes what is idle, finishes what is in flight, closes the rest after `deadline`,
  // then calls `done` on the loop. Call once.
  void Shutdown(Duration deadline, std::function<void()> done);

  const ServerStats& stats() const noexcept;

 private:
  class Core;
  IoLoop& loop_;
  std::unique_ptr<Core> core_;
};

}  // namespace gpulens
