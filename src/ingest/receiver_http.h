// The HTTP side of a receiver: addresses, limits, TLS and passwords, and an orderly end.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <gpulens/status.h>

#include "ingest/listening.h"
#include "net/http/http_server.h"

namespace gpulens {

class ReceiverHttp {
 public:
  struct Options {
    ReceiverListen at;
    size_t max_request = 16u << 20;
    size_t max_arriving = 32u << 20;  // bytes of requests that are not whole yet
    size_t connections = 512;
    size_t way = 0;  // of the intake
  };

  // Serves when it returns. `env` has an I/O loop; it and `handler` outlive the object.
  static Result<std::unique_ptr<ReceiverHttp>> Open(const Options& options, Env& env, HttpHandler& handler);

  // Takes no more connections and requests; what is in flight may be answered until `deadline`. Not on the
  // loop; returns at once.
  void Close(Duration timeout);
  // True when every connection is gone.
  bool AwaitClosed(Duration timeout) { return closed_->Await(timeout); }
  std::vector<Endpoint> addresses() const { return server_->addresses(); }

 private:
  ReceiverHttp(const Options& options, Env& env, HttpHandler& handler);

  std::vector<std::shared_ptr<SharedSocket>> sockets_;
  const std::shared_ptr<Closed> closed_ = std::make_shared<Closed>();
  std::unique_ptr<HttpServer> server_;
};

// Adds the header that says when to come again, in whole seconds; none for no time.
void AddRetryAfter(HttpResponse& response, Duration after);

}  // namespace gpulens
