// The grammar, the rules for families, limits, and every bad input of testdata/exposition_invalid: the
// first line of each has the format, the number of samples that remain, and the bad lines with their reasons.
#include "wire/exposition/exposition_parser.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <random>
#include <string>
#include <vector>

#include "base/files.h"
#include "base/parse.h"
#include "wire/exposition/exposition_line.h"

namespace gpulens {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using ::testing::StartsWith;

std::string Show(double value) {
  char text[40];
  std::snprintf(text, sizeof text, "%.17g", value);
  return text;
}

std::string ShowLabels(std::span<const LabelView> labels) {
  std::string out = "{";
  for (const LabelView& label : labels) out += std::string(label.name) + "=" + std::string(label.value) + ";";
  return out + "}";
}

class Collector final : public ExpositionHandler {
 public:
  void OnFamily(uint32_t id, const ExpositionFamily& family) override {
    EXPECT_EQ(id, names.size());
    names.push_back(family.name);
    families.push_back(
        family.name + " " +
        (family.typed || family.inferred ? std::string(ExpositionTypeName(family.type)) : "-") + " '" +
        family.help + "' " + family.unit);
  }
  void OnSample(const SampleView& sample) override {
    std::string out = names[sample.family] + " " + std::to_string(static_cast<int>(sample.role)) + " " +
                      std::string(sample.name) + ShowLabels(sample.labels) + " " + Show(sample.value);
    if (sample.timestamp_ms) out += " @" + std::to_string(*sample.timestamp_ms);
    if (sample.exemplar) {
      out += " #" + ShowLabels(sample.exemplar->labels) + " " + Show(sample.exemplar->value);
      if (sample.exemplar->timestamp_ms) out += " @" + std::to_string(*sample.exemplar->timestamp_ms);
    }
    samples.push_back(out);
    values.push_back(sample.value);
    bounds.push_back(sample.bound);
  }
  void OnBadLine(const BadLine& line) override {
    EXPECT_LE(line.excerpt.size(), 80u);
    bad.push_back(std::to_string(line.number) + ":" + std::string(LineErrorName(line.error)));
  }

