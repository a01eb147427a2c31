#include "pipeline/delivery/leftover_metrics.h"

#include <utility>

#include "catalog/self.h"

namespace gpulens {

void LeftoverMetrics::Write(const std::vector<QueueLeftover>& leftovers, FrameWriter& out) {
  SeriesTable& table = out.table();
  for (const QueueLeftover& leftover : leftovers) {
    OfSink& sink = sinks_[leftover.sink];
    if (!sink.entity) {
      sink.entity = MakeRef<Entity>("sink", AttributeSet({{"sink", std::string_view(leftover.sink)}}));
      sink.length = table.Declare(kSelfSinkDiskQueueLeftoverLength, sink.entity);
      sink.size = table.Declare(kSelfSinkDiskQueueLeftoverSize, sink.entity);
    }
    sink.seen = true;
    out.Set(sink.length, leftover.records);
    out.Set(sink.size, leftover.bytes);
  }
  for (auto at = sinks_.begin(); at != sinks_.end();) {
    if (std::exchange(at->second.seen, false)) {
      ++at;
      continue;
    }
    table.Retire(at->second.entity);
    at = sinks_.erase(at);
  }
}

}  // namespace gpulens
