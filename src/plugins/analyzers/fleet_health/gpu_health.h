// One GPU under watch: its window, its series, and the word that stands for it.
#pragma once

#include <array>
#include <optional>
#include <string>

#include "core/frame_writer.h"
#include "plugins/analyzers/fleet_health/gpu_inputs.h"
#include "plugins/analyzers/fleet_health/health_score.h"
#include "plugins/analyzers/fleet_health/health_window.h"

namespace gpulens {

class EventQueue;

// Used inside the analyzer's run. Does not allocate once its series are declared, but for an event.
class GpuHealth {
 public:
  GpuHealth(std::string key, Duration window) : key_(std::move(key)), window_(window) {}

  const std::string& key() const noexcept { return key_; }
  HealthWindow& window() noexcept { return window_; }
  const HealthWindow& window() const noexcept { return window_; }
  std::optional<HealthState> state() const noexcept { return state_; }
  // The word it had when it was saved.
  void Restore(HealthState state) noexcept { state_ = state; }
  // When it was last here, boot time.
  int64_t seen_ns() const noexcept { return seen_ns_; }
  void SeenAt(int64_t now_ns) noexcept { seen_ns_ = now_ns; }

  // `desk` may be null.
  void Update(const GpuNow& gpu, Instant now, FrameWriter& out, EventQueue* queue);
  // The GPU is no longer listed, while others are.
  void Missing(const GpuNow& gpu, Instant now, FrameWriter& out, EventQueue* queue);
  // The GPU left: its series end, its window stays.
  void Gone(SeriesTable& table);

 private:
  // Power, temperature, memory in use, clocks: what a GPU that works tells.
  static constexpr size_t kVitalInputs = 5;

  void Follow(const EntityRef& entity, SeriesTable& table);
  void Put(Series& series, const MetricDesc& desc, std::optional<double> value, FrameWriter& out);
  // What is wrong with the GPU now. `known`: whether anything shows how it is.
  ConditionSet Conditions(const GpuNow& gpu, const HealthInputs& inputs, int64_t now_ns,
                          bool& known) noexcept;
  void ValidateReadings(const GpuNow& gpu, bool answers, int64_t now_ns, ConditionSet& found) noexcept;
  void ValidateBoard(const GpuNow& gpu, int64_t now_ns, ConditionSet& found) noexcept;
  void WriteConditions(const ConditionSet& conditions, FrameWriter& out);
  std::optional<bool> Downtrained(const GpuNow& gpu, int64_t now_ns) noexcept;
  size_t Offered(const GpuNow& gpu, const HealthScore& score) noexcept;
  void WriteInputs(const HealthInputs& inputs, FrameWriter& out);
  void WritePenalties(const HealthScore& score, size_t offered, FrameWriter& out);
  // Writes word and score; `score` is absent when nothing is known but the conditions.
  void WriteVerdict(const HealthScore& score, const ConditionSet& conditions, Instant now, FrameWriter& out,
                    EventQueue* queue);
  // Whether the word stays although a better one would fit.
  bool UpdateState(const HealthVerdict& verdict, Instant now, FrameWriter& out, EventQueue* queue);
  void Report(const HealthVerdict& verdict, Instant now, EventQueue* queue) const;

  std::string key_;
  HealthWindow window_;
  int64_t seen_ns_ = 0;
  Lasting slow_link_;  // a low link generation under load
  // Conditions that count once they have lasted.
  Lasting silent_, missing_, fabric_pending_, fabric_failed_, fabric_degraded_, power_brake_, slowdown_, hot_;
  RecentGrowth replays_, link_errors_;
  double failing_ = 0;                          // the share of recent ticks in which a vital reading failed
  int64_t validated_ns_ = 0;                    // when that was last looked at
  double most_links_ = 0;                       // up at the same time since this process runs
  std::array<bool, kVitalInputs> ever_read_{};  // by place in the table of vital readings
  int64_t better_since_ns_ = 0;  // the word to come is better than the word that stands; 0: not now
  std::array<bool, kHealthReasons> ever_live_{};
  std::optional<HealthState> state_;
  double shown_score_ = 1;          // the last one that was written
  bool reports_its_state_ = false;  // its collector has gpu.state, so that its silence means something

  EntityRef entity_;
  Series xid_rate_, corrected_rate_, uncorrected_, rows_available_, downtrained_, ramp_, score_, confidence_;
  std::array<Series, kHealthReasons> penalties_;
  std::array<Series, kHealthConditions> conditions_;
  std::array<Series, kHealthStates> states_;
};

}  // namespace gpulens
