// Builds what `gpulens top` shows from the pages of a node.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "cli/node/node_json.h"
#include "cli/top/top_view.h"

namespace gpulens {

// Used by one thread.
class TopModel {
 public:
  // Ticks of which a trend has a value.
  static constexpr size_t kTrend = 240;
  // Metrics whose samples TakeTrends takes.
  static std::vector<std::string> TrendMetrics();

  // Takes /api/now. A page without series needs the layout of an earlier one.
  void Take(const NodeNow& now);
  void Take(const std::vector<NodeEvent>& events);
  // Takes the samples before the first tick, after Take.
  void TakeTrends(const NodeHistory& history);
  // The node does not answer.
  void TakeFailure(const Status& why, int64_t now_ms);

  // The layout of the series that are known; 0: none.
  uint64_t layout() const noexcept { return layout_; }
  const TopNode& node() const noexcept { return node_; }
  TopNode& node() noexcept { return node_; }

 private:
  enum class Use : uint8_t {
    kValue,   // the first source wins
    kSum,     // added up
    kMax,     // the greatest
    kRest,    // added up as 1 - value: a share of idle time
    kState,   // the GPU's state is `text` while the value is 1
    kHealth,  // likewise its health
    kCause,   // the clock is held down by `text`
    kShare,   // for this share of the time
    kPart,    // a collector or sink is up
    kUp,      // the page of an engine was read
    kOwnerEnergy,
    kOwnerCost,
  };
  struct Target {
    Use use = Use::kValue;
    bool rate = false;  // of a counter, per second
    TopValue* (*at)(TopModel&, const Target&) = nullptr;
    uint32_t row = 0, process = 0, source = 0;
    std::string text;
  };
  struct LastRate {
    double value = 0, rate = kNotMeasured;
    int64_t read_ms = 0;
  };

  void Bind(const std::vector<KeptSeries>& series);
  void BindGpu(const KeptSeries& series, Target target);
  void BindEngine(const KeptSeries& series, Target target);
  void BindRest(const KeptSeries& series, Target target);
  void AddTarget(const KeptSeries& series, Target target) {
    targets_.insert_or_assign(series.id, std::move(target));
  }
  void Clear();
  void Apply(const Target& target, const TopValue& value);
  TopValue RateOf(uint32_t id, const TopValue& value, int64_t read_ms);
  void Finish();
  void FinishGpu(TopGpu& gpu);
  void FinishEngine(size_t row);
  void FinishJobs();
  uint32_t GpuRow(const AttributeSet& attributes);
  uint32_t EngineRow(const AttributeSet& attributes);
  uint32_t ProcessRow(uint32_t gpu, const AttributeSet& attributes);

  TopNode node_;
  uint64_t layout_ = 0, tick_ = 0;
  std::unordered_map<uint32_t, Target> targets_;
  std::unordered_map<uint32_t, LastRate> rates_;
  std::vector<std::string> sources_;
  std::map<std::string, uint32_t, std::less<>> gpu_rows_, engine_rows_;
  std::map<std::pair<uint32_t, std::string>, uint32_t> process_rows_;
  struct EngineState {
    int up = -1;  // -1: not known
    int kv_series = 0;
    int64_t down_since_ms = 0;
    std::string owner;  // its pod or job
  };
  std::vector<EngineState> engine_states_;
  std::vector<std::pair<std::string, std::string>> gpu_owners_;  // kind and name, of each GPU
  std::vector<std::map<std::string, double>> shares_;            // of each GPU, by cause
  std::map<std::pair<std::string, std::string>, TopValue> owner_energy_, owner_cost_;
};

}  // namespace gpulens
