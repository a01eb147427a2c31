// What the pipeline says about itself, as series like any other: collectors, analyzers, sinks,
// ticks, samples by quality and reason.
//
// Used only while a tick closes: not thread-safe.
#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/frame_writer.h"
#include "pipeline/delivery/delivery.h"
#include "pipeline/delivery/delivery_metrics.h"
#include "pipeline/delivery/leftover_metrics.h"
#include "pipeline/enricher_set.h"
#include "pipeline/instance.h"
#include "pipeline/receiver_metrics.h"
#include "pipeline/rollup/rollup_metrics.h"
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

// Every row that this class writes, for the catalogue. Static storage.
std::span<const MetricDesc* const> SelfMetricRows() noexcept;

class SelfMetrics {
 public:
  struct SinkView {
    std::string_view name;
    const SinkRunner* runner = nullptr;  // null: it sends received data alone
    // Whether snapshots wait for it, rather than being given to it at once.
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
  ~SelfMetrics();

  Ref<const Frame> Update(const Input& input);

 private:
  struct OfCollector;
  struct OfAnalyzer;
  struct OfSink;
  struct OfEnricher;

  void DeclareOwn();
  void UpdateTargetInfo(const AttributeSet& resource);
  void UpdateCollector(const Instance& instance, Instant now);
  void UpdateAnalyzer(const AnalyzerView& analyzer);
  void UpdateEnricher(const EnricherSet::View& enricher);
  void UpdateSink(const SinkView& sink, Delivery* delivery);
  template <class Of>
  void RetireGone(std::map<std::string, std::unique_ptr<Of>, std::less<>>& known);

  SeriesBudget& budget_;
  SeriesTable table_;
  FrameWriter writer_;
  std::map<std::string, std::unique_ptr<OfCollector>, std::less<>> collectors_;
  std::map<std::string, std::unique_ptr<OfAnalyzer>, std::less<>> analyzers_;
  std::map<std::string, std::unique_ptr<OfEnricher>, std::less<>> enrichers_;
  std::map<std::string, std::unique_ptr<OfSink>, std::less<>> sinks_;
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
