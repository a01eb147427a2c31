// The otlp sink: metrics and events to an OpenTelemetry receiver, over HTTP, as protobuf.

#include <array>

#include "base/result.h"
#include "base/text.h"
#include "base/version.h"
#include "dialects/dialect.h"
#include "pipeline/outbox/outbox.h"
#include "pipeline/outbox/outbox_options.h"
#include "pipeline/plugin.h"
#include "pipeline/receive/receiver.h"
#include "sinks/otlp/otlp_endpoint.h"
#include "wire/gzip.h"
#include "wire/otlp/otlp_answer.h"
#include "wire/otlp/otlp_logs.h"
#include "wire/otlp/otlp_metrics.h"

namespace gpulens {
namespace {

enum Signal : size_t { kMetrics, kLogs, kTraces, kSignals };
constexpr std::array<std::string_view, kSignals> kSignalNames = {"metrics", "logs", "traces"};
// A parcel on disk outlives a change of `compression`, so its route says whether it is packed.
constexpr size_t kRoutes = 2 * kSignals;
constexpr size_t RouteOf(size_t signal, bool packed) noexcept { return signal + packed * size_t{kSignals}; }
constexpr std::string_view kProtobuf = "application/x-protobuf";

// What a receiver that took nothing has to say about it.
std::string Refusal(const HttpReply& reply) {
  std::string said = reply.content_type.starts_with(kProtobuf) ? ReadOtlpError(reply.body) : "";
  if (said.empty()) AppendPrintable(said, std::string_view(reply.body).substr(0, 200));
  return said.empty() ? reply.detail : reply.detail + ": " + said;
}

SendOutcome Judge(const HttpReply& reply) {
  if (reply.failure == HttpFailure::kNone) {
    auto answer = reply.content_type.starts_with(kProtobuf) ? ReadOtlpAnswer(reply.body) : std::nullopt;
    if (!answer) return {};
    return {SendOutcome::kTaken, static_cast<uint64_t>(answer->rejected), std::move(answer->message)};
  }
  return {IsRetryable(reply.status) ? SendOutcome::kAgain : SendOutcome::kRefused, 0, Refusal(reply)};
}

class OtlpSink final : public Sink, public OtlpTaker {
 public:
  OtlpSink(const Config& config, std::unique_ptr<Outbox> outbox)
      : gzip_(config.Text("compression") == "gzip"),
        logs_(config.Bool("events")),
        metrics_(MakeSpeller(config.Texts("dialects"), NameForm::kOtel),
                 {.max_points = static_cast<size_t>(config.Int("max_points")), .scope_version = Version()}),
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

  // OtlpSignal has the order of Signal. Others' data never pushes our own out of the queue: the sender keeps
  // it while there is no room.
  Status Take(const ReceivedOtlp& received) override {
    RETURN_IF_ERROR(outbox_->Ready());
    if (!outbox_->HasRoom(received.bytes.size()))
      return {Code::kExhausted, "the queue of sinks.otlp is full"};
    return Push(static_cast<Signal>(received.signal), received.bytes, received.items);
  }

  Status Flush(Instant deadline) override { return outbox_->Finish(deadline); }
  bool Delivery(DeliveryStats& out) const override { return outbox_->stats(out); }

 private:
  Status Push(Signal signal, std::string_view request, uint32_t items) {
    if (gzip_) {
      packer_.Compress(request, packed_);
      request = packed_;
    }
    return outbox_->Push(RouteOf(signal, gzip_), request, items);
  }

  const bool gzip_, logs_;
  OtlpMetrics metrics_;
  GzipCompressor packer_;
  std::string packed_, logs_request_;
  std::unique_ptr<Outbox> outbox_;
};

Result<std::unique_ptr<Sink>> Create(const Config& config, Env& env) {
  Outbox::Setup setup{.name = "otlp",
                      .signals = {kSignalNames.begin(), kSignalNames.end()},
                      .routes = std::vector<Outbox::Route>(kRoutes),
                      .judge = &Judge};
  for (size_t signal = 0; signal < kSignals; ++signal) {
    const std::string name(kSignalNames[signal]);
    ASSIGN_OR_RETURN(HttpUrl url, OtlpUrl(config.Text("endpoint"), config.Text(name + "_endpoint"), name));
    const Outbox::Route plain{signal, url, "Content-Type: application/x-protobuf\r\n"};
    setup.routes[RouteOf(signal, true)] = {signal, url, plain.headers + "Content-Encoding: gzip\r\n"};
    setup.routes[RouteOf(signal, false)] = plain;
  }
  ASSIGN_OR_RETURN(auto outbox, Outbox::Make(config, std::move(setup), env));
  return std::unique_ptr<Sink>(std::make_unique<OtlpSink>(config, std::move(outbox)));
}

constexpr std::string_view kProtocols[] = {"http/protobuf"};
constexpr std::string_view kCompressions[] = {"gzip", "none"};

constexpr auto kOptions = JoinOptions(
    std::to_array<OptionSpec>({
        {.key = "endpoint",
         .type = OptionType::kUrl,
         .fallback = "http://127.0.0.1:4318",
         .help = "The receiver; /v1/metrics, /v1/logs and /v1/traces are put behind it."},
        {.key = "metrics_endpoint",
         .type = OptionType::kUrl,
         .help = "The whole URL for metrics, taken as it is."},
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
        {.key = "interval",
         .type = OptionType::kTime,
         .fallback = "60s",
         .help = "Between exports.",
         .min = 0.01},
        {.key = "compression", .fallback = "gzip", .help = "Of request bodies.", .allowed = kCompressions},
        {.key = "dialects",
         .type = OptionType::kTexts,
         .fallback = "[native]",
         .help = "Under which names series are told.",
         .allowed = kDialectNames},
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
    kOutboxOptions);

}  // namespace

extern const SinkSpec otlp_sink;
const SinkSpec otlp_sink{.name = "otlp",
                         .help = "Metrics and events to an OpenTelemetry receiver (OTLP/HTTP).",
                         .threaded = true,
                         .options = kOptions,
                         .create = &Create};

}  // namespace gpulens
