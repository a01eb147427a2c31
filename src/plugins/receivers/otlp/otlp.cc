// Receiver of OTLP from OpenTelemetry SDKs and Collectors, forwarded to the sinks.

#include "plugins/receivers/otlp/otlp.h"

#include <optional>

#include "base/parse.h"
#include "base/result.h"
#include "collectives/batch_codec.h"
#include "collectives/batch_queue.h"
#include "net/grpc/grpc_wire.h"
#include "wire/otlp/otlp_json.h"
#include "wire/packing.h"

namespace gpulens {
namespace {

OtlpMessage MessageOf(OtlpSignal signal) noexcept {
  switch (signal) {
    case OtlpSignal::kMetrics: return OtlpMessage::kMetrics;
    case OtlpSignal::kLogs: return OtlpMessage::kLogs;
    case OtlpSignal::kTraces: break;
  }
  return OtlpMessage::kTraces;
}

int HttpStatusOf(OtlpAnswer::Kind kind) noexcept {
  switch (kind) {
    case OtlpAnswer::kAccepted: return 200;
    case OtlpAnswer::kMalformed: return 400;
    case OtlpAnswer::kTooLarge: return 413;
    case OtlpAnswer::kOverloaded: return 429;
    case OtlpAnswer::kUnavailable: break;
  }
  return 503;
}

// A google.rpc.Status with the gRPC code that corresponds to an HTTP status.
std::string FailureBody(OtlpFormat encoding, int status, std::string_view message) {
  GrpcCode code = GrpcCode::kInvalidArgument;
  switch (status) {
    case 401: code = GrpcCode::kUnauthenticated; break;
    case 404:
    case 405: code = GrpcCode::kUnimplemented; break;
    case 408: code = GrpcCode::kDeadlineExceeded; break;
    case 429: code = GrpcCode::kResourceExhausted; break;
    case 500: code = GrpcCode::kInternal; break;
    case 503: code = GrpcCode::kUnavailable; break;
    default: break;
  }
  return OtlpFailure(encoding, static_cast<uint32_t>(code), message);
}

HttpResponse ResponseOf(OtlpSignal signal, OtlpFormat encoding, const OtlpAnswer& answer) {
  HttpResponse response;
  response.status = HttpStatusOf(answer.kind);
  response.content_type = OtlpContentType(encoding);
  response.body = answer.kind == OtlpAnswer::kAccepted
                      ? OtlpSuccess(signal, encoding, answer.rejected, answer.message)
                      : FailureBody(encoding, response.status, answer.message);
  AddRetryAfter(response, answer.retry_after);
  return response;
}

std::optional<OtlpFormat> EncodingOf(const HttpRequest& request) {
  std::string_view type = request.Header("Content-Type");
  type = Trim(TakeUntil(type, ';'));
  if (EqualsIgnoringCase(type, "application/x-protobuf")) return OtlpFormat::kProtobuf;
  if (EqualsIgnoringCase(type, "application/json")) return OtlpFormat::kJson;
  return std::nullopt;
}

std::optional<OtlpPacking> PackingOf(const HttpRequest& request) {
  const std::string packing = request.JoinedHeader("Content-Encoding");
  if (packing.empty() || EqualsIgnoringCase(packing, "identity")) return OtlpPacking::kPlain;
  if (EqualsIgnoringCase(packing, "gzip")) return OtlpPacking::kGzip;
  if (EqualsIgnoringCase(packing, "zstd")) return OtlpPacking::kZstd;
  return std::nullopt;
}

// Replaces the text of a refusal of the server by a google.rpc.Status.
void EncodeRefusal(const HttpRequest& request, HttpResponse& refusal) {
  const OtlpFormat encoding = EncodingOf(request).value_or(OtlpFormat::kProtobuf);
  refusal.body = FailureBody(encoding, refusal.status, Trim(refusal.body.bytes));
  refusal.content_type = OtlpContentType(encoding);
}

}  // namespace

Status OtlpDecoder::Decode(const OtlpCall& call, size_t most, Decoded& out) {
  const auto encoding = static_cast<OtlpFormat>(call.format >> 8);
  const auto packing = static_cast<OtlpPacking>(call.format & 0xff);
  unpacked_.clear();
  if (packing == OtlpPacking::kGzip) RETURN_IF_ERROR(Gunzip(call.body, most, unpacked_));
  if (packing == OtlpPacking::kZstd) RETURN_IF_ERROR(Unzstd(call.body, most, unpacked_));
  out.request = packing == OtlpPacking::kPlain ? call.body : unpacked_;
  if (encoding == OtlpFormat::kJson) {
    RETURN_IF_ERROR(OtlpFromJson(MessageOf(call.signal), out.request, most, transcoded_));
    out.request = transcoded_;
  }
  if (out.request.size() <= most) return Ok();
  return {Code::kExhausted, "the request has more than " + std::to_string(most) + " bytes"};
}

OtlpHttp::OtlpHttp(size_t transport, OtlpIngest& ingest, collectives::BatchQueue* joined)
    : transport_(transport), ingest_(ingest) {
  router_.Add(std::string(collectives::kBatchPath), "POST",
              [joined](const HttpRequest& request, HttpResponder responder) {
                HandleCollectives(joined, request, std::move(responder));
              });
  for (OtlpSignal signal : {OtlpSignal::kMetrics, OtlpSignal::kLogs, OtlpSignal::kTraces}) {
    router_.Add(
        "/v1/" + std::string(OtlpSignalName(signal)), "POST",
        [this, signal](const HttpRequest& request, HttpResponder responder) {
          Handle(signal, request, std::move(responder));
        },
        &EncodeRefusal);
  }
}

Result<std::unique_ptr<OtlpHttp>> OtlpHttp::Open(const Options& options, Env& env, OtlpIngest& ingest) {
  std::unique_ptr<OtlpHttp> made(new OtlpHttp(options.transport, ingest, env.collectives));
  ASSIGN_OR_RETURN(made->http_, ReceiverHttp::Open(options, env, made->router_));
  return made;
}

void OtlpHttp::HandleCollectives(collectives::BatchQueue* joined, const HttpRequest& request,
                                 HttpResponder responder) {
  const auto refuse = [&](int status, std::string_view why) {
    HttpResponse response;
    response.status = status;
    response.body = std::string(why) + "\n";
    if (status == 429 || status == 503) AddRetryAfter(response, std::chrono::seconds(5));
    responder.Send(std::move(response));
  };
  std::string_view type = request.Header("Content-Type");
  if (!EqualsIgnoringCase(Trim(TakeUntil(type, ';')), collectives::kBatchContentType))
    return refuse(415, "Content-Type must be application/x-gpulens-collectives");
  const std::string packing = request.JoinedHeader("Content-Encoding");
  if (!packing.empty() && !EqualsIgnoringCase(packing, "identity"))
    return refuse(415, "batches of collectives are not compressed");
  const std::string body = request.TakeBody();
  collectives::Batch batch;
  if (const Status read = collectives::DecodeBatch(body, batch); !read) return refuse(400, read.detail);
  using Outcome = collectives::BatchQueue::Outcome;
  switch (joined ? joined->Put(std::move(batch), body.size()) : Outcome::kNotJoined) {
    case Outcome::kTaken: break;
    case Outcome::kFull: return refuse(429, "more batches of collectives wait than are joined");
    case Outcome::kNotJoined:
      return refuse(503,
                    "nothing joins collectives here: collectors.nccl.collectives.role is join on a gateway");
  }
  HttpResponse response;
  std::string wanted = collectives::EncodeWantedLinks(joined->wanted_links());
  response.status = wanted.empty() ? 204 : 200;
  response.body = std::move(wanted);
  responder.Send(std::move(response));
}

void OtlpHttp::Handle(OtlpSignal signal, const HttpRequest& request, HttpResponder responder) {
  const auto encoding = EncodingOf(request);
  const auto packing = PackingOf(request);
  if (!encoding || !packing) {
    HttpResponse response =
        ResponseOf(signal, encoding.value_or(OtlpFormat::kProtobuf),
                   {OtlpAnswer::kMalformed,
                    encoding ? "Content-Encoding must be gzip, zstd or identity"
                             : "Content-Type must be application/x-protobuf or application/json"});
    response.status = 415;
    if (!packing) response.AddHeader("Accept-Encoding", "gzip, zstd, identity");
    ingest_.in_flight()->CountAnswer(transport_, signal, "415");
    return responder.Send(std::move(response));
  }
  OtlpCall call;
  call.signal = signal;
  call.decoder = &decoder_;
  call.format = OtlpDecoder::Format(*encoding, *packing);
  call.transport = transport_;
  call.peer = request.remote();
  call.body = request.TakeBody();
  auto waiting = std::make_shared<HttpResponder>(std::move(responder));
  // May be called after this object is destroyed.
  call.answer = [in_flight = ingest_.in_flight(), transport = transport_, signal, encoding = *encoding,
                 waiting](const OtlpAnswer& answer) {
    HttpResponse response = ResponseOf(signal, encoding, answer);
    in_flight->CountAnswer(transport, signal, std::to_string(response.status));
    waiting->Send(std::move(response));
  };
  ingest_.Take(std::move(call));
}

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
    // May be called after this object is destroyed.
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
  ASSIGN_OR_RETURN(made->sockets_, ListenForPlugin(options.at, env, [&](UniqueFd socket) {
                     return made->server_->Listen(std::move(socket));
                   }));
  return made;
}

