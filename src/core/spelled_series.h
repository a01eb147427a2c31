// How a series is called on an exposition page: what dialects make and encoders write.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/layout.h"

namespace gpulens {

// One way a series is written. A plain value.
struct SpelledSeries {
  std::string name = {};  // as samples carry it: with `_total` or `_info`; histograms without suffix
  std::string unit = {};  // the Prometheus word ("bytes"), or empty; only OpenMetrics shows it
  std::string_view help = {};
  Kind kind = Kind::kGauge;
  std::vector<std::pair<std::string, std::string>> labels = {};  // in the order to be written
  double scale = 1;
};

// Appends every spelling of a series; none hides it.
using Speller = std::function<void(const SeriesInfo& series, std::vector<SpelledSeries>& out)>;

}  // namespace gpulens
