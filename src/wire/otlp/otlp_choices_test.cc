// What OTLP leaves a choice of, or knows besides numbers: deltas, exponential histograms, exemplars.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "base/testing/allocations.h"
#include "wire/exposition/naming_testing.h"
#include "wire/json/json_testing.h"
#include "wire/otlp/otlp_metrics.h"
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

constexpr MetricDesc kPlainEnergy{.name = "energy", .kind = Kind::kCounter};
constexpr MetricDesc kErrors{.name = "errors", .kind = Kind::kCounter, .number = Number::kInt};
constexpr MetricDesc kQueue{.name = "queue", .kind = Kind::kUpDownCounter};
constexpr MetricDesc kPlainLatency{.name = "ttft", .kind = Kind::kHistogram};

// In millijoules, too, and rounded.
void NameTwice(const SeriesInfo& series, std::vector<NamedSeries>& out) {
  NameVerbatim(series, out);
  out.push_back(out.back());
  out.back().name = "other." + out.back().name;
  out.back().scale = 0.1;
  out.back().whole = true;
}

Ref<const Shape> Bounds(std::vector<double> bounds) {
  auto shape = MakeRef<Shape>();
  shape->bounds = std::move(bounds);
  return shape;
}

class OtlpChoices : public ::testing::Test {
 protected:
  Instant At(int64_t second) const { return zero_ + seconds(second); }

  void Use(const OtlpStyle& style, size_t max_points = 100, SeriesNamer namer = SeriesNamer(&NameVerbatim)) {
    metrics_ = std::make_unique<OtlpMetrics>(
        std::move(namer),
        OtlpMetrics::Options{.max_points = max_points, .scope_version = "1", .style = style});
  }
  // The points of a tick, as text. The receiver refuses from request `taken` on.
  std::string Report(std::vector<SnapshotEntry> frames, int64_t second, int taken = 1000) {
    auto snapshot = MakeSnapshot(1, At(second), std::move(frames));
    std::string all;
    const Status status = metrics_->Encode(*snapshot, [&](std::string_view request, uint32_t) {
      if (taken-- <= 0) return Status{Code::kIo, "no"};
      all += MetricsText::Of(request, zero_.unix_ns);
      return Status{};
    });
    if (status) metrics_->Commit();
    std::string points;
    for (std::string_view rest = all; !rest.empty();) {
      const std::string_view line = TakeUntil(rest, '\n');
      if (!line.starts_with("resource") && !line.starts_with("scope")) points += std::string(line) + "\n";
    }
    return points;
  }
  std::string Run(int64_t second, std::vector<std::pair<Series, double>> values, int taken = 1000) {
    gpu_.writer.Begin(At(second));
    for (auto [series, value] : values) gpu_.writer.Set(series, value);
    return Report({gpu_.Entry()}, second, taken);
  }
  std::string RunCells(int64_t second, Series series, const std::vector<double>& numbers) {
    gpu_.writer.Begin(At(second));
    std::span<Cell> cells = gpu_.writer.Cells(series);
    for (size_t i = 0; i < cells.size(); ++i) cells[i].d = numbers[i];
    return Report({gpu_.Entry()}, second);
  }

  const Instant zero_ = ManualClock().Now();
  std::unique_ptr<OtlpMetrics> metrics_;
  TestSource gpu_{"nvidia"};
};

TEST_F(OtlpChoices, ADeltaIsWhatCameSinceTheLastOne) {
  Use({.delta_counters = true});
  Series energy = gpu_.table.Declare(kPlainEnergy, {}), errors = gpu_.table.Declare(kErrors, {}),
         queue = gpu_.table.Declare(kQueue, {});
  EXPECT_EQ(Run(1, {{energy, 100.5}, {errors, 7}, {queue, 3}}), "queue sum cumulative\n  @0..1 3\n")
      << "what was counted before is nobody's";
  EXPECT_EQ(Run(2, {{energy, 101}, {errors, 9}, {queue, 2}}),
            "energy sum delta monotonic\n  @1..2 0.5\nerrors sum delta monotonic\n  @1..2 i2\n"
            "queue sum cumulative\n  @0..2 2\n");
  EXPECT_THAT(Run(5, {{energy, 101}, {queue, 2}}), Not(HasSubstr("errors"))) << "it was not read";
  EXPECT_EQ(Run(6, {{energy, 111}, {errors, 10}}),
            "energy sum delta monotonic\n  @5..6 10\nerrors sum delta monotonic\n  @2..6 i1\n");
}

