// The otlp sink: metrics and events to an OpenTelemetry receiver, over HTTP as protobuf or JSON, or over
// gRPC.

#include <algorithm>
#include <array>

#include "base/result.h"
#include "base/version.h"
#include "export/sink_names.h"
#include "pipeline/delivery/send_setup.h"
#include "pipeline/rollup/rollup_rule.h"
#include "plugins/plugin.h"
#include "plugins/remote_access.h"
#include "plugins/sinks/otlp/otlp_requests.h"
#include "wire/otlp/otlp_logs.h"
#include "wire/otlp/otlp_metrics.h"

namespace gpulens {
namespace {

enum Signal : size_t { kMetrics, kLogs, kTraces, kSignals };
constexpr std::array<std::string_view, kSignals> kSignalNames = {"metrics", "logs", "traces"};
// So that a request stays below what receivers take by default.
constexpr size_t kRequestBytes = 4u << 20;

class OtlpSink final : public Sink {
 public:
  OtlpSink(const Config& config, const std::array<bool, kSignals>& sends, std::unique_ptr<LogWriter> log)
      : sends_(sends),
        events_(config.Bool("events") && sends[kLogs]),
        packing_(OtlpPackingOf(config)),
        metrics_(SinkNames(config).namer(NameForm::kOtel),
                 {.max_points = static_cast<size_t>(config.Int("max_points")),
                  .max_bytes = kRequestBytes,
                  .scope_version = Version(),
                  .style = OtlpStyleOf(config)}),
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

std::string EndpointOf(const Config& config) {
  if (!config.Text("endpoint").empty()) return config.Text("endpoint");
  return config.Text("protocol") == "grpc" ? "http://127.0.0.1:4317" : "http://127.0.0.1:4318";
}

void Check(const Config& config, ConfigFaults& faults) {
  CheckRollups(config, faults);
  if (config.Text("protocol") == "grpc" && config.Text("compression") == "zstd")
    faults.Refuse(config, "compression", "compression: with protocol grpc it is gzip or none");
  HttpUrl access;
  for (std::string_view signal : kSignalNames) {
    const std::string key = std::string(signal) + "_endpoint";
    const std::string& own = config.Text(key);
    const auto url = OtlpUrl(EndpointOf(config), own, signal);
    if (url) {
      access = *url;
      continue;
    }
    faults.Refuse(config, own.empty() ? "endpoint" : std::string_view(key), url.error());
    return;
  }
  CheckRemote(config.Group(kTransportKey), access, faults);
  CheckParts(config, faults);
}

std::array<bool, kSignals> SignalsOf(const Config& config) {
  std::array<std::string_view, kSignals> own;
  for (size_t signal = 0; signal < kSignals; ++signal)
    own[signal] = config.Text(std::string(kSignalNames[signal]) + "_endpoint");
  std::array<bool, kSignals> sends =
      OtlpSignalsSent(config.Texts("endpoints").empty() ? config.Text("endpoint") : "all", own);
  const std::vector<std::string>& signals = config.Texts("signals");
  for (size_t i = 0; i < kSignals; ++i)
    sends[i] &= std::find(signals.begin(), signals.end(), kSignalNames[i]) != signals.end();
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
  SendPlan plan{.name = name,
                .signals = {kSignalNames.begin(), kSignalNames.end()},
                .routes = OtlpRoutes(),
                .urls = {},
                .validate = [](const HttpReply& reply, size_t) { return ValidateOtlp(reply); }};
  for (const std::string& endpoint : EndpointsOf(config, EndpointOf(config))) {
    std::vector<HttpUrl>& urls = plan.urls.emplace_back();
    for (std::string_view signal : kSignalNames) {
      const std::string& own = config.Text(std::string(signal) + "_endpoint");
      ASSIGN_OR_RETURN(HttpUrl url, OtlpUrl(endpoint, own, signal));
      urls.push_back(std::move(url));
    }
  }
  if (config.Text("protocol") == "grpc") MakeOtlpCalls(plan);
  plan.format = config.Text("protocol");
  auto requests = std::make_shared<OtlpRequests>(config, plan, SignalsOf(config));
  plan.prepare = [requests](const Envelope& envelope, std::string&& body, uint32_t items, SendParts& out) {
    return requests->Make(envelope, std::move(body), items, out);
  };
  return plan;
}

constexpr std::string_view kProtocols[] = {"http/protobuf", "http/json", "grpc"};

constexpr auto kOwnOptions = JoinOptions(
    std::to_array<OptionSpec>({
        {.key = "endpoint",
         .type = OptionType::kUrl,
         .help = "URL of the receiver; /v1/metrics, /v1/logs and /v1/traces are appended. Default: "
                 "http://127.0.0.1:4318, with grpc port 4317."},
        {.key = "signals",
         .type = OptionType::kTexts,
         .fallback = R"(["metrics", "logs", "traces"])",
         .help = "What is sent: events as logs, spans from receivers.",
         .allowed = kSignalNames},
        {.key = "metrics_endpoint",
         .type = OptionType::kUrl,
         .help = "The whole URL for metrics, used unchanged. Without endpoint, signals without a URL are not "
                 "sent."},
        {.key = "logs_endpoint",
         .type = OptionType::kUrl,
         .help = "The whole URL for events, used unchanged."},
        {.key = "traces_endpoint",
         .type = OptionType::kUrl,
         .help = "The whole URL for spans of receivers, used unchanged."},
        {.key = "protocol", .fallback = "http/protobuf", .help = "The protocol.", .allowed = kProtocols},
        IntervalOption("60s"),
        {.key = "compression",
         .fallback = "gzip",
         .help = "Compression of request bodies.",
         .allowed = kOtlpPackings},
        {.key = "events",
         .type = OptionType::kBool,
         .fallback = "true",
         .help = "Send events, too, as log records."},
        {.key = "max_points",
         .type = OptionType::kInt,
         .fallback = "10000",
         .help = "Most points in one request.",
         .min = 1,
         .max = 1'000'000},
    }),
    kOtlpStyleOptions);
constexpr auto kOptions =
    JoinOptions(kOwnOptions, JoinOptions(JoinOptions(NameOptions("[native]"), RollupsOption()),
                                         JoinOptions(kPartOptions, kSendOptions)));

constexpr std::string_view kDestination[] = {"endpoint",      "signals",         "metrics_endpoint",
                                             "logs_endpoint", "traces_endpoint", "protocol"};
constexpr NetworkSink kNetwork{.destination = kDestination,
                               .encoder = &MakeEncoder,
                               .plan = &MakePlan,
                               .packing = &OtlpPackingOf,
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
