// The remote_write sink: metrics to whatever takes Prometheus remote write, 1.0 or 2.0.

#include "wire/remote_write/remote_write.h"
#include "base/result.h"
#include "base/version.h"
#include "catalog/self_io.h"
#include "naming/sink_names.h"
#include "pipeline/delivery/send_options.h"
#include "pipeline/delivery/send_setup.h"
#include "pipeline/plugin.h"
#include "pipeline/remote/remote_access.h"
#include "pipeline/rollup/rollup_rule.h"
#include "sinks/remote_write/remote_write_answer.h"
#include "sinks/remote_write/remote_write_labels.h"
#include "sinks/remote_write/target_health.h"
#include "wire/remote_write/remote_write_downgrade.h"
#include "wire/remote_write/snappy_block.h"

namespace gpulens {
namespace {

constexpr std::string_view kAuto = "auto", kFirst = "1.0", kSecond = "2.0";
// Requests on disk keep the version they were made in.
enum Route : uint8_t { kRoute1, kRoute2, kRoutes };
// Of one that waits, unpacked: far above what a request may have.
constexpr size_t kLargest = 256u << 20;

// What the sender's thread finds out about the receiver.
struct Receiver {
  RemoteWritePeer peer;
  std::string plain, older;

  SendOutcome Judge(const HttpReply& reply, size_t route) {
    return JudgeRemoteWrite(reply, route == kRoute2, peer);
  }

  Status Rework(SendPart& part) {
    if (part.route != kRoute2 || !peer.only_1) return Ok();
    if (!SnappyUnpack(*part.body, kLargest, plain) || !ToRemoteWrite1(plain, older))
      return {Code::kDataLoss, "a request of remote write 2.0 that cannot be told in 1.0"};
    auto packed = std::make_shared<std::string>();
    SnappyPack(older, *packed);
    part.body = std::move(packed);
    part.route = kRoute1;
    return Ok();
  }
};

class RemoteWriteSink final : public Sink {
 public:
  RemoteWriteSink(const Config& config, std::unique_ptr<LogWriter> log, const Env& env)
      : clock_(*env.clock),
        // One reading by hand is no stream that could end.
        stale_at_end_(config.Bool("stale_at_end") && env.stats != nullptr),
        writer_(SinkNames(config).speller(NameForm::kPrometheus, &SpellTargetHealth), OptionsOf(config)),
        log_(std::move(log)) {}

  Status Write(const Snapshot& snapshot) override {
    number_ = 0;
    RETURN_IF_ERROR(writer_.Encode(snapshot, append_));
    writer_.Commit();
    return Ok();
  }

  // Without stale_at_end receivers show the last values until they are too old for them, so a restart of the
  // agent is no gap.
  Status EndStream() override {
    if (!stale_at_end_) return Ok();
    number_ = 0;
    RETURN_IF_ERROR(writer_.EncodeEnd(clock_.Now(), append_));
    writer_.Commit();
    return Ok();
  }

 private:
  static RemoteWrite::Options OptionsOf(const Config& config) {
    RemoteWrite::Options options;
    options.version = config.Text("protocol") == kFirst ? RemoteWriteVersion::k1 : RemoteWriteVersion::k2;
    options.native_histograms = config.Bool("native_histograms");
    options.max_samples = static_cast<size_t>(config.Int("max_samples"));
    options.labels = &RemoteWriteLabelsOf;
    options.target_up = &kSelfScrapeUp;
    return options;
  }

  Status Append(std::string_view request, uint32_t samples) {
    SnappyPack(request, packed_);
    const bool first = writer_.version() == RemoteWriteVersion::k1;
    return log_->Append(first ? kRoute1 : kRoute2, packed_, samples, number_++);
  }

