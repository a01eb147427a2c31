#include "plugins/sinks/remote_write/remote_write_requests.h"

#include <utility>

#include "base/log.h"
#include "base/result.h"
#include "wire/remote_write/remote_write_series.h"
#include "wire/remote_write/snappy_block.h"

namespace gpulens {
namespace {

RemoteWriteOut::Options OptionsOf(const Config& config) {
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

RemoteWriteRequests::RemoteWriteRequests(std::string name, const Config& config, const SendPlan& plan,
                                         const Clock& clock)
    : name_(std::move(name)), clock_(clock), rule_(config, plan.urls), convert_(OptionsOf(config)) {
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