TEST_F(OtlpChoices, ACounterThatFellStartsAgain) {
  Use({.delta_counters = true});
  Series energy = gpu_.table.Declare(kPlainEnergy, {});
  Run(1, {{energy, 100}});
  Run(2, {{energy, 110}});
  EXPECT_EQ(Run(3, {{energy, 4}}), "energy sum delta monotonic\n  @2..3 4\n");
  EXPECT_EQ(Run(4, {{energy, 5}}), "energy sum delta monotonic\n  @3..4 1\n");
}

TEST_F(OtlpChoices, ANewSeriesIsReportedFromItsStart) {
  Use({.delta_counters = true});
  Series old = gpu_.table.Declare(kPlainEnergy, Gpu(0), {}, {.start_unix_ns = At(-100).unix_ns});
  EXPECT_EQ(Run(1, {{old, 50}}), "") << "the agent before may have exported it";
  Series young = gpu_.table.Declare(kPlainEnergy, Gpu(1), {}, {.start_unix_ns = At(2).unix_ns});
  EXPECT_EQ(Run(4, {{old, 51}, {young, 9}}),
            "energy sum delta monotonic\n  gpu.index=0 @1..4 1\n  gpu.index=1 @2..4 9\n");
}

TEST_F(OtlpChoices, ARefusedDeltaIsPartOfTheNext) {
  Use({.delta_counters = true}, 1);
  Series a = gpu_.table.Declare(kPlainEnergy, Gpu(0)), b = gpu_.table.Declare(kPlainEnergy, Gpu(1));
  Run(1, {{a, 10}, {b, 20}});
  EXPECT_EQ(Run(2, {{a, 11}, {b, 21}}, 1), "energy sum delta monotonic\n  gpu.index=0 @1..2 1\n")
      << "the second request was refused";
  EXPECT_EQ(Report({gpu_.Entry()}, 2), "energy sum delta monotonic\n  gpu.index=1 @1..2 1\n")
      << "the same reading again: only what is missing";
  EXPECT_EQ(Run(3, {{a, 13}, {b, 24}}, 0), "");
  EXPECT_EQ(Run(4, {{a, 14}, {b, 25}}),
            "energy sum delta monotonic\n  gpu.index=0 @2..4 3\nenergy sum delta monotonic\n  gpu.index=1 "
            "@2..4 4\n");
}

TEST_F(OtlpChoices, DeltasGoOnInAnotherLayout) {
  Use({.delta_counters = true});
  Series a = gpu_.table.Declare(kPlainEnergy, Gpu(0)), b = gpu_.table.Declare(kPlainEnergy, Gpu(1));
  Run(1, {{a, 10}, {b, 20}});
  gpu_.table.Retire(a);
  gpu_.table.Declare(kErrors, Gpu(5));
  a = gpu_.table.Declare(kPlainEnergy, Gpu(0));
  EXPECT_EQ(Run(2, {{a, 13}, {b, 21}}),
            "energy sum delta monotonic\n  gpu.index=1 @1..2 1\n  gpu.index=0 @1..2 3\n");
  gpu_.table.Retire(b);
  const std::string text = Run(3, {{a, 14}});
  EXPECT_EQ(text, "energy sum delta monotonic\n  gpu.index=0 @2..3 1\n") << "no flag for one that ends";
}

TEST_F(OtlpChoices, EachNameHasItsOwnDelta) {
  Use({.delta_counters = true}, 1, SeriesNamer(&NameTwice));
  Series energy = gpu_.table.Declare(kPlainEnergy, {});
  Run(1, {{energy, 104}});
  EXPECT_EQ(Run(2, {{energy, 108}}, 1), "energy sum delta monotonic\n  @1..2 4\n");
  EXPECT_EQ(Run(3, {{energy, 112}}),
            "energy sum delta monotonic\n  @2..3 4\nother.energy sum delta monotonic\n  @1..3 1\n");
  EXPECT_EQ(Run(4, {{energy, 116}}),
            "energy sum delta monotonic\n  @3..4 4\nother.energy sum delta monotonic\n  @3..4 1\n")
      << "11.6 is 12, of which 11 was status: rounding does not add up";
}

