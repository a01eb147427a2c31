// The receiver otlp: takes in what OpenTelemetry SDKs and Collectors send, and hands it to the sinks.

#include <malloc.h>

#include <algorithm>

#include "base/files.h"
#include "base/parse.h"
#include "base/result.h"
#include "receivers/otlp/otlp_grpc.h"
#include "receivers/otlp/otlp_http.h"
#include "receivers/otlp/otlp_intake.h"

namespace gpulens {
namespace {

class OtlpReceiver final : public Receiver {
 public:
  OtlpReceiver(OtlpIntake::Options options, const ReceiverContext& context)
      : clock_(*context.env.clock), intake_(std::make_unique<OtlpIntake>(std::move(options), context)) {}
  ~OtlpReceiver() override { End(); }

  Status Open(const OtlpHttp::Options& http, const OtlpGrpc::Options& grpc, Env& env) {
    if (!http.listen.empty()) {
      ASSIGN_OR_RETURN(http_, OtlpHttp::Open(http, env, *intake_));
    }
    if (!grpc.listen.empty()) {
      ASSIGN_OR_RETURN(grpc_, OtlpGrpc::Open(grpc, env, *intake_));
    }
    return Ok();
  }

  // First nobody comes any more, then all that came is done and answered.
  void Stop(Instant deadline) override {
    const auto left = [&] { return std::max<Duration>(deadline - clock_.Now(), Duration(0)); };
    if (http_) http_->Close(left());
    if (grpc_) grpc_->Close(left());
    intake_->Finish();
    if (http_) http_->AwaitClosed(left());
    if (grpc_) grpc_->AwaitClosed(left());
  }

  void ReadStats(ReceiverStats& out) const override { intake_->ReadStats(out); }

 private:
  // Answers refer to the server until the last sink has said its word.
  void End() {
    intake_->Finish();
    http_ = nullptr;
    grpc_ = nullptr;
  }

