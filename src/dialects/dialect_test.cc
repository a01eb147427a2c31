#include "dialects/dialect.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "catalog/gpu/health.h"
#include "catalog/gpu/readings.h"
#include "dialects/zernel.h"

namespace gpulens {
namespace {

using ::testing::ElementsAre;
using ::testing::Pair;

std::vector<SpelledSeries> Spell(std::vector<std::string> dialects, const MetricDesc& desc,
                                 AttributeSet attributes) {
  SeriesInfo info;
  info.desc = &desc;
  info.attributes = std::move(attributes);
  std::vector<SpelledSeries> out;
  MakeSpeller(dialects)(info, out);
  return out;
}

TEST(DialectTest, NativeFollowsTheCatalogue) {
  auto spelled = Spell({"native"}, kGpuPowerDraw, {{"gpu.index", int64_t{3}}});
  ASSERT_EQ(spelled.size(), 1u);
  EXPECT_EQ(spelled[0].name, "gpu_power_draw_watts");
  EXPECT_EQ(spelled[0].unit, "watts");
  EXPECT_THAT(spelled[0].labels, ElementsAre(Pair("gpu_index", "3")));
}

TEST(DialectTest, ScrapedNamesAreNeverRespelt) {
  MetricDesc scraped{.name = "vllm:x.y", .unit = "seconds", .help = "X.", .spelling = Spelling::kVerbatim};
  auto spelled = Spell({"native"}, scraped, {{"a.b", "c"}});
  ASSERT_EQ(spelled.size(), 1u);
  EXPECT_EQ(spelled[0].name, "vllm:x.y");
  EXPECT_THAT(spelled[0].labels, ElementsAre(Pair("a.b", "c")));
}

TEST(DialectTest, ZernelNamesProcessMemoryInItsLabelOrder) {
  auto spelled = Spell({"native", "zernel"}, kGpuProcessMemoryUsed,
                       {{"gpu.index", int64_t{0}}, {"process.pid", int64_t{7}}, {"gpu.uuid", "u"}});
  ASSERT_EQ(spelled.size(), 2u);
  EXPECT_EQ(spelled[1].name, "zernel_gpu_memory_used_bytes");
  EXPECT_THAT(spelled[1].labels, ElementsAre(Pair("pid", "7"), Pair("gpu_id", "0")));
  EXPECT_EQ(Spell({"zernel"}, kGpuPowerDraw, {}).size(), 0u);
}

TEST(DialectTest, SimulatedStaysVisible) {
  auto spelled = Spell({"zernel"}, kGpuProcessMemoryPeak, {{"simulated", true}, {"process.pid", int64_t{7}}});
  ASSERT_EQ(spelled.size(), 1u);
  EXPECT_THAT(spelled[0].labels, ElementsAre(Pair("pid", "7"), Pair("simulated", "true")));
}

TEST(DialectTest, EveryRowOfATableIsOneOfItsFamilies) {
  for (std::string_view name : DialectNames()) {
    const Dialect* dialect = FindDialect(name);
    if (!dialect) continue;
    for (const DialectRow& row : dialect->rows) {
      bool listed = false;
      for (const DialectFamily& family : dialect->families) {
        listed = listed || (family.name == row.name && family.kind == row.kind && family.help == row.help);
      }
      EXPECT_TRUE(listed) << row.name;
    }
  }
}

TEST(DialectTest, ZernelFamiliesAreThoseOfTheSeed) {
  std::vector<std::string> names = {"native", "zernel", "unknown"};
  EXPECT_EQ(AlwaysShown(names).size(), 10u);
  EXPECT_EQ(FindDialect("native"), nullptr);
  EXPECT_EQ(FindDialect("zernel"), &kZernel);
}

}  // namespace
}  // namespace gpulens
