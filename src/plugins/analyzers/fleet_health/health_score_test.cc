#include "plugins/analyzers/fleet_health/health_score.h"

#include <gtest/gtest.h>

#include <numeric>
#include <set>

namespace gpulens {
namespace {

HealthInputs Healthy() {
  HealthInputs inputs;
  inputs.pcie_downtrained = false;
  inputs.corrected_per_hour = inputs.uncorrected = inputs.xids_per_hour = inputs.ramp_per_minute = 0;
  inputs.rows = {.with_spare = 512, .low = 0, .none = 0, .failed = false};
  return inputs;
}
double Score(const HealthInputs& inputs) { return ScoreOf(inputs).score.value(); }
ConditionSet With(std::initializer_list<HealthCondition> conditions) {
  ConditionSet set{};
  for (HealthCondition condition : conditions) set[static_cast<size_t>(condition)] = true;
  return set;
}
HealthResult Validation(const HealthInputs& inputs, const ConditionSet& conditions = {}) {
  return CheckHealth(ScoreOf(inputs), conditions);
}

TEST(HealthScore, WeightsAddUpToOne) {
  double sum = 0;
  std::set<std::string_view> names;
  for (const HealthWeight& weight : kHealthWeights) {
    sum += weight.weight;
    EXPECT_TRUE(names.insert(weight.name).second);
  }
  EXPECT_DOUBLE_EQ(sum, 1);
}

TEST(HealthScore, HealthyGpuHasTheFullScore) {
  EXPECT_EQ(Score(Healthy()), 1);
  EXPECT_EQ(ScoreOf(Healthy()).live, kHealthReasons);
  EXPECT_EQ(Validation(Healthy()).state, HealthState::kOk);
  EXPECT_EQ(Validation(Healthy()).reason, "");
}

TEST(HealthScore, AllPenaltiesGiveZero) {
  HealthInputs bad = Healthy();
  bad.pcie_downtrained = true;
  bad.corrected_per_hour = bad.uncorrected = bad.xids_per_hour = bad.ramp_per_minute = 1e9;
  bad.rows.failed = true;
  EXPECT_NEAR(Score(bad), 0, 1e-12);
  EXPECT_EQ(Validation(bad).state, HealthState::kFailed);
  EXPECT_EQ(Validation(bad).reason, "ecc_uncorrectable");
}

TEST(HealthScore, InputsThatAreNotLiveDoNotCount) {
  HealthScore nothing = ScoreOf({});
  EXPECT_FALSE(nothing.score);
  EXPECT_EQ(nothing.live, 0u);
  EXPECT_FALSE(LimitedScore(nothing, {}));
  HealthInputs one;
  one.uncorrected = 0;
  EXPECT_EQ(Score(one), 1);
  EXPECT_EQ(ScoreOf(one).live, 1u);
  EXPECT_FALSE(ScoreOf(one).Live(HealthReason::kXidRate));
}

TEST(HealthScore, PenaltiesAreInProportion) {
  HealthInputs inputs = Healthy();
  inputs.corrected_per_hour = 60;
  EXPECT_NEAR(Score(inputs), 0.9, 1e-12);
  inputs.corrected_per_hour = 120;
  EXPECT_NEAR(Score(inputs), 0.8, 1e-12);
  inputs.corrected_per_hour = 1200;
  EXPECT_NEAR(Score(inputs), 0.8, 1e-12);
  inputs = Healthy();
  inputs.xids_per_hour = 12;
  EXPECT_NEAR(Score(inputs), 0.97, 1e-12);
  inputs = Healthy();
  inputs.ramp_per_minute = 2;
  EXPECT_EQ(Score(inputs), 1);
  inputs.ramp_per_minute = 6;
  EXPECT_NEAR(Score(inputs), 0.95, 1e-12);
  inputs.ramp_per_minute = -30;
  EXPECT_EQ(Score(inputs), 1) << "cooling is no fault";
}

TEST(HealthScore, SpareRowsRunOut) {
  HealthInputs inputs = Healthy();
  inputs.rows.low = 3;
  EXPECT_NEAR(Score(inputs), 0.925, 1e-12);
  inputs.rows.none = 1;
  EXPECT_NEAR(Score(inputs), 0.85, 1e-12);
  EXPECT_EQ(Validation(inputs, With({HealthCondition::kRowRemap})).state, HealthState::kPredictedFailure);
  EXPECT_EQ(Validation(inputs, With({HealthCondition::kRowRemap})).reason, "row_remap");
}

TEST(HealthScore, OneUncorrectedErrorDegrades) {
  HealthInputs inputs = Healthy();
  inputs.uncorrected = 1;
  EXPECT_NEAR(Score(inputs), 0.7, 1e-12);
  EXPECT_EQ(Validation(inputs).state, HealthState::kDegraded);
  EXPECT_EQ(Validation(inputs).reason, "ecc_uncorrectable");
}

// No condition leaves a good score, and state and score agree.
TEST(HealthScore, ConditionsLimitTheScoreByState) {
  std::set<std::string_view> names;
  HealthState before = HealthState::kFailed;
  for (size_t i = 0; i < kHealthConditions; ++i) {
    const HealthConditionRow& row = kHealthConditionRows[i];
    EXPECT_TRUE(names.insert(row.name).second) << row.name;
    EXPECT_LE(row.state, before) << row.name << ": the worst stand first";
    before = row.state;
    EXPECT_NE(row.state, HealthState::kOk) << row.name;
    double limit = row.state == HealthState::kFailed ? kFailedBelow : kDegradedBelow;
    EXPECT_LT(row.ceiling, limit) << row.name;
    ConditionSet one = With({static_cast<HealthCondition>(i)});
    EXPECT_EQ(Validation(Healthy(), one).state, row.state) << row.name;
    EXPECT_EQ(Validation(Healthy(), one).reason, row.name);
    EXPECT_EQ(LimitedScore(ScoreOf(Healthy()), one), row.ceiling);
    EXPECT_EQ(LimitedScore(ScoreOf({}), one), row.ceiling) << row.name << ": also when nothing else is known";
  }
}

TEST(HealthScore, ScoreNeverExceedsItsState) {
  EXPECT_EQ(HighestScore(HealthState::kOk), 1);
  EXPECT_LT(HighestScore(HealthState::kDegraded), kDegradedBelow);
  EXPECT_LT(HighestScore(HealthState::kPredictedFailure), kDegradedBelow);
  EXPECT_LT(HighestScore(HealthState::kFailed), kFailedBelow);
}

TEST(HealthScore, WorstConditionWins) {
  ConditionSet several =
      With({HealthCondition::kPowerBrake, HealthCondition::kHung, HealthCondition::kSramThreshold});
  EXPECT_EQ(Validation(Healthy(), several).reason, "gpu_hung");
  EXPECT_EQ(LimitedScore(ScoreOf(Healthy()), several), 0);
  HealthInputs bad = Healthy();
  bad.uncorrected = 1;
  EXPECT_EQ(Validation(bad, With({HealthCondition::kPowerBrake})).reason, "ecc_uncorrectable")
      << "of one word, what lowers the score itself";
}

TEST(HealthScore, StatesHaveNames) {
  std::set<std::string_view> names;
  for (size_t i = 0; i < kHealthStates; ++i) names.insert(HealthStateName(static_cast<HealthState>(i)));
  EXPECT_EQ(names, (std::set<std::string_view>{"ok", "degraded", "failed", "predicted_failure"}));
}

}  // namespace
}  // namespace gpulens
