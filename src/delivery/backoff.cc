#include "delivery/backoff.h"

#include <algorithm>

namespace gpulens {
namespace {

Backoff::Options Sound(Backoff::Options options) {
  options.initial = std::max(options.initial, Duration(1));
  options.cap = std::max(options.cap, options.initial);
  if (!(options.factor >= 1)) options.factor = 1;
  return options;
}

Duration Scaled(Duration duration, double factor) {
  return Duration(static_cast<int64_t>(static_cast<double>(duration.count()) * factor));
}

}  // namespace

Backoff::Backoff(const Options& options, uint64_t seed)
    : options_(Sound(options)), random_(seed), ceiling_(options_.initial) {}

Duration Backoff::Next() {
  double part = std::uniform_real_distribution<double>(0, 1)(random_);
  Duration wait = Scaled(ceiling_, part);
  if (queried_.count() > 0) wait = std::max(wait, queried_ + Scaled(queried_, part / 10));
  // Compared before it is multiplied: a factor may be large.
  bool at_cap =
      static_cast<double>(ceiling_.count()) * options_.factor >= static_cast<double>(options_.cap.count());
  ceiling_ = at_cap ? options_.cap : Scaled(ceiling_, options_.factor);
  queried_ = Duration(0);
  return wait;
}

void Backoff::AtLeast(Duration asked) noexcept {
  queried_ = std::max(queried_, std::min(asked, options_.longest_queried));
}

void Backoff::Reset() noexcept {
  ceiling_ = options_.initial;
  queried_ = Duration(0);
}

}  // namespace gpulens