  const Clock& clock_;
  std::unique_ptr<OtlpIntake> intake_;
  std::unique_ptr<OtlpHttp> http_;
  std::unique_ptr<OtlpGrpc> grpc_;
};

std::string HostId(const std::string& root) {
  const auto text = ReadFile(root + "/etc/machine-id", 256);
  return text ? std::string(Trim(*text)) : "";
}

// What may arrive at once, and what may wait: each a quarter of what is kept free for what comes at once,
// since a text that grows may hold twice its size. One request always may.
size_t Room(uint64_t memory_limit, double spike, size_t max_request) {
  const size_t most = 2 * max_request;
  if (memory_limit == 0) return most;
  const auto quarter = static_cast<size_t>(static_cast<double>(memory_limit) * spike / 4);
  return std::clamp(quarter, max_request, most);
}

// Requests of up to some megabytes come and go all the time. Memory for each from the system, and back, would
// cost more than reading it does; this much of what was freed is kept instead.
void KeepFreedMemory() {
  constexpr int kKept = 4 << 20;
  ::mallopt(M_MMAP_THRESHOLD, kKept);
  ::mallopt(M_TRIM_THRESHOLD, kKept);
}

Result<std::unique_ptr<Receiver>> Create(const Config& config, const ReceiverContext& context) {
  if (!context.env.io) return Status{Code::kUnavailable, "there is no network here"};
  KeepFreedMemory();
  const Config& batch = config.Group("batch");
  const Config& memory = config.Group("memory_limiter");
  OtlpIntake::Options options;
  options.ways = {"otlp/http", "otlp/grpc"};
  options.unwanted = config.Texts("drop");
  options.max_request = config.Size("max_request");
  options.max_waiting = Room(context.memory_limit, memory.Double("spike"), options.max_request);
  options.batch.items = static_cast<uint32_t>(batch.Int("items"));
  options.batch_wait = batch.Time("wait");
  options.identity = {context.stated, context.host_name, HostId(context.env.root)};
  options.memory = {context.memory_limit, memory.Double("limit"), memory.Double("spike")};
  auto receiver = std::make_unique<OtlpReceiver>(std::move(options), context);
  OtlpHttp::Options http;
  http.listen = config.Group("http").Texts("listen");
  http.insecure = config.Bool("insecure");
  http.max_request = config.Size("max_request");
  http.max_arriving = Room(context.memory_limit, memory.Double("spike"), http.max_request);
  http.connections = static_cast<size_t>(config.Int("max_connections"));
  OtlpGrpc::Options grpc;
  grpc.listen = config.Group("grpc").Texts("listen");
  grpc.insecure = http.insecure;
  grpc.max_request = http.max_request;
  grpc.max_arriving = http.max_arriving;
  grpc.connections = http.connections;
  grpc.way = 1;
  RETURN_IF_ERROR(receiver->Open(http, grpc, context.env));
  return std::unique_ptr<Receiver>(std::move(receiver));
}

constexpr OptionSpec kHttp[] = {
    {.key = "listen",
     .type = OptionType::kTexts,
     .fallback = R"(["127.0.0.1:4318", "[::1]:4318"])",
     .help = "Where OTLP/HTTP is taken: HOST:PORT, :PORT for all interfaces; [] for nowhere."},
};

constexpr OptionSpec kGrpc[] = {
    {.key = "listen",
     .type = OptionType::kTexts,
     .fallback = R"(["127.0.0.1:4317", "[::1]:4317"])",
     .help = "Where OTLP/gRPC is taken; [] for nowhere."},
};

constexpr OptionSpec kBatch[] = {
    {.key = "items",
     .type = OptionType::kInt,
     .fallback = "1000",
     .help = "Points, records or spans of one request to the sinks, at most.",
     .min = 1,
     .max = 1'000'000},
    {.key = "wait",
     .type = OptionType::kTime,
     .fallback = "0s",
     .help = "How long a request and its answer may be kept back for others to join it.",
     .min = 0,
     .max = 10},
};

constexpr OptionSpec kMemory[] = {
    {.key = "limit",
     .type = OptionType::kDouble,
     .fallback = "0.8",
     .help = "The share of limits.memory that the agent may have.",
     .min = 0,
     .max = 1},
    {.key = "spike",
     .type = OptionType::kDouble,
     .fallback = "0.25",
     .help =
         "The share of it that is kept free for what comes at once; senders are told to come again before.",
     .min = 0,
     .max = 1},
};

constexpr OptionSpec kOptions[] = {
    {.key = "http", .type = OptionType::kGroup, .help = "OTLP over HTTP.", .children = kHttp},
    {.key = "grpc", .type = OptionType::kGroup, .help = "OTLP over gRPC.", .children = kGrpc},
    {.key = "insecure",
     .type = OptionType::kBool,
     .fallback = "false",
     .help = "Let other machines in without TLS and passwords; for closed networks."},
    {.key = "max_request",
     .type = OptionType::kSize,
     .fallback = "16MiB",
     .help = "Of one request, packed and unpacked.",
     .min = 1024,
     .max = 64 << 20},
    {.key = "max_connections",
     .type = OptionType::kInt,
     .fallback = "512",
     .help = "Open connections; further ones are refused and counted.",
     .min = 1,
     .max = 65536},
    {.key = "drop",
     .type = OptionType::kTexts,
     .fallback = R"(["go_*", "python_*", "*_created"])",
     .help = "Names of metrics that are left out and counted; a star stands for anything."},
    {.key = "batch",
     .type = OptionType::kGroup,
     .help = "How requests are merged and split.",
     .children = kBatch},
    {.key = "memory_limiter",
     .type = OptionType::kGroup,
     .help = "When senders are told to come again.",
     .children = kMemory},
};

}  // namespace

extern const ReceiverSpec otlp_receiver;
const ReceiverSpec otlp_receiver{
    .name = "otlp",
    .help = "Metrics, logs and traces from OpenTelemetry SDKs and Collectors, for the sinks that send OTLP.",
    .options = kOptions,
    .create = &Create};

}  // namespace gpulens
