// The receiver remote_write: takes in what Prometheus and its like send, and hands it to the sinks as OTLP.

#include "base/result.h"
#include "ingest/ingest_receiver.h"
#include "plugins/receivers/remote_write/remote_write_http.h"

namespace gpulens {
namespace {

using RemoteWriteReceiver = IngestReceiver<RemoteWriteHttp>;

void Check(const Config& config, ConfigFaults& faults) {
  const std::string& path = config.Group("http").Text("path");
  if (!path.starts_with('/') || path.find_first_of("?# ") != std::string::npos)
    faults.Refuse(config.Group("http"), "path",
                  "http.path: \"" + path + "\" is not a path; write /api/v1/write");
  if (config.Int("busy_status") != 429 && config.Int("busy_status") != 503)
    faults.Refuse(config, "busy_status", "busy_status must be 503 or 429");
}

Result<std::unique_ptr<Receiver>> Create(const Config& config, const ReceiverContext& context) {
  if (!context.env.io) return Status{Code::kUnavailable, "there is no network here"};
  RemoteWriteHttp::Options options;
  options.http = ReadHttpOptions("remote_write", config, context);
  options.http.at.protocol = "remote write";
  options.path = config.Group("http").Text("path");
  options.busy_status = static_cast<int>(config.Int("busy_status"));
  RETURN_IF_ERROR(RefuseFaults(&Check, config));
  auto receiver =
      std::make_unique<RemoteWriteReceiver>(ReadIngestOptions(config, context, {"remote_write"}), context);
  RETURN_IF_ERROR(receiver->Open<RemoteWriteHttp>(options, context.env));
  return std::unique_ptr<Receiver>(std::move(receiver));
}

constexpr OptionSpec kHttp[] = {
    {.key = "listen",
     .type = OptionType::kTexts,
     .fallback = R"(["127.0.0.1:9095", "[::1]:9095"])",
     .help = "Where remote write is received: HOST:PORT, :PORT for all interfaces."},
    {.key = "path", .fallback = "/api/v1/write", .help = "The path of the URL for senders."},
};

constexpr std::array<OptionSpec, 2> kOwn = {{
    {.key = "http", .type = OptionType::kGroup, .help = "Where it listens.", .children = kHttp},
    {.key = "busy_status",
     .type = OptionType::kInt,
     .fallback = "503",
     .help = "The status when the queue is full, 503 or 429. Prometheus gives up after a 429 unless its "
             "queue_config sets retry_on_http_429.",
     .min = 429,
     .max = 503},
}};
constexpr auto kOptions = JoinOptions(kOwn, kIngestOptions);

}  // namespace

extern const ReceiverSpec remote_write_receiver;
const ReceiverSpec remote_write_receiver{
    .name = "remote_write",
    .help = "Metrics by Prometheus remote write 1.0 and 2.0, for the sinks that send OTLP.",
    .options = kOptions,
    .create = &Create,
    .check = &Check};

}  // namespace gpulens
