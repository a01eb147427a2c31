#include "pipeline/rollup/rollup_rule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "pipeline/rollup/rollup.h"

namespace gpulens {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Texts = std::vector<std::string>;

// As the loader gives it: every option, with its default.
Config Rule() {
  Config rule;
  rule.Set("metrics", Texts{"gpu.*"}, {});
  rule.Set("kinds", Texts{}, {});
  rule.Set("by", Texts{"k8s.pod.name"}, {});
  rule.Set("without", Texts{}, {});
  rule.Set("functions", Texts{"avg"}, {});
  rule.Set("name", std::string(), {});
  rule.Set("interval", Duration(std::chrono::seconds(60)), {});
  rule.Set("keep_input", false, {});
  rule.Set("max_groups", int64_t{2000}, {});
  return rule;
}

Config Sink(std::vector<Config> rules) {
  Config sink;
  sink.Set("interval", Duration(std::chrono::seconds(15)), {});
  sink.Set("rollups", std::move(rules), {});
  return sink;
}

Texts ProblemsOf(std::vector<Config> rules) {
  ConfigFaults faults;
  CheckRollups(Sink(std::move(rules)), faults);
  Texts problems;
  for (const ConfigFaults::Fault& fault : faults.faults()) problems.push_back(fault.problem);
  return problems;
}

Texts ProblemsWith(std::string_view key, Config::Value value) {
  Config rule = Rule();
  rule.Set(key, std::move(value), {});
  return ProblemsOf({rule});
}

TEST(RollupRule, TheTableAndTheTestHaveTheSameOptions) {
  const Config rule = Rule();
  std::vector<std::string_view> keys;
  for (const OptionSpec& spec : kRollupOptions) keys.push_back(spec.key);
  std::vector<std::string_view> known;
  for (const Config::Entry& entry : rule.entries()) known.push_back(entry.key);
  EXPECT_EQ(keys, known);
  EXPECT_EQ(RollupsOption()[0].children.size(), keys.size());
}

TEST(RollupRule, GoodRulesPass) {
  EXPECT_THAT(ProblemsOf({}), IsEmpty());
  EXPECT_THAT(ProblemsOf({Rule(), Rule()}), IsEmpty());
  Config named = Rule();
  named.Set("metrics", Texts{"gpu.power.draw"}, {});
  named.Set("name", std::string("team.power"), {});
  EXPECT_THAT(ProblemsOf({named}), IsEmpty());
  EXPECT_THAT(ProblemsOf({named, named}), ElementsAre(HasSubstr("is used by another rule")));
}

TEST(RollupRule, RefusesWhatContradictsItself) {
  EXPECT_THAT(ProblemsWith("metrics", Texts{}), ElementsAre("metrics is empty"));
  EXPECT_THAT(ProblemsWith("metrics", Texts{"a", ""}), ElementsAre("metrics has an empty name"));
  EXPECT_THAT(ProblemsWith("by", Texts{""}), ElementsAre("by has an empty name"));
  EXPECT_THAT(ProblemsWith("without", Texts{"host.name"}),
              ElementsAre("by and without contradict each other"));
  EXPECT_THAT(ProblemsWith("kinds", Texts{"gauge", "counter"}),
              ElementsAre("none of the functions is defined for a counter"));
  EXPECT_THAT(ProblemsWith("functions", Texts{}), ElementsAre("functions is empty"));
  EXPECT_THAT(ProblemsWith("functions", Texts{"sum", "avg", "sum"}),
              ElementsAre("functions has \"sum\" twice"));
  EXPECT_THAT(ProblemsWith("name", std::string("power")),
              ElementsAre(HasSubstr("one metric without wildcards")));
  EXPECT_THAT(ProblemsWith("interval", Duration(std::chrono::seconds(5))),
              ElementsAre(HasSubstr("shorter than that of the sink")));
  EXPECT_THAT(ProblemsOf(std::vector<Config>(33, Rule())), ElementsAre("rollups has more than 32 rules"));
}

TEST(RollupRule, RefusesNamesThatNoOutputCanWrite) {
  for (const char* name : {"9lives", "a b", "a\n", "_x", "a{}", "\xff"}) {
    Config rule = Rule();
    rule.Set("metrics", Texts{"gpu.power.draw"}, {});
    rule.Set("name", std::string(name), {});
    EXPECT_THAT(ProblemsOf({rule}), ElementsAre(HasSubstr("is not a valid metric name"))) << name;
  }
  Config rule = Rule();
  rule.Set("metrics", Texts{"gpu.power.draw"}, {});
  rule.Set("name", std::string(256, 'a'), {});
  EXPECT_EQ(ProblemsOf({rule}).size(), 1u);
}

TEST(RollupRule, ReadsTheConfiguration) {
  Config config = Rule();
  config.Set("functions", Texts{"max", "p99"}, {});
  config.Set("kinds", Texts{"histogram", "gauge"}, {});
  config.Set("keep_input", true, {});
  config.Set("max_groups", int64_t{7}, {});
  const std::vector<RollupRule> rules = RollupRulesOf(Sink({config}));
  ASSERT_EQ(rules.size(), 1u);
  EXPECT_THAT(rules[0].functions, ElementsAre(RollupFunction::kMax, RollupFunction::kP99));
  EXPECT_EQ(rules[0].interval, std::chrono::seconds(60));
  EXPECT_THAT(rules[0].kinds, ElementsAre(RollupForm::kBuckets, RollupForm::kReadings));
  EXPECT_FALSE(rules[0].Takes(RollupForm::kIncreases));
  EXPECT_TRUE(rules[0].keep_input);
  EXPECT_EQ(rules[0].max_groups, 7u);
  EXPECT_THAT(RollupRulesOf(Config()), IsEmpty()) << "a sink without the option";
}

TEST(RollupRule, MadeFromTheConfigurationOfASink) {
  auto none = Rollup::Make(Sink({}));
  ASSERT_TRUE(none);
  EXPECT_FALSE(*none);
  auto made = Rollup::Make(Sink({Rule()}));
  ASSERT_TRUE(made);
  EXPECT_TRUE(*made);
  Config wrong = Rule();
  wrong.Set("functions", Texts{}, {});
  auto refused = Rollup::Make(Sink({wrong}));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kInvalidArgument);
}

