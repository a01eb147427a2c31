#include "wire/exposition/text_page.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "base/text.h"
#include "core/frame_writer.h"
#include "wire/exposition/naming_testing.h"

namespace gpulens {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr MetricDesc kPower{.name = "power", .unit = "W", .help = "Power."};
constexpr MetricDesc kRuns{
    .name = "runs_total", .help = "Runs.", .kind = Kind::kCounter, .number = Number::kInt};
constexpr MetricDesc kRunsAsGauge{.name = "runs_total", .help = "Not the same.", .kind = Kind::kGauge};
constexpr MetricDesc kLatency{.name = "latency_seconds", .help = "Latency.", .kind = Kind::kHistogram};
constexpr MetricDesc kBuild{.name = "build_info", .help = "Build.", .kind = Kind::kInfo};
constexpr MetricDesc kUtf8{.name = "my.größe", .help = "UTF-8.", .naming = Naming::kVerbatim};

// One metric under another name and with its unit's word, the others unchanged.
void NamePlainly(const SeriesInfo& series, std::vector<NamedSeries>& out) {
  wire_testing::NameVerbatim(series, out);
  out.back().unit = series.desc == &kPower ? "watts" : "";
  if (series.desc == &kPower) out.back().name = "power_watts";
}

class TextPageTest : public ::testing::Test {
 protected:
  std::string Render(PageForm form) {
    TextPage page(form, NamePlainly);
    return RenderWith(page);
  }
  std::string RenderWith(TextPage& page) {
    Ref<Snapshot> snapshot = MakeRef<Snapshot>();
    snapshot->frames = {{writer_.Finish(), "test", Precedence::kNative, overdue_}};
    std::string out;
    page.Render(*snapshot, out);
    return out;
  }