  std::vector<std::string> names, families, samples, bad;
  std::vector<double> values, bounds;
  ExpositionReport report;
};

Collector Parse(std::string_view page, ExpositionFormat format = ExpositionFormat::kText004,
                const ExpositionLimits& limits = {}) {
  Collector collector;
  auto report = ParseExposition(page, format, limits, collector);
  EXPECT_TRUE(report.ok());
  if (report) collector.report = *report;
  EXPECT_EQ(collector.report.samples, collector.samples.size());
  EXPECT_EQ(collector.report.bad_lines, collector.bad.size());
  return collector;
}

TEST(ExpositionFormat, FromContentType) {
  auto open = ExpositionFormat::kOpenMetrics100;
  auto text = ExpositionFormat::kText004;
  EXPECT_EQ(DetectExpositionFormat(""), text);
  EXPECT_EQ(DetectExpositionFormat("text/plain"), text);
  EXPECT_EQ(DetectExpositionFormat("text/plain; version=0.0.4; charset=utf-8"), text);
  EXPECT_EQ(DetectExpositionFormat("TEXT/PLAIN;Version=\"1.0.0\""), ExpositionFormat::kText100);
  EXPECT_EQ(DetectExpositionFormat("text/plain; version=1.0.0; escaping=allow-utf-8"),
            ExpositionFormat::kText100);
  EXPECT_EQ(DetectExpositionFormat("application/openmetrics-text; version=1.0.0; charset=utf-8"), open);
  EXPECT_EQ(DetectExpositionFormat("application/openmetrics-text;version=0.0.1"), open);
  EXPECT_EQ(DetectExpositionFormat("text/html; charset=utf-8"), std::nullopt);
  EXPECT_EQ(DetectExpositionFormat("application/json"), std::nullopt);
  EXPECT_EQ(DetectExpositionFormat("application/vnd.google.protobuf; version=1.0.0"), std::nullopt);
}

TEST(ExpositionNumber, FormsAndEnds) {
  EXPECT_EQ(ParseExpositionNumber("+Inf"), HUGE_VAL);
  EXPECT_EQ(ParseExpositionNumber("-inf"), -HUGE_VAL);
  EXPECT_EQ(ParseExpositionNumber("INFINITY"), HUGE_VAL);
  EXPECT_TRUE(std::isnan(*ParseExpositionNumber("NaN")));
  EXPECT_TRUE(std::isnan(*ParseExpositionNumber("-nan")));
  EXPECT_TRUE(std::signbit(*ParseExpositionNumber("-0")));
  EXPECT_EQ(ParseExpositionNumber("1e400"), HUGE_VAL);
  EXPECT_EQ(ParseExpositionNumber("-0.0001e-400"), 0);
  EXPECT_EQ(ParseExpositionNumber(std::string(400, '1') + "e-1000"), 0);
  EXPECT_EQ(ParseExpositionNumber("0." + std::string(400, '0') + "1e9999999999"), HUGE_VAL);
  EXPECT_EQ(ParseExpositionNumber("5."), 5);
  EXPECT_EQ(ParseExpositionNumber(".5"), 0.5);
  for (const char* bad : {"", "+", "-", ".", "0x10", "1e", "nan(1)", "infinite", "1 ", " 1", "1_0", "++1"}) {
    EXPECT_EQ(ParseExpositionNumber(bad), std::nullopt) << bad;
  }
  EXPECT_EQ(ParseExpositionNumber(std::string(kMaxNumberBytes + 1, '1')), std::nullopt);
}

void ExpectLikeStrtod(const std::string& number) {
  double expected = std::strtod(number.c_str(), nullptr);
  for (const char* behind :
       {"", "\n", " 17000000000000000000000000000", "\r\nname{label=\"value value value\"} 2\n"}) {
    std::string text = number + behind;
    double value = -1;
    const char* end = ReadExpositionNumber(text.data(), text.data() + text.size(), value);
    ASSERT_EQ(end, text.data() + number.size()) << text;
    ASSERT_EQ(std::bit_cast<uint64_t>(value), std::bit_cast<uint64_t>(expected)) << text;
  }
}

TEST(ExpositionNumber, EqualsStrtodBitForBit) {
  for (const char* number : {"0",
                             "-0",
                             "7.0",
                             "0.07500000000000001",
                             "6.634254336e+09",
                             "9007199254740993",
                             "9007199254740992.5",
                             "1234567",
                             "12345678",
                             "1234567.1234567",
                             "12345678.12345678",
                             "123456789012345678901234567890",
                             "0.1",
                             "2.2250738585072011e-308",
                             "4.9e-324",
                             "1e-400",
                             "1.7976931348623157e308",
                             "1e309",
                             "-1E5",
                             "1e+011",
                             "179769313486231580793728971405301e276",
                             "0000000000000000000000001",
                             "3.0000000000000000000000001",
                             "5.",
                             ".25"}) {
    ExpectLikeStrtod(number);
  }
  std::mt19937_64 random(7);
  for (int i = 0; i < 20000; ++i) {
    char text[64];
    double value = std::bit_cast<double>(random());
    if (std::isfinite(value)) {
      std::snprintf(text, sizeof text, "%.17g", value);
      ExpectLikeStrtod(text);
    }
    std::snprintf(text, sizeof text, "%.*f", static_cast<int>(random() % 9),
                  static_cast<double>(random() % 100000000) / 997);
    ExpectLikeStrtod(text);
  }
}

TEST(ExpositionParser, SamplesOfEveryShape) {
  Collector page = Parse(
      "plain 1\n"
      "  indented\t 2  \n"
      "a:b{} 3\n"
      "a { x = \"1\" , y=\"b, c\", } 4 1700000000000\n"
      "esc{v=\"q\\\" s\\\\ n\\n w\\d\"} 5\r\n"
      "glued{a=\"b\"}6\n"
      "\n   \n\t\r\n"
      "# just a comment\n#TYPE not a type line\n"
      "{\"my.name\",\"l.b\"=\"v\"} 7\n{\"only\"} 8\n"
      "mixed{x=\"1\" ,y=\"2\"\t, z =\"3\" , } 9\n"
      "last -1.5e3");
  EXPECT_THAT(page.samples,
              ElementsAre("plain 0 plain{} 1", "indented 0 indented{} 2", "a:b 0 a:b{} 3",
                          "a 0 a{x=1;y=b, c;} 4 @1700000000000", "esc 0 esc{v=q\" s\\ n\n w\\d;} 5",
                          "glued 0 glued{a=b;} 6", "my.name 0 my.name{l.b=v;} 7", "only 0 only{} 8",
                          "mixed 0 mixed{x=1;y=2;z=3;} 9", "last 0 last{} -1500"));
  EXPECT_THAT(page.bad, IsEmpty());
  EXPECT_TRUE(page.report.open_end);
}

TEST(ExpositionParser, MergesLinesOfOneFamilyFromAnywhereOnThePage) {
  Collector page = Parse(
      "# HELP a First.\n# TYPE a gauge\na{i=\"0\"} 1\n"
      "# HELP b Back\\\\slash and \\n line\nb 2\n"
      "# HELP a Second.\n# TYPE a gauge\na{i=\"1\"} 3\n"
      "# TYPE a counter\n# UNIT a volts\n"
      "late_sum 4\n# TYPE late summary\n# HELP empty\n# TYPE \"quo.ted\" untyped\n");
  EXPECT_THAT(page.families, ElementsAre("a gauge 'First.' ", "b - 'Back\\slash and \n line' ",
                                         "late summary '' ", "empty - '' ", "quo.ted unknown '' "));
  EXPECT_THAT(page.samples,
              ElementsAre("a 0 a{i=0;} 1", "b 0 b{} 2", "a 0 a{i=1;} 3", "late 3 late_sum{} 4"));
  EXPECT_EQ(page.report.type_conflicts, 1u);
}

TEST(ExpositionParser, SuffixesBelongToTheTypeThatClaimsThem) {
  Collector page = Parse(
      "# TYPE tokens_total histogram\n# TYPE free_total gauge\n# TYPE hits counter\n# TYPE x_count gauge\n# "
      "TYPE x summary\n"
      "tokens_total_sum 1\ntokens_total_bucket{model=\"m\",le=\"1.0\"} 2\ntokens_total_bucket{le=\"+Inf\"} "
      "3\n"
      "tokens_total_count 3\ntokens_total_created 9\nfree_total 4\nhits 5\nhits_total 6\nx_count 7\nx_sum 8\n"
      "x{quantile=\"0.99\"} 9\nx 10\nloose_bucket{le=\"x\"} 11\ntokens_total 12\n_total 13\n");
  EXPECT_THAT(
      page.samples,
      ElementsAre("tokens_total 3 tokens_total_sum{} 1",
                  "tokens_total 1 tokens_total_bucket{model=m;le=1.0;} 2",
                  "tokens_total 1 tokens_total_bucket{le=+Inf;} 3", "tokens_total 4 tokens_total_count{} 3",
                  "tokens_total 5 tokens_total_created{} 9", "free_total 0 free_total{} 4", "hits 0 hits{} 5",
                  "hits 0 hits_total{} 6", "x_count 0 x_count{} 7", "x 3 x_sum{} 8",
                  "x 2 x{quantile=0.99;} 9", "x 0 x{} 10", "loose_bucket 0 loose_bucket{le=x;} 11",
                  "tokens_total 0 tokens_total{} 12", "_total 0 _total{} 13"));
  EXPECT_EQ(page.bounds[1], 1);
  EXPECT_EQ(page.bounds[2], HUGE_VAL);
}

TEST(ExpositionParser, OpenMetrics) {
  Collector page = Parse(
      "# TYPE c_seconds counter\n# UNIT c_seconds seconds\n# HELP c_seconds A \\\"quoted\\\" help\n"
      "c_seconds_total{a=\"1\"} 17 1700000000.5 # {trace_id=\"a\\\"b\"} 0.5 1700000000.1234\n"
      "c_seconds_created{a=\"1\"} 1.7e9\n"
      "# TYPE i info\ni_info{v=\"1 # {\"} 1\n# TYPE s stateset\ns{s=\"on\"} 1\ns{s=\"off\"} 0\n"
      "# TYPE g gaugehistogram\ng_bucket{le=\"1\"} 1 # {} 2\ng_gsum 3\ng_gcount 1\n# EOF\n",
      ExpositionFormat::kOpenMetrics100);
  EXPECT_THAT(page.families, ElementsAre("c_seconds counter 'A \"quoted\" help' seconds", "i info '' ",
                                         "s stateset '' ", "g gaugehistogram '' "));
  EXPECT_THAT(
      page.samples,
      ElementsAre("c_seconds 0 c_seconds_total{a=1;} 17 @1700000000500 #{trace_id=a\"b;} 0.5 @1700000000123",
                  "c_seconds 5 c_seconds_created{a=1;} 1700000000", "i 6 i_info{v=1 # {;} 1",
                  "s 7 s{s=on;} 1", "s 7 s{s=off;} 0", "g 1 g_bucket{le=1;} 1 #{} 2", "g 3 g_gsum{} 3",
                  "g 4 g_gcount{} 1"));
  EXPECT_THAT(page.bad, IsEmpty());
  EXPECT_FALSE(page.report.truncated);
}

TEST(ExpositionParser, BadInputsByName) {
  size_t count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(
           GPULENS_SOURCE_DIR "/src/wire/exposition/testdata/exposition_invalid")) {
    SCOPED_TRACE(entry.path().filename().string());
    auto file = ReadFile(entry.path().string());
    ASSERT_TRUE(file.ok());
    std::string_view page = *file;
    std::string_view head = TakeUntil(page, '\n');
    std::string_view format = TakeUntil(head, ' '), samples = TakeUntil(head, ' ');
    std::vector<std::string> expected;
    bool truncated = false;
    while (!head.empty()) {
      std::string_view word = TakeUntil(head, ' ');
      if (word == "truncated") {
        truncated = true;
      } else {
        expected.emplace_back(word);
      }
    }
    Collector result = Parse(page, format == "openmetrics" ? ExpositionFormat::kOpenMetrics100
                                   : format == "text100"   ? ExpositionFormat::kText100
                                                           : ExpositionFormat::kText004);
    EXPECT_EQ(result.bad, expected);
    EXPECT_EQ("samples=" + std::to_string(result.samples.size()), samples);
    EXPECT_EQ(result.report.truncated, truncated);
    ++count;
  }
  EXPECT_GE(count, 30u);
}

