// Plots as SVG and as text.
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

// Maps values to pixels.
struct PlotAxis {
  double low = 0, high = 1, from = 0, to = 1;  // pixels
  bool log = false;

  double At(double value) const noexcept;
  std::vector<double> Ticks(int most) const;
};

struct PlotAxes {
  PlotAxis x, y;  // without pixels
};
// Returns the ranges of all drawn values; never empty.
PlotAxes AxesOf(const std::vector<PlotLine>& lines, bool log_y);

// Whether a point is drawn; otherwise it is a gap.
bool Drawn(double x, double y, bool log) noexcept;
// "0.0003", "100000"
std::string TickText(double value);
// Returns the ticks from `low` to `high`, about `most` multiples of 1, 2 or 5 times a power of ten.
std::vector<double> AxisTicks(double low, double high, int most);

struct PlotOptions {
  std::string title, x_name, y_name;
  bool log_y = false;
  int width = 960, height = 540;
};

// Plots all lines in one diagram. Pure; well-formed XML for any names. A line of very many points is drawn by
// the least and greatest value of each pixel, so that no peak is lost.
std::string PlotSvg(const std::vector<PlotLine>& lines, const PlotOptions& options);

struct TextPlotOptions {
  std::string title, x_name;
  bool log_y = false;
  bool same_y = true;  // all panels have the same axis of values
  bool ascii = false;
  int columns = 80, rows = 12;  // of the terminal; of one panel
};

// Plots each line in a panel of its own over the same x, as lines of one colour would not be distinct. Pure.
// Ends with a line feed; no line is wider than `columns`, which is at least 30.
std::string PlotText(const std::vector<PlotLine>& lines, const TextPlotOptions& options);

}  // namespace gpulens