  SeriesTable table_;
  FrameWriter writer_{table_, std::chrono::seconds(10)};
  ManualClock clock_;
  bool overdue_ = false;
};

TEST_F(TextPageTest, KeepsALabelSetOfManyFamiliesOnce) {
  const std::string uuid(500, 'u');
  const EntityRef gpu = MakeRef<const Entity>("gpu", AttributeSet({{"uuid", std::string_view(uuid)}}));
  for (const MetricDesc* desc : {&kPower, &kRuns, &kBuild}) table_.Declare(*desc, gpu);
  LayoutText text = NameLayout(*table_.Freeze(), ExpositionFormat::kText004, NamePlainly);
  ASSERT_EQ(text.lines.size(), 3u);
  EXPECT_LT(text.arena.size(), 1000u);
  std::string line;
  text.TextOf(text.lines[0], line);
  EXPECT_EQ(line, "build_info{uuid=\"" + std::string(500, 'u') + "\"} ");
  EXPECT_EQ(text.SizeOf(text.lines[0]), line.size());
}

TEST_F(TextPageTest, WritesFamiliesByNameWithHelpAndType) {
  writer_.Begin(clock_.Now());
  writer_.Set(table_.Declare(kRuns, {}, {{"result", "ok"}}), 3);
  writer_.Set(table_.Declare(kPower, {}, {{"gpu", int64_t{0}}}), 512.25);
  EXPECT_EQ(Render(ExpositionFormat::kText004),
            "# HELP power_watts Power.\n# TYPE power_watts gauge\npower_watts{gpu=\"0\"} 512.25\n"
            "# HELP runs_total Runs.\n# TYPE runs_total counter\nruns_total{result=\"ok\"} 3\n");
}

TEST_F(TextPageTest, OpenMetricsHasNoTotalInFamilyNamesAndHasUnitsAndAnEnd) {
  writer_.Begin(clock_.Now());
  writer_.Set(table_.Declare(kRuns, {}), 3);
  writer_.Set(table_.Declare(kPower, {}), 1);
  writer_.Set(table_.Declare(kBuild, {}, {{"version", "1"}}), 1);
  EXPECT_EQ(Render(ExpositionFormat::kOpenMetrics100),
            "# HELP build Build.\n# TYPE build info\nbuild_info{version=\"1\"} 1\n"
            "# HELP power_watts Power.\n# TYPE power_watts gauge\n# UNIT power_watts watts\npower_watts 1\n"
            "# HELP runs Runs.\n# TYPE runs counter\nruns_total 3\n# EOF\n");
}

TEST_F(TextPageTest, KnownStartsAreCreatedLinesOfOpenMetricsOnly) {
  SeriesTable::Form form;
  form.start_unix_ns = 1'700'000'000'250'000'000;
  writer_.Begin(clock_.Now());
  writer_.Set(table_.Declare(kRuns, {}, {}, form), 3);
  EXPECT_THAT(Render(ExpositionFormat::kOpenMetrics100), HasSubstr("runs_created 1700000000.250\n"));
  EXPECT_THAT(Render(ExpositionFormat::kText004), Not(HasSubstr("_created")));
}

TEST_F(TextPageTest, HistogramsHaveBucketsSumAndCount) {
  Ref<Shape> shape = MakeRef<Shape>();
  shape->bounds = {0.5, 1, std::numeric_limits<double>::infinity()};
  writer_.Begin(clock_.Now());
  auto cells = writer_.Cells(table_.Declare(kLatency, {}, {{"model", "m"}}, {.shape = shape}));
  ASSERT_EQ(cells.size(), 5u);
  const double values[] = {1, 2, 3, 2.5, 3};
  for (size_t i = 0; i < 5; ++i) cells[i].d = values[i];
  EXPECT_EQ(
      Render(ExpositionFormat::kText004),
      "# HELP latency_seconds Latency.\n# TYPE latency_seconds histogram\n"
      "latency_seconds_bucket{model=\"m\",le=\"0.5\"} 1\nlatency_seconds_bucket{model=\"m\",le=\"1\"} 2\n"
      "latency_seconds_bucket{model=\"m\",le=\"+Inf\"} 3\nlatency_seconds_sum{model=\"m\"} 2.5\n"
      "latency_seconds_count{model=\"m\"} 3\n");
  EXPECT_THAT(Render(ExpositionFormat::kOpenMetrics100), HasSubstr("le=\"1.0\""));
}

TEST_F(TextPageTest, OpenMetricsHasExemplarsOnTheirLine) {
  writer_.Begin(clock_.Now());
  Series runs = table_.Declare(kRuns, {});
  writer_.Set(runs, 3);
  writer_.Attach(
      runs, {.value = 0.5, .unix_ns = 1'700'000'000'123'000'000, .attributes = {{"trace_id", "a\"b\\c\nd"}}});
  EXPECT_THAT(Render(ExpositionFormat::kOpenMetrics100),
              HasSubstr("runs_total 3 # {trace_id=\"a\\\"b\\\\c\\nd\"} 0.5 1700000000.123\n"));
  EXPECT_THAT(Render(ExpositionFormat::kText004), HasSubstr("runs_total 3\n"));
}

TEST_F(TextPageTest, StaleValuesCarryTheTimeWhenTheyWereRead) {
  Series power = table_.Declare(kPower, {});
  writer_.Begin(clock_.Now());
  writer_.Set(power, 7);
  static_cast<void>(writer_.Finish());
  clock_.Advance(std::chrono::seconds(2));
  writer_.Begin(clock_.Now());
  EXPECT_THAT(Render(ExpositionFormat::kText004), HasSubstr("power_watts 7 1700000000000\n"));
  EXPECT_THAT(Render(ExpositionFormat::kOpenMetrics100), HasSubstr("power_watts 7 1700000000.000\n"));
  clock_.Advance(std::chrono::seconds(9));
  writer_.Begin(clock_.Now());
  EXPECT_EQ(Render(ExpositionFormat::kText004), "");
}

TEST_F(TextPageTest, OverdueFramesAreDatedToo) {
  overdue_ = true;
  writer_.Begin(clock_.Now());
  writer_.Set(table_.Declare(kPower, {}), 7);
  EXPECT_THAT(Render(ExpositionFormat::kText004), HasSubstr("power_watts 7 1700000000000\n"));
}

TEST_F(TextPageTest, EscapesNamesAsTheFormRequires) {
  writer_.Begin(clock_.Now());
  writer_.Set(table_.Declare(kUtf8, {}, {{"a.b", "x"}, {"ok", "y"}}), 1);
  for (ExpositionFormat format : {ExpositionFormat::kText100, ExpositionFormat::kOpenMetrics100}) {
    const std::string quoted = Render({format, NameEscaping::kUtf8});
    EXPECT_THAT(quoted, HasSubstr("\n{\"my.größe\",\"a.b\"=\"x\",ok=\"y\"} 1\n"));
    EXPECT_THAT(quoted, HasSubstr("# HELP \"my.größe\" UTF-8.\n# TYPE \"my.größe\" gauge\n"));
  }
  for (ExpositionFormat format :
       {ExpositionFormat::kText004, ExpositionFormat::kText100, ExpositionFormat::kOpenMetrics100}) {
    EXPECT_THAT(Render(format), HasSubstr("# TYPE my_gr__e gauge\nmy_gr__e{a_b=\"x\",ok=\"y\"} 1\n"))
        << "underscores when nothing is asked";
    EXPECT_THAT(Render({format, NameEscaping::kDots}),
                HasSubstr("my_dot_gr____e{a_dot_b=\"x\",ok=\"y\"} 1\n"));
    EXPECT_THAT(Render({format, NameEscaping::kValues}),
                HasSubstr("U__my_2e_gr_f6__df_e{U__a_2e_b=\"x\",ok=\"y\"} 1\n"));
  }
  EXPECT_THAT(Render({ExpositionFormat::kText004, NameEscaping::kUtf8}), HasSubstr("my_gr__e{a_b"));
}

// A page on which two families or two labels have one name is refused whole.
TEST_F(TextPageTest, OfTwoNamesThatBecomeOneTheOneThatNeededNoEscapingStays) {
  static constexpr MetricDesc kDotted{.name = "my.metric", .help = "Dotted.", .naming = Naming::kVerbatim};
  static constexpr MetricDesc kDashed{.name = "my-metric", .help = "Dashed.", .naming = Naming::kVerbatim};
  static constexpr MetricDesc kPlain{.name = "my_metric", .help = "Plain.", .naming = Naming::kVerbatim};
  writer_.Begin(clock_.Now());
  writer_.Set(table_.Declare(kDotted, {}, {{"x", "1"}}), 1);
  writer_.Set(table_.Declare(kDashed, {}, {{"x", "2"}}), 2);
  writer_.Set(table_.Declare(kPlain, {}, {{"x", "3"}}), 3);
  TextPage escaped(ExpositionFormat::kOpenMetrics100, NamePlainly);
  EXPECT_EQ(RenderWith(escaped),
            "# HELP my_metric Plain.\n# TYPE my_metric gauge\nmy_metric{x=\"3\"} 3\n# EOF\n");
  EXPECT_EQ(escaped.losses().name_clashes, 2u);
  EXPECT_EQ(escaped.losses().duplicates, 0u);
  writer_.Begin(clock_.Now());
  writer_.Set(table_.Declare(kRuns, {}), 1);
  TextPage quoted({ExpositionFormat::kOpenMetrics100, NameEscaping::kUtf8}, NamePlainly);
  EXPECT_THAT(RenderWith(quoted),
              AllOf(HasSubstr("{\"my.metric\",x=\"1\"} 1"), HasSubstr("{\"my-metric\",x=\"2\"} 2"),
                    HasSubstr("\nmy_metric{x=\"3\"} 3")));
  EXPECT_EQ(quoted.losses().name_clashes, 0u);
}

TEST_F(TextPageTest, LabelsWithEqualEscapedNamesStayDistinct) {
  Ref<Shape> shape = MakeRef<Shape>();
  shape->bounds = {std::numeric_limits<double>::infinity()};
  writer_.Begin(clock_.Now());
  writer_.Set(table_.Declare(kPower, {}, {{"a-b", "1"}, {"a.b", "2"}, {"a_b", "3"}, {"le", "4"}}), 1);
  auto cells = writer_.Cells(
      table_.Declare(kLatency, {}, {{"le", "mine"}, {"__name__", "x"}, {"", "y"}}, {.shape = shape}));
  for (Cell& cell : cells) cell.d = 7;
  const std::string page = Render(ExpositionFormat::kText004);
  EXPECT_THAT(page, HasSubstr("power_watts{exported_a_b=\"1\",exported_2_a_b=\"2\",a_b=\"3\",le=\"4\"} 1\n"));
  EXPECT_THAT(page, HasSubstr("latency_seconds_bucket{exported_=\"y\",exported___name__=\"x\","
                              "exported_le=\"mine\",le=\"+Inf\"} 7\n"));
  EXPECT_THAT(Render({ExpositionFormat::kText100, NameEscaping::kUtf8}),
              HasSubstr("power_watts{\"a-b\"=\"1\",\"a.b\"=\"2\",a_b=\"3\",le=\"4\"} 1\n"));
}

// As many as a program may send, of one character each.
TEST_F(TextPageTest, ManyLabelsThatBecomeOneCostAsManyLines) {
  std::vector<std::string> keys;
  for (int i = 0; i < 128; ++i) AppendUtf8(keys.emplace_back(), 0x4E00 + static_cast<uint32_t>(i));
  std::vector<AttributeSet::Attribute> attributes;
  for (const std::string& key : keys) attributes.push_back({key, "v"});
  writer_.Begin(clock_.Now());
  writer_.Set(table_.Declare(kPower, {}, AttributeSet(std::span<const AttributeSet::Attribute>(attributes))),
              1);
  const std::string page = Render(ExpositionFormat::kText004);
  EXPECT_THAT(page, AllOf(HasSubstr("power_watts{_=\"v\",exported__=\"v\",exported_2__=\"v\""),
                          HasSubstr(",exported_127__=\"v\"} 1\n")));
  EXPECT_LT(page.size(), 128u * 24);
}

TEST_F(TextPageTest, ExemplarsHaveEscapedNamesToo) {
  writer_.Begin(clock_.Now());
  Series runs = table_.Declare(kRuns, {});
  writer_.Set(runs, 3);
  writer_.Attach(runs, {.value = 0.5, .attributes = {{"trace.id", "1"}, {"trace_id", "2"}}});
  EXPECT_THAT(Render(ExpositionFormat::kOpenMetrics100),
              HasSubstr("runs_total 3 # {exported_trace_id=\"1\",trace_id=\"2\"} 0.5\n"));
  EXPECT_THAT(Render({ExpositionFormat::kOpenMetrics100, NameEscaping::kUtf8}),
              HasSubstr("runs_total 3 # {\"trace.id\"=\"1\",trace_id=\"2\"} 0.5\n"));
}

// A family of OpenMetrics is called without the suffix: nothing would be left of this one.
TEST_F(TextPageTest, ANameThatIsOnlyASuffixKeepsIt) {
  static constexpr MetricDesc kTotal{
      .name = "_total", .help = "T.", .kind = Kind::kCounter, .naming = Naming::kVerbatim};
  writer_.Begin(clock_.Now());
  writer_.Set(table_.Declare(kTotal, {}), 1);
  EXPECT_EQ(Render(ExpositionFormat::kOpenMetrics100),
            "# HELP _total T.\n# TYPE _total unknown\n_total 1\n# EOF\n");
}

TEST_F(TextPageTest, LabelValuesAndHelpAreEscaped) {
  writer_.Begin(clock_.Now());
  writer_.Set(table_.Declare(kPower, {}, {{"x", "quote \" slash \\ line \n"}}), 1);
  EXPECT_THAT(Render(ExpositionFormat::kText004), HasSubstr(R"({x="quote \" slash \\ line \n"} 1)"));
  writer_.Begin(clock_.Now());
  writer_.Set(table_.Declare(kRuns, {}, {{"x", std::string_view("a\0b", 3)}, {"y", "a\xff"}}), 1);
  EXPECT_THAT(Render(ExpositionFormat::kText004), HasSubstr("{x=\"a\uFFFDb\",y=\"a\uFFFD\"} 1"));
}

TEST_F(TextPageTest, AlwaysShownFamiliesNeedNoSample) {
  TextPage page(ExpositionFormat::kText004, NamePlainly);
  page.AlwaysShow({{.name = "zernel_x_total", .help = "X.", .kind = Kind::kCounter}});
  writer_.Begin(clock_.Now());
  EXPECT_EQ(RenderWith(page), "# HELP zernel_x_total X.\n# TYPE zernel_x_total counter\n");
}

TEST_F(TextPageTest, SteadyPagesReuseThePlanAndFollowNewValuesAndNewLayouts) {
  TextPage page(ExpositionFormat::kText004, NamePlainly);
  Series power = table_.Declare(kPower, {});
  for (int i = 1; i <= 3; ++i) {
    writer_.Begin(clock_.Now());
    writer_.Set(power, i);
    EXPECT_THAT(RenderWith(page), HasSubstr("power_watts " + std::to_string(i) + "\n"));
  }
  writer_.Begin(clock_.Now());
  table_.Retire(power);
  writer_.Set(table_.Declare(kRuns, {}), 1);
  EXPECT_THAT(RenderWith(page), Not(HasSubstr("power_watts")));
  EXPECT_EQ(page.samples(), 1u);
}

// Two frames with the same family.
class TwoFrames : public ::testing::Test {
 protected:
  std::string Render(TextPage& page) {
    Ref<Snapshot> snapshot = MakeRef<Snapshot>();
    // The scraped one comes first: precedence decides, not order.
    snapshot->frames = {{b_.Finish(), "scraped", Precedence::kPassThrough, false},
                        {a_.Finish(), "native", Precedence::kNative, false}};
    std::string out;
    page.Render(*snapshot, out);
    return out;
  }
  SeriesTable table_a_, table_b_;
  FrameWriter a_{table_a_, std::chrono::seconds(10)}, b_{table_b_, std::chrono::seconds(10)};
  ManualClock clock_;
  TextPage page_{ExpositionFormat::kText004, NamePlainly};
};

TEST_F(TwoFrames, NativeWinsATypeConflict) {
  a_.Begin(clock_.Now());
  a_.Set(table_a_.Declare(kRuns, {}), 1);
  b_.Begin(clock_.Now());
  b_.Set(table_b_.Declare(kRunsAsGauge, {}, {{"x", "y"}}), 2);
  EXPECT_EQ(Render(page_), "# HELP runs_total Runs.\n# TYPE runs_total counter\nruns_total 1\n");
  EXPECT_EQ(page_.losses().type_conflicts, 1u);
}

TEST_F(TwoFrames, OneValuePerSeriesAndOneHeaderPerFamily) {
  a_.Begin(clock_.Now());
  a_.Set(table_a_.Declare(kRuns, {}), 1);
  b_.Begin(clock_.Now());
  b_.Set(table_b_.Declare(kRuns, {}), 2);
  b_.Set(table_b_.Declare(kRuns, {}, {{"x", "y"}}), 3);
  EXPECT_EQ(Render(page_),
            "# HELP runs_total Runs.\n# TYPE runs_total counter\nruns_total 1\nruns_total{x=\"y\"} 3\n");
  EXPECT_EQ(page_.losses().duplicates, 1u);
}

TEST_F(TwoFrames, ANativeNameBeatsAScrapedOneThatBecomesTheSame) {
  static constexpr MetricDesc kScraped{
      .name = "runs.total", .kind = Kind::kCounter, .naming = Naming::kVerbatim};
  a_.Begin(clock_.Now());
  a_.Set(table_a_.Declare(kRuns, {}), 1);
  b_.Begin(clock_.Now());
  b_.Set(table_b_.Declare(kScraped, {}, {{"x", "y"}}), 2);
  EXPECT_EQ(Render(page_), "# HELP runs_total Runs.\n# TYPE runs_total counter\nruns_total 1\n");
  EXPECT_EQ(page_.losses().name_clashes, 1u);
}

std::string Number(double value) {
  char text[kNumberBytes];
  return std::string(text, WriteNumber(text, value));
}

TEST(WriteNumberTest, WritesWhatCanBeReadBack) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  EXPECT_EQ(Number(0), "0");
  EXPECT_EQ(Number(-0.0), "-0");
  EXPECT_EQ(Number(-17), "-17");
  EXPECT_EQ(Number(0.1), "0.1");
  EXPECT_EQ(Number(1e300), "1e+300");
  EXPECT_EQ(Number(9007199254740993.0), "9007199254740992");
  EXPECT_EQ(Number(kInfinity), "+Inf");
  EXPECT_EQ(Number(-kInfinity), "-Inf");
  EXPECT_EQ(Number(std::nan("")), "NaN");
  EXPECT_EQ(Number(std::numeric_limits<double>::denorm_min()), "5e-324");
}

}  // namespace
}  // namespace gpulens
