#include "export/sink_names.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "catalog/gpu.h"
#include "core/series_table.h"
#include "export/names_testing.h"

namespace gpulens {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;

class SinkNamesTest : public ::testing::Test {
 protected:
  using Map = std::map<std::string, std::string>;
  using Texts = std::vector<std::string>;
  struct Options {
    Texts names = {"native"}, include = {}, exclude = {};
    Map rename = {}, attributes = {};
    std::string metrics = "all";
  };
  static SinkNames Names(const Options& options) {
    Config config;
    testing::SetNames(config, options.names);
    config.Set("include", options.include, {});
    config.Set("exclude", options.exclude, {});
    config.Set("rename", options.rename, {});
    config.Set("attributes", options.attributes, {});
    config.Set("metrics", options.metrics, {});
    return SinkNames(config);
  }
  static std::vector<NamedSeries> NameRow(const MetricDesc& desc, const Options& options,
                                          AttributeSet own = AttributeSet({{"gpu.index", int64_t{3}},
                                                                           {"gpu.model", "H100"}})) {
    SeriesInfo series;
    series.desc = &desc;
    series.attributes = std::move(own);
    std::vector<NamedSeries> out;
    Names(options).namer(NameForm::kOtel)(series, out);
    return out;
  }
  static std::vector<NamedSeries> MakeNames(const Options& options, NameForm form = NameForm::kOtel,
                                            AttributeSet own = AttributeSet({{"gpu.index", int64_t{3}},
                                                                             {"k8s.pod.name", "p"}})) {
    SeriesInfo series;
    series.desc = &kGpuPowerDraw;
    series.attributes = std::move(own);
    std::vector<NamedSeries> out(1);  // what another series left is not touched
    Names(options).namer(form)(series, out);
    EXPECT_EQ(out.at(0).name, "");
    out.erase(out.begin());
    return out;
  }
};

TEST_F(SinkNamesTest, IncludeAndExcludeByEitherName) {
  EXPECT_EQ(MakeNames({.include = {"gpu.*"}}).size(), 1u);
  EXPECT_EQ(MakeNames({.include = {"gpu.*"}}, NameForm::kPrometheus).size(), 1u) << "the catalogue's name";
  EXPECT_EQ(MakeNames({.include = {"gpu_power_draw_watts"}}, NameForm::kPrometheus).size(), 1u)
      << "the named name";
  EXPECT_THAT(MakeNames({.include = {"host.*"}}), IsEmpty());
  EXPECT_THAT(MakeNames({.exclude = {"gpu.power.*"}}), IsEmpty());
  EXPECT_THAT(MakeNames({.include = {"gpu.*"}, .exclude = {"*"}}), IsEmpty()) << "exclude is stronger";
}

TEST_F(SinkNamesTest, OneOfTwoNamesCanBeExcluded) {
  const auto named =
      MakeNames({.names = {"native", "dcgm"}, .exclude = {"gpu_power_draw_watts"}}, NameForm::kPrometheus);
  ASSERT_EQ(named.size(), 1u);
  EXPECT_EQ(named[0].name, "DCGM_FI_DEV_POWER_USAGE");
}

TEST_F(SinkNamesTest, RenamesNeverMakeTwoAttributesOfOneName) {
  auto named = MakeNames({.rename = {{"k8s.pod.name", "pod"}}});
  ASSERT_EQ(named.size(), 1u);
  EXPECT_THAT(named[0].labels, ElementsAre(Pair("gpu.index", "3"), Pair("pod", "p")));
  named = MakeNames({.rename = {{"k8s.pod.name", "the pod"}}}, NameForm::kPrometheus);
  EXPECT_THAT(named[0].labels, ElementsAre(Pair("gpu_index", "3"), Pair("the_pod", "p")));
  named = MakeNames({.rename = {{"k8s.pod.name", "gpu.index"}}});
  EXPECT_THAT(named[0].labels, ElementsAre(Pair("gpu.index", "3"), Pair("k8s.pod.name", "p")));
}

TEST_F(SinkNamesTest, AttributesOfEverySeriesAndItsOwnWin) {
  auto named = MakeNames({.attributes = {{"cluster", "byc_1"}, {"k8s.pod.name", "x"}}});
  EXPECT_THAT(named[0].labels,
              ElementsAre(Pair("gpu.index", "3"), Pair("k8s.pod.name", "p"), Pair("cluster", "byc_1")));
  named = MakeNames({.names = {"zernel"}, .attributes = {{"a.b", "c"}}}, NameForm::kPrometheus);
  for (const NamedSeries& one : named) EXPECT_THAT(one.labels, ::testing::Contains(Pair("a_b", "c")));
}

TEST_F(SinkNamesTest, FamiliesThatAreAlwaysShownCanBeLeftOut) {
  const size_t all = Names({.names = {"zernel"}}).always_shown().size();
  ASSERT_GT(all, 1u);
  EXPECT_THAT(Names({.names = {"zernel"}, .exclude = {"*"}}).always_shown(), IsEmpty());
}

TEST_F(SinkNamesTest, OwnNamesOfASinkAreSelectedAndFilteredAsTheOthers) {
  SeriesInfo series;
  series.desc = &kGpuPowerDraw;
  auto more = [](const SeriesInfo&, std::vector<NamedSeries>& out) {
    out.emplace_back().name = "watts";
    out.emplace_back().name = "left_out";
  };
  std::vector<NamedSeries> out;
  Names({.exclude = {"left_*"}, .attributes = {{"team", "a"}}})
      .namer(NameForm::kPrometheus, more)(series, out);
  ASSERT_EQ(out.size(), 2u);
  EXPECT_EQ(out[0].name, "gpu_power_draw_watts");
  EXPECT_EQ(out[1].name, "watts");
  EXPECT_THAT(out[1].labels, ElementsAre(Pair("team", "a")));
  out.clear();
  Names({}).namer(NameForm::kPrometheus, more)(series, out);
  EXPECT_EQ(out.size(), 3u);
}

TEST_F(SinkNamesTest, ALevelShowsTheNativeRowsUpToIt) {
  for (const char* level : {"essential", "standard", "all"})
    EXPECT_EQ(NameRow(kGpuPowerDraw, {.metrics = level}).size(), 1u) << level;
  EXPECT_THAT(NameRow(kGpuClockFrequency, {.metrics = "essential"}), IsEmpty());
  EXPECT_EQ(NameRow(kGpuClockFrequency, {.metrics = "standard"}).size(), 1u);
  EXPECT_THAT(NameRow(kGpuPowerLimit, {.metrics = "standard"}), IsEmpty());
  EXPECT_EQ(NameRow(kGpuPowerLimit, {.metrics = "all"}).size(), 1u);
  EXPECT_THAT(NameRow(kGpuPowerLimit, {.metrics = ""}), IsEmpty()) << "standard is the default";
  const auto named = NameRow(kGpuClockFrequency, {.names = {"native", "dcgm"}, .metrics = "essential"},
                             AttributeSet({{"gpu.clock.type", "sm"}, {"gpu.index", int64_t{3}}}));
  ASSERT_EQ(named.size(), 1u) << "names of others have no levels";
  EXPECT_EQ(named[0].name, "DCGM_FI_DEV_SM_CLOCK");
}

TEST_F(SinkNamesTest, SeriesFromOutsideHaveNoLevel) {
  SeriesTable table;
  MetricDesc scraped;
  scraped.name = "requests_total";
  scraped.naming = Naming::kVerbatim;
  EXPECT_EQ(NameRow(*table.Own(scraped), {.metrics = "essential"}).size(), 1u);
  scraped.name = "requests";
  scraped.naming = Naming::kOtel;
  EXPECT_EQ(NameRow(*table.Own(scraped), {.metrics = "essential"}).size(), 1u) << "a program's own";
}

TEST_F(SinkNamesTest, BelowAllAStateSetIsTheStateThatHolds) {
  const AttributeSet own({{"gpu.index", int64_t{3}}, {"gpu.state", "ok"}});
  EXPECT_TRUE(NameRow(kGpuState, {.metrics = "essential"}, own).at(0).only_if_set);
  EXPECT_FALSE(NameRow(kGpuState, {.metrics = "all"}, own).at(0).only_if_set);
  EXPECT_FALSE(NameRow(kGpuPowerDraw, {.metrics = "essential"}).at(0).only_if_set);
}

TEST_F(SinkNamesTest, BelowAllTheIdentityOfAGpuIsOnInfoRowsOnly) {
  EXPECT_THAT(NameRow(kGpuPowerDraw, {.metrics = "standard"}).at(0).labels,
              ElementsAre(Pair("gpu.index", "3")));
  EXPECT_EQ(NameRow(kGpuPowerDraw, {.metrics = "all"}).at(0).labels.size(), 2u);
  EXPECT_EQ(NameRow(kGpuInfo, {.metrics = "standard"}).at(0).labels.size(), 2u);
  const AttributeSet vendor({{"gpu.vendor", "nvidia"}});
  EXPECT_EQ(NameRow(kGpuDevices, {.metrics = "standard"}, vendor).at(0).labels.size(), 1u)
      << "an attribute of the row itself";
  SeriesInfo series;
  series.desc = &kGpuPowerDraw;
  AttributeSet attributes({{"gpu.index", int64_t{3}}, {"gpu.model", "H100"}});
  ASSERT_TRUE(Names({.metrics = "standard"}).attribute_filter()(series, attributes));
  EXPECT_FALSE(attributes.Has("gpu.model"));
}

}  // namespace
}  // namespace gpulens
