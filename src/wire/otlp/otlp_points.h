// The numbers of an ExportMetricsServiceRequest, as they came: bytes from outside, read with limits. Pure.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include <gpulens/status.h>

#include "core/attribute_set.h"

namespace gpulens {

// Properties that the points of one metric share. Views into the request.
struct OtlpMetricView {
  enum class Data : uint8_t { kGauge, kSum, kHistogram, kExponential };
  std::string_view name, description, unit;
  Data data = Data::kGauge;
  bool monotonic = false;  // of a sum
};

// One cumulative point. Views hold until OnPoint returns.
struct OtlpPointView {
  std::span<const AttributeSet::Attribute> attributes;
  int64_t start_unix_ns = 0, unix_ns = 0;  // 0: absent
  bool integer = false;
  int64_t whole = 0;   // of a gauge or sum, when it is an integer
  double value = 0;    // else; finite
  uint64_t count = 0;  // of histograms
  bool has_sum = false;
  double sum = 0;
  std::span<const double> bounds;  // explicit: finite, ascending
  std::span<const uint64_t>
      counts;  // by bucket, not cumulative; one more than bounds, or of the exponential ones
  int scale = 0;
  int32_t offset = 0;
  uint64_t zeros = 0;
};

class OtlpPointVisitor {
 public:
  // Called before the points of each resource.
  virtual void OnResource(std::span<const AttributeSet::Attribute> attributes) = 0;
  // Empty, or why it is not taken; static storage.
  virtual std::string_view OnPoint(const OtlpMetricView& metric, const OtlpPointView& point) = 0;

 protected:
  ~OtlpPointVisitor() = default;
};

struct OtlpPointsReport {
  uint64_t points = 0;    // taken
  uint64_t rejected = 0;  // not
  std::string_view why;   // of the last that was not; static storage
};

inline constexpr size_t kMostOtlpAttributes = 128, kMostOtlpBuckets = 4'096;

// Reads the points of a request. kDataLoss: the bytes cannot be parsed; points before that place were
// visited. Rejects point by point: no name, delta values, summaries, numbers that are not finite, buckets
// that do not fit their bounds or their count, negative buckets, attributes that are lists or no text, and
// more of them than above. Skips points that are flagged as having no value.
Status ReadOtlpPoints(std::string_view request, OtlpPointVisitor& visitor, OtlpPointsReport& report);

}  // namespace gpulens
