// For tests and benchmarks of encoders: series spelled as they stand.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "core/named_series.h"

namespace gpulens::wire_testing {

// Name, unit, help and kind of the row; attributes as labels.
inline void SpellAsItStands(const SeriesInfo& series, std::vector<NamedSeries>& out) {
  NamedSeries& spelled = out.emplace_back();
  spelled.name = series.desc->name;
  spelled.unit = series.desc->unit;
  spelled.help = series.desc->help;
  spelled.kind = series.desc->kind;
  for (auto [key, value] : series.attributes) {
    std::string text;
    AppendValue(text, value);
    spelled.labels.emplace_back(key, std::move(text));
  }
}

}  // namespace gpulens::wire_testing
