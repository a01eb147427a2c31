#include "wire/otlp/otlp_answer.h"

#include <algorithm>

#include "base/text.h"
#include "wire/otlp/otlp_fields.h"
#include "wire/otlp/proto_cursor.h"

namespace gpulens {
namespace {

constexpr uint32_t kPartialSuccess = 1, kRejected = 1, kErrorMessage = 2;
constexpr uint32_t kStatusCode = 1, kStatusMessage = 2;
constexpr size_t kLongestMessage = 500;

std::string Message(std::string_view bytes) {
  std::string text;
  AppendPrintable(text, bytes.substr(0, kLongestMessage));
  if (text.size() > kLongestMessage) text.resize(kLongestMessage);
  return text;
}

}  // namespace

std::optional<OtlpPartialSuccess> ReadOtlpAnswer(std::string_view bytes) {
  OtlpPartialSuccess partial;
  ProtoCursor cursor(bytes);
  for (ProtoField field; cursor.Next(field);) {
    if (field.number != kPartialSuccess || field.wire != WireType::kBytes) continue;
    partial = {};
    ProtoCursor inner(field.bytes);
    for (ProtoField part; inner.Next(part);) {
      if (part.number == kRejected && part.wire == WireType::kVarint)
        partial.rejected = std::max<int64_t>(0, static_cast<int64_t>(part.value));
      else if (part.number == kErrorMessage && part.wire == WireType::kBytes)
        partial.message = Message(part.bytes);
    }
    if (inner.broken()) return std::nullopt;
  }
  return cursor.broken() ? std::nullopt : std::optional(std::move(partial));
}

std::string ReadOtlpError(std::string_view bytes) {
  ProtoCursor cursor(bytes);
  for (ProtoField field; cursor.Next(field);)
    if (field.number == kStatusMessage && field.wire == WireType::kBytes) return Message(field.bytes);
  return {};
}

namespace {

constexpr std::string_view kRejectedName[kOtlpSignals] = {"rejectedDataPoints", "rejectedLogRecords",
                                                          "rejectedSpans"};

}  // namespace

std::string_view OtlpContentType(OtlpFormat encoding) noexcept {
  return encoding == OtlpFormat::kJson ? "application/json" : "application/x-protobuf";
}

std::string OtlpSuccess(OtlpSignal signal, OtlpFormat encoding, uint64_t rejected, std::string_view message) {
  const bool partial = rejected != 0 || !message.empty();
  std::string out;
  if (encoding == OtlpFormat::kJson) {
    if (!partial) return "{}";
    // 64-bit integers are texts in OTLP's JSON.
    out = "{\"partialSuccess\":{\"" + std::string(kRejectedName[static_cast<size_t>(signal)]) + "\":\"" +
          std::to_string(rejected) + "\",\"errorMessage\":";
    AppendJsonString(out, message);
    return out + "}}";
  }
  if (!partial) return out;
  std::string inner;
  if (rejected != 0) otlp::AppendNumber(inner, kRejected, rejected);
  otlp::AppendText(inner, kErrorMessage, message);
  otlp::AppendBytes(out, kPartialSuccess, inner);
  return out;
}

std::string OtlpFailure(OtlpFormat encoding, uint32_t code, std::string_view message) {
  std::string out;
  if (encoding == OtlpFormat::kJson) {
    out = "{\"code\":" + std::to_string(code) + ",\"message\":";
    AppendJsonString(out, message);
    return out + "}";
  }
  otlp::AppendNumber(out, kStatusCode, code);
  otlp::AppendText(out, kStatusMessage, message);
  return out;
}

}  // namespace gpulens
