// OTLP's messages as data (the number, JSON name and type of every field), and the check of bytes against it.
//
// Source: opentelemetry-proto 1.x (common, resource, metrics, logs, trace and collector, all v1) and
// google.rpc.Status. Other fields are unknown and passed on. Immutable; safe from any thread.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "core/received_otlp.h"
#include "wire/otlp/otlp_fields.h"
#include "wire/otlp/proto_cursor.h"

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
  // Messages inside these.
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

constexpr WireType WireOf(OtlpType type) noexcept {
  switch (type) {
    case OtlpType::kString:
    case OtlpType::kBytes:
    case OtlpType::kHexBytes:
    case OtlpType::kMessage: return WireType::kBytes;
    case OtlpType::kFixed32: return WireType::kFixed32;
    case OtlpType::kFixed64:
    case OtlpType::kSfixed64:
    case OtlpType::kDouble: return WireType::kFixed64;
    default: return WireType::kVarint;
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

// Returns the fields of a message by number.
std::span<const OtlpField> OtlpFields(OtlpMessage message) noexcept;
// Returns null for an unknown field.
const OtlpField* FindOtlpField(OtlpMessage message, uint32_t number) noexcept;
// `name` as in JSON, or as in the .proto files: "startTimeUnixNano", "start_time_unix_nano".
const OtlpField* FindOtlpField(OtlpMessage message, std::string_view name) noexcept;

namespace otlp {

enum class Validity : uint8_t {
  kGood,
  kBad,     // this message cannot be passed on; what follows it can be read
  kBroken,  // the request cannot be read
};

// Why something is not kGood; static storage.
struct SchemaFinding {
  Validity validity = Validity::kGood;
  std::string_view why;
  bool good() const noexcept { return validity == Validity::kGood; }
};

// Depth to which values may nest below an item: kvlists and arrays count.
inline constexpr int kDeepest = 32;

// Checks what other decoders insist on, since bytes that are passed on unread must not spoil the request they
// are merged into: wire types, lengths, UTF-8, sizes of ids, how deep values nest. Items, and the messages
// that lead to them, are not entered: the scanner walks those.
SchemaFinding CheckMessage(OtlpMessage message, std::string_view bytes, int depth = kDeepest) noexcept;
// Checks one field of a message, with all that it holds.
SchemaFinding CheckField(OtlpMessage message, const ProtoField& field, int depth = kDeepest) noexcept;

// Whether it is one of the times and numbers of a NumberDataPoint, as they are written: nothing to check.
constexpr bool IsNumberOfPoint(OtlpMessage message, const ProtoField& field) noexcept {
  constexpr uint32_t kTimesAndNumbers = 1u << 2 | 1u << 3 | 1u << 4 | 1u << 6;
  return message == OtlpMessage::kNumberPoint && field.wire == WireType::kFixed64 && field.number < 8 &&
         (kTimesAndNumbers >> field.number & 1) != 0;
}

// UTF-8, quickly where it is ASCII.
bool IsText(std::string_view text) noexcept;
// The key of a KeyValue that needs no further check; empty: it may be good, but has to be looked through.
std::string_view UsualPair(std::string_view pair) noexcept;

// Whether a field of Metric holds its points.
constexpr bool IsData(uint32_t metric_field) noexcept {
  return metric_field == kGauge || metric_field == kSum || metric_field == kHistogram ||
         metric_field == kExponentialHistogram || metric_field == kSummary;
}
constexpr OtlpMessage PointShape(uint32_t data_field) noexcept {
  switch (data_field) {
    case kHistogram: return OtlpMessage::kHistogramPoint;
    case kExponentialHistogram: return OtlpMessage::kExponentialPoint;
    case kSummary: return OtlpMessage::kSummaryPoint;
    default: return OtlpMessage::kNumberPoint;
  }
}
constexpr OtlpMessage ItemShape(OtlpSignal signal) noexcept {
  return signal == OtlpSignal::kLogs ? OtlpMessage::kLogRecord : OtlpMessage::kSpan;
}

// Fields that the kinds of items number differently; 0: it has none.
struct ItemFields {
  uint32_t attributes = 0, exemplars = 0, flags = 0;
};
constexpr ItemFields FieldsOf(OtlpMessage item) noexcept {
  switch (item) {
    case OtlpMessage::kHistogramPoint: return {kHistogramAttributes, kHistogramExemplars, kHistogramFlags};
    case OtlpMessage::kExponentialPoint:
      return {kExponentialAttributes, kExponentialExemplars, kExponentialFlags};
    case OtlpMessage::kSummaryPoint: return {kSummaryAttributes, 0, kSummaryFlags};
    case OtlpMessage::kLogRecord: return {.attributes = kLogAttributes};
    case OtlpMessage::kSpan: return {.attributes = 9};
    default: return {kNumberAttributes, kNumberExemplars, kNumberFlags};
  }
}

}  // namespace otlp

}  // namespace gpulens
