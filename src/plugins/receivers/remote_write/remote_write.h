// Prometheus remote write over HTTP: POST /api/v1/write, 1.0 and 2.0, compressed with Snappy.
#pragma once

#include <memory>
#include <string>

#include <gpulens/status.h>

#include "ingest/ingest_receiver.h"
#include "ingest/otlp_ingest.h"
#include "net/http/http_server.h"
#include "wire/remote_write/remote_write_in.h"

namespace gpulens {

// Converts Snappy blocks to OTLP. OtlpCall::format is a RemoteWriteVersion.
class RemoteWriteDecoder final : public IngestDecoder {
 public:
  // `max_request`: maximum size of an unpacked request; as OTLP it may be twice that. `forward` outlives it.
  RemoteWriteDecoder(size_t max_request, const OtlpForward& forward)
      : forward_(forward), convert_({.bytes = 2 * max_request}) {}

  Status Decode(const OtlpCall& call, size_t most, Decoded& out) override;

 private:
  const OtlpForward& forward_;
  RemoteWriteIn convert_;
  std::string unpacked_, request_;
};

class RemoteWriteHttp {
 public:
  struct Options {
    ReceiverHttp::Options http;
    std::string path = "/api/v1/write";
    // Status of back-pressure: 429 or 503. Prometheus retries after a 429 only when it is configured to.
    int busy_status = 503;
  };

  // See OtlpHttp.
  static Result<std::unique_ptr<RemoteWriteHttp>> Open(const Options& options, Env& env, OtlpIngest& ingest);
  void Close(Duration timeout) { http_->Close(timeout); }
  bool AwaitClosed(Duration timeout) { return http_->AwaitClosed(timeout); }
  std::vector<Endpoint> addresses() const { return http_->addresses(); }

 private:
  RemoteWriteHttp(const Options& options, OtlpIngest& ingest);
  void Handle(const HttpRequest& request, HttpResponder responder);

  const Options options_;
  OtlpIngest& ingest_;
  RemoteWriteDecoder decoder_;
  HttpRouter router_;
  std::unique_ptr<ReceiverHttp> http_;
};

}  // namespace gpulens
