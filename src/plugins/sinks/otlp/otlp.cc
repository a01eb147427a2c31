// Sink that sends metrics and events to an OpenTelemetry receiver, over HTTP as protobuf or JSON, or over
// gRPC.

#include "plugins/sinks/otlp/otlp.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "base/result.h"
#include "base/text.h"
#include "base/version.h"
#include "export/sink_names.h"
#include "pipeline/rollup/rollup_rule.h"
#include "plugins/plugin.h"
#include "plugins/remote_access.h"
#include "wire/otlp/otlp_answer.h"
#include "wire/otlp/otlp_json.h"
#include "wire/otlp/otlp_metrics.h"
#include "wire/otlp/otlp_write.h"

namespace gpulens {
namespace {

constexpr std::string_view kProtobuf = "application/x-protobuf", kJson = "application/json";

// Returns the answer of a receiver as protobuf, whatever its encoding; empty: it has none.
std::string AnswerOf(const HttpReply& reply, OtlpMessage message) {
  if (reply.content_type.starts_with(kProtobuf)) return reply.body;
  std::string protobuf;
  // The size of answers is limited already; as protobuf they are not larger.
  if (reply.content_type.starts_with(kJson) &&
      !OtlpFromJson(message, reply.body, 2 * reply.body.size(), protobuf))
    protobuf.clear();
  return protobuf;
}

// Returns the message of a receiver that rejected the request.
std::string Refusal(const HttpReply& reply) {
  std::string message = ReadOtlpError(AnswerOf(reply, OtlpMessage::kError));
  if (message.empty()) AppendPrintable(message, std::string_view(reply.body).substr(0, 200));
  return message.empty() ? reply.detail : reply.detail + ": " + message;
}

constexpr std::array<std::string_view, kOtlpSignals> kMethods = {
    "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export",
    "/opentelemetry.proto.collector.logs.v1.LogsService/Export",
    "/opentelemetry.proto.collector.trace.v1.TraceService/Export"};
constexpr size_t kGzip = 1;

}  // namespace

SendOutcome ValidateOtlp(const HttpReply& reply) {
  if (reply.failure != HttpFailure::kNone)
    return {IsRetryable(reply.status) ? SendOutcome::kAgain : SendOutcome::kRefused, 0, Refusal(reply)};
  SendOutcome outcome;
  // In JSON each signal has its own name of the rejected number.
  for (OtlpMessage message :
       {OtlpMessage::kMetricsAnswer, OtlpMessage::kLogsAnswer, OtlpMessage::kTracesAnswer}) {
    auto answer = ReadOtlpAnswer(AnswerOf(reply, message));
    if (!answer) continue;
    outcome.rejected = std::max(outcome.rejected, static_cast<uint64_t>(answer->rejected));
    outcome.detail = std::move(answer->message);
  }
  return outcome;
}

std::vector<SendRoute> OtlpRoutes() {
  std::vector<SendRoute> routes(kOtlpEncodings);
  for (size_t i = 0; i < routes.size(); ++i) {
    const OtlpEncoding encoding = OtlpEncodingOf(i);
    std::string headers = "Content-Type: ";
    headers.append(encoding.json ? kJson : kProtobuf).append("\r\n");
    if (encoding.packing != 0)
      headers.append("Content-Encoding: ").append(kOtlpPackings[encoding.packing]).append("\r\n");
    routes[i] = {encoding.signal, std::move(headers)};
  }
  return routes;
}

OtlpRequests::OtlpRequests(bool json, size_t packing, PartRule rule,
                           const std::array<bool, kOtlpSignals>& sends)
    : sends_(sends), json_(json), packing_(packing), rule_(std::move(rule)) {}

Status OtlpRequests::Make(const Envelope& envelope, std::string&& body, uint32_t items, SendParts& out) {
  if (envelope.kind >= kOtlpEncodings) return {Code::kDataLoss, "it has another version"};
  OtlpEncoding encoding = OtlpEncodingOf(envelope.kind);
  if (!sends_[encoding.signal]) {
    out.left_out = items;
    return Ok();
  }
  const auto add = [&](uint64_t key, uint32_t count, std::string headers, std::string&& bytes) {
    out.list.push_back({NumberOf(encoding), std::move(headers),
                        std::make_shared<const std::string>(std::move(bytes)), count, key});
  };
  const SplitRule* rule = rule_.For(static_cast<RecordSource>(envelope.source));
  const bool same = encoding.json == json_ && encoding.packing == packing_;
  // Records of 0.1.0 in JSON are sent unchanged.
  if (encoding.json || (!rule && same)) {
    add(envelope.key, items, {}, std::move(body));
    return Ok();
  }
  const OtlpEncoding kept = std::exchange(encoding, {encoding.signal, packing_, json_});
  return read_.Read(
      {kept, body, items}, rule,
      [&](const SplitPart& part) -> Status {
        std::string_view bytes = part.body;
        if (json_) {
          RETURN_IF_ERROR(OtlpToJson(kOtlpMessages[encoding.signal], bytes, text_));
          bytes = text_;
        }
        const bool hashed = rule && rule->hash != SplitHash::kNone;
        add(hashed ? part.hash : envelope.key, part.items, rule ? rule_.HeadersOf(part) : std::string(),
            std::string(packer_.Pack(bytes, packing_)));
        return Ok();
      },
      out.left_out);
}

Result<HttpUrl> OtlpUrl(std::string_view endpoint, std::string_view own, std::string_view signal) {
  if (!own.empty()) return ParseHttpUrl(own);
  ASSIGN_OR_RETURN(HttpUrl url, ParseHttpUrl(endpoint));
  std::string_view path = url.target;
  if (path.find('?') != path.npos)
    return Status{
        Code::kInvalidArgument,
        "an endpoint with a query cannot be made a signal's: set metrics_endpoint and logs_endpoint"};
  auto cut_slashes = [&] {
    while (path.ends_with('/')) path.remove_suffix(1);
  };
  cut_slashes();
  for (std::string_view known : {"/v1/metrics", "/v1/logs", "/v1/traces", "/v1"}) {
    if (!path.ends_with(known)) continue;
    path.remove_suffix(known.size());
    break;
  }
  cut_slashes();
  url.target = std::string(path) + "/v1/" + std::string(signal);
  url.has_path = true;
  return url;
}

std::array<bool, 3> OtlpSignalsSent(std::string_view endpoint,
                                    const std::array<std::string_view, 3>& own) noexcept {
  const bool all = !endpoint.empty() || std::ranges::all_of(own, &std::string_view::empty);
  std::array<bool, 3> sends{};
  for (size_t i = 0; i < own.size(); ++i) sends[i] = all || !own[i].empty();
  return sends;
}

void MakeOtlpCalls(SendPlan& plan) {
  for (size_t route = 0; route < plan.routes.size(); ++route) {
    plan.routes[route].headers.clear();
    plan.routes[route].grpc_method = kMethods[OtlpEncodingOf(route).signal];
    plan.routes[route].gzip = OtlpEncodingOf(route).packing == kGzip;
  }
  plan.classify_call = [](const GrpcReply& reply, size_t) { return ClassifyOtlpReply(reply); };
  plan.rework = &ReworkForOtlpCall;
}

SendOutcome ClassifyOtlpReply(const GrpcReply& reply) {
  if (reply.code == GrpcCode::kOk) {
    SendOutcome outcome;
    if (auto answer = ReadOtlpAnswer(reply.answer)) {
      outcome.rejected = static_cast<uint64_t>(answer->rejected);
      outcome.detail = std::move(answer->message);
    }
    return outcome;
  }
  std::string detail = reply.message;
  if (reply.failure == HttpFailure::kNone) {
    detail = "answers " + std::string(GrpcCodeName(reply.code));
    if (!reply.message.empty()) detail += ": " + reply.message;
  }
  return {IsRetryable(reply) ? SendOutcome::kAgain : SendOutcome::kRefused, 0, std::move(detail)};
}

Status ReworkForOtlpCall(SendPart& part) {
  const OtlpEncoding written = OtlpEncodingOf(part.route);
  if (!written.json && written.packing <= kGzip) return Ok();
  std::string plain;
  RETURN_IF_ERROR(UnpackOtlp(*part.body, written.packing, kUnpackedBytes, plain));
  if (written.json) {
    const std::string json = std::move(plain);
    RETURN_IF_ERROR(OtlpFromJson(kOtlpMessages[written.signal], json, kUnpackedBytes, plain));
  }
  part.body = std::make_shared<const std::string>(std::move(plain));
  part.route = NumberOf({written.signal, 0, false});
  return Ok();
}

namespace {

enum Signal : size_t { kMetrics, kLogs, kTraces, kSignals };
constexpr std::array<std::string_view, kSignals> kSignalNames = {"metrics", "logs", "traces"};
// Below the default limit of receivers.
constexpr size_t kRequestBytes = 4u << 20;

constexpr std::string_view kProtocols[] = {"http/protobuf", "http/json", "grpc"};
constexpr std::string_view kTemporalities[] = {"cumulative", "delta", "lowmemory"};
constexpr std::string_view kHistograms[] = {"explicit", "exponential"};
constexpr auto kOptions = JoinOptions(
    std::to_array<OptionSpec>({
        UrlOption("endpoint", {},
                  "URL of the receiver; /v1/metrics, /v1/logs and /v1/traces are appended. Default: "
                  "http://127.0.0.1:4318, with grpc port 4317."),
        {.key = "signals",
         .type = OptionType::kTexts,
         .fallback = R"(["metrics", "logs", "traces"])",
         .help = "What is sent: events as logs, spans from receivers.",
         .allowed = kSignalNames},
        UrlOption(
            "metrics_endpoint", {},
            "The whole URL for metrics, used unchanged. Without endpoint, signals without a URL are not "
            "sent."),
        UrlOption("logs_endpoint", {}, "The whole URL for events, used unchanged."),
        UrlOption("traces_endpoint", {}, "The whole URL for spans of receivers, used unchanged."),
        TextOption("protocol", "http/protobuf", "The protocol.", kProtocols),
        IntervalOption("60s"),
        TextOption("compression", "gzip", "Compression of request bodies.", kOtlpPackings),
        BoolOption("events", true, "Send events, too, as log records."),
        IntOption("max_points", "10000", "Most points in one request.", 1, 1'000'000),
        TextOption("temporality", "cumulative",
                   "cumulative: counters and histograms since their start; delta: since the last export; "
                   "lowmemory: only histograms as delta.",
                   kTemporalities),
        TextOption("histograms", "explicit",
                   "Keep the bounds of the source, or export exponential histograms.", kHistograms),
    }),
    NameOptions("[native]"), RollupsOption(), kPartOptions, kSendOptions);
using Options = OptionsOf<kOptions>;

constexpr Options::TextKey kOwnEndpoints[kSignals] = {"metrics_endpoint", "logs_endpoint", "traces_endpoint"};

// Returns the option `compression` as an index of kOtlpPackings.
size_t PackingOf(const Config& config) {
  const auto at = std::ranges::find(kOtlpPackings, Options(config).Text("compression"));
  return static_cast<size_t>(at - kOtlpPackings.begin()) % kOtlpPackings.size();
}

OtlpStyle StyleOf(const Options& options) {
  const std::string& temporality = options.Text("temporality");
  return {.delta_counters = temporality == "delta",
          .delta_histograms = temporality != "cumulative",
          .exponential = options.Text("histograms") == "exponential"};
}

class OtlpSink final : public Sink {
 public:
  OtlpSink(const Config& config, const std::array<bool, kSignals>& sends, std::unique_ptr<LogWriter> log)
      : sends_(sends),
        events_(Options(config).Bool("events") && sends[kLogs]),
        packing_(PackingOf(config)),
        metrics_(SinkNames(config).namer(NameForm::kOtel),
                 {.max_points = static_cast<size_t>(Options(config).Int("max_points")),
                  .max_bytes = kRequestBytes,
                  .scope_version = Version(),
                  .style = StyleOf(config)}),
        log_(std::move(log)) {}

