// What is drawn, and where on an axis: for plots as SVG and as text.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace gpulens {

struct PlotLine {
  std::string name;
  // A NaN or an infinity is a gap; on a logarithmic axis also what is not above 0.
  std::vector<std::pair<double, double>> points;
};

// From values to pixels.
struct Axis {
  double low = 0, high = 1, from = 0, to = 1;  // pixels
  bool log = false;

  double At(double value) const noexcept;
  std::vector<double> Ticks(int most) const;
};

struct PlotAxes {
  Axis x, y;  // without pixels
};
// The range of all drawn values with a margin; never empty.
PlotAxes AxesOf(const std::vector<PlotLine>& lines, bool log_y);

// Whether a point is: else it is a gap.
bool Drawn(double x, double y, bool log) noexcept;
// "0.0003", "100000"
std::string TickText(double value);
// Where an axis from `low` to `high` is marked: 1, 2 or 5 times a power of ten, at most about `most` of them.
std::vector<double> AxisTicks(double low, double high, int most);

struct PlotOptions {
  std::string title, x_name, y_name;
  bool log_y = false;
  int width = 960, height = 540;
};

// Pure; well-formed XML whatever the names are. Lines of very many points are drawn by the least and greatest
// of each pixel, so that no peak is lost.
std::string PlotSvg(const std::vector<PlotLine>& lines, const PlotOptions& options);

struct TextPlotOptions {
  std::string title, x_name;
  bool log_y = false;
  bool same_y = true;  // the panels have one axis of values, so that they compare
  bool ascii = false;
  int columns = 80, rows = 12;  // of the terminal; of one panel
};

// Pure. Each line has a panel of its own below the others, all over the same x: lines of one colour could not
// be told apart. Ends with a line feed; no line is wider than `columns`, which is at least 30.
std::string PlotText(const std::vector<PlotLine>& lines, const TextPlotOptions& options);

}  // namespace gpulens
