// Helpers for the cells of one series of a page, and for the times of its samples.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>
#include <vector>

#include "core/frame_writer.h"
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

// The number of a series without a shape; null: none.
inline const PageCell* FindNumber(const std::vector<PageCell>& cells) noexcept {
  for (SampleRole role : {SampleRole::kValue, SampleRole::kInfo, SampleRole::kState}) {
    if (const PageCell* cell = FindCell(cells, role)) return cell;
  }
  return nullptr;
}

// Copies the texts of the bounds of the cells with that role to the shape.
inline void KeepBoundTexts(const ParsedPage& page, const std::vector<PageCell>& cells, SampleRole role,
                           Shape& shape) {
  shape.bound_texts.reserve(shape.bounds.size());
  for (const PageCell& cell : cells) {
    if (cell.role == role && !std::isnan(cell.bound)) shape.bound_texts.push_back(page.BoundText(cell.slot));
  }
  if (shape.bound_texts.size() != shape.bounds.size()) shape.bound_texts.clear();
}

// Converts a time of a page in seconds; 0: not a plausible time.
inline int64_t UnixNsOf(double unix_s) noexcept {
  constexpr double kYear2200 = 7.3e9;
  // To the microsecond: a double of today's seconds has no more.
  return unix_s > 0 && unix_s < kYear2200 ? std::llround(unix_s * 1e6) * 1000 : 0;
}

// The series' `_created`; 0: absent or not plausible.
inline int64_t CreatedUnixNs(const ParsedPage& page, const std::vector<PageCell>& cells) noexcept {
  const PageCell* cell = FindCell(cells, SampleRole::kCreated);
  return cell ? UnixNsOf(page.values()[cell->slot]) : 0;
}

// Sets the time of each number of a page that has timestamps (Prometheus' /federate, cAdvisor), before it is
// set, during one Write. A time after the scrape's counts as the scrape's: two clocks never agree.
class SampleTimes {
 public:
  SampleTimes(const ParsedPage& page, FrameWriter& out) noexcept
      : page_(page), out_(out), scraped_(out.read_at()), active_(page.has_timestamps()) {}
  ~SampleTimes() {
    if (active_) out_.ReadAt(scraped_);
  }
  SampleTimes(const SampleTimes&) = delete;
  SampleTimes& operator=(const SampleTimes&) = delete;

  // The next number is from this slot; of several slots the oldest time counts.
  void Next(uint32_t slot) noexcept { Next({&slot, 1}); }
  void Next(std::span<const uint32_t> slots) noexcept {
    if (!active_) return;
    int64_t oldest_ms = kNone;
    for (uint32_t slot : slots) oldest_ms = std::min(oldest_ms, page_.timestamp_ms(slot).value_or(kNone));
    if (oldest_ms == kNone) return out_.ReadAt(scraped_);
    const int64_t now_ms = scraped_.unix_ns / kNsOfMs;
    const int64_t reported_ms = std::clamp(oldest_ms, now_ms - kLongestMs, now_ms);
    const int64_t age_ns = reported_ms == now_ms ? 0 : scraped_.unix_ns - reported_ms * kNsOfMs;
    out_.DatedAt(scraped_ + Duration(-age_ns));
  }

 private:
  static constexpr int64_t kNone = INT64_MAX, kNsOfMs = 1'000'000;
  static constexpr int64_t kLongestMs = int64_t{100} * 365 * 86'400 * 1000;  // in nanoseconds it fits

  const ParsedPage& page_;
  FrameWriter& out_;
  const Instant scraped_;
  const bool active_;
};

}  // namespace gpulens
