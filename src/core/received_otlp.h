// An OTLP request as bytes: what receivers hand to sinks, and the number of its encoding in request logs.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace gpulens {

enum class OtlpSignal : uint8_t { kMetrics, kLogs, kTraces };
inline constexpr size_t kOtlpSignals = 3;

// The value of the attribute `signal`, and the last part of the path. Static storage.
constexpr std::string_view OtlpSignalName(OtlpSignal signal) noexcept {
  constexpr std::string_view kNames[kOtlpSignals] = {"metrics", "logs", "traces"};
  return kNames[static_cast<size_t>(signal)];
}

// The origin of a request. Numbers on disk: they never change.
enum class RecordSource : uint8_t { kOwn, kOtlp, kRemoteWrite };
inline constexpr size_t kRecordSources = 3;
// Its name in `sources` of a sink. Static storage.
constexpr std::string_view RecordSourceName(RecordSource source) noexcept {
  constexpr std::string_view kNames[kRecordSources] = {"own", "otlp", "remote_write"};
  return kNames[static_cast<size_t>(source)];
}

// An Export…ServiceRequest as protobuf: checked, enriched, of a size that receivers accept.
struct ReceivedOtlp {
  OtlpSignal signal = OtlpSignal::kMetrics;
  uint32_t items = 0;  // points, records, spans
  RecordSource source = RecordSource::kOtlp;
  size_t packing = 0;  // of kOtlpPackings
  std::string_view bytes;
};

inline constexpr std::array<std::string_view, 3> kOtlpPackings = {"none", "gzip", "zstd"};

// Signal, compression and format of a request, as one byte; its numbers, also in request logs, never change.
struct OtlpRecordEncoding {
  size_t signal = 0;   // of OtlpSignal
  size_t packing = 0;  // of kOtlpPackings
  bool json = false;
};
inline constexpr size_t kOtlpEncodings = 2 * kOtlpSignals * kOtlpPackings.size();

// Traces were added last, so their numbers follow the others.
constexpr size_t NumberOf(const OtlpRecordEncoding& encoding) noexcept {
  const size_t variant = encoding.packing + kOtlpPackings.size() * encoding.json;
  return encoding.signal < 2 ? encoding.signal + 2 * variant : 4 * kOtlpPackings.size() + variant;
}
constexpr OtlpRecordEncoding OtlpEncodingOf(size_t number) noexcept {
  const size_t packings = kOtlpPackings.size(), first_traces = 4 * packings;
  const size_t variant = number < first_traces ? number / 2 : number - first_traces;
  return {number < first_traces ? number % 2 : 2, variant % packings, variant >= packings};
}

}  // namespace gpulens
