// From what is known of a GPU to a score, what takes it down, and one word. Pure functions; the weights are
// one table (docs/fleet-health.md prints it).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace gpulens {

enum class HealthReason : uint8_t {
  kPcieDowntrained,
  kEccCorrectableRate,
  kEccUncorrectable,
  kRowRemap,
  kXidRate,
  kThermalRamp,
};
inline constexpr size_t kHealthReasons = 6;

struct HealthWeight {
  std::string_view name;  // as in gpu.health.reason
  double weight;          // the most this reason takes off; all add up to 1
  std::string_view full;  // when it takes all of that
};
inline constexpr std::array<HealthWeight, kHealthReasons> kHealthWeights = {{
    {"pcie_downtrained", 0.10,
     "fewer lanes than GPU and slot can use, or a lower generation for 30 s under load"},
    {"ecc_correctable_rate", 0.20, "120 corrected errors an hour; fewer in proportion"},
    {"ecc_uncorrectable", 0.30, "any uncorrected error since the driver was loaded"},
    {"row_remap", 0.15, "a replacement failed, or a bank has no spare row; a bank low on rows counts half"},
    {"xid_rate", 0.15, "60 XID errors an hour; fewer in proportion"},
    {"thermal_ramp", 0.10, "10 degrees a minute over the window; nothing below 2, in proportion between"},
}};

// Below these the GPU is degraded, and failed.
inline constexpr double kDegradedBelow = 0.8, kFailedBelow = 0.5;

// Spare rows of the GPU's memory banks, as far as it tells.
struct SpareRows {
  std::optional<double> with_spare;  // banks that still have a spare row
  std::optional<double> low, none;   // banks with few, with none
  std::optional<bool> failed;        // a row could not be replaced
};

// Absent: not live, so it neither costs nor counts.
struct HealthInputs {
  std::optional<bool> pcie_downtrained;
  std::optional<double> corrected_per_hour, uncorrected, xids_per_hour, ramp_per_minute;
  SpareRows rows;
};

struct HealthScore {
  std::array<std::optional<double>, kHealthReasons> penalty;
  std::optional<double> score;  // 1 minus the penalties; absent when no input is live
  size_t live = 0;

  bool Live(HealthReason reason) const noexcept { return penalty[static_cast<size_t>(reason)].has_value(); }
};
HealthScore ScoreOf(const HealthInputs& inputs) noexcept;

enum class HealthState : uint8_t { kOk, kDegraded, kPredictedFailure, kFailed };  // ascending badness
inline constexpr size_t kHealthStates = 4;
// "ok", "degraded", … as in gpu.health.state.
std::string_view HealthStateName(HealthState state) noexcept;

// What the GPU or its driver says of itself. Absent: it does not say.
struct SelfReport {
  std::optional<bool> answers;         // false: lost, hung, or needs a reset
  std::optional<bool> hung;            // it may come back
  std::optional<bool> wants_recovery;  // the driver asks for a reset, a reboot, a drain
  std::optional<bool> sram_exceeded;   // the maker's threshold for replacing the board
  std::optional<bool> unrepairable;    // memory errors can no longer be repaired
  std::optional<bool> remap_pending;   // a replacement waits for a reset
};

struct HealthVerdict {
  HealthState state = HealthState::kOk;
  std::string_view reason;  // a name of kHealthWeights, or "gpu_state", "recovery_action", …; empty when ok
};
// Absent when nothing is known.
std::optional<HealthVerdict> JudgeHealth(const HealthInputs& inputs, const HealthScore& score,
                                         const SelfReport& self) noexcept;

}  // namespace gpulens