TEST_F(OtlpChoices, HistogramsAsDeltas) {
  Use({.delta_histograms = true});
  Series latency = gpu_.table.Declare(kPlainLatency, {}, {}, {.shape = Bounds({1, 2})});
  Series energy = gpu_.table.Declare(kPlainEnergy, {});
  gpu_.writer.Begin(At(1));
  gpu_.writer.Set(energy, 5);
  const double first[] = {1, 4, 9, 6};  // up to 1, up to 2, sum, count
  std::span<Cell> cells = gpu_.writer.Cells(latency);
  for (size_t i = 0; i < 4; ++i) cells[i].d = first[i];
  EXPECT_EQ(Report({gpu_.Entry()}, 1), "energy sum cumulative monotonic\n  @1..1 5\n") << "lowmemory";
  EXPECT_EQ(RunCells(2, latency, {3, 7, 19.5, 10}),
            "ttft histogram delta\n  @1..2 bounds:1:2 buckets:2:1:1 sum=10.5 count=4\n");
  EXPECT_EQ(RunCells(3, latency, {3, 7, 19.5, 10}),
            "ttft histogram delta\n  @2..3 bounds:1:2 buckets:0:0:0 sum=0 count=0\n");
  EXPECT_EQ(RunCells(4, latency, {1, 1, 0.5, 1}),
            "ttft histogram delta\n  @3..4 bounds:1:2 buckets:1:0:0 sum=0.5 count=1\n")
      << "it began fresh";
}

TEST_F(OtlpChoices, ExponentialHistograms) {
  Use({.exponential = true});
  Series latency = gpu_.table.Declare(kPlainLatency, {}, {{"n", "a"}}, {.shape = Bounds({1, 1.0001, 4})});
  EXPECT_EQ(RunCells(1, latency, {3, 3, 5, 10, 6}),
            "ttft exponential cumulative\n  n=\"a\" @0..1 scale=6 upto=1 buckets 16:1 64:1 128:1 zero=3 "
            "sum=10 count=6\n");
  Series negative = gpu_.table.Declare(kPlainLatency, {}, {{"n", "b"}}, {.shape = Bounds({-1, 1})});
  EXPECT_EQ(RunCells(2, negative, {1, 2, 3, 3}),
            "ttft histogram cumulative\n  n=\"b\" @0..2 bounds:-1:1 buckets:1:1:1 sum=3 count=3\n")
      << "which have no zero bucket to begin with";
}

TEST_F(OtlpChoices, ExponentialHistogramsAsDeltas) {
  Use({.delta_histograms = true, .exponential = true});
  Series latency = gpu_.table.Declare(kPlainLatency, {}, {}, {.shape = Bounds({1, 2})});
  RunCells(1, latency, {1, 2, 10, 3});
  EXPECT_THAT(
      RunCells(2, latency, {2, 4, 15, 6}),
      ::testing::AllOf(HasSubstr("ttft exponential delta\n  @1..2 "), HasSubstr(" zero=1 sum=5 count=3\n")));
  gpu_.table.Retire(latency);
  EXPECT_EQ(Run(3, {}), "");
}

TEST_F(OtlpChoices, ExemplarsAreExportedOnce) {
  Use({});
  Series latency = gpu_.table.Declare(kPlainLatency, {}, {}, {.shape = Bounds({1, 2})});
  Series errors = gpu_.table.Declare(kErrors, {}), more = gpu_.table.Declare(kErrors, Gpu(1));
  auto run = [&](int64_t second) {
    gpu_.writer.Begin(At(second));
    for (Cell& cell : gpu_.writer.Cells(latency)) cell.d = 1;
    gpu_.writer.Set(errors, 1);
    gpu_.writer.Set(more, 1);
    gpu_.writer.Attach(latency, {1, 1.5, At(1).unix_ns,
                                 AttributeSet({{"trace_id", "5b8efff798038103d269b633813fc60c"},
                                               {"span_id", "EEE19b7ec3c1b174"},
                                               {"user", "x"}})});
    gpu_.writer.Attach(errors, {0, 1, 0, AttributeSet({{"trace_id", "short"}})});
    return Report({gpu_.Entry()}, second);
  };
  EXPECT_EQ(run(2),
            "ttft histogram cumulative\n  @0..2 bounds:1:2 buckets:1:0:0 sum=1 count=1"
            " (@1 1.5 span:8 trace:16 user=\"x\")\n"
            "errors sum cumulative monotonic\n  @2..2 i1 ( 1 trace_id=\"short\")\n  gpu.index=1 @2..2 i1\n");
  EXPECT_EQ(run(3),
            "ttft histogram cumulative\n  @0..3 bounds:1:2 buckets:1:0:0 sum=1 count=1\n"
            "errors sum cumulative monotonic\n  @2..3 i1 ( 1 trace_id=\"short\")\n  gpu.index=1 @2..3 i1\n")
      << "one without a time is exported with each reading";
}

