#include "names/naming.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <tuple>

#include "base/files.h"
#include "catalog/all.h"
#include "catalog/gpu.h"
#include "names/naming_testing.h"
#include "names/zernel.h"

namespace gpulens {
namespace {

using naming_testing::MakeNames;
using naming_testing::Tsv;
using ::testing::ElementsAre;
using ::testing::Pair;

TEST(NamingTest, NativeFollowsTheCatalogue) {
  auto named = MakeNames({"native"}, kGpuPowerDraw, {{"gpu.index", int64_t{3}}});
  ASSERT_EQ(named.size(), 1u);
  EXPECT_EQ(named[0].name, "gpu_power_draw_watts");
  EXPECT_EQ(named[0].unit, "watts");
  EXPECT_THAT(named[0].labels, ElementsAre(Pair("gpu_index", "3")));
}

TEST(NamingTest, KeepsScrapedNames) {
  MetricDesc scraped{.name = "vllm:x.y", .unit = "seconds", .help = "X.", .naming = Naming::kVerbatim};
  for (const char* naming : {"native", "l9gpu"}) {
    auto named = MakeNames({naming}, scraped, {{"a.b", "c"}});
    ASSERT_EQ(named.size(), 1u) << naming;
    EXPECT_EQ(named[0].name, "vllm:x.y");
    EXPECT_THAT(named[0].labels, ElementsAre(Pair("a.b", "c")));
  }
  EXPECT_TRUE(MakeNames({"dcgm", "otel_hw", "zernel"}, scraped, {{"a.b", "c"}}).empty());
}

TEST(NamingTest, TranslatedOnlyRowsAreOnNoNativePage) {
  for (const MetricDesc* row :
       {&kGpuInterconnectBandwidth, &kGpuInterconnectLinkBandwidth, &kGpuMemoryBar1Free}) {
    EXPECT_TRUE(MakeNames({"native"}, *row, {{"gpu.index", int64_t{0}}}).empty()) << row->name;
    EXPECT_TRUE(MakeNames({"l9gpu"}, *row, {{"gpu.index", int64_t{0}}}).empty()) << row->name;
  }
  EXPECT_EQ(MakeNames({"native", "dcgm"}, kGpuMemoryBar1Free, {{"gpu.index", int64_t{0}}}).size(), 1u);
}

TEST(NamingTest, ZernelNamesProcessMemoryInItsLabelOrder) {
  auto named = MakeNames({"native", "zernel"}, kGpuProcessMemoryUsed,
                         {{"gpu.index", int64_t{0}}, {"process.pid", int64_t{7}}, {"gpu.uuid", "u"}});
  ASSERT_EQ(named.size(), 2u);
  EXPECT_EQ(named[1].name, "zernel_gpu_memory_used_bytes");
  EXPECT_THAT(named[1].labels, ElementsAre(Pair("pid", "7"), Pair("gpu_id", "0")));
  EXPECT_EQ(MakeNames({"zernel"}, kGpuPowerDraw, {}).size(), 0u);
}

TEST(NamingTest, KeepsSimulatedAttribute) {
  auto named =
      MakeNames({"zernel"}, kGpuProcessMemoryPeak, {{"simulated", true}, {"process.pid", int64_t{7}}});
  ASSERT_EQ(named.size(), 1u);
  EXPECT_THAT(named[0].labels, ElementsAre(Pair("pid", "7"), Pair("simulated", "true")));
  for (const char* naming : {"native", "dcgm", "dcgm@4.6", "otel_hw", "l9gpu"}) {
    auto demo = MakeNames({naming}, kGpuPowerDraw, {{"simulated", true}, {"gpu.uuid", "u"}});
    ASSERT_EQ(demo.size(), 1u) << naming;
    EXPECT_EQ(naming_testing::Label(demo[0], "simulated"), "true") << naming;
  }
}

TEST(NamingTest, ZernelFamiliesAreAlwaysExported) {
  std::vector<std::string> names = {"native", "zernel", "unknown"};
  EXPECT_EQ(AlwaysShown(names).size(), 10u);
  EXPECT_EQ(FindNaming("native"), nullptr);
  EXPECT_EQ(FindNaming("zernel"), &kZernel);
}

// Calls `check(naming, row)` for every row of every table.
template <class Check>
void ForEachRow(Check&& check) {
  for (std::string_view name : NamingNames()) {
    const MetricNaming* naming = FindNaming(name);
    if (!naming) continue;
    for (const NamingRow& row : naming->rows) check(*naming, row);
  }
}

TEST(Tables, FamiliesHaveOneUnitAndKind) {
  std::map<std::pair<std::string_view, std::string_view>, const NamingRow*> first;
  ForEachRow([&](const MetricNaming& naming, const NamingRow& row) {
    const NamingRow& same = *first.try_emplace({naming.name, row.name}, &row).first->second;
    EXPECT_EQ(same.kind, row.kind) << row.name;
    EXPECT_EQ(same.unit, row.unit) << row.name;
    EXPECT_EQ(same.help, row.help) << row.name;
    for (const NamingFamily& family : naming.families) {
      if (family.name != row.name) continue;
      EXPECT_EQ(family.kind, row.kind) << row.name;
      EXPECT_EQ(family.help, row.help) << row.name;
    }
  });
}

TEST(Tables, RowsAreUnique) {
  using Where = std::set<std::pair<std::string_view, std::string_view>>;
  std::set<std::tuple<std::string_view, const MetricDesc*, std::string_view, Where>> seen;
  ForEachRow([&](const MetricNaming& naming, const NamingRow& row) {
    Where where;
    for (const NamingWhere& one : row.where) {
      if (!one.key.empty()) where.insert({one.key, one.value});
    }
    if (naming.name == "otel_hw") return;  // its rows of one family differ in a label
    EXPECT_TRUE(seen.insert({naming.name, row.native, row.name, where}).second) << row.name;
  });
}

TEST(Tables, ConditionsUseAttributesOfTheRow) {
  // Those that the measured thing itself may have.
  const std::set<std::string_view> of_entities = {"", "gpu.mig.instance_id", "gpu.partition.id",
                                                  "inference.engine"};
  ForEachRow([&](const MetricNaming& naming, const NamingRow& row) {
    for (const NamingWhere& where : row.where) {
      if (of_entities.contains(where.key)) continue;
      bool has =
          std::find(row.native->keys.begin(), row.native->keys.end(), where.key) != row.native->keys.end();
      EXPECT_TRUE(has) << naming.name << " " << row.name << " requires " << where.key;
    }
  });
}

TEST(Tables, NamingsWithRivalsReadTicks) {
  size_t rivals = 0;
  ForEachRow([&](const MetricNaming& naming, const NamingRow& row) {
    rivals += row.unless.size();
    EXPECT_TRUE(row.unless.empty() || naming.looks) << naming.name;
  });
  EXPECT_GE(rivals, 9u);
}

TEST(Tables, ConditionsUseValuesOfTheCatalogue) {
  const std::string path = GPULENS_SOURCE_DIR "/../shared/reference/catalogue_gpu.tsv";
  auto text = ReadFile(path, 4 << 20);
  if (!text) GTEST_SKIP() << "captures not here: " << path;
  // By metric and key, the values the catalogue lists: "gpu.clock.type=graphics|sm".
  std::map<std::pair<std::string, std::string>, std::set<std::string>> known;
  Tsv catalogue(*std::move(text));
  for (size_t i = 0; i < catalogue.size(); ++i) {
    std::string_view attributes = catalogue.At(i, "attributes");
    while (!attributes.empty()) {
      std::string_view one = TakeUntil(attributes, ',');
      std::string key(TakeUntil(one, '='));
      auto& values = known[{std::string(catalogue.At(i, "name")), key}];
      while (!one.empty()) values.insert(std::string(TakeUntil(one, '|')));
    }
  }
  size_t checked = 0;
  ForEachRow([&](const MetricNaming& naming, const NamingRow& row) {
    for (const NamingWhere& where : row.where) {
      if (where.value.empty()) continue;
      const auto& values = known[{std::string(row.native->name), std::string(where.key)}];
      if (values.empty()) continue;  // an index
      ++checked;
      EXPECT_TRUE(values.contains(std::string(where.value)))
          << naming.name << " " << row.name << ": " << where.key << "=" << where.value;
    }
  });
  EXPECT_GT(checked, 150u);
}

}  // namespace
}  // namespace gpulens
