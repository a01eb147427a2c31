#include "wire/otlp/otlp_schema.h"

#include <array>
#include <utility>

#include "base/text.h"

namespace gpulens {
namespace {

using M = OtlpMessage;

namespace fields {

using enum OtlpType;
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
// `optional` ones are oneofs of one: they are written although they are the default.
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

// In the order of OtlpMessage.
constexpr std::span<const OtlpField> kTables[] = {kMetricsRequest,
                                                  kLogsRequest,
                                                  kTracesRequest,
                                                  kMetricsAnswer,
                                                  kLogsAnswer,
                                                  kTracesAnswer,
                                                  kError,
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
                                                  kSpanStatus};

}  // namespace fields

constexpr size_t kMessages = std::size(fields::kTables), kNumbers = 17;
static_assert(static_cast<size_t>(M::kSpanStatus) + 1 == kMessages);

// By message and number.
using FieldTable = std::array<std::array<const OtlpField*, kNumbers>, kMessages>;
constexpr FieldTable kByNumber = [] {
  FieldTable table{};
  for (size_t message = 0; message < kMessages; ++message)
    for (const OtlpField& field : fields::kTables[message]) table[message][field.number] = &field;
  return table;
}();

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
  return fields::kTables[static_cast<size_t>(message)];
}

const OtlpField* FindOtlpField(OtlpMessage message, uint32_t number) noexcept {
  return number < kNumbers ? kByNumber[static_cast<size_t>(message)][number] : nullptr;
}

const OtlpField* FindOtlpField(OtlpMessage message, std::string_view name) noexcept {
  for (const OtlpField& field : OtlpFields(message)) {
    if (SameName(field.name, name)) return &field;
  }
  return nullptr;
}

namespace otlp {
namespace {

constexpr SchemaFinding kWrongType = {Validity::kBroken, "a field has a wire type other than that of OTLP"};
constexpr SchemaFinding kCutOff = {Validity::kBroken, "the request is not a protobuf message"};
constexpr SchemaFinding kNoText = {Validity::kBad, "a text is not valid UTF-8"};
constexpr SchemaFinding kNoId = {Validity::kBad, "a trace id or span id has a wrong length"};
constexpr SchemaFinding kTooDeep = {Validity::kBad, "values nest too deeply"};

bool AreVarints(std::string_view packed) noexcept {
  ProtoCursor cursor(packed);
  uint64_t value = 0;
  while (!cursor.at_end())
    if (!cursor.Varint(value)) return false;
  return true;
}

// Items and what leads to them, which have a walk of their own.
constexpr bool IsWalked(OtlpMessage message) noexcept {
  uint64_t walked = 0;
  for (M one : {M::kScopeMetrics, M::kScopeLogs, M::kScopeSpans, M::kMetric, M::kLogRecord, M::kSpan,
                M::kGauge, M::kSum, M::kHistogram, M::kExponentialHistogram, M::kSummary})
    walked |= uint64_t{1} << static_cast<size_t>(one);
  return (walked >> static_cast<size_t>(message) & 1) != 0;
}

template <class Word>
Word Load(const char* at) noexcept {
  Word word;
  std::memcpy(&word, at, sizeof word);
  return word;
}

// Whether all bytes are below 0x80. The last load overlaps the one before.
inline bool IsAscii(std::string_view text) noexcept {
  constexpr uint64_t kHighBits = 0x8080808080808080;
  const char* at = text.data();
  const char* const end = at + text.size();
  if (text.size() >= 8) {
    uint64_t seen = Load<uint64_t>(end - 8);
    for (; end - at > 8; at += 8) seen |= Load<uint64_t>(at);
    return (seen & kHighBits) == 0;
  }
  if (text.size() >= 4) return ((Load<uint32_t>(at) | Load<uint32_t>(end - 4)) & uint32_t{0x80808080}) == 0;
  unsigned char seen = 0;
  for (; at != end; ++at) seen |= static_cast<unsigned char>(*at);
  return seen < 0x80;
}

// An AnyValue that is a short text, whose bytes are still to be looked at, or a number. No list, nothing
// twice.
inline bool IsUsualValue(std::string_view value, bool& is_text) noexcept {
  const auto at = [&](size_t i) { return static_cast<unsigned char>(value[i]); };
  is_text = false;
  if (value.size() < 2) return false;
  switch (at(0)) {
    case 0x0a: is_text = true; return at(1) < 0x80 && value.size() == 2 + size_t{at(1)};
    case 0x10:  // a truth value, or an integer of as many bytes as it has
    case 0x18: {
      size_t last = 1;
      while (last < value.size() && at(last) >= 0x80) ++last;
      return last + 1 == value.size() && last < 10;
    }
    case 0x21: return value.size() == 9;
    default: return false;
  }
}

}  // namespace

bool IsText(std::string_view text) noexcept { return IsAscii(text) || IsUtf8(text); }

// Nine of ten attributes are a short key with a short text or a number. Most writers put the key first, and
// the Collector's the value.
std::string_view UsualPair(std::string_view pair) noexcept {
  const auto at = [&](size_t i) { return static_cast<unsigned char>(pair[i]); };
  if (pair.size() < 6 || at(1) >= 0x80) return {};
  const size_t second = 2 + size_t{at(1)};
  if (second + 2 > pair.size() || at(second + 1) >= 0x80 || second + 2 + at(second + 1) != pair.size())
    return {};
  std::string_view key = pair.substr(2, second - 2), value = pair.substr(second + 2);
  if (at(0) == 0x12 && at(second) == 0x0a) std::swap(key, value);
  else if (at(0) != 0x0a || at(second) != 0x12) return {};
  bool is_text = false;
  if (!IsUsualValue(value, is_text)) return {};
  return IsAscii(is_text ? pair : key) ? key : std::string_view();
}

SchemaFinding CheckField(OtlpMessage message, const ProtoField& field, int depth) noexcept {
  const OtlpField* const rule = FindOtlpField(message, field.number);
  if (!rule) return {};
  const WireType wire = WireOf(rule->type);
  if (rule->repeated && wire != WireType::kBytes && field.wire == WireType::kBytes) {
    // Packed numbers.
    const bool whole = wire == WireType::kVarint ? AreVarints(field.bytes) : field.bytes.size() % 8 == 0;
    return whole ? SchemaFinding{} : kCutOff;
  }
  if (field.wire != wire) return kWrongType;
  switch (rule->type) {
    case OtlpType::kString: return IsText(field.bytes) ? SchemaFinding{} : kNoText;
    case OtlpType::kHexBytes: {
      const size_t size = rule->name == "traceId" ? 16 : 8;
      return field.bytes.empty() || field.bytes.size() == size ? SchemaFinding{} : kNoId;
    }
    case OtlpType::kMessage:
      if (IsWalked(rule->message)) return {};
      return depth == 0 ? kTooDeep : CheckMessage(rule->message, field.bytes, depth - 1);
    default: return {};
  }
}

SchemaFinding CheckMessage(OtlpMessage message, std::string_view bytes, int depth) noexcept {
  ProtoCursor cursor(bytes);
  ProtoField field;
  SchemaFinding worst;
  while (cursor.Next(field)) {
    const SchemaFinding found = CheckField(message, field, depth);
    if (found.validity == Validity::kBroken) return found;
    if (worst.good()) worst = found;
  }
  return cursor.broken() ? kCutOff : worst;
}

}  // namespace otlp

}  // namespace gpulens
