// Self-metrics of sinks and receivers. Series are declared as they are first needed.
#pragma once

#include <array>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/frame_writer.h"
#include "core/series_table.h"
#include "delivery/leftover_watch.h"
#include "pipeline/delivery/delivery.h"
#include "pipeline/rollup/rollup.h"
#include "plugins/receiver.h"

namespace gpulens {

// Metrics of the delivery of one network sink. Not thread-safe, as all below: used by SelfMetrics.
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
  std::array<Series, 6> dropped_;
};

// Metrics of data on disk that waits for sinks which are not configured.
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

// Metrics of the roll-ups of one sink.
class RollupMetrics {
 public:
  void Write(const RollupStats& stats, const EntityRef& sink, FrameWriter& out);

 private:
  Series groups_, combined_, not_sent_, intervals_;
  std::array<Series, kRollupRefusals> refused_;
};

// Metrics of receivers.
class ReceiverMetrics {
 public:
  void Write(const ReceiverStats& stats, FrameWriter& out);

 private:
  static constexpr size_t kResults = 4;
  struct OfSignal {
    Series results[kResults];
    std::map<std::string, Series, std::less<>> requests;
  };
  struct OfTransport {
    EntityRef entity;
    Series received;
    std::array<OfSignal, kOtlpSignals> signals;
  };

  std::map<std::string_view, OfTransport> transports_;
};

}  // namespace gpulens
