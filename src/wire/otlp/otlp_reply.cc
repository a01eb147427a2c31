#include "wire/otlp/otlp_reply.h"

#include "base/text.h"
#include "wire/otlp/otlp_fields.h"

namespace gpulens {
namespace {

constexpr uint32_t kPartialSuccess = 1, kRejected = 1, kErrorMessage = 2;
constexpr uint32_t kStatusCode = 1, kStatusMessage = 2;
constexpr std::string_view kRejectedName[kOtlpSignals] = {"rejectedDataPoints", "rejectedLogRecords",
                                                          "rejectedSpans"};

}  // namespace

std::string_view OtlpContentType(OtlpEncoding encoding) noexcept {
  return encoding == OtlpEncoding::kJson ? "application/json" : "application/x-protobuf";
}

std::string OtlpSuccess(OtlpSignal signal, OtlpEncoding encoding, uint64_t rejected,
                        std::string_view message) {
  const bool partial = rejected != 0 || !message.empty();
  std::string out;
  if (encoding == OtlpEncoding::kJson) {
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

std::string OtlpFailure(OtlpEncoding encoding, uint32_t code, std::string_view message) {
  std::string out;
  if (encoding == OtlpEncoding::kJson) {
    out = "{\"code\":" + std::to_string(code) + ",\"message\":";
    AppendJsonString(out, message);
    return out + "}";
  }
  otlp::AppendNumber(out, kStatusCode, code);
  otlp::AppendText(out, kStatusMessage, message);
  return out;
}

}  // namespace gpulens
