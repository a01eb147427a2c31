#include "quality/gpu_quality.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/testing/allocations.h"
#include "catalog/gpu.h"
#include "plugins/event_queue.h"

namespace gpulens {
namespace {

using std::chrono::seconds;

class GpuQualityTest : public ::testing::Test {
 protected:
  // A run a second later in which `write` sets what it wants.
  template <class Write>
  void Run(Write&& write) {
    clock_.Advance(seconds(1));
    writer_.Begin(clock_.Now());
    write();
    quality_.Validate(writer_);
    frame_ = writer_.Finish();
    events_.Report(writer_, queue_);
  }
  double Value(const MetricDesc& desc) const {
    for (uint32_t slot = 0; slot < frame_->layout->slots(); ++slot) {
      const SeriesInfo& info = (*frame_->layout)[slot];
      if (info.desc != &desc || frame_->quality[slot] != Quality::kOk) continue;
      Cell cell = frame_->cells[info.first_cell];
      return desc.number == Number::kInt ? static_cast<double>(cell.i) : cell.d;
    }
    return std::nan("");
  }
  bool Has(const MetricDesc& desc) const { return !std::isnan(Value(desc)); }
  std::string_view WhyAbsent(Series series) const { return AbsenceName(frame_->absence[series.slot]); }
  uint64_t Rejected(Validation why) const { return writer_.counts().rejected[static_cast<size_t>(why)]; }

