// Sink that sends metrics to receivers of Prometheus remote write, 1.0 or 2.0.

#include "plugins/sinks/remote_write/remote_write.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/log.h"
#include "base/parse.h"
#include "base/result.h"
#include "base/text.h"
#include "base/version.h"
#include "catalog/exported_name.h"
#include "catalog/self.h"
#include "export/sink_names.h"
#include "pipeline/rollup/rollup_rule.h"
#include "plugins/plugin.h"
#include "plugins/remote_access.h"
#include "wire/remote_write/remote_write.h"
#include "wire/remote_write/remote_write_request.h"
#include "wire/remote_write/remote_write_series.h"

namespace gpulens {
namespace {

// Returns the written samples and histograms by the answer's header; none without it.
std::optional<uint64_t> WrittenOf(std::string_view fields) {
  std::optional<uint64_t> written;
  while (!fields.empty()) {
    std::string_view line = TakeUntil(fields, '\n');
    std::string_view name = TakeUntil(line, ':');
    name.remove_prefix(std::min(name.size(), kRemoteWriteFields.size()));
    if (name != "samples-written" && name != "histograms-written") continue;
    auto count = ParseInt<uint64_t>(Trim(line));
    if (count && *count < UINT32_MAX) written = written.value_or(0) + *count;
  }
  return written;
}

std::string Refusal(const HttpReply& reply) {
  std::string message;
  AppendPrintable(message, Trim(std::string_view(reply.body).substr(0, 200)));
  return message.empty() ? reply.detail : reply.detail + ": " + message;
}

SendOutcome FallBack(RemoteWritePeer& peer) {
  peer.only_1 = true;
  return {SendOutcome::kRework, 0, "it supports remote write 1.0 only"};
}

constexpr std::string_view kTargetInfoAlone[] = {"service.", "host.",    "os.",
                                                 "cloud.",   "process.", "telemetry."};

struct HealthName {
  const MetricDesc* native;
  std::string_view name, unit, help;
};

constexpr HealthName kHealthNames[] = {
    {&kSelfScrapeUp, "up", "", "1 when the last scrape of the target succeeded."},
    {&kSelfScrapeDuration, "scrape_duration_seconds", "seconds", "How long the last scrape took."},
    {&kSelfScrapeSamples, "scrape_samples_scraped", "", "Samples on the last page."},
};

void SetBody(std::string_view plain, SendPart& part) {
  auto packed = std::make_shared<std::string>();
  SnappyPack(plain, *packed);
  part.body = std::move(packed);
}

uint8_t RouteOf(RemoteWriteVersion version) noexcept {
  return version == RemoteWriteVersion::k1 ? kRemoteWrite1 : kRemoteWrite2;
}

}  // namespace

SendOutcome ClassifyRemoteWriteReply(const HttpReply& reply, bool second, RemoteWritePeer& peer) {
  const bool taken = reply.failure == HttpFailure::kNone;
  const int status = reply.status;
  if (!taken && (status == 429 || status >= 500)) return {SendOutcome::kAgain, 0, Refusal(reply)};
  if (!second) return {taken ? SendOutcome::kTaken : SendOutcome::kRefused, 0, taken ? "" : Refusal(reply)};
  if (auto written = WrittenOf(reply.kept)) {
    peer.knows_2 = true;
    // A 400 describes the samples that were not written.
    if (taken || status == 400)
      return {SendOutcome::kTaken, 0, taken ? "it gives no reason" : Refusal(reply), written};
  }
  if (taken) {
    if (peer.may_fall_back) return FallBack(peer);
    return {SendOutcome::kRefused, 0, "its response does not confirm that anything was written"};
  }
  const bool unread = status == 415 || (!peer.knows_2 && (status == 400 || status == 406));
  if (unread && peer.may_fall_back) return FallBack(peer);
  return {SendOutcome::kRefused, 0, Refusal(reply)};
}

RemoteWriteLabels RemoteWriteLabelsOf(const AttributeSet& resource) {
  RemoteWriteLabels labels;  // the first of equal names counts
  const std::string space = resource.Text("service.namespace"), id = resource.Text("service.instance.id");
  labels.emplace_back("job", (space.empty() ? "" : space + "/") + resource.Text("service.name"));
  labels.emplace_back("instance", id.empty() ? resource.Text("host.name") : id);
  for (auto [key, value] : resource) {
    const bool elsewhere = std::ranges::any_of(
        kTargetInfoAlone, [&](std::string_view prefix) { return key.starts_with(prefix); });
    if (elsewhere) continue;
    std::string label, text;
    AppendPrometheusLabel(label, key);
    AppendValue(text, value);
    labels.emplace_back(std::move(label), std::move(text));
  }
  return labels;
}

void NameTargetHealth(const SeriesInfo& series, std::vector<NamedSeries>& out) {
  for (const HealthName& health : kHealthNames) {
    if (health.native != series.desc) continue;
    NamedSeries& named = out.emplace_back();
    named.name = health.name;
    named.unit = health.unit;
    named.help = health.help;
    named.kind = Kind::kGauge;
    const AttributeSet configured = series.entity ? series.entity->facts : AttributeSet();
    for (auto [key, value] : series.attributes.OverlaidOn(configured)) {
      std::string label, text;
      AppendPrometheusLabel(label, key);
      AppendValue(text, value);
      named.labels.emplace_back(std::move(label), std::move(text));
    }
  }
}

RemoteWriteRequests::RemoteWriteRequests(std::string name, RemoteWriteOut::Options options,
                                         bool may_fall_back, PartRule rule, const Clock& clock)
    : name_(std::move(name)), clock_(clock), rule_(std::move(rule)), convert_(options) {
  peer_.may_fall_back = may_fall_back;
  peer_.only_1 = options.version == RemoteWriteVersion::k1;
}

SendOutcome RemoteWriteRequests::Validate(const HttpReply& reply, size_t route) {
  return ClassifyRemoteWriteReply(reply, route == kRemoteWrite2, peer_);
}

Status RemoteWriteRequests::Make(const Envelope& envelope, std::string&& body, uint32_t items,
                                 SendParts& out) {
  if (static_cast<RecordSource>(envelope.source) == RecordSource::kOwn)
    return MakeOwn(envelope, std::move(body), items, out);
  return MakeReceived(envelope, body, items, out);
}

Status RemoteWriteRequests::MakeOwn(const Envelope& envelope, std::string&& body, uint32_t items,
                                    SendParts& out) {
  if (envelope.kind >= kRemoteWriteRoutes) return {Code::kDataLoss, "it has another version"};
  const SplitRule* rule = rule_.For(RecordSource::kOwn);
  if (!rule) {
    out.list.push_back(
        {envelope.kind, {}, std::make_shared<const std::string>(std::move(body)), items, envelope.key});
    return Ok();
  }
  if (!SnappyUnpack(body, kUnpackedBytes, plain_)) return {Code::kDataLoss, "it cannot be decompressed"};
  const auto version = envelope.kind == kRemoteWrite1 ? RemoteWriteVersion::k1 : RemoteWriteVersion::k2;
  RETURN_IF_ERROR(splitter_.Split(version, plain_, *rule, parts_, out.left_out));
  const bool hashed = rule->hash != SplitHash::kNone;
  for (const SplitPart& part : parts_) {
    out.list.push_back(
        {envelope.kind, rule_.HeadersOf(part), {}, part.items, hashed ? part.hash : envelope.key});
    SetBody(part.body, out.list.back());
  }
  return Ok();
}

Status RemoteWriteRequests::MakeReceived(const Envelope& envelope, std::string_view body, uint32_t items,
                                         SendParts& out) {
  if (envelope.kind >= kOtlpEncodings) return {Code::kDataLoss, "it has another version"};
  const OtlpEncoding encoding = OtlpEncodingOf(envelope.kind);
  if (encoding.signal != static_cast<size_t>(OtlpSignal::kMetrics)) {
    out.left_out = items;
    return Ok();
  }
  const SplitRule* rule = rule_.For(static_cast<RecordSource>(envelope.source));
  if (peer_.only_1) convert_.SetVersion(RemoteWriteVersion::k1);
  const uint8_t route = RouteOf(convert_.version());
  return read_.Read(
      {encoding, body, items}, rule,
      [&](const SplitPart& part) -> Status {
        const bool hashed = rule && rule->hash != SplitHash::kNone;
        const uint64_t key = hashed ? part.hash : envelope.key;
        const std::string headers = rule ? rule_.HeadersOf(part) : std::string();
        const Status converted = convert_.Convert(
            part.body, clock_.Now(),
            [&](std::string_view request, uint32_t samples) {
              out.list.push_back({route, headers, {}, samples, key});
              SetBody(request, out.list.back());
              return Ok();
            },
            outcome_);
        RETURN_IF_ERROR(converted);
        out.untranslated += static_cast<uint32_t>(outcome_.dropped);
        if (outcome_.dropped != 0) Log(LogLevel::kWarn, name_, "untranslated", outcome_.Text(), name_);
        return Ok();
      },
      out.left_out);
}

Status RemoteWriteRequests::Rework(SendPart& part) {
  if (part.route != kRemoteWrite2 || !peer_.only_1) return Ok();
  if (!SnappyUnpack(*part.body, kUnpackedBytes, plain_) || !ToRemoteWrite1(plain_, older_))
    return {Code::kDataLoss, "a request of remote write 2.0 cannot be converted to 1.0"};
  SetBody(older_, part);
  part.route = kRemoteWrite1;
  return Ok();
}

namespace {

constexpr std::string_view kAuto = "auto", kFirst = "1.0", kSecond = "2.0";
constexpr std::string_view kProtocols[] = {kAuto, kFirst, kSecond};
constexpr auto kOptions = JoinOptions(
    std::to_array<OptionSpec>({
        UrlOption("url", "http://127.0.0.1:8428/api/v1/write", "URL of the receiver, used unchanged."),
        TextOption("protocol", kAuto,
                   "The version of remote write; auto: 2.0, and 1.0 for receivers without it.", kProtocols),
        IntervalOption("15s"),
        BoolOption("native_histograms", false,
                   "Histograms as one series with custom bounds; needs protocol: \"2.0\"."),
        IntOption("max_samples", "2000", "Most samples in one request.", 1, 1'000'000),
        BoolOption(
            "mark_received", true,
            "Add the label gpulens_receiver to received series, so that they differ from the agent's own."),
        BoolOption("stale_at_end", false, "Send a stale marker for every series when the agent ends."),
    }),
    NameOptions("[native]"), RollupsOption(), kPartOptions, kSendOptions);
using Options = OptionsOf<kOptions>;

RemoteWriteVersion VersionOf(const Options& options) {
  return options.Text("protocol") == kFirst ? RemoteWriteVersion::k1 : RemoteWriteVersion::k2;
}

class RemoteWriteSink final : public Sink {
 public:
  RemoteWriteSink(const Config& config, std::unique_ptr<LogWriter> log, const Env& env)
      : clock_(*env.clock),
        // A single reading (`gpulens collect`) is not a stream.
        stale_at_end_(Options(config).Bool("stale_at_end") && env.stats != nullptr),
        writer_(SinkNames(config).namer(NameForm::kPrometheus, &NameTargetHealth), WriterOptions(config)),
        log_(std::move(log)) {}

