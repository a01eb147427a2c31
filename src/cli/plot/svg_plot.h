// Lines over numbers as an SVG: nothing is loaded from elsewhere, and it is read in light and in dark.
#pragma once

#include <string>
#include <vector>

#include "cli/plot/plot_axis.h"

namespace gpulens {

struct PlotOptions {
  std::string title, x_name, y_name;
  bool log_y = false;
  int width = 960, height = 540;
};

// Pure; well-formed XML whatever the names are. Lines of very many points are drawn by the least and greatest
// of each pixel, so that no peak is lost.
std::string PlotSvg(const std::vector<PlotLine>& lines, const PlotOptions& options);

}  // namespace gpulens
