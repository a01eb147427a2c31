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
  for (OtlpMessage message : {OtlpMessage::kMetricsAnswer, OtlpMessage::kLogsAnswer}) {
    auto answer = ReadOtlpAnswer(Said(reply, message));
    if (!answer) continue;
    outcome.rejected = std::max(outcome.rejected, static_cast<uint64_t>(answer->rejected));
    outcome.detail = std::move(answer->message);
  }
  return outcome;
}

std::vector<Outbox::Route> OtlpRoutes(const std::array<HttpUrl, 2>& urls) {
  std::vector<Outbox::Route> routes(OtlpRouteOf(0, 0, true) * 2);
  for (size_t signal = 0; signal < urls.size(); ++signal) {
    for (size_t packing = 0; packing < kOtlpPackings.size(); ++packing) {
      for (bool json : {false, true}) {
        std::string headers = "Content-Type: ";
        headers.append(json ? kJson : kProtobuf).append("\r\n");
        if (packing != 0) headers.append("Content-Encoding: ").append(kOtlpPackings[packing]).append("\r\n");
        routes[OtlpRouteOf(signal, packing, json)] = {signal, urls[signal], std::move(headers)};
      }
    }
  }
  return routes;
}

OtlpBody::OtlpBody(const Config& config) : json_(config.Text("protocol") == "http/json") {
  while (packing_ + 1 < kOtlpPackings.size() && kOtlpPackings[packing_] != config.Text("compression"))
    ++packing_;
}

Result<std::string_view> OtlpBody::Make(OtlpMessage message, std::string_view protobuf) {
  std::string_view body = protobuf;
  if (json_) {
    RETURN_IF_ERROR(OtlpToJson(message, protobuf, text_));
    body = text_;
  }
  if (packing_ == 0) return body;
  if (packing_ == 1) gzip_.Compress(body, packed_);
  else zstd_.Compress(body, packed_);
  return std::string_view(packed_);
}

OtlpStyle OtlpStyleOf(const Config& config) {
  const std::string& temporality = config.Text("temporality");
  return {.delta_counters = temporality == "delta",
          .delta_histograms = temporality != "cumulative",
          .exponential = config.Text("histograms") == "exponential"};
}

}  // namespace gpulens
