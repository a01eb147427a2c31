#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <cmath>
#include <limits>

#include "base/parse.h"
#include "cli/plot/plot.h"

namespace gpulens {

namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

size_t Count(const std::string& text, std::string_view what) {
  size_t count = 0;
  for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++count;
  return count;
}

// The path of the only line.
std::string PathOf(const std::string& svg) {
  size_t begin = svg.find(" d=\"") + 4;
  return svg.substr(begin, svg.find('"', begin) - begin);
}

PlotLine Line(std::vector<std::pair<double, double>> points) { return {"a", std::move(points)}; }

TEST(SvgPlot, TicksAreRound) {
  EXPECT_THAT(AxisTicks(0, 10, 5), ElementsAre(0, 2, 4, 6, 8, 10));
  EXPECT_THAT(AxisTicks(0.13, 0.41, 4),
              ElementsAre(::testing::DoubleEq(0.2), ::testing::DoubleEq(0.3), ::testing::DoubleEq(0.4)));
  EXPECT_THAT(AxisTicks(-1, 1, 2), ElementsAre(-1, 0, 1));
  EXPECT_TRUE(AxisTicks(1, 1, 5).empty());
  EXPECT_TRUE(AxisTicks(NAN, 1, 5).empty());
  EXPECT_LE(AxisTicks(1e17, std::nextafter(1e17, 2e17), 10).size(), 2u);
}

TEST(SvgPlot, AGapIsAGap) {
  std::string whole = PathOf(PlotSvg({Line({{0, 1}, {1, 2}, {2, 3}})}, {}));
  EXPECT_EQ(Count(whole, "M"), 1u);
  EXPECT_EQ(Count(whole, "L"), 2u);
  std::string gap = PathOf(PlotSvg({Line({{0, 1}, {1, NAN}, {2, 3}, {3, INFINITY}, {4, 4}})}, {}));
  EXPECT_EQ(Count(gap, "M"), 3u);
  EXPECT_EQ(Count(gap, "L"), 0u);
  EXPECT_EQ(Count(gap, "h0"), 3u) << "points that stand alone are dots";
}

TEST(SvgPlot, LogarithmicAxisSkipsNonPositiveValues) {
  PlotOptions options;
  options.log_y = true;
  options.y_name = "loss";
  std::string svg = PlotSvg({Line({{0, 0}, {1, 0.001}, {2, -5}, {3, 1000}})}, options);
  EXPECT_THAT(svg, HasSubstr(">0.001<"));
  EXPECT_THAT(svg, HasSubstr(">1000<"));
  EXPECT_THAT(svg, HasSubstr("loss (log)"));
  EXPECT_THAT(svg, Not(HasSubstr("nan")));
  EXPECT_EQ(Count(PathOf(svg), "M"), 2u);
}

TEST(SvgPlot, ThinsPointsAndKeepsPeaks) {
  PlotLine line;
  for (int i = 0; i < 1'000'000; ++i) line.points.emplace_back(i, i == 543'210 ? 100.0 : std::sin(i));
  std::string svg = PlotSvg({line}, {});
  EXPECT_LT(svg.size(), 200'000u);
  EXPECT_THAT(PathOf(svg), HasSubstr(" 44.00")) << "the peak reaches the top";
}

TEST(SvgPlot, EscapesForeignTexts) {
  PlotOptions options;
  options.title = "<script>alert(\"&\")</script>\x01\xff";
  const double max = std::numeric_limits<double>::max();
  for (const std::vector<PlotLine>& lines : {std::vector<PlotLine>{},
                                             {Line({})},
                                             {Line({{0, NAN}})},
                                             {Line({{5, 5}})},
                                             {Line({{0, 0}, {0, 0}})},
                                             {Line({{-max, -max}, {max, max}})},
                                             {Line({{0, 5e-324}, {1, 0}})}}) {
    for (bool log : {false, true}) {
      options.log_y = log;
      std::string svg = PlotSvg(lines, options);
      EXPECT_THAT(svg, HasSubstr("&lt;script&gt;"));
      EXPECT_THAT(svg, Not(HasSubstr("<script")));
      EXPECT_THAT(svg, Not(HasSubstr("\x01")));
      EXPECT_THAT(PathOf(svg), Not(HasSubstr("nan")));
      EXPECT_THAT(PathOf(svg), Not(HasSubstr("inf")));
    }
  }
}

TEST(SvgPlot, LegendIsLimited) {
  std::vector<PlotLine> lines(40, Line({{0, 1}, {1, 2}}));
  std::string svg = PlotSvg(lines, {});
  EXPECT_THAT(svg, HasSubstr("… and 25 more"));
  EXPECT_EQ(Count(svg, "<path"), 40u);
}

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
  return static_cast<size_t>(std::ranges::count_if(text, [](char c) { return (c & 0xc0) != 0x80; }));
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

TEST(TextPlot, CountsGaps) {
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

TEST(TextPlot, LogarithmicAxisSkipsZero) {
  TextPlotOptions options = Ascii(40, 6);
  options.log_y = true;
  const auto lines = LinesOf(PlotText({{"a", {{0, 0.001}, {1, 0}, {2, 1000}}}}, options));
  EXPECT_EQ(lines[0], "a, 3 points, 1 not drawn, logarithmic");
  EXPECT_THAT(lines[1], HasSubstr("*"));
  EXPECT_THAT(lines[6], HasSubstr("*"));
}

TEST(TextPlot, OnlyGapsGivesEmptyAxes) {
  EXPECT_THAT(PlotText({{"a", {{0, NAN}}}}, Ascii(40, 4)), Not(HasSubstr("*")));
}

}  // namespace

}  // namespace gpulens
