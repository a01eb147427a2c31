#include "analyzers/fleet_health/health_score.h"

#include <algorithm>

namespace gpulens {
namespace {

constexpr double kFullCorrectedPerHour = 120, kFullXidsPerHour = 60;
constexpr double kHarmlessRamp = 2, kFullRamp = 10;

double Share(double value, double full) noexcept { return std::clamp(value / full, 0.0, 1.0); }

std::optional<double> RowSeverity(const SpareRows& rows) noexcept {
  if (!rows.failed && !rows.none) return std::nullopt;
  if (rows.failed.value_or(false) || rows.none.value_or(0) > 0) return 1;
  return rows.low.value_or(0) > 0 ? 0.5 : 0;
}

std::string_view NameOf(HealthReason reason) noexcept {
  return kHealthWeights[static_cast<size_t>(reason)].name;
}

// What costs most.
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
  if (inputs.corrected_per_hour) {
    put(HealthReason::kEccCorrectableRate, Share(*inputs.corrected_per_hour, kFullCorrectedPerHour));
  }
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

std::optional<HealthVerdict> JudgeHealth(const HealthInputs& inputs, const HealthScore& score,
                                         const SelfReport& self) noexcept {
  bool known = score.score || self.answers || self.wants_recovery || self.sram_exceeded || self.unrepairable;
  if (!known) return std::nullopt;
  bool hung = self.hung.value_or(false);
  if (!hung && !self.answers.value_or(true)) return HealthVerdict{HealthState::kFailed, "gpu_state"};
  if (self.wants_recovery.value_or(false)) return HealthVerdict{HealthState::kFailed, "recovery_action"};
  if (self.unrepairable.value_or(false)) return HealthVerdict{HealthState::kFailed, "memory_unrepairable"};
  double value = score.score.value_or(1);
  if (value < kFailedBelow) return HealthVerdict{HealthState::kFailed, WorstReason(score)};
  if (self.sram_exceeded.value_or(false)) {
    return HealthVerdict{HealthState::kPredictedFailure, "sram_threshold"};
  }
  if (inputs.rows.failed.value_or(false) || inputs.rows.none.value_or(0) > 0) {
    return HealthVerdict{HealthState::kPredictedFailure, NameOf(HealthReason::kRowRemap)};
  }
  if (hung) return HealthVerdict{HealthState::kDegraded, "gpu_state"};
  if (value < kDegradedBelow) return HealthVerdict{HealthState::kDegraded, WorstReason(score)};
  if (inputs.pcie_downtrained.value_or(false)) {
    return HealthVerdict{HealthState::kDegraded, NameOf(HealthReason::kPcieDowntrained)};
  }
  if (self.remap_pending.value_or(false)) {
    return HealthVerdict{HealthState::kDegraded, NameOf(HealthReason::kRowRemap)};
  }
  return HealthVerdict{HealthState::kOk, {}};
}

}  // namespace gpulens
