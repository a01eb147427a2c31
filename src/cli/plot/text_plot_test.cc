#include "cli/plot/text_plot.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/parse.h"

namespace gpulens {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::Le;
using ::testing::Not;

constexpr const char* kBrailleLow = "\xe2\xa0\x80";  // without a dot

std::vector<std::string> LinesOf(std::string_view text) {
  std::vector<std::string> out;
  while (!text.empty()) out.emplace_back(TakeUntil(text, '\n'));
  return out;
}
size_t Width(const std::string& text) {
  return static_cast<size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xc0) != 0x80; }));
}
std::vector<size_t> Widths(const std::string& text) {
  std::vector<size_t> out;
  for (const std::string& line : LinesOf(text)) out.push_back(Width(line));
  return out;
}
TextPlotOptions Ascii(int columns, int rows) {
  return {.title = "", .x_name = "step", .ascii = true, .columns = columns, .rows = rows};
}

TEST(TextPlot, AFallingLineInAscii) {
  const std::string text = PlotText({{"loss", {{0, 4}, {10, 3}, {20, 2}, {30, 1}}}}, Ascii(30, 4));
  EXPECT_EQ(text,
            "loss, 4 points\n"
            "           4 +***\n"
            "             |   *****\n"
            "             |        *****\n"
            "           1 +             ***\n"
            "             +----------------\n"
            "              0    step     30\n");
}

TEST(TextPlot, BrailleHasTwoByFourDots) {
  const std::string text =
      PlotText({{"a", {{0, 0}, {1, 1}}}}, {.title = "t", .x_name = "step", .columns = 30, .rows = 4});
  const auto lines = LinesOf(text);
  ASSERT_EQ(lines.size(), 7u);
  EXPECT_EQ(lines[0], "t: a, 2 points");
  EXPECT_THAT(lines[1], HasSubstr("⠉")) << "the end of the line is at the top";
  EXPECT_THAT(lines[4], HasSubstr("⣀")) << "its beginning at the bottom";
  EXPECT_THAT(text, Not(HasSubstr(kBrailleLow)));
}

TEST(TextPlot, AGapIsAGapAndCounted) {
  const PlotLine line{"loss", {{0, 1}, {10, 1}, {11, NAN}, {19, INFINITY}, {20, 1}, {30, 1}}};
  const auto lines = LinesOf(PlotText({line}, Ascii(46, 5)));
  EXPECT_EQ(lines[0], "loss, 6 points, 2 not finite");
  const std::string& middle = lines[3];
  const size_t begin = middle.find('*');
  const size_t gap = middle.find("    ", begin), after = middle.find('*', gap);
  ASSERT_NE(after, std::string::npos) << middle;
  EXPECT_EQ(middle.substr(begin, gap - begin), std::string(gap - begin, '*'));
  EXPECT_NEAR(static_cast<double>(after - gap), 32.0 / 3, 2) << "steps 10 to 20 of 30 in 32 columns";
}

TEST(TextPlot, NoLineIsWiderThanTheTerminal) {
  const std::string name(300, 'n');
  for (int columns : {1, 30, 31, 80, 400, 10'000}) {
    for (bool ascii : {false, true}) {
      const std::string text =
          PlotText({{name, {{-1e300, -1.23456789e-300}, {1e300, 1.23456789e300}}}, {"ü\x1b[31m", {}}},
                   {.title = name, .x_name = name, .ascii = ascii, .columns = columns});
      const size_t most = static_cast<size_t>(std::clamp(columns, 30, 400));
      EXPECT_THAT(Widths(text), Each(Le(most))) << columns << text;
      EXPECT_THAT(text, Not(HasSubstr("\x1b")));
    }
  }
}

TEST(TextPlot, PanelsCompareOnOneAxis) {
  const std::vector<PlotLine> lines = {{"low", {{0, 0}, {10, 1}}}, {"high", {{0, 9}, {10, 10}}}};
  TextPlotOptions options = Ascii(40, 6);
  const auto top_of = [&](size_t panel) {
    return LinesOf(PlotText(lines, options))[panel * 7 + 1].find('*') != std::string::npos;
  };
  EXPECT_FALSE(top_of(0));
  EXPECT_TRUE(top_of(1));
  options.same_y = false;
  EXPECT_TRUE(top_of(0));
}

TEST(TextPlot, LogarithmsHaveNoPlaceForZero) {
  TextPlotOptions options = Ascii(40, 6);
  options.log_y = true;
  const auto lines = LinesOf(PlotText({{"a", {{0, 0.001}, {1, 0}, {2, 1000}}}}, options));
  EXPECT_EQ(lines[0], "a, 3 points, 1 not drawn, logarithmic");
  EXPECT_THAT(lines[1], HasSubstr("*"));
  EXPECT_THAT(lines[6], HasSubstr("*"));
}

TEST(TextPlot, NothingButGapsIsEmptyAxes) {
  EXPECT_THAT(PlotText({{"a", {{0, NAN}}}}, Ascii(40, 4)), Not(HasSubstr("*")));
}

}  // namespace
}  // namespace gpulens
