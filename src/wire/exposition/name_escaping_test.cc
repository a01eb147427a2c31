#include "wire/exposition/exposition_format.h"

#include <gtest/gtest.h>

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
}  // namespace gpulens
