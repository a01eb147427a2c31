// The self-metrics of one sink's roll-ups.
#pragma once

#include <array>

#include "core/frame_writer.h"
#include "core/series_table.h"
#include "pipeline/rollup/rollup.h"

namespace gpulens {

// Series are declared as they are first needed. Not thread-safe: used in the run of SelfMetrics.
class RollupMetrics {
 public:
  void Write(const RollupStats& stats, const EntityRef& sink, FrameWriter& out);

 private:
  Series groups_, combined_, not_sent_, intervals_;
  std::array<Series, kRollupRefusals> refused_;
};

}  // namespace gpulens
