// Remote write of scraped pages: exemplars, bounds as they came, targets that do not answer.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "wire/exposition/naming_testing.h"
#include "wire/json/json_testing.h"
#include "wire/remote_write/remote_write.h"
#include "wire/remote_write/remote_write_series.h"
#include "wire/remote_write/remote_write_testing.h"

namespace gpulens {
namespace {

using json_testing::Gpu;
using json_testing::MakeSnapshot;
using json_testing::TestSource;
using remote_write_testing::Reader;
using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::Pair;
using ::testing::SizeIs;
using wire_testing::NameVerbatim;

constexpr MetricDesc kTargetUp{.name = "target.up", .number = Number::kInt};
constexpr MetricDesc kRequests{.name = "requests_total", .kind = Kind::kCounter};
constexpr MetricDesc kWait{.name = "wait_seconds", .kind = Kind::kHistogram};
constexpr MetricDesc kRpc{.name = "rpc_seconds", .kind = Kind::kSummary};
constexpr MetricDesc kLoad{.name = "load"};

class RemoteWriteScrapeTest : public ::testing::TestWithParam<RemoteWriteVersion> {
 protected:
  RemoteWriteScrapeTest() { Make({}); }

  void Make(RemoteWrite::Options options) {
    options.version = GetParam();
    options.metadata_interval = std::chrono::hours(1);
    options.target_up = &kTargetUp;
    writer_.emplace(SeriesNamer(&MakeNames), options);
  }
  // The flag itself is no concern of these tests.
  static void MakeNames(const SeriesInfo& series, std::vector<NamedSeries>& out) {
    if (series.desc != &kTargetUp) NameVerbatim(series, out);
  }
  Instant At(double second) const { return zero_ + milliseconds(static_cast<int64_t>(second * 1000)); }

  static Exemplar Example(double value, std::string_view trace, int64_t unix_ns = 0, uint32_t cell = 0) {
    return {cell, value, unix_ns, AttributeSet({{"trace_id", trace}})};
  }
  std::string Report(double second, bool keep = true) {
    auto snapshot = MakeSnapshot(1, At(second), {page_.Entry(Precedence::kPassThrough)});
    std::string all;
    EXPECT_TRUE(writer_
                    ->Encode(*snapshot,
                             [&](std::string_view bytes, uint32_t) {
                               auto read = Reader::Read(bytes, GetParam());
                               read.metadata.clear();
                               all += remote_write_testing::TextOf(read, zero_.unix_ns);
                               CheckDowngraded(bytes, read);
                               return Status{};
                             })
                    .ok());
    if (keep) writer_->Commit();
    return all;
  }
  // A request of 2.0 that is converted for a receiver of 1.0 has the same contents.
  void CheckDowngraded(std::string_view bytes, const remote_write_testing::Request& request) const {
    if (GetParam() == RemoteWriteVersion::k1) return;
    std::string older;
    bool native = false;
    for (const auto& series : request.series) native |= !series.histograms.empty();
    ASSERT_EQ(ToRemoteWrite1(bytes, older), !native);
    if (native) return;
    auto same = request;
    for (auto& series : same.series) series.samples.at(0).start_ms = 0;
    EXPECT_EQ(remote_write_testing::TextOf(Reader::Read(older, RemoteWriteVersion::k1)),
              remote_write_testing::TextOf(same));
  }

