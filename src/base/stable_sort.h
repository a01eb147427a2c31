// A stable sort that clang accepts: it rejects std::stable_sort of libstdc++ 12, which uses a deprecated
// function.
#pragma once

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

namespace gpulens {

// Sorts by `less` and keeps the order of equal elements. O(n log n), with memory for n indices and elements.
template <class Element, class Less>
void SortStably(std::vector<Element>& elements, const Less& less) {
  std::vector<size_t> order(elements.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::ranges::sort(order, [&](size_t a, size_t b) {
    return less(elements[a], elements[b]) || (!less(elements[b], elements[a]) && a < b);
  });
  std::vector<Element> sorted;
  sorted.reserve(order.size());
  for (const size_t from : order) sorted.push_back(std::move(elements[from]));
  elements = std::move(sorted);
}

}  // namespace gpulens
