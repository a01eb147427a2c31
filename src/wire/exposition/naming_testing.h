// For tests and benchmarks of encoders: a namer that keeps names as they are.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "core/named_series.h"

namespace gpulens::wire_testing {

// Name, unit, help and kind of the row; attributes as labels.
inline void NameVerbatim(const SeriesInfo& series, std::vector<NamedSeries>& out) {
  NamedSeries& named = out.emplace_back();
  named.name = series.desc->name;
  named.unit = series.desc->unit;
  named.help = series.desc->help;
  named.kind = series.desc->kind;
  for (auto [key, value] : series.attributes) {
    std::string text;
    AppendValue(text, value);
    named.labels.emplace_back(key, std::move(text));
  }
}

}  // namespace gpulens::wire_testing