  const Instant zero_ = ManualClock().Now();
  std::optional<RemoteWrite> writer_;
  TestSource page_{"scrape/x"};
};

INSTANTIATE_TEST_SUITE_P(Versions, RemoteWriteScrapeTest,
                         ::testing::Values(RemoteWriteVersion::k1, RemoteWriteVersion::k2),
                         [](const auto& version) {
                           return version.param == RemoteWriteVersion::k1 ? "V1" : "V2";
                         });

// --- Exemplars ---

TEST_P(RemoteWriteScrapeTest, AnExemplarGoesWithItsSampleOnce) {
  const Series plain = page_.table.Declare(kLoad, {}), requests = page_.table.Declare(kRequests, {});
  auto run = [&](double second, const Exemplar& exemplar) {
    page_.writer.Begin(At(second));
    page_.writer.Set(plain, second);
    page_.writer.Set(requests, second);
    page_.writer.Attach(requests, exemplar);
    return Report(second);
  };
  const Exemplar timed = Example(0.5, "ab", At(0.25).unix_ns);
  EXPECT_EQ(run(1, timed),
            "load 1 @1\n"
            "requests_total 1 @1\n"
            "  exemplar 0.5 trace_id=ab @0.25\n");
  EXPECT_EQ(run(2, timed), "load 2 @2\nrequests_total 2 @2\n") << "the page still shows it";
  EXPECT_THAT(run(3, Example(0.7, "cd", At(2.5).unix_ns)), HasSubstr("  exemplar 0.7 trace_id=cd @2.5\n"));
  EXPECT_THAT(run(4, timed), Not(HasSubstr("exemplar"))) << "a receiver refuses what is older than the last";
}

TEST_P(RemoteWriteScrapeTest, AnExemplarWithoutATimeHasThatOfItsSample) {
  const Series requests = page_.table.Declare(kRequests, {});
  auto run = [&](double second, const Exemplar& exemplar) {
    page_.writer.Begin(At(second));
    page_.writer.Set(requests, second);
    page_.writer.Attach(requests, exemplar);
    return Report(second);
  };
  EXPECT_THAT(run(1, Example(0.5, "ab")), HasSubstr("  exemplar 0.5 trace_id=ab @1\n"));
  EXPECT_THAT(run(2, Example(0.5, "ab")), Not(HasSubstr("exemplar")));
  EXPECT_THAT(run(3, Example(0.6, "ab")), HasSubstr("  exemplar 0.6 trace_id=ab @3\n"));
  EXPECT_THAT(run(4, Example(0.6, "cd")), HasSubstr("  exemplar 0.6 trace_id=cd @4\n"));
  EXPECT_THAT(run(5, Example(1, "ef", At(5000).unix_ns)), Not(HasSubstr("exemplar"))) << "hours ahead";
  EXPECT_THAT(run(6, Example(1, "ef", At(6).unix_ns)), HasSubstr("exemplar 1"));
}

TEST_P(RemoteWriteScrapeTest, AClockThatIsBehindLosesNoExemplar) {
  const Series requests = page_.table.Declare(kRequests, {});
  for (int second = 100; second < 105; ++second) {
    page_.writer.Begin(At(second));
    page_.writer.Set(requests, second);
    page_.writer.Attach(requests, Example(second, "ab", At(second - 60).unix_ns));
    EXPECT_THAT(Report(second), HasSubstr("exemplar " + std::to_string(second)));
  }
}

TEST_P(RemoteWriteScrapeTest, ExemplarsOfBucketsAreThoseOfTheirBucket) {
  auto shape = MakeRef<Shape>();
  shape->bounds = {0.5, 1};
  const Series wait = page_.table.Declare(kWait, {}, {}, {.shape = shape});
  page_.writer.Begin(At(1));
  for (Cell& cell : page_.writer.Cells(wait)) cell.d = 3;
  page_.writer.Attach(wait, Example(0.9, "b", At(0.5).unix_ns, 1));
  page_.writer.Attach(wait, Example(0.1, "a", At(0.7).unix_ns, 0));
  EXPECT_EQ(Report(1),
            "wait_seconds_bucket{le=\"0.5\"} 3 @1\n"
            "  exemplar 0.1 trace_id=a @0.7\n"
            "wait_seconds_bucket{le=\"1.0\"} 3 @1\n"
            "  exemplar 0.9 trace_id=b @0.5\n"
            "wait_seconds_sum 3 @1\n"
            "wait_seconds_count 3 @1\n");
}

TEST_P(RemoteWriteScrapeTest, ANativeHistogramHasTheExemplarsOfAllItsBucketsByTime) {
  Make({.native_histograms = true});
  auto shape = MakeRef<Shape>();
  shape->bounds = {0.5, 1};
  const Series wait = page_.table.Declare(kWait, {}, {}, {.shape = shape});
  page_.writer.Begin(At(1));
  for (Cell& cell : page_.writer.Cells(wait)) cell.d = 3;
  page_.writer.Attach(wait, Example(0.9, "b", At(0.5).unix_ns, 1));
  page_.writer.Attach(wait, Example(0.1, "a", At(0.7).unix_ns, 0));
  page_.writer.Attach(wait, Example(9, "c", 0, 1));
  const std::string text = Report(1);
  if (GetParam() == RemoteWriteVersion::k1) {
    EXPECT_THAT(text, HasSubstr("exemplar 9"));
  } else {
    EXPECT_THAT(text, HasSubstr("  exemplar 0.9 trace_id=b @0.5\n  exemplar 0.1 trace_id=a @0.7\n"));
    EXPECT_THAT(text, Not(HasSubstr("exemplar 9"))) << "it says no time";
  }
}

TEST_P(RemoteWriteScrapeTest, AnExemplarIsKnownAfterTheLayoutChanges) {
  const Series requests = page_.table.Declare(kRequests, {}), other = page_.table.Declare(kLoad, {});
  auto run = [&](double second) {
    page_.writer.Begin(At(second));
    page_.writer.Set(requests, second);
    page_.writer.Attach(requests, Example(0.5, "ab", At(0.25).unix_ns));
    return Report(second);
  };
  EXPECT_THAT(run(1), HasSubstr("exemplar"));
  page_.table.Retire(other);
  page_.table.Declare(kLoad, Gpu(3));
  EXPECT_THAT(run(2), Not(HasSubstr("exemplar")));
}

TEST_P(RemoteWriteScrapeTest, ARefusedSampleIsSentAgainWithItsExemplar) {
  const Series requests = page_.table.Declare(kRequests, {});
  page_.writer.Begin(At(1));
  page_.writer.Set(requests, 1);
  page_.writer.Attach(requests, Example(0.5, "ab", At(0.25).unix_ns));
  const std::string first = Report(1, false);
  EXPECT_THAT(first, HasSubstr("exemplar"));
  page_.writer.Begin(At(2));
  page_.writer.Set(requests, 2);
  page_.writer.Attach(requests, Example(0.5, "ab", At(0.25).unix_ns));
  EXPECT_THAT(Report(2), HasSubstr("exemplar"));
}

TEST(RemoteWriteExemplarLabels, AreWithinLimitsOfReceivers) {
  const std::string letters(60, 'x');
  EXPECT_THAT(ExemplarLabels(AttributeSet({{"trace_id", "ab"}, {"http.route", "/"}, {"none", ""}})),
              ElementsAre(Pair("http_route", "/"), Pair("trace_id", "ab")));
  EXPECT_THAT(ExemplarLabels(AttributeSet({{"a", std::string_view(letters)},
                                           {"b", std::string_view(letters)},
                                           {"c", "1"},
                                           {"trace_id", std::string_view(letters)}})),
              ElementsAre(Pair("c", "1"), Pair("trace_id", letters)))
      << "68 letters of the trace, and 61 would be too many";
  EXPECT_THAT(ExemplarLabels(AttributeSet({{"k", int64_t{7}}, {"a.b", "1"}, {"a-b", "2"}})), SizeIs(2))
      << "no name twice";
  const std::string wide = "\xc3\xa9\xc3\xa9";
  EXPECT_THAT(ExemplarLabels(AttributeSet({{"word", std::string_view(wide)}})),
              ElementsAre(Pair("word", wide)));
}

// Whatever exemplars a page shows, a receiver gets them in order, and none twice in a row.
TEST_P(RemoteWriteScrapeTest, ExemplarsComeInOrderWhateverThePageShows) {
  for (uint32_t seed = 0; seed < 30; ++seed) {
    std::mt19937 random(seed);
    TestSource page("scrape/y");
    Make({.native_histograms = random() % 2 == 0, .max_samples = 1 + random() % 4});
    auto shape = MakeRef<Shape>();
    shape->bounds = {1, 2, 3};
    const Series wait = page.table.Declare(kWait, {}, {}, {.shape = shape});
    const Series requests = page.table.Declare(kRequests, {});
    std::map<std::string, int64_t> last;
    size_t seen = 0;
    for (int tick = 1; tick < 40; ++tick) {
      page.writer.Begin(At(tick));
      for (Cell& cell : page.writer.Cells(wait)) cell.d = tick;
      page.writer.Set(requests, tick);
      for (uint32_t i = 0; i < random() % 6; ++i) {
        const int64_t at = random() % 3 == 0 ? 0 : At(tick - static_cast<double>(random() % 5)).unix_ns;
        const std::string trace = std::to_string(random() % 4);
        if (random() % 2 == 0) page.writer.Attach(requests, Example(1, trace, at));
        else page.writer.Attach(wait, Example(1, trace, at, static_cast<uint32_t>(random() % 5)));
      }
      auto snapshot = MakeSnapshot(1, At(tick), {page.Entry()});
      ASSERT_TRUE(writer_
                      ->Encode(*snapshot,
                               [&](std::string_view bytes, uint32_t) {
                                 for (const auto& series : Reader::Read(bytes, GetParam()).series) {
                                   for (const auto& one : series.exemplars) {
                                     ++seen;
                                     auto [at, added] = last.emplace(series.Name(), one.ms);
                                     EXPECT_TRUE(added || one.ms > at->second) << seed;
                                     at->second = one.ms;
                                   }
                                 }
                                 return Status{};
                               })
                      .ok());
      writer_->Commit();
    }
    EXPECT_GT(seen, 10u) << seed;
  }
}

// --- Bounds as they came ---

TEST_P(RemoteWriteScrapeTest, BoundsLeaveAsTheirPageHasThem) {
  const double infinity = std::numeric_limits<double>::infinity();
  auto shape = MakeRef<Shape>();
  shape->bounds = {0.5, 1, infinity};
  shape->bound_texts = {"0.50", "1", "+Inf"};
  auto quantiles = MakeRef<Shape>();
  quantiles->bounds = {1};
  quantiles->bound_texts = {"1\xff"};  // no page has it, and a receiver would refuse it
  quantiles->has_sum = quantiles->has_count = false;
  const Series wait = page_.table.Declare(kWait, {}, {}, {.shape = shape}),
               rpc = page_.table.Declare(kRpc, {}, {}, {.shape = quantiles});
  page_.writer.Begin(At(1));
  for (Series series : {wait, rpc}) {
    for (Cell& cell : page_.writer.Cells(series)) cell.d = 1;
  }
  const std::string text = Report(1);
  EXPECT_THAT(text, HasSubstr("wait_seconds_bucket{le=\"0.50\"}"));
  EXPECT_THAT(text, HasSubstr("wait_seconds_bucket{le=\"1\"}"));
  EXPECT_THAT(text, HasSubstr("wait_seconds_bucket{le=\"+Inf\"}"));
  EXPECT_THAT(text, HasSubstr("rpc_seconds{quantile=\"1\xef\xbf\xbd\"}"));
}

// --- Targets that do not answer ---

TEST_P(RemoteWriteScrapeTest, SeriesOfATargetThatDoesNotAnswerEndAtOnce) {
  const Series up = page_.table.Declare(kTargetUp, {}), load = page_.table.Declare(kLoad, {}),
               other = page_.table.Declare(kLoad, Gpu(1));
  auto run = [&](double second, int flag, bool reads) {
    page_.writer.Begin(At(second));
    page_.writer.Set(up, flag);
    if (reads) page_.writer.Set(load, second);
    page_.writer.Set(other, 5);  // half a page was read
    return Report(second);
  };
  EXPECT_THAT(run(1, 1, true), HasSubstr("load 1 @1\n"));
  EXPECT_EQ(run(2, 0, false), "load ended @2\nload{gpu_index=\"1\"} 5 @2\n");
  EXPECT_EQ(run(3, 0, false), "load{gpu_index=\"1\"} 5 @3\n") << "once";
  EXPECT_THAT(run(4, 1, true), HasSubstr("load 4 @4\n"));
  EXPECT_THAT(run(5, 1, false), Not(HasSubstr("load ended"))) << "it answers, so the value only ages";
}

TEST_P(RemoteWriteScrapeTest, ASeriesWhoseSourceDatesItEndsByItsAge) {
  const Series up = page_.table.Declare(kTargetUp, {}), load = page_.table.Declare(kLoad, {});
  page_.writer.Begin(At(100));
  page_.writer.Set(up, 1);
  page_.writer.DatedAt(At(97));
  page_.writer.Set(load, 7);
  EXPECT_EQ(Report(100), "load 7 @97\n");
  page_.writer.Begin(At(102));
  page_.writer.Set(up, 0);
  EXPECT_EQ(Report(102), "");
  page_.writer.Begin(At(103));
  page_.writer.Set(up, 1);
  page_.writer.DatedAt(At(101));
  page_.writer.Set(load, 8);
  EXPECT_EQ(Report(103), "load 8 @101\n") << "a marker at 102 would have made it too late";
  page_.writer.Begin(At(130));
  page_.writer.Set(up, 0);
  EXPECT_EQ(Report(130), "load ended @130\n");
}

TEST_P(RemoteWriteScrapeTest, WithoutTheFlagAValueOnlyAges) {
  const Series load = page_.table.Declare(kLoad, {});
  page_.writer.Begin(At(1));
  page_.writer.Set(load, 1);
  Report(1);
  page_.writer.Begin(At(2));
  EXPECT_EQ(Report(2), "");
}

}  // namespace
}  // namespace gpulens
