// The numbers of OTLP's fields, and bytes of protobuf in the few shapes that OTLP has.
//
// Source: opentelemetry-proto 1.x (metrics/v1, logs/v1, common/v1, resource/v1), whose field numbers never
// change.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

#include "core/attribute_set.h"

namespace gpulens::otlp {

// Requests for metrics and for logs are built alike: request, resource, scope, then metrics or records.
enum Level : uint32_t { kResourceList = 1, kResource = 1, kScopeList = 2, kScope = 1, kItems = 2 };
// Of resource and scope alike: which version of the semantic conventions the names in it follow.
enum SchemaField : uint32_t { kSchemaUrlField = 3 };
// Of which gen_ai.provider.name is the newest that we use.
inline constexpr std::string_view kSchemaUrl = "https://opentelemetry.io/schemas/1.37.0";
enum ResourceField : uint32_t { kResourceAttributes = 1 };
enum ScopeField : uint32_t { kScopeName = 1, kScopeVersion = 2 };
enum MetricField : uint32_t {
  kName = 1,
  kDescription = 2,
  kUnit = 3,
  kGauge = 5,
  kSum = 7,
  kHistogram = 9,
  kExponentialHistogram = 10,
  kSummary = 11,
  kMetricMetadata = 12,
};
// Gauge, Sum, both histograms and Summary.
enum DataField : uint32_t { kPoints = 1, kTemporality = 2, kMonotonic = 3 };
enum Temporality : uint32_t { kDelta = 1, kCumulative = 2 };
// Points of all kinds have their times alike.
enum PointField : uint32_t {
  kStartTime = 2,
  kTime = 3,
  kAsDouble = 4,
  kNumberExemplars = 5,
  kAsInt = 6,
  kNumberAttributes = 7,
  kNumberFlags = 8,
  kHistogramCount = 4,
  kHistogramSum = 5,
  kBucketCounts = 6,
  kExplicitBounds = 7,
  kHistogramExemplars = 8,
  kHistogramAttributes = 9,
  kHistogramFlags = 10,
  kExponentialAttributes = 1,
  kExponentialCount = 4,
  kExponentialSum = 5,
  kScale = 6,
  kZeroCount = 7,
  kPositive = 8,
  kNegative = 9,
  kExponentialFlags = 10,
  kExponentialExemplars = 11,
  kZeroThreshold = 14,
  kSummaryCount = 4,
  kSummarySum = 5,
  kQuantiles = 6,
  kSummaryAttributes = 7,
  kSummaryFlags = 8,
};
enum BucketsField : uint32_t { kOffset = 1, kCounts = 2 };
enum ExemplarField : uint32_t {
  kExemplarTime = 2,
  kExemplarDouble = 3,
  kSpanId = 4,
  kTraceId = 5,
  kExemplarInt = 6,
  kExemplarAttributes = 7,
};
enum QuantileField : uint32_t { kQuantile = 1, kQuantileValue = 2 };
enum LogField : uint32_t {
  kLogTime = 1,
  kSeverityNumber = 2,
  kSeverityText = 3,
  kBody = 5,
  kLogAttributes = 6,
  kObservedTime = 11,
  kEventName = 12,
};
enum KeyValueField : uint32_t { kKey = 1, kValue = 2 };
enum AnyValueField : uint32_t { kString = 1, kBool = 2, kInt = 3, kDouble = 4, kArray = 5, kKeyValues = 6 };
// Of ArrayValue and KeyValueList.
inline constexpr uint32_t kListElement = 1;
// DataPointFlags.FLAG_NO_RECORDED_VALUE: the series has ended.
inline constexpr uint32_t kNoRecordedValue = 1;

// Of a fixed64 or double field below 16: one byte of tag, eight of value.
inline constexpr size_t kFixedBytes = 9;

void AppendNumber(std::string& out, uint32_t field, uint64_t value);  // a varint field
void AppendFixed(std::string& out, uint32_t field, uint64_t value);
void AppendFixed(std::string& out, uint32_t field, double value);
void AppendBytes(std::string& out, uint32_t field, std::string_view bytes);
// Appends a string with U+FFFD for invalid UTF-8, as receivers refuse a whole request for one bad string.
void AppendText(std::string& out, uint32_t field, std::string_view text);
// A KeyValue; the value keeps its type.
void AppendAttribute(std::string& out, uint32_t field, std::string_view key,
                     const AttributeSet::Value& value);
void AppendAttributes(std::string& out, uint32_t field, const AttributeSet& attributes);

// Encodes a signed number of small magnitude as protobuf does.
constexpr uint64_t ZigZag(int32_t value) noexcept {
  return static_cast<uint32_t>(value) << 1 ^ static_cast<uint32_t>(value >> 31);
}

// Numbers below 2^63 in nine bytes whatever they are, as protobuf allows.
inline constexpr size_t kWideVarint = 9;
inline void PutWideVarint(char* at, uint64_t value) noexcept {
  for (size_t i = 0; i + 1 < kWideVarint; ++i, value >>= 7) at[i] = static_cast<char>(value | 0x80);
  at[kWideVarint - 1] = static_cast<char>(value & 0x7f);
}

// Eight little-endian bytes at a place that exists.
template <class T>
void PutFixed(char* at, T value) noexcept {
  static_assert(sizeof value == 8);
  std::memcpy(at, &value, 8);
}

// Messages inside one another, written front to back: the length of one that is open is filled in when it
// closes, in four bytes whatever it is, as protobuf allows.
class Nesting {
 public:
  explicit Nesting(std::string& out) noexcept : out_(out) {}
  static constexpr size_t kLengthBytes = 4, kMost = (1u << 28) - 1;

  // Returns the place of the length, for Close.
  size_t Open(uint32_t field);
  void Close(size_t length_at) noexcept;

 private:
  std::string& out_;
};

}  // namespace gpulens::otlp
