// Self-metrics of the pipeline: collectors, analyzers, enrichers, sinks, receivers, ticks, samples by
// quality.
#pragma once

#include <array>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/frame_writer.h"
#include "delivery/queue_folders.h"
#include "pipeline/delivery/delivery.h"
#include "pipeline/enricher_set.h"
#include "pipeline/instance.h"
#include "pipeline/rollup/rollup.h"
#include "pipeline/sink_runner.h"
#include "plugins/receiver.h"

namespace gpulens {

struct AnalyzerStats {
  Duration duration{};
  std::array<uint64_t, kCodes> errors{};
};

struct AnalyzerView {
  std::string_view name;
  AnalyzerStats stats;
};

// The rows of the catalogue that SelfMetrics writes.
std::vector<const MetricDesc*> SelfMetricRows();

// Metrics of the delivery of one network sink. Not thread-safe, as all below.
class DeliveryMetrics {
 public:
  void Write(const DeliveryStats& stats, const EntityRef& sink, FrameWriter& out);

 private:
  struct OfSignal {
    Series delivered, rejected;
  };

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

// Not thread-safe: used only while a tick closes.
class SelfMetrics {
 public:
  struct SinkView {
    std::string_view name;
    const SinkRunner* runner = nullptr;  // null: sends received data only
    // Whether snapshots are queued for it; else it is called directly.
    bool queued() const noexcept { return !runner || runner->threaded(); }
  };
  struct Input {
    Instant now;
    AttributeSet resource;
    std::span<const std::shared_ptr<Instance>> instances;
    std::span<const AnalyzerView> analyzers;
    std::span<const EnricherSet::View> enrichers;
    std::span<const SinkView> sinks;
    Delivery* delivery = nullptr;
    const ReceiverStats* received = nullptr;
    Duration tick_duration{};
    uint64_t late_ticks = 0;
    uint64_t memory_limit = 0;
    bool ready = false;
    bool simulated = false;
  };

  explicit SelfMetrics(SeriesBudget& budget);

  Ref<const Frame> Update(const Input& input);

 private:
  // Common part of the metrics of a plugin.
  struct OfPlugin {
    EntityRef entity;
    uint64_t seen = 0;  // the last update that had it
  };
  struct OfCollector : OfPlugin {
    Series up, duration, last_success, interval, age, series;
    Series runs_ok, runs_error, runs_timeout, accepted, stale;
    Series errors[kCodes], rejected[kValidations], refused[kSeriesRefusals];
  };
  struct OfAnalyzer : OfPlugin {
    Series duration, errors[kCodes];
  };
  struct OfEnricher : OfPlugin {
    Series up, errors[kCodes], missing;
  };
  struct OfSink : OfPlugin {
    Series up, length, capacity, duration, last_success, dropped[kSinkDropReasons];
    Series event_length, event_capacity, events_dropped[kSinkDropReasons];
    DeliveryMetrics delivery;
    RollupMetrics rollups;
  };
  template <class Of>
  using ByName = std::map<std::string, Of, std::less<>>;

  void UpdateOwn(const Input& input);
  void UpdateTargetInfo(const AttributeSet& resource);
  void UpdateCollector(const Instance& instance, Instant now);
  void UpdateAnalyzer(const AnalyzerView& analyzer);
  void UpdateEnricher(const EnricherSet::View& enricher);
  void UpdateSink(const SinkView& sink, Delivery* delivery);
  template <class Of>
  std::pair<Of&, EntitySeries> Find(ByName<Of>& known, std::string_view type, std::string_view name);
  template <class Of>
  void RetireGone(ByName<Of>& known);

  SeriesBudget& budget_;
  SeriesTable table_;
  FrameWriter writer_;
  ByName<OfCollector> collectors_;
  ByName<OfAnalyzer> analyzers_;
  ByName<OfEnricher> enrichers_;
  ByName<OfSink> sinks_;
  Series tick_duration_, tick_late_, ready_, simulated_, build_info_, start_time_, series_limit_,
      memory_limit_, text_replaced_;
  Series log_written_[4], log_suppressed_[4];
  Series target_info_;
  ReceiverMetrics receivers_;
  LeftoverMetrics leftovers_;
  AttributeSet resource_;
  int64_t started_unix_ns_ = 0;
  uint64_t update_ = 0;
  InstanceStats instance_stats_;  // of the collector being updated
  DeliveryStats delivery_;        // of the sink being updated
};

}  // namespace gpulens
