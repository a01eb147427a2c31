// Prometheus remote write over HTTP: POST /api/v1/write, 1.0 and 2.0, packed by Snappy.
#pragma once

#include <memory>
#include <string>

#include <gpulens/status.h>

#include "ingest/otlp_ingest.h"
#include "ingest/ingest_receiver.h"
#include "net/http/http_server.h"
#include "wire/remote_write/remote_write_in.h"

namespace gpulens {

// Blocks of Snappy to OTLP. OtlpCall::format is a RemoteWriteVersion.
class RemoteWriteDecoder final : public IngestDecoder {
 public:
  // `max_request`: bytes of one unpacked; as OTLP it may be twice that. `forward` outlives it.
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
    // What senders are told when there is no room: 429 or 503. Prometheus comes again after a 429 only when
    // it is configured to.
    int busy_status = 503;
  };

  // As of OtlpHttp.
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
