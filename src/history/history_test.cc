#include "history/history.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <random>
#include <set>
#include <sstream>

#include "base/testing/allocations.h"
#include "catalog/all.h"
#include "catalog/cost.h"
#include "catalog/self.h"
#include "history/history_testing.h"

namespace gpulens {
namespace {

using history_testing::FakeSource;
using history_testing::Gpu;
using history_testing::MakeTick;
using history_testing::Ms;
using history_testing::SamplesOf;

constexpr Duration kSecond = std::chrono::seconds(1);

// A history and its clock; each tick is closed 100 ms after its sources were read.
struct HistoryFixture : testing::Test {
  explicit HistoryFixture(const History::Options& options = {}) : history(options) { history.Begin(); }

  void Tick(const std::vector<std::pair<const FakeSource*, bool>>& sources) {
    auto snapshot = MakeTick(++tick, clock.Now() + std::chrono::milliseconds(100));
    for (const auto& [source, overdue] : sources) source->AddTo(*snapshot, overdue);
    history.Observe(*snapshot);
    clock.Advance(kSecond);
  }
  void Tick(const FakeSource& source) { Tick({{&source, false}}); }

  ManualClock clock;
  History history;
  uint64_t tick = 0;
};

std::vector<double> Values(const std::vector<SeriesSample>& samples) {
  std::vector<double> values;
  for (const SeriesSample& sample : samples) values.push_back(sample.value);
  return values;
}

std::string Marks(const std::vector<SeriesSample>& samples) {
  std::string marks;
  for (const SeriesSample& sample : samples) marks += sample.reset ? 'r' : "osg"[sample.mark];
  return marks;
}

TEST(KeptTable, HasNoMetricTwiceAndNoneWithSeveralNumbers) {
  std::set<std::string_view> names;
  for (const MetricDesc* row : KeptMetrics()) {
    EXPECT_TRUE(names.insert(row->name).second) << row->name << " is twice in kept.def";
    EXPECT_EQ(FindMetric(row->name), row);
    EXPECT_TRUE(row->kind != Kind::kHistogram && row->kind != Kind::kGaugeHistogram &&
                row->kind != Kind::kSummary)
        << row->name;
    EXPECT_FALSE(row->translated_only) << row->name;
  }
}

TEST(KeptTable, HasTheCountOfItsPage) {
  std::stringstream text;
  text << std::ifstream(GPULENS_SOURCE_DIR "/docs/history.md").rdbuf();
  const std::string count = std::to_string(KeptMetrics().size()) + " metrics: `src/history/kept.def`";
  EXPECT_NE(text.str().find(count), std::string::npos) << "docs/history.md does not have: " << count;
}

using HistoryTest = HistoryFixture;

TEST_F(HistoryTest, KeepsValuesWithTheTimesAtWhichTheyWereRead) {
  FakeSource source("nvidia");
  const Series power = source.Declare(kGpuPowerDraw, Gpu(0)), used = source.Declare(kGpuMemoryUsed, Gpu(0));
  const Instant start = clock.Now();
  for (double watts : {612.34, 612.34, 71.0}) {
    source.Read(clock.Now(), {{power, {watts}}, {used, {1e9}}});
    Tick(source);
  }
  const std::vector<SeriesSample> samples = SamplesOf(history, "gpu.power.draw{gpu.index=\"0\"}");
  EXPECT_EQ(Values(samples), (std::vector<double>{612.34, 612.34, 71.0}));
  EXPECT_EQ(Marks(samples), "ooo");
  for (size_t i = 0; i < samples.size(); ++i)
    EXPECT_EQ(samples[i].unix_ms, Ms(start) + 1000 * static_cast<int64_t>(i));
  EXPECT_EQ(Values(SamplesOf(history, "gpu.memory.used")), std::vector<double>(3, 1e9));
  EXPECT_TRUE(SamplesOf(history, "gpu.power.draw{gpu.index=\"1\"}").empty());
  const History::Stats stats = history.stats();
  EXPECT_TRUE(stats.begun);
  EXPECT_EQ(stats.series, 2u);
  EXPECT_EQ(stats.samples, 6u);
  EXPECT_EQ(stats.begin_ms, Ms(start));
}

TEST_F(HistoryTest, AWindowHasTheSampleBeforeIt) {
  FakeSource source("nvidia");
  const Series power = source.Declare(kGpuPowerDraw, Gpu(0));
  const int64_t start = Ms(clock.Now());
  for (int i = 0; i < 10; ++i) {
    source.Read(clock.Now(), {{power, {100.0 + i}}});
    Tick(source);
  }
  EXPECT_EQ(Values(SamplesOf(history, "gpu.power.draw", start + 3500, start + 6000)),
            (std::vector<double>{103, 104, 105, 106}));
  EXPECT_EQ(Values(SamplesOf(history, "gpu.power.draw", start + 3000, start + 3000)),
            (std::vector<double>{102, 103}));
}

TEST_F(HistoryTest, AFrameThatRidesAgainIsNoSample) {
  FakeSource source("targets/chat", 5 * kSecond);
  const Series power = source.Declare(kGpuPowerDraw, Gpu(0));
  source.Read(clock.Now(), {{power, {1}}});
  for (int i = 0; i < 5; ++i) Tick(source);
  source.Read(clock.Now(), {{power, {2}}});
  Tick(source);
  EXPECT_EQ(Values(SamplesOf(history, "gpu.power.draw")), (std::vector<double>{1, 2}));
}

TEST_F(HistoryTest, MarksStaleValuesAndOverdueFrames) {
  FakeSource source("nvidia");
  const Series power = source.Declare(kGpuPowerDraw, Gpu(0));
  source.Read(clock.Now(), {{power, {1}}});
  Tick(source);
  source.Read(clock.Now(), {{power, {1, true}}});
  Tick(source);
  source.Read(clock.Now(), {{power, {1}}});
  Tick(source);
  const int64_t overdue_at = Ms(clock.Now()) + 100;
  Tick({{&source, true}});
  Tick({{&source, true}});
  source.Read(clock.Now(), {{power, {1}}});
  Tick(source);
  const std::vector<SeriesSample> samples = SamplesOf(history, "gpu.power.draw");
  EXPECT_EQ(Marks(samples), "ososo");
  EXPECT_EQ(samples[3].unix_ms, overdue_at);
}

TEST_F(HistoryTest, AnAbsentValueAndASourceThatLeavesAreGaps) {
  FakeSource source("nvidia");
  const Series power = source.Declare(kGpuPowerDraw, Gpu(0));
  source.Read(clock.Now(), {{power, {1}}});
  Tick(source);
  source.Read(clock.Now(), {});
  Tick(source);
  source.Read(clock.Now(), {});
  Tick(source);
  source.Read(clock.Now(), {{power, {2}}});
  Tick(source);
  const int64_t left = Ms(clock.Now()) + 100;
  Tick(std::vector<std::pair<const FakeSource*, bool>>());
  Tick(std::vector<std::pair<const FakeSource*, bool>>());
  source.Read(clock.Now(), {{power, {3}}});
  Tick(source);
  const std::vector<SeriesSample> samples = SamplesOf(history, "gpu.power.draw");
  EXPECT_EQ(Marks(samples), "ogogo");
  EXPECT_TRUE(std::isnan(samples[1].value));
  EXPECT_EQ(samples[3].unix_ms, left);
  EXPECT_EQ(samples[4].value, 3);
}

TEST_F(HistoryTest, MarksWhereACounterBeganAgain) {
  FakeSource source("nvidia");
  const Series energy = source.Declare(kGpuEnergyConsumption, Gpu(0), 1);
  for (double joules : {1000.5, 1600.5}) {
    source.Read(clock.Now(), {{energy, {joules}}});
    Tick(source);
  }
  source.Restart(energy, 7);
  for (double joules : {2000.5, 2600.5, 3.0, 600.0}) {
    source.Read(clock.Now(), {{energy, {joules}}});
    Tick(source);
  }
  const std::vector<SeriesSample> samples = SamplesOf(history, "gpu.energy.consumption");
  EXPECT_EQ(Marks(samples), "oororo");  // a new start, then a fall
  EXPECT_EQ(Values(samples), (std::vector<double>{1000.5, 1600.5, 2000.5, 2600.5, 3, 600}));
}

// A large increase is rounded to fewer digits than a small one that follows it.
TEST_F(HistoryTest, ACounterNeverFallsByRounding) {
  FakeSource source("nvidia");
  const Series energy = source.Declare(kGpuEnergyConsumption, Gpu(0), 1);
  for (double joules : {0.701, 0.705866406, 0.705866408, 0.705866408, 0.705866412}) {
    source.Read(clock.Now(), {{energy, {joules}}});
    Tick(source);
  }
  const std::vector<SeriesSample> samples = SamplesOf(history, "gpu.energy.consumption");
  EXPECT_EQ(Marks(samples), "ooooo");
  EXPECT_EQ(Values(samples), (std::vector<double>{0.701, 0.70586641, 0.70586641, 0.70586641, 0.705866412}));
}

TEST_F(HistoryTest, ASeriesThatEndsAndReturnsIsTheSameAndOneWithOtherAttributesIsNot) {
  FakeSource source("nvidia");
  Series power = source.Declare(kGpuPowerDraw, Gpu(0));
  source.Read(clock.Now(), {{power, {1}}});
  Tick(source);
  History::Current current;
  history.ReadCurrent(current);
  ASSERT_EQ(current.series->size(), 1u);
  const uint32_t id = current.series->front().id;
  const uint64_t layout = current.layout;

  source.Retire(power);
  const Series other = source.Declare(kGpuPowerDraw, Gpu(1));
  source.Read(clock.Now(), {{other, {5}}});
  Tick(source);
  history.ReadCurrent(current);
  ASSERT_EQ(current.series->size(), 1u);
  EXPECT_NE(current.layout, layout);
  EXPECT_NE(current.series->front().id, id);
  EXPECT_EQ(current.values, (std::vector<double>{5}));

  power = source.Declare(kGpuPowerDraw, Gpu(0));
  source.Read(clock.Now(), {{power, {2}}, {other, {6}}});
  Tick(source);
  history.ReadCurrent(current);
  ASSERT_EQ(current.series->size(), 2u);
  EXPECT_EQ(current.series->front().id, id);
  EXPECT_EQ(Marks(SamplesOf(history, "gpu.power.draw{gpu.index=\"0\"}")), "ogo");
  EXPECT_EQ(Values(SamplesOf(history, "gpu.power.draw{gpu.index=\"1\"}")), (std::vector<double>{5, 6}));
}

TEST_F(HistoryTest, CurrentValuesAreExactAndHaveTheirAge) {
  FakeSource source("nvidia");
  const Series active = source.Declare(kGpuSmActive, Gpu(0)), power = source.Declare(kGpuPowerDraw, Gpu(0));
  const Series missing = source.Declare(kGpuTemperature, Gpu(0));
  static_cast<void>(missing);
  source.Read(clock.Now(), {{active, {1.0 / 3}}, {power, {9, true}}});
  const int64_t read = Ms(clock.Now());
  Tick(source);
  History::Current current;
  history.ReadCurrent(current);
  ASSERT_EQ(current.values.size(), 3u);
  EXPECT_EQ(current.tick, 1u);
  History::Current other;
  history.ReadCurrent(other);
  EXPECT_EQ(other.series, current.series) << "readers share the list";
  EXPECT_EQ(current.values[0], 1.0 / 3);
  EXPECT_EQ(current.stale_ms, (std::vector<uint32_t>{0, 1500, 0}));
  EXPECT_TRUE(std::isnan(current.values[2]));
  EXPECT_EQ(current.read[current.sources[0]], (std::pair<std::string, int64_t>("nvidia", read)));
  EXPECT_NEAR(SamplesOf(history, "gpu.sm.active").front().value, 1.0 / 3, 5e-8 / 3);
}

// The clock of the wall jumps by a day: all samples are shown on the clock as it is now, in their order.
TEST_F(HistoryTest, AJumpOfTheWallClockShiftsWhatWasKept) {
  FakeSource source("nvidia");
  const Series power = source.Declare(kGpuPowerDraw, Gpu(0));
  source.Read(clock.Now(), {{power, {1}}});
  Tick(source);
  Instant now = clock.Now();
  now.unix_ns -= 86'400'000'000'000;
  source.Read(now, {{power, {2}}});
  auto snapshot = MakeTick(++tick, now);
  source.AddTo(*snapshot);
  history.Observe(*snapshot);
  const std::vector<SeriesSample> samples = SamplesOf(history, "gpu.power.draw");
  ASSERT_EQ(samples.size(), 2u);
  EXPECT_EQ(samples[1].unix_ms, Ms(now));
  EXPECT_EQ(samples[0].unix_ms, Ms(now) - 1000);
}

TEST(HistoryBegin, NothingIsKeptBeforeItAndTheSameTickCountsOnce) {
  ManualClock clock;
  History history({});
  FakeSource source("nvidia");
  const Series power = source.Declare(kGpuPowerDraw, Gpu(0));
  source.Read(clock.Now(), {{power, {1}}});
  auto snapshot = MakeTick(1, clock.Now());
  source.AddTo(*snapshot);
  history.Observe(*snapshot);
  EXPECT_FALSE(history.stats().begun);
  EXPECT_EQ(history.stats().memory, 0u);
  EXPECT_TRUE(SamplesOf(history, "gpu.power.draw").empty());
  EXPECT_TRUE(history.stats().begun) << "a reader begins it";
  history.Observe(*snapshot);
  history.Observe(*snapshot);
  EXPECT_EQ(SamplesOf(history, "gpu.power.draw").size(), 1u);
}

TEST_F(HistoryTest, AReaderGetsNoMoreThanItsLimit) {
  FakeSource source("nvidia");
  const Series power = source.Declare(kGpuPowerDraw, Gpu(0));
  for (int i = 0; i < 10; ++i) {
    source.Read(clock.Now(), {{power, {1.0 * i}}});
    Tick(source);
  }
  EXPECT_EQ(history.Read({}, 0, int64_t{1} << 50, 10)->front().samples.size(), 10u);
  const auto refused = history.Read({}, 0, int64_t{1} << 50, 9);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, Code::kExhausted);
}

struct SmallHistoryTest : HistoryFixture {
  SmallHistoryTest() : HistoryFixture({.window = std::chrono::hours(1), .memory = 256 << 10}) {}
};

// 256 KiB have room for 256 series.
TEST_F(SmallHistoryTest, MoreSeriesThanThereIsRoomForAreRefusedTheLeastImportantFirst) {
  FakeSource unimportant("self"), important("nvidia");
  std::vector<std::pair<Series, history_testing::Value>> few, many;
  for (int64_t i = 0; i < 200; ++i) few.push_back({unimportant.Declare(kSelfEventsDropped, Gpu(i)), {1}});
  for (int64_t i = 0; i < 100; ++i) many.push_back({important.Declare(kGpuPowerDraw, Gpu(i)), {2}});
  unimportant.Read(clock.Now(), few);
  Tick(unimportant);
  EXPECT_EQ(history.stats().series, 200u);
  EXPECT_EQ(history.stats().series_refused, 0u);
  unimportant.Read(clock.Now(), few);
  important.Read(clock.Now(), many);
  Tick({{&unimportant, false}, {&important, false}});
  EXPECT_EQ(history.stats().series, 256u);
  EXPECT_EQ(history.stats().series_refused, 44u);
  for (int64_t i = 0; i < 100; ++i)
    EXPECT_EQ(SamplesOf(history, "gpu.power.draw{gpu.index=\"" + std::to_string(i) + "\"}").size(), 1u);
  // When there is room again, those that were refused are kept.
  for (size_t i = 0; i < 60; ++i) important.Retire(many[i].first);
  many.erase(many.begin(), many.begin() + 60);
  for (int i = 0; i < 3; ++i) {
    unimportant.Read(clock.Now(), few);
    important.Read(clock.Now(), many);
    Tick({{&unimportant, false}, {&important, false}});
  }
  EXPECT_EQ(history.stats().series, 240u);
  EXPECT_EQ(history.stats().series_refused, 0u);
}

// Processes come and go all the time; the series that ended first make room.
TEST_F(SmallHistoryTest, SeriesThatEndedMakeRoomForNewOnes) {
  FakeSource source("nvidia");
  const Series power = source.Declare(kGpuPowerDraw, Gpu(0));
  Series process{};
  for (int64_t i = 0; i < 2000; ++i) {
    if (process) source.Retire(process);
    process =
        source.Declare(kGpuProcessMemoryUsed, AttributeSet({{"gpu.index", int64_t{0}}, {"process.pid", i}}));
    source.Read(clock.Now(), {{power, {100 + 0.1 * static_cast<double>(i % 7)}}, {process, {1e6}}});
    Tick(source);
  }
  const History::Stats stats = history.stats();
  EXPECT_EQ(stats.series, 2u);
  EXPECT_EQ(stats.series_refused, 0u);
  EXPECT_LE(stats.memory, 256u << 10);
  EXPECT_EQ(SamplesOf(history, "gpu.power.draw").size(), 2000u);
  EXPECT_EQ(Marks(SamplesOf(history, "gpu.process.memory.used{process.pid=\"1999\"}")), "o");
  EXPECT_EQ(Marks(SamplesOf(history, "gpu.process.memory.used{process.pid=\"1990\"}")), "og");
  EXPECT_TRUE(SamplesOf(history, "gpu.process.memory.used{process.pid=\"9\"}").empty());
}

// Noise in all digits needs more memory than there is for an hour: the oldest samples go, and the memory
// stays.
TEST_F(SmallHistoryTest, TheOldestSamplesGoFirst) {
  FakeSource source("nvidia");
  std::mt19937_64 random(1);
  std::uniform_real_distribution<double> watts(100, 700);
  std::vector<std::pair<Series, history_testing::Value>> values;
  for (int64_t i = 0; i < 32; ++i) values.push_back({source.Declare(kGpuPowerDraw, Gpu(i)), {}});
  std::vector<double> first;
  uint64_t memory = 0;
  for (int i = 0; i < 6000; ++i) {
    for (auto& [series, value] : values) value.number = watts(random);
    first.push_back(values.front().second.number);
    source.Read(clock.Now(), values);
    Tick(source);
    if (i == 100) memory = history.stats().memory;
  }
  const History::Stats stats = history.stats();
  EXPECT_EQ(stats.memory, memory);
  EXPECT_LE(stats.memory, 256u << 10);
  const std::vector<SeriesSample> samples = SamplesOf(history, "gpu.power.draw{gpu.index=\"0\"}");
  ASSERT_GT(samples.size(), 1000u);
  ASSERT_LT(samples.size(), 3000u);
  for (size_t i = 1; i <= samples.size(); ++i)
    EXPECT_NEAR(samples[samples.size() - i].value, first[first.size() - i], 5e-5);
  EXPECT_EQ(samples[1].unix_ms, stats.begin_ms) << "the first one was carried over";
}

// A day in seconds: only the last hour is there, and it costs what it did.
TEST_F(HistoryTest, ADayOfTicksKeepsTheLastHour) {
  FakeSource source("nvidia");
  std::vector<std::pair<Series, history_testing::Value>> values;
  for (int64_t i = 0; i < 8; ++i) {
    values.push_back({source.Declare(kGpuPowerDraw, Gpu(i)), {}});
    values.push_back({source.Declare(kGpuEnergyConsumption, Gpu(i)), {0}});
  }
  for (int second = 0; second < 86'400; ++second) {
    for (size_t i = 0; i < values.size(); i += 2) {
      values[i].second.number =
          std::round(10 * (400 + 200 * std::sin(second / 60.0 + static_cast<double>(i)))) / 10;
      values[i + 1].second.number += values[i].second.number;
    }
    source.Read(clock.Now(), values);
    Tick(source);
  }
  const int64_t now = Ms(clock.Now());
  const History::Stats stats = history.stats();
  EXPECT_LE(stats.begin_ms, now - 3'600'000);
  EXPECT_GE(stats.begin_ms, now - 3'600'000 - 240'000) << "a segment is a sixteenth of the window";
  EXPECT_LE(static_cast<double>(stats.sample_bytes), 2.0 * static_cast<double>(stats.samples));
  const std::vector<SeriesSample> samples =
      SamplesOf(history, "gpu.energy.consumption{gpu.index=\"3\"}", now - 3'600'000, now);
  ASSERT_EQ(samples.size(), 3601u);
  const SteppedSeries steps =
      ToSteps({{0, "gpu.energy.consumption", "J", Kind::kCounter, {}, "nvidia", kSecond}, samples},
              now - 3'600'000, now, 60'000);
  for (const double rate : steps.rate) EXPECT_NEAR(rate, 400, 200);
}

TEST_F(HistoryTest, ASteadyTickAllocatesNothing) {
  FakeSource source("nvidia"), slow("targets/chat", 5 * kSecond);
  std::vector<Series> series;
  std::vector<std::pair<Series, history_testing::Value>> values;
  for (int64_t i = 0; i < 200; ++i) {
    series.push_back(source.Declare(i % 2 ? kGpuPowerDraw : kGpuEnergyConsumption, Gpu(i)));
    values.push_back({series.back(), {1}});
  }
  source.Read(clock.Now(), values);
  slow.Read(clock.Now(), {{slow.Declare(kGpuUtilization, Gpu(0)), {1}}});
  auto snapshot = MakeTick(1, clock.Now());
  source.AddTo(*snapshot);
  slow.AddTo(*snapshot);
  history.Observe(*snapshot);
  History::Current current;
  history.ReadCurrent(current);
  const uint64_t before = ThreadAllocations();
  for (uint64_t i = 2; i < 2000; ++i) {
    clock.Advance(kSecond);
    source.ReadAgain(clock.Now(), series, static_cast<double>(i * 1000 + i * i % 77) + 0.25);
    snapshot->tick = i;
    snapshot->closed_at = clock.Now();
    history.Observe(*snapshot);
    history.ReadCurrent(current);
  }
  EXPECT_EQ(ThreadAllocations() - before, 0u);
  EXPECT_EQ(before > 0, AllocationsAreCounted());
  EXPECT_EQ(SamplesOf(history, "gpu.power.draw{gpu.index=\"1\"}").size(), 1999u);
}

}  // namespace
}  // namespace gpulens
