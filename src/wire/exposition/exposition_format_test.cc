#include <gtest/gtest.h>
#include <string>

#include "wire/exposition/exposition_format.h"

namespace gpulens {
namespace {

// Names and what they become as the tests of prometheus/common have them (model/metric_test.go).
struct Case {
  std::string_view name, underscores, dots, values;
};
constexpr Case kCases[] = {
    {"", "", "", ""},
    {"mysystem.prod.west.cpu.load", "mysystem_prod_west_cpu_load",
     "mysystem_dot_prod_dot_west_dot_cpu_dot_load", "U__mysystem_2e_prod_2e_west_2e_cpu_2e_load"},
    {"mysystem.prod.west.cpu.load_total", "mysystem_prod_west_cpu_load_total",
     "mysystem_dot_prod_dot_west_dot_cpu_dot_load__total",
     "U__mysystem_2e_prod_2e_west_2e_cpu_2e_load__total"},
    {"http.status:sum", "http_status:sum", "http_dot_status:sum", "U__http_2e_status:sum"},
    {"label with 😱", "label_with__", "label__with____", "U__label_20_with_20__1f631_"},
    {"花火", "__", "____", "U___82b1__706b_"},
    {"label with Ā", "label_with__", "label__with____", "U__label_20_with_20__100_"},
    {"unicode.and.dots.花火", "unicode_and_dots___", "unicode_dot_and_dot_dots_dot_____",
     "U__unicode_2e_and_2e_dots_2e__82b1__706b_"},
    // A digit at the front; in the middle it is legacy.
    {"9lives.9", "_lives_9", "__lives_dot_9", "U___39_lives_2e_9"},
};

TEST(NameEscaping, EscapesAsTheOfficialCasesHaveIt) {
  for (const Case& one : kCases) {
    EXPECT_EQ(EscapeMetricName(one.name, NameEscaping::kUtf8), one.name);
    EXPECT_EQ(EscapeMetricName(one.name, NameEscaping::kUnderscores), one.underscores) << one.name;
    EXPECT_EQ(EscapeMetricName(one.name, NameEscaping::kDots), one.dots) << one.name;
    EXPECT_EQ(EscapeMetricName(one.name, NameEscaping::kValues), one.values) << one.name;
  }
}

// As EscapeMetricFamily has it, which exporters call: EscapeName would double the underscore for dots.
TEST(NameEscaping, LeavesLegacyNamesAlone) {
  for (NameEscaping escaping :
       {NameEscaping::kUtf8, NameEscaping::kUnderscores, NameEscaping::kDots, NameEscaping::kValues}) {
    EXPECT_EQ(EscapeMetricName("no:escaping_required", escaping), "no:escaping_required");
    EXPECT_EQ(EscapeLabelName("some_label", escaping), "some_label");
  }
}

TEST(NameEscaping, AColonIsNoCharacterOfALabel) {
  EXPECT_EQ(EscapeLabelName("a:b", NameEscaping::kUtf8), "a:b");
  EXPECT_EQ(EscapeLabelName("a:b", NameEscaping::kUnderscores), "a_b");
  EXPECT_EQ(EscapeLabelName("a:b", NameEscaping::kDots), "a__b");
  EXPECT_EQ(EscapeLabelName("a:b", NameEscaping::kValues), "U__a_3a_b");
}

TEST(NameEscaping, KnowsLegacyNames) {
  for (std::string_view name : {"a", "_", "A9", "__name__"}) {
    EXPECT_TRUE(IsLegacyMetricName(name)) << name;
    EXPECT_TRUE(IsLegacyLabelName(name)) << name;
  }
  for (std::string_view name : {"", "9", "a.b", "a b", "ü", "a\xff", "a\n"}) {
    EXPECT_FALSE(IsLegacyMetricName(name)) << name;
    EXPECT_FALSE(IsLegacyLabelName(name)) << name;
  }
  EXPECT_TRUE(IsLegacyMetricName(":a:b"));
  EXPECT_FALSE(IsLegacyLabelName("a:b"));
}

TEST(NameEscaping, WordsAreFoundAndNothingElseIs) {
  for (NameEscaping escaping :
       {NameEscaping::kUtf8, NameEscaping::kUnderscores, NameEscaping::kDots, NameEscaping::kValues})
    EXPECT_EQ(FindNameEscaping(NameEscapingWord(escaping)), escaping);
  for (std::string_view word : {"", "utf-8", "Underscores", "allow-utf-8 "})
    EXPECT_EQ(FindNameEscaping(word), std::nullopt) << word;
}

TEST(NameEscaping, OldTextHasNoQuotes) {
  EXPECT_EQ(PageForm(ExpositionFormat::kText004, NameEscaping::kUtf8).escaping, NameEscaping::kUnderscores);
  EXPECT_EQ(PageForm(ExpositionFormat::kText100, NameEscaping::kUtf8).escaping, NameEscaping::kUtf8);
  EXPECT_EQ(PageForm(ExpositionFormat::kOpenMetrics100).escaping, NameEscaping::kUnderscores);
}

}  // namespace
namespace {

constexpr auto kText004 = ExpositionFormat::kText004;
constexpr auto kText100 = ExpositionFormat::kText100;
constexpr auto kOpenMetrics = ExpositionFormat::kOpenMetrics100;

ExpositionFormat FormatFor(std::string_view accept) { return Negotiate(accept).form.format; }

TEST(NegotiationTest, WithoutAnAcceptHeaderTheOldestTextIsChosen) {
  EXPECT_EQ(FormatFor(""), kText004);
  EXPECT_EQ(FormatFor("*/*"), kText004);
  EXPECT_EQ(FormatFor("text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"), kText004);
  EXPECT_EQ(FormatFor("application/json"), kText004);
  EXPECT_EQ(Negotiate("").content_type, "text/plain; version=0.0.4; charset=utf-8; escaping=underscores");
}

TEST(NegotiationTest, PrometheusGetsWhatItPrefers) {
  // Prometheus 2.42 and 3.x, as they send it.
  EXPECT_EQ(
      FormatFor(
          "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,"
          "text/plain;version=0.0.4;q=0.5,*/*;q=0.1"),
      kOpenMetrics);
  EXPECT_EQ(
      FormatFor(
          "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.5,"
          "text/plain;version=1.0.0;escaping=allow-utf-8;q=0.6,text/plain;version=0.0.4;q=0.2,*/*;q=0.1"),
      kText100);
}

TEST(NegotiationTest, QualityDecidesAndZeroForbids) {
  EXPECT_EQ(FormatFor("application/openmetrics-text;q=0.1,text/plain;version=0.0.4;q=0.9"), kText004);
  EXPECT_EQ(FormatFor("application/openmetrics-text;q=0,text/plain;version=0.0.4;q=0.1"), kText004);
  EXPECT_EQ(FormatFor("text/plain"), kText004);
  EXPECT_EQ(FormatFor("text/plain; version=\"1.0.0\""), kText100);
  EXPECT_EQ(FormatFor("TEXT/PLAIN; VERSION=0.0.4"), kText004);
  EXPECT_EQ(FormatFor("application/*;q=0.9"), kText004);
  EXPECT_EQ(FormatFor("application/openmetrics-text;q=nonsense"), kText004);
}

// A reader of OpenMetrics 2.0 that knows nothing else of ours reads 1.0.0 rather than the old text.
TEST(NegotiationTest, ANewerOpenMetricsGetsOurs) {
  EXPECT_EQ(FormatFor("application/openmetrics-text; version=2.0.0"), kOpenMetrics);
  EXPECT_EQ(FormatFor("application/openmetrics-text; version=2.0.0;q=0.5, */*;q=0.1"), kOpenMetrics);
  EXPECT_EQ(FormatFor("application/openmetrics-text; version=2.0.0;q=0.1, */*;q=0.5"), kText004);
  EXPECT_EQ(FormatFor("application/openmetrics-text; version=2.0.0;q=0.9, text/plain;version=1.0.0;q=0.5"),
            kText100)
      << "what it names is better than what it might read";
  EXPECT_EQ(FormatFor("application/openmetrics-text; version=2.0.0;q=0"), kText004);
  EXPECT_EQ(FormatFor("application/openmetrics-text; version=0.0.0"), kText004);
  EXPECT_EQ(FormatFor("application/openmetrics-text; version=newest"), kText004);
}

std::string_view TypeFor(std::string_view accept) { return Negotiate(accept).content_type; }

TEST(NegotiationTest, EscapingFollowsTheChosenElement) {
  const std::string_view open = "application/openmetrics-text; version=1.0.0; charset=utf-8; escaping=";
  for (std::string_view word : {"allow-utf-8", "underscores", "dots", "values"}) {
    for (std::string type : {"application/openmetrics-text;version=1.0.0", "text/plain;version=1.0.0"}) {
      const Negotiated got = Negotiate(type + ";escaping=" + std::string(word));
      EXPECT_EQ(NameEscapingWord(got.form.escaping), word);
      EXPECT_TRUE(got.content_type.ends_with("; escaping=" + std::string(word))) << got.content_type;
    }
  }
  EXPECT_EQ(TypeFor("application/openmetrics-text;version=1.0.0"), std::string(open) + "underscores");
  EXPECT_EQ(TypeFor("application/openmetrics-text;version=1.0.0;escaping=\"dots\""),
            std::string(open) + "dots");
  EXPECT_EQ(TypeFor("application/openmetrics-text;version=1.0.0;escaping=leet"),
            std::string(open) + "underscores");
  EXPECT_EQ(TypeFor("application/openmetrics-text;version=1.0.0;escaping=dots;q=0.1,"
                    "text/plain;version=1.0.0;escaping=values;q=0.2"),
            "text/plain; version=1.0.0; charset=utf-8; escaping=values");
  // Text 0.0.4 has no quotes for names.
  EXPECT_EQ(TypeFor("text/plain;version=0.0.4;escaping=allow-utf-8"),
            "text/plain; version=0.0.4; charset=utf-8; escaping=underscores");
  EXPECT_EQ(TypeFor("text/plain;version=0.0.4;escaping=dots"),
            "text/plain; version=0.0.4; charset=utf-8; escaping=dots");
  // Prometheus 2.42 requests no escaping; 3.x does.
  EXPECT_EQ(
      TypeFor("application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,"
              "text/plain;version=0.0.4;q=0.5,*/*;q=0.1"),
      std::string(open) + "underscores");
  EXPECT_EQ(
      TypeFor("application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,"
              "text/plain;version=1.0.0;escaping=allow-utf-8;q=0.5,text/plain;version=0.0.4;q=0.2,*/*;q=0.1"),
      std::string(open) + "allow-utf-8");
}

}  // namespace

}  // namespace gpulens
