// The parts of OTLP metrics that do not change from tick to tick: for one layout, every data point with its
// attributes, ready to be copied, and where its numbers go. Made once per layout, then only read.
//
// Names of series come from a SeriesNamer, as for pages (wire/exposition/layout_text.h).
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "core/frame.h"
#include "core/histogram.h"
#include "core/layout.h"
#include "core/named_series.h"

namespace gpulens {

// One data point, a whole field of its Gauge, Sum, Histogram or Summary. Its times and numbers are at its
// end, in places that follow from its family and shape, so that writing it is a copy and some eight-byte
// stores:
//
//   attributes, [bounds, bucket counts | quantiles | scale, buckets, zero count], [sum, count] or value,
//   [start time], time
struct OtlpPoint {
  uint32_t begin = 0, end = 0;          // in OtlpLayout::arena
  uint32_t attributes = 0, values = 0;  // where its attributes begin and end
  uint32_t slot = 0, cell = 0;
  uint32_t form = 0;  // of an exponential histogram: in OtlpLayout::forms
};

struct OtlpFamily {
  enum class Form : uint8_t { kNumber, kHistogram, kExponential, kSummary };

  std::string name;
  std::string head, tail;  // fields of the Metric before its data, fields of the data after its points
  uint32_t data = 0;       // which data field of the Metric
  Form form = Form::kNumber;
  bool monotonic = false;
  bool delta = false;      // since the last export, not since its start
  bool has_start = false;  // its points have a start time
  bool int_cells = false;  // cells are integers
  bool as_int = false;     // and so are the points
  bool whole = false;      // rounded after scaling
  double scale = 1;
  uint32_t first = 0, count = 0;  // points
};

// Choices that OTLP leaves to the exporter.
struct OtlpStyle {
  bool delta_counters = false, delta_histograms = false;
  bool exponential = false;  // histograms are exponential where their bounds allow it
};

struct OtlpLayout {
  std::string arena;
  std::vector<OtlpPoint> points;
  std::vector<OtlpFamily> families;  // in the order of their first series
  std::vector<ExponentialForm> forms;
  // By slot: 1 for a state of a set that is exported only while it holds. Empty: the layout has none.
  std::vector<uint8_t> only_if_set;
  // By point, the place of its last exported cells, of `kept` cells in all; empty: no family is a delta.
  std::vector<uint32_t> bases;
  uint32_t kept = 0;

  // Whether the points of a slot are exported in a frame of this layout.
  bool Shows(const Frame& frame, uint32_t slot) const noexcept {
    if (frame.quality[slot] == Quality::kAbsent) return false;
    return only_if_set.empty() || !only_if_set[slot] || frame.cells[(*frame.layout)[slot].first_cell].i != 0;
  }
  size_t memory_bytes() const noexcept {
    return arena.capacity() + points.capacity() * sizeof(OtlpPoint) +
           families.capacity() * sizeof(OtlpFamily) + bases.capacity() * sizeof(uint32_t) +
           only_if_set.capacity();
  }
};

// Calls `use` for the bounds that the points of a histogram have: finite ones, as far as they ascend.
template <class Use>
void ForEachBound(const Shape& shape, Use&& use) {
  double last = -std::numeric_limits<double>::infinity();
  for (double bound : shape.bounds) {
    if (!std::isfinite(bound) || bound <= last) continue;
    use(last = bound);
  }
}

// Kinds that OTLP does not have are exported by the Prometheus compatibility rules: info and state sets as
// sums that are not monotonic, unknown ones as gauges, a gauge histogram as gauges per bucket (`_bucket` with
// `le`, `_gsum`,
// `_gcount`).
OtlpLayout NameOtlp(const Layout& layout, const SeriesNamer& namer, const OtlpStyle& style);

}  // namespace gpulens
