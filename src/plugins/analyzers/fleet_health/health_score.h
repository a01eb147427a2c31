// Computes the health of a GPU: score, penalties and state. Pure functions. Two tables are the policy:
// weights of penalties, and conditions, which limit the score (docs/fleet-health.md lists both).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <iterator>
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
  double weight;          // maximum penalty; all add up to 1
  std::string_view full;  // when the penalty is the maximum
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

// Spare rows of the GPU's memory banks, as far as known.
struct SpareRows {
  std::optional<double> with_spare;  // banks that still have a spare row
  std::optional<double> low, none;   // banks with few, with none
  std::optional<bool> failed;        // a row could not be replaced
};

// Absent inputs are not live: they have neither penalty nor weight.
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

enum class HealthState : uint8_t { kOk, kDegraded, kPredictedFailure, kFailed };  // from best to worst
inline constexpr size_t kHealthStates = 4;
// "ok", "degraded", … as in gpu.health.state.
std::string_view HealthStateName(HealthState state) noexcept;

// Something that is wrong with the GPU now: health_conditions.def.
#define CONDITION(id, ...) id,
enum class HealthCondition : uint8_t {
#include "plugins/analyzers/fleet_health/health_conditions.def"
};
#undef CONDITION

struct HealthConditionRow {
  std::string_view name;  // as in gpu.health.reason
  HealthState state;
  double ceiling;         // the score is at most this while the condition holds
  std::string_view when;  // "the GPU is lost"
};
#define CONDITION(id, name, state, ceiling, when) {name, HealthState::state, ceiling, when},
inline constexpr HealthConditionRow kHealthConditionRows[] = {
#include "plugins/analyzers/fleet_health/health_conditions.def"
};
#undef CONDITION
inline constexpr size_t kHealthConditions = std::size(kHealthConditionRows);

using ConditionSet = std::array<bool, kHealthConditions>;

struct HealthResult {
  HealthState state = HealthState::kOk;
  std::string_view reason;  // a name of kHealthWeights or kHealthConditionRows; empty when ok
};
// Returns the state of a score and the conditions that hold.
HealthResult CheckHealth(const HealthScore& score, const ConditionSet& conditions) noexcept;

// Returns the exported score: at most the lowest ceiling of the conditions that hold. Absent without score
// and condition.
std::optional<double> LimitedScore(const HealthScore& score, const ConditionSet& conditions) noexcept;

// Returns the highest score that a condition with this state allows; 1 for kOk.
double HighestScore(HealthState state) noexcept;

}  // namespace gpulens
