// Servers of OTLP: over HTTP, POST /v1/metrics, /v1/logs, /v1/traces, in protobuf or JSON, compressed or not;
// over gRPC, the Export methods of the services for metrics, logs and traces. Over HTTP, POST /v1/collectives
// takes what other agents send about collectives (collectives/batch_codec.h).
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <gpulens/status.h>

#include "ingest/ingest_receiver.h"
#include "ingest/otlp_ingest.h"
#include "net/grpc/grpc_server.h"
#include "net/http/http_server.h"
#include "wire/otlp/otlp_answer.h"

namespace gpulens {

enum class OtlpPacking : uint8_t { kPlain, kGzip, kZstd };

// Converts compressed or JSON requests to protobuf.
class OtlpDecoder final : public IngestDecoder {
 public:
  // OtlpCall::format.
  static constexpr uint32_t Format(OtlpFormat encoding, OtlpPacking packing) noexcept {
    return static_cast<uint32_t>(encoding) << 8 | static_cast<uint32_t>(packing);
  }

  Status Decode(const OtlpCall& call, size_t most, Decoded& out) override;

 private:
  std::string unpacked_, transcoded_;
};

// Every answer, also a refusal by the HTTP server, is an OTLP message in the encoding of its request.
class OtlpHttp {
 public:
  using Options = ReceiverHttp::Options;

  // Serves when it returns. `env` has an I/O loop; it and `ingest` outlive the object; the object outlives
  // the ingest thread.
  static Result<std::unique_ptr<OtlpHttp>> Open(const Options& options, Env& env, OtlpIngest& ingest);

  // See ReceiverHttp.
  void Close(Duration timeout) { http_->Close(timeout); }
  bool AwaitClosed(Duration timeout) { return http_->AwaitClosed(timeout); }
  std::vector<Endpoint> addresses() const { return http_->addresses(); }

 private:
  OtlpHttp(size_t transport, OtlpIngest& ingest, collectives::BatchQueue* joined);
  void Handle(OtlpSignal signal, const HttpRequest& request, HttpResponder responder);
  // Batches of collectives, for the collector that joins them; null: none does.
  static void HandleCollectives(collectives::BatchQueue* joined, const HttpRequest& request,
                                HttpResponder responder);

  const size_t transport_;
  OtlpIngest& ingest_;
  OtlpDecoder decoder_;
  HttpRouter router_;
  std::unique_ptr<ReceiverHttp> http_;
};

class OtlpGrpc {
 public:
  struct Options {
    PluginListen at;
    size_t max_request = 16u << 20;   // of one message, packed and unpacked
    size_t max_arriving = 32u << 20;  // of all unanswered messages
    size_t connections = 512;
    size_t transport = 0;  // index in OtlpIngest::Options
  };

  // Serves when it returns. `env` has an I/O loop; it and `ingest` outlive the object.
  static Result<std::unique_ptr<OtlpGrpc>> Open(const Options& options, Env& env, OtlpIngest& ingest);
  ~OtlpGrpc();

  // See ReceiverHttp.
  void Close(Duration timeout);
  bool AwaitClosed(Duration timeout) { return closed_->Await(timeout); }
  std::vector<Endpoint> addresses() const { return server_->addresses(); }

 private:
  class Method;
  OtlpGrpc(const Options& options, Env& env, OtlpIngest& ingest);

  std::vector<std::unique_ptr<Method>> methods_;
  std::vector<std::shared_ptr<SharedSocket>> sockets_;
  const std::shared_ptr<CloseEvent> closed_ = std::make_shared<CloseEvent>();
  std::unique_ptr<GrpcServer> server_;
};

}  // namespace gpulens
