// Any bytes as a sketch: accepted ones are encoded to an equal sketch, and rejected ones change nothing.
#include <cmath>

#include "base/check.h"
#include "store/sketch/quantile_sketch.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using gpulens::QuantileSketch;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  QuantileSketch sketch;
  if (!sketch.MergeBytes(bytes)) {
    CHECK(sketch == QuantileSketch());
    return 0;
  }
  std::string again;
  sketch.AppendBytes(again);
  CHECK(again == bytes);
  double before = -INFINITY;
  for (double fraction : {0.0, 0.01, 0.5, 0.99, 1.0}) {
    const double value = sketch.Quantile(fraction);
    CHECK(sketch.count() == 0 ? std::isnan(value) : value >= before);
    before = value;
  }
  // Twice as many of each: the same quantile of a whole rank.
  QuantileSketch twice = sketch;
  if (twice.MergeBytes(bytes)) CHECK(twice.count() == 2 * sketch.count());
  return 0;
}