void OtlpGrpc::Close(Duration timeout) {
  // Refuse connections, as none is accepted any more.
  sockets_.clear();
  server_->Shutdown(timeout, [closed = closed_] { closed->Report(); });
}

namespace {

constexpr OptionSpec kHttp[] = {
    TextsOption("listen", R"(["127.0.0.1:4318", "[::1]:4318"])",
                "Where OTLP/HTTP is received: HOST:PORT, :PORT for all interfaces; []: nowhere."),
};
constexpr OptionSpec kGrpc[] = {
    TextsOption("listen", R"(["127.0.0.1:4317", "[::1]:4317"])", "Where OTLP/gRPC is received; []: nowhere."),
};
constexpr std::array<OptionSpec, 2> kTransports = {{
    GroupOption("http", "OTLP over HTTP.", kHttp),
    GroupOption("grpc", "OTLP over gRPC.", kGrpc),
}};
constexpr auto kOptions = JoinOptions(kTransports, kIngestOptions);
using Options = OptionsOf<kOptions>;

using OtlpReceiver = IngestReceiver<OtlpHttp, OtlpGrpc>;

Result<std::unique_ptr<Receiver>> Create(const Config& config, const ReceiverContext& context) {
  if (!context.env.io) return Status{Code::kUnavailable, "there is no network here"};
  auto receiver =
      std::make_unique<OtlpReceiver>(ReadIngestOptions(config, context, {"otlp/http", "otlp/grpc"}), context);
  OtlpHttp::Options http = ReadHttpOptions("otlp", config, context);
  http.at.protocol = "OTLP over HTTP";
  OtlpGrpc::Options grpc;
  grpc.at = {"otlp", OptionsOf<kGrpc>(Options(config).Group("grpc")).Texts("listen"), http.at.insecure,
             "OTLP over gRPC"};
  grpc.max_request = http.max_request;
  grpc.max_arriving = http.max_arriving;
  grpc.connections = http.connections;
  grpc.transport = 1;
  if (!http.at.listen.empty()) RETURN_IF_ERROR(receiver->Open<OtlpHttp>(http, context.env));
  if (!grpc.at.listen.empty()) RETURN_IF_ERROR(receiver->Open<OtlpGrpc>(grpc, context.env));
  return std::unique_ptr<Receiver>(std::move(receiver));
}

}  // namespace

extern const ReceiverSpec otlp_receiver;
const ReceiverSpec otlp_receiver{
    .name = "otlp",
    .help = "Metrics, logs and traces from OpenTelemetry SDKs and Collectors, for the sinks that send OTLP.",
    .options = kOptions,
    .create = &Create};

}  // namespace gpulens
