// OTLP's messages as a table, and the check of bytes against it. Pure.
//
// What is checked is what other decoders insist on, since bytes that are passed on unread must not spoil the
// request they are merged into: wire types, lengths, UTF-8, sizes of ids, how deep values nest.
#pragma once

#include <cstdint>
#include <string_view>

#include "core/received_otlp.h"
#include "wire/otlp/proto_cursor.h"

namespace gpulens::otlp_in {

// Messages that are leaves of the walk over a request: everything below an item, and what stands beside
// items.
enum class MessageShape : uint8_t {
  kResource,
  kScope,
  kKeyValue,
  kAnyValue,
  kArray,
  kKeyValueList,
  kEntityRef,
  kExemplar,
  kBuckets,
  kQuantile,
  kSpanEvent,
  kSpanLink,
  kSpanStatus,
  kNumberPoint,
  kHistogramPoint,
  kExponentialPoint,
  kSummaryPoint,
  kLogRecord,
  kSpan,
  // Their own fields alone; what they hold is walked by the scanner.
  kResourceList,
  kScopeList,
  kMetric,
  kData,
};
inline constexpr size_t kShapes = 23;

// How deep values may nest below an item: kvlists and arrays count.
inline constexpr int kDeepest = 32;

enum class Validity : uint8_t {
  kGood,
  kBad,     // this message cannot be passed on; what follows it can be read
  kBroken,  // the request cannot be read
};

// Why something is not kGood; static storage.
struct Finding {
  Validity validity = Validity::kGood;
  std::string_view why;
  bool good() const noexcept { return validity == Validity::kGood; }
};

// Of a whole message, with all that it holds.
Finding CheckMessage(MessageShape shape, std::string_view bytes, int depth = kDeepest) noexcept;
// Of one field of a message, with all that it holds.
Finding CheckField(MessageShape shape, const ProtoField& field, int depth = kDeepest) noexcept;

// Whether it is one of the times and numbers of a NumberDataPoint, as they are written: nothing to check.
constexpr bool IsNumberOfPoint(MessageShape shape, const ProtoField& field) noexcept {
  constexpr uint32_t kTimesAndNumbers = 1u << 2 | 1u << 3 | 1u << 4 | 1u << 6;
  return shape == MessageShape::kNumberPoint && field.wire == WireType::kFixed64 && field.number < 8 &&
         (kTimesAndNumbers >> field.number & 1) != 0;
}

// The field that holds an item's attributes.
uint32_t AttributesField(MessageShape item) noexcept;

// UTF-8, quickly where it is ASCII.
bool IsText(std::string_view text) noexcept;

// The key of a KeyValue that needs no further check; empty: it may be good, but has to be looked through.
std::string_view UsualPair(std::string_view pair) noexcept;

// The levels of a request on the way down to its items, as far as the code that walks them has to know:
// request, ResourceX, ScopeX; items are metrics, log records or spans.
enum Level : uint32_t { kResourceList = 1, kResourceField = 1, kScopeList = 2, kItems = 2 };
inline constexpr uint32_t kResourceAttributes = 1;
// Metric, and what holds its points.
enum MetricField : uint32_t {
  kMetricName = 1,
  kGaugeData = 5,
  kSumData = 7,
  kHistogramData = 9,
  kExponentialData = 10,
  kSummaryData = 11,
};
inline constexpr uint32_t kDataPoints = 1, kHistogramBuckets = 6, kHistogramBounds = 7;

constexpr bool IsData(uint32_t metric_field) noexcept {
  return metric_field == kGaugeData || metric_field == kSumData || metric_field == kHistogramData ||
         metric_field == kExponentialData || metric_field == kSummaryData;
}
constexpr MessageShape PointShape(uint32_t data_field) noexcept {
  switch (data_field) {
    case kHistogramData: return MessageShape::kHistogramPoint;
    case kExponentialData: return MessageShape::kExponentialPoint;
    case kSummaryData: return MessageShape::kSummaryPoint;
    default: return MessageShape::kNumberPoint;
  }
}
constexpr MessageShape ItemShape(OtlpSignal signal) noexcept {
  return signal == OtlpSignal::kLogs ? MessageShape::kLogRecord : MessageShape::kSpan;
}

}  // namespace gpulens::otlp_in
