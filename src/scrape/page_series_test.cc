#include "scrape/page_series.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/files.h"
#include "base/parse.h"
#include "base/testing/allocations.h"
#include "scrape/scrape_testing.h"

namespace gpulens {
namespace {

using scrape_testing::PageFixture;
using scrape_testing::PageWords;
using ::testing::HasSubstr;
using ::testing::Not;
using Format = ExpositionFormat;

TEST(PageSeries, ExportsEveryType) {
  PageFixture fixture;
  fixture.Scrape(
      "# HELP up_total It \\\\ goes.\n# TYPE up_total counter\nup_total{a=\"x\\\"y\"} 3\n"
      "# TYPE temp gauge\ntemp NaN\n# TYPE raw untyped\nraw -Inf\nbare{b=\"1\",empty=\"\"} 1e9\n"
      "# TYPE h histogram\nh_bucket{le=\"1\"} 1\nh_bucket{le=\"+Inf\"} 2\nh_sum 2.5\nh_count 2\n"
      "# TYPE s summary\ns{quantile=\"0.5\"} 7\ns_sum 9\ns_count 2\n");
  EXPECT_EQ(
      fixture.Render(Format::kText004, true),
      "# TYPE bare untyped\nbare{b=\"1\",target=\"t\"} 1000000000\n"
      "# TYPE h histogram\nh_bucket{target=\"t\",le=\"1\"} 1\nh_bucket{target=\"t\",le=\"+Inf\"} 2\n"
      "h_sum{target=\"t\"} 2.5\nh_count{target=\"t\"} 2\n"
      "# TYPE raw untyped\nraw{target=\"t\"} -Inf\n"
      "# TYPE s summary\ns{target=\"t\",quantile=\"0.5\"} 7\ns_sum{target=\"t\"} 9\ns_count{target=\"t\"} 2\n"
      "# TYPE temp gauge\ntemp{target=\"t\"} NaN\n"
      "# HELP up_total It \\\\ goes.\n# TYPE up_total counter\nup_total{a=\"x\\\"y\",target=\"t\"} 3\n");
}

TEST(PageSeries, ExportsOpenMetrics) {
  std::string page =
      "# HELP boot The \\\"boot\\\".\n# TYPE boot info\nboot_info{v=\"1\"} 1\n"
      "# TYPE mode stateset\nmode{mode=\"a\"} 1\nmode{mode=\"b\"} 0\n"
      "# TYPE q gaugehistogram\nq_bucket{le=\"1.0\"} 3\nq_bucket{le=\"+Inf\"} 4\nq_gsum 5\nq_gcount 4\n"
      "# TYPE r_seconds counter\n# UNIT r_seconds seconds\n"
      "r_seconds_total 5 # {trace_id=\"ab\"} 0.5 1700000000.250\nr_seconds_created 1600000000.125\n"
      "# TYPE w histogram\nw_bucket{le=\"0.5\"} 1 # {trace_id=\"cd\"} 0.25\nw_bucket{le=\"+Inf\"} 1\n"
      "w_sum 0.25\nw_count 1\nw_created 1500000000.000\n# EOF\n";
  PageFixture fixture;
  fixture.Scrape(page, Format::kOpenMetrics100);
  EXPECT_EQ(fixture.Render(Format::kOpenMetrics100), page);
}

TEST(PageSeries, KeepsSampleNamesOfCounters) {
  PageFixture fixture;
  fixture.Scrape(
      "# TYPE plain counter\nplain{x=\"1\"} 1\n# TYPE empty counter\n# TYPE old counter\nold_total 2\n"
      "# TYPE named_total counter\nnamed_total 3\n");
  std::string out = fixture.Render(Format::kText004);
  for (const char* line :
       {"plain{x=\"1\"} 1\n", "\nold_total 2\n", "\nnamed_total 3\n", "TYPE old_total counter"}) {
    EXPECT_THAT(out, HasSubstr(line));
  }
  // A family that had no sample before shows its names now.
  fixture.Scrape("# TYPE plain counter\nplain{x=\"1\"} 1\n# TYPE empty counter\nempty_total 5\n");
  EXPECT_THAT(fixture.Render(Format::kText004), HasSubstr("\nempty_total 5\n"));
  fixture.Scrape("# TYPE \"o.x\" counter\n{\"o.x_total\",a=\"b\"} 4\n# TYPE p counter\n  p_total 1\n",
                 Format::kText100);
  EXPECT_THAT(fixture.Render(Format::kText100), HasSubstr("{\"o.x_total\",a=\"b\"} 4\n"));
  EXPECT_EQ(OptionalSuffix(ExpositionType::kGauge), "");
}

TEST(PageSeries, BoundsKeepTheTextOfThePage) {
  PageFixture fixture;
  fixture.Scrape(
      "# TYPE h histogram\nh_bucket{le=\"0.50\"} 1\nh_bucket{le=\"1\"} 1\nh_bucket{le=\"+Inf\"} 2\n"
      "h_sum 2.5\nh_count 2\n"
      "h_bucket{a=\"b\",le=\"0.50\"} 1\nh_bucket{le=\"1\",a=\"b\"} 1\nh_bucket{a=\"b\",le=\"+Inf\"} 2\n"
      "h_sum{a=\"b\"} 2.5\nh_count{a=\"b\"} 2\n"
      "# TYPE s summary\ns{quantile=\"1e-1\"} 3\ns_sum 2\n");
  std::map<std::string, std::vector<std::string>> texts;
  for (uint32_t slot = 0; slot < fixture.frame->layout->slots(); ++slot) {
    const SeriesInfo& info = (*fixture.frame->layout)[slot];
    texts[std::string(info.desc->name) + info.attributes.Text("a")] = info.shape->bound_texts;
  }
  EXPECT_THAT(texts["h"], testing::ElementsAre("0.50", "1", "+Inf"));
  EXPECT_THAT(texts["hb"], testing::ElementsAre("0.50", "1", "+Inf"));
  EXPECT_THAT(texts["s"], testing::ElementsAre("1e-1"));
  EXPECT_THAT(fixture.Render(Format::kText004), HasSubstr("h_bucket{le=\"0.5\"} 1\n"))
      << "our page has its own";
  PageFixture strict;
  strict.Scrape("# TYPE h histogram\nh_bucket{le=\"1.0\"} 1\nh_bucket{le=\"+Inf\"} 2\nh_count 2\n# EOF\n",
                Format::kOpenMetrics100);
  EXPECT_THAT((*strict.frame->layout)[0].shape->bound_texts, testing::ElementsAre("1.0", "+Inf"));
}

TEST(PageSeries, RenamesLabelsOfTheTarget) {
  PageFixture fixture(UINT32_MAX, {{"target", std::string_view("t")}, {"team", std::string_view("red")}});
  fixture.Scrape("a{target=\"other\",team=\"blue\",exported_team=\"old\"} 1\nb{target=\"\"} 2\n");
  std::string out = fixture.Render(Format::kText004, true);
  EXPECT_THAT(out,
              HasSubstr("a{exported_exported_team=\"blue\",exported_target=\"other\",exported_team=\"old\","
                        "target=\"t\",team=\"red\"} 1\n"));
  EXPECT_THAT(out, HasSubstr("b{target=\"t\",team=\"red\"} 2\n"));
}

TEST(PageSeries, MarksReservedNames) {
  PageFixture fixture;
  fixture.Scrape(
      "# TYPE up gauge\nup 0\n# TYPE gpu_power_draw_watts gauge\ngpu_power_draw_watts 99999\n"
      "# TYPE gpulens_collector_up gauge\ngpulens_collector_up{collector=\"nvidia\"} 0\n"
      "# TYPE process_open_fds gauge\nprocess_open_fds 4\n");
  EXPECT_EQ(fixture.Render(Format::kText004),
            "# TYPE exported_gpu_power_draw_watts gauge\nexported_gpu_power_draw_watts 99999\n"
            "# TYPE exported_gpulens_collector_up gauge\n"
            "exported_gpulens_collector_up{collector=\"nvidia\"} 0\n"
            "# TYPE exported_up gauge\nexported_up 0\n"
            "# TYPE process_open_fds gauge\nprocess_open_fds 4\n");
}

TEST(PageSeries, EndsVanishedSeriesAtOnce) {
  PageFixture fixture;
  fixture.Scrape("a 1\nb{x=\"1\"} 2\nb{x=\"2\"} 3\n");
  EXPECT_EQ(fixture.table.size(), 3u);
  fixture.Scrape("b{x=\"2\"} 4\nc 5\n");
  EXPECT_EQ(fixture.Render(Format::kText004), "# TYPE b untyped\nb{x=\"2\"} 4\n# TYPE c untyped\nc 5\n");
  EXPECT_EQ(fixture.table.size(), 2u);
  fixture.Scrape("");
  EXPECT_EQ(fixture.Render(Format::kText004), "");
  for (int i = 0; i < 50; ++i) fixture.Scrape("n{x=\"" + std::to_string(i) + "\"} 1\n");
  EXPECT_LE(fixture.table.slots(), 6u) << "places are used again";
}

TEST(PageSeries, FailedScrapeKeepsStaleValuesUntilTheyExpire) {
  PageFixture fixture;
  fixture.Scrape("a 1\n# TYPE h histogram\nh_bucket{le=\"+Inf\"} 2\nh_sum 2.5\nh_count 2\n");
  fixture.Miss();
  EXPECT_THAT(fixture.Render(Format::kText004), HasSubstr("a 1 1700000015000\n"));
  EXPECT_EQ(fixture.frame->quality[0], Quality::kStale);
  fixture.Miss();
  fixture.Miss();
  EXPECT_EQ(fixture.Render(Format::kText004), "");
  fixture.Scrape("a 2\n");
  EXPECT_THAT(fixture.Render(Format::kText004), HasSubstr("a 2\n"));
}

TEST(PageSeries, ChangedBucketsAreAnotherSeries) {
  PageFixture fixture;
  std::string head = "# TYPE h histogram\n";
  fixture.Scrape(head + "h_bucket{le=\"1\"} 1\nh_bucket{le=\"+Inf\"} 2\nh_sum 2\nh_count 2\n");
  fixture.Scrape(head +
                 "h_bucket{le=\"1\"} 1\nh_bucket{le=\"2\"} 2\nh_bucket{le=\"+Inf\"} 3\nh_sum 5\nh_count 3\n");
  EXPECT_EQ(
      fixture.Render(Format::kText004),
      head + "h_bucket{le=\"1\"} 1\nh_bucket{le=\"2\"} 2\nh_bucket{le=\"+Inf\"} 3\nh_sum 5\nh_count 3\n");
  EXPECT_EQ(fixture.table.size(), 1u);
  fixture.Scrape(head + "h_count 4\n");
  EXPECT_EQ(fixture.Render(Format::kText004), head + "h_count 4\n");
}

TEST(PageSeries, ChurningBucketsDoNotPileUp) {
  PageFixture fixture;
  for (int i = 1; i <= 300; ++i) {
    std::string page = "# TYPE h histogram\n";
    for (int b = 0; b < 20 + i % 2; ++b) page += "h_bucket{le=\"" + std::to_string(b) + "\"} 1\n";
    fixture.Scrape(page);
  }
  EXPECT_LT(fixture.series.memory_bytes(), 20'000u);
  EXPECT_THAT(fixture.Render(Format::kText004), HasSubstr("h_bucket{le=\"19\"} 1\n"));
}

TEST(PageSeries, RestartsCountersThatFell) {
  PageFixture fixture;
  auto start = [&](uint32_t slot) { return (*fixture.frame->layout)[slot].start_unix_ns; };
  std::string hist = "# TYPE h histogram\nh_bucket{le=\"+Inf\"} 2\nh_sum 2\nh_count ";
  fixture.Scrape("# TYPE c counter\nc 5\n" + hist + "5\n");
  int64_t first[] = {start(0), start(1)};
  EXPECT_NE(first[0], 0);
  EXPECT_NE(first[1], 0);
  fixture.Scrape("# TYPE c counter\nc 6\n" + hist + "6\n");
  EXPECT_EQ(start(0), first[0]);
  EXPECT_EQ(start(1), first[1]);
  fixture.Scrape("# TYPE c counter\nc 1\n" + hist + "1\n");
  EXPECT_GT(start(0), first[0]);
  EXPECT_GT(start(1), first[1]);
  EXPECT_FALSE((*fixture.frame->layout)[0].start_known);
}

TEST(PageSeries, ChangedCreationTimeRestarts) {
  PageFixture fixture;
  auto page = [](int value, const char* created) {
    return "# TYPE c counter\nc_total " + std::to_string(value) + "\nc_created " + created + "\n# EOF\n";
  };
  fixture.Scrape(page(5, "1600000000.5"), Format::kOpenMetrics100);
  const SeriesInfo& info = (*fixture.frame->layout)[0];
  EXPECT_TRUE(info.start_known);
  EXPECT_EQ(info.start_unix_ns, 1'600'000'000'500'000'000);
  fixture.Scrape(page(9, "1650000000"), Format::kOpenMetrics100);
  EXPECT_EQ((*fixture.frame->layout)[0].start_unix_ns, 1'650'000'000'000'000'000);
  EXPECT_THAT(fixture.Render(Format::kOpenMetrics100), HasSubstr("c_total 9\nc_created 1650000000.000\n"));
  fixture.Scrape(page(9, "NaN"), Format::kOpenMetrics100);
  EXPECT_THAT(fixture.Render(Format::kOpenMetrics100), HasSubstr("c_created 1650000000.000\n"));
  fixture.Scrape(page(9, "-5"), Format::kOpenMetrics100);
  EXPECT_THAT(fixture.Render(Format::kOpenMetrics100), Not(HasSubstr("c_created"))) << "no time at all";
  EXPECT_EQ(fixture.table.size(), 1u);
  fixture.Scrape("c_total 9\n# EOF\n", Format::kOpenMetrics100);
  fixture.Scrape(page(1, "7e9"), Format::kOpenMetrics100);
  EXPECT_THAT(fixture.Render(Format::kOpenMetrics100), HasSubstr("c_created 7000000000.000\n"));
}

TEST(PageSeries, FollowsChangedTypeAndHelp) {
  PageFixture fixture;
  fixture.Scrape("# HELP a one\n# TYPE a gauge\na 1\n");
  fixture.Scrape("# HELP a two\n# TYPE a gauge\na 2\n");
  EXPECT_EQ(fixture.Render(Format::kText004), "# HELP a two\n# TYPE a gauge\na 2\n");
  fixture.Scrape("# HELP a two\n# TYPE a counter\na 3\n");
  EXPECT_EQ(fixture.Render(Format::kText004), "# HELP a two\n# TYPE a counter\na 3\n");
  EXPECT_EQ(fixture.table.size(), 1u);
}

TEST(PageSeries, BoundsChangingHelp) {
  PageFixture fixture;
  for (int i = 0; i < 10'050; ++i) fixture.Scrape("# HELP a " + std::to_string(i) + "\na 1\n");
  EXPECT_THAT(fixture.Render(Format::kText004), HasSubstr("a 1\n"));
  EXPECT_EQ(fixture.table.size(), 1u);
  fixture.Scrape("new_name 1\n");
  EXPECT_EQ(fixture.Render(Format::kText004), "") << "no row is left for it, which is counted";
  EXPECT_EQ(fixture.series.refused(), 1u);
}

TEST(PageSeries, RetriesRefusedSeries) {
  PageFixture fixture(2);
  fixture.Scrape("a 1\nb 2\nc 3\nd 4\n");
  EXPECT_EQ(fixture.table.size(), 2u);
  EXPECT_EQ(fixture.series.refused(), 2u);
  EXPECT_EQ(fixture.table.refused(SeriesRefusal::kLimit), 2u);
  fixture.Scrape("b 2\nc 3\nd 4\n");
  EXPECT_EQ(fixture.Render(Format::kText004), "# TYPE b untyped\nb 2\n# TYPE c untyped\nc 3\n");
  fixture.Scrape("b 2\nc 3\n");
  EXPECT_EQ(fixture.series.refused(), 0u) << "it vanished while it waited";
  fixture.Scrape("b 2\nc 3\n");
  EXPECT_EQ(fixture.writer.counts().invalid, 0u);
}

TEST(PageSeries, CutPageKeepsMissingValues) {
  PageFixture fixture;
  std::string head = "# TYPE h histogram\n";
  fixture.Scrape("a 1\nb 2\n" + head + "h_bucket{le=\"+Inf\"} 2\nh_sum 2\nh_count 2\n# EOF\n",
                 Format::kOpenMetrics100);
  fixture.Scrape("a 7\n" + head + "h_bucket{le=\"+Inf\"} 9\n", Format::kOpenMetrics100);
  EXPECT_EQ(fixture.last.code, Code::kDataLoss);
  std::string out = fixture.Render(Format::kText004);
  EXPECT_THAT(out, HasSubstr("a 7\n"));
  EXPECT_THAT(out, HasSubstr("b 2 1700000015000\n")) << "stale";
  EXPECT_THAT(out, HasSubstr("h_bucket{le=\"+Inf\"} 2 1700000015000\n")) << "half a histogram is none";
}

TEST(PageSeries, CountsStraySamples) {
  PageFixture fixture;
  fixture.Scrape("# TYPE h histogram\nh 1\nh_created 5\n# TYPE c counter\nc_created 5\n");
  EXPECT_EQ(fixture.series.refused(), 2u);
  EXPECT_EQ(fixture.Render(Format::kText004), "");
}

TEST(PageSeries, DropsExemplarsOfMissingSeries) {
  PageFixture fixture(1);
  fixture.Scrape("# TYPE a counter\na_total 1\n# TYPE b counter\nb_total 1 # {t=\"x\"} 1\n# EOF\n",
                 Format::kOpenMetrics100);
  EXPECT_TRUE(fixture.frame->exemplars.empty());
}

TEST(PageSeries, KeepsAllSamplesOfCaptures) {
  const std::string root = GPULENS_SOURCE_DIR "/../shared/fixtures/";
  auto sources = ReadFile(root + "SOURCES.tsv");
  if (!sources) GTEST_SKIP() << "captures not here: " << root;
  size_t pages = 0, samples = 0, families = 0, duplicates = 0;
  std::string_view rest = *sources;
  TakeUntil(rest, '\n');
  while (!rest.empty()) {
    std::string_view row = TakeUntil(rest, '\n');
    std::string path(TakeUntil(row, '\t'));
    if (!path.ends_with(".txt") && !path.ends_with(".metrics") && !path.ends_with(".prom")) continue;
    auto body = ReadFile(root + path, 8 << 20);
    bool bare = path.starts_with("amd/kaiwo") || path.starts_with("dcgm/cloud-native-docs") ||
                path.ends_with(".prom");
    if (!body || (!bare && body->find("# TYPE ") == std::string::npos)) continue;
    SCOPED_TRACE(path);
    PageFixture fixture(UINT32_MAX, {{"target_of_test", std::string_view("t")}}, {}, false);
    fixture.Scrape(*body);
    EXPECT_TRUE(fixture.last.ok()) << fixture.last.detail;
    PageWords before(*body, Format::kText004);
    std::string rendered = fixture.Render(Format::kText004, true);
    for (size_t at; (at = rendered.find("target_of_test=\"t\"")) != rendered.npos;) {
      size_t size = 18 + (rendered[at + 18] == ',');
      if (size == 18 && rendered[at - 1] == ',') --at, ++size;
      rendered.erase(at, size);
    }
    PageWords after(rendered, Format::kText004);
    EXPECT_EQ(after.report.bad_lines, 0u);
    // As it was, or, under a name of the agent's, marked.
    auto find = [](auto& kept, const std::string& name) {
      auto found = kept.find(name);
      return found != kept.end() ? found : kept.find("exported_" + name);
    };
    for (const auto& [key, value] : before.samples) {
      auto found = find(after.samples, key);
      ASSERT_NE(found, after.samples.end()) << key;
      EXPECT_EQ(found->second, value) << key;
    }
    EXPECT_EQ(before.samples.size(), after.samples.size());
    for (const auto& [name, words] : before.families) {
      auto found = find(after.families, name);
      ASSERT_NE(found, after.families.end()) << name;
      EXPECT_EQ(found->second, words) << name;
    }
    ++pages;
    samples += before.samples.size();
    families += before.families.size();
    duplicates += before.duplicates;
  }
  EXPECT_GE(pages, 40u);
  std::printf("%zu pages, %zu families, %zu samples, %zu repeated ones\n", pages, families, samples,
              duplicates);
}

TEST(PageSeries, WriteDoesNotAllocate) {
  std::string pages[2];
  for (int p = 0; p < 2; ++p) {
    for (int i = 0; i < 500; ++i)
      pages[p] += "g{i=\"" + std::to_string(i) + "\"} " + std::to_string(i + p) + "\n";
    pages[p] += "# TYPE c counter\nc_total 5\nc_created 1600000000\n# TYPE h histogram\n";
    for (int i = 0; i < 20; ++i) pages[p] += "h_bucket{le=\"" + std::to_string(i) + "\"} 7\n";
    pages[p] += "h_sum 1\nh_count 7\n# EOF\n";
  }
  scrape_testing::PageFixture fixture;
  for (int i = 0; i < 10; ++i) fixture.Scrape(pages[i % 2], ExpositionFormat::kOpenMetrics100);
  uint64_t before = ThreadAllocations();
  for (int i = 0; i < 100; ++i) fixture.Scrape(pages[i % 2], ExpositionFormat::kOpenMetrics100);
  EXPECT_EQ(ThreadAllocations() - before, 0u);
  EXPECT_EQ(before > 0u, AllocationsAreCounted()) << "the counter counts";
  EXPECT_EQ(fixture.table.size(), 502u);
}

}  // namespace
}  // namespace gpulens
