#include "pipeline/rollup/rollup_metrics.h"

#include "catalog/self.h"

namespace gpulens {

void RollupMetrics::Write(const RollupStats& stats, const EntityRef& sink, FrameWriter& out) {
  if (!groups_) {
    SeriesTable& table = out.table();
    groups_ = table.Declare(kSelfSinkRollupGroups, sink);
    combined_ = table.Declare(kSelfSinkRollupSeries, sink, {{"result", "combined"}});
    not_sent_ = table.Declare(kSelfSinkRollupSeries, sink, {{"result", "not_sent"}});
    intervals_ = table.Declare(kSelfSinkRollupIntervals, sink);
    for (size_t i = 0; i < kRollupRefusals; ++i) {
      const std::string_view reason = RollupRefusalName(static_cast<RollupRefusal>(i));
      refused_[i] = table.Declare(kSelfSinkRollupRefused, sink, {{"reason", reason}});
    }
  }
  out.Set(groups_, stats.groups);
  out.Set(combined_, stats.rolled_up);
  out.Set(not_sent_, stats.left_out);
  out.Set(intervals_, stats.intervals);
  for (size_t i = 0; i < kRollupRefusals; ++i) out.Set(refused_[i], stats.refused[i]);
}

}  // namespace gpulens
