#include "core/frame_writer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace gpulens {
namespace {

constexpr double kUnknown[] = {65535};
constexpr Rule kWatts{.low = 0, .high = 1000, .sentinels = kUnknown};
constexpr MetricDesc kPower{.name = "power", .unit = "W", .help = "", .rule = &kWatts};
constexpr MetricDesc kClock{.name = "clock", .unit = "MHz", .help = "", .number = Number::kInt};
constexpr MetricDesc kBytes{
    .name = "io", .unit = "By", .help = "", .kind = Kind::kCounter, .number = Number::kInt};
constexpr MetricDesc kJoules{.name = "energy", .unit = "J", .help = "", .kind = Kind::kCounter};
constexpr MetricDesc kErrorCount{.name = "errors",
                                 .unit = "{error}",
                                 .help = "",
                                 .kind = Kind::kCounter,
                                 .number = Number::kInt,
                                 .on_decrease = OnDecrease::kReject};
constexpr MetricDesc kLatency{.name = "latency", .unit = "s", .help = "", .kind = Kind::kHistogram};

EntityRef GpuOf(int64_t index) { return MakeRef<const Entity>("gpu", AttributeSet({{"gpu.index", index}})); }

class FrameWriterTest : public testing::Test {
 protected:
  // A run at `second` in which `write` sets what it wants.
  template <class Write>
  Ref<const Frame> Run(int second, Write&& write) {
    writer.Begin(At(second));
    write();
    return writer.Finish();
  }
  Ref<const Frame> Run(int second) {
    return Run(second, [] {});
  }
  static Instant At(int second) {
    return {(second + 1) * int64_t{1'000'000'000}, second * int64_t{1'000'000'000} + 5};
  }
  static double Double(const Ref<const Frame>& frame, Series series) {
    return frame->cells[(*frame->layout)[series.slot].first_cell].d;
  }
  static int64_t Int(const Ref<const Frame>& frame, Series series) {
    return frame->cells[(*frame->layout)[series.slot].first_cell].i;
  }
  uint64_t Rejected(Validation why) { return writer.counts().rejected[static_cast<size_t>(why)]; }

