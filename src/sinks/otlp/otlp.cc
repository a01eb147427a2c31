// The otlp sink: metrics and events to an OpenTelemetry receiver, over HTTP as protobuf or JSON, or over
// gRPC.

#include <array>

#include "base/result.h"
#include "base/version.h"
#include "naming/sink_names.h"
#include "pipeline/outbox/outbox.h"
#include "pipeline/outbox/outbox_options.h"
#include "pipeline/plugin.h"
#include "pipeline/receive/receiver.h"
#include "sinks/otlp/otlp_body.h"
#include "sinks/otlp/otlp_endpoint.h"
#include "sinks/otlp/otlp_grpc.h"
#include "wire/otlp/otlp_logs.h"
#include "wire/otlp/otlp_metrics.h"

namespace gpulens {
namespace {

enum Signal : size_t { kMetrics, kLogs, kTraces, kSignals };
constexpr std::array<std::string_view, kSignals> kSignalNames = {"metrics", "logs", "traces"};

class OtlpSink final : public Sink, public OtlpTaker {
 public:
  OtlpSink(const Config& config, const std::array<bool, kSignals>& wanted, std::unique_ptr<Outbox> outbox)
      : body_(config),
        wanted_(wanted),
        events_(config.Bool("events") && wanted[kLogs]),
        metrics_(SinkNames(config).speller(NameForm::kOtel),
                 {.max_points = static_cast<size_t>(config.Int("max_points")),
                  .max_bytes = body_.max_bytes(),
                  .scope_version = Version(),
                  .style = OtlpStyleOf(config)}),
        outbox_(std::move(outbox)) {}

  Status Write(const Snapshot& snapshot) override {
    if (!wanted_[kMetrics]) return Ok();
    RETURN_IF_ERROR(outbox_->Ready());
    RETURN_IF_ERROR(metrics_.Encode(snapshot, [this](std::string_view request, uint32_t points) {
      return Push(kMetrics, request, points);
    }));
    metrics_.Commit();
    return Ok();
  }

  Status Write(const Events& events) override {
    if (!events_ || events.list.empty()) return Ok();
    RETURN_IF_ERROR(outbox_->Ready());
    EncodeOtlpLogs(events, Version(), logs_request_);
    return Push(kLogs, logs_request_, static_cast<uint32_t>(events.list.size()));
  }

  // OtlpSignal has the order of Signal. Others' data never pushes our own out of the queue: the sender keeps
  // it while there is no room.
  Status Take(const ReceivedOtlp& received) override {
    const size_t signal = static_cast<size_t>(received.signal);
    if (!wanted_[signal])
      return {Code::kInvalidArgument, "sinks.otlp sends no " + std::string(kSignalNames[signal]) +
                                          ": it has URLs of other signals alone"};
    RETURN_IF_ERROR(outbox_->Ready());
    if (!outbox_->HasRoom(received.bytes.size()))
      return {Code::kExhausted, "the queue of sinks.otlp is full"};
    return Push(static_cast<Signal>(signal), received.bytes, received.items);
  }

  Status Flush(Instant deadline) override { return outbox_->Finish(deadline); }
  bool Delivery(DeliveryStats& out) const override { return outbox_->stats(out); }

 private:
  Status Push(Signal signal, std::string_view request, uint32_t items) {
    ASSIGN_OR_RETURN(const std::string_view body, body_.Make(kOtlpMessages[signal], request));
    return outbox_->Push(body_.route(signal), body, items);
  }

  OtlpBody body_;
  const std::array<bool, kSignals> wanted_;
  const bool events_;
  OtlpMetrics metrics_;
  std::string logs_request_;
  std::unique_ptr<Outbox> outbox_;
};

std::string EndpointOf(const Config& config) {
  if (!config.Text("endpoint").empty()) return config.Text("endpoint");
  return config.Text("protocol") == "grpc" ? "http://127.0.0.1:4317" : "http://127.0.0.1:4318";
}

void Check(const Config& config, ConfigFaults& faults) {
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
  CheckRemote(config, access, faults);
}

Result<std::unique_ptr<Sink>> Create(const Config& config, Env& env) {
  const bool grpc = config.Text("protocol") == "grpc";
  RETURN_IF_ERROR(RefuseFaults(&Check, config));
  const std::string endpoint = EndpointOf(config);
  std::array<HttpUrl, kSignals> urls;
  std::array<std::string_view, kSignals> own;
  for (size_t signal = 0; signal < kSignals; ++signal) {
    const std::string name(kSignalNames[signal]);
    own[signal] = config.Text(name + "_endpoint");
    ASSIGN_OR_RETURN(urls[signal], OtlpUrl(endpoint, own[signal], name));
  }
  Outbox::Setup setup{.name = "otlp",
                      .signals = {kSignalNames.begin(), kSignalNames.end()},
                      .routes = OtlpRoutes(urls),
                      .judge = &JudgeOtlp};
  if (grpc) MakeOtlpCalls(setup);
  ASSIGN_OR_RETURN(auto outbox, Outbox::Make(config, std::move(setup), env));
  return std::unique_ptr<Sink>(
      std::make_unique<OtlpSink>(config, OtlpWanted(config.Text("endpoint"), own), std::move(outbox)));
}

constexpr std::string_view kProtocols[] = {"http/protobuf", "http/json", "grpc"};

constexpr auto kOwnOptions = JoinOptions(
    std::to_array<OptionSpec>({
        {.key = "endpoint",
         .type = OptionType::kUrl,
         .help = "The receiver; /v1/metrics, /v1/logs and /v1/traces are put behind it. Default: "
                 "http://127.0.0.1:4318, with grpc port 4317."},
        {.key = "metrics_endpoint",
         .type = OptionType::kUrl,
         .help = "The whole URL for metrics, taken as it is. Without endpoint, what has no URL is not sent."},
        {.key = "logs_endpoint",
         .type = OptionType::kUrl,
         .help = "The whole URL for events, taken as it is."},
        {.key = "traces_endpoint",
         .type = OptionType::kUrl,
         .help = "The whole URL for spans, which come from receivers, taken as it is."},
        {.key = "protocol",
         .fallback = "http/protobuf",
         .help = "How it is spoken to.",
         .allowed = kProtocols},
        IntervalOption("60s"),
        {.key = "compression", .fallback = "gzip", .help = "Of request bodies.", .allowed = kOtlpPackings},
        {.key = "events",
         .type = OptionType::kBool,
         .fallback = "true",
         .help = "Whether events are sent, too, as log records."},
        {.key = "max_points",
         .type = OptionType::kInt,
         .fallback = "10000",
         .help = "Points of one request.",
         .min = 1,
         .max = 1'000'000},
    }),
    kOtlpStyleOptions);
constexpr auto kOptions = JoinOptions(kOwnOptions, JoinOptions(NameOptions("[native]"), kOutboxOptions));

}  // namespace

extern const SinkSpec otlp_sink;
const SinkSpec otlp_sink{.name = "otlp",
                         .help = "Metrics and events to an OpenTelemetry receiver (OTLP).",
                         .threaded = true,
                         .options = kOptions,
                         .create = &Create,
                         .check = &Check,
                         .takes_received = true,
                         .sends_new_readings = true};

}  // namespace gpulens
