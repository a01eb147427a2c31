// The receiver otlp: takes in what OpenTelemetry SDKs and Collectors send, and hands it to the sinks.

#include "base/result.h"
#include "ingest/ingest_receiver.h"
#include "plugins/receivers/otlp/otlp_grpc.h"
#include "plugins/receivers/otlp/otlp_http.h"

namespace gpulens {
namespace {

using OtlpReceiver = IngestReceiver<OtlpHttp, OtlpGrpc>;

Result<std::unique_ptr<Receiver>> Create(const Config& config, const ReceiverContext& context) {
  if (!context.env.io) return Status{Code::kUnavailable, "there is no network here"};
  auto receiver =
      std::make_unique<OtlpReceiver>(ReadIngestOptions(config, context, {"otlp/http", "otlp/grpc"}), context);
  OtlpHttp::Options http = ReadHttpOptions("otlp", config, context);
  http.at.protocol = "OTLP over HTTP";
  OtlpGrpc::Options grpc;
  grpc.at = {"otlp", config.Group("grpc").Texts("listen"), http.at.insecure, "OTLP over gRPC"};
  grpc.max_request = http.max_request;
  grpc.max_arriving = http.max_arriving;
  grpc.connections = http.connections;
  grpc.transport = 1;
  if (!http.at.listen.empty()) RETURN_IF_ERROR(receiver->Open<OtlpHttp>(http, context.env));
  if (!grpc.at.listen.empty()) RETURN_IF_ERROR(receiver->Open<OtlpGrpc>(grpc, context.env));
  return std::unique_ptr<Receiver>(std::move(receiver));
}

constexpr OptionSpec kHttp[] = {
    {.key = "listen",
     .type = OptionType::kTexts,
     .fallback = R"(["127.0.0.1:4318", "[::1]:4318"])",
     .help = "Where OTLP/HTTP is received: HOST:PORT, :PORT for all interfaces; []: nowhere."},
};

constexpr OptionSpec kGrpc[] = {
    {.key = "listen",
     .type = OptionType::kTexts,
     .fallback = R"(["127.0.0.1:4317", "[::1]:4317"])",
     .help = "Where OTLP/gRPC is received; []: nowhere."},
};

constexpr std::array<OptionSpec, 2> kTransports = {{
    {.key = "http", .type = OptionType::kGroup, .help = "OTLP over HTTP.", .children = kHttp},
    {.key = "grpc", .type = OptionType::kGroup, .help = "OTLP over gRPC.", .children = kGrpc},
}};
constexpr auto kOptions = JoinOptions(kTransports, kIngestOptions);

}  // namespace

extern const ReceiverSpec otlp_receiver;
const ReceiverSpec otlp_receiver{
    .name = "otlp",
    .help = "Metrics, logs and traces from OpenTelemetry SDKs and Collectors, for the sinks that send OTLP.",
    .options = kOptions,
    .create = &Create};

}  // namespace gpulens
