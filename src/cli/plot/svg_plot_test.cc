#include "cli/plot/svg_plot.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

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

// What the path of the only line says.
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

TEST(SvgPlot, ALogarithmicAxisLeavesOutWhatIsNotAboveZero) {
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

TEST(SvgPlot, ManyPointsAreThinnedAndPeaksStay) {
  PlotLine line;
  for (int i = 0; i < 1'000'000; ++i) line.points.emplace_back(i, i == 543'210 ? 100.0 : std::sin(i));
  std::string svg = PlotSvg({line}, {});
  EXPECT_LT(svg.size(), 200'000u);
  EXPECT_THAT(PathOf(svg), HasSubstr(" 44.00")) << "the peak reaches the top";
}

TEST(SvgPlot, OddInputIsStillXml) {
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

TEST(SvgPlot, NamesAreInTheLegendWithAnEnd) {
  std::vector<PlotLine> lines(40, Line({{0, 1}, {1, 2}}));
  std::string svg = PlotSvg(lines, {});
  EXPECT_THAT(svg, HasSubstr("… and 25 more"));
  EXPECT_EQ(Count(svg, "<path"), 40u);
}

}  // namespace
}  // namespace gpulens
