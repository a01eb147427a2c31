#include "wire/otlp/otlp_metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/testing/allocations.h"
#include "wire/exposition/naming_testing.h"
#include "wire/json/json_testing.h"
#include "wire/otlp/otlp_testing.h"

namespace gpulens {
namespace {

using json_testing::Gpu;
using json_testing::MakeSnapshot;
using json_testing::TestSource;
using otlp_testing::MetricsText;
using std::chrono::seconds;
using ::testing::HasSubstr;
using ::testing::Not;
using wire_testing::NameVerbatim;

constexpr MetricDesc kGpuPower{.name = "gpu.power.draw", .unit = "W", .help = "What it draws."};
constexpr MetricDesc kGpuEnergy{.name = "gpu.energy", .unit = "J", .kind = Kind::kCounter};
constexpr MetricDesc kFans{
    .name = "fans", .unit = "{fan}", .kind = Kind::kUpDownCounter, .number = Number::kInt};
constexpr MetricDesc kFirstToken{.name = "ttft", .unit = "s", .kind = Kind::kHistogram};
constexpr MetricDesc kSizes{.name = "sizes", .unit = "By", .kind = Kind::kGaugeHistogram};
constexpr MetricDesc kQuantiles{.name = "rpc", .unit = "s", .kind = Kind::kSummary};
constexpr MetricDesc kBuild{.name = "build", .kind = Kind::kInfo};

class OtlpMetricsTest : public ::testing::Test {
 protected:
  Instant At(int64_t second) const { return zero_ + seconds(second); }

  // The requests for one tick, as text. `keep` false: the receiver did not take them.
  std::string Report(std::vector<SnapshotEntry> frames, int64_t second, bool keep = true) {
    auto snapshot = MakeSnapshot(1, At(second), std::move(frames));
    snapshot->resource = AttributeSet({{"host.name", "n1"}});
    std::string all;
    requests_ = 0;
    Status status = metrics_.Encode(*snapshot, [&](std::string_view request, uint32_t) {
      ++requests_;
      all += MetricsText::Of(request, zero_.unix_ns);
      return Status{};
    });
    EXPECT_TRUE(status.ok());
    if (keep) metrics_.Commit();
    return all;
  }

