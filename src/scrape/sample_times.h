// When the samples of a page were true, where the page says so: Prometheus' /federate, cAdvisor and others
// write a time behind the number.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "core/frame_writer.h"
#include "wire/exposition/exposition_page.h"

namespace gpulens {

// For one Write of a page's series: tells the writer of when each number is before it is set. Times behind
// that of the scrape count as the scrape's: two clocks never agree.
class SampleTimes {
 public:
  SampleTimes(const ScrapedPage& page, FrameWriter& out) noexcept
      : page_(page), out_(out), scraped_(out.read_at()), active_(page.has_timestamps()) {}
  ~SampleTimes() {
    if (active_) out_.ReadAt(scraped_);
  }
  SampleTimes(const SampleTimes&) = delete;
  SampleTimes& operator=(const SampleTimes&) = delete;

  // The next number is that of this slot; or is made of several, of which the oldest counts.
  void Next(uint32_t slot) noexcept { Next({&slot, 1}); }
  void Next(std::span<const uint32_t> slots) noexcept {
    if (!active_) return;
    int64_t oldest_ms = kNone;
    for (uint32_t slot : slots) oldest_ms = std::min(oldest_ms, page_.timestamp_ms(slot).value_or(kNone));
    if (oldest_ms == kNone) return out_.ReadAt(scraped_);
    const int64_t now_ms = scraped_.unix_ns / kNsOfMs;
    const int64_t reported_ms = std::clamp(oldest_ms, now_ms - kLongestMs, now_ms);
    // That of the scrape's own millisecond is the scrape's.
    const int64_t age_ns = reported_ms == now_ms ? 0 : scraped_.unix_ns - reported_ms * kNsOfMs;
    out_.DatedAt(scraped_ + Duration(-age_ns));
  }

 private:
  static constexpr int64_t kNone = INT64_MAX, kNsOfMs = 1'000'000;
  static constexpr int64_t kLongestMs = int64_t{100} * 365 * 86'400 * 1000;  // in nanoseconds it fits

  const ScrapedPage& page_;
  FrameWriter& out_;
  const Instant scraped_;
  const bool active_;
};

}  // namespace gpulens
