#include "scrape/series_rules.h"

#include <gtest/gtest.h>

#include "base/text.h"

namespace gpulens {
namespace {

Config Group(std::vector<std::string> drop, int64_t length, std::vector<Config> top = {}) {
  Config series;
  series.Set("limit", int64_t{0}, {});
  series.Set("drop_labels", std::move(drop), {});
  series.Set("keep_labels", std::vector<std::string>{}, {});
  series.Set("label_length", length, {});
  series.Set("gauges", std::string("max"), {});
  series.Set("top", std::move(top), {});
  Config target;
  target.Set("series", std::move(series), {});
  return target;
}

TEST(SeriesRules, ComeFromTheConfiguration) {
  EXPECT_TRUE(SeriesRules::Make(Config())->empty());
  EXPECT_TRUE(SeriesRules::Make(Group({}, 0))->empty());
  Config top;
  top.Set("label", std::string("user"), {});
  top.Set("keep", int64_t{7}, {});
  top.Set("families", std::vector<std::string>{"a*"}, {});
  auto rules = SeriesRules::Make(Group({"pod*"}, 16, {top}));
  ASSERT_TRUE(rules.ok());
  EXPECT_FALSE(rules->empty());
  EXPECT_TRUE(rules->Drops("pod_uid"));
  EXPECT_FALSE(rules->Drops("po"));
  EXPECT_EQ(rules->gauges, SeriesRules::Gauges::kMax);
  EXPECT_EQ(rules->top[0].keep, 7u);
  EXPECT_TRUE(rules->top[0].For("abc"));
  EXPECT_FALSE(rules->top[0].For("bc"));
}

TEST(SeriesRules, RejectInvalidOptions) {
  for (const char* bad : {"", "a*b", "**"}) {
    auto rules = SeriesRules::Make(Group({bad}, 0));
    ASSERT_FALSE(rules.ok()) << bad;
    EXPECT_EQ(rules.error().code, Code::kInvalidArgument);
  }
  EXPECT_FALSE(SeriesRules::Make(Group({}, 15)).ok());
  EXPECT_TRUE(SeriesRules::Make(Group({"*"}, 16)).ok());
}

TEST(SeriesRules, CutValuesAreStableUtf8) {
  SeriesRules rules;
  rules.label_length = 16;
  EXPECT_EQ(rules.Cut("0123456789abcdefg"), "0123456~709b27e1");
  EXPECT_NE(rules.Cut("0123456789abcdefg"), rules.Cut("0123456789abcdefh"));
  std::string cut = rules.Cut("äöüäöüäöüäöü");
  EXPECT_TRUE(IsUtf8(cut));
  EXPECT_TRUE(cut.starts_with("äöü~")) << "the character in the middle goes as a whole";
}

TEST(SeriesRules, FoldDependsOnTheFamily) {
  SeriesRules rules;
  auto fold = [&](std::string name, ExpositionType type, std::string unit = "") {
    return rules.FoldOf({.name = std::move(name), .help = "", .unit = std::move(unit), .type = type});
  };
  EXPECT_EQ(fold("x_ratio", ExpositionType::kCounter), SeriesFold::kCount);
  EXPECT_EQ(fold("x", ExpositionType::kInfo), SeriesFold::kMax);
  EXPECT_EQ(fold("x", ExpositionType::kGaugeHistogram), SeriesFold::kSum);
  EXPECT_EQ(fold("vllm:num_requests_running", ExpositionType::kGauge), SeriesFold::kSum);
  EXPECT_EQ(fold("vllm:kv_cache_usage_perc", ExpositionType::kGauge), SeriesFold::kMax);
  EXPECT_EQ(fold("memory_used_bytes", ExpositionType::kGauge), SeriesFold::kSum);
  EXPECT_EQ(fold("start", ExpositionType::kGauge, "seconds"), SeriesFold::kMax);
  EXPECT_EQ(fold("a_count", ExpositionType::kUnknown), SeriesFold::kCount);
  EXPECT_EQ(fold("a", ExpositionType::kUnknown), SeriesFold::kSum);
}

TEST(TopValues, FreesAPlaceWithItsLastSeries) {
  TopValues top(1);
  top.Appear(0, 7, "a", 1);
  top.Appear(1, 7, "a", 2);
  top.Appear(2, 7, "b", 2.5);
  top.Appear(3, 8, "b", 0);  // another family
  top.Rank();
  EXPECT_FALSE(top.Folds(0) || top.Folds(1)) << "three together";
  EXPECT_TRUE(top.Folds(2));
  EXPECT_FALSE(top.Folds(3));
  EXPECT_FALSE(top.Folds(99));
  top.Vanish(0);
  top.Appear(4, 7, "c", 100);
  top.Rank();
  EXPECT_TRUE(top.Folds(4));
  top.Vanish(1);
  top.Vanish(99);
  top.Appear(5, 7, "d", 0);
  top.Rank();
  EXPECT_FALSE(top.Folds(5));
  EXPECT_EQ(top.folded(), 2u);
}

TEST(SeriesDrops, HaveNames) { EXPECT_EQ(SeriesDropName(SeriesDrop::kNotCombined), "not_combined"); }

}  // namespace
}  // namespace gpulens