  const Instant zero_ = ManualClock().Now();
  OtlpMetrics metrics_{SeriesNamer(&NameVerbatim), {.max_points = 3, .scope_version = "1.2"}};
  TestSource gpu_{"nvidia"};
  int requests_ = 0;
};

TEST_F(OtlpMetricsTest, ExportsEveryKindWithItsTimes) {
  SeriesTable& table = gpu_.table;
  Series power = table.Declare(kGpuPower, Gpu(3)),
         energy = table.Declare(kGpuEnergy, Gpu(3), {}, {.start_unix_ns = At(-9).unix_ns});
  Series fans = table.Declare(kFans, Gpu(3), {{"busy", true}, {"share", 0.5}}),
         build = table.Declare(kBuild, {});
  gpu_.writer.Begin(At(1));
  gpu_.writer.Set(power, 512.25);
  gpu_.writer.Set(energy, 1e6);
  gpu_.writer.Set(fans, int64_t{-2});
  gpu_.writer.Set(build, 1);
  EXPECT_EQ(Report({gpu_.Entry()}, 2),
            "resource host.name=\"n1\"\n"
            "scope gpulens.nvidia 1.2\n"
            "gpu.power.draw W gauge\n"
            "  gpu.index=3 @1 512.25\n"
            "gpu.energy J sum cumulative monotonic\n"
            "  gpu.index=3 @-9..1 1e+06\n"
            "fans {fan} sum cumulative\n"
            "  busy=true gpu.index=3 share=d0.5 @0..1 i-2\n"
            "resource host.name=\"n1\"\n"
            "scope gpulens.nvidia 1.2\n"
            "build sum cumulative\n"
            "  @0..1 1\n");
  EXPECT_EQ(requests_, 2) << "three points in a request";
}

TEST_F(OtlpMetricsTest, ExportsShapes) {
  auto shape = [](std::vector<double> bounds, bool sum, bool count) {
    auto made = MakeRef<Shape>();
    made->bounds = std::move(bounds);
    made->has_sum = sum;
    made->has_count = count;
    return Ref<const Shape>(std::move(made));
  };
  auto declare = [&](const MetricDesc& desc, Ref<const Shape> form, std::string_view name) {
    return gpu_.table.Declare(desc, {}, {{"n", name}},
                              {.shape = std::move(form), .start_unix_ns = At(-5).unix_ns});
  };
  const double infinity = std::numeric_limits<double>::infinity();
  std::vector<std::pair<Series, std::vector<double>>> all = {
      {declare(kFirstToken, shape({0.1, 0.5, infinity}, true, true), "full"), {3, 5, 9, 2.5, 9}},
      {declare(kFirstToken, shape({}, true, true), "bare"), {2.5, 9}},
      {declare(kFirstToken, shape({1}, false, false), "short"), {4}},
      {declare(kFirstToken, shape({1, 2}, true, true), "torn"), {4, 3, 1, 2}},
      {declare(kFirstToken, shape({1, 2}, true, true), "hole"), {4, std::nan(""), 1, 7}},
      {declare(kSizes, shape({8, infinity}, true, true), "gauge"), {1, 2, 30, 2}},
      {declare(kQuantiles, shape({0.5, 0.9}, true, true), "summary"), {0.2, 0.7, 8, 40}}};
  gpu_.writer.Begin(At(1));
  for (auto& [series, numbers] : all) {
    std::span<Cell> cells = gpu_.writer.Cells(series);
    for (size_t i = 0; i < cells.size(); ++i) cells[i].d = numbers[i];
  }
  std::string text = Report({gpu_.Entry()}, 1);
  for (const char* line :
       {"ttft s histogram cumulative\n", " n=\"full\" @-5..1 bounds:0.1:0.5 buckets:3:2:4 sum=2.5 count=9\n",
        " n=\"bare\" @-5..1 buckets:9 sum=2.5 count=9\n",
        " n=\"short\" @-5..1 bounds:1 buckets:4:0 count=4\n",
        " n=\"torn\" @-5..1 bounds:1:2 buckets:4:0:0 sum=1 count=4\n",
        " n=\"hole\" @-5..1 bounds:1:2 buckets:4:0:3 sum=1 count=7\n",
        "sizes_bucket By gauge\n  n=\"gauge\" le=\"8\" @1 1\n", "  n=\"gauge\" le=\"+Inf\" @1 2\n",
        "sizes_gsum By gauge\n  n=\"gauge\" @1 30\n", "sizes_gcount By gauge\n  n=\"gauge\" @1 2\n",
        "rpc s summary\n", " n=\"summary\" @-5..1 q0.5:0.2 q0.9:0.7 sum=8 count=40\n"}) {
    EXPECT_THAT(text, HasSubstr(line));
  }
}

TEST_F(OtlpMetricsTest, ExportsEachReadingOnce) {
  Series power = gpu_.table.Declare(kGpuPower, Gpu(0)), other = gpu_.table.Declare(kGpuPower, Gpu(1));
  gpu_.writer.Begin(At(1));
  gpu_.writer.Set(power, 1);
  gpu_.writer.Set(other, 2);
  SnapshotEntry entry = gpu_.Entry();
  std::string first = Report({entry}, 1, false);
  EXPECT_EQ(Report({entry}, 2), first) << "it was not taken";
  EXPECT_EQ(Report({entry}, 3), "") << "nothing was read since";
  gpu_.writer.Begin(At(4));
  gpu_.writer.Set(power, 3);  // the other is stale now
  std::string text = Report({gpu_.Entry()}, 4);
  EXPECT_THAT(text, HasSubstr("gpu.index=0 @4 3\n"));
  EXPECT_THAT(text, Not(HasSubstr("gpu.index=1")));
}

// A reading that turned stale before its first export has its own time.
TEST_F(OtlpMetricsTest, ExportsAStaleReadingThatIsNew) {
  Series power = gpu_.table.Declare(kGpuPower, Gpu(0)), other = gpu_.table.Declare(kGpuPower, Gpu(1));
  gpu_.writer.Begin(At(1));
  gpu_.writer.Set(power, 1);
  Report({gpu_.Entry()}, 1);
  gpu_.writer.Begin(At(2));
  gpu_.writer.Set(other, 2);
  gpu_.Entry();  // no tick of this sink
  gpu_.writer.Begin(At(3));
  std::string text = Report({gpu_.Entry()}, 3);
  EXPECT_THAT(text, HasSubstr("gpu.index=1 @2 2\n"));
  EXPECT_THAT(text, Not(HasSubstr("gpu.index=0")));
}

// As on a scraped page with timestamps.
TEST_F(OtlpMetricsTest, ADatedReadingHasItsOwnTimeAndIsExportedOnce) {
  Series power = gpu_.table.Declare(kGpuPower, Gpu(0));
  auto report = [&](int64_t now, int64_t of) {
    gpu_.writer.Begin(At(now));
    gpu_.writer.DatedAt(At(of));
    gpu_.writer.Set(power, 1);
    return Report({gpu_.Entry()}, now);
  };
  EXPECT_THAT(report(100, 98), HasSubstr("gpu.index=0 @98 1\n"));
  EXPECT_THAT(report(110, 98), Not(HasSubstr("gpu.index=0"))) << "the same one again";
  EXPECT_THAT(report(700, 400), HasSubstr("gpu.index=0 @400 1\n")) << "older than the time to live";
}

TEST_F(OtlpMetricsTest, AnEndedSeriesIsExportedOnceWithoutAValue) {
  auto shape = MakeRef<Shape>();
  shape->bounds = {1};
  Series power = gpu_.table.Declare(kGpuPower, Gpu(0)),
         energy = gpu_.table.Declare(kGpuEnergy, Gpu(1), {}, {.start_unix_ns = At(-9).unix_ns});
  Series latency =
      gpu_.table.Declare(kFirstToken, Gpu(2), {}, {.shape = shape, .start_unix_ns = At(-9).unix_ns});
  Series stays = gpu_.table.Declare(kGpuPower, Gpu(7));
  auto run = [&](int64_t second, auto&&... series) {
    gpu_.writer.Begin(At(second));
    (gpu_.writer.Set(series, 1), ...);
    gpu_.writer.Set(stays, 1);
    return gpu_.Entry();
  };
  gpu_.writer.Begin(At(1));
  for (Cell& cell : gpu_.writer.Cells(latency)) cell.d = 1;
  gpu_.writer.Set(power, 1);
  gpu_.writer.Set(energy, 1);
  gpu_.writer.Set(stays, 1);
  Report({gpu_.Entry()}, 1);
  gpu_.table.Retire(power);
  gpu_.table.Retire(latency);
  std::string text = Report({run(2, energy)}, 2);
  EXPECT_THAT(text, HasSubstr("gpu.power.draw W gauge\n  gpu.index=0 @2 no-value=1\n"));
  EXPECT_THAT(text, HasSubstr("  gpu.index=2 @-9..2 no-value=1\n"));
  EXPECT_THAT(Report({run(3, energy)}, 3), Not(HasSubstr("no-value")));
  // Never read again, it gets too old and is absent.
  text = Report({run(30)}, 30);
  EXPECT_THAT(text, HasSubstr("gpu.energy J sum cumulative monotonic\n  gpu.index=1 @-9..30 no-value=1\n"));
  EXPECT_THAT(Report({}, 31), HasSubstr("gpu.index=7 @31 no-value=1\n")) << "its source is gone";
  EXPECT_EQ(Report({}, 32), "");
}

TEST_F(OtlpMetricsTest, ASeriesThatMovesToAnotherSlotGoesOn) {
  Series power = gpu_.table.Declare(kGpuPower, Gpu(0));
  Series energy = gpu_.table.Declare(kGpuEnergy, Gpu(1));
  gpu_.writer.Begin(At(1));
  gpu_.writer.Set(power, 1);
  gpu_.writer.Set(energy, 1);
  Report({gpu_.Entry()}, 1);
  gpu_.table.Retire(power);
  gpu_.table.Declare(kGpuPower, Gpu(5));
  power = gpu_.table.Declare(kGpuPower, Gpu(0));
  gpu_.writer.Begin(At(2));
  gpu_.writer.Set(power, 2);
  gpu_.writer.Set(energy, 0.5);  // it started again: another layout, the same series
  std::string text = Report({gpu_.Entry()}, 2);
  EXPECT_THAT(text, Not(HasSubstr("no-value")));
  EXPECT_THAT(text, HasSubstr("gpu.index=0 @2 2\n"));
  EXPECT_THAT(text, HasSubstr("gpu.index=1 @2..2 0.5\n"));
}

TEST_F(OtlpMetricsTest, OfEqualSeriesTheNativeOneIsExported) {
  TestSource scrape("scrape/x");
  for (TestSource* source : {&scrape, &gpu_}) {
    Series power = source->table.Declare(kGpuPower, Gpu(0)),
           more = source->table.Declare(kGpuPower, Gpu(source == &gpu_ ? 1 : 2));
    source->writer.Begin(At(1));
    source->writer.Set(power, source == &gpu_ ? 1 : 2);
    source->writer.Set(more, 3);
  }
  std::string text = Report({scrape.Entry(Precedence::kPassThrough), gpu_.Entry()}, 1);
  EXPECT_THAT(text, HasSubstr("gpu.index=0 @1 1\n"));
  EXPECT_THAT(text, Not(HasSubstr("gpu.index=0 @1 2\n")));
  EXPECT_THAT(text, HasSubstr("gpu.index=2 @1 3\n"));
  EXPECT_EQ(metrics_.duplicates(), 1u);
}

// Ages are cut to milliseconds, so the time of one reading comes out differently from frame to frame.
TEST_F(OtlpMetricsTest, AStaleReadingIsExportedOnceWhateverItsAge) {
  Series power = gpu_.table.Declare(kGpuPower, Gpu(0)), other = gpu_.table.Declare(kGpuPower, Gpu(1));
  gpu_.writer.Begin(At(1));
  gpu_.writer.Set(power, 1);
  gpu_.writer.Set(other, 1);
  EXPECT_THAT(Report({gpu_.Entry()}, 1), HasSubstr("gpu.index=1 @1 1\n"));
  for (int64_t n = 2; n < 6; ++n) {
    gpu_.writer.Begin(At(n) + std::chrono::microseconds(400 + 100 * n));
    gpu_.writer.Set(power, 2);
    const std::string text = Report({gpu_.Entry()}, n);
    EXPECT_THAT(text, HasSubstr("gpu.index=0"));
    EXPECT_THAT(text, Not(HasSubstr("gpu.index=1"))) << text;
  }
}

TEST_F(OtlpMetricsTest, ASeriesOfAnotherSourceDoesNotEnd) {
  TestSource scrape("scrape/x");
  std::vector<Series> ours, theirs;
  for (int64_t gpu : {0, 1, 2}) ours.push_back(gpu_.table.Declare(kGpuPower, Gpu(gpu)));
  for (int64_t gpu : {0, 1, 3}) theirs.push_back(scrape.table.Declare(kGpuPower, Gpu(gpu)));
  auto run = [&](TestSource& source, int64_t second, const std::vector<Series>& series) {
    source.writer.Begin(At(second));
    for (Series one : series) source.writer.Set(one, static_cast<double>(second));
    return source.Entry(&source == &scrape ? Precedence::kPassThrough : Precedence::kNative);
  };
  Report({run(gpu_, 1, ours), run(scrape, 1, theirs)}, 1);
  scrape.table.Retire(theirs[1]);  // never exported: the native one is
  std::string text = Report({run(gpu_, 2, ours), run(scrape, 2, {theirs[0], theirs[2]})}, 2);
  EXPECT_THAT(text, Not(HasSubstr("no-value"))) << text;
  // Now the native source goes, and the other one exports its series.
  text = Report({run(scrape, 3, {theirs[0], theirs[2]})}, 3);
  EXPECT_THAT(text, HasSubstr("gpu.index=0 @3 3\n"));
  EXPECT_THAT(text, Not(HasSubstr("gpu.index=0 @3 no-value")));
  EXPECT_THAT(text, HasSubstr("gpu.index=1 @3 no-value=1\n"));
  EXPECT_THAT(text, HasSubstr("gpu.index=2 @3 no-value=1\n"));
  text = Report({}, 4);
  EXPECT_THAT(text, HasSubstr("gpu.index=0 @4 no-value=1\n"));
  EXPECT_THAT(text, HasSubstr("gpu.index=3 @4 no-value=1\n"));
  EXPECT_EQ(Report({}, 5), "");
}

// A request that was taken while a later one of its tick was not: its series are known to the receiver.
TEST_F(OtlpMetricsTest, EndsSeriesOfATickThatFailed) {
  std::vector<Series> all;
  for (int64_t gpu = 0; gpu < 4; ++gpu) all.push_back(gpu_.table.Declare(kGpuPower, Gpu(gpu)));
  auto run = [&](int64_t second) {
    gpu_.writer.Begin(At(second));
    for (Series one : all) gpu_.writer.Set(one, 1);
    return gpu_.Entry();
  };
  Report({run(1)}, 1);
  const Series brief = gpu_.table.Declare(kGpuEnergy, Gpu(9), {}, {.start_unix_ns = At(-9).unix_ns});
  all.insert(all.begin(), brief);
  int calls = 0;
  EXPECT_FALSE(metrics_.Encode(*MakeSnapshot(1, At(2), {run(2)}), [&](std::string_view, uint32_t) {
    return ++calls == 1 ? Status{} : Status{Code::kExhausted, "full"};
  }));
  EXPECT_EQ(calls, 2);
  all.erase(all.begin());
  gpu_.table.Retire(brief);
  std::string text = Report({run(3)}, 3, false);
  EXPECT_THAT(text, HasSubstr("gpu.index=9 @-9..3 no-value=1\n"));
  text = Report({run(4)}, 4);
  EXPECT_THAT(text, HasSubstr("gpu.index=9 @-9..4 no-value=1\n")) << "that was not committed either";
  EXPECT_THAT(Report({run(5)}, 5), Not(HasSubstr("no-value")));
  // Nothing is ended twice.
  gpu_.table.Retire(all[0]);
  all.erase(all.begin());
  Report({run(5)}, 5, false);
  text = Report({}, 6);
  for (const char* gpu : {"=1 ", "=2 ", "=3 "})
    EXPECT_EQ(text.find(gpu + std::string("@6 no-value")), text.rfind(gpu + std::string("@6 no-value")))
        << text;
  // The same where the source itself is gone.
  TestSource owner("guest");
  const Series fans = owner.table.Declare(kFans, {});
  owner.writer.Begin(At(6));
  owner.writer.Set(fans, int64_t{3});
  Report({run(6), owner.Entry()}, 6, false);
  EXPECT_THAT(Report({run(7)}, 7), HasSubstr("fans {fan} sum cumulative\n  @0..7 no-value=1\n"));
  EXPECT_THAT(Report({run(8)}, 8), Not(HasSubstr("no-value")));
}

TEST_F(OtlpMetricsTest, APortIsANumber) {
  Series power = gpu_.table.Declare(kGpuPower, {}, {{"server.port", "8000"}});
  Series other = gpu_.table.Declare(kGpuEnergy, {}, {{"server.port", "http"}});
  gpu_.writer.Begin(At(1));
  gpu_.writer.Set(power, 1);
  gpu_.writer.Set(other, 1);
  std::string text = Report({gpu_.Entry()}, 1);
  EXPECT_THAT(text, HasSubstr("  server.port=8000 @1 1\n"));
  EXPECT_THAT(text, HasSubstr("  server.port=\"http\" @"));
}

TEST_F(OtlpMetricsTest, TextIsAlwaysUtf8) {
  Series power = gpu_.table.Declare(kGpuPower, {}, {{"name", "a\xff\xc3\xa9"}});
  gpu_.writer.Begin(At(1));
  gpu_.writer.Set(power, 1);
  EXPECT_THAT(Report({gpu_.Entry()}, 1), HasSubstr("name=\"a\xEF\xBF\xBD\xC3\xA9\""));
}

TEST(OtlpMetrics, RequestsStayBelowTheirSizeAndASteadyTickAllocatesNothing) {
  const Instant zero = ManualClock().Now();
  OtlpMetrics metrics(SeriesNamer(&NameVerbatim), {.max_bytes = 2000, .scope_version = "1"});
  TestSource gpu("nvidia");
  std::vector<Series> all;
  for (int64_t i = 0; i < 200; ++i) all.push_back(gpu.table.Declare(i % 2 ? kGpuPower : kGpuEnergy, Gpu(i)));
  uint64_t points = 0, requests = 0, largest = 0;
  const OtlpMetrics::Take take = [&](std::string_view request, uint32_t count) {
    points += count;
    ++requests;
    largest = std::max<uint64_t>(largest, request.size());
    return Status{};
  };
  for (int64_t tick = 1; tick < 10; ++tick) {
    gpu.writer.Begin(zero + seconds(tick));
    for (Series series : all) gpu.writer.Set(series, static_cast<double>(tick));
    auto snapshot = MakeSnapshot(1, zero + seconds(tick), {gpu.Entry()});
    points = requests = 0;
    const uint64_t before = ThreadAllocations();
    ASSERT_TRUE(metrics.Encode(*snapshot, take).ok());
    metrics.Commit();
    EXPECT_TRUE(tick < 4 || ThreadAllocations() == before) << tick;
    EXPECT_EQ(points, 200u);
    EXPECT_EQ(metrics.points(), 200u);
  }
  EXPECT_GT(requests, 4u);
  EXPECT_LE(largest, 2000u + 200);
}

TEST(OtlpMetrics, AReceiverThatRefusesEndsTheTick) {
  OtlpMetrics metrics(SeriesNamer(&NameVerbatim), {.max_points = 1, .scope_version = "1"});
  TestSource gpu("nvidia");
  for (int64_t i = 0; i < 3; ++i) gpu.table.Declare(kGpuPower, Gpu(i));
  gpu.writer.Begin({1, 1});
  for (uint32_t slot = 0; slot < 3; ++slot) gpu.writer.Set(Series{slot, 0}, 1);
  int calls = 0;
  Status status = metrics.Encode(*MakeSnapshot(1, {1, 1}, {gpu.Entry()}), [&](std::string_view, uint32_t) {
    ++calls;
    return Status{Code::kExhausted, "full"};
  });
  EXPECT_EQ(status.code, Code::kExhausted);
  EXPECT_EQ(calls, 1);
}

}  // namespace
}  // namespace gpulens
