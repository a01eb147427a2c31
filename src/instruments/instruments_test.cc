#include <gpulens/instruments.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <thread>

#include "base/testing/allocations.h"

namespace gpulens {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;
using ::testing::SizeIs;

const Sample* Find(const std::vector<Sample>& all, std::string_view name, std::string_view value = {}) {
  for (const Sample& one : all) {
    const bool same = value.empty() ? one.attributes.empty()
                                    : !one.attributes.empty() && one.attributes.front().second == value;
    if (one.name == name && same) return &one;
  }
  return nullptr;
}

TEST(Instruments, AGaugeIsAddedTo) {
  Registry registry;
  const Gauge depth("queue.depth", {}, registry);
  const uint64_t dropped = DroppedRecords();
  depth.Add(kNotMeasured);
  EXPECT_TRUE(registry.Snapshot().empty()) << "none was set";
  EXPECT_EQ(DroppedRecords(), dropped + 1);
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&depth] {
      for (int n = 0; n < 10'000; ++n) depth.Add(3), depth.Add(-1);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(registry.Snapshot().at(0).value, 80'000);
  depth.Set(1);
  depth.Add();
  EXPECT_EQ(registry.Snapshot().at(0).value, 2);
}

TEST(Instruments, CountersGaugesAndTheirSeries) {
  Registry registry;
  const Counter requests("http.server.requests", {.unit = "{request}", .description = "Requests."}, registry);
  const Counter chat = requests.Bind({{"route", "/chat"}, {"stream", true}, {"n", int64_t{3}}});
  const DoubleCounter cost("cost", {.unit = "USD"}, registry);
  const UpDownCounter open("open", {}, registry);
  const Gauge depth("queue.depth", {}, registry);
  depth.Bind({{"q", "a"}});
  EXPECT_TRUE(requests.status().ok());
  chat.Add();
  chat.Add(4);
  cost.Add(0.25);
  cost.Add(0.5);
  open.Add(2);
  open.Add(-3);
  depth.Set(17);
  const std::vector<Sample> all = registry.Snapshot();
  ASSERT_THAT(all, SizeIs(4))
      << "neither the counter nobody used without attributes nor the gauge that is not set";
  EXPECT_EQ(all[0].value, 5);
  EXPECT_TRUE(all[0].integer);
  EXPECT_EQ(all[0].unit, "{request}");
  EXPECT_EQ(all[0].description, "Requests.");
  EXPECT_GT(all[0].start_unix_ns, 1'600'000'000'000'000'000);
  EXPECT_THAT(all[0].attributes, ElementsAre(Pair("n", "3"), Pair("route", "/chat"), Pair("stream", "true")));
  EXPECT_EQ(all[1].value, 0.75);
  EXPECT_EQ(all[2].value, -1);
  EXPECT_EQ(all[3].value, 17);
  depth.Set(kNotMeasured);
  EXPECT_EQ(Find(registry.Snapshot(), "queue.depth"), nullptr);
}

TEST(Instruments, ABoundSeriesIsThereBeforeItsFirstCount) {
  Registry registry;
  const Counter errors("errors", {}, registry);
  EXPECT_EQ(Find(registry.Snapshot(), "errors")->value, 0);
  errors.Bind({{"code", "timeout"}});
  const std::vector<Sample> all = registry.Snapshot();
  ASSERT_THAT(all, SizeIs(1));
  EXPECT_EQ(Find(all, "errors", "timeout")->value, 0);
}

TEST(Instruments, TheSameNameIsTheSameInstrumentOrRefused) {
  Registry registry, apart;
  const Counter one("a.b", {.unit = "s"}, registry), two("a.b", {.unit = "s"}, registry);
  one.Add(1);
  two.Bind({{"k", "1"}, {"k", "2"}}).Add(1);
  two.Add(1);
  EXPECT_EQ(Find(registry.Snapshot(), "a.b")->value, 2);
  EXPECT_EQ(Find(registry.Snapshot(), "a.b", "2")->value, 1) << "the last of equal keys";
  EXPECT_TRUE(Counter("a.b", {}, apart).status().ok());
  const uint64_t before = DroppedRecords();
  for (const Status& status :
       {Counter("a.b", {.unit = "ms"}, registry).status(), Gauge("a.b", {.unit = "s"}, registry).status(),
        DoubleCounter("a.b", {.unit = "s"}, registry).status()}) {
    EXPECT_EQ(status.code, Code::kInvalidArgument);
    EXPECT_THAT(status.detail, HasSubstr("\"a.b\" is taken"));
  }
  EXPECT_FALSE(Counter("", {}, registry).status().ok());
  EXPECT_FALSE(Counter("1a", {}, registry).status().ok());
  EXPECT_FALSE(Counter("a b", {}, registry).status().ok());
  EXPECT_FALSE(Counter("a", {.unit = "two words"}, registry).status().ok());
  const double falling[] = {2, 1}, odd[] = {kNotMeasured};
  EXPECT_FALSE(Histogram("h", {.bounds = falling}, registry).status().ok());
  EXPECT_FALSE(Histogram("h", {.bounds = odd}, registry).status().ok());
  const Gauge inert("a.b", {.unit = "s"}, registry);
  inert.Set(1);
  Counter("1a", {}, registry).Bind({{"k", "v"}}).Add();
  EXPECT_EQ(DroppedRecords(), before + 1);
}

TEST(Instruments, InvalidValuesAreDroppedAndCounted) {
  Registry registry;
  const Counter counter("c", {}, registry);
  const DoubleCounter doubles("d", {}, registry);
  const Histogram histogram("h", {}, registry);
  const uint64_t before = DroppedRecords();
  counter.Add(-1);
  doubles.Add(-0.5);
  doubles.Add(kNotMeasured);
  histogram.Record(kNotMeasured);
  histogram.Record(-1);
  histogram.Record(INFINITY);
  EXPECT_EQ(DroppedRecords(), before + 6);
  EXPECT_EQ(Find(registry.Snapshot(), "c")->value, 0);
  EXPECT_EQ(Find(registry.Snapshot(), "d")->value, 0);
  EXPECT_EQ(Find(registry.Snapshot(), "h")->count, 0u);
}

TEST(Instruments, ExplicitBucketsHoldTheirUpperBound) {
  Registry registry;
  const double bounds[] = {1, 2.5, 10};
  const Histogram histogram("h", {.unit = "s", .bounds = bounds}, registry);
  for (double value : {-4.0, 1.0, 1.1, 2.5, 10.0, 10.5}) histogram.Record(value);
  const std::vector<Sample> all = registry.Snapshot();
  const Sample& sample = *Find(all, "h");
  EXPECT_THAT(sample.counts, ElementsAre(2, 2, 1, 1));
  EXPECT_THAT(sample.bounds, ElementsAre(1, 2.5, 10));
  EXPECT_EQ(sample.count, 6u);
  EXPECT_DOUBLE_EQ(sample.sum, 21.1);
}

TEST(Instruments, TimersRecordInTheUnitOfTheInstrument) {
  Registry registry;
  const Histogram ms("ms", {.unit = "ms"}, registry), bytes("bytes", {.unit = "By"}, registry);
  const uint64_t before = DroppedRecords();
  {
    auto moved = ms.Time();
    auto timer = std::move(moved);
    auto no_time = bytes.Time();
  }
  const std::vector<Sample> all = registry.Snapshot();
  EXPECT_EQ(Find(all, "ms")->count, 1u);
  EXPECT_GT(Find(all, "ms")->sum, 0);
  EXPECT_LT(Find(all, "ms")->sum, 60'000);
  EXPECT_EQ(Find(all, "bytes")->count, 0u);
  EXPECT_EQ(DroppedRecords(), before + 1);
}

TEST(Instruments, SeriesBeyondTheLimitAreOneOverflowSeries) {
  Registry registry;
  registry.LimitSeries(3);
  const Counter counter("c", {}, registry);
  for (int64_t i = 0; i < 10; ++i) counter.Bind({{"user", i}}).Add(1);
  for (int64_t i = 0; i < 10; ++i) counter.Bind({{"user", i}}).Add(1);
  const std::vector<Sample> all = registry.Snapshot();
  ASSERT_THAT(all, SizeIs(4));
  EXPECT_EQ(Find(all, "c", "1")->value, 2);
  EXPECT_THAT(all[3].attributes, ElementsAre(Pair("otel.metric.overflow", "true")));
  EXPECT_EQ(all[3].value, 14);
}

TEST(Instruments, AreExactUnderManyThreadsAndOutliveThem) {
  constexpr int kThreads = 8, kCounts = 1'000'000;
  Registry registry;
  const Counter counter("c", {}, registry);
  const DoubleCounter halves("d", {}, registry);
  const Histogram latency("h", {}, registry);
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < kCounts; ++i) counter.Add();
      for (int i = 0; i < kCounts / 10; ++i) {
        halves.Add(0.5);
        latency.Record(i + 1);
      }
    });
  }
  double least = 0;
  for (int i = 0; i < 50; ++i) {
    const std::vector<Sample> all = registry.Snapshot();
    const double now = Find(all, "c")->value;
    EXPECT_GE(now, least) << "a counter never falls";
    least = now;
  }
  for (std::thread& thread : threads) thread.join();
  const std::vector<Sample> all = registry.Snapshot();
  EXPECT_EQ(Find(all, "c")->value, kThreads * kCounts);
  EXPECT_EQ(Find(all, "d")->value, kThreads * kCounts / 10 / 2);
  EXPECT_EQ(Find(all, "h")->count, static_cast<uint64_t>(kThreads * kCounts / 10));
  EXPECT_DOUBLE_EQ(Find(all, "h")->sum, kThreads * (kCounts / 10 * (kCounts / 10 + 1.0) / 2));
}

