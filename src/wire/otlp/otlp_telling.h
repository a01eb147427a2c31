// What the parts of OtlpMetrics share while a frame is told.
#pragma once

#include <cstdint>
#include <limits>

#include "wire/otlp/otlp_fields.h"
#include "wire/otlp/otlp_metrics.h"

namespace gpulens {

struct OtlpMetrics::Telling {
  const Frame& frame;
  const OtlpLayout& text;
  const Planned& planned;
  Source& source;
  int64_t told_unix_ns = std::numeric_limits<int64_t>::min();  // the frame that the receiver has
};

inline int64_t ReadUnixNs(const Frame& frame, uint32_t slot) noexcept {
  return frame.read_at.unix_ns - int64_t{frame.AgeMs(slot)} * 1'000'000;
}

// Fields that the kinds of points number differently.
struct OtlpPointFields {
  uint32_t flags, exemplars;  // 0: it cannot have any
};
constexpr OtlpPointFields FieldsOf(OtlpFamily::Form form) noexcept {
  using namespace otlp;
  switch (form) {
    case OtlpFamily::kHistogram: return {kHistogramFlags, kHistogramExemplars};
    case OtlpFamily::kExponential: return {kExponentialFlags, kExponentialExemplars};
    case OtlpFamily::kSummary: return {kSummaryFlags, 0};
    case OtlpFamily::kNumber: break;
  }
  return {kNumberFlags, kNumberExemplars};
}

}  // namespace gpulens
