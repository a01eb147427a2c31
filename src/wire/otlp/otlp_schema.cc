#include "wire/otlp/otlp_schema.h"

namespace gpulens {
namespace {

using enum OtlpType;
using M = OtlpMessage;
using Names = std::span<const std::string_view>;

constexpr std::string_view kTemporalities[] = {"AGGREGATION_TEMPORALITY_UNSPECIFIED",
                                               "AGGREGATION_TEMPORALITY_DELTA",
                                               "AGGREGATION_TEMPORALITY_CUMULATIVE"};
constexpr std::string_view kSeverities[] = {
    "SEVERITY_NUMBER_UNSPECIFIED", "SEVERITY_NUMBER_TRACE",  "SEVERITY_NUMBER_TRACE2",
    "SEVERITY_NUMBER_TRACE3",      "SEVERITY_NUMBER_TRACE4", "SEVERITY_NUMBER_DEBUG",
    "SEVERITY_NUMBER_DEBUG2",      "SEVERITY_NUMBER_DEBUG3", "SEVERITY_NUMBER_DEBUG4",
    "SEVERITY_NUMBER_INFO",        "SEVERITY_NUMBER_INFO2",  "SEVERITY_NUMBER_INFO3",
    "SEVERITY_NUMBER_INFO4",       "SEVERITY_NUMBER_WARN",   "SEVERITY_NUMBER_WARN2",
    "SEVERITY_NUMBER_WARN3",       "SEVERITY_NUMBER_WARN4",  "SEVERITY_NUMBER_ERROR",
    "SEVERITY_NUMBER_ERROR2",      "SEVERITY_NUMBER_ERROR3", "SEVERITY_NUMBER_ERROR4",
    "SEVERITY_NUMBER_FATAL",       "SEVERITY_NUMBER_FATAL2", "SEVERITY_NUMBER_FATAL3",
    "SEVERITY_NUMBER_FATAL4"};
constexpr std::string_view kSpanKinds[] = {"SPAN_KIND_UNSPECIFIED", "SPAN_KIND_INTERNAL",
                                           "SPAN_KIND_SERVER",      "SPAN_KIND_CLIENT",
                                           "SPAN_KIND_PRODUCER",    "SPAN_KIND_CONSUMER"};
constexpr std::string_view kStatusCodes[] = {"STATUS_CODE_UNSET", "STATUS_CODE_OK", "STATUS_CODE_ERROR"};

constexpr OtlpField One(uint32_t number, std::string_view name, OtlpType type, uint8_t oneof = 0) {
  return {number, name, type, false, oneof};
}
constexpr OtlpField Many(uint32_t number, std::string_view name, OtlpType type) {
  return {number, name, type, true};
}
constexpr OtlpField Sub(uint32_t number, std::string_view name, M message, uint8_t oneof = 0) {
  return {number, name, kMessage, false, oneof, message};
}
constexpr OtlpField Subs(uint32_t number, std::string_view name, M message) {
  return {number, name, kMessage, true, 0, message};
}
constexpr OtlpField Word(uint32_t number, std::string_view name, Names names) {
  return {number, name, kEnum, false, 0, {}, names};
}

namespace fields {

// Requests and answers of the collector.
constexpr OtlpField kMetricsRequest[] = {Subs(1, "resourceMetrics", M::kResourceMetrics)};
constexpr OtlpField kLogsRequest[] = {Subs(1, "resourceLogs", M::kResourceLogs)};
constexpr OtlpField kTracesRequest[] = {Subs(1, "resourceSpans", M::kResourceSpans)};
constexpr OtlpField kMetricsAnswer[] = {Sub(1, "partialSuccess", M::kMetricsPartial)};
constexpr OtlpField kLogsAnswer[] = {Sub(1, "partialSuccess", M::kLogsPartial)};
constexpr OtlpField kTracesAnswer[] = {Sub(1, "partialSuccess", M::kTracesPartial)};
constexpr OtlpField kError[] = {One(1, "code", kInt32), One(2, "message", kString)};
constexpr OtlpField kMetricsPartial[] = {One(1, "rejectedDataPoints", kInt64),
                                         One(2, "errorMessage", kString)};
constexpr OtlpField kLogsPartial[] = {One(1, "rejectedLogRecords", kInt64), One(2, "errorMessage", kString)};
constexpr OtlpField kTracesPartial[] = {One(1, "rejectedSpans", kInt64), One(2, "errorMessage", kString)};

// Common and resource.
constexpr OtlpField kResource[] = {Subs(1, "attributes", M::kKeyValue),
                                   One(2, "droppedAttributesCount", kUint32),
                                   Subs(3, "entityRefs", M::kEntityRef)};
constexpr OtlpField kEntityRef[] = {One(1, "schemaUrl", kString), One(2, "type", kString),
                                    Many(3, "idKeys", kString), Many(4, "descriptionKeys", kString)};
constexpr OtlpField kScope[] = {One(1, "name", kString), One(2, "version", kString),
                                Subs(3, "attributes", M::kKeyValue),
                                One(4, "droppedAttributesCount", kUint32)};
constexpr OtlpField kKeyValue[] = {One(1, "key", kString), Sub(2, "value", M::kAnyValue)};
constexpr OtlpField kAnyValue[] = {
    One(1, "stringValue", kString, 1),       One(2, "boolValue", kBool, 1),
    One(3, "intValue", kInt64, 1),           One(4, "doubleValue", kDouble, 1),
    Sub(5, "arrayValue", M::kArrayValue, 1), Sub(6, "kvlistValue", M::kKeyValueList, 1),
    One(7, "bytesValue", kBytes, 1)};
constexpr OtlpField kArrayValue[] = {Subs(1, "values", M::kAnyValue)};
constexpr OtlpField kKeyValueList[] = {Subs(1, "values", M::kKeyValue)};

// Metrics.
constexpr OtlpField kResourceMetrics[] = {Sub(1, "resource", M::kResource),
                                          Subs(2, "scopeMetrics", M::kScopeMetrics),
                                          One(3, "schemaUrl", kString)};
constexpr OtlpField kScopeMetrics[] = {Sub(1, "scope", M::kScope), Subs(2, "metrics", M::kMetric),
                                       One(3, "schemaUrl", kString)};
constexpr OtlpField kMetric[] = {One(1, "name", kString),
                                 One(2, "description", kString),
                                 One(3, "unit", kString),
                                 Sub(5, "gauge", M::kGauge, 1),
                                 Sub(7, "sum", M::kSum, 1),
                                 Sub(9, "histogram", M::kHistogram, 1),
                                 Sub(10, "exponentialHistogram", M::kExponentialHistogram, 1),
                                 Sub(11, "summary", M::kSummary, 1),
                                 Subs(12, "metadata", M::kKeyValue)};
constexpr OtlpField kGauge[] = {Subs(1, "dataPoints", M::kNumberPoint)};
constexpr OtlpField kSum[] = {Subs(1, "dataPoints", M::kNumberPoint),
                              Word(2, "aggregationTemporality", kTemporalities),
                              One(3, "isMonotonic", kBool)};
constexpr OtlpField kHistogram[] = {Subs(1, "dataPoints", M::kHistogramPoint),
                                    Word(2, "aggregationTemporality", kTemporalities)};
constexpr OtlpField kExponentialHistogram[] = {Subs(1, "dataPoints", M::kExponentialPoint),
                                               Word(2, "aggregationTemporality", kTemporalities)};
constexpr OtlpField kSummary[] = {Subs(1, "dataPoints", M::kSummaryPoint)};
constexpr OtlpField kNumberPoint[] = {One(2, "startTimeUnixNano", kFixed64),
                                      One(3, "timeUnixNano", kFixed64),
                                      One(4, "asDouble", kDouble, 1),
                                      Subs(5, "exemplars", M::kExemplar),
                                      One(6, "asInt", kSfixed64, 1),
                                      Subs(7, "attributes", M::kKeyValue),
                                      One(8, "flags", kUint32)};
// `optional` ones are oneofs of one: they are told although they are the default.
constexpr OtlpField kHistogramPoint[] = {One(2, "startTimeUnixNano", kFixed64),
                                         One(3, "timeUnixNano", kFixed64),
                                         One(4, "count", kFixed64),
                                         One(5, "sum", kDouble, 1),
                                         Many(6, "bucketCounts", kFixed64),
                                         Many(7, "explicitBounds", kDouble),
                                         Subs(8, "exemplars", M::kExemplar),
                                         Subs(9, "attributes", M::kKeyValue),
                                         One(10, "flags", kUint32),
                                         One(11, "min", kDouble, 2),
                                         One(12, "max", kDouble, 3)};
constexpr OtlpField kExponentialPoint[] = {Subs(1, "attributes", M::kKeyValue),
                                           One(2, "startTimeUnixNano", kFixed64),
                                           One(3, "timeUnixNano", kFixed64),
                                           One(4, "count", kFixed64),
                                           One(5, "sum", kDouble, 1),
                                           One(6, "scale", kSint32),
                                           One(7, "zeroCount", kFixed64),
                                           Sub(8, "positive", M::kExponentialBuckets),
                                           Sub(9, "negative", M::kExponentialBuckets),
                                           One(10, "flags", kUint32),
                                           Subs(11, "exemplars", M::kExemplar),
                                           One(12, "min", kDouble, 2),
                                           One(13, "max", kDouble, 3),
                                           One(14, "zeroThreshold", kDouble)};
constexpr OtlpField kExponentialBuckets[] = {One(1, "offset", kSint32), Many(2, "bucketCounts", kUint64)};
constexpr OtlpField kSummaryPoint[] = {One(2, "startTimeUnixNano", kFixed64),
                                       One(3, "timeUnixNano", kFixed64),
                                       One(4, "count", kFixed64),
                                       One(5, "sum", kDouble),
                                       Subs(6, "quantileValues", M::kQuantileValue),
                                       Subs(7, "attributes", M::kKeyValue),
                                       One(8, "flags", kUint32)};
constexpr OtlpField kQuantileValue[] = {One(1, "quantile", kDouble), One(2, "value", kDouble)};
constexpr OtlpField kExemplar[] = {
    One(2, "timeUnixNano", kFixed64), One(3, "asDouble", kDouble, 1),
    One(4, "spanId", kHexBytes),      One(5, "traceId", kHexBytes),
    One(6, "asInt", kSfixed64, 1),    Subs(7, "filteredAttributes", M::kKeyValue)};

// Logs.
constexpr OtlpField kResourceLogs[] = {Sub(1, "resource", M::kResource), Subs(2, "scopeLogs", M::kScopeLogs),
                                       One(3, "schemaUrl", kString)};
constexpr OtlpField kScopeLogs[] = {Sub(1, "scope", M::kScope), Subs(2, "logRecords", M::kLogRecord),
                                    One(3, "schemaUrl", kString)};
constexpr OtlpField kLogRecord[] = {
    One(1, "timeUnixNano", kFixed64),    Word(2, "severityNumber", kSeverities),
    One(3, "severityText", kString),     Sub(5, "body", M::kAnyValue),
    Subs(6, "attributes", M::kKeyValue), One(7, "droppedAttributesCount", kUint32),
    One(8, "flags", kFixed32),           One(9, "traceId", kHexBytes),
    One(10, "spanId", kHexBytes),        One(11, "observedTimeUnixNano", kFixed64),
    One(12, "eventName", kString)};

// Traces.
constexpr OtlpField kResourceSpans[] = {Sub(1, "resource", M::kResource),
                                        Subs(2, "scopeSpans", M::kScopeSpans), One(3, "schemaUrl", kString)};
constexpr OtlpField kScopeSpans[] = {Sub(1, "scope", M::kScope), Subs(2, "spans", M::kSpan),
                                     One(3, "schemaUrl", kString)};
constexpr OtlpField kSpan[] = {One(1, "traceId", kHexBytes),
                               One(2, "spanId", kHexBytes),
                               One(3, "traceState", kString),
                               One(4, "parentSpanId", kHexBytes),
                               One(5, "name", kString),
                               Word(6, "kind", kSpanKinds),
                               One(7, "startTimeUnixNano", kFixed64),
                               One(8, "endTimeUnixNano", kFixed64),
                               Subs(9, "attributes", M::kKeyValue),
                               One(10, "droppedAttributesCount", kUint32),
                               Subs(11, "events", M::kSpanEvent),
                               One(12, "droppedEventsCount", kUint32),
                               Subs(13, "links", M::kSpanLink),
                               One(14, "droppedLinksCount", kUint32),
                               Sub(15, "status", M::kSpanStatus),
                               One(16, "flags", kFixed32)};
constexpr OtlpField kSpanEvent[] = {One(1, "timeUnixNano", kFixed64), One(2, "name", kString),
                                    Subs(3, "attributes", M::kKeyValue),
                                    One(4, "droppedAttributesCount", kUint32)};
constexpr OtlpField kSpanLink[] = {One(1, "traceId", kHexBytes),
                                   One(2, "spanId", kHexBytes),
                                   One(3, "traceState", kString),
                                   Subs(4, "attributes", M::kKeyValue),
                                   One(5, "droppedAttributesCount", kUint32),
                                   One(6, "flags", kFixed32)};
constexpr OtlpField kSpanStatus[] = {One(2, "message", kString), Word(3, "code", kStatusCodes)};

}  // namespace fields

// "asDouble" for "as_double", byte by byte.
bool SameName(std::string_view camel, std::string_view name) noexcept {
  size_t at = 0;
  for (char c : camel) {
    const bool upper = c >= 'A' && c <= 'Z';
    if (at < name.size() && name[at] == c) {
      ++at;
    } else if (upper && at + 1 < name.size() && name[at] == '_' && name[at + 1] == c - 'A' + 'a') {
      at += 2;
    } else {
      return false;
    }
  }
  return at == name.size();
}

}  // namespace

std::span<const OtlpField> OtlpFields(OtlpMessage message) noexcept {
  namespace f = fields;
  switch (message) {
    case M::kMetrics: return f::kMetricsRequest;
    case M::kLogs: return f::kLogsRequest;
    case M::kTraces: return f::kTracesRequest;
    case M::kMetricsAnswer: return f::kMetricsAnswer;
    case M::kLogsAnswer: return f::kLogsAnswer;
    case M::kTracesAnswer: return f::kTracesAnswer;
    case M::kError: return f::kError;
    case M::kMetricsPartial: return f::kMetricsPartial;
    case M::kLogsPartial: return f::kLogsPartial;
    case M::kTracesPartial: return f::kTracesPartial;
    case M::kResourceMetrics: return f::kResourceMetrics;
    case M::kResourceLogs: return f::kResourceLogs;
    case M::kResourceSpans: return f::kResourceSpans;
    case M::kResource: return f::kResource;
    case M::kEntityRef: return f::kEntityRef;
    case M::kScope: return f::kScope;
    case M::kKeyValue: return f::kKeyValue;
    case M::kAnyValue: return f::kAnyValue;
    case M::kArrayValue: return f::kArrayValue;
    case M::kKeyValueList: return f::kKeyValueList;
    case M::kScopeMetrics: return f::kScopeMetrics;
    case M::kMetric: return f::kMetric;
    case M::kGauge: return f::kGauge;
    case M::kSum: return f::kSum;
    case M::kHistogram: return f::kHistogram;
    case M::kExponentialHistogram: return f::kExponentialHistogram;
    case M::kSummary: return f::kSummary;
    case M::kNumberPoint: return f::kNumberPoint;
    case M::kHistogramPoint: return f::kHistogramPoint;
    case M::kExponentialPoint: return f::kExponentialPoint;
    case M::kExponentialBuckets: return f::kExponentialBuckets;
    case M::kSummaryPoint: return f::kSummaryPoint;
    case M::kQuantileValue: return f::kQuantileValue;
    case M::kExemplar: return f::kExemplar;
    case M::kScopeLogs: return f::kScopeLogs;
    case M::kLogRecord: return f::kLogRecord;
    case M::kScopeSpans: return f::kScopeSpans;
    case M::kSpan: return f::kSpan;
    case M::kSpanEvent: return f::kSpanEvent;
    case M::kSpanLink: return f::kSpanLink;
    case M::kSpanStatus: return f::kSpanStatus;
  }
  return {};
}

const OtlpField* FindOtlpField(OtlpMessage message, uint32_t number) noexcept {
  for (const OtlpField& field : OtlpFields(message)) {
    if (field.number == number) return &field;
  }
  return nullptr;
}

const OtlpField* FindOtlpField(OtlpMessage message, std::string_view name) noexcept {
  for (const OtlpField& field : OtlpFields(message)) {
    if (SameName(field.name, name)) return &field;
  }
  return nullptr;
}

}  // namespace gpulens
