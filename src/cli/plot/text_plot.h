// Lines over numbers for a terminal: in dots of braille, two by four in a character, or in ASCII.
#pragma once

#include <string>
#include <vector>

#include "cli/plot/plot_axis.h"

namespace gpulens {

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