  ManualClock clock_;
  SeriesTable table_;
  FrameWriter writer_{table_, seconds(10)};
  GpuQuality quality_{seconds(1)};
  QualityEvents events_;
  EventQueue queue_;
  Ref<const Frame> frame_;
  EntityRef gpu_ = MakeRef<Entity>("gpu", AttributeSet({{"gpu.index", int64_t{0}}, {"gpu.uuid", "GPU-0"}}));
};

TEST_F(GpuQualityTest, OnlyCollectorsOfGpusAreConcerned) {
  const MetricDesc* gpu[] = {&kGpuPowerState, &kGpuPowerDraw};
  const MetricDesc* none[] = {&kGpuPowerState};
  EXPECT_TRUE(GpuQuality::Concerns(gpu));
  EXPECT_FALSE(GpuQuality::Concerns(none));
  EXPECT_FALSE(GpuQuality::Concerns({}));
}

TEST_F(GpuQualityTest, InconsistentReadingsAreRejectedAndReported) {
  Series total = table_.Declare(kGpuMemoryTotal, gpu_), used = table_.Declare(kGpuMemoryUsed, gpu_);
  Series percent = table_.Declare(kGpuMemoryUsedPercent, gpu_);
  Run([&] {
    writer_.Set(total, 1000);
    writer_.Set(used, 1001);
    writer_.Set(percent, 100);
  });
  EXPECT_EQ(Value(kGpuMemoryTotal), 1000);
  EXPECT_FALSE(Has(kGpuMemoryUsed));
  EXPECT_FALSE(Has(kGpuMemoryUsedPercent)) << "a share of what is not believed";
  EXPECT_EQ(Rejected(Validation::kInconsistent), 2u);
  EXPECT_EQ(WhyAbsent(used), "inconsistent");
  EXPECT_EQ(WhyAbsent(total), "");
  auto events = queue_.Take();
  ASSERT_EQ(events.size(), 2u);
  EXPECT_EQ(events[0].name, "gpulens.quality");
  EXPECT_EQ(events[0].entity, gpu_);
  EXPECT_EQ(events[0].attributes.Text("gpulens.metric"), "gpu.memory.used");
  EXPECT_EQ(events[0].attributes.Text("gpulens.reason"), "inconsistent");
  EXPECT_EQ(events[0].body, "gpu.memory.used 1001 By was rejected: inconsistent");
}

TEST_F(GpuQualityTest, EventsAreOnePerSeriesAndReasonInTenMinutes) {
  Series edge = table_.Declare(kGpuTemperature, gpu_, {{"gpu.temperature.sensor", "edge"}});
  Series hot = table_.Declare(kGpuTemperature, gpu_, {{"gpu.temperature.sensor", "hotspot"}});
  auto bad = [&] { writer_.Set(edge, 65535.0); };
  Run(bad);
  EXPECT_EQ(queue_.Take().size(), 1u);
  for (int t = 0; t < 598; ++t) Run(bad);
  EXPECT_TRUE(queue_.Take().empty());
  Run([&] { writer_.Set(edge, 900.0); });
  EXPECT_EQ(queue_.Take().size(), 1u) << "another reason";
  Run(bad);
  EXPECT_EQ(queue_.Take().size(), 1u) << "ten minutes later";
  Run([&] { writer_.Set(hot, 900.0); });
  EXPECT_EQ(queue_.Take().size(), 1u) << "another series";
  EXPECT_EQ(WhyAbsent(hot), "out_of_range");
}

TEST_F(GpuQualityTest, AGpuWithoutACounterGetsAnEstimate) {
  Series power = table_.Declare(kGpuPowerDraw, gpu_);
  for (int t = 0; t < 10; ++t) Run([&] { writer_.Set(power, 200.0); });
  EXPECT_FALSE(Has(kGpuEnergyEstimate)) << "a counter may still come";
  Run([&] { writer_.Set(power, 200.0); });
  EXPECT_DOUBLE_EQ(Value(kGpuEnergyEstimate), 2000);
  EXPECT_NEAR(Value(kGpuEnergyEstimateError), 100, 1e-9);
  for (int t = 0; t < 60; ++t) Run([&] { writer_.Set(power, 200.0); });
  EXPECT_DOUBLE_EQ(Value(kGpuEnergyEstimate), 14'000);
}

TEST_F(GpuQualityTest, TheEstimateEndsWhenACounterComes) {
  Series power = table_.Declare(kGpuPowerDraw, gpu_);
  for (int t = 0; t < 15; ++t) Run([&] { writer_.Set(power, 200.0); });
  ASSERT_TRUE(Has(kGpuEnergyEstimate));
  Series energy = table_.Declare(kGpuEnergyConsumption, gpu_);
  for (int t = 0; t < 15; ++t) {
    Run([&] {
      writer_.Set(power, 200.0);
      writer_.Set(energy, 200.0 * t);
    });
  }
  EXPECT_FALSE(Has(kGpuEnergyEstimate));
  EXPECT_TRUE(Has(kGpuEnergyConsumption));
  EXPECT_EQ(table_.size(), 2u);
}

// A board whose counter is constant has no other energy.
TEST_F(GpuQualityTest, AConstantCounterIsReplacedByAnEstimateUntilItMoves) {
  Series power = table_.Declare(kGpuPowerDraw, gpu_);
  Series energy = table_.Declare(kGpuEnergyConsumption, gpu_);
  for (int t = 0; t < 120; ++t) {
    Run([&] {
      writer_.Set(power, 200.0);
      writer_.Set(energy, 5000.0);
    });
    if (t < 20) {
      EXPECT_FALSE(Has(kGpuEnergyEstimate)) << t;
    }
  }
  EXPECT_FALSE(Has(kGpuEnergyConsumption)) << "it is rejected";
  const double before = Value(kGpuEnergyEstimate);
  EXPECT_GT(before, 0);
  for (int t = 1; t <= 5; ++t) {
    Run([&] {
      writer_.Set(power, 200.0);
      writer_.Set(energy, 5000.0);
    });
  }
  EXPECT_NEAR(Value(kGpuEnergyEstimate) - before, 1000, 1e-6);
  for (int t = 1; t < 200; ++t) {
    Run([&] {
      writer_.Set(power, 200.0);
      writer_.Set(energy, 5000.0 + 200.0 * t);
    });
  }
  EXPECT_TRUE(Has(kGpuEnergyConsumption));
  EXPECT_FALSE(Has(kGpuEnergyEstimate)) << "one energy is enough";
}

TEST_F(GpuQualityTest, TheEstimateLeavesWithItsGpu) {
  Series power = table_.Declare(kGpuPowerDraw, gpu_);
  for (int t = 0; t < 15; ++t) Run([&] { writer_.Set(power, 200.0); });
  table_.Retire(gpu_);
  Run([] {});
  EXPECT_EQ(table_.size(), 0u);
  gpu_ = MakeRef<Entity>("gpu", gpu_->attributes);
  power = table_.Declare(kGpuPowerDraw, gpu_);
  for (int t = 0; t < 15; ++t) Run([&] { writer_.Set(power, 200.0); });
  EXPECT_DOUBLE_EQ(Value(kGpuEnergyEstimate), 200 * 14) << "counted from its return";
  EXPECT_EQ(writer_.counts().invalid, 0u);
}

TEST_F(GpuQualityTest, RejectedPowerIsNotIntegrated) {
  Series power = table_.Declare(kGpuPowerDraw, gpu_);
  Series limit = table_.Declare(kGpuPowerLimit, gpu_, {{"gpu.power.limit_type", "max"}});
  for (int t = 0; t < 30; ++t) {
    Run([&] {
      writer_.Set(limit, 300.0);
      writer_.Set(power, t % 3 == 1 ? 4000.0 : 200.0);
    });
  }
  EXPECT_NEAR(Value(kGpuEnergyEstimate), 200 * 29, 1);
  EXPECT_EQ(Rejected(Validation::kOutOfRange), 10u);
}

TEST_F(GpuQualityTest, ASteadyRunDoesNotAllocate) {
  std::vector<Series> powers, uses, totals;
  for (int64_t i = 0; i < 16; ++i) {
    EntityRef gpu = MakeRef<Entity>("gpu", AttributeSet({{"gpu.index", i}}));
    powers.push_back(table_.Declare(kGpuPowerDraw, gpu));
    totals.push_back(table_.Declare(kGpuMemoryTotal, gpu));
    uses.push_back(table_.Declare(kGpuMemoryUsed, gpu));
  }
  auto write = [&] {
    for (size_t i = 0; i < powers.size(); ++i) {
      writer_.Set(powers[i], 300.0);
      writer_.Set(totals[i], 1000);
      writer_.Set(uses[i], i == 3 ? 2000 : 900);  // One GPU lies all the time.
    }
  };
  for (int i = 0; i < 30; ++i) Run(write);
  queue_.Take();
  uint64_t before = ThreadAllocations();
  for (int i = 0; i < 100; ++i) Run(write);
  EXPECT_EQ(ThreadAllocations() - before, 0u);
  EXPECT_EQ(Rejected(Validation::kInconsistent), 130u);
}

}  // namespace
}  // namespace gpulens
