// Field numbers, types, units and faults of remote write, and the few bytes of protobuf that change per
// sample.
//
// Source: prometheus.WriteRequest (remote write 1.0) and io.prometheus.write.v2.Request (2.0-rc.4), whose
// field numbers never change.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

namespace gpulens::remote_write {

enum Request1Field : uint32_t { kTimeSeries1 = 1, kMetadata1 = 3 };
enum Request2Field : uint32_t { kSymbols = 4, kTimeSeries2 = 5 };
// Samples and histograms of a TimeSeries have the same numbers in both versions.
enum SeriesField : uint32_t {
  kLabels = 1,     // 1.0: Label
  kLabelRefs = 1,  // 2.0: indices into the symbols
  kSamples = 2,
  kHistograms = 3,
  kMetadata2 = 5,
};
// Numbers that differ in 1.0, and the start of a whole series from older senders of 2.0.
enum OtherSeriesField : uint32_t { kExemplars1 = 3, kHistograms1 = 4, kExemplars2 = 4, kCreated2 = 6 };
enum LabelField : uint32_t { kLabelName = 1, kLabelValue = 2 };
enum SampleField : uint32_t { kValue = 1, kTimestamp = 2, kStartTimestamp = 3 };
enum ExemplarField : uint32_t { kExemplarLabels = 1, kExemplarValue = 2, kExemplarTimestamp = 3 };
enum Metadata1Field : uint32_t { kType1 = 1, kFamilyName = 2, kHelp = 4, kUnit = 5 };
enum Metadata2Field : uint32_t { kType2 = 1, kHelpRef = 3, kUnitRef = 4 };
enum HistogramField : uint32_t {
  kCountInt = 1,
  kCountFloat = 2,
  kSum = 3,
  kSchema = 4,
  kZeroThreshold = 5,
  kZeroCountInt = 6,
  kZeroCountFloat = 7,
  kNegativeSpans = 8,
  kNegativeDeltas = 9,
  kNegativeCounts = 10,
  kPositiveSpans = 11,
  kPositiveDeltas = 12,
  kPositiveCounts = 13,
  kResetHint = 14,
  kHistogramTimestamp = 15,
  kCustomValues = 16,
  kHistogramStart = 17,
};
enum SpanField : uint32_t { kSpanOffset = 1, kSpanLength = 2 };
// The same words in both versions.
enum class Type : uint8_t {
  kUnknown,
  kCounter,
  kGauge,
  kHistogram,
  kGaugeHistogram,
  kSummary,
  kInfo,
  kStateSet
};

// A histogram of which some counts may fall.
inline constexpr uint64_t kResetHintGauge = 3;
// Schemas whose bounds are computed: 2^(2^-schema) from one to the next.
inline constexpr int32_t kLowestSchema = -4, kHighestSchema = 8;
// Of a histogram whose bounds are listed, not computed.
inline constexpr int32_t kCustomBounds = -53;
// The stale marker: the series ends here. Other NaNs are readings.
inline constexpr uint64_t kStaleBits = 0x7ff0000000000002, kNanBits = 0x7ff8000000000001;
inline double StaleMarker() noexcept { return std::bit_cast<double>(kStaleBits); }
inline bool IsStaleMarker(double value) noexcept { return std::bit_cast<uint64_t>(value) == kStaleBits; }
// A reading that never equals the stale marker.
inline double AsReading(double value) noexcept {
  return std::isnan(value) ? std::bit_cast<double>(kNanBits) : value;
}

// Milliseconds from 1971 to 2109 are six bytes as a varint; what is outside is moved to the next of these, so
// that a timestamp always has the same room.
inline constexpr size_t kMsBytes = 6;
inline constexpr int64_t kFirstMs = int64_t{1} << 35, kLastMs = (int64_t{1} << 42) - 1;
inline void PutMs(char* at, int64_t ms) noexcept {
  uint64_t rest = static_cast<uint64_t>(std::clamp(ms, kFirstMs, kLastMs));
  for (size_t i = 0; i + 1 < kMsBytes; ++i, rest >>= 7) at[i] = static_cast<char>(rest | 0x80);
  at[kMsBytes - 1] = static_cast<char>(rest);
}

// A field of samples: tag, length, then tag and value, tag and time.
inline constexpr size_t kSampleBytes = 2 + 1 + 8 + 1 + kMsBytes;
inline constexpr size_t kValueFromEnd = kMsBytes + 1 + 8;
// The same with a start.
inline constexpr size_t kStartedBytes = kSampleBytes + 1 + kMsBytes;
inline void PutSample(char* end, double value, int64_t ms) noexcept {
  std::memcpy(end - kValueFromEnd, &value, sizeof value);
  PutMs(end - kMsBytes, ms);
}

// The field itself, with a start unless that is 0; `out` is cleared.
inline void SetSample(std::string& out, double value, int64_t ms, int64_t start_ms) {
  constexpr char kHead[] = {kSamples << 3 | 2, 0, kValue << 3 | 1};
  out.assign(kHead, sizeof kHead);
  out.append(8, '\0');
  out += static_cast<char>(kTimestamp << 3);
  out.append(kMsBytes, '\0');
  PutSample(out.data() + out.size(), value, ms);
  if (start_ms != 0) {
    out += static_cast<char>(kStartTimestamp << 3);
    out.append(kMsBytes, '\0');
    PutMs(out.data() + out.size() - kMsBytes, start_ms);
  }
  out[1] = static_cast<char>(out.size() - 2);
}

// Appends a Label message of 1.0 as a field.
void AppendLabel(std::string& out, uint32_t field, std::string_view name, std::string_view value);

// Characters of UTF-8.
size_t Characters(std::string_view text) noexcept;
// Whether bounds of a histogram are finite and ascend.
bool AreBounds(const std::vector<double>& bounds) noexcept;

// Floor, also before 1970.
inline int64_t MsOf(int64_t ns) noexcept { return ns / 1'000'000 - (ns % 1'000'000 < 0); }

// Marks that RemoteWriteIn adds to OTLP so that RemoteWriteOut can restore series exactly. Other receivers
// ignore them.

// The scope of series that have no otel_scope_name.
inline constexpr std::string_view kOwnScope = "gpulens.remote_write";

// Keys of Metric.metadata, with text values. kTypeKey is OpenTelemetry's own.
inline constexpr std::string_view kTypeKey = "prometheus.type";
// The name of the metric's family in the metadata of 1.0; empty where the sender sent none, and for 2.0. Its
// presence means that the metric came by remote write: its name and its attributes are __name__ and labels.
inline constexpr std::string_view kFamilyKey = "gpulens.remote_write.family";
// The unit as remote write had it ("seconds"); Metric.unit is UCUM. Absent where it is empty.
inline constexpr std::string_view kUnitKey = "gpulens.remote_write.unit";

// A field of HistogramDataPoint and ExponentialHistogramDataPoint that OpenTelemetry does not define: the
// bytes of the Histogram message of remote write, for histograms that OTLP cannot represent (counts of
// floating point, gauge histograms, known counter resets).
inline constexpr uint32_t kNativeField = 26'480;

}  // namespace gpulens::remote_write

