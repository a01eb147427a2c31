// Lists of rows made one, when it is compiled: a header of the catalogue lists its rows, a plugin names the
// lists.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <iterator>
#include <type_traits>

#include "core/metric_desc.h"

namespace gpulens {

// The number of rows of a list, which is a C array or a std::array.
template <class List>
inline constexpr size_t kRowsOf = std::extent_v<List>;
template <size_t kSize>
inline constexpr size_t kRowsOf<std::array<const MetricDesc*, kSize>> = kSize;

template <class... Lists>
consteval auto JoinRows(const Lists&... lists) {
  std::array<const MetricDesc*, (kRowsOf<Lists> + ...)> all{};
  auto out = all.begin();
  ((out = std::copy(std::begin(lists), std::end(lists), out)), ...);
  return all;
}

}  // namespace gpulens
