// ScrapedPage always equals a fresh parse (exposition_testing.h), its indices are stable, it reports each
// change once, and its steady path neither parses nor allocates.
#include "wire/exposition/exposition_page.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "base/testing/allocations.h"
#include "wire/exposition/exposition_testing.h"

namespace gpulens {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr auto kText = ExpositionFormat::kText004;
constexpr auto kOpen = ExpositionFormat::kOpenMetrics100;

class Target {
 public:
  explicit Target(const ExpositionLimits& limits = {}) : limits_(limits), page(limits) {}

  // Reads a page and compares it with a fresh parse.
  Code Scrape(std::string_view body, ExpositionFormat format = kText) {
    Status status = page.Update(body, format);
    if (body.size() <= limits_.page_bytes) {
      EXPECT_EQ(exposition_testing::Difference(page, body, format, limits_), "");
    }
    return status.code;
  }
  // The value of a series with this family and these labels ("a=1;b=2;"), by role; NaN when not there.
  double Value(std::string_view family, std::string_view labels, SampleRole role = SampleRole::kValue,
               double bound = 0) {
    uint32_t slot = Slot(family, labels, role, bound);
    return slot == SlotNone || !page.seen(slot) ? std::nan("") : page.values()[slot];
  }
  uint32_t Find(std::string_view family, std::string_view labels) {
    std::vector<uint32_t> ids;
    std::vector<PageLabel> pairs;
    page.Series(ids);
    for (uint32_t id : ids) {
      if (page.families()[page.family_of(id)].name != family) continue;
      page.Labels(id, pairs);
      std::string text;
      for (const PageLabel& pair : pairs) text += pair.name + "=" + pair.value + ";";
      if (text == labels) return id;
    }
    return SlotNone;
  }
  uint32_t Slot(std::string_view family, std::string_view labels, SampleRole role = SampleRole::kValue,
                double bound = 0) {
    uint32_t id = Find(family, labels);
    if (id == SlotNone) return SlotNone;
    std::vector<PageCell> cells;
    page.Cells(id, cells);
    for (const PageCell& cell : cells) {
      if (cell.role == role && cell.bound == bound) return cell.slot;
    }
    return SlotNone;
  }
  static constexpr uint32_t SlotNone = 0xFFFFFFFF;

 private:
  ExpositionLimits limits_;

