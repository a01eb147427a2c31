#include "plugins/analyzers/fleet_health/health_score.h"

#include <algorithm>

#include "catalog/limits.h"

namespace gpulens {
namespace {

constexpr double kFullXidsPerHour = 60;
constexpr double kHarmlessRamp = 2, kFullRamp = 10;

double Share(double value, double full) noexcept { return std::clamp(value / full, 0.0, 1.0); }

std::optional<double> RowSeverity(const SpareRows& rows) noexcept {
  if (!rows.failed && !rows.none) return std::nullopt;
  if (rows.failed.value_or(false) || rows.none.value_or(0) > 0) return 1;
  return rows.low.value_or(0) > 0 ? 0.5 : 0;
}

// The reason with the highest penalty.
std::string_view WorstReason(const HealthScore& score) noexcept {
  std::string_view name;
  double worst = 0;
  for (size_t i = 0; i < kHealthReasons; ++i) {
    if (score.penalty[i].value_or(0) <= worst) continue;
    worst = *score.penalty[i];
    name = kHealthWeights[i].name;
  }
  return name;
}

}  // namespace

std::string_view HealthStateName(HealthState state) noexcept {
  switch (state) {
    case HealthState::kOk: return "ok";
    case HealthState::kDegraded: return "degraded";
    case HealthState::kPredictedFailure: return "predicted_failure";
    case HealthState::kFailed: return "failed";
  }
  return "unknown";
}

HealthScore ScoreOf(const HealthInputs& inputs) noexcept {
  HealthScore out;
  double taken = 0;
  auto put = [&](HealthReason reason, std::optional<double> severity) {
    if (!severity) return;
    size_t i = static_cast<size_t>(reason);
    out.penalty[i] = *severity * kHealthWeights[i].weight;
    taken += *out.penalty[i];
    ++out.live;
  };
  if (inputs.pcie_downtrained) put(HealthReason::kPcieDowntrained, *inputs.pcie_downtrained ? 1 : 0);
  if (inputs.corrected_per_hour)
    put(HealthReason::kEccCorrectableRate, Share(*inputs.corrected_per_hour, limits::kFullCorrectedPerHour));
  if (inputs.uncorrected) put(HealthReason::kEccUncorrectable, *inputs.uncorrected > 0 ? 1 : 0);
  put(HealthReason::kRowRemap, RowSeverity(inputs.rows));
  if (inputs.xids_per_hour) put(HealthReason::kXidRate, Share(*inputs.xids_per_hour, kFullXidsPerHour));
  if (inputs.ramp_per_minute) {
    put(HealthReason::kThermalRamp,
        Share(*inputs.ramp_per_minute - kHarmlessRamp, kFullRamp - kHarmlessRamp));
  }
  // The weights add up to 1 but for rounding, and the rule of the score is [0,1].
  if (out.live != 0) out.score = std::clamp(1 - taken, 0.0, 1.0);
  return out;
}

HealthResult CheckHealth(const HealthScore& score, const ConditionSet& conditions) noexcept {
  HealthResult worst;
  double value = score.score.value_or(1);
  if (value < kFailedBelow) worst = {HealthState::kFailed, WorstReason(score)};
  else if (value < kDegradedBelow) worst = {HealthState::kDegraded, WorstReason(score)};
  for (size_t i = 0; i < kHealthConditions; ++i) {
    const HealthConditionRow& row = kHealthConditionRows[i];
    if (conditions[i] && row.state > worst.state) worst = {row.state, row.name};
  }
  return worst;
}

std::optional<double> LimitedScore(const HealthScore& score, const ConditionSet& conditions) noexcept {
  std::optional<double> limited = score.score;
  for (size_t i = 0; i < kHealthConditions; ++i) {
    if (conditions[i]) limited = std::min(limited.value_or(1), kHealthConditionRows[i].ceiling);
  }
  return limited;
}

double HighestScore(HealthState state) noexcept {
  if (state == HealthState::kOk) return 1;
  double highest = 0;
  for (const HealthConditionRow& row : kHealthConditionRows) {
    if (row.state == state) highest = std::max(highest, row.ceiling);
  }
  return highest;
}

}  // namespace gpulens