  SeriesTable table;
  FrameWriter writer{table, std::chrono::seconds(10), "nvidia"};
};

TEST_F(FrameWriterTest, AFrameCarriesWhatWasSet) {
  Series power = table.Declare(kPower, GpuOf(0)), clock = table.Declare(kClock, GpuOf(0));
  auto frame = Run(1, [&] {
    writer.Set(power, 512.5);
    writer.Set(clock, 1980);
  });
  EXPECT_EQ(Double(frame, power), 512.5);
  EXPECT_EQ(Int(frame, clock), 1980);
  EXPECT_EQ(frame->quality[power.slot], Quality::kOk);
  EXPECT_EQ(frame->read_at, At(1));
  EXPECT_EQ(frame->run, 1u);
  EXPECT_EQ(frame->source, "nvidia");
  EXPECT_TRUE(frame->age_ms.empty());
  EXPECT_EQ(frame->AgeMs(power.slot), 0u);
  EXPECT_EQ(writer.counts().accepted, 2u);
  EXPECT_EQ(&writer.table(), &table);
}

TEST_F(FrameWriterTest, StoresNumbersInTheTypeOfTheFamily) {
  Series power = table.Declare(kPower, GpuOf(0)), clock = table.Declare(kClock, GpuOf(0));
  auto frame = Run(1, [&] {
    writer.Set(power, 7u);
    writer.Set(clock, 1980.9);
  });
  EXPECT_EQ(Double(frame, power), 7.0);
  EXPECT_EQ(Int(frame, clock), 1980);
}

TEST_F(FrameWriterTest, ValuesBeyondAnIntegerAreOutOfRange) {
  Series clock = table.Declare(kClock, GpuOf(0));
  auto frame = Run(1, [&] {
    for (double value :
         {std::nan(""), 1e300, -1e300, 9223372036854775808.0, std::numeric_limits<double>::infinity()}) {
      writer.Set(clock, value);
    }
  });
  EXPECT_EQ(frame->quality[clock.slot], Quality::kAbsent);
  EXPECT_EQ(Rejected(Validation::kOutOfRange), 5u);
  frame = Run(2, [&] { writer.Set(clock, -9223372036854775808.0); });
  EXPECT_EQ(Int(frame, clock), std::numeric_limits<int64_t>::min());
}

TEST_F(FrameWriterTest, NeverSetIsAbsent) {
  Series power = table.Declare(kPower, GpuOf(0));
  auto frame = Run(1);
  EXPECT_EQ(frame->quality[power.slot], Quality::kAbsent);
  EXPECT_EQ(writer.counts().stale, 0u);
}

TEST_F(FrameWriterTest, StaleWithItsAgeThenAbsent) {
  Series power = table.Declare(kPower, GpuOf(0)), other = table.Declare(kPower, GpuOf(1));
  Run(0, [&] { writer.Set(power, 100); });
  auto frame = Run(4, [&] { writer.Set(other, 1); });
  EXPECT_EQ(frame->quality[power.slot], Quality::kStale);
  EXPECT_EQ(frame->AgeMs(power.slot), 4000u);
  EXPECT_EQ(frame->AgeMs(other.slot), 0u);
  EXPECT_EQ(Double(frame, power), 100);
  EXPECT_EQ(writer.oldest_ns(), 4'000'000'000);
  EXPECT_EQ(writer.counts().stale, 1u);
  EXPECT_EQ(Run(10)->quality[power.slot], Quality::kStale) << "exactly the time to live";
  EXPECT_EQ(Run(11)->quality[power.slot], Quality::kAbsent);
  frame = Run(12, [&] { writer.Set(power, 5); });
  EXPECT_EQ(frame->quality[power.slot], Quality::kOk);
}

TEST_F(FrameWriterTest, AgeCountsFromWhenTheSourceRead) {
  Series power = table.Declare(kPower, GpuOf(0)), other = table.Declare(kPower, GpuOf(1));
  Run(5, [&] {
    writer.ReadAt(At(3));
    EXPECT_EQ(writer.read_at(), At(3));
    writer.Set(power, 1);
    writer.ReadAt(At(5));
    writer.Set(other, 1);
  });
  EXPECT_EQ(Run(6)->AgeMs(power.slot), 3000u);
  EXPECT_EQ(Run(6)->AgeMs(other.slot), 1000u);
}

TEST_F(FrameWriterTest, ASourceThatGoesBackInTimeHasNoAge) {
  Series power = table.Declare(kPower, GpuOf(0));
  Run(5, [&] { writer.Set(power, 1); });
  auto frame = Run(6, [&] { writer.ReadAt(At(2)); });
  EXPECT_EQ(frame->quality[power.slot], Quality::kStale);
  EXPECT_EQ(frame->AgeMs(power.slot), 0u);
}

TEST_F(FrameWriterTest, ARejectedReadingLeavesTheLastGoodOneStale) {
  Series power = table.Declare(kPower, GpuOf(0));
  Run(1, [&] { writer.Set(power, 100); });
  auto frame = Run(2, [&] { writer.Set(power, 65535); });
  EXPECT_EQ(frame->quality[power.slot], Quality::kStale);
  EXPECT_EQ(Double(frame, power), 100);
  frame = Run(3, [&] { writer.Set(power, -1); });
  EXPECT_EQ(Double(frame, power), 100);
  EXPECT_EQ(Rejected(Validation::kSentinel), 1u);
  EXPECT_EQ(Rejected(Validation::kOutOfRange), 1u);
  EXPECT_EQ(Rejected(Validation::kAccepted), 0u);
}

TEST_F(FrameWriterTest, RejectWithdrawsWhatThisRunSet) {
  Series power = table.Declare(kPower, GpuOf(0));
  Run(1, [&] { writer.Set(power, 100); });
  auto frame = Run(2, [&] {
    writer.Set(power, 200);
    writer.Reject(power, Validation::kInconsistent);
  });
  EXPECT_EQ(frame->quality[power.slot], Quality::kAbsent) << "200 is not believed and 100 is overwritten";
  EXPECT_EQ(Rejected(Validation::kInconsistent), 1u);
  EXPECT_EQ(Run(3)->quality[power.slot], Quality::kAbsent);
}

TEST_F(FrameWriterTest, RejectWithoutASetKeepsTheOldOneStale) {
  Series power = table.Declare(kPower, GpuOf(0));
  Run(1, [&] { writer.Set(power, 100); });
  auto frame = Run(2, [&] { writer.Reject(power, Validation::kNotSupported); });
  EXPECT_EQ(frame->quality[power.slot], Quality::kStale);
}

TEST_F(FrameWriterTest, SetRawValidatesTheRawReadingAndSetsTheScaledOne) {
  Series power = table.Declare(kPower, GpuOf(0)), clock = table.Declare(kClock, GpuOf(0));
  writer.Begin(At(1));
  writer.SetRaw(power, int64_t{250'000}, 1000);
  writer.SetRaw(clock, int64_t{1980});
  EXPECT_EQ(writer.SetInThisRun(power.slot)->value, 250);
  EXPECT_EQ(writer.SetInThisRun(clock.slot)->value, 1980);
  writer.Begin(At(2));
  writer.SetRaw(power, int64_t{4294967295}, 1e9);
  writer.SetRaw(clock, 9223372036854775792.0);
  EXPECT_FALSE(writer.SetInThisRun(power.slot)) << "4.3 would be a number of watts";
  EXPECT_EQ(writer.counts().rejected[static_cast<size_t>(Validation::kSentinel)], 2u);
  EXPECT_TRUE(writer.RejectSentinel(power, int64_t{65535}));
  EXPECT_FALSE(writer.RejectSentinel(power, int64_t{300}));
}

TEST_F(FrameWriterTest, KeepMakesAnOldValueFresh) {
  Series power = table.Declare(kPower, GpuOf(0)), never = table.Declare(kPower, GpuOf(1));
  Run(1, [&] { writer.Set(power, 100); });
  auto frame = Run(9, [&] {
    writer.Keep(power);
    writer.Keep(never);
  });
  EXPECT_EQ(frame->quality[power.slot], Quality::kOk);
  EXPECT_EQ(frame->quality[never.slot], Quality::kAbsent);
  EXPECT_EQ(Run(19)->quality[power.slot], Quality::kStale);
}

TEST_F(FrameWriterTest, InvalidHandlesVanishAndAreCounted) {
  Series power = table.Declare(kPower, GpuOf(0));
  table.Retire(power);
  Run(1, [&] {
    writer.Set(Series{}, 1.0);
    writer.SetInt(power, 1);
    EXPECT_TRUE(writer.Cells(Series{}).empty());
    writer.Keep(power);
    writer.Reject(Series{}, Validation::kSentinel);
    writer.Attach(Series{}, {});
  });
  EXPECT_EQ(writer.counts().invalid, 6u);
  EXPECT_EQ(writer.counts().accepted, 0u);
}

TEST_F(FrameWriterTest, TheFirstReadingOfACounterIsItsBase) {
  Series bytes = table.Declare(kBytes, GpuOf(0));
  auto frame = Run(3, [&] { writer.Set(bytes, 1000); });
  EXPECT_EQ((*frame->layout)[bytes.slot].start_unix_ns, At(3).unix_ns);
  EXPECT_FALSE((*frame->layout)[bytes.slot].start_known);
  auto next = Run(4, [&] { writer.Set(bytes, 1500); });
  EXPECT_EQ(next->layout, frame->layout) << "growth is no change of identity";
}

TEST_F(FrameWriterTest, AKnownStartIsKept) {
  Series bytes = table.Declare(kBytes, GpuOf(0), {}, {.start_unix_ns = 7});
  auto frame = Run(3, [&] { writer.Set(bytes, 1000); });
  EXPECT_EQ((*frame->layout)[bytes.slot].start_unix_ns, 7);
  EXPECT_TRUE((*frame->layout)[bytes.slot].start_known);
}

TEST_F(FrameWriterTest, ACounterThatFallsBeginsANewIdentity) {
  for (const MetricDesc* desc : {&kBytes, &kJoules}) {
    Series series = table.Declare(*desc, GpuOf(0), {}, {.start_unix_ns = 7});
    auto before = Run(1, [&] { writer.Set(series, 1000); });
    auto after = Run(2, [&] { writer.Set(series, 10); });
    EXPECT_NE(after->layout->id(), before->layout->id());
    EXPECT_EQ((*after->layout)[series.slot].start_unix_ns, At(2).unix_ns);
    EXPECT_FALSE((*after->layout)[series.slot].start_known);
    EXPECT_EQ((*before->layout)[series.slot].start_unix_ns, 7) << "the old frame is as it was";
    auto later = Run(3, [&] { writer.Set(series, 11); });
    EXPECT_EQ(later->layout, after->layout);
  }
}

TEST_F(FrameWriterTest, AFallAfterAWithdrawnReadingIsARestartToo) {
  Series bytes = table.Declare(kBytes, GpuOf(0));
  Run(1, [&] { writer.Set(bytes, 1000); });
  Run(2, [&] {
    writer.Set(bytes, 2000);
    writer.Reject(bytes, Validation::kInconsistent);
  });
  auto frame = Run(3, [&] { writer.Set(bytes, 5); });
  EXPECT_EQ((*frame->layout)[bytes.slot].start_unix_ns, At(3).unix_ns);
}

TEST_F(FrameWriterTest, AClearedValueIsAbsentAndNotRejected) {
  Series power = table.Declare(kPower, GpuOf(0));
  auto first = Run(1, [&] { writer.Set(power, 100); });
  auto frame = Run(2, [&] { writer.Clear(power); });
  EXPECT_EQ(frame->quality[power.slot], Quality::kAbsent);
  EXPECT_EQ(frame->absence[power.slot], Absence::kNotRead);
  EXPECT_EQ(frame->layout, first->layout);
  EXPECT_EQ(Run(3, [] {})->quality[power.slot], Quality::kAbsent);
  EXPECT_EQ(Run(4, [&] { writer.Set(power, 90); })->quality[power.slot], Quality::kOk);
  writer.Clear(Series{});
  EXPECT_EQ(writer.counts().invalid, 1u);
}

TEST_F(FrameWriterTest, AStrictCounterIsBelievedAgainAfterThreeReadings) {
  Series errors = table.Declare(kErrorCount, GpuOf(0));
  auto first = Run(1, [&] { writer.Set(errors, 100); });
  Run(2, [&] { writer.Set(errors, 1); });
  auto rejected = Run(3, [&] { writer.Set(errors, 2); });
  EXPECT_EQ(Int(rejected, errors), 100);
  EXPECT_EQ(rejected->quality[errors.slot], Quality::kStale);
  EXPECT_EQ(rejected->layout, first->layout);
  EXPECT_EQ(Rejected(Validation::kCounterDecreased), 2u);
  auto frame = Run(4, [&] { writer.Set(errors, 4); });
  EXPECT_EQ(Int(frame, errors), 4);
  EXPECT_EQ((*frame->layout)[errors.slot].start_unix_ns, At(4).unix_ns);
}

TEST_F(FrameWriterTest, ARetiredSlotShowsNothing) {
  Series power = table.Declare(kPower, GpuOf(0));
  auto frame = Run(1, [&] {
    writer.Set(power, 100);
    table.Retire(power);
  });
  EXPECT_EQ((*frame->layout)[power.slot].desc, nullptr);
  EXPECT_EQ(frame->quality[power.slot], Quality::kAbsent);
}

TEST_F(FrameWriterTest, ASlotTakenOverNeverShowsTheOldValue) {
  Series old = table.Declare(kPower, GpuOf(0));
  Run(1, [&] { writer.Set(old, 100); });
  Series next;
  auto frame = Run(2, [&] {
    table.Retire(old);
    next = table.Declare(kPower, GpuOf(1));
  });
  ASSERT_EQ(next.slot, old.slot);
  EXPECT_EQ(frame->quality[next.slot], Quality::kAbsent) << "set in an earlier run";

  frame = Run(3, [&] {
    writer.Set(next, 200);
    table.Retire(next);
    next = table.Declare(kPower, GpuOf(2));
  });
  EXPECT_EQ(frame->quality[next.slot], Quality::kAbsent) << "set in the same run";
  EXPECT_EQ(Run(4)->quality[next.slot], Quality::kAbsent);
  frame = Run(5, [&] { writer.Set(next, 300); });
  EXPECT_EQ(frame->quality[next.slot], Quality::kOk);
  EXPECT_EQ(Double(frame, next), 300);
}

TEST_F(FrameWriterTest, ReusedSlotHasNewValidatorState) {
  Series old = table.Declare(kErrorCount, GpuOf(0));
  Run(1, [&] { writer.Set(old, 1000); });
  table.Retire(old);
  Series next = table.Declare(kErrorCount, GpuOf(1));
  ASSERT_EQ(next.slot, old.slot);
  auto frame = Run(2, [&] { writer.Set(next, 3); });
  EXPECT_EQ(frame->quality[next.slot], Quality::kOk);
  EXPECT_EQ(Rejected(Validation::kCounterDecreased), 0u);
}

TEST_F(FrameWriterTest, CellsOfAHistogramAreWrittenInPlace) {
  auto shape = MakeRef<Shape>();
  shape->bounds = {1, 2};
  Series gauge = table.Declare(kPower, GpuOf(0));
  Series latency = table.Declare(kLatency, GpuOf(0), {}, {.shape = shape});
  auto frame = Run(1, [&] {
    std::span<Cell> cells = writer.Cells(latency);
    ASSERT_EQ(cells.size(), 4u);
    for (size_t i = 0; i < 4; ++i) cells[i].d = static_cast<double>(i + 1);
    writer.Set(gauge, 9);
  });
  uint32_t first = (*frame->layout)[latency.slot].first_cell;
  for (uint32_t i = 0; i < 4; ++i) EXPECT_EQ(frame->cells[first + i].d, i + 1);
  EXPECT_EQ(frame->quality[latency.slot], Quality::kOk);
  EXPECT_EQ(Double(frame, gauge), 9);
}

TEST_F(FrameWriterTest, ExemplarsPointAtTheirCellAndAreBounded) {
  table.Declare(kPower, GpuOf(0));
  Series bytes = table.Declare(kBytes, GpuOf(0));
  auto frame = Run(1, [&] {
    for (int i = 0; i < 1005; ++i) writer.Attach(bytes, {.cell = 0, .value = 1.0 * i, .attributes = {}});
  });
  ASSERT_EQ(frame->exemplars.size(), 1000u);
  EXPECT_EQ(frame->exemplars[0].cell, (*frame->layout)[bytes.slot].first_cell);
  double sum = 0;
  for (const Exemplar& exemplar : frame->exemplars) sum += exemplar.value;
  EXPECT_EQ(sum, 999 * 1000 / 2) << "the first thousand";
  EXPECT_TRUE(Run(2)->exemplars.empty());
}

TEST_F(FrameWriterTest, SeriesMayBeDeclaredDuringARun) {
  Run(1);
  auto frame = Run(2, [&] {
    Series late = table.Declare(kPower, GpuOf(7));
    writer.Set(late, 70);
  });
  ASSERT_EQ(frame->quality.size(), 1u);
  EXPECT_EQ(frame->cells[0].d, 70);
}

TEST_F(FrameWriterTest, ReusesAFrameOnlyWithoutReferences) {
  Series power = table.Declare(kPower, GpuOf(0));
  std::vector<Ref<const Frame>> held;
  for (int i = 0; i < 8; ++i) {
    held.push_back(Run(i, [&] { writer.Set(power, i); }));
  }
  for (size_t i = 0; i < held.size(); ++i) {
    EXPECT_EQ(Double(held[i], power), static_cast<double>(i));
    EXPECT_EQ(held[i]->run, i + 1);
    for (size_t k = 0; k < i; ++k) EXPECT_NE(held[i], held[k]);
  }
  const Frame* first = held[0].get();
  held.clear();
  EXPECT_EQ(Run(9).get(), first);
}

// Receivers compare times of pages with those that others have read: not even the last millisecond may
// differ.
TEST_F(FrameWriterTest, AMillisecondThatASourceStatesStaysTheSame) {
  Series power = table.Declare(kPower, GpuOf(0));
  constexpr int64_t kMs = 1'000'000, kStated = 1'700'000'000'123 * kMs, kSecond = 1'000 * kMs;
  // The run begins at any fraction of a millisecond, and its clocks were read up to 400 ns apart.
  for (int64_t fraction = 0; fraction < kMs; fraction += 99'999) {
    for (int64_t apart : {-400, 0, 400}) {
      const Instant begun{kSecond * 60 + fraction, kStated + kSecond + fraction};
      writer.Begin(begun);
      writer.DatedAt({begun.boot_ns - kSecond - fraction + apart, kStated});
      writer.Set(power, 100);
      const auto frame = writer.Finish();
      EXPECT_EQ(frame->read_at.unix_ns / kMs - frame->AgeMs(power.slot), kStated / kMs)
          << fraction << " " << apart;
    }
  }
}

// A source that dates its values may repeat an old one for ever.
TEST_F(FrameWriterTest, DatedValueHasTheAgeOfItsSource) {
  Series power = table.Declare(kPower, GpuOf(0)), clock = table.Declare(kClock, GpuOf(0));
  auto dated = [&](int age_s) {
    return Run(5000, [&] {
      writer.DatedAt(At(5000 - age_s));
      EXPECT_EQ(writer.read_at(), At(5000 - age_s));
      writer.Set(power, 100);
      writer.ReadAt(At(5000));
      writer.Set(clock, 7);
    });
  };
  auto frame = dated(4);
  EXPECT_EQ(frame->quality[power.slot], Quality::kOk);
  EXPECT_EQ(frame->AgeMs(power.slot), 4000u);
  EXPECT_EQ(frame->AgeMs(clock.slot), 0u);
  frame = dated(11);
  EXPECT_EQ(frame->quality[power.slot], Quality::kStale) << "older than the time to live";
  EXPECT_EQ(frame->AgeMs(power.slot), 11'000u);
  EXPECT_EQ(writer.counts().stale, 1u);
  EXPECT_EQ(Double(frame, power), 100);
  frame = dated(3600);
  EXPECT_EQ(frame->quality[power.slot], Quality::kStale);
  frame = dated(3601);
  EXPECT_EQ(frame->quality[power.slot], Quality::kAbsent);
  EXPECT_EQ(frame->absence[power.slot], Absence::kTooOld);
  EXPECT_EQ(frame->quality[clock.slot], Quality::kOk);
  frame = dated(-3);
  EXPECT_EQ(frame->quality[power.slot], Quality::kOk);
  EXPECT_EQ(frame->AgeMs(power.slot), 0u);
  // Begin forgets it.
  frame = Run(5001, [&] { writer.Set(power, 100); });
  EXPECT_EQ(frame->quality[power.slot], Quality::kOk);
  EXPECT_EQ(frame->AgeMs(power.slot), 0u);
}

}  // namespace
}  // namespace gpulens