 public:
  ScrapedPage page;
};

constexpr std::string_view kHistogram =
    "# HELP h Help.\n# TYPE h histogram\n"
    "h_sum{a=\"x\"} 4.5\nh_bucket{a=\"x\",le=\"1.0\"} 2\nh_bucket{le=\"0.5\",a=\"x\"} "
    "1\nh_bucket{a=\"x\",le=\"+Inf\"} 3\n"
    "h_count{a=\"x\"} 3\nh_count{a=\"y\"} 0\n# TYPE g gauge\ng 7\n";

TEST(ScrapedPage, GroupsAHistogramIntoOneSeries) {
  Target target;
  EXPECT_EQ(target.Scrape(kHistogram), Code::kOk);
  EXPECT_THAT(target.page.appeared(), SizeIs(3));
  std::vector<PageCell> cells;
  target.page.Cells(target.Find("h", "a=x;"), cells);
  ASSERT_THAT(cells, SizeIs(5));
  EXPECT_EQ(cells[0].bound, 0.5);
  EXPECT_EQ(cells[1].bound, 1);
  EXPECT_EQ(cells[2].bound, HUGE_VAL);
  EXPECT_EQ(cells[3].role, SampleRole::kSum);
  EXPECT_EQ(cells[4].role, SampleRole::kCount);
  EXPECT_EQ(target.page.values()[cells[1].slot], 2);
  EXPECT_EQ(target.page.values()[cells[3].slot], 4.5);
  EXPECT_EQ(target.Value("g", ""), 7);
}

TEST(ScrapedPage, SteadyScrapeReadsNumbersOnlyAndDoesNotAllocate) {
  Target target;
  std::string one(kHistogram), two(kHistogram);
  for (char& c : two) c = c == '3' ? '9' : c;
  target.Scrape(one);
  uint64_t generation = target.page.generation();
  auto work = target.page.work();
  uint64_t before = ThreadAllocations();
  for (int i = 0; i < 10; ++i) EXPECT_TRUE(target.page.Update(i % 2 ? one : two, kText).ok());
  EXPECT_EQ(ThreadAllocations() - before, 0u);
  EXPECT_EQ(target.page.work().steady_updates - work.steady_updates, 10u);
  EXPECT_EQ(target.page.work().parsed_lines, work.parsed_lines);
  EXPECT_EQ(target.page.generation(), generation);
  EXPECT_THAT(target.page.appeared(), IsEmpty());
  target.Scrape(two);
  EXPECT_EQ(target.Value("h", "a=x;", SampleRole::kCount), 9);
}

TEST(ScrapedPage, SlotsStayWhenLinesComeGoAndMove) {
  Target target;
  target.Scrape("a 1\nb 2\nc 3\nd 4\n");
  uint32_t a = target.Slot("a", ""), d = target.Slot("d", "");
  auto work = target.page.work();
  target.Scrape("new 9\na 10\nc 30\nd 40\n");
  EXPECT_EQ(target.page.work().parsed_lines - work.parsed_lines, 1u);
  EXPECT_THAT(target.page.appeared(), SizeIs(1));
  EXPECT_THAT(target.page.vanished(), SizeIs(1));
  EXPECT_EQ(target.Slot("a", ""), a);
  EXPECT_EQ(target.Slot("d", ""), d);
  uint64_t generation = target.page.generation();
  work = target.page.work();
  target.Scrape("d 5\nc 6\na 7\nnew 8\n");
  EXPECT_EQ(target.page.work().parsed_lines, work.parsed_lines);
  EXPECT_EQ(target.page.generation(), generation);
  EXPECT_EQ(target.page.values()[d], 5);
  EXPECT_THAT(target.page.vanished(), IsEmpty());
}

TEST(ScrapedPage, AVanishedIndexRestsForOneUpdate) {
  Target target;
  target.Scrape("a 1\nb 2\n");
  uint32_t b = target.Find("b", "");
  target.Scrape("a 1\nc 2\n");
  EXPECT_THAT(target.page.vanished(), ElementsAre(b));
  EXPECT_NE(target.Find("c", ""), b);
  target.Scrape("a 1\nc 2\nd 3\n");
  EXPECT_EQ(target.Find("d", ""), b);
}

TEST(ScrapedPage, AReorderedSeriesIsTheSame) {
  Target target;
  target.Scrape("# TYPE h histogram\nh_bucket{a=\"1\",b=\"2\",le=\"1\"} 5\n");
  uint32_t slot = target.Slot("h", "a=1;b=2;", SampleRole::kBucket, 1);
  target.Scrape("# TYPE h histogram\nh_bucket{ le=\"1.0\", c=\"\", b=\"2\", a=\"1\" }  6\n");
  EXPECT_THAT(target.page.appeared(), IsEmpty());
  EXPECT_THAT(target.page.vanished(), IsEmpty());
  EXPECT_EQ(target.page.values()[slot], 6);
}

TEST(ScrapedPage, TheFirstDuplicateWins) {
  Target target;
  target.Scrape("a{x=\"1\",y=\"2\"} 1\na{y=\"2\",x=\"1\"} 2\na{x=\"1\",y=\"2\"} 3\n");
  EXPECT_EQ(target.page.report().duplicates, 2u);
  EXPECT_EQ(target.Value("a", "x=1;y=2;"), 1);
  target.Scrape("a{x=\"1\",y=\"2\"} 4\na{y=\"2\",x=\"1\"} 5\na{x=\"1\",y=\"2\"} 6\n");
  EXPECT_EQ(target.page.work().steady_updates, 1u);
  EXPECT_EQ(target.Value("a", "x=1;y=2;"), 4);
  target.Scrape("a{y=\"2\",x=\"1\"} 7\n");
  EXPECT_EQ(target.page.report().duplicates, 0u);
  EXPECT_EQ(target.Value("a", "y=2;x=1;"), 7);
}

TEST(ScrapedPage, ANewBucketReshapes) {
  Target target;
  target.Scrape("# TYPE h histogram\nh_bucket{le=\"1\"} 1\nh_bucket{le=\"+Inf\"} 1\n");
  uint32_t id = target.Find("h", "");
  target.Scrape("# TYPE h histogram\nh_bucket{le=\"1\"} 1\nh_bucket{le=\"2\"} 1\nh_bucket{le=\"+Inf\"} 1\n");
  EXPECT_THAT(target.page.reshaped(), ElementsAre(id));
  target.Scrape("# TYPE h histogram\nh_bucket{le=\"2\"} 1\nh_bucket{le=\"+Inf\"} 1\n");
  EXPECT_THAT(target.page.reshaped(), ElementsAre(id));
  EXPECT_THAT(target.page.vanished(), IsEmpty());
}

TEST(ScrapedPage, ATypeThatComesChangesOrGoesMakesNewSeries) {
  Target target;
  target.Scrape("h_sum 1\nh_count 2\nother 3\n");
  uint32_t other = target.Find("other", "");
  target.Scrape("# TYPE h summary\nh_sum 1\nh_count 2\nother 3\n");
  EXPECT_THAT(target.page.vanished(), SizeIs(2));
  EXPECT_THAT(target.page.appeared(), SizeIs(1));
  EXPECT_EQ(target.Value("h", "", SampleRole::kSum), 1);
  target.Scrape("# TYPE h summary\n# TYPE h_sum gauge\nh_sum 1\nh_count 2\nother 3\n");
  EXPECT_EQ(target.Value("h_sum", ""), 1);
  target.Scrape("# TYPE h histogram\nh_sum 1\nh_count 2\nother 3\n");
  EXPECT_EQ(target.Value("h", "", SampleRole::kSum), 1);
  target.Scrape("h_sum 1\nh_count 2\nother 3\n");
  EXPECT_EQ(target.Value("h_count", ""), 2);
  EXPECT_EQ(target.Find("other", ""), other);
}

TEST(ScrapedPage, AChangedHelpIsNewsWithoutNewSeries) {
  Target target;
  target.Scrape("# HELP a Old.\n# TYPE a gauge\na 1\n");
  uint64_t generation = target.page.generation();
  target.Scrape("# HELP a New.\n# TYPE a gauge\na 2\n");
  EXPECT_GT(target.page.generation(), generation);
  EXPECT_THAT(target.page.appeared(), IsEmpty());
  EXPECT_EQ(target.page.families()[0].help, "New.");
}

TEST(ScrapedPage, ACutPageProvesNothingAboutWhatItLacks) {
  Target target;
  EXPECT_EQ(target.Scrape("# TYPE a counter\na_total 1\nb 2\n# EOF\n", kOpen), Code::kOk);
  uint32_t b = target.Slot("b", "");
  EXPECT_EQ(target.Scrape("# TYPE a counter\na_total 5\n", kOpen), Code::kDataLoss);
  EXPECT_THAT(target.page.vanished(), IsEmpty());
  EXPECT_FALSE(target.page.seen(b));
  EXPECT_EQ(target.Value("a", ""), 5);
  EXPECT_EQ(target.Scrape("a_total 6\n", kOpen), Code::kDataLoss);
  EXPECT_EQ(target.Value("a", ""), 6) << "the type that a cut page lacks stays";
  EXPECT_EQ(target.Scrape("# TYPE a counter\na_total 7\n# EOF\n", kOpen), Code::kOk);
  EXPECT_THAT(target.page.vanished(), SizeIs(1));
}

TEST(ScrapedPage, ACutPageReadTwiceGivesTheSameResult) {
  ScrapedPage page;
  (void)page.Update("# TYPE h histogram\n# EOF\n", kOpen);
  // A page without its end does not prove that h is no longer a histogram: a bucket without `le` is wrong.
  const std::string cut = "a 3\nh_bucket{} 3\nm 7\n";
  for (int times = 0; times < 3; ++times) {
    EXPECT_EQ(page.Update(cut, kOpen).code, Code::kDataLoss);
    EXPECT_EQ(page.report().samples, 2u);
    EXPECT_EQ(page.report().bad_lines, 1u);
    EXPECT_EQ(page.appeared().size(), times == 0 ? 2u : 0u);
  }
  ASSERT_TRUE(page.Update("h_bucket{} 3\n# EOF\n", kOpen).ok());
  EXPECT_EQ(page.report().samples, 1u);
}

TEST(ScrapedPage, NonsenseAndTooMuchLeaveEverythingUnseen) {
  ExpositionLimits limits;
  limits.page_bytes = 64;
  Target target(limits);
  target.Scrape("# TYPE h summary\nh_sum 1\n");
  uint32_t slot = target.Slot("h", "", SampleRole::kSum);
  EXPECT_EQ(target.Scrape("<html>\nBad gateway\n</html>"), Code::kDataLoss);
  EXPECT_EQ(target.page.report().bad_lines, 3u);
  ASSERT_THAT(target.page.bad_examples(), SizeIs(3));
  EXPECT_EQ(target.page.bad_examples()[1].line, 2u);
  EXPECT_EQ(target.page.bad_examples()[1].excerpt, "Bad gateway");
  EXPECT_FALSE(target.page.seen(slot));
  EXPECT_THAT(target.page.vanished(), IsEmpty());
  EXPECT_EQ(target.Scrape("# TYPE h summary\nh_sum 2\n"), Code::kOk);
  EXPECT_THAT(target.page.appeared(), IsEmpty());
  EXPECT_EQ(target.page.values()[slot], 2);
  EXPECT_EQ(target.Scrape(std::string(65, '\n')), Code::kExhausted);
  EXPECT_FALSE(target.page.seen(slot));
  EXPECT_EQ(target.Scrape(""), Code::kOk);
  EXPECT_THAT(target.page.vanished(), SizeIs(1));
}

TEST(ScrapedPage, BadLinesKeepTheirCountAndNumber) {
  Target target;
  target.Scrape("title\na 1\nbad{ 2\nb 3\n");
  EXPECT_EQ(target.page.report().bad_lines, 2u);
  target.Scrape("title\na 2\nbad{ 2\nb 4\n");
  EXPECT_EQ(target.page.work().steady_updates, 1u);
  EXPECT_EQ(target.page.report().bad_lines, 2u);
  target.Scrape("title\na 2\nnew 1\nbad{ 2\nb x\n");
  ASSERT_THAT(target.page.bad_examples(), SizeIs(3));
  EXPECT_EQ(target.page.bad_examples()[1].line, 4u);
  EXPECT_EQ(target.page.bad_examples()[2].error, LineError::kBadValue);
  target.Scrape("a 2\nb 4\n");
  EXPECT_EQ(target.page.report().bad_lines, 0u);
}

TEST(ScrapedPage, TimestampsAndExemplars) {
  Target target;
  target.Scrape("a_total 1 17.5 # {t=\"x\\\"y\"} 0.25 3\nb 2\n# EOF\n", kOpen);
  uint32_t a = target.Slot("a_total", ""), b = target.Slot("b", "");
  EXPECT_EQ(target.page.timestamp_ms(a), 17500);
  EXPECT_EQ(target.page.timestamp_ms(b), std::nullopt);
  target.Scrape("a_total 2 # {} 1\nb 2 18\n# EOF\n", kOpen);
  EXPECT_EQ(target.page.work().steady_updates, 1u);
  EXPECT_EQ(target.page.timestamp_ms(a), std::nullopt);
  EXPECT_EQ(target.page.timestamp_ms(b), 18000);
  ASSERT_THAT(target.page.exemplars(), SizeIs(1));
  EXPECT_EQ(target.page.exemplars()[0].slot, a);
  EXPECT_EQ(target.page.exemplars()[0].timestamp_ms, std::nullopt);
  target.Scrape("a_total 2 99\nb 2\n", kText);
  EXPECT_EQ(target.page.timestamp_ms(a), 99);
}

TEST(ScrapedPage, APageAboveALimitChangesNothing) {
  ExpositionLimits limits;
  limits.samples = 3;
  limits.families = 2;
  Target target(limits);
  EXPECT_EQ(target.Scrape("a 1\nb 1\n"), Code::kOk);
  const uint32_t a = target.Slot("a", "");
  const uint64_t generation = target.page.generation();
  EXPECT_EQ(target.Scrape("a 2\na{x=\"1\"} 1\na{x=\"2\"} 1\na{x=\"3\"} 1\na{x=\"4\"} 1\n"), Code::kExhausted);
  EXPECT_EQ(target.page.report().samples_over_limit, 2u);
  EXPECT_EQ(target.Scrape("a 2\nb 2\nc 2\n"), Code::kExhausted);
  EXPECT_TRUE(target.page.report().too_many_families);
  EXPECT_FALSE(target.page.seen(a));
  EXPECT_EQ(target.page.generation(), generation);
  EXPECT_THAT(target.page.vanished(), IsEmpty());
  EXPECT_EQ(target.Scrape("b 3\na 3\n"), Code::kOk);
  EXPECT_THAT(target.page.appeared(), IsEmpty());
  EXPECT_EQ(target.page.values()[a], 3);
  // Other families than before are no more than there may be.
  EXPECT_EQ(target.Scrape("c 1\nd 1\n"), Code::kOk);
  EXPECT_THAT(target.page.vanished(), SizeIs(2));
  EXPECT_EQ(target.page.report().samples_over_limit, 0u);
}

TEST(ScrapedPage, InferredHistogramsComeAndGoWithTheirBuckets) {
  Target target;
  target.Scrape("x_sum 1\nx_count 2\n");
  target.Scrape("x_sum 1\nx_bucket{le=\"1\"} 2\nx_count 2\n");
  target.Slot("x", "", SampleRole::kSum);
  target.Scrape("x_sum 1\nx_bucket{le=\"1\"} 3\nx_count 3\n");
  EXPECT_EQ(target.page.work().steady_updates, 1u);
  target.Scrape("# TYPE x_bucket untyped\nx_sum 1\nx_bucket{le=\"1\"} 2\nx_count 2\n");
  target.Scrape("# TYPE x_bucket counter\nx_sum 1\nx_bucket{le=\"1\"} 2\nx_count 2\n");
  target.Slot("x_sum", "");
  target.Scrape("x_sum 1\nx_count 2\n");
  target.Slot("x_count", "");
}

TEST(ScrapedPage, TimestampsNeedNotBeHonored) {
  ScrapedPage page({}, false);
  ASSERT_TRUE(page.Update("a 1 17\n", kText));
  EXPECT_FALSE(page.has_timestamps());
  EXPECT_EQ(page.timestamp_ms(0), std::nullopt);
}

TEST(ScrapedPage, EndsWithAndWithoutNewline) {
  Target target;
  target.Scrape("a 1\n# c");
  target.Scrape("a 1\n# comment\nb 2");
  target.Scrape("a 1\n# comment\nb 23");
  EXPECT_EQ(target.page.work().steady_updates, 1u);
  target.Scrape("a 1\n# comment\nb 2\n");
  target.Scrape("a 1\n# comment\nb 2\nc 3\n");
}

TEST(ScrapedPage, BlanksBehindTheEndAndBoundsThatAreNone) {
  Target target;
  EXPECT_EQ(target.Scrape("# TYPE h histogram\nh_bucket 1\nh_count 1\n# EOF\n\n \n", kOpen), Code::kOk);
  EXPECT_EQ(target.page.report().bad_lines, 1u);
  EXPECT_EQ(target.Scrape("# TYPE h histogram\nh_bucket 1\nh_count 2\n# EOF\n\n \n", kOpen), Code::kOk);
  EXPECT_EQ(target.page.work().steady_updates, 1u);
  EXPECT_EQ(target.Scrape("# TYPE h histogram\nh_bucket 1\nh_count 2 x\n# EOF\nlate 1\n", kOpen),
            Code::kDataLoss);
  EXPECT_EQ(target.page.report().bad_lines, 3u);
  EXPECT_THAT(target.page.vanished(), IsEmpty());
}

TEST(ScrapedPage, MemoryPerLineStaysSmallAndChurnDoesNotAccumulate) {
  ExpositionLimits limits;
  limits.samples = 100'000;
  ScrapedPage page(limits);
  auto text = [](int round) {
    std::string out = "# TYPE vllm:time_to_first_token_seconds histogram\n";
    for (int i = 0; i < 1000; ++i) {
      int model = i % 10 == 0 ? i + round * 10000 : i;
      for (int bound = 1; bound <= 20; ++bound) {
        out += "vllm:time_to_first_token_seconds_bucket{engine=\"0\",le=\"" + std::to_string(bound) +
               ".0\",model_name=\"meta-llama/Llama-" + std::to_string(model) + "\"} 7.0\n";
      }
    }
    return out;
  };
  ASSERT_TRUE(page.Update(text(0), kText).ok());
  EXPECT_LE(page.memory_bytes() / 20'000, 140u);
  for (int round = 1; round < 30; ++round) ASSERT_TRUE(page.Update(text(round), kText).ok());
  EXPECT_LE(page.memory_bytes() / 20'000, 200u);
}

// Exporters give their families the same label sets, so a line costs little more than its columns.
TEST(ScrapedPage, EqualLabelSetsOfManyFamiliesAreKeptOnce) {
  auto text = [](int families) {
    std::string out;
    for (int family = 0; family < families; ++family) {
      for (int i = 0; i < 100; ++i) {
        out += "family_" + std::to_string(family) + "{uuid=\"GPU-5a1b0000-0000-0000-0000-00000000" +
               std::to_string(1000 + i) + "\",model=\"a long name of a device\",host=\"node\"} 1\n";
      }
    }
    return out;
  };
  ScrapedPage page;
  ASSERT_TRUE(page.Update(text(100), kText).ok());
  EXPECT_LE(page.memory_bytes() / 10'000, 105u);
  // A page that shrinks gives its memory back.
  ASSERT_TRUE(page.Update(text(2), kText).ok());
  ASSERT_TRUE(page.Update(text(2) + "one_more 1\n", kText).ok());
  std::vector<uint32_t> ids;
  std::vector<PageLabel> labels;
  page.Series(ids);
  ASSERT_EQ(ids.size(), 201u);
  page.Labels(ids[100], labels);
  ASSERT_EQ(labels.size(), 3u);
  EXPECT_EQ(labels[0].value, "GPU-5a1b0000-0000-0000-0000-000000001000");
}

}  // namespace
}  // namespace gpulens
