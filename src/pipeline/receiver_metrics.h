// The self-metrics of receivers: what came in, and what became of it.
#pragma once

#include <array>
#include <map>
#include <string>
#include <string_view>

#include "core/frame_writer.h"
#include "core/series_table.h"
#include "plugins/receiver.h"

namespace gpulens {

// Series are declared as they are first needed. Not thread-safe: used in the run of SelfMetrics.
class ReceiverMetrics {
 public:
  void Write(const ReceiverStats& stats, FrameWriter& out);

 private:
  static constexpr size_t kResults = 4;
  struct OfSignal {
    Series results[kResults];
    std::map<std::string, Series, std::less<>> requests;
  };
  struct OfWay {
    EntityRef entity;
    Series received;
    std::array<OfSignal, kOtlpSignals> signals;
  };

  std::map<std::string_view, OfWay> ways_;
};

}  // namespace gpulens
