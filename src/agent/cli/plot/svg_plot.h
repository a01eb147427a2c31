// Lines over numbers as an SVG: nothing is loaded from elsewhere, and it is read in light and in dark.
#pragma once

#include <string>
#include <vector>

namespace gpulens {

struct PlotLine {
  std::string name;
  // A NaN or an infinity is a gap; on a logarithmic axis also what is not above 0.
  std::vector<std::pair<double, double>> points;
};

struct PlotOptions {
  std::string title, x_name, y_name;
  bool log_y = false;
  int width = 960, height = 540;
};

// Pure; well-formed XML whatever the names are. Lines of very many points are drawn by the least and greatest
// of each pixel, so that no peak is lost.
std::string PlotSvg(const std::vector<PlotLine>& lines, const PlotOptions& options);

// Where an axis from `low` to `high` is marked: 1, 2 or 5 times a power of ten, at most about `most` of them.
std::vector<double> AxisTicks(double low, double high, int most);

}  // namespace gpulens
