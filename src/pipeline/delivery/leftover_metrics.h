// The self-metrics of what waits on disk for sinks that are not configured.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "core/frame_writer.h"
#include "core/series_table.h"
#include "delivery/leftover_watch.h"

namespace gpulens {

// Series are there while something waits. Not thread-safe: used in the run of SelfMetrics.
class LeftoverMetrics {
 public:
  void Write(const std::vector<QueueLeftover>& leftovers, FrameWriter& out);

 private:
  struct OfSink {
    EntityRef entity;
    Series length, size;
    bool seen = false;
  };
  std::map<std::string, OfSink> sinks_;
};

}  // namespace gpulens
