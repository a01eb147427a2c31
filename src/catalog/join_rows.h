// Lists of rows made one, when it is compiled: a header of the catalogue lists its rows, a plugin names the
// lists.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <iterator>

#include "core/metric_desc.h"

namespace gpulens {

template <size_t... kSizes>
consteval auto JoinRows(const MetricDesc* const (&... lists)[kSizes]) {
  std::array<const MetricDesc*, (kSizes + ...)> all{};
  auto out = all.begin();
  ((out = std::copy(std::begin(lists), std::end(lists), out)), ...);
  return all;
}

}  // namespace gpulens
