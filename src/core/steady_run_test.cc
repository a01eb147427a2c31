// A steady run must not allocate.
#include <gtest/gtest.h>

#include <vector>

#include "base/testing/allocations.h"
#include "core/frame_writer.h"

namespace gpulens {
namespace {

constexpr Rule kJumps{.low = 0, .max_change_per_second = 100};
constexpr MetricDesc kGauge{.name = "gauge", .unit = "W", .help = "", .rule = &kJumps};
constexpr MetricDesc kCounter{.name = "counter",
                              .unit = "By",
                              .help = "",
                              .kind = Kind::kCounter,
                              .number = Number::kInt,
                              .on_decrease = OnDecrease::kReject};
constexpr MetricDesc kHistogram{.name = "histogram", .unit = "s", .help = "", .kind = Kind::kHistogram};

struct Fixture {
  Fixture() {
    auto shape = MakeRef<Shape>();
    shape->bounds = {1, 2, 3};
    for (int64_t i = 0; i < 100; ++i) {
      auto gpu = MakeRef<const Entity>("gpu", AttributeSet({{"gpu.index", i}}));
      gauges.push_back(table.Declare(kGauge, gpu));
      counters.push_back(table.Declare(kCounter, gpu));
      histograms.push_back(table.Declare(kHistogram, gpu, {}, {.shape = shape}));
    }
  }
  Ref<const Frame> Run() {
    ++runs;
    writer.Begin({runs * int64_t{1'000'000'000}, runs});
    for (size_t i = 0; i < gauges.size(); ++i) {
      // Every tenth gauge turns stale and every eleventh is rejected, so that those paths count, too.
      if (i % 10 != 0 || runs == 1) writer.Set(gauges[i], i % 11 == 1 && runs > 2 ? -5.0 : 40.0);
      writer.Set(counters[i], runs * 1000);
      for (Cell& cell : writer.Cells(histograms[i])) cell.d = static_cast<double>(runs);
    }
    return writer.Finish();
  }

  SeriesTable table;
  FrameWriter writer{table, std::chrono::hours(1), "test"};
  std::vector<Series> gauges, counters, histograms;
  int64_t runs = 0;
};

TEST(SteadyRun, DoesNotAllocate) {
  Fixture fixture;
  Ref<const Frame> published;
  for (int i = 0; i < 10; ++i) published = fixture.Run();
  uint64_t before = ThreadAllocations();
  for (int i = 0; i < 100; ++i) published = fixture.Run();
  EXPECT_EQ(ThreadAllocations() - before, 0u);
  EXPECT_EQ(before > 0u, AllocationsAreCounted()) << "the counter counts";
  EXPECT_GT(fixture.writer.counts().stale, 0u);
  EXPECT_EQ(published->run, 110u);
}

TEST(SteadyRun, NotEvenWhenReadersHoldTheLastThreeFrames) {
  Fixture fixture;
  Ref<const Frame> held[3];
  for (size_t i = 0; i < 12; ++i) held[i % 3] = fixture.Run();
  uint64_t before = ThreadAllocations();
  for (size_t i = 0; i < 99; ++i) held[i % 3] = fixture.Run();
  EXPECT_EQ(ThreadAllocations() - before, 0u);
}

TEST(SteadyRun, ASlowReaderCostsOnlyFramesThatAreThrownAway) {
  Fixture fixture;
  std::vector<Ref<const Frame>> held;
  for (int i = 0; i < 20; ++i) held.push_back(fixture.Run());
  held.clear();
  fixture.Run();
  uint64_t before = ThreadAllocations();
  for (int i = 0; i < 20; ++i) fixture.Run();
  EXPECT_EQ(ThreadAllocations() - before, 0u);
}

}  // namespace
}  // namespace gpulens
