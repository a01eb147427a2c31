// The otlp sink: metrics and events to an OpenTelemetry receiver, over HTTP, as protobuf.
//
// The sink's own thread encodes and queues; the sender's delivers. So a receiver that is away holds up
// nobody.

#include <mutex>
#include <thread>

#include "base/log.h"
#include "base/result.h"
#include "base/text.h"
#include "base/version.h"
#include "delivery/http_sender.h"
#include "delivery/parcel_queue.h"
#include "dialects/dialect.h"
#include "pipeline/delivery/delivery_stats.h"
#include "pipeline/plugin.h"
#include "pipeline/remote/remote_access.h"
#include "pipeline/remote/remote_options.h"
#include "sinks/otlp/otlp_endpoint.h"
#include "wire/gzip.h"
#include "wire/otlp/otlp_answer.h"
#include "wire/otlp/otlp_logs.h"
#include "wire/otlp/otlp_metrics.h"

namespace gpulens {
namespace {

// For the folder of a queue that another sink has, and how often it is looked at meanwhile.
constexpr Duration kPatience = std::chrono::seconds(3), kLookAgain = std::chrono::milliseconds(20);

enum Signal : size_t { kMetrics, kLogs, kSignals };
constexpr std::string_view kSignalNames[kSignals] = {"metrics", "logs"};
// A parcel on disk outlives a change of `compression`, so its route says whether it is packed.
constexpr size_t kRoutes = 2 * kSignals;
constexpr size_t RouteOf(size_t signal, bool packed) noexcept { return signal + packed * size_t{kSignals}; }
constexpr size_t kAnswerBytes = 64u << 10;
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

// Memory that waits is worth more than disk.
constexpr uint64_t kMemoryShare = 8;

ParcelQueue::Options QueueOptions(const Config& queue, const std::string& state_dir) {
  ParcelQueue::Options options;
  options.folder = queue.Text("dir");
  if (options.folder.empty() && !state_dir.empty()) options.folder = state_dir + "/queue/otlp";
  if (queue.Text("storage") == "memory") options.folder.clear();
  options.max_bytes = queue.Size("max_bytes");
  if (options.folder.empty()) options.max_bytes /= kMemoryShare;
  options.max_age = queue.Time("max_age");
  const std::string& sync = queue.Text("fsync");
  options.sync = sync == "always" ? ParcelSync::kAlways
                 : sync == "none" ? ParcelSync::kNone
                                  : ParcelSync::kInterval;
  return options;
}

// kUnavailable while another has the folder. Without patience a sink whose folder was not chosen by anybody
// then sends from memory: it is the second agent of its user.
Result<std::unique_ptr<ParcelQueue>> OpenQueue(const Config& queue, Env& env, bool patient) {
  ParcelQueue::Options options = QueueOptions(queue, env.state_dir);
  auto opened = ParcelQueue::Open(options, *env.clock);
  const bool asked = !queue.Text("dir").empty();
  if (opened || asked || patient || options.folder.empty() || opened.error().code != Code::kUnavailable)
    return opened;
  Log(LogLevel::kWarn, "otlp", "queue_in_memory", opened.error().detail + ". What waits is kept in memory.");
  options.folder.clear();
  options.max_bytes /= kMemoryShare;
  return ParcelQueue::Open(options, *env.clock);
}

class OtlpSink final : public Sink {
 public:
  struct Parts {
    // Null: another sink has its folder, as the one before a reload does for a moment.
    std::unique_ptr<ParcelQueue> queue;
    std::vector<RemoteAccess> access;  // by signal
    HttpSender::Options sender;
  };

  OtlpSink(const Config& config, Parts parts, Env& env)
      : config_(config),
        env_(env),
        gzip_(config.Text("compression") == "gzip"),
        logs_(config.Bool("events")),
        metrics_(MakeSpeller(config.Texts("dialects"), NameForm::kOtel),
                 {.max_points = static_cast<size_t>(config.Int("max_points")), .scope_version = Version()}),
        access_(std::move(parts.access)),
        way_(std::move(parts.sender)) {
    way_.access = [this](size_t route) { return Access(route); };
    if (parts.queue) Start(std::move(parts.queue));
  }