TEST(ExpositionParser, LimitsDropAndCount) {
  ExpositionLimits limits;
  limits.line_bytes = 60;
  limits.labels = 2;
  limits.name_bytes = 8;
  limits.value_bytes = 10;
  limits.samples = 20;
  Collector page = Parse(
      "a{x=\"1\",y=\"2\",z=\"3\"} 1\na{x=\"01234567890\"} 1\nlongername 1\na{longername=\"1\"} 1\n"
      "a{x=\"012345678\\n0\"} 1\n{\"longername\"} 1\na{\"longername\"=\"x\"} 1\n# HELP longername x\n"
      "# HELP a 01234567890\n" +
          std::string(61, 'x') + "\nf1 1\nf2 1\nf3 1\nf4 1\nf5 1\n# c\nf6 1\n",
      ExpositionFormat::kText004, limits);
  EXPECT_THAT(page.bad,
              ElementsAre("1:too_many_labels", "2:too_long", "3:too_long", "4:too_long", "5:too_long",
                          "6:too_long", "7:too_long", "8:too_long", "9:too_long", "10:too_long"));
  EXPECT_EQ(page.samples.size(), 6u);
}

TEST(ExpositionParser, APageAboveALimitIsNotReadAtAll) {
  auto code = [](std::string_view page, const ExpositionLimits& limits,
                 ExpositionFormat format = ExpositionFormat::kText004) {
    Collector none;
    auto report = ParseExposition(page, format, limits, none);
    EXPECT_TRUE(report.ok() || none.samples.empty());
    return report.ok() ? Code::kOk : report.status().code;
  };
  ExpositionLimits limits;
  limits.samples = 2;
  EXPECT_EQ(code("a 1\nb 1\n", limits), Code::kOk);
  EXPECT_EQ(code("a 1\na{x=\"1\"} 1\n# HELP a x\na{x=\"2\"} 1\n", limits), Code::kExhausted);
  EXPECT_EQ(code("a 1\nb 1\n# EOF\nc 1\n", limits, ExpositionFormat::kOpenMetrics100), Code::kOk)
      << "what stands behind the end is no sample";
  limits.samples = 10;
  limits.families = 3;
  EXPECT_EQ(code("f1 1\nf2 1\nf1{a=\"b\"} 1\nf3 1\nf1{a=\"c\"} 1\n", limits), Code::kOk);
  EXPECT_EQ(code("# HELP f1 x\n# TYPE f1 gauge\nf1 1\n# TYPE f2 histogram\nf2_sum 1\nf2_count 1\n", limits),
            Code::kOk);
  EXPECT_EQ(code("f1 1\nf2 1\nf3 1\nf4 1\n", limits), Code::kExhausted);
  EXPECT_EQ(code("# HELP f1 x\n# HELP f2 x\n# HELP f3 x\n# HELP f4 x\nf1 1\n", limits), Code::kExhausted);
  limits.page_bytes = 3;
  EXPECT_EQ(code("a 12", limits), Code::kExhausted);
}

