// OTLP's messages as data: the number, JSON name and type of every field, so that whatever walks them needs
// no code per message.
//
// Source: opentelemetry-proto 1.x (common, resource, metrics, logs, trace and collector, all v1) and
// google.rpc.Status. Fields that are not here are unknown to us. Immutable; safe from any thread.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace gpulens {

enum class OtlpMessage : uint8_t {
  // Export…ServiceRequest; MetricsData, LogsData and TracesData are the same bytes.
  kMetrics,
  kLogs,
  kTraces,
  // Export…ServiceResponse.
  kMetricsAnswer,
  kLogsAnswer,
  kTracesAnswer,
  // google.rpc.Status, which OTLP/HTTP sends with an error; without its details.
  kError,
  // What these are made of.
  kMetricsPartial,
  kLogsPartial,
  kTracesPartial,
  kResourceMetrics,
  kResourceLogs,
  kResourceSpans,
  kResource,
  kEntityRef,
  kScope,
  kKeyValue,
  kAnyValue,
  kArrayValue,
  kKeyValueList,
  kScopeMetrics,
  kMetric,
  kGauge,
  kSum,
  kHistogram,
  kExponentialHistogram,
  kSummary,
  kNumberPoint,
  kHistogramPoint,
  kExponentialPoint,
  kExponentialBuckets,
  kSummaryPoint,
  kQuantileValue,
  kExemplar,
  kScopeLogs,
  kLogRecord,
  kScopeSpans,
  kSpan,
  kSpanEvent,
  kSpanLink,
  kSpanStatus,
};

enum class OtlpType : uint8_t {
  kString,
  kBytes,     // base64 in JSON
  kHexBytes,  // trace and span ids: hexadecimal in JSON
  kBool,
  kInt32,
  kSint32,
  kUint32,
  kFixed32,
  kInt64,  // from here to kSfixed64: text in JSON, since JSON's numbers are doubles to many
  kUint64,
  kFixed64,
  kSfixed64,
  kDouble,
  kEnum,  // a number in JSON; its names are read, too
  kMessage,
};

// How protobuf writes a type: its number in tags.
enum class OtlpWire : uint32_t { kVarint = 0, kFixed64 = 1, kDelimited = 2, kFixed32 = 5 };

constexpr OtlpWire WireOf(OtlpType type) noexcept {
  switch (type) {
    case OtlpType::kString:
    case OtlpType::kBytes:
    case OtlpType::kHexBytes:
    case OtlpType::kMessage: return OtlpWire::kDelimited;
    case OtlpType::kFixed32: return OtlpWire::kFixed32;
    case OtlpType::kFixed64:
    case OtlpType::kSfixed64:
    case OtlpType::kDouble: return OtlpWire::kFixed64;
    default: return OtlpWire::kVarint;
  }
}

struct OtlpField {
  uint32_t number = 0;
  std::string_view name;  // in JSON
  OtlpType type = OtlpType::kString;
  bool repeated = false;  // numbers are packed
  uint8_t oneof = 0;      // of those with the same one, other than 0, only the last counts
  OtlpMessage message = {};
  std::span<const std::string_view> names = {};  // of an enumeration, from 0
};

// In the order of their numbers.
std::span<const OtlpField> OtlpFields(OtlpMessage message) noexcept;
// Null: no such field.
const OtlpField* FindOtlpField(OtlpMessage message, uint32_t number) noexcept;
// `name` as in JSON, or as in the .proto files: "startTimeUnixNano", "start_time_unix_nano".
const OtlpField* FindOtlpField(OtlpMessage message, std::string_view name) noexcept;

}  // namespace gpulens