  const Clock& clock_;
  const bool stale_at_end_;
  RemoteWrite writer_;
  std::string packed_;
  uint32_t number_ = 0;  // of the request, within a snapshot
  const RemoteWrite::Take append_ = [this](std::string_view request, uint32_t samples) {
    return Append(request, samples);
  };
  const std::unique_ptr<LogWriter> log_;
};

void Check(const Config& config, ConfigFaults& faults) {
  CheckRollups(config, faults);
  if (config.Bool("native_histograms") && config.Text("protocol") != kSecond)
    faults.Refuse(config, "native_histograms", "native_histograms needs protocol: \"2.0\"");
  const auto url = ParseHttpUrl(config.Text("url"));
  if (url) CheckRemote(config, *url, faults);
  else faults.Refuse(config, "url", url.error());
}

Result<std::unique_ptr<Sink>> MakeEncoder(const Config& config, Env& env, std::unique_ptr<LogWriter> log) {
  return std::unique_ptr<Sink>(std::make_unique<RemoteWriteSink>(config, std::move(log), env));
}

Result<SendPlan> MakePlan(const std::string& name, const Config& config) {
  RETURN_IF_ERROR(RefuseFaults(&Check, config));
  const std::string& protocol = config.Text("protocol");
  auto receiver = std::make_shared<Receiver>();
  receiver->peer.may_fall_back = protocol == kAuto;
  receiver->peer.only_1 = protocol == kFirst;
  SendPlan plan{
      .name = name,
      .signals = {"metrics"},
      .routes = {},
      .urls = {},
      .judge = [receiver](const HttpReply& reply, size_t route) { return receiver->Judge(reply, route); },
      .keep = kRemoteWriteFields,
      .rework = [receiver](SendPart& part) { return receiver->Rework(part); },
      .format = protocol};
  for (const std::string& endpoint : EndpointsOf(config, config.Text("url"))) {
    ASSIGN_OR_RETURN(HttpUrl url, ParseHttpUrl(endpoint));
    plan.urls.push_back({url});
  }
  const std::string both =
      "Content-Encoding: snappy\r\nUser-Agent: gpulens/" + std::string(Version()) + "\r\n";
  plan.routes = {{0, both + "Content-Type: application/x-protobuf\r\n"
                            "X-Prometheus-Remote-Write-Version: 0.1.0\r\n"},
                 {0, both + "Content-Type: application/x-protobuf;proto=io.prometheus.write.v2.Request\r\n"
                            "X-Prometheus-Remote-Write-Version: 2.0.0\r\n"}};
  return plan;
}

constexpr std::string_view kProtocols[] = {kAuto, kFirst, kSecond};

constexpr auto kOptions =
    JoinOptions(std::to_array<OptionSpec>({
                    {.key = "url",
                     .type = OptionType::kUrl,
                     .fallback = "http://127.0.0.1:8428/api/v1/write",
                     .help = "The receiver, taken as it is."},
                    {.key = "protocol",
                     .fallback = kAuto,
                     .help = "The version of remote write; auto: 2.0, and 1.0 from when the receiver turns "
                             "out not to know it.",
                     .allowed = kProtocols},
                    IntervalOption("15s"),
                    {.key = "native_histograms",
                     .type = OptionType::kBool,
                     .fallback = "false",
                     .help = "Histograms as one series with custom bounds; needs protocol: \"2.0\"."},
                    {.key = "max_samples",
                     .type = OptionType::kInt,
                     .fallback = "2000",
                     .help = "Samples of one request.",
                     .min = 1,
                     .max = 1'000'000},
                    {.key = "stale_at_end",
                     .type = OptionType::kBool,
                     .fallback = "false",
                     .help = "End every series by a stale marker when the agent ends."},
                }),
                JoinOptions(JoinOptions(NameOptions("[native]"), RollupsOption()), kSendOptions));

constexpr std::string_view kDestination[] = {"url"};
constexpr NetworkSink kNetwork{.destination = kDestination, .encoder = &MakeEncoder, .plan = &MakePlan};

}  // namespace

extern const SinkSpec remote_write_sink;
const SinkSpec remote_write_sink{
    .name = "remote_write",
    .help = "Metrics by Prometheus remote write, 1.0 or 2.0. It has no place for events.",
    .threaded = true,
    .options = kOptions,
    .check = &Check,
    .several = true,
    .sends_new_readings = true,
    .network = &kNetwork};

}  // namespace gpulens