// As an exporter without TYPE lines, a page whose families are all untyped, and Prometheus' /federate.
TEST(ExpositionParser, HistogramsAreKnownByTheirBuckets) {
  const std::string samples =
      "x_sum 7\nx_bucket{le=\"1\"} 1\nx_bucket{le=\"+Inf\"} 2\nx_count 2\nx_created 5\n";
  for (const std::string declared : {"", "# TYPE x untyped\n", "# HELP x of them\n",
                                     "# TYPE x_bucket untyped\n# TYPE x_count untyped\n# TYPE x_sum "
                                     "untyped\n# TYPE x_created untyped\n"}) {
    Collector page = Parse(declared + samples, ExpositionFormat::kText004);
    EXPECT_THAT(page.families, Contains(StartsWith("x histogram"))) << declared;
    ASSERT_THAT(page.samples, SizeIs(5));
    for (const std::string& sample : page.samples) EXPECT_THAT(sample, StartsWith("x "));
    EXPECT_EQ(page.samples[1], "x 1 x_bucket{le=1;} 1");
    EXPECT_EQ(page.bounds[2], std::numeric_limits<double>::infinity());
  }
  for (const std::string other :
       {"# TYPE x gauge\nx_bucket{le=\"1\"} 1\n", "# TYPE x_bucket counter\nx_bucket{le=\"1\"} 1\n",
        "x_bucket{name=\"1\"} 1\n", "x_bucket{le=\"small\"} 1\n", "x_bucket 1\n", "_bucket{le=\"1\"} 1\n"}) {
    Collector page = Parse(other, ExpositionFormat::kText004);
    ASSERT_THAT(page.samples, SizeIs(1)) << other;
    EXPECT_THAT(page.samples[0], HasSubstr("_bucket 0 ")) << other;
    EXPECT_TRUE(page.bad.empty());
  }
}