// A request with new numbers patched in and a freshly written one are the same bytes, whatever comes and
// goes.
TEST(OtlpImage, AKeptRequestEqualsAFreshOne) {
  const Instant zero = ManualClock().Now();
  for (unsigned seed = 0; seed < 20; ++seed) {
    std::mt19937 random(seed);
    OtlpMetrics kept(SeriesNamer(&NameVerbatim), {.scope_version = "1"}),
        fresh(SeriesNamer(&NameVerbatim), {.scope_version = "1", .keep_request = false});
    TestSource gpu("nvidia"), host("host");
    auto shape = Bounds({1, 2});
    std::vector<Series> series;
    for (int64_t i = 0; i < 8; ++i)
      series.push_back(gpu.table.Declare(i % 3 == 0 ? kPlainEnergy : i % 3 == 1 ? kErrors : kQueue, Gpu(i)));
    Series latency = gpu.table.Declare(kPlainLatency, {}, {}, {.shape = shape});
    Series load = host.table.Declare(kQueue, {});
    for (int64_t tick = 1; tick < 60; ++tick) {
      // Some ticks are as the one before, some are not.
      const unsigned odd = random() % 16;
      if (odd == 0) gpu.table.Retire(series[random() % 8]);
      if (odd != 1) {
        gpu.writer.Begin(zero + seconds(tick));
        for (size_t i = 0; i < series.size(); ++i) {
          if (odd != 2 || i != 3)
            gpu.writer.Set(series[i], static_cast<double>(tick * 10 + static_cast<int64_t>(random() % 10)));
        }
        for (Cell& cell : gpu.writer.Cells(latency)) cell.d = static_cast<double>(tick);
        if (odd == 3) gpu.writer.Attach(series[1], {0, 1, 0, {}});
        if (odd == 4) gpu.writer.Clear(series[5]);
      }
      host.writer.Begin(zero + seconds(tick));
      host.writer.Set(load, static_cast<double>(tick));
      std::vector<SnapshotEntry> frames{gpu.Entry()};
      if (odd != 5) frames.push_back(host.Entry());
      auto snapshot = MakeSnapshot(1, zero + seconds(tick), std::move(frames));
      const bool taken = random() % 10 != 0;
      std::string one, other;
      auto into = [taken](std::string& out) {
        return [&out, taken](std::string_view request, uint32_t) {
          out += request;
          return taken ? Status{} : Status{Code::kIo, "no"};
        };
      };
      const Status status = kept.Encode(*snapshot, into(one));
      EXPECT_EQ(fresh.Encode(*snapshot, into(other)).ok(), status.ok());
      EXPECT_EQ(kept.points(), fresh.points());
      ASSERT_EQ(one, other) << "seed " << seed << " tick " << tick << " odd " << odd;
      if (!taken) continue;
      kept.Commit();
      fresh.Commit();
    }
  }
}

TEST_F(OtlpChoices, ASteadyRunAllocatesNothing) {
  Use({.delta_counters = true, .delta_histograms = true, .exponential = true});
  Series energy = gpu_.table.Declare(kPlainEnergy, {});
  Series latency = gpu_.table.Declare(kPlainLatency, {}, {}, {.shape = Bounds({1, 2})});
  uint64_t points = 0;
  const OtlpMetrics::Take take = [&](std::string_view, uint32_t count) {
    points += count;
    return Status{};
  };
  for (int64_t tick = 1; tick < 8; ++tick) {
    gpu_.writer.Begin(At(tick));
    gpu_.writer.Set(energy, static_cast<double>(tick));
    for (Cell& cell : gpu_.writer.Cells(latency)) cell.d = static_cast<double>(tick);
    auto snapshot = MakeSnapshot(1, At(tick), {gpu_.Entry()});
    const uint64_t before = ThreadAllocations();
    ASSERT_TRUE(metrics_->Encode(*snapshot, take).ok());
    metrics_->Commit();
    EXPECT_TRUE(tick < 4 || ThreadAllocations() == before) << tick;
  }
  EXPECT_EQ(points, 12u);
}

}  // namespace
}  // namespace gpulens