namespace gpulens {

// Why a received series or histogram cannot be passed on.
enum class RemoteWriteFault : uint8_t {
  kNone,
  kNoName,
  kEmptyLabel,
  kTwice,
  kTooManyLabels,
  kNoText,
  kNoSymbol,
  kOddRefs,
  kNoTime,
  kFloatHistogram,
  kGaugeHistogram,
  kSchema,
  kBuckets,
  kBounds,
  kTooWide,
};
inline constexpr size_t kRemoteWriteFaults = 15;

// Text for the sender. Static storage.
constexpr std::string_view TextOf(RemoteWriteFault fault) noexcept {
  constexpr std::string_view kTexts[kRemoteWriteFaults] = {
      "",
      "a series has no __name__",
      "the name of a label is empty",
      "a label occurs twice",
      "a series has more than 1024 labels",
      "a text is not valid UTF-8",
      "a label refers to a symbol that does not exist",
      "the label references are not pairs",
      "a time is before 1970 or after 2261",
      "a histogram of floating-point counts cannot be expressed in OTLP",
      "a gauge histogram cannot be expressed in OTLP",
      "a histogram's schema is unknown",
      "a histogram's buckets do not fit its spans or its count",
      "a histogram's custom bounds do not rise",
      "a histogram has more than 16384 buckets",
  };
  return kTexts[static_cast<size_t>(fault)];
}

// Why a point of OTLP cannot leave by remote write.
enum class RemoteWriteOutFault : uint8_t {
  kNone,
  kDelta,
  kTemporality,
  kNoName,
  kNoData,
  kNoTime,
  kNoValue,
  kMalformed,
  kBuckets,
  kSchema,
  kTooMany,
  kTooLarge,
  kTooMuch,
};
inline constexpr size_t kRemoteWriteOutFaults = 13;

// Text for logs. Static storage.
constexpr std::string_view TextOf(RemoteWriteOutFault fault) noexcept {
  constexpr std::string_view kTexts[kRemoteWriteOutFaults] = {
      "",
      "the metric has delta temporality",
      "the metric has no temporality",
      "the metric has no name that is valid in Prometheus",
      "the metric has data of an unknown kind",
      "a point has no time",
      "a point has no value",
      "a text is not valid UTF-8, or values nest too deeply",
      "a histogram's buckets do not fit its bounds or its count",
      "an exponential histogram's scale is below -4",
      "more than 500 attributes, or 16384 buckets or quantiles",
      "a series is larger than a request",
      "the request becomes too large as remote write",
  };
  return kTexts[static_cast<size_t>(fault)];
}

// A label for metrics: "delta", "too_large". Static storage.
constexpr std::string_view ReasonOf(RemoteWriteOutFault fault) noexcept {
  constexpr std::string_view kReasons[kRemoteWriteOutFaults] = {
      "",          "delta",   "no_temporality", "no_name",  "unknown_data", "no_time", "no_value",
      "malformed", "buckets", "scale",          "too_many", "too_large",    "too_much"};
  return kReasons[static_cast<size_t>(fault)];
}

// ": a label occurs twice (2), …" of counts by fault.
template <class Fault, size_t kFaults>
std::string CountsText(const std::array<uint64_t, kFaults>& counts) {
  std::string text;
  for (size_t i = 1; i < kFaults; ++i) {
    if (counts[i] == 0) continue;
    text += text.empty() ? ": " : ", ";
    text += TextOf(static_cast<Fault>(i));
    text += " (" + std::to_string(counts[i]) + ")";
  }
  return text;
}

// Replaces `out`: "seconds" is "s", "bytes_per_second" "By/s", "ratio" "1". A word that has no short form
// stays as it is.
void OtlpUnitOf(std::string_view unit, std::string& out);

// "counter"; the value of prometheus.type. Static storage.
std::string_view PrometheusTypeName(remote_write::Type type) noexcept;

// Converts the number of a message; unknown numbers are kUnknown.
remote_write::Type TypeOfNumber(uint64_t number) noexcept;

// Kind of OTLP data that a float series becomes, always cumulative.
enum class FloatKind : uint8_t {
  kGauge,
  kCounter,  // a Sum that only grows
  kState,    // a Sum that does not: an info or a state
};

// Returns the kind by the type of the family. Parts of classic histograms and summaries stay series of their
// own: their counts and sums are counters. `_created` series are not counters.
FloatKind FloatKindOf(remote_write::Type type, std::string_view name) noexcept;

}  // namespace gpulens

namespace gpulens::remote_write {

// Names of OpenTelemetry in Prometheus' alphabet, as Prometheus' own OTLP endpoint makes them with its
// default translation strategy (UnderscoreEscapingWithSuffixes).
//
// Determines the last word of a name.
enum class NameKind : uint8_t {
  kCounter,  // "_total"
  kGauge,    // "_ratio" where the unit is "1"
  kOther,
};

// Appends the name: words of [a-zA-Z0-9:] joined by one underscore, then the unit unless the name has that
// word already, then the word of the kind. A leading digit gets "_" before it. Appends nothing for a name
// without such a word.
void AppendMetricName(std::string& out, std::string_view name, std::string_view unit, NameKind kind);

// Appends the unit in words for metadata: "By/s" is "bytes_per_second", "1" is "ratio". Parts in braces are
// left out.
void AppendUnitName(std::string& out, std::string_view unit);

}  // namespace gpulens::remote_write