Counter* late = nullptr;
struct CountsAtItsEnd {
  ~CountsAtItsEnd() { late->Add(7); }
};

TEST(Instruments, AThreadMayCountWhileItEnds) {
  Registry registry;
  Counter counter("c", {}, registry);
  late = &counter;
  std::thread([] {
    static thread_local CountsAtItsEnd at_end;
    static_cast<void>(&at_end);
    late->Add(1);
  }).join();
  EXPECT_EQ(Find(registry.Snapshot(), "c")->value, 8);
}

TEST(Instruments, HandlesOutliveTheirRegistry) {
  std::optional<Counter> counter;
  {
    Registry registry;
    counter.emplace("c", InstrumentOptions{}, registry);
  }
  counter->Add(1);
  counter->Bind({{"k", "v"}}).Add(1);
}

TEST(Instruments, AForkedChildStartsAtZero) {
  Registry registry;
  const Counter counter("c", {}, registry);
  const Gauge gauge("g", {}, registry);
  counter.Add(5);
  std::thread([&] { counter.Add(5); }).join();
  gauge.Set(1);
  const int64_t began = Find(registry.Snapshot(), "c")->start_unix_ns;
  const pid_t child = ::fork();
  if (child == 0) {
    const std::vector<Sample> empty = registry.Snapshot();
    const Sample* sample = Find(empty, "c");
    bool good = sample && sample->value == 0 && sample->start_unix_ns > began && !Find(empty, "g");
    counter.Add(2);
    std::thread([&] { counter.Add(1); }).join();
    const std::vector<Sample> all = registry.Snapshot();
    good = good && Find(all, "c")->value == 3;
    ::_exit(good ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  EXPECT_EQ(Find(registry.Snapshot(), "c")->value, 10) << "the parent's";
}

TEST(Instruments, RecordingDoesNotAllocate) {
  Registry registry;
  const Counter counter("c", {}, registry);
  const double bounds[] = {1, 2};
  const Histogram explicit_("e", {.bounds = bounds}, registry), exponential("x", {}, registry);
  counter.Add();
  explicit_.Record(1);
  exponential.Record(1);
  const uint64_t before = ThreadAllocations();
  for (int i = 1; i < 10'000; ++i) {
    counter.Add();
    explicit_.Record(i);
    exponential.Record(i * 1e-3);
  }
  EXPECT_EQ(ThreadAllocations(), before);
}

}  // namespace
}  // namespace gpulens