  Status Write(const Snapshot& snapshot) override {
    number_ = 0;
    RETURN_IF_ERROR(writer_.Encode(snapshot, append_));
    writer_.Commit();
    return Ok();
  }

  // Without stale_at_end receivers show the last values until these expire, so a restart of the agent leaves
  // no gap.
  Status EndStream() override {
    if (!stale_at_end_) return Ok();
    number_ = 0;
    RETURN_IF_ERROR(writer_.EncodeEnd(clock_.Now(), append_));
    writer_.Commit();
    return Ok();
  }

 private:
  static RemoteWrite::Options WriterOptions(const Options& options) {
    RemoteWrite::Options out;
    out.version = VersionOf(options);
    out.native_histograms = options.Bool("native_histograms");
    out.max_samples = static_cast<size_t>(options.Int("max_samples"));
    out.labels = &RemoteWriteLabelsOf;
    out.target_up = &kSelfScrapeUp;
    return out;
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
  const Options options(config);
  if (options.Bool("native_histograms") && options.Text("protocol") != kSecond)
    options.Refuse("native_histograms", faults, "native_histograms needs protocol: \"2.0\"");
  const auto url = ParseHttpUrl(options.Text("url"));
  if (url) CheckRemote(options.Group(kTransportKey), *url, faults);
  else options.Refuse("url", faults, url.error());
  CheckParts(config, faults);
}

Result<std::unique_ptr<Sink>> MakeEncoder(const Config& config, Env& env, std::unique_ptr<LogWriter> log) {
  return std::unique_ptr<Sink>(std::make_unique<RemoteWriteSink>(config, std::move(log), env));
}

Result<SendPlan> MakePlan(const std::string& name, const Config& config) {
  RETURN_IF_ERROR(RefuseFaults(&Check, config));
  const Options options(config);
  SendPlan plan{.name = name, .signals = {"metrics"}, .routes = {}, .urls = {}, .validate = {}};
  plan.keep = kRemoteWriteFields;
  plan.format = options.Text("protocol");
  for (const std::string& endpoint : EndpointsOf(config, options.Text("url"))) {
    ASSIGN_OR_RETURN(HttpUrl url, ParseHttpUrl(endpoint));
    plan.urls.push_back({url});
  }
  auto requests = std::make_shared<RemoteWriteRequests>(
      name,
      RemoteWriteOut::Options{.version = VersionOf(options),
                              .max_samples = static_cast<size_t>(options.Int("max_samples")),
                              .native_histograms = options.Bool("native_histograms"),
                              .mark_received = options.Bool("mark_received")},
      options.Text("protocol") == kAuto, PartRule(config, plan.urls), RealClock());
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
// Zstandard: small, and fast to decompress again.
size_t PackingOf(const Config&) { return kOtlpPackings.size() - 1; }

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
