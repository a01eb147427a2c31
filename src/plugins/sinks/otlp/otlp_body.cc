#include "plugins/sinks/otlp/otlp_body.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "base/result.h"
#include "base/text.h"
#include "wire/otlp/otlp_answer.h"
#include "wire/otlp/otlp_json.h"

namespace gpulens {
namespace {

constexpr std::string_view kProtobuf = "application/x-protobuf", kJson = "application/json";

// The protobuf of what a receiver said, whichever way it says it; empty: it does not.
std::string Said(const HttpReply& reply, OtlpMessage message) {
  if (reply.content_type.starts_with(kProtobuf)) return reply.body;
  std::string protobuf;
  // Answers are read with a limit already; as protobuf they are not larger.
  if (reply.content_type.starts_with(kJson) &&
      !OtlpFromJson(message, reply.body, 2 * reply.body.size(), protobuf))
    protobuf.clear();
  return protobuf;
}

// What a receiver that took nothing has to say about it.
std::string Refusal(const HttpReply& reply) {
  std::string said = ReadOtlpError(Said(reply, OtlpMessage::kError));
  if (said.empty()) AppendPrintable(said, std::string_view(reply.body).substr(0, 200));
  return said.empty() ? reply.detail : reply.detail + ": " + said;
}

}  // namespace

SendOutcome ValidateOtlp(const HttpReply& reply) {
  if (reply.failure != HttpFailure::kNone)
    return {IsRetryable(reply.status) ? SendOutcome::kAgain : SendOutcome::kRefused, 0, Refusal(reply)};
  SendOutcome outcome;
  // In JSON what is rejected is called differently for each signal.
  for (OtlpMessage message :
       {OtlpMessage::kMetricsAnswer, OtlpMessage::kLogsAnswer, OtlpMessage::kTracesAnswer}) {
    auto answer = ReadOtlpAnswer(Said(reply, message));
    if (!answer) continue;
    outcome.rejected = std::max(outcome.rejected, static_cast<uint64_t>(answer->rejected));
    outcome.detail = std::move(answer->message);
  }
  return outcome;
}

std::vector<SendRoute> OtlpRoutes() {
  std::vector<SendRoute> routes(kOtlpEncodings);
  for (size_t i = 0; i < routes.size(); ++i) {
    const OtlpEncoding encoding = OtlpEncodingOf(i);
    std::string headers = "Content-Type: ";
    headers.append(encoding.json ? kJson : kProtobuf).append("\r\n");
    if (encoding.packing != 0)
      headers.append("Content-Encoding: ").append(kOtlpPackings[encoding.packing]).append("\r\n");
    routes[i] = {encoding.signal, std::move(headers)};
  }
  return routes;
}

size_t OtlpPackingOf(const Config& config) {
  const auto at = std::find(kOtlpPackings.begin(), kOtlpPackings.end(), config.Text("compression"));
  return static_cast<size_t>(at - kOtlpPackings.begin()) % kOtlpPackings.size();
}

OtlpRequests::OtlpRequests(const Config& config, const SendPlan& plan,
                           const std::array<bool, kOtlpSignals>& wanted)
    : wanted_(wanted),
      json_(config.Text("protocol") == "http/json"),
      packing_(OtlpPackingOf(config)),
      rule_(config, plan.urls) {}

Status OtlpRequests::Make(const Envelope& envelope, std::string&& body, uint32_t items, SendParts& out) {
  if (envelope.kind >= kOtlpEncodings) return {Code::kDataLoss, "it has another version"};
  OtlpEncoding encoding = OtlpEncodingOf(envelope.kind);
  if (!wanted_[encoding.signal]) {
    out.left_out = items;
    return Ok();
  }
  const auto add = [&](uint64_t key, uint32_t count, std::string headers, std::string&& bytes) {
    out.list.push_back({NumberOf(encoding), std::move(headers),
                        std::make_shared<const std::string>(std::move(bytes)), count, key});
  };
  const SplitRule* rule = rule_.For(static_cast<RecordSource>(envelope.source));
  const bool same = encoding.json == json_ && encoding.packing == packing_;
  // What 0.1.0 kept as JSON goes out as it is.
  if (encoding.json || (!rule && same)) {
    add(envelope.key, items, {}, std::move(body));
    return Ok();
  }
  const OtlpEncoding kept = std::exchange(encoding, {encoding.signal, packing_, json_});
  return read_.Read(
      {kept, body, items}, rule,
      [&](const SplitPart& part) -> Status {
        std::string_view bytes = part.body;
        if (json_) {
          RETURN_IF_ERROR(OtlpToJson(kOtlpMessages[encoding.signal], bytes, text_));
          bytes = text_;
        }
        const bool hashed = rule && rule->hash != SplitHash::kNone;
        add(hashed ? part.hash : envelope.key, part.items, rule ? rule_.HeadersOf(part) : std::string(),
            std::string(packer_.Pack(bytes, packing_)));
        return Ok();
      },
      out.left_out);
}

OtlpStyle OtlpStyleOf(const Config& config) {
  const std::string& temporality = config.Text("temporality");
  return {.delta_counters = temporality == "delta",
          .delta_histograms = temporality != "cumulative",
          .exponential = config.Text("histograms") == "exponential"};
}

}  // namespace gpulens
