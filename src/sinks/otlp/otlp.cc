// The otlp sink: metrics and events to an OpenTelemetry receiver, over HTTP, as protobuf or JSON.

#include <array>

#include "base/result.h"
#include "base/version.h"
#include "naming/sink_names.h"
#include "pipeline/outbox/outbox.h"
#include "pipeline/outbox/outbox_options.h"
#include "pipeline/plugin.h"
#include "sinks/otlp/otlp_body.h"
#include "sinks/otlp/otlp_endpoint.h"
#include "wire/otlp/otlp_logs.h"
#include "wire/otlp/otlp_metrics.h"

namespace gpulens {
namespace {

enum Signal : size_t { kMetrics, kLogs, kSignals };
constexpr std::array<std::string_view, kSignals> kSignalNames = {"metrics", "logs"};
class OtlpSink final : public Sink {
 public:
  OtlpSink(const Config& config, std::unique_ptr<Outbox> outbox)
      : body_(config),
        logs_(config.Bool("events")),
        metrics_(SinkNames(config).speller(NameForm::kOtel),
                 {.max_points = static_cast<size_t>(config.Int("max_points")),
                  .max_bytes = body_.max_bytes(),
                  .scope_version = Version(),
                  .style = OtlpStyleOf(config)}),
        outbox_(std::move(outbox)) {}

  Status Write(const Snapshot& snapshot) override {
    RETURN_IF_ERROR(outbox_->Ready());
    RETURN_IF_ERROR(metrics_.Encode(snapshot, [this](std::string_view request, uint32_t points) {
      return Push(kMetrics, request, points);
    }));
    metrics_.Commit();
    return Ok();
  }

  Status Write(const Events& events) override {
    if (!logs_ || events.list.empty()) return Ok();
    RETURN_IF_ERROR(outbox_->Ready());
    EncodeOtlpLogs(events, Version(), logs_request_);
    return Push(kLogs, logs_request_, static_cast<uint32_t>(events.list.size()));
  }

  Status Flush(Instant deadline) override { return outbox_->Finish(deadline); }
  bool Delivery(DeliveryStats& out) const override { return outbox_->stats(out); }

 private:
  Status Push(Signal signal, std::string_view request, uint32_t items) {
    const auto message = signal == kMetrics ? OtlpMessage::kMetrics : OtlpMessage::kLogs;
    ASSIGN_OR_RETURN(const std::string_view body, body_.Make(message, request));
    return outbox_->Push(body_.route(signal), body, items);
  }

  OtlpBody body_;
  const bool logs_;
  OtlpMetrics metrics_;
  std::string logs_request_;
  std::unique_ptr<Outbox> outbox_;
};

Result<std::unique_ptr<Sink>> Create(const Config& config, Env& env) {
  std::array<HttpUrl, kSignals> urls;
  for (size_t signal = 0; signal < kSignals; ++signal) {
    const std::string name(kSignalNames[signal]);
    ASSIGN_OR_RETURN(urls[signal], OtlpUrl(config.Text("endpoint"), config.Text(name + "_endpoint"), name));
  }
  Outbox::Setup setup{.name = "otlp",
                      .signals = {kSignalNames.begin(), kSignalNames.end()},
                      .routes = OtlpRoutes(urls),
                      .judge = &JudgeOtlp};
  ASSIGN_OR_RETURN(auto outbox, Outbox::Make(config, std::move(setup), env));
  return std::unique_ptr<Sink>(std::make_unique<OtlpSink>(config, std::move(outbox)));
}

constexpr std::string_view kProtocols[] = {"http/protobuf", "http/json"};

constexpr auto kOwnOptions = JoinOptions(
    std::to_array<OptionSpec>({
        {.key = "endpoint",
         .type = OptionType::kUrl,
         .fallback = "http://127.0.0.1:4318",
         .help = "The receiver; /v1/metrics and /v1/logs are put behind it."},
        {.key = "metrics_endpoint",
         .type = OptionType::kUrl,
         .help = "The whole URL for metrics, taken as it is."},
        {.key = "logs_endpoint",
         .type = OptionType::kUrl,
         .help = "The whole URL for events, taken as it is."},
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
                         .help = "Metrics and events to an OpenTelemetry receiver (OTLP/HTTP).",
                         .threaded = true,
                         .options = kOptions,
                         .create = &Create};

}  // namespace gpulens
