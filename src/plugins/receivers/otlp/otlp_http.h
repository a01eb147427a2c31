// OTLP/HTTP: POST /v1/metrics, /v1/logs, /v1/traces, protobuf or JSON, packed or not. Every answer, also what
// the server refuses by itself, is a message of OTLP in the encoding of its request.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <gpulens/status.h>

#include "ingest/otlp_intake.h"
#include "ingest/receiver_http.h"
#include "net/http/http_server.h"
#include "plugins/receivers/otlp/otlp_decoder.h"

namespace gpulens {

class OtlpHttp {
 public:
  using Options = ReceiverHttp::Options;

  // Serves when it returns. `env` has an I/O loop; it and `intake` outlive the object; the object outlives
  // the intake's thread.
  static Result<std::unique_ptr<OtlpHttp>> Open(const Options& options, Env& env, OtlpIntake& intake);

  // As of ReceiverHttp.
  void Close(Duration timeout) { http_->Close(timeout); }
  bool AwaitClosed(Duration timeout) { return http_->AwaitClosed(timeout); }
  std::vector<Endpoint> addresses() const { return http_->addresses(); }

 private:
  OtlpHttp(size_t way, OtlpIntake& intake);
  void Handle(OtlpSignal signal, const HttpRequest& request, HttpResponder responder);

  const size_t way_;
  OtlpIntake& intake_;
  OtlpDecoder decoder_;
  HttpRouter router_;
  std::unique_ptr<ReceiverHttp> http_;
};

}  // namespace gpulens
