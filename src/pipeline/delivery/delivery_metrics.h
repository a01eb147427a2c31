// The self-metrics of one network sink: what was delivered, refused and lost, and what waits.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "core/frame_writer.h"
#include "core/series_table.h"
#include "pipeline/delivery/delivery_stats.h"

namespace gpulens {

// Series are declared as they are first needed. Not thread-safe: used in the run of SelfMetrics.
class DeliveryMetrics {
 public:
  void Write(const DeliveryStats& stats, const EntityRef& sink, FrameWriter& out);

 private:
  struct OfSignal {
    Series delivered, rejected;
  };

  void Declare(const DeliveryStats& stats, const EntityRef& sink, SeriesTable& table);

  bool declared_ = false;
  std::vector<OfSignal> signals_;
  std::map<std::string, Series, std::less<>> requests_;
  Series left_out_, untranslated_, retries_, sent_, length_, size_, limit_, age_, unusable_;
  std::array<Series, 6> lost_;
};

}  // namespace gpulens
