#include "pipeline/rollup/rollup.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/testing/allocations.h"
#include "names/naming.h"
#include "pipeline/rollup/rollup_testing.h"
#include "wire/otlp/otlp_metrics.h"
#include "wire/remote_write/remote_write.h"

namespace gpulens {
namespace {

using namespace rollup_testing;
using enum RollupFunction;
using ::testing::DoubleNear;
using ::testing::Optional;

constexpr auto kNothing = std::nullopt;

class RollupTest : public ::testing::Test {
 protected:
  // One tick; `set` writes the readings.
  template <class Set>
  Ref<const Snapshot> Tick(int64_t second, Set&& set) {
    gpu_.writer.Begin(At(second));
    set();
    gpu_.frame = gpu_.writer.Finish();
    return rollup_->Apply(SnapshotOf({&gpu_}, At(second)));
  }
  // A tick at which the collector did not run.
  Ref<const Snapshot> Ride(int64_t second) { return rollup_->Apply(SnapshotOf({&gpu_}, At(second))); }
  void Use(RollupRule rule) { rollup_ = std::make_unique<Rollup>(std::vector{std::move(rule)}); }
  uint64_t Refused(RollupRefusal why) const { return rollup_->stats().refused[static_cast<size_t>(why)]; }

  TestSource gpu_{"nvidia"};
  std::unique_ptr<Rollup> rollup_;
};

TEST_F(RollupTest, GaugesOfAGroup) {
  Use(RuleOf({kSum, kAvg, kMin, kMax, kCount, kLast}));
  const Series a = gpu_.Declare(kPower, "train", 0), b = gpu_.Declare(kPower, "train", 1);
  const Series other = gpu_.Declare(kPower, "serve", 2);
  for (int64_t second = 0; second < 60; second += 15) {
    auto out = Tick(second, [&] {
      gpu_.writer.Set(a, 100.0 + static_cast<double>(second));
      gpu_.writer.Set(b, 300.0);
      gpu_.writer.Set(other, 50.0);
    });
    EXPECT_TRUE(out->frames.empty()) << "all of it is combined, and no interval ended";
  }
  auto out = Tick(61, [&] { gpu_.writer.Set(a, 5000); });
  ASSERT_EQ(out->frames.size(), 1u);
  EXPECT_EQ(out->frames[0].source, "rollup/1");
  EXPECT_EQ(out->frames[0].frame->read_at, At(60)) << "the end of the interval, not of the tick";
  EXPECT_THAT(ValueOf(out, "gpu.power.draw.sum", "train"), Optional(122.5 + 300));
  EXPECT_THAT(ValueOf(out, "gpu.power.draw.avg", "train"), Optional((122.5 + 300) / 2));
  EXPECT_THAT(ValueOf(out, "gpu.power.draw.min", "train"), Optional(100.0));
  EXPECT_THAT(ValueOf(out, "gpu.power.draw.max", "train"), Optional(300.0));
  EXPECT_THAT(ValueOf(out, "gpu.power.draw.last", "train"), Optional(300.0));
  EXPECT_THAT(ValueOf(out, "gpu.power.draw.count", "train"), Optional(2.0));
  EXPECT_THAT(ValueOf(out, "gpu.power.draw.sum", "serve"), Optional(50.0));
  auto sum = Find(out, "gpu.power.draw.sum", AttributeSet({{"k8s.pod.name", "train"}}));
  EXPECT_EQ(sum->info->desc->unit, "W");
  EXPECT_EQ(sum->info->desc->kind, Kind::kGauge);
  EXPECT_EQ(sum->quality, Quality::kOk);
  auto count = Find(out, "gpu.power.draw.count", AttributeSet({{"k8s.pod.name", "train"}}));
  EXPECT_EQ(count->info->desc->unit, "{series}");
  EXPECT_EQ(rollup_->stats().groups, 2u);
  EXPECT_EQ(rollup_->stats().rolled_up, 3u);
  EXPECT_EQ(rollup_->stats().left_out, 3u);
}

TEST_F(RollupTest, ResultsStayInSnapshotsUntilTheNextOnes) {
  Use(RuleOf({kAvg}));
  const Series a = gpu_.Declare(kPower, "train", 0);
  Tick(0, [&] { gpu_.writer.Set(a, 1); });
  auto first = Tick(60, [&] { gpu_.writer.Set(a, 2); });
  auto same = Tick(90, [&] { gpu_.writer.Set(a, 4); });
  ASSERT_EQ(same->frames.size(), 1u);
  EXPECT_EQ(same->frames[0].frame, first->frames[0].frame);
  auto second = Tick(120, [&] { gpu_.writer.Set(a, 100); });
  EXPECT_THAT(ValueOf(second, "gpu.power.draw.avg", "train"), Optional(3.0));
  EXPECT_EQ(second->frames[0].frame->run, 2u);
}

TEST_F(RollupTest, AMemberThatIsReadMoreOftenDoesNotWeighMore) {
  Use(RuleOf({kSum, kAvg, kCount}));
  const Series often = gpu_.Declare(kPower, "train", 0), seldom = gpu_.Declare(kPower, "train", 1);
  for (int64_t second = 0; second < 60; ++second) {
    Tick(second, [&] {
      gpu_.writer.Set(often, 100);
      if (second == 30) gpu_.writer.Set(seldom, 200);
    });
  }
  auto out = Ride(60);
  EXPECT_THAT(ValueOf(out, "gpu.power.draw.sum", "train"), Optional(300.0));
  EXPECT_THAT(ValueOf(out, "gpu.power.draw.avg", "train"), Optional(150.0));
}

TEST_F(RollupTest, AStaleOrMissingMemberIsNoZeroAndMarksTheGroup) {
  TestSource gpu("nvidia", std::chrono::seconds(90));
  Use(RuleOf({kSum, kMin, kCount}));
  const Series a = gpu.Declare(kPower, "train", 0), b = gpu.Declare(kPower, "train", 1);
  gpu.Declare(kPower, "train", 2);  // never read
  auto tick = [&](int64_t second, double of_a, std::optional<double> of_b = {}) {
    gpu.writer.Begin(At(second));
    gpu.writer.Set(a, of_a);
    if (of_b) gpu.writer.Set(b, *of_b);
    gpu.frame = gpu.writer.Finish();
    return rollup_->Apply(SnapshotOf({&gpu}, At(second)));
  };
  tick(0, 100, 200);
  auto both = tick(60, 110);
  const AttributeSet train({{"k8s.pod.name", "train"}});
  EXPECT_EQ(Find(both, "gpu.power.draw.sum", train)->quality, Quality::kOk);
  auto stale = tick(120, 120);
  auto sum = Find(stale, "gpu.power.draw.sum", train);
  EXPECT_EQ(sum->value, 110);
  EXPECT_EQ(sum->quality, Quality::kStale) << "the other is shown, but was not read";
  EXPECT_EQ(sum->age_ms, 0u) << "it is of this interval, so sinks send it";
  EXPECT_THAT(ValueOf(stale, "gpu.power.draw.min", "train"), Optional(110.0));
  EXPECT_THAT(ValueOf(stale, "gpu.power.draw.count", "train"), Optional(1.0));
  auto gone = tick(180, 1);
  sum = Find(gone, "gpu.power.draw.sum", train);
  EXPECT_EQ(sum->value, 120);
  EXPECT_EQ(sum->quality, Quality::kOk) << "the other is past its time to live";
}

TEST_F(RollupTest, WithoutAReadingTheResultStaysAsStaleWhileAMemberIsShown) {
  Use(RuleOf({kAvg}));
  const Series a = gpu_.Declare(kPower, "train", 0);
  Tick(0, [&] { gpu_.writer.Set(a, 100); });
  Ride(60);
  auto out = Ride(120);
  auto avg = Find(out, "gpu.power.draw.avg", AttributeSet({{"k8s.pod.name", "train"}}));
  ASSERT_TRUE(avg);
  EXPECT_EQ(avg->value, 100);
  EXPECT_EQ(avg->quality, Quality::kStale);
  EXPECT_EQ(avg->age_ms, 60'000u);
  Tick(150, [] {});
  EXPECT_EQ(ValueOf(Ride(180), "gpu.power.draw.avg", "train"), kNothing) << "the reading is past its time";
  Tick(200, [&] { gpu_.writer.Set(a, 7); });
  EXPECT_THAT(ValueOf(Ride(240), "gpu.power.draw.avg", "train"), Optional(7.0));
  auto without = MakeRef<Snapshot>();
  without->closed_at = At(300);
  EXPECT_EQ(ValueOf(rollup_->Apply(without), "gpu.power.draw.avg", "train"), 7.0);
  without->closed_at = At(360);
  EXPECT_EQ(ValueOf(rollup_->Apply(without), "gpu.power.draw.avg", "train"), kNothing)
      << "its source is gone";
}

TEST_F(RollupTest, ASumOfCountersNeverFalls) {
  Use(RuleOf({kSum, kIncrease, kRate, kCount}));
  const Series a = gpu_.Declare(kEnergy, "train", 0), b = gpu_.Declare(kEnergy, "train", 1);
  auto both = [&](int64_t second, double of_a, double of_b) {
    return Tick(second, [&] {
      gpu_.writer.Set(a, of_a);
      gpu_.writer.Set(b, of_b);
    });
  };
  both(0, 1000, 500);
  both(20, 1100, 510);
  both(40, 1200, 5);  // b began again
  auto out = both(60, 1300, 25);
  EXPECT_THAT(ValueOf(out, "gpu.energy.sum", "train"), Optional(200.0 + 10 + 5));
  EXPECT_THAT(ValueOf(out, "gpu.energy.increase", "train"), Optional(215.0));
  EXPECT_THAT(ValueOf(out, "gpu.energy.rate", "train"), Optional(DoubleNear(200.0 / 40 + 15.0 / 40, 1e-9)));
  auto sum = Find(out, "gpu.energy.sum", AttributeSet({{"k8s.pod.name", "train"}}));
  EXPECT_EQ(sum->info->desc->kind, Kind::kCounter);
  EXPECT_EQ(sum->info->start_unix_ns, kStart.unix_ns);
  auto rate = Find(out, "gpu.energy.rate", AttributeSet({{"k8s.pod.name", "train"}}));
  EXPECT_EQ(rate->info->desc->unit, "J/s");
  EXPECT_EQ(rate->info->desc->kind, Kind::kGauge);
  gpu_.table.Retire(b);
  out = Tick(120, [&] { gpu_.writer.Set(a, 1400); });
  EXPECT_THAT(ValueOf(out, "gpu.energy.sum", "train"), Optional(215.0 + 100 + 20)) << "b left after 60 s";
  out = Tick(180, [&] { gpu_.writer.Set(a, 1400); });
  EXPECT_THAT(ValueOf(out, "gpu.energy.sum", "train"), Optional(215.0 + 200 + 20));
  EXPECT_THAT(ValueOf(out, "gpu.energy.count", "train"), Optional(1.0));
}

TEST_F(RollupTest, IntegersAreExact) {
  Use(RuleOf({kSum, kIncrease}));
  const int64_t large = (int64_t{1} << 60) + 1;
  const Series a = gpu_.Declare(kBytes, "train", 0);
  Tick(0, [&] { gpu_.writer.SetInt(a, 0); });
  Tick(10, [&] { gpu_.writer.SetInt(a, large); });
  auto out = Ride(60);
  auto sum = Find(out, "gpu.io.sum", AttributeSet({{"k8s.pod.name", "train"}}));
  ASSERT_TRUE(sum);
  EXPECT_EQ(sum->info->desc->number, Number::kInt);
  EXPECT_EQ(sum->cells()[0].i, large);
}

// Of one that was there before, the first reading is only the base; one that began since the reading before
// counted from 0.
TEST_F(RollupTest, CountsBeforeTheFirstReadingCountOnlyForNewCounters) {
  Use(RuleOf({kSum}));
  const Series old = gpu_.Declare(kEnergy, "old", 0);
  Tick(0, [&] { gpu_.writer.Set(old, 1e6); });
  const Series fresh = gpu_.Declare(kEnergy, "new", 1, {.start_unix_ns = At(5).unix_ns});
  const Series late = gpu_.Declare(kEnergy, "late", 2, {.start_unix_ns = At(-5).unix_ns});
  Tick(10, [&] {
    gpu_.writer.Set(old, 1e6);
    gpu_.writer.Set(fresh, 42);
    gpu_.writer.Set(late, 42);
  });
  auto out = Ride(60);
  EXPECT_THAT(ValueOf(out, "gpu.energy.sum", "old"), Optional(0.0));
  EXPECT_THAT(ValueOf(out, "gpu.energy.sum", "new"), Optional(42.0));
  EXPECT_THAT(ValueOf(out, "gpu.energy.sum", "late"), Optional(0.0));
}

TEST_F(RollupTest, AStartThatBecomesKnownIsNoReset) {
  Use(RuleOf({kSum}));
  const Series a = gpu_.Declare(kEnergy, "train", 0);
  Tick(0, [&] { gpu_.writer.Set(a, 1000); });
  gpu_.table.Restart(a.slot, At(-100).unix_ns, true);
  Tick(10, [&] { gpu_.writer.Set(a, 1001); });
  gpu_.table.Restart(a.slot, At(15).unix_ns, true);
  Tick(20, [&] { gpu_.writer.Set(a, 1500); });
  EXPECT_THAT(ValueOf(Ride(60), "gpu.energy.sum", "train"), Optional(1.0 + 1500));
}

TEST_F(RollupTest, ASeriesThatMovesToAnotherPodTakesNothingAlong) {
  std::string pod = "first";
  SeriesTable table({.describe = [&](const Entity&) { return AttributeSet({{"k8s.pod.name", pod}}); }});
  FrameWriter writer(table, std::chrono::seconds(20), "nvidia");
  const auto gpu = MakeRef<const Entity>("gpu", AttributeSet());
  const Series energy = table.Declare(kEnergy, gpu);
  Use(RuleOf({kSum}));
  double joules = 1000;
  auto tick = [&](int64_t second) {
    writer.Begin(At(second));
    writer.Set(energy, joules += 10);
    gpu_.frame = writer.Finish();
    return rollup_->Apply(SnapshotOf({&gpu_}, At(second)));
  };
  tick(0);
  tick(20);
  pod = "second";
  table.Redescribe(At(30).unix_ns);
  tick(40);
  auto out = tick(60);
  EXPECT_THAT(ValueOf(out, "gpu.energy.sum", "first"), Optional(10.0));
  EXPECT_THAT(ValueOf(out, "gpu.energy.sum", "second"), Optional(0.0));
  out = tick(120);
  EXPECT_EQ(ValueOf(out, "gpu.energy.sum", "first"), kNothing);
  EXPECT_THAT(ValueOf(out, "gpu.energy.sum", "second"), Optional(10.0));
}

TEST_F(RollupTest, OthersComingAndGoingDoNotChangeAMember) {
  Use(RuleOf({kSum, kP50}));
  auto shape = MakeRef<Shape>();
  shape->bounds = {1, 2};
  const Series leaves = gpu_.Declare(kEnergy, "other", 0);
  const Series a = gpu_.Declare(kEnergy, "train", 1);
  const Series first = gpu_.Declare(kLatency, "gone", 0, {.shape = shape});
  const Series latency = gpu_.Declare(kLatency, "train", 1, {.shape = shape});
  Tick(0, [&] {
    gpu_.writer.Set(leaves, 1);
    gpu_.writer.Set(a, 100);
    gpu_.SetBuckets(first, {1, 1, 1, 1});
    gpu_.SetBuckets(latency, {10, 20, 30, 20});
  });
  gpu_.table.Retire(leaves);
  gpu_.table.Retire(first);
  gpu_.Declare(kEnergy, "third", 3);
  Tick(10, [&] {
    gpu_.writer.Set(a, 107);
    gpu_.SetBuckets(latency, {13, 23, 33, 23});
  });
  auto out = Ride(60);
  EXPECT_THAT(ValueOf(out, "gpu.energy.sum", "train"), Optional(7.0));
  auto sum = Find(out, "inference.latency.sum", AttributeSet({{"k8s.pod.name", "train"}}));
  ASSERT_TRUE(sum);
  EXPECT_EQ(sum->cells()[0].d, 3);
}

TEST_F(RollupTest, ASourceThatIsAwayForAWhileGoesOnCounting) {
  Use(RuleOf({kSum}));
  const Series a = gpu_.Declare(kEnergy, "train", 0);
  auto without = MakeRef<Snapshot>();
  auto away = [&](int64_t second) {
    without->closed_at = At(second);
    return rollup_->Apply(without);
  };
  Tick(0, [&] { gpu_.writer.Set(a, 100); });
  Tick(30, [&] { gpu_.writer.Set(a, 110); });
  away(60);
  EXPECT_EQ(ValueOf(away(120), "gpu.energy.sum", "train"), kNothing);
  Tick(150, [&] { gpu_.writer.Set(a, 130); });
  EXPECT_THAT(ValueOf(Ride(180), "gpu.energy.sum", "train"), Optional(30.0));
  EXPECT_EQ(rollup_->stats().groups, 1u);
  for (int64_t second = 240; second < 240 + 600 + 360; second += 60) away(second);
  EXPECT_EQ(rollup_->stats().groups, 0u) << "forgotten";
  EXPECT_EQ(rollup_->stats().rolled_up, 0u);
  Tick(1500, [&] { gpu_.writer.Set(a, 200); });
  auto out = Ride(1560);
  EXPECT_THAT(ValueOf(out, "gpu.energy.sum", "train"), Optional(0.0));
  EXPECT_GT(Find(out, "gpu.energy.sum", AttributeSet({{"k8s.pod.name", "train"}}))->info->start_unix_ns,
            At(600).unix_ns);
}

TEST_F(RollupTest, HistogramsOfEqualBoundsAreAdded) {
  Use(RuleOf({kSum, kCount, kP50, kP99}));
  auto shape = MakeRef<Shape>();
  shape->bounds = {1, 2, 4};
  const Series a = gpu_.Declare(kLatency, "serve", 0, {.shape = shape});
  const Series b = gpu_.Declare(kLatency, "serve", 1, {.shape = shape});
  Tick(0, [&] {
    gpu_.SetBuckets(a, {100, 100, 100, 50, 100});
    gpu_.SetBuckets(b, {7, 7, 7, 7, 7});
  });
  Tick(30, [&] {
    gpu_.SetBuckets(a, {100, 104, 104, 56, 104});
    gpu_.SetBuckets(b, {0, 0, 4, 12, 4});  // began again
  });
  auto out = Ride(60);
  auto sum = Find(out, "inference.latency.sum", AttributeSet({{"k8s.pod.name", "serve"}}));
  ASSERT_TRUE(sum);
  EXPECT_EQ(sum->info->desc->kind, Kind::kHistogram);
  EXPECT_EQ(sum->info->shape->bounds, (std::vector<double>{1, 2, 4}));
  std::vector<double> numbers;
  CopyNumbers(sum->cells(), Number::kDouble, numbers);
  EXPECT_EQ(numbers, (std::vector<double>{0, 4, 8, 6 + 12, 8}));
  EXPECT_THAT(ValueOf(out, "inference.latency.p50", "serve"), Optional(2.0));
  EXPECT_THAT(ValueOf(out, "inference.latency.p99", "serve"), Optional(DoubleNear(3.96, 1e-9)));
  EXPECT_THAT(ValueOf(out, "inference.latency.count", "serve"), Optional(2.0));
  Tick(70, [&] {
    gpu_.SetBuckets(a, {100, 104, 104, 56, 104});
    gpu_.SetBuckets(b, {0, 0, 4, 12, 4});
  });
  out = Ride(120);
  EXPECT_EQ(ValueOf(out, "inference.latency.p50", "serve"), kNothing) << "nothing was observed";
  EXPECT_TRUE(Find(out, "inference.latency.sum", AttributeSet({{"k8s.pod.name", "serve"}})));
}

TEST_F(RollupTest, HistogramsOfOtherBoundsAreNotMixed) {
  Use(RuleOf({kSum}));
  auto shape = MakeRef<Shape>(), other = MakeRef<Shape>();
  shape->bounds = {1, 2};
  other->bounds = {1, 3};
  const Series a = gpu_.Declare(kLatency, "serve", 0, {.shape = shape});
  const Series b = gpu_.Declare(kLatency, "serve", 1, {.shape = other});
  auto out = Tick(0, [&] {
    gpu_.SetBuckets(a, {1, 1, 1, 1});
    gpu_.SetBuckets(b, {2, 2, 2, 2});
  });
  EXPECT_EQ(Refused(RollupRefusal::kBounds), 1u);
  EXPECT_TRUE(
      Find(out, "inference.latency", AttributeSet({{"k8s.pod.name", "serve"}, {"gpu.index", int64_t{1}}})));
  EXPECT_FALSE(
      Find(out, "inference.latency", AttributeSet({{"k8s.pod.name", "serve"}, {"gpu.index", int64_t{0}}})));
  // When all that had the former bounds are gone, the others have the group.
  gpu_.table.Retire(a);
  out = Tick(10, [&] { gpu_.SetBuckets(b, {2, 2, 2, 2}); });
  EXPECT_EQ(Refused(RollupRefusal::kBounds), 0u);
  Tick(20, [&] { gpu_.SetBuckets(b, {3, 3, 3, 3}); });
  auto sum = Find(Ride(60), "inference.latency.sum", AttributeSet({{"k8s.pod.name", "serve"}}));
  ASSERT_TRUE(sum);
  EXPECT_EQ(sum->info->shape->bounds, (std::vector<double>{1, 3}));
  EXPECT_EQ(sum->cells()[0].d, 1);
}

TEST_F(RollupTest, BucketsThatCannotBeBelievedAreNoReading) {
  Use(RuleOf({kSum, kCount}));
  auto shape = MakeRef<Shape>();
  shape->bounds = {1, 2};
  const Series a = gpu_.Declare(kLatency, "serve", 0, {.shape = shape});
  const double nan = std::numeric_limits<double>::quiet_NaN();
  Tick(0, [&] { gpu_.SetBuckets(a, {1, 1, 1, 1}); });
  Tick(10, [&] { gpu_.SetBuckets(a, {nan, 5, 5, 5}); });
  Tick(20, [&] { gpu_.SetBuckets(a, {2, 5, nan, 5}); });
  Tick(30, [&] { gpu_.SetBuckets(a, {5, 3, 3, 3}); });  // falls from one bound to the next
  auto sum = Find(Ride(60), "inference.latency.sum", AttributeSet({{"k8s.pod.name", "serve"}}));
  ASSERT_TRUE(sum);
  std::vector<double> numbers;
  CopyNumbers(sum->cells(), Number::kDouble, numbers);
  EXPECT_EQ(numbers, (std::vector<double>{4, 4, 2, 4}));
}

TEST_F(RollupTest, UncombinableSeriesAreSentUnchangedAndCounted) {
  Use(RuleOf({kAvg}));
  const Series info = gpu_.Declare(kInfo, "train", 0), state = gpu_.Declare(kState, "train", 0);
  const Series energy = gpu_.Declare(kEnergy, "train", 0), power = gpu_.Declare(kPower, "train", 0);
  auto out = Tick(0, [&] {
    gpu_.writer.Set(info, 1);
    gpu_.writer.Set(state, 1);
    gpu_.writer.Set(energy, 1);
    gpu_.writer.Set(power, 1);
  });
  const AttributeSet own({{"k8s.pod.name", "train"}, {"gpu.index", int64_t{0}}});
  EXPECT_TRUE(Find(out, "gpu.info", own));
  EXPECT_TRUE(Find(out, "gpu.state", own));
  EXPECT_TRUE(Find(out, "gpu.energy", own)) << "no mean of a counter";
  EXPECT_FALSE(Find(out, "gpu.power.draw", own));
  EXPECT_EQ(Refused(RollupRefusal::kKind), 2u);
  EXPECT_EQ(Refused(RollupRefusal::kFunction), 1u);
  EXPECT_EQ(rollup_->stats().left_out, 1u);
}

TEST_F(RollupTest, UnmatchedSeriesKeepTheirFrame) {
  Use(RuleOf({kAvg}, {"system.*"}));
  const Series power = gpu_.Declare(kPower, "train", 0);
  auto out = Tick(0, [&] { gpu_.writer.Set(power, 1); });
  ASSERT_EQ(out->frames.size(), 1u);
  EXPECT_EQ(out->frames[0].frame, gpu_.frame);
}

TEST_F(RollupTest, InputCanBeKept) {
  RollupRule rule = RuleOf({kAvg});
  rule.keep_input = true;
  Use(rule);
  const Series power = gpu_.Declare(kPower, "train", 0);
  Tick(0, [&] { gpu_.writer.Set(power, 1); });
  auto out = Ride(60);
  ASSERT_EQ(out->frames.size(), 2u);
  EXPECT_EQ(out->frames[0].frame, gpu_.frame);
  EXPECT_THAT(ValueOf(out, "gpu.power.draw.avg", "train"), Optional(1.0));
}

TEST_F(RollupTest, SeriesOfTooManyGroupsAreSentAsTheyAre) {
  RollupRule rule = RuleOf({kAvg});
  rule.max_groups = 2;
  Use(rule);
  std::vector<Series> power;
  for (int64_t i = 0; i < 5; ++i) power.push_back(gpu_.Declare(kPower, "pod" + std::to_string(i), i));
  auto out = Tick(0, [&] {
    for (Series one : power) gpu_.writer.Set(one, 1);
  });
  EXPECT_EQ(Refused(RollupRefusal::kLimit), 3u);
  EXPECT_EQ(rollup_->stats().groups, 2u);
  EXPECT_TRUE(
      Find(out, "gpu.power.draw", AttributeSet({{"k8s.pod.name", "pod4"}, {"gpu.index", int64_t{4}}})));
  EXPECT_FALSE(
      Find(out, "gpu.power.draw", AttributeSet({{"k8s.pod.name", "pod0"}, {"gpu.index", int64_t{0}}})));
}

TEST_F(RollupTest, ManyShortLivedPodsDoNotPileUp) {
  RollupRule rule = RuleOf({kSum, kAvg});
  rule.interval = std::chrono::seconds(15);
  Use(rule);
  Series last;
  for (int64_t i = 0; i < 300; ++i) {
    Tick(i * 15, [&] {
      gpu_.table.Retire(last);
      last = gpu_.Declare(kPower, "pod" + std::to_string(i), 0);
      gpu_.writer.Set(last, 1);
    });
    ASSERT_LE(rollup_->stats().groups, RollupGroups::kIdleIntervals + 2);
  }
  auto out = Ride(300 * 15);
  ASSERT_EQ(out->frames.size(), 1u);
  EXPECT_LE(out->frames[0].frame->layout->slots(), 2 * (RollupGroups::kIdleIntervals + 2));
}

TEST_F(RollupTest, SeveralRulesOfOneSeries) {
  RollupRule whole = RuleOf({kSum}), pods = RuleOf({kSum, kMax});
  whole.by.clear();
  whole.metrics = {"gpu.power.draw"};
  whole.name = "node.gpu.power";
  rollup_ = std::make_unique<Rollup>(std::vector{whole, pods});
  const Series a = gpu_.Declare(kPower, "train", 0), b = gpu_.Declare(kPower, "serve", 1);
  Tick(0, [&] {
    gpu_.writer.Set(a, 1);
    gpu_.writer.Set(b, 2);
  });
  auto out = Ride(60);
  ASSERT_EQ(out->frames.size(), 2u);
  auto node = Find(out, "node.gpu.power", AttributeSet());
  ASSERT_TRUE(node);
  EXPECT_EQ(node->value, 3);
  EXPECT_THAT(ValueOf(out, "gpu.power.draw.sum", "train"), Optional(1.0));
}

TEST_F(RollupTest, ARuleOfSomeKindsKeepsOtherSeries) {
  RollupRule gauges = RuleOf({kSum}), counters = RuleOf({kSum});
  gauges.kinds = {RollupForm::kReadings};
  counters.kinds = {RollupForm::kIncreases};
  counters.by = {"*"};
  rollup_ = std::make_unique<Rollup>(std::vector{gauges, counters});
  const Series power = gpu_.Declare(kPower, "train", 0), energy = gpu_.Declare(kEnergy, "train", 0);
  const Series info = gpu_.Declare(kInfo, "train", 0);
  const AttributeSet own({{"k8s.pod.name", "train"}, {"gpu.index", int64_t{0}}});
  Tick(0, [&] {
    gpu_.writer.Set(power, 1);
    gpu_.writer.Set(energy, 2);
    gpu_.writer.Set(info, 1);
  });
  auto out = Ride(60);
  EXPECT_THAT(ValueOf(out, "gpu.power.draw.sum", "train"), Optional(1.0));
  EXPECT_TRUE(Find(out, "gpu.energy.sum", own));
  EXPECT_EQ(ValueOf(out, "gpu.energy.sum", "train"), kNothing);
  EXPECT_TRUE(Find(out, "gpu.info", own));
  EXPECT_EQ(Refused(RollupRefusal::kKind), 0u) << "no rule is for it";
}

TEST_F(RollupTest, EqualResultsOfOneRuleAreRefused) {
  constexpr MetricDesc kSameName{.name = "gpu.power.draw", .unit = "mW"};
  Use(RuleOf({kAvg}));
  const Series a = gpu_.Declare(kPower, "train", 0), b = gpu_.Declare(kSameName, "train", 1);
  auto out = Tick(0, [&] {
    gpu_.writer.Set(a, 1);
    gpu_.writer.Set(b, 1);
  });
  EXPECT_EQ(Refused(RollupRefusal::kName), 1u) << "watts and milliwatts are not averaged";
  EXPECT_EQ(out->frames.size(), 1u);
}

TEST_F(RollupTest, ScrapedNamesHaveAColon) {
  Use(RuleOf({kAvg}));
  const MetricDesc* scraped = gpu_.table.Own(
      {.name = "vllm:kv_cache_usage", .help = "Usage.", .kind = Kind::kUnknown, .naming = Naming::kVerbatim});
  const Series a = gpu_.Declare(*scraped, "serve", 0);
  Tick(0, [&] { gpu_.writer.Set(a, 0.5); });
  auto avg = Find(Ride(60), "vllm:kv_cache_usage:avg", AttributeSet({{"k8s.pod.name", "serve"}}));
  ASSERT_TRUE(avg);
  EXPECT_EQ(avg->info->desc->kind, Kind::kGauge);
  EXPECT_EQ(avg->info->desc->naming, Naming::kVerbatim);
  EXPECT_EQ(avg->info->desc->help, "Roll-up (avg): Usage.");
}

TEST_F(RollupTest, ValuesThatAreNotFiniteAreLeftOut) {
  Use(RuleOf({kSum, kMax, kCount}));
  const MetricDesc kAnything{.name = "anything", .naming = Naming::kVerbatim};
  const Series a = gpu_.Declare(kAnything, "train", 0), b = gpu_.Declare(kAnything, "train", 1);
  Tick(0, [&] {
    gpu_.writer.Cells(a)[0].d = std::numeric_limits<double>::infinity();
    gpu_.writer.Cells(b)[0].d = 3;
  });
  Tick(1, [&] { gpu_.writer.Cells(a)[0].d = std::numeric_limits<double>::quiet_NaN(); });
  auto out = Ride(60);
  EXPECT_THAT(ValueOf(out, "anything:sum", "train"), Optional(3.0));
  EXPECT_THAT(ValueOf(out, "anything:max", "train"), Optional(3.0));
  EXPECT_THAT(ValueOf(out, "anything:count", "train"), Optional(1.0));
}

TEST_F(RollupTest, TheFirstIntervalHasAtLeastHalf) {
  Use(RuleOf({kAvg}));
  const Series a = gpu_.Declare(kPower, "train", 0);
  Tick(40, [&] { gpu_.writer.Set(a, 1); });
  EXPECT_TRUE(Ride(60)->frames.empty());
  auto out = Ride(120);
  ASSERT_EQ(out->frames.size(), 1u);
  EXPECT_EQ(out->frames[0].frame->read_at, At(120));
}

TEST_F(RollupTest, WallClockStepsAndSuspensionGiveNoTinyIntervalAndNoRepeatedTime) {
  Use(RuleOf({kAvg}));
  const Series a = gpu_.Declare(kPower, "train", 0);
  int64_t boot_s = 0, step_s = 0, last_ns = 0;
  uint64_t intervals = 0;
  for (int64_t tick = 0; tick < 2000; ++tick) {
    boot_s += tick % 400 == 399 ? 1000 : 1;  // suspended
    if (tick % 150 == 149) step_s += tick % 300 == 149 ? -40 : 3700;
    const Instant now{At(boot_s).boot_ns, At(boot_s + step_s).unix_ns};
    gpu_.writer.Begin(now);
    gpu_.writer.Set(a, 1);
    gpu_.frame = gpu_.writer.Finish();
    auto out = rollup_->Apply(SnapshotOf({&gpu_}, now));
    if (rollup_->stats().intervals == intervals) continue;
    intervals = rollup_->stats().intervals;
    const Instant end = out->frames[0].frame->read_at;
    EXPECT_LE(end.boot_ns, now.boot_ns);
    if (last_ns != 0) {
      EXPECT_GE(end.boot_ns - last_ns, 30'000'000'000) << "tick " << tick;
    }
    last_ns = end.boot_ns;
  }
  EXPECT_GT(intervals, 25u);
}

TEST_F(RollupTest, TheLastIntervalEndsWithTheAgent) {
  Use(RuleOf({kAvg, kSum}));
  const Series a = gpu_.Declare(kPower, "train", 0), energy = gpu_.Declare(kEnergy, "train", 0);
  Tick(0, [&] {
    gpu_.writer.Set(a, 1);
    gpu_.writer.Set(energy, 1);
  });
  gpu_.writer.Begin(At(10));
  gpu_.writer.Set(a, 3);
  gpu_.writer.Set(energy, 6);
  gpu_.frame = gpu_.writer.Finish();
  auto last = SnapshotOf({&gpu_}, At(10));
  rollup_->Apply(last);
  auto out = rollup_->ApplyLast(last);
  EXPECT_THAT(ValueOf(out, "gpu.power.draw.avg", "train"), Optional(2.0)) << "a snapshot twice is read once";
  EXPECT_THAT(ValueOf(out, "gpu.energy.sum", "train"), Optional(5.0));
  EXPECT_EQ(out->frames[0].frame->read_at, At(10));
  EXPECT_FALSE(rollup_->ApplyLast({}));
  EXPECT_FALSE(rollup_->Apply({}));
}

TEST_F(RollupTest, TheLastTickAfterAnIntervalLosesNothing) {
  Use(RuleOf({kAvg, kCount}));
  const Series a = gpu_.Declare(kPower, "train", 0);
  Tick(0, [&] { gpu_.writer.Set(a, 1); });
  gpu_.writer.Begin(At(61));
  gpu_.writer.Set(a, 3);
  gpu_.frame = gpu_.writer.Finish();
  auto out = rollup_->ApplyLast(SnapshotOf({&gpu_}, At(61)));
  EXPECT_THAT(ValueOf(out, "gpu.power.draw.avg", "train"), Optional(2.0));
}

// Up to the receiver: the results of each interval are sent once, stale ones included, and their end is
// exported when the members are gone.
TEST_F(RollupTest, SinksSendEachResultOnce) {
  Use(RuleOf({kAvg, kSum}));
  const std::string native[] = {std::string(kNativeNaming)};
  RemoteWrite push(MakeSeriesNamer(native), {.version = RemoteWriteVersion::k2});
  OtlpMetrics otlp(MakeSeriesNamer(native, NameForm::kOtel), {});
  const Series a = gpu_.Declare(kPower, "train", 0), b = gpu_.Declare(kPower, "train", 1);
  std::vector<uint64_t> samples, points;
  for (int64_t second = 0; second <= 200; second += 10) {
    auto out = Tick(second, [&] {
      if (second < 100) gpu_.writer.Set(a, 1);
      if (second < 50) gpu_.writer.Set(b, 1);
    });
    ASSERT_TRUE(push.Encode(*out, [](std::string_view, uint32_t) { return Ok(); }));
    push.Commit();
    ASSERT_TRUE(otlp.Encode(*out, [](std::string_view, uint32_t) { return Ok(); }));
    otlp.Commit();
    if (push.samples() != 0) samples.push_back(static_cast<uint64_t>(second) * 10 + push.samples());
    if (otlp.points() != 0) points.push_back(static_cast<uint64_t>(second) * 10 + otlp.points());
  }
  // Two results at 60 s and at 120 s, and their end at 180 s.
  EXPECT_EQ(samples, (std::vector<uint64_t>{602, 1202, 1802}));
  EXPECT_EQ(points, (std::vector<uint64_t>{602, 1202, 1802}));
}

TEST_F(RollupTest, ASteadyTickDoesNotAllocate) {
  RollupRule some = RuleOf({kAvg, kMax, kSum, kRate, kP90}, {"gpu.*", "inference.*"});
  some.interval = std::chrono::seconds(15);
  Use(some);
  auto shape = MakeRef<Shape>();
  shape->bounds = {1, 2, 4, 8};
  std::vector<Series> power, energy, latency;
  const Series state = gpu_.Declare(kState, "train", 0);
  for (int64_t i = 0; i < 100; ++i) {
    const std::string pod = "pod" + std::to_string(i % 7);
    power.push_back(gpu_.Declare(kPower, pod, i));
    energy.push_back(gpu_.Declare(kEnergy, pod, i));
    latency.push_back(gpu_.Declare(kLatency, pod, i, {.shape = shape}));
  }
  gpu_.writer.Begin(At(0));
  gpu_.frame = gpu_.writer.Finish();
  auto snapshot = MakeRef<Snapshot>();
  snapshot->frames.push_back({gpu_.frame, gpu_.frame->source});
  Ref<const Snapshot> out;
  auto tick = [&](int64_t second) {
    gpu_.writer.Begin(At(second));
    gpu_.writer.Set(state, 1);
    for (Series one : power) gpu_.writer.Set(one, static_cast<double>(second));
    for (Series one : energy) gpu_.writer.Set(one, static_cast<double>(second));
    for (Series one : latency) {
      for (Cell& cell : gpu_.writer.Cells(one)) cell.d = static_cast<double>(second);
    }
    snapshot->frames[0].frame = gpu_.frame = gpu_.writer.Finish();
    snapshot->closed_at = At(second);
    out = rollup_->Apply(snapshot);
  };
  for (int64_t second = 0; second < 100; ++second) tick(second);
  const uint64_t before = ThreadAllocations(), intervals = rollup_->stats().intervals;
  for (int64_t second = 100; second < 300; ++second) tick(second);
  EXPECT_EQ(ThreadAllocations() - before, 0u);
  EXPECT_EQ(before > 0u, AllocationsAreCounted());
  EXPECT_GT(rollup_->stats().intervals, intervals + 10);
  EXPECT_EQ(out->frames.size(), 2u);
}

}  // namespace
}  // namespace gpulens