// The good cases null_byte and timestamps of OpenMetrics' own test suite.
TEST(ExpositionParser, NulBytesAndLongTimestamps) {
  using namespace std::string_literals;
  Collector page = Parse("# TYPE a counter\n# HELP a he\0lp\na_total{x=\"b\0c\"} 1\n# EOF\n"s,
                         ExpositionFormat::kOpenMetrics100);
  EXPECT_TRUE(page.bad.empty());
  EXPECT_THAT(page.families, ElementsAre("a counter 'he\0lp' "s));
  EXPECT_THAT(page.samples, ElementsAre("a 0 a_total{x=b\0c;} 1"s));
  page = Parse(
      "a 1 12345678901234567890.1234567890\na{b=\"1\"} 2 -12345678901234567890\na{b=\"2\"} 3 1.5e3\n"
      "a{b=\"3\"} 4 NaN\na{b=\"4\"} 5 +Inf\n# EOF\n",
      ExpositionFormat::kOpenMetrics100);
  EXPECT_THAT(page.samples, ElementsAre("a 0 a{} 1 @9000000000000000000",
                                        "a 0 a{b=1;} 2 @-9000000000000000000", "a 0 a{b=2;} 3 @1500000"));
  EXPECT_THAT(page.bad, ElementsAre("4:bad_timestamp", "5:bad_timestamp"));
}

