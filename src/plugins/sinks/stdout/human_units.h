// Numbers as people read them: a unit that fits, three or four figures, commas for thousands.
//
// Pure functions; safe from any thread.
#pragma once

#include <string>
#include <string_view>

#include "core/metric_desc.h"

namespace gpulens {

// How the values of one row or column are shown: all with the same unit, so that they can be compared.
struct HumanScale {
  double factor = 1;
  std::string_view unit;  // "GiB"; empty: a plain number
  int decimals = 0;
};

// The scale for values of a family (unit "By", "1", "s", …) of which `largest` is the greatest magnitude.
HumanScale HumanScaleFor(const MetricDesc& desc, double largest) noexcept;
// "1,755", "71.2", "NaN". Zero has no sign.
std::string HumanNumber(double value, const HumanScale& scale);
// Columns that the text takes on a terminal: its UTF-8 characters.
size_t DisplayWidth(std::string_view text) noexcept;

}  // namespace gpulens
