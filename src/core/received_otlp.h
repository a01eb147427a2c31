// What a receiver took in for the sinks: one OTLP request as bytes, ready to be sent on.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace gpulens {

enum class OtlpSignal : uint8_t { kMetrics, kLogs, kTraces };
inline constexpr size_t kOtlpSignals = 3;

// The value of the attribute `signal`, and the last word of the path. Static storage.
constexpr std::string_view OtlpSignalName(OtlpSignal signal) noexcept {
  constexpr std::string_view kNames[kOtlpSignals] = {"metrics", "logs", "traces"};
  return kNames[static_cast<size_t>(signal)];
}

// Who made what is sent. Numbers on disk: they never change.
enum class RecordSource : uint8_t { kOwn, kOtlp, kRemoteWrite };
inline constexpr size_t kRecordSources = 3;
// As `sources` of a sink names them. Static storage.
constexpr std::string_view RecordSourceName(RecordSource source) noexcept {
  constexpr std::string_view kNames[kRecordSources] = {"own", "otlp", "remote_write"};
  return kNames[static_cast<size_t>(source)];
}

// An Export…ServiceRequest as protobuf: checked, enriched, of a size that receivers take. A plain value.
struct ReceivedOtlp {
  OtlpSignal signal = OtlpSignal::kMetrics;
  uint32_t items = 0;  // points, records, spans
  RecordSource source = RecordSource::kOtlp;
  size_t packing = 0;  // of kOtlpPackings
  std::string_view bytes;
};

}  // namespace gpulens