TEST(RollupRule, GroupsByAttributes) {
  const AttributeSet series({{"k8s.pod.name", "a"}, {"k8s.namespace.name", "n"}, {"gpu.index", int64_t{1}}});
  RollupRule rule;
  EXPECT_EQ(rule.GroupOf(series), AttributeSet());
  rule.by = {"k8s.*", "not.here"};
  EXPECT_EQ(rule.GroupOf(series), AttributeSet({{"k8s.pod.name", "a"}, {"k8s.namespace.name", "n"}}));
  rule.by = {"*"};
  EXPECT_EQ(rule.GroupOf(series), series);
  rule.by = {};
  rule.without = {"k8s.*"};
  EXPECT_EQ(rule.GroupOf(series), AttributeSet({{"gpu.index", int64_t{1}}}));
}

TEST(RollupRule, MatchesNativeNames) {
  RollupRule rule;
  rule.metrics = {"gpu.*", "system.cpu.tim?"};
  EXPECT_TRUE(rule.Matches({.name = "gpu.power.draw"}));
  EXPECT_TRUE(rule.Matches({.name = "system.cpu.time"}));
  EXPECT_FALSE(rule.Matches({.name = "system.cpu.times"}));
  EXPECT_FALSE(rule.Matches({.name = "gpu_power_draw_watts"}));
}

TEST(RollupRule, CombinesWhatTheLevelOfTheSinkExports) {
  const MetricDesc essential{.name = "gpu.a", .level = MetricLevel::kEssential}, all{.name = "gpu.b"};
  Config sink = Sink({Rule()});
  EXPECT_TRUE(RollupRulesOf(sink).at(0).Matches(all)) << "a sink without levels";
  sink.Set("metrics", std::string("standard"), {});
  EXPECT_TRUE(RollupRulesOf(sink).at(0).Matches(essential));
  EXPECT_FALSE(RollupRulesOf(sink).at(0).Matches(all));
  sink.Set("metrics", std::string("all"), {});
  EXPECT_TRUE(RollupRulesOf(sink).at(0).Matches(all));
}

// Every function is defined for some form, and none for what cannot be combined.
TEST(RollupRule, FunctionsOfForms) {
  constexpr RollupForm kForms[] = {RollupForm::kReadings, RollupForm::kIncreases, RollupForm::kBuckets};
  std::string defined;
  for (size_t f = 0; f < kRollupFunctions; ++f) {
    const auto function = static_cast<RollupFunction>(f);
    EXPECT_FALSE(Applies(function, RollupForm::kNone));
    defined += std::string(kRollupFunctionNames[f]) + ":";
    for (RollupForm form : kForms) defined += Applies(function, form) ? '+' : '-';
    defined += ' ';
  }
  EXPECT_EQ(
      defined,
      "sum:+++ avg:+-- min:+-- max:+-- count:+++ last:+-- increase:-+- rate:-+- p50:--+ p90:--+ p99:--+ ");
}

TEST(RollupRule, FormsOfKinds) {
  const auto shape = MakeRef<Shape>();
  auto form = [&](Kind kind, bool shaped) {
    const MetricDesc desc{.name = "x", .kind = kind};
    SeriesInfo info;
    info.desc = &desc;
    if (shaped) info.shape = shape;
    return RollupFormOf(info);
  };
  EXPECT_EQ(form(Kind::kGauge, false), RollupForm::kReadings);
  EXPECT_EQ(form(Kind::kUpDownCounter, false), RollupForm::kReadings);
  EXPECT_EQ(form(Kind::kUnknown, false), RollupForm::kReadings);
  EXPECT_EQ(form(Kind::kCounter, false), RollupForm::kIncreases);
  EXPECT_EQ(form(Kind::kHistogram, true), RollupForm::kBuckets);
  for (Kind kind : {Kind::kSummary, Kind::kGaugeHistogram}) EXPECT_EQ(form(kind, true), RollupForm::kNone);
  for (Kind kind : {Kind::kInfo, Kind::kStateSet, Kind::kHistogram})
    EXPECT_EQ(form(kind, false), RollupForm::kNone);
  EXPECT_EQ(RollupFormOf(SeriesInfo()), RollupForm::kNone);
}

}  // namespace
}  // namespace gpulens
