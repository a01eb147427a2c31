#include "base/backoff.h"

#include <algorithm>

namespace gpulens {
namespace {

Duration Scaled(Duration duration, double factor) {
  return Duration(static_cast<int64_t>(static_cast<double>(duration.count()) * factor));
}

}  // namespace

Backoff::Backoff(const Options& options, uint64_t seed) : options_(options), random_(seed) {
  options_.initial = std::max(options_.initial, Duration(1));
  if (!(options_.factor >= 1)) options_.factor = 1;
  ceiling_ = options_.initial;
  SetCap(options_.cap);
}

Duration Backoff::Next() {
  failed_ = true;
  const double random = options_.jitter == 0 ? 0 : std::uniform_real_distribution<double>(0, 1)(random_);
  Duration wait = options_.jitter == 0 ? ceiling_ : Scaled(ceiling_, 1 - options_.jitter * (1 - random));
  if (requested_.count() > 0) wait = std::max(wait, requested_ + Scaled(requested_, random / 10));
  // Compared before the multiplication: the factor may be large.
  bool at_cap =
      static_cast<double>(ceiling_.count()) * options_.factor >= static_cast<double>(options_.cap.count());
  ceiling_ = at_cap ? options_.cap : Scaled(ceiling_, options_.factor);
  requested_ = Duration(0);
  return wait;
}

void Backoff::AtLeast(Duration requested) noexcept {
  requested_ = std::max(requested_, std::min(requested, options_.longest_requested));
}

void Backoff::SetCap(Duration cap) noexcept {
  options_.cap = std::max(cap, options_.initial);
  ceiling_ = std::min(ceiling_, options_.cap);
}

void Backoff::Reset() noexcept {
  ceiling_ = options_.initial;
  requested_ = Duration(0);
  failed_ = false;
}

}  // namespace gpulens
