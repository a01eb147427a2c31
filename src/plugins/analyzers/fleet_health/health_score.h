// Computes the health of a GPU: a score, the penalties that lower it, and one word. Pure functions. Two
// tables hold the policy: weights of penalties, and conditions, which limit the score (docs/fleet-health.md
// prints both).
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

// Something that is wrong with the GPU now. The order is the order of precedence within one word.
enum class HealthCondition : uint8_t {
  kLost,
  kMissing,
  kResetRequired,
  kHung,
  kCannotOpen,
  kLeftOut,
  kNoReadings,
  kRecoveryAction,
  kXidReset,
  kMemoryUnrepairable,
  kFabricFailed,
  kXidDiagnose,
  kRowRemap,
  kSramThreshold,
  kLinksDown,
  kLinkErrors,
  kFabricDegraded,
  kFabricPending,
  kInforomCorrupt,
  kPowerBrake,
  kThermalSlowdown,
  kTooHot,
  kUnread,
  kDriverFails,
  kPcieDowntrained,
  kPcieReplays,
  kRemapPending,
  kReadingsMissing,
  kReadingsFail,
};
inline constexpr size_t kHealthConditions = static_cast<size_t>(HealthCondition::kReadingsFail) + 1;

struct HealthConditionRow {
  std::string_view name;  // as in gpu.health.reason
  HealthState state;
  double ceiling;         // the score is at most this while the condition holds
  std::string_view when;  // for people: "the GPU is lost"
};
inline constexpr std::array<HealthConditionRow, kHealthConditions> kHealthConditionRows = {{
    {"gpu_lost", HealthState::kFailed, 0, "the driver has lost the GPU"},
    {"gpu_missing", HealthState::kFailed, 0, "the GPU was here and is no longer listed, while others are"},
    {"reset_required", HealthState::kFailed, 0, "the GPU needs a reset before it answers again"},
    {"gpu_hung", HealthState::kFailed, 0, "a driver call for the GPU does not return"},
    {"gpu_cannot_open", HealthState::kFailed, 0, "the driver cannot open the GPU"},
    {"gpu_left_out", HealthState::kFailed, 0,
     "calls for the GPU hung or ended the reader process twice, so that it is not read for a while"},
    {"no_readings", HealthState::kFailed, 0,
     "the GPU is listed, but none of power, temperature, utilization, memory and clocks can be read"},
    {"recovery_action", HealthState::kFailed, 0.2, "the driver asks for a reset, a reboot or a drain"},
    {"xid_reset", HealthState::kFailed, 0.2, "an XID of the last hours asks for a reset or a reboot"},
    {"memory_unrepairable", HealthState::kFailed, 0.2, "memory errors can no longer be repaired"},
    {"fabric_failed", HealthState::kFailed, 0.2,
     "the registration with the NVLink fabric ended with an error"},
    {"xid_diagnose", HealthState::kPredictedFailure, 0.6,
     "an XID of the last hours asks to drain the GPU, to check its seating or cables, or to ask the vendor"},
    {"row_remap", HealthState::kPredictedFailure, 0.6,
     "a memory row could not be replaced, or a bank has no spare row"},
    {"sram_threshold", HealthState::kPredictedFailure, 0.6, "SRAM errors passed the maker's threshold"},
    {"links_down", HealthState::kDegraded, 0.7,
     "fewer links are up than were, or than on GPUs of the same model in this machine"},
    {"link_errors", HealthState::kDegraded, 0.7, "the links had more than 10 errors within 5 minutes"},
    {"fabric_degraded", HealthState::kDegraded, 0.7,
     "the NVLink fabric reports a degraded condition for 10 s"},
    {"fabric_pending", HealthState::kDegraded, 0.7,
     "the GPU has waited for 5 minutes to be registered with the NVLink fabric"},
    {"inforom_corrupt", HealthState::kDegraded, 0.75, "the checksums of the board's InfoROM are wrong"},
    {"power_brake", HealthState::kDegraded, 0.7, "the power supply has held the clocks down for 10 s"},
    {"thermal_slowdown", HealthState::kDegraded, 0.7,
     "heat has made the hardware hold the clocks down for 10 s"},
    {"too_hot", HealthState::kDegraded, 0.7,
     "for 60 s the die or its memory has been at a temperature at which the hardware slows down"},
    {"gpu_unread", HealthState::kDegraded, 0.6, "the machine cannot start the thread that reads the GPU"},
    {"driver_fails", HealthState::kDegraded, 0.6,
     "the reader process crashed, hung or was killed 3 times within 5 minutes"},
    {"pcie_downtrained", HealthState::kDegraded, 0.75, "the PCIe link is slower than GPU and slot allow"},
    {"pcie_replays", HealthState::kDegraded, 0.75, "PCIe had more than 40 replays within 5 minutes"},
    {"remap_pending", HealthState::kDegraded, 0.75, "a memory row replacement waits for a reset"},
    {"readings_missing", HealthState::kDegraded, 0.75,
     "power, temperature, memory use or clocks could be read before and for 30 s cannot"},
    {"readings_fail", HealthState::kDegraded, 0.75,
     "power, temperature, memory use or clocks failed in more than two fifths of the readings of about a "
     "minute"},
}};

using ConditionSet = std::array<bool, kHealthConditions>;

struct HealthVerdict {
  HealthState state = HealthState::kOk;
  std::string_view reason;  // a name of kHealthWeights or kHealthConditionRows; empty when ok
};
// The word that stands for a score and the conditions that hold.
HealthVerdict CheckHealth(const HealthScore& score, const ConditionSet& conditions) noexcept;

// The score that is exported: at most the lowest ceiling of the conditions that hold. Absent when there is
// neither a score nor a condition.
std::optional<double> LimitedScore(const HealthScore& score, const ConditionSet& conditions) noexcept;

// The highest score that a condition with this word allows; 1 for kOk.
double HighestScore(HealthState state) noexcept;

}  // namespace gpulens
