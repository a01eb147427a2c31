#include "sinks/otlp/otlp_body.h"

#include <algorithm>
#include <cstdint>

#include "base/result.h"
#include "base/text.h"
#include "wire/otlp/otlp_answer.h"
#include "wire/otlp_json/otlp_json.h"

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

SendOutcome JudgeOtlp(const HttpReply& reply) {
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

std::string_view OtlpPacker::Pack(std::string_view bytes, size_t packing) {
  if (packing == 0) return bytes;
  if (packing == 1) gzip_.Compress(bytes, packed_);
  else zstd_.Compress(bytes, packed_);
  return packed_;
}

Status PrepareOtlp(const Envelope& envelope, std::string&& body, uint32_t items, bool json, size_t packing,
                   std::vector<SendPart>& parts) {
  OtlpEncoding encoding = OtlpEncodingOf(envelope.kind % kOtlpEncodings);
  // What 0.1.0 kept as JSON goes out as it is.
  if (!encoding.json && (json || encoding.packing != packing)) {
    std::string plain;
    if (encoding.packing == 0) plain = std::move(body);
    else if (encoding.packing == 1) RETURN_IF_ERROR(Gunzip(body, kUnpackedBytes, plain));
    else RETURN_IF_ERROR(Unzstd(body, kUnpackedBytes, plain));
    if (json) {
      const std::string protobuf = std::move(plain);
      RETURN_IF_ERROR(OtlpToJson(kOtlpMessages[encoding.signal], protobuf, plain));
    }
    body = OtlpPacker().Pack(plain, packing);
    encoding.json = json;
    encoding.packing = packing;
  }
  SendPart& part = parts.emplace_back();
  part.route = envelope.kind < kOtlpEncodings ? NumberOf(encoding) : envelope.kind;
  part.key = envelope.key;
  part.items = items;
  part.body = std::make_shared<const std::string>(std::move(body));
  return Ok();
}

OtlpStyle OtlpStyleOf(const Config& config) {
  const std::string& temporality = config.Text("temporality");
  return {.delta_counters = temporality == "delta",
          .delta_histograms = temporality != "cumulative",
          .exponential = config.Text("histograms") == "exponential"};
}

}  // namespace gpulens