  Status Write(const Snapshot& snapshot) override {
    RETURN_IF_ERROR(Ready());
    RETURN_IF_ERROR(metrics_.Encode(snapshot, [this](std::string_view request, uint32_t points) {
      return Push(kMetrics, request, points);
    }));
    metrics_.Commit();
    return Ok();
  }

  Status Write(const Events& events) override {
    if (!logs_ || events.list.empty()) return Ok();
    RETURN_IF_ERROR(Ready());
    EncodeOtlpLogs(events, Version(), logs_request_);
    return Push(kLogs, logs_request_, static_cast<uint32_t>(events.list.size()));
  }

  Status Flush(Instant deadline) override { return sender_ ? sender_->Finish(deadline) : Ok(); }

  bool Delivery(DeliveryStats& out) const override {
    std::lock_guard lock(mutex_);
    if (!sender_) return false;
    sender_->stats(sent_);
    const ParcelQueue::Stats queued = queue_->stats();
    out.up = sent_.up;
    out.requests = sent_.requests;
    out.retries = sent_.retries;
    out.sent_bytes = sent_.sent_bytes;
    out.last_success_unix_ns = sent_.last_success_unix_ns;
    out.signals.resize(kSignals);
    for (size_t i = 0; i < kSignals; ++i) {
      const HttpSender::Stats::Route &plain = sent_.routes[RouteOf(i, false)],
                                     &packed = sent_.routes[RouteOf(i, true)];
      out.signals[i] = {kSignalNames[i], plain.delivered + packed.delivered,
                        plain.rejected + packed.rejected};
    }
    out.queued_parcels = queued.parcels;
    out.queued_bytes = queued.held_bytes;
    out.queue_limit = queue_->options().max_bytes;
    out.on_disk = !queue_->options().folder.empty();
    out.oldest_age = queued.oldest_age;
    for (size_t i = 0; i < kParcelLosses; ++i)
      out.lost[i] = {ParcelLossName(static_cast<ParcelLoss>(i)), queued.lost_parcels[i]};
    out.lost[kParcelLosses] = {"refused", sent_.refused};
    return true;
  }

 private:
  void Start(std::unique_ptr<ParcelQueue> queue) {
    std::lock_guard lock(mutex_);
    queue_ = std::move(queue);
    sender_ = std::make_unique<HttpSender>(std::move(way_), *queue_, *env_.http, *env_.io, *env_.clock);
  }

  // The folder of the queue is free once the sink that had it has ended. Waits for that: this is the sink's
  // own thread.
  Status Ready() {
    if (sender_) return Ok();
    const Instant begin = env_.clock->Now();
    while (true) {
      const bool patient = env_.clock->Now() - begin < kPatience;
      auto queue = OpenQueue(config_.Group("queue"), env_, patient);
      if (queue) return Start(*std::move(queue)), Ok();
      if (!patient || queue.error().code != Code::kUnavailable) return queue.error();
      std::this_thread::sleep_for(kLookAgain);
    }
  }

  Status Push(Signal signal, std::string_view request, uint32_t items) {
    parcel_.assign(1, static_cast<char>(RouteOf(signal, gzip_)));
    if (gzip_) {
      packer_.Compress(request, packed_);
      parcel_ += packed_;
    } else {
      parcel_ += request;
    }
    Status pushed = queue_->Push(parcel_, items);
    // Larger than the whole queue: it is counted as lost, and would be as large the next time.
    return pushed.code == Code::kInvalidArgument ? Ok() : pushed;
  }

  Result<HttpSender::Access> Access(size_t route) {
    RemoteAccess& access = access_[route % kSignals];
    RETURN_IF_ERROR(access.Refresh());
    return HttpSender::Access{access.headers(), access.tls()};
  }

