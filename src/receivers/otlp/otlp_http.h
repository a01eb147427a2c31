// OTLP/HTTP: POST /v1/metrics, /v1/logs, /v1/traces, protobuf or JSON, packed or not.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <gpulens/status.h>

#include "net/http/http_router.h"
#include "net/http/http_server.h"
#include "receivers/otlp/otlp_intake.h"
#include "receivers/otlp/otlp_listen.h"

namespace gpulens {

class OtlpHttp {
 public:
  struct Options {
    std::vector<std::string> listen;
    bool insecure = false;
    size_t max_request = 16u << 20;
    size_t max_arriving = 32u << 20;  // bytes of requests that are not whole yet
    size_t connections = 512;
    size_t way = 0;  // of the intake
  };

  // Serves when it returns. `env` has an I/O loop; it and `intake` outlive the object.
  static Result<std::unique_ptr<OtlpHttp>> Open(const Options& options, Env& env, OtlpIntake& intake);
  ~OtlpHttp();

  // Takes no more connections and requests; what is in flight may be answered until `deadline`. Not on the
  // loop; returns at once.
  void Close(Duration timeout);
  // True when every connection is gone.
  bool AwaitClosed(Duration timeout) { return closed_->Await(timeout); }
  std::vector<Endpoint> addresses() const { return server_->addresses(); }

 private:
  OtlpHttp(const Options& options, Env& env, OtlpIntake& intake);
  void Handle(OtlpSignal signal, const HttpRequest& request, HttpResponder responder);

  const Options options_;
  OtlpIntake& intake_;
  HttpRouter router_;
  std::vector<std::shared_ptr<SharedSocket>> sockets_;
  const std::shared_ptr<Closed> closed_ = std::make_shared<Closed>();
  std::unique_ptr<HttpServer> server_;
};

}  // namespace gpulens
