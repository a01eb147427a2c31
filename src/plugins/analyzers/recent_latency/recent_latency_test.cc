#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "catalog/cuda.h"
#include "catalog/phases.h"
#include "job_page/job_page.h"
#include "plugins/analyzers/recent_latency/latency_window.h"
#include "plugins/plugin.h"

namespace gpulens {

extern const AnalyzerSpec recent_latency_analyzer;

namespace {

using recent_latency::QuantileOf;

// The buckets of pages: four for each doubling.
std::vector<double> BoundsOfPages() {
  std::vector<double> bounds;
  for (size_t i = 0; i + 1 < job_page::kBuckets; ++i)
    bounds.push_back(std::exp2(job_page::kFirstDoubling + static_cast<double>(i + 1) / 4) * 1e-9);
  return bounds;
}

class RecentLatencyTest : public ::testing::Test {
 protected:
  struct Native {
    Series series;
    std::vector<double> counts;  // up to each bound
    double sum = 0, count = 0;
  };
  struct Got {
    double p50 = 0, p99 = 0, sum = 0, count = 0;
  };

  RecentLatencyTest() {
    Env env;
    analyzer_ = *recent_latency_analyzer.create({}, env);
    shape_->bounds = BoundsOfPages();
  }
  Native Declare(const MetricDesc& desc, int64_t pid, std::string_view key, std::string_view value) {
    auto entity = MakeRef<Entity>("process", AttributeSet({{"process.pid", pid}}));
    return {table_.Declare(desc, entity, AttributeSet({{key, value}}), {.shape = shape_}),
            std::vector<double>(shape_->bounds.size())};
  }
  void Add(Native& native, double seconds, double times = 1) {
    for (size_t i = 0; i < shape_->bounds.size(); ++i)
      native.counts[i] += seconds <= shape_->bounds[i] ? times : 0;
    native.sum += seconds * times;
    native.count += times;
  }
  void Tick(std::vector<Native*> natives, double launches = -1) {
    in_.Begin(clock_.Now());
    for (Native* native : natives) {
      std::span<Cell> cells = in_.Cells(native->series);
      for (size_t i = 0; i < native->counts.size(); ++i) cells[i].d = native->counts[i];
      cells[native->counts.size()].d = native->sum;
      cells[native->counts.size() + 1].d = native->count;
    }
    if (launches >= 0) {
      if (!launches_)
        launches_ = table_.Declare(
            kCudaLaunches, MakeRef<Entity>("process", AttributeSet({{"process.pid", int64_t{7}}})), {});
      in_.Set(launches_, static_cast<int64_t>(launches));
    }
    Snapshot snapshot;
    snapshot.closed_at = clock_.Now();
    snapshot.frames = {{in_.Finish(), "probes"}};
    out_.Begin(clock_.Now());
    EXPECT_TRUE(analyzer_->Analyze(snapshot, out_));
    frame_ = out_.Finish();
    clock_.Advance(std::chrono::seconds(1));
  }
  // By pid; "" without one.
  std::map<std::string, Got> Of(const MetricDesc& desc) const {
    std::map<std::string, Got> found;
    for (uint32_t slot = 0; slot < frame_->layout->slots(); ++slot) {
      const SeriesInfo& info = (*frame_->layout)[slot];
      if (info.desc != &desc || frame_->quality[slot] == Quality::kAbsent) continue;
      const Cell* cells = frame_->cells.data() + info.first_cell;
      found[info.attributes.Text("process.pid")] = {cells[0].d, cells[1].d, cells[2].d, cells[3].d};
    }
    return found;
  }

  // Of launches of a process, by name.
  std::map<std::string, double> QuantilesOf(const std::string& pid) const {
    std::map<std::string, double> found;
    for (uint32_t slot = 0; slot < frame_->layout->slots(); ++slot) {
      const SeriesInfo& info = (*frame_->layout)[slot];
      if (info.desc != &kRecentLaunchLatency || frame_->quality[slot] == Quality::kAbsent ||
          info.attributes.Text("process.pid") != pid)
        continue;
      found[info.attributes.Text("launch.quantile")] = frame_->cells[info.first_cell].d;
    }
    return found;
  }

