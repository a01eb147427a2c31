// The numbers of remote write's fields, and the few bytes of protobuf that change from sample to sample.
//
// Source: prometheus.WriteRequest (remote write 1.0) and io.prometheus.write.v2.Request (2.0-rc.4), whose
// field numbers never change.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <string>

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
// What stands elsewhere in 1.0, and what older senders of 2.0 say of a whole series.
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
// A value that says: the series ends here. One NaN of many; others are numbers that were not a number.
inline constexpr uint64_t kStaleBits = 0x7ff0000000000002, kNanBits = 0x7ff8000000000001;
inline double StaleMarker() noexcept { return std::bit_cast<double>(kStaleBits); }
inline bool IsStaleMarker(double value) noexcept { return std::bit_cast<uint64_t>(value) == kStaleBits; }
// What a source says is never taken for the end of its series.
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

// Floor, also before 1970.
inline int64_t MsOf(int64_t ns) noexcept { return ns / 1'000'000 - (ns % 1'000'000 < 0); }

}  // namespace gpulens::remote_write
