// The remote_write sink: metrics to whatever takes Prometheus remote write, 1.0 or 2.0.

#include "wire/remote_write/remote_write.h"
#include "base/result.h"
#include "base/version.h"
#include "catalog/self.h"
#include "export/sink_names.h"
#include "pipeline/delivery/send_setup.h"
#include "pipeline/rollup/rollup_rule.h"
#include "plugins/plugin.h"
#include "plugins/remote_access.h"
#include "plugins/sinks/remote_write/remote_write_requests.h"
#include "wire/remote_write/snappy_block.h"

namespace gpulens {
namespace {

constexpr std::string_view kAuto = "auto", kFirst = "1.0", kSecond = "2.0";
class RemoteWriteSink final : public Sink {
 public:
  RemoteWriteSink(const Config& config, std::unique_ptr<LogWriter> log, const Env& env)
      : clock_(*env.clock),
        // One reading by hand is no stream that could end.
        stale_at_end_(config.Bool("stale_at_end") && env.stats != nullptr),
        writer_(SinkNames(config).namer(NameForm::kPrometheus, &NameTargetHealth), OptionsOf(config)),
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
    return log_->Append(first ? kRemoteWrite1 : kRemoteWrite2, packed_, samples, number_++);
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
  if (url) CheckRemote(config.Group(kTransportKey), *url, faults);
  else faults.Refuse(config, "url", url.error());
  CheckParts(config, faults);
}

Result<std::unique_ptr<Sink>> MakeEncoder(const Config& config, Env& env, std::unique_ptr<LogWriter> log) {
  return std::unique_ptr<Sink>(std::make_unique<RemoteWriteSink>(config, std::move(log), env));
}

Result<SendPlan> MakePlan(const std::string& name, const Config& config) {
  RETURN_IF_ERROR(RefuseFaults(&Check, config));
  const std::string& protocol = config.Text("protocol");
  SendPlan plan{.name = name, .signals = {"metrics"}, .routes = {}, .urls = {}, .validate = {}};
  plan.keep = kRemoteWriteFields;
  plan.format = protocol;
  for (const std::string& endpoint : EndpointsOf(config, config.Text("url"))) {
    ASSIGN_OR_RETURN(HttpUrl url, ParseHttpUrl(endpoint));
    plan.urls.push_back({url});
  }
  auto requests = std::make_shared<RemoteWriteRequests>(name, config, plan, RealClock());
  plan.validate = [requests](const HttpReply& reply, size_t route) {
    return requests->Validate(reply, route);
  };
  plan.prepare = [requests](const Envelope& envelope, std::string&& body, uint32_t items, SendParts& out) {
    return requests->Make(envelope, std::move(body), items, out);
  };
  plan.rework = [requests](SendPart& part) { return requests->Rework(part); };
  const std::string both =
      "Content-Encoding: snappy\r\nUser-Agent: gpulens/" + std::string(Version()) + "\r\n";
  plan.routes = {{0, both + "Content-Type: application/x-protobuf\r\n"
                            "X-Prometheus-Remote-Write-Version: 0.1.0\r\n"},
                 {0, both + "Content-Type: application/x-protobuf;proto=io.prometheus.write.v2.Request\r\n"
                            "X-Prometheus-Remote-Write-Version: 2.0.0\r\n"}};
  return plan;
}

uint32_t TakesOf(const Config&) { return 1u << static_cast<size_t>(OtlpSignal::kMetrics); }
// Zstandard is quick to unpack again, and small.
size_t PackingOf(const Config&) { return kOtlpPackings.size() - 1; }

constexpr std::string_view kProtocols[] = {kAuto, kFirst, kSecond};

constexpr auto kOptions = JoinOptions(
    std::to_array<OptionSpec>({
        {.key = "url",
         .type = OptionType::kUrl,
         .fallback = "http://127.0.0.1:8428/api/v1/write",
         .help = "URL of the receiver, used unchanged."},
        {.key = "protocol",
         .fallback = kAuto,
         .help = "The version of remote write; auto: 2.0, and 1.0 for receivers without it.",
         .allowed = kProtocols},
        IntervalOption("15s"),
        {.key = "native_histograms",
         .type = OptionType::kBool,
         .fallback = "false",
         .help = "Histograms as one series with custom bounds; needs protocol: \"2.0\"."},
        {.key = "max_samples",
         .type = OptionType::kInt,
         .fallback = "2000",
         .help = "Most samples in one request.",
         .min = 1,
         .max = 1'000'000},
        {.key = "mark_received",
         .type = OptionType::kBool,
         .fallback = "true",
         .help =
             "Add the label gpulens_receiver to received series, so that they differ from the agent's own."},
        {.key = "stale_at_end",
         .type = OptionType::kBool,
         .fallback = "false",
         .help = "Send a stale marker for every series when the agent ends."},
    }),
    JoinOptions(JoinOptions(NameOptions("[native]"), RollupsOption()),
                JoinOptions(kPartOptions, kSendOptions)));

constexpr std::string_view kDestination[] = {"url", "mark_received"};
constexpr NetworkSink kNetwork{.destination = kDestination,
                               .encoder = &MakeEncoder,
                               .plan = &MakePlan,
                               .packing = &PackingOf,
                               .takes = &TakesOf,
                               .remote_write = true};

}  // namespace

extern const SinkSpec remote_write_sink;
const SinkSpec remote_write_sink{
    .name = "remote_write",
    .help = "Metrics by Prometheus remote write, 1.0 or 2.0. It cannot carry events.",
    .threaded = true,
    .options = kOptions,
    .check = &Check,
    .several = true,
    .sends_new_readings = true,
    .takes_received = true,
    .network = &kNetwork};

}  // namespace gpulens
