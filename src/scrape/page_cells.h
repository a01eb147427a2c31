// Small questions about the cells of one series of a page.
#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

#include "core/layout.h"
#include "wire/exposition/exposition_page.h"

namespace gpulens {

// Null when the series has no cell of this role.
inline const PageCell* FindCell(const std::vector<PageCell>& cells, SampleRole role) noexcept {
  for (const PageCell& cell : cells) {
    if (cell.role == role) return &cell;
  }
  return nullptr;
}

// Gives a shape the texts of its bounds, which are those of `cells` with that role, in their order.
inline void KeepBoundTexts(const ScrapedPage& page, const std::vector<PageCell>& cells, SampleRole role,
                           Shape& shape) {
  shape.bound_texts.reserve(shape.bounds.size());
  for (const PageCell& cell : cells) {
    if (cell.role == role && !std::isnan(cell.bound)) shape.bound_texts.push_back(page.BoundText(cell.slot));
  }
  if (shape.bound_texts.size() != shape.bounds.size()) shape.bound_texts.clear();
}

// A time that a page says in seconds; 0: it makes no sense.
inline int64_t UnixNsOf(double unix_s) noexcept {
  constexpr double kYear2200 = 7.3e9;
  // To the microsecond: a double of today's seconds has no more.
  return unix_s > 0 && unix_s < kYear2200 ? std::llround(unix_s * 1e6) * 1000 : 0;
}

// When the series says it began; 0: it does not, or its time makes no sense.
inline int64_t CreatedUnixNs(const ScrapedPage& page, const std::vector<PageCell>& cells) noexcept {
  const PageCell* cell = FindCell(cells, SampleRole::kCreated);
  return cell ? UnixNsOf(page.values()[cell->slot]) : 0;
}

}  // namespace gpulens
