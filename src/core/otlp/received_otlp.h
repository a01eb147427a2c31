// What a receiver took in for the sinks: one OTLP request as bytes, ready to be sent on.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/ref.h"

namespace gpulens {

enum class OtlpSignal : uint8_t { kMetrics, kLogs, kTraces };
inline constexpr size_t kOtlpSignals = 3;

// The value of the attribute `signal`, and the last word of the path. Static storage.
constexpr std::string_view OtlpSignalName(OtlpSignal signal) noexcept {
  constexpr std::string_view kNames[kOtlpSignals] = {"metrics", "logs", "traces"};
  return kNames[static_cast<size_t>(signal)];
}

// An Export…ServiceRequest as protobuf: checked, enriched, of a size that receivers take. Immutable once
// published.
struct ReceivedOtlp : RefCounted<ReceivedOtlp> {
  OtlpSignal signal = OtlpSignal::kMetrics;
  uint32_t items = 0;  // points, records, spans
  std::string bytes;
};

}  // namespace gpulens
