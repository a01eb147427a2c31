#include "plugins/receivers/otlp/otlp_grpc.h"

#include "base/result.h"
#include "wire/otlp/otlp_answer.h"

namespace gpulens {
namespace {

constexpr std::string_view kPaths[kOtlpSignals] = {
    "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export",
    "/opentelemetry.proto.collector.logs.v1.LogsService/Export",
    "/opentelemetry.proto.collector.trace.v1.TraceService/Export",
};

// Exhausted without a RetryInfo would be read as "never again"; what is too large never fits.
GrpcAnswer ResponseOf(OtlpSignal signal, const OtlpAnswer& answer) {
  switch (answer.kind) {
    case OtlpAnswer::kAccepted:
      return GrpcAnswer::Ok(OtlpSuccess(signal, OtlpFormat::kProtobuf, answer.rejected, answer.message));
    case OtlpAnswer::kMalformed:
    case OtlpAnswer::kTooLarge: return GrpcAnswer::Failure(GrpcCode::kInvalidArgument, answer.message);
    case OtlpAnswer::kOverloaded:
      return GrpcAnswer::Failure(GrpcCode::kResourceExhausted, answer.message, answer.retry_after);
    case OtlpAnswer::kUnavailable: break;
  }
  return GrpcAnswer::Failure(GrpcCode::kUnavailable, answer.message, answer.retry_after);
}

}  // namespace

class OtlpGrpc::Method final : public GrpcHandler {
 public:
  Method(OtlpSignal signal, size_t transport, OtlpIngest& ingest)
      : signal_(signal), transport_(transport), ingest_(ingest) {}

  GrpcRoute route() { return {std::string(kPaths[static_cast<size_t>(signal_)]), this}; }

 private:
  void Handle(GrpcRequest request, GrpcResponder responder) override {
    OtlpCall call;
    call.signal = signal_;
    call.transport = transport_;
    call.peer = request.remote;
    call.body = std::move(request.message);
    auto waiting = std::make_shared<GrpcResponder>(std::move(responder));
    // May be called after this object's end.
    call.answer = [in_flight = ingest_.in_flight(), transport = transport_, signal = signal_,
                   waiting](const OtlpAnswer& answer) {
      GrpcAnswer answered = ResponseOf(signal, answer);
      in_flight->CountAnswer(transport, signal, GrpcCodeName(answered.code));
      waiting->Send(std::move(answered));
    };
    ingest_.Take(std::move(call));
  }

  const OtlpSignal signal_;
  const size_t transport_;
  OtlpIngest& ingest_;
};

OtlpGrpc::OtlpGrpc(const Options& options, Env& env, OtlpIngest& ingest) {
  std::vector<GrpcRoute> routes;
  for (OtlpSignal signal : {OtlpSignal::kMetrics, OtlpSignal::kLogs, OtlpSignal::kTraces}) {
    methods_.push_back(std::make_unique<Method>(signal, options.transport, ingest));
    routes.push_back(methods_.back()->route());
  }
  GrpcServer::Options server;
  server.limits.connections = options.connections;
  server.limits.message_bytes = options.max_request;
  server.limits.unpacked_bytes = options.max_request;
  server.limits.held_bytes = options.max_arriving;
  server.authenticator = env.authenticator;
  server.offload = OffloadTo(env.workers);
  server_ = std::make_unique<GrpcServer>(*env.io, std::move(routes), std::move(server));
}

OtlpGrpc::~OtlpGrpc() = default;

Result<std::unique_ptr<OtlpGrpc>> OtlpGrpc::Open(const Options& options, Env& env, OtlpIngest& ingest) {
  std::unique_ptr<OtlpGrpc> made(new OtlpGrpc(options, env, ingest));
  ASSIGN_OR_RETURN(made->sockets_, ListenForReceiver(options.at, env, [&](UniqueFd socket) {
                     return made->server_->Listen(std::move(socket));
                   }));
  return made;
}

void OtlpGrpc::Close(Duration timeout) {
  // So that nobody comes to a socket that is not accepted from any more.
  sockets_.clear();
  server_->Shutdown(timeout, [closed = closed_] { closed->Report(); });
}

}  // namespace gpulens