  ManualClock clock_;
  Ref<Shape> shape_ = MakeRef<Shape>();
  SeriesTable table_, out_table_;
  FrameWriter in_{table_, std::chrono::seconds(1)}, out_{out_table_, std::chrono::seconds(1)};
  Series launches_;
  std::unique_ptr<Analyzer> analyzer_;
  Ref<const Frame> frame_;
};

TEST_F(RecentLatencyTest, AHundredThousandLaunches) {
  Tick({});
  Native launches = Declare(kCudaLaunchEnqueueDuration, 7, "cuda.launch.type", "kernel");
  for (int i = 0; i < 100'000; ++i) Add(launches, 1e-6 + 9e-6 * i / 99'999);
  Tick({&launches}, 100'000);
  const Got got = Of(kRecentLaunches).at("7");
  EXPECT_EQ(got.count, 100'000);
  EXPECT_NEAR(got.sum, 0.55, 1e-6);
  // A bucket is 19 % wide.
  EXPECT_NEAR(got.p50, 5.5e-6, 5.5e-6 * 0.09);
  EXPECT_NEAR(got.p99, 9.91e-6, 9.91e-6 * 0.19);
  const Got all = Of(kRecentAllLaunches).at("");
  EXPECT_EQ(all.p50, got.p50) << "of one process all is the same";
  EXPECT_EQ(all.count, got.count);
  EXPECT_EQ(QuantilesOf("7"), (std::map<std::string, double>{{"p50", got.p50}, {"p99", got.p99}}));
  for (int i = 0; i < 70; ++i) Tick({&launches}, 100'000);
  EXPECT_TRUE(QuantilesOf("7").empty()) << "none in the last minute";
}

TEST_F(RecentLatencyTest, TheCountIsThatOfAllLaunchesWhereOnlySomeAreTimed) {
  Tick({});
  Native launches = Declare(kCudaLaunchEnqueueDuration, 7, "cuda.launch.type", "kernel");
  Add(launches, 1e-5, 100);
  Tick({&launches}, 6400);
  EXPECT_EQ(Of(kRecentLaunches).at("7").count, 6400);
  EXPECT_NEAR(Of(kRecentLaunches).at("7").sum, 0.064, 1e-9);
  Tick({&launches}, 6410);
  EXPECT_EQ(Of(kRecentLaunches).at("7").count, 6410);
  EXPECT_NEAR(Of(kRecentLaunches).at("7").sum, 0.064, 1e-9) << "none was timed yet";
  Add(launches, 1e-5, 1);
  Tick({&launches}, 6464);
  EXPECT_NEAR(Of(kRecentLaunches).at("7").sum, 0.06464, 1e-9);
}

TEST_F(RecentLatencyTest, EqualTimesGiveThatTimeAndItsNanoseconds) {
  Tick({});
  Native waits = Declare(kDataloaderWaitDuration, 7, "dataloader.source", "sdk");
  Add(waits, 0.050000007, 40);
  Tick({&waits});
  EXPECT_NEAR(Of(kRecentDataWaits).at("7").p50, 0.050000007, 1e-12);
}

TEST_F(RecentLatencyTest, OneWaitOfASecondInFifty) {
  Tick({});
  Native waits = Declare(kDataloaderWaitDuration, 7, "dataloader.source", "sdk");
  Add(waits, 0.01, 49);
  Add(waits, 1, 1);
  Tick({&waits});
  EXPECT_NEAR(Of(kRecentDataWaits).at("7").p50, 0.01, 0.001);
  EXPECT_NEAR(Of(kRecentDataWaits).at("7").p99, 1, 0.1);
}

TEST_F(RecentLatencyTest, QuantilesAreOfTheLastMinuteAndTotalsOfAll) {
  Tick({});
  Native waits = Declare(kDataloaderWaitDuration, 7, "dataloader.source", "sdk");
  Add(waits, 1, 1000);
  Tick({&waits});
  clock_.Advance(std::chrono::seconds(61));
  Add(waits, 0.001, 10);
  Tick({&waits});
  EXPECT_NEAR(Of(kRecentDataWaits).at("7").p99, 0.001, 1e-9);
  EXPECT_EQ(Of(kRecentDataWaits).at("7").count, 1010);
  clock_.Advance(std::chrono::seconds(61));
  Tick({&waits});
  EXPECT_TRUE(std::isnan(Of(kRecentDataWaits).at("7").p50)) << "nothing was observed lately";
  EXPECT_EQ(Of(kRecentDataWaits).at("7").count, 1010);
}

TEST_F(RecentLatencyTest, WhatWasBeforeTheAgentIsInTheTotalsAlone) {
  Native waits = Declare(kDataloaderWaitDuration, 7, "dataloader.source", "sdk");
  Add(waits, 1, 3);
  Tick({&waits});
  EXPECT_TRUE(std::isnan(Of(kRecentDataWaits).at("7").p50));
  EXPECT_EQ(Of(kRecentDataWaits).at("7").count, 3);
}

TEST_F(RecentLatencyTest, TheBetterSourceCountsAlone) {
  Tick({});
  Native outside = Declare(kDataloaderWaitDuration, 7, "dataloader.source", "waker");
  Add(outside, 0.5, 10);
  Tick({&outside});
  EXPECT_EQ(Of(kRecentDataWaits).at("7").count, 10);
  Native own = Declare(kDataloaderWaitDuration, 7, "dataloader.source", "sdk");
  Add(outside, 0.5, 10);
  Add(own, 0.05, 10);
  Tick({&outside, &own});
  EXPECT_EQ(Of(kRecentDataWaits).at("7").count, 20);
}

TEST_F(RecentLatencyTest, AProcessThatEndsTakesItsSeriesAlong) {
  Tick({});
  Native waits = Declare(kDataloaderWaitDuration, 7, "dataloader.source", "sdk");
  Native others = Declare(kDataloaderWaitDuration, 8, "dataloader.source", "sdk");
  Add(waits, 0.5, 10);
  Add(others, 0.25, 10);
  Tick({&waits, &others});
  EXPECT_EQ(Of(kRecentDataWaits).size(), 2u);
  table_.Retire(waits.series);
  Tick({&others});
  EXPECT_EQ(Of(kRecentDataWaits).size(), 1u);
  EXPECT_EQ(Of(kRecentAllDataWaits).at("").count, 20) << "a counter does not fall";
}

TEST(QuantileOf, StaysInItsBucketAndIsUnknownWithoutObservations) {
  EXPECT_TRUE(std::isnan(QuantileOf({}, 0.5)));
  Buckets buckets{.bounds = {1, 2, 4}, .counts = {0, 50, 50}, .count = 100, .sum = 50 * 1.5 + 50 * 1e6};
  EXPECT_LE(QuantileOf(buckets, 0.4), 2);
  EXPECT_GE(QuantileOf(buckets, 0.99), 4);
}

}  // namespace
}  // namespace gpulens