  Status Write(const Snapshot& snapshot) override {
    if (!sends_[kMetrics]) return Ok();
    uint32_t request_number = 0;
    RETURN_IF_ERROR(metrics_.Encode(snapshot, [&](std::string_view request, uint32_t points) {
      return Append(kMetrics, request, points, request_number++);
    }));
    metrics_.Commit();
    return Ok();
  }

  Status Write(const Events& events) override {
    if (!events_ || events.list.empty()) return Ok();
    EncodeOtlpLogs(events, Version(), logs_request_);
    return Append(kLogs, logs_request_, static_cast<uint32_t>(events.list.size()), 0);
  }

 private:
  Status Append(Signal signal, std::string_view request, uint32_t items, uint32_t number) {
    const size_t kind = NumberOf({signal, packing_, false});
    return log_->Append(static_cast<uint8_t>(kind), packer_.Pack(request, packing_), items, number);
  }

  const std::array<bool, kSignals> sends_;
  const bool events_;
  const size_t packing_;
  OtlpPacker packer_;
  OtlpMetrics metrics_;
  std::string logs_request_;
  const std::unique_ptr<LogWriter> log_;
};

std::string EndpointOf(const Options& options) {
  if (!options.Text("endpoint").empty()) return options.Text("endpoint");
  return options.Text("protocol") == "grpc" ? "http://127.0.0.1:4317" : "http://127.0.0.1:4318";
}

void Check(const Config& config, ConfigFaults& faults) {
  CheckRollups(config, faults);
  const Options options(config);
  if (options.Text("protocol") == "grpc" && options.Text("compression") == "zstd")
    options.Refuse("compression", faults, "compression: with protocol grpc it is gzip or none");
  HttpUrl access;
  for (size_t signal = 0; signal < kSignals; ++signal) {
    const Options::TextKey own = kOwnEndpoints[signal];
    const auto url = OtlpUrl(EndpointOf(options), options.Text(own), kSignalNames[signal]);
    if (url) {
      access = *url;
      continue;
    }
    options.Refuse(options.Text(own).empty() ? Options::TextKey("endpoint") : own, faults, url.error());
    return;
  }
  CheckRemote(options.Group(kTransportKey), access, faults);
  CheckParts(config, faults);
}

std::array<bool, kSignals> SignalsOf(const Options& options) {
  std::array<std::string_view, kSignals> own;
  for (size_t signal = 0; signal < kSignals; ++signal) own[signal] = options.Text(kOwnEndpoints[signal]);
  std::array<bool, kSignals> sends =
      OtlpSignalsSent(options.Texts("endpoints").empty() ? options.Text("endpoint") : "all", own);
  const std::vector<std::string>& signals = options.Texts("signals");
  for (size_t i = 0; i < kSignals; ++i)
    sends[i] &= std::ranges::find(signals, kSignalNames[i]) != signals.end();
  return sends;
}

std::string SignalNamesOf(const Config& config) {
  std::string signals;
  const std::array<bool, kSignals> sends = SignalsOf(config);
  for (size_t i = 0; i < kSignals; ++i) {
    if (sends[i]) signals.append(kSignalNames[i]).push_back(' ');
  }
  return signals;
}

uint32_t TakesOf(const Config& config) {
  uint32_t takes = 0;
  const std::array<bool, kSignals> sends = SignalsOf(config);
  for (size_t i = 0; i < kSignals; ++i) takes |= static_cast<uint32_t>(sends[i]) << i;
  return takes;
}

Result<std::unique_ptr<Sink>> MakeEncoder(const Config& config, Env&, std::unique_ptr<LogWriter> log) {
  return std::unique_ptr<Sink>(std::make_unique<OtlpSink>(config, SignalsOf(config), std::move(log)));
}

Result<SendPlan> MakePlan(const std::string& name, const Config& config) {
  RETURN_IF_ERROR(RefuseFaults(&Check, config));
  const Options options(config);
  SendPlan plan{.name = name,
                .signals = {kSignalNames.begin(), kSignalNames.end()},
                .routes = OtlpRoutes(),
                .urls = {},
                .validate = [](const HttpReply& reply, size_t) { return ValidateOtlp(reply); }};
  for (const std::string& endpoint : EndpointsOf(config, EndpointOf(options))) {
    std::vector<HttpUrl>& urls = plan.urls.emplace_back();
    for (size_t signal = 0; signal < kSignals; ++signal) {
      const std::string& own = options.Text(kOwnEndpoints[signal]);
      ASSIGN_OR_RETURN(HttpUrl url, OtlpUrl(endpoint, own, kSignalNames[signal]));
      urls.push_back(std::move(url));
    }
  }
  plan.format = options.Text("protocol");
  if (plan.format == "grpc") MakeOtlpCalls(plan);
  auto requests = std::make_shared<OtlpRequests>(plan.format == "http/json", PackingOf(config),
                                                 PartRule(config, plan.urls), SignalsOf(options));
  plan.prepare = [requests](const Envelope& envelope, std::string&& body, uint32_t items, SendParts& out) {
    return requests->Make(envelope, std::move(body), items, out);
  };
  return plan;
}

constexpr std::string_view kDestination[] = {"endpoint",      "signals",         "metrics_endpoint",
                                             "logs_endpoint", "traces_endpoint", "protocol"};
constexpr NetworkSink kNetwork{.destination = kDestination,
                               .encoder = &MakeEncoder,
                               .plan = &MakePlan,
                               .packing = &PackingOf,
                               .takes = &TakesOf,
                               .signals = &SignalNamesOf};

}  // namespace

extern const SinkSpec otlp_sink;
const SinkSpec otlp_sink{.name = "otlp",
                         .help = "Metrics and events to an OpenTelemetry receiver (OTLP).",
                         .threaded = true,
                         .options = kOptions,
                         .check = &Check,
                         .several = true,
                         .sends_new_readings = true,
                         .takes_received = true,
                         .network = &kNetwork};

}  // namespace gpulens
