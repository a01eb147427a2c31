// The levels of a request on the way down to its items, as far as the code that walks them has to know.
#pragma once

#include <cstdint>

#include "core/received_otlp.h"
#include "wire/otlp_in/otlp_message.h"

namespace gpulens::otlp_in {

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
constexpr Shape PointShape(uint32_t data_field) noexcept {
  switch (data_field) {
    case kHistogramData: return Shape::kHistogramPoint;
    case kExponentialData: return Shape::kExponentialPoint;
    case kSummaryData: return Shape::kSummaryPoint;
    default: return Shape::kNumberPoint;
  }
}
constexpr Shape ItemShape(OtlpSignal signal) noexcept {
  return signal == OtlpSignal::kLogs ? Shape::kLogRecord : Shape::kSpan;
}

}  // namespace gpulens::otlp_in
