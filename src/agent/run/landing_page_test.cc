#include "agent/run/endpoints.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <utility>
#include <vector>

#include "catalog/gpu.h"
#include "core/frame_writer.h"
#include "core/series_table.h"

namespace gpulens {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr Instant kNow{1'000'000'000'000, 1'700'000'000'000'000'000};

EntityRef Gpu(int64_t index) {
  return MakeRef<const Entity>("gpu", AttributeSet({{"gpu.index", index}, {"gpu.model", "A<100>"}}));
}

TEST(GpuTable, OneLinePerGpuByIndex) {
  SeriesTable table;
  const double gib = 1024.0 * 1024 * 1024;
  std::vector<std::pair<Series, double>> set;
  for (int64_t i : {int64_t{10}, int64_t{2}}) {
    set.push_back(
        {table.Declare(kGpuUtilization, Gpu(i), AttributeSet({{"gpu.task.type", "compute"}})), 0.5});
    set.push_back({table.Declare(kGpuUtilization, Gpu(i), AttributeSet({{"gpu.task.type", "decode"}})), 0.9});
    set.push_back({table.Declare(kGpuMemoryUsed, Gpu(i)), 5 * gib});
    set.push_back({table.Declare(kGpuMemoryTotal, Gpu(i)), 80 * gib});
  }
  set.push_back({table.Declare(kGpuHealthState, Gpu(2), AttributeSet({{"gpu.health.state", "ok"}})), 0});
  set.push_back(
      {table.Declare(kGpuHealthState, Gpu(2), AttributeSet({{"gpu.health.state", "degraded"}})), 1});
  FrameWriter writer(table, std::chrono::seconds(10), "nvidia");
  writer.Begin(kNow);
  for (auto& [series, value] : set) {
    if (value > 1000) writer.SetInt(series, static_cast<int64_t>(value));
    else writer.Set(series, value);
  }
  Ref<Snapshot> snapshot = MakeRef<Snapshot>();
  snapshot->frames.push_back({writer.Finish(), "nvidia"});

  std::string page = MakeGpuTable(*snapshot);
  EXPECT_THAT(page, HasSubstr("<td class=n>2</td><td>A&lt;100&gt;</td><td class=n>50 %</td>"
                              "<td class=n>5.0 of 80.0 GiB</td><td class=n>–</td><td class=n>–</td>"
                              "<td>degraded</td>"));
  EXPECT_LT(page.find("<td class=n>2</td>"), page.find("<td class=n>10</td>"));
}

TEST(GpuTable, OmitsStaleHealthShowsBadState) {
  SeriesTable table;
  std::vector<Series> words;
  for (int64_t i : {int64_t{0}, int64_t{1}, int64_t{2}}) {
    words.push_back(table.Declare(kGpuHealthState, Gpu(i), AttributeSet({{"gpu.health.state", "ok"}})));
    words.push_back(table.Declare(kGpuInfo, Gpu(i)));
  }
  Series left_out = table.Declare(kGpuState, Gpu(1), AttributeSet({{"gpu.state", "left_out"}}));
  Series answers = table.Declare(kGpuState, Gpu(2), AttributeSet({{"gpu.state", "ok"}}));
  FrameWriter writer(table, std::chrono::seconds(10), "nvidia");
  auto page = [&](Instant at, bool fresh) {
    writer.Begin(at);
    for (Series series : words) {
      if (fresh) writer.Set(series, 1);
    }
    writer.Set(left_out, 1);
    writer.Set(answers, 1);
    Ref<Snapshot> snapshot = MakeRef<Snapshot>();
    snapshot->frames.push_back({writer.Finish(), "nvidia"});
    return MakeGpuTable(*snapshot);
  };
  std::string healthy = page(kNow, true), later = page(kNow + std::chrono::seconds(1), false);
  EXPECT_THAT(healthy, HasSubstr("<td>ok</td>"));
  EXPECT_THAT(later, Not(HasSubstr("<td>ok</td>"))) << "the word has grown old";
  EXPECT_THAT(later, HasSubstr("<td>left_out</td>"));
  EXPECT_THAT(later, HasSubstr("<td>–</td></tr>"));
}

TEST(GpuTable, EmptyWithoutGpus) { EXPECT_EQ(MakeGpuTable(*MakeRef<Snapshot>()), ""); }

}  // namespace
}  // namespace gpulens
