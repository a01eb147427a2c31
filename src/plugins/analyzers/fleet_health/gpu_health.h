// Health of one GPU: its window, its series and its state.
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

// Used inside the analyzer's run. Does not allocate once its series are declared, except for an event.
class GpuHealth {
 public:
  GpuHealth(std::string key, Duration window) : key_(std::move(key)), window_(window) {}

  const std::string& key() const noexcept { return key_; }
  HealthWindow& window() noexcept { return window_; }
  const HealthWindow& window() const noexcept { return window_; }
  std::optional<HealthState> state() const noexcept { return state_; }
  // Sets the state that was saved.
  void Restore(HealthState state) noexcept { state_ = state; }
  // Boot time of its last tick.
  int64_t seen_ns() const noexcept { return seen_ns_; }
  void SeenAt(int64_t now_ns) noexcept { seen_ns_ = now_ns; }

  // `queue` may be null.
  void Update(const GpuNow& gpu, Instant now, FrameWriter& out, EventQueue* queue);
  // The GPU is no longer listed, while others are.
  void Missing(const GpuNow& gpu, Instant now, FrameWriter& out, EventQueue* queue);
  // Ends its series when the GPU left; its window stays.
  void Gone(SeriesTable& table);

 private:
  // Power, temperature, memory in use, clocks: readings of every working GPU.
  static constexpr size_t kVitalInputs = 5;

  void Follow(const EntityRef& entity, SeriesTable& table);
  void Put(Series& series, const MetricDesc& desc, std::optional<double> value, FrameWriter& out);
  // Returns what is wrong with the GPU now. `known`: whether its state is known at all.
  ConditionSet Conditions(const GpuNow& gpu, const HealthInputs& inputs, int64_t now_ns,
                          bool& known) noexcept;
  void ValidateReadings(const GpuNow& gpu, bool answers, int64_t now_ns, ConditionSet& found) noexcept;
  void ValidateBoard(const GpuNow& gpu, int64_t now_ns, ConditionSet& found) noexcept;
  void WriteConditions(const ConditionSet& conditions, FrameWriter& out);
  std::optional<bool> Downtrained(const GpuNow& gpu, int64_t now_ns) noexcept;
  size_t Offered(const GpuNow& gpu, const HealthScore& score) noexcept;
  void WriteInputs(const HealthInputs& inputs, FrameWriter& out);
  void WritePenalties(const HealthScore& score, size_t offered, FrameWriter& out);
  // Writes state and score; without a `score` only the conditions are known.
  void WriteState(const HealthScore& score, const ConditionSet& conditions, Instant now, FrameWriter& out,
                  EventQueue* queue);
  // Returns whether the state stays although a better one would fit.
  bool UpdateState(const HealthResult& verdict, Instant now, FrameWriter& out, EventQueue* queue);
  void Report(const HealthResult& verdict, Instant now, EventQueue* queue) const;

  std::string key_;
  HealthWindow window_;
  int64_t seen_ns_ = 0;
  Lasting slow_link_;  // a low link generation under load
  // Conditions that count once they have lasted.
  Lasting silent_, missing_, fabric_pending_, fabric_failed_, fabric_degraded_, power_brake_, slowdown_, hot_;
  RecentGrowth replays_, link_errors_;
  double failing_ = 0;                          // the share of recent ticks in which a vital reading failed
  int64_t validated_ns_ = 0;                    // time of the last validation
  double most_links_ = 0;                       // up at the same time since this process runs
  std::array<bool, kVitalInputs> ever_read_{};  // by index in the table of vital readings
  int64_t better_since_ns_ = 0;                 // since when a better state fits; 0: not now
  std::array<bool, kHealthReasons> ever_live_{};
  std::optional<HealthState> state_;
  double shown_score_ = 1;          // the last one that was written
  bool reports_its_state_ = false;  // its collector has gpu.state, so its absence counts

  EntityRef entity_;
  Series xid_rate_, corrected_rate_, uncorrected_, rows_available_, downtrained_, ramp_, score_, confidence_;
  std::array<Series, kHealthReasons> penalties_;
  std::array<Series, kHealthConditions> conditions_;
  std::array<Series, kHealthStates> states_;
};

}  // namespace gpulens
