// Pages through PageSeries with rules, and out again as pages.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "base/testing/allocations.h"
#include "scrape/scrape_testing.h"

namespace gpulens {
namespace {

using scrape_testing::PageFixture;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr auto kText = ExpositionFormat::kText004;

// What a target with these rules shows of a page.
class Governed : public PageFixture {
 public:
  explicit Governed(SeriesRules rules, uint32_t limit = UINT32_MAX)
      : PageFixture(limit),
        governed(page, MakeRef<Entity>("target", AttributeSet{{"target", std::string_view("t")}}), {},
                 std::move(rules)) {}

  std::string Show(std::string_view body, ExpositionFormat format = kText) {
    Run(body, format);
    return Render(kText);
  }
  void Run(std::string_view body, ExpositionFormat format = kText) {
    clock.Advance(std::chrono::seconds(15));
    writer.Begin(clock.Now());
    last = page.Update(body, format);
    if (last.code != Code::kExhausted) governed.Write(last.ok(), writer);
    frame = writer.Finish();
  }
  size_t folded() const { return governed.drops().folded; }

  PageSeries governed;
};

SeriesRules Dropping(std::vector<std::string> labels) {
  SeriesRules rules;
  rules.drop = std::move(labels);
  return rules;
}

SeriesRules Top(std::string label, uint32_t keep, std::vector<std::string> families = {}) {
  SeriesRules rules;
  rules.top.push_back({std::move(label), keep, std::move(families)});
  return rules;
}

TEST(SeriesGovernor, DroppedLabelSumsSeries) {
  Governed fixture(Dropping({"pod", "tmp_*"}));
  EXPECT_EQ(
      fixture.Show("# TYPE c_total counter\nc_total{pod=\"a\",m=\"x\"} 1\nc_total{pod=\"b\",m=\"x\"} 2\n"
                   "c_total{pod=\"b\",tmp_id=\"7\",m=\"y\"} 4\n# TYPE g gauge\ng{z=\"1\"} 5\n"),
      "# TYPE c_total counter\nc_total{m=\"x\"} 3\nc_total{m=\"y\"} 4\n# TYPE g gauge\ng{z=\"1\"} 5\n");
  EXPECT_EQ(fixture.folded(), 1u);
  EXPECT_EQ(fixture.table.size(), 3u);
}

TEST(SeriesGovernor, OnlyListedLabelsStay) {
  SeriesRules rules = Dropping({"mode"});
  rules.keep = {"m*"};
  Governed fixture(std::move(rules));
  EXPECT_EQ(
      fixture.Show("# TYPE c_total counter\nc_total{pod=\"a\",m=\"x\",mode=\"1\"} 1\nc_total{q=\"1\"} 2\n"),
      "# TYPE c_total counter\nc_total{m=\"x\"} 1\nc_total 2\n");
}

TEST(SeriesGovernor, CountersNeverFall) {
  Governed fixture(Dropping({"pod"}));
  auto show = [&](std::string body) { return fixture.Show("# TYPE c_total counter\n" + body); };
  EXPECT_THAT(show("c_total{pod=\"a\"} 10\nc_total{pod=\"b\"} 20\n"), HasSubstr("c_total 30\n"));
  EXPECT_THAT(show("c_total{pod=\"b\"} 21\n"), HasSubstr("c_total 31\n")) << "one left";
  EXPECT_THAT(show("c_total{pod=\"b\"} 3\n"), HasSubstr("c_total 34\n")) << "one began anew";
  EXPECT_THAT(show("c_total{pod=\"b\"} 4\nc_total{pod=\"c\"} 5\n"), HasSubstr("c_total 40\n")) << "one came";
  EXPECT_THAT(show("c_total{pod=\"d\"} 1\n"), HasSubstr("c_total 41\n")) << "all changed at once";
  EXPECT_THAT(show("c_total{pod=\"d\"} NaN\n"), HasSubstr("c_total 41\n"));
  EXPECT_EQ(show(""), "");
  EXPECT_THAT(show("c_total{pod=\"a\"} 2\n"), HasSubstr("c_total 2\n")) << "nobody was left: it began anew";
  EXPECT_EQ(fixture.table.size(), 1u);
}

TEST(SeriesGovernor, CombinesAnExistingEqualSeries) {
  Governed fixture(Dropping({"pod"}));
  EXPECT_EQ(fixture.Show("# TYPE c_total counter\nc_total 5\n"), "# TYPE c_total counter\nc_total 5\n");
  EXPECT_EQ(fixture.Show("# TYPE c_total counter\nc_total 6\nc_total{pod=\"a\"} 1\n"),
            "# TYPE c_total counter\nc_total 7\n");
  EXPECT_EQ(fixture.Show("# TYPE c_total counter\nc_total{pod=\"a\"} 2\nc_total{other=\"x\"} 9\n"),
            "# TYPE c_total counter\nc_total 8\nc_total{other=\"x\"} 9\n");
  EXPECT_EQ(fixture.Show("# TYPE c_total counter\nc_total{pod=\"a\"} 2\nc_total 9\n"),
            "# TYPE c_total counter\nc_total 17\n");
}

TEST(SeriesGovernor, AddsGaugesOfAmounts) {
  const char* page =
      "# TYPE running gauge\nrunning{p=\"1\"} 3\nrunning{p=\"2\"} 4\nrunning{p=\"3\"} NaN\n"
      "# TYPE room_temperature_celsius gauge\nroom_temperature_celsius{p=\"1\"} 60\n"
      "room_temperature_celsius{p=\"2\"} 70\n";
  EXPECT_THAT(Governed(Dropping({"p"})).Show(page),
              AllOf(HasSubstr("\nrunning 7\n"), HasSubstr("\nroom_temperature_celsius 70\n")));
  SeriesRules rules = Dropping({"p"});
  rules.gauges = SeriesRules::Gauges::kMax;
  EXPECT_THAT(Governed(rules).Show(page), HasSubstr("\nrunning 4\n"));
  rules.gauges = SeriesRules::Gauges::kSum;
  EXPECT_THAT(Governed(rules).Show(page), HasSubstr("\nroom_temperature_celsius 130\n"));
  rules.gauges = SeriesRules::Gauges::kDrop;
  Governed dropped(rules);
  EXPECT_EQ(dropped.Show(page), "");
  EXPECT_EQ(dropped.governed.drops().dropped[static_cast<size_t>(SeriesDrop::kNotCombined)], 5u);
}

TEST(SeriesGovernor, UntypedSeriesAreCombinedByName) {
  Governed fixture(Dropping({"p"}));
  EXPECT_THAT(
      fixture.Show("x_total{p=\"1\"} 5\nx_total{p=\"2\"} 1\ny_ratio{p=\"1\"} 0.5\ny_ratio{p=\"2\"} 0.25\n"),
      AllOf(HasSubstr("x_total 6\n"), HasSubstr("y_ratio 0.5\n")));
  EXPECT_THAT(fixture.Show("x_total{p=\"2\"} 1\ny_ratio{p=\"2\"} 0.25\n"),
              AllOf(HasSubstr("x_total 6\n"), HasSubstr("y_ratio 0.25\n")));
}

std::string HistogramOf(const std::string& labels, std::vector<std::pair<const char*, int>> buckets,
                        double sum, int count) {
  std::string page;
  for (auto [le, value] : buckets)
    page += "h_bucket{" + labels + ",le=\"" + le + "\"} " + std::to_string(value) + "\n";
  return page + "h_sum{" + labels + "} " + std::to_string(sum) + "\nh_count{" + labels + "} " +
         std::to_string(count) + "\n";
}

TEST(SeriesGovernor, AddsHistogramsByBucket) {
  Governed fixture(Dropping({"p"}));
  const std::string head = "# TYPE h histogram\n";
  std::string a = HistogramOf("p=\"a\"", {{"1", 1}, {"2", 3}, {"+Inf", 4}}, 6, 4);
  std::string b = HistogramOf("p=\"b\"", {{"1", 10}, {"2", 20}, {"+Inf", 30}}, 50, 30);
  EXPECT_EQ(fixture.Show(head + a + b), head +
                                            "h_bucket{le=\"1\"} 11\nh_bucket{le=\"2\"} 23\n"
                                            "h_bucket{le=\"+Inf\"} 34\nh_sum 56\nh_count 34\n");
  // One leaves, then one with other bounds comes: what all have in common stays.
  fixture.Show(head + a);
  std::string c = HistogramOf("p=\"c\"", {{"2", 1}, {"5", 1}, {"+Inf", 1}}, 2, 1);
  EXPECT_EQ(fixture.Show(head + a + c),
            head + "h_bucket{le=\"2\"} 24\nh_bucket{le=\"+Inf\"} 35\nh_sum 58\nh_count 35\n");
  EXPECT_EQ(fixture.table.size(), 1u);
  for (uint32_t slot = 0; slot < fixture.frame->layout->slots(); ++slot) {
    const SeriesInfo& info = (*fixture.frame->layout)[slot];
    if (info.desc) {
      EXPECT_THAT(info.shape->bound_texts, testing::ElementsAre("2", "+Inf")) << "as they came";
    }
  }
  // The buckets of one change: it is the same series and is not counted twice.
  std::string other = HistogramOf("p=\"a\"", {{"2", 3}, {"+Inf", 5}}, 7, 5);
  EXPECT_EQ(fixture.Show(head + other + c),
            head + "h_bucket{le=\"2\"} 24\nh_bucket{le=\"+Inf\"} 36\nh_sum 59\nh_count 36\n");
}

TEST(SeriesGovernor, DropsHistogramsWithoutCommonBuckets) {
  Governed fixture(Dropping({"p"}));
  fixture.Show("# TYPE h histogram\nh_bucket{p=\"a\",le=\"1\"} 1\nh_bucket{p=\"b\",le=\"2\"} 5\n");
  EXPECT_EQ(fixture.Render(kText), "# TYPE h histogram\nh_bucket{le=\"1\"} 1\n");
  EXPECT_EQ(fixture.governed.drops().dropped[static_cast<size_t>(SeriesDrop::kNotCombined)], 1u);
}

TEST(SeriesGovernor, SummariesKeepSumAndCount) {
  Governed fixture(Dropping({"p"}));
  EXPECT_EQ(
      fixture.Show("# TYPE s summary\ns{p=\"a\",quantile=\"0.5\"} 1\ns_sum{p=\"a\"} 2\ns_count{p=\"a\"} 1\n"
                   "s_sum{p=\"b\"} 3\ns_count{p=\"b\"} 2\n"),
      "# TYPE s summary\ns_sum 5\ns_count 3\n");
}

TEST(SeriesGovernor, RestartedHistogramContinuesTheSum) {
  Governed fixture(Dropping({"p"}));
  const std::string head = "# TYPE h histogram\n";
  fixture.Show(head + HistogramOf("p=\"a\"", {{"1", 5}, {"+Inf", 9}}, 20, 9));
  EXPECT_EQ(fixture.Show(head + HistogramOf("p=\"a\"", {{"1", 1}, {"+Inf", 1}}, 0.5, 1)),
            head + "h_bucket{le=\"1\"} 6\nh_bucket{le=\"+Inf\"} 10\nh_sum 20.5\nh_count 10\n");
}

TEST(SeriesGovernor, CutsLongValuesDistinctly) {
  SeriesRules rules;
  rules.label_length = 20;
  Governed fixture(std::move(rules));
  std::string front = "a prompt of some length";
  std::string out =
      fixture.Show("g{q=\"" + front + " one\"} 1\ng{q=\"" + front + " two\"} 2\ng{q=\"short\"} 4\n");
  EXPECT_THAT(out,
              AllOf(HasSubstr("{q=\"a prompt of~"), HasSubstr("{q=\"short\"} 4"), Not(HasSubstr("one"))));
  EXPECT_EQ(fixture.table.size(), 3u);
  EXPECT_EQ(fixture.folded(), 0u);
}

TEST(SeriesGovernor, KeepsTheLargestValues) {
  Governed fixture(Top("user", 2, {"req*"}));
  const std::string head = "# TYPE req_total counter\n";
  auto show = [&](const std::string& body) { return fixture.Show(head + body); };
  EXPECT_EQ(
      show("req_total{user=\"a\"} 1\nreq_total{user=\"b\"} 5\nreq_total{user=\"c\"} 3\n"
           "req_total{user=\"d\"} 2\nreq_total 9\n"),
      head + "req_total{user=\"b\"} 5\nreq_total{user=\"c\"} 3\nreq_total 9\nreq_total{user=\"other\"} 3\n");
  EXPECT_EQ(fixture.folded(), 1u);
  // Those that were folded stay so when they grow, and when places are free.
  EXPECT_EQ(
      show("req_total{user=\"a\"} 100\nreq_total{user=\"b\"} 6\nreq_total{user=\"d\"} 2\nreq_total 9\n"),
      head + "req_total{user=\"b\"} 6\nreq_total 9\nreq_total{user=\"other\"} 102\n");
  // One that is new takes the free place; the page's own "other" is one of the others.
  EXPECT_EQ(show("req_total{user=\"a\"} 100\nreq_total{user=\"b\"} 6\nreq_total{user=\"e\"} 1\n"
                 "req_total{user=\"other\"} 7\n"),
            head + "req_total{user=\"b\"} 6\nreq_total{user=\"e\"} 1\nreq_total{user=\"other\"} 109\n");
}

TEST(SeriesGovernor, OtherKeepsItsTotalWithoutMembers) {
  Governed fixture(Top("user", 1));
  const std::string head = "# TYPE req_total counter\n", kept = "req_total{user=\"big\"} 9000\n";
  auto show = [&](const std::string& body) { return fixture.Show(head + kept + body); };
  EXPECT_EQ(show("req_total{user=\"a\"} 5\nreq_total{user=\"b\"} 6\n"),
            head + kept + "req_total{user=\"other\"} 11\n");
  EXPECT_EQ(fixture.folded(), 1u);
  EXPECT_EQ(show(""), head + kept + "req_total{user=\"other\"} 11\n");
  EXPECT_EQ(show(""), head + kept + "req_total{user=\"other\"} 11\n");
  EXPECT_EQ(fixture.folded(), 0u);
  EXPECT_EQ(show("req_total{user=\"c\"} 1\n"), head + kept + "req_total{user=\"other\"} 12\n");
  // The whole family leaves, another one takes its place in the list, and it comes back.
  EXPECT_EQ(fixture.Show("# TYPE x gauge\nx 1\n"), "# TYPE x gauge\nx 1\n");
  EXPECT_THAT(show("req_total{user=\"d\"} 1\n"), HasSubstr("\nreq_total{user=\"other\"} 13\n"));
  // A gauge has no total.
  Governed levels(Top("user", 1));
  const std::string running = "# TYPE running gauge\n";
  EXPECT_EQ(levels.Show(running + "running{user=\"a\"} 5\nrunning{user=\"b\"} 1\n"),
            running + "running{user=\"a\"} 5\nrunning{user=\"other\"} 1\n");
  EXPECT_EQ(levels.Show(running + "running{user=\"a\"} 5\n"), running + "running{user=\"a\"} 5\n");
}

// Another label may distinguish any number of them.
TEST(SeriesGovernor, BoundsWaitingGroups) {
  Governed fixture(Top("user", 0));
  for (int i = 0; i < 1200; ++i) {
    fixture.Run("# TYPE req_total counter\nreq_total{user=\"a\",id=\"" + std::to_string(i) + "\"} 1\n");
  }
  EXPECT_LE(fixture.table.size(), SeriesGroups::kMostWaiting + 1);
  EXPECT_GE(fixture.table.size(), SeriesGroups::kMostWaiting);
}

TEST(SeriesGovernor, TopAppliesToListedFamilies) {
  Governed fixture(Top("user", 1, {"req*"}));
  EXPECT_EQ(fixture.Show("# TYPE g gauge\ng{user=\"a\"} 1\ng{user=\"b\"} 2\n"),
            "# TYPE g gauge\ng{user=\"a\"} 1\ng{user=\"b\"} 2\n");
}

TEST(SeriesGovernor, ChangedTypeStartsANewGroup) {
  Governed fixture(Dropping({"p"}));
  fixture.Show("# TYPE x counter\nx{p=\"1\"} 50\n");
  EXPECT_EQ(fixture.Show("# TYPE x gauge\nx{p=\"1\"} 2\n"), "# TYPE x gauge\nx 2\n");
  EXPECT_EQ(fixture.Show("# TYPE x histogram\nx_sum{p=\"1\"} 2\nx_count{p=\"1\"} 1\n"),
            "# TYPE x histogram\nx_sum 2\nx_count 1\n");
  EXPECT_EQ(
      fixture.Show("# HELP x Now with words.\n# TYPE x histogram\nx_sum{p=\"1\"} 3\nx_count{p=\"1\"} 2\n"),
      "# HELP x Now with words.\n# TYPE x histogram\nx_sum 3\nx_count 2\n");
}

TEST(SeriesGovernor, CutPageKeepsMissingValues) {
  Governed fixture(Dropping({"p"}));
  const std::string head = "# TYPE c counter\n", one = "c_total{p=\"1\"} 5\n", two = "c_total{p=\"2\"} 6\n";
  auto format = ExpositionFormat::kOpenMetrics100;
  EXPECT_THAT(fixture.Show(head + one + two + "# EOF\n", format), HasSubstr("c_total 11\n"));
  EXPECT_THAT(fixture.Show(head + "c_total{p=\"1\"} 7\n", format), HasSubstr("c_total 13\n"));
  EXPECT_EQ(fixture.last.code, Code::kDataLoss);
  EXPECT_THAT(fixture.Show(head + "c_total{p=\"1\"} 8\n" + two + "# EOF\n", format),
              HasSubstr("c_total 14\n"));
}

TEST(SeriesGovernor, CountsAndRetriesRefusedSeries) {
  Governed fixture(Dropping({"p"}), 1);
  const std::string head = "# TYPE c_total counter\n";
  fixture.Show(head + "c_total{m=\"x\",p=\"1\"} 5\nc_total{m=\"y\",p=\"1\"} 6\nc_total{m=\"z\"} 7\n");
  EXPECT_EQ(fixture.table.size(), 1u);
  auto lost = [&] { return fixture.governed.drops().dropped[static_cast<size_t>(SeriesDrop::kLimit)]; };
  EXPECT_EQ(lost(), 2u);
  fixture.Show(head + "c_total{m=\"y\",p=\"1\"} 6\n");
  EXPECT_EQ(fixture.Render(kText), head + "c_total{m=\"y\"} 6\n");
  EXPECT_EQ(lost(), 0u);
}

// Whatever comes and goes, what a counter shows never falls while anything of it is there, and the sum over a
// page's gauges stays what it was.
TEST(SeriesGovernor, TotalsHold) {
  for (unsigned seed = 0; seed < 30; ++seed) {
    std::mt19937 random(seed);
    auto roll = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
    SeriesRules rules = Top("u", 3);
    rules.drop = {"p"};
    Governed fixture(std::move(rules));
    std::map<std::pair<int, int>, int> counters;
    double true_growth = 0, first = -1, before = 0;
    for (int round = 0; round < 40; ++round) {
      std::string c = "c_total{always=\"1\"} 0\n", g;
      int amount = 0, grown = 0;
      for (int u = 0; u < 8; ++u) {
        for (int p = 0; p < 3; ++p) {
          int& value = counters[{u, p}];
          if (roll(20) == 0) value = 0;
          int step = roll(9);
          value += step;
          grown += step;
          std::string labels = "{u=\"" + std::to_string(u) + "\",p=\"" + std::to_string(p) + "\"} ";
          c += "c_total" + labels + std::to_string(value) + "\n";
          int level = roll(100);
          if (roll(4) == 0) continue;
          g += "g" + labels + std::to_string(level) + "\n";
          amount += level;
        }
      }
      fixture.Run("# TYPE c_total counter\n" + c + "# TYPE g gauge\n" + g);
      double c_sum = 0, g_sum = 0;
      for (uint32_t slot = 0; slot < fixture.table.slots(); ++slot) {
        const SeriesInfo& info = fixture.table.InfoAt(slot);
        if (!info.desc) continue;
        (info.desc->name == "g" ? g_sum : c_sum) += fixture.frame->cells[info.first_cell].d;
      }
      if (round > 0) true_growth += grown;
      if (first < 0) first = c_sum;
      EXPECT_EQ(g_sum, amount) << seed << " " << round;
      // A counter that fell and at once rose above what it was cannot be seen to have restarted.
      EXPECT_LE(c_sum - first, true_growth) << seed << " " << round;
      EXPECT_GE(c_sum, before) << seed << " " << round;
      before = c_sum;
      EXPECT_LE(fixture.table.size(), 1u + 2 * 4u) << "3 and other, of two families";
    }
  }
}

TEST(SeriesGovernor, SteadyWriteDoesNotAllocate) {
  std::string pages[2];
  for (int p = 0; p < 2; ++p) {
    pages[p] = "# TYPE c_total counter\n";
    for (int i = 0; i < 300; ++i)
      pages[p] += "c_total{u=\"" + std::to_string(i) + "\",p=\"x\"} " + std::to_string(i + p) + "\n";
    pages[p] += "# TYPE h histogram\n" + HistogramOf("p=\"a\"", {{"1", 1}, {"+Inf", 2 + p}}, 3, 2 + p) +
                HistogramOf("p=\"b\"", {{"1", 1}, {"+Inf", 2 + p}}, 3, 2 + p);
  }
  SeriesRules rules = Top("u", 10);
  rules.drop = {"p"};
  Governed fixture(std::move(rules));
  for (int i = 0; i < 10; ++i) fixture.Run(pages[i % 2]);
  uint64_t before = ThreadAllocations();
  for (int i = 0; i < 100; ++i) fixture.Run(pages[i % 2]);
  EXPECT_EQ(ThreadAllocations() - before, 0u);
  EXPECT_EQ(before > 0u, AllocationsAreCounted()) << "the counter counts";
  EXPECT_EQ(fixture.table.size(), 12u);
}

}  // namespace
}  // namespace gpulens
