// What simulated GPUs tell by GPM of single engines, caches and cycles.
#pragma once

#include <optional>

namespace gpulens::nvml {

struct FakeGpmSpan {
  double busy;          // share of the span between two samples, 0 to 1
  double seconds;       // since the library was opened
  double busy_seconds;  // of these
};

// In the unit of the metric; nothing for metrics that these boards do not have: they have seven decoders and
// JPEG engines, one optical flow accelerator and no encoder.
std::optional<double> FakeGpmMore(unsigned metric, const FakeGpmSpan& span) noexcept;

}  // namespace gpulens::nvml