  const Config config_;
  Env& env_;
  const bool gzip_, logs_;
  OtlpMetrics metrics_;
  GzipCompressor packer_;
  std::string packed_, parcel_, logs_request_;
  std::vector<RemoteAccess> access_;  // used by the sender's thread alone
  HttpSender::Options way_;           // until there is a sender
  mutable std::mutex mutex_;          // guards the making of what follows, and sent_
  std::unique_ptr<ParcelQueue> queue_;
  mutable HttpSender::Stats sent_;
  std::unique_ptr<HttpSender> sender_;  // last: it ends before what it uses
};

Result<std::unique_ptr<Sink>> Create(const Config& config, Env& env) {
  if (!env.http || !env.io) return Status{Code::kUnavailable, "there is no network here"};
  OtlpSink::Parts parts;
  parts.sender.name = "otlp";
  parts.sender.timeout = config.Time("timeout");
  parts.sender.backoff = {.initial = config.Group("retry").Time("initial"),
                          .cap = config.Group("retry").Time("max")};
  parts.sender.judge = &Judge;
  parts.sender.routes.resize(kRoutes);
  for (size_t signal = 0; signal < kSignals; ++signal) {
    const std::string name(kSignalNames[signal]);
    ASSIGN_OR_RETURN(HttpUrl url, OtlpUrl(config.Text("endpoint"), config.Text(name + "_endpoint"), name));
    ASSIGN_OR_RETURN(RemoteAccess access, RemoteAccess::Make(config, url, {}));
    parts.access.push_back(std::move(access));
    SendRoute route{name, {url, config.Text("unix_socket"), {}}, "Content-Type: application/x-protobuf\r\n"};
    route.target.limits.body_bytes = kAnswerBytes;
    parts.sender.routes[RouteOf(signal, false)] = route;
    route.headers += "Content-Encoding: gzip\r\n";
    parts.sender.routes[RouteOf(signal, true)] = std::move(route);
  }
  auto queue = OpenQueue(config.Group("queue"), env, true);
  if (queue) parts.queue = *std::move(queue);
  else if (queue.error().code != Code::kUnavailable) return queue.error();
  return std::unique_ptr<Sink>(std::make_unique<OtlpSink>(config, std::move(parts), env));
}

constexpr std::string_view kProtocols[] = {"http/protobuf"};
constexpr std::string_view kCompressions[] = {"gzip", "none"};
constexpr std::string_view kStorages[] = {"disk", "memory"};
constexpr std::string_view kSyncs[] = {"none", "interval", "always"};

constexpr OptionSpec kQueueOptions[] = {
    {.key = "storage",
     .fallback = "disk",
     .help = "Where what is not delivered yet waits; in memory it ends with the agent, and may be an eighth "
             "as much.",
     .allowed = kStorages},
    {.key = "dir", .help = "Its folder; default: queue/otlp in the state folder."},
    {.key = "max_bytes",
     .type = OptionType::kSize,
     .fallback = "256MiB",
     .help = "How much may wait; then the oldest is dropped and counted.",
     .min = 8 << 20},
    {.key = "max_age",
     .type = OptionType::kTime,
     .fallback = "0s",
     .help = "What waited longer is dropped and counted; 0s: nothing is.",
     .min = 0},
    {.key = "fsync", .fallback = "interval", .help = "When it is forced to the disk.", .allowed = kSyncs},
};

constexpr OptionSpec kRetryOptions[] = {
    {.key = "initial",
     .type = OptionType::kTime,
     .fallback = "1s",
     .help = "The longest first wait.",
     .min = 0.01},
    {.key = "max",
     .type = OptionType::kTime,
     .fallback = "60s",
     .help = "The longest wait of all.",
     .min = 0.01},
};

constexpr auto kOptions = JoinOptions(
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
        {.key = "interval",
         .type = OptionType::kTime,
         .fallback = "60s",
         .help = "Between exports.",
         .min = 0.01},
        {.key = "timeout",
         .type = OptionType::kTime,
         .fallback = "10s",
         .help = "Of one request.",
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
        {.key = "queue",
         .type = OptionType::kGroup,
         .help = "What waits for delivery.",
         .children = kQueueOptions},
        {.key = "retry", .type = OptionType::kGroup, .help = "After a failure.", .children = kRetryOptions},
    }),
    kRemoteOptions);

}  // namespace

extern const SinkSpec otlp_sink;
const SinkSpec otlp_sink{.name = "otlp",
                         .help = "Metrics and events to an OpenTelemetry receiver (OTLP/HTTP).",
                         .threaded = true,
                         .options = kOptions,
                         .create = &Create};

}  // namespace gpulens
