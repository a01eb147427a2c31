// How much was counted in the last 1, 10 and 60 seconds, from a counter that only grows: what it was when
// each tenth of a second and each second began in which something was counted. A count is one comparison.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include <gpulens/stats.h>

namespace gpulens::ring {

// Not thread-safe; no allocation. Times never go back.
class Rates {
 public:
  // Counts begin here.
  void Reset(TimePoint now) noexcept {
    begin_ = next_ = now;
    tenths_ = {};
    seconds_ = {};
  }
  // Before `before`, the counter, is counted up.
  void Count(TimePoint now, uint64_t before) noexcept {
    if (now >= next_) [[unlikely]]
      Begin(now, before);
  }
  // A second, over the last `last` (1 to 60 s) or since the start, if that is shorter; with `total` the
  // counter.
  double PerSecond(TimePoint now, std::chrono::seconds last, uint64_t total) const noexcept {
    return last <= std::chrono::seconds(1) ? tenths_.PerSecond(now - begin_, last, total)
                                           : seconds_.PerSecond(now - begin_, last, total);
  }

 private:
  using Span = std::chrono::nanoseconds;
  template <int64_t kNanoseconds, size_t kSlots>
  struct Ring {
    struct Slot {
      int64_t number = -1;  // of the slot, since the start
      uint64_t before = 0;
    };
    void Begin(Span since, uint64_t before) noexcept {
      const int64_t number = since.count() / kNanoseconds;
      Slot& slot = slots[static_cast<size_t>(number) % kSlots];
      if (slot.number != number) slot = {number, before};
    }
    double PerSecond(Span since, Span last, uint64_t total) const noexcept {
      const int64_t now = since.count() / kNanoseconds;
      const int64_t first = std::max<int64_t>(0, now - last.count() / kNanoseconds + 1);
      int64_t earliest = now + 1;
      uint64_t before = total;
      for (const Slot& slot : slots) {
        if (slot.number < first || slot.number >= earliest) continue;
        earliest = slot.number;
        before = slot.before;
      }
      const double span = static_cast<double>(since.count() - first * kNanoseconds) * 1e-9;
      return span > 0 ? static_cast<double>(total - before) / span : 0;
    }
    std::array<Slot, kSlots> slots{};
  };
  static constexpr int64_t kTenth = 100'000'000, kSecond = 1'000'000'000;

  void Begin(TimePoint now, uint64_t before) noexcept {
    const Span since = now - begin_;
    tenths_.Begin(since, before);
    seconds_.Begin(since, before);
    next_ = begin_ + Span((since.count() / kTenth + 1) * kTenth);
  }

  TimePoint begin_{}, next_{};
  Ring<kTenth, 16> tenths_;
  Ring<kSecond, 64> seconds_;
};

}  // namespace gpulens::ring