// 16 MB each, of the kinds that make careless parsers quadratic. Under a sanitizer this takes a while;
// a quadratic parser would take hours.
TEST(ExpositionParser, HostilePagesTakeLinearTime) {
  constexpr size_t kSize = 4 << 20;
  std::string backslashes = "a{b=\"" + std::string(kSize, '\\'), braces(kSize, '{'),
              quotes = "a" + std::string(kSize, '"');
  std::string commas = "a{" + std::string(kSize, ','), digits = "a " + std::string(kSize, '9'),
              hashes(kSize, '#'), names;
  ExpositionLimits limits;
  limits.line_bytes = kSize * 2;
  limits.families = kSize;
  for (int i = 0; names.size() < kSize; ++i) names += "# TYPE a" + std::to_string(i) + " counter\n";
  for (const std::string& page : {backslashes, braces, quotes, commas, digits, hashes, names}) {
    Parse(page, ExpositionFormat::kOpenMetrics100, limits);
  }
}

TEST(ExpositionParser, EveryCaptureParses) {
  const std::string root = GPULENS_SOURCE_DIR "/../shared/fixtures/";
  auto sources = ReadFile(root + "SOURCES.tsv");
  if (!sources) GTEST_SKIP() << "captures not here: " << root;
  size_t pages = 0, samples = 0, bad = 0;
  std::string_view rest = *sources;
  TakeUntil(rest, '\n');
  while (!rest.empty()) {
    std::string_view row = TakeUntil(rest, '\n');
    std::string path(TakeUntil(row, '\t'));
    if (!path.ends_with(".txt") && !path.ends_with(".metrics") && !path.ends_with(".prom")) continue;
    auto page = ReadFile(root + path, 8 << 20);
    if (!page || page->find("# TYPE ") == std::string::npos) continue;
    SCOPED_TRACE(path);
    Collector result = Parse(*page);
    ++pages;
    samples += result.samples.size();
    bad += result.bad.size();
    // Captures from documents have title lines and "..." between samples, no more.
    EXPECT_GT(result.samples.size(), 0u);
    EXPECT_LE(result.bad.size(), 12u) << ::testing::PrintToString(result.bad);
  }
  EXPECT_GE(pages, 40u);
  RecordProperty("pages", static_cast<int>(pages));
  RecordProperty("samples", static_cast<int>(samples));
  RecordProperty("bad", static_cast<int>(bad));
}

}  // namespace
}  // namespace gpulens
