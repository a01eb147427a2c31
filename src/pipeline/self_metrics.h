// Self-metrics of the pipeline: collectors, analyzers, enrichers, sinks, receivers, ticks, samples by
// quality.
#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/frame_writer.h"
#include "pipeline/delivery/delivery.h"
#include "pipeline/enricher_set.h"
#include "pipeline/instance.h"
#include "pipeline/sink_metrics.h"
#include "pipeline/sink_runner.h"

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
  // What the metrics of a plugin have in common.
  struct OfPlugin {
    EntityRef entity;
    uint64_t seen = 0;  // the last update that had it
  };
  struct OfCollector : OfPlugin {
    Series up, duration, last_success, interval, age, series;
    Series runs_ok, runs_error, runs_timeout, accepted, stale;
    Series errors[kCodes], rejected[kVerdicts], refused[kSeriesRefusals];
  };
  struct OfAnalyzer : OfPlugin {
    Series duration, errors[kCodes];
  };
  struct OfEnricher : OfPlugin {
    Series up, errors[kCodes], missing;
  };
  struct OfSink : OfPlugin {
    Series up, length, capacity, duration, last_success, dropped[kDropReasons];
    Series event_length, event_capacity, events_dropped[kDropReasons];
    DeliveryMetrics delivery;
    RollupMetrics rollups;
  };
  template <class Of>
  using ByName = std::map<std::string, Of, std::less<>>;

  void DeclareOwn();
  void UpdateTargetInfo(const AttributeSet& resource);
  void UpdateCollector(const Instance& instance, Instant now);
  void UpdateAnalyzer(const AnalyzerView& analyzer);
  void UpdateEnricher(const EnricherSet::View& enricher);
  void UpdateSink(const SinkView& sink, Delivery* delivery);
  template <class Of>
  Of& Find(ByName<Of>& known, std::string_view type, std::string_view name, bool& added);
  template <class Of>
  void RetireGone(ByName<Of>& known);
  void DeclareErrors(const MetricDesc& desc, const EntityRef& entity, std::span<Series, kCodes> errors);
  void SetErrors(std::span<const Series, kCodes> errors, const std::array<uint64_t, kCodes>& counts);

  SeriesBudget& budget_;
  SeriesTable table_;
  FrameWriter writer_;
  ByName<OfCollector> collectors_;
  ByName<OfAnalyzer> analyzers_;
  ByName<OfEnricher> enrichers_;
  ByName<OfSink> sinks_;
  Series tick_duration_, tick_late_, ready_, simulated_, build_info_, start_time_, series_limit_,
      memory_limit_, text_replaced_;
  ReceiverMetrics receivers_;
  LeftoverMetrics leftovers_;
  Series log_written_[4], log_suppressed_[4];
  Series target_info_;
  AttributeSet resource_;
  int64_t started_unix_ns_ = 0;
  uint64_t update_ = 0;
  InstanceStats instance_stats_;  // of the collector being updated
  DeliveryStats delivery_;        // of the sink being updated
};

}  // namespace gpulens
