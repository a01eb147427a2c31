#include "energy/counter_step.h"

#include <algorithm>

namespace gpulens::energy {
namespace {

// Closer than this a sighting says something; so many of them are enough; and what the writer may be late
// beyond the latest that was seen.
constexpr int64_t kClosestNs = 6'000'000;
constexpr uint32_t kEnough = 5;
constexpr int64_t kMarginParts = 4;

}  // namespace

void CounterStep::Saw(int64_t early_ns, int64_t late_ns) noexcept {
  const bool close = late_ns - early_ns <= kClosestNs && seen_ && late_ns_ - early_ns_ <= kClosestNs;
  if (close) {
    longest_ns_ = std::max(longest_ns_, late_ns - early_ns_);
    ++sightings_;
  }
  early_ns_ = early_ns;
  late_ns_ = late_ns;
  seen_ = true;
}

void CounterStep::SawNone(int64_t at_ns) noexcept {
  const auto lag = lag_ns();
  if (!lag || at_ns - late_ns_ <= *lag) return;
  sightings_ = 0;
  longest_ns_ = 0;
}

std::optional<int64_t> CounterStep::lag_ns() const noexcept {
  if (sightings_ < kEnough) return std::nullopt;
  return longest_ns_ + longest_ns_ / kMarginParts;
}

}  // namespace gpulens::energy
