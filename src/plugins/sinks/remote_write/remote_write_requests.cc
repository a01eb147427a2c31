#include "plugins/sinks/remote_write/remote_write_requests.h"

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>

#include "base/log.h"
#include "base/parse.h"
#include "base/result.h"
#include "base/text.h"
#include "catalog/prometheus_name.h"
#include "catalog/self.h"
#include "wire/remote_write/remote_write_request.h"
#include "wire/remote_write/remote_write_series.h"
#include "wire/remote_write/snappy_block.h"

namespace gpulens {
namespace {

// Samples and histograms that were written, as the answer has it; nothing when it does not say.
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
  std::string said;
  AppendPrintable(said, Trim(std::string_view(reply.body).substr(0, 200)));
  return said.empty() ? reply.detail : reply.detail + ": " + said;
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

RemoteWriteOut::Options ConversionOptionsOf(const Config& config) {
  RemoteWriteOut::Options options;
  options.version = config.Text("protocol") == "1.0" ? RemoteWriteVersion::k1 : RemoteWriteVersion::k2;
  options.max_samples = static_cast<size_t>(config.Int("max_samples"));
  options.native_histograms = config.Bool("native_histograms");
  options.mark_received = config.Bool("mark_received");
  return options;
}

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
    // With 400 it says what is wrong with those that it did not write.
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

RemoteWriteRequests::RemoteWriteRequests(std::string name, const Config& config, const SendPlan& plan,
                                         const Clock& clock)
    : name_(std::move(name)), clock_(clock), rule_(config, plan.urls), convert_(ConversionOptionsOf(config)) {
  peer_.may_fall_back = config.Text("protocol") == "auto";
  peer_.only_1 = config.Text("protocol") == "1.0";
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

}  // namespace gpulens
