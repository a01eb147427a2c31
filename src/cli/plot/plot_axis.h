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
// From the least to the greatest of all that is drawn, with some room; never empty.
PlotAxes AxesOf(const std::vector<PlotLine>& lines, bool log_y);

// Whether a point is: else it is a gap.
bool Drawn(double x, double y, bool log) noexcept;
// "0.0003", "100000"
std::string TickText(double value);
// Where an axis from `low` to `high` is marked: 1, 2 or 5 times a power of ten, at most about `most` of them.
std::vector<double> AxisTicks(double low, double high, int most);

}  // namespace gpulens
