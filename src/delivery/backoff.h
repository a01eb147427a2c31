// How long to wait before the next try: exponential, with full jitter, so that a fleet does not come back at
// one moment.
#pragma once

#include <cstdint>
#include <random>

#include "base/clock.h"

namespace gpulens {

// Not thread-safe. The same seed gives the same waits.
class Backoff {
 public:
  struct Options {
    Duration initial = std::chrono::seconds(1);
    double factor = 2;
    Duration cap = std::chrono::seconds(60);
    // A server may ask for longer than the cap, but not for ever.
    Duration longest_queried = std::chrono::hours(1);
  };
  explicit Backoff(uint64_t seed) : Backoff(Options{}, seed) {}
  Backoff(const Options& options, uint64_t seed);

  // After a failure: a random wait of up to initial · factorⁿ, at most cap; n counts failures since Reset.
  Duration Next();
  // The server asked for it (Retry-After, RetryInfo): the coming Next is at least so much, with a tenth at
  // most on top so that not all come back at once. Several: the longest counts.
  void AtLeast(Duration asked) noexcept;
  // After a success.
  void Reset() noexcept;

 private:
  Options options_;
  std::mt19937_64 random_;
  Duration ceiling_;
  Duration queried_{};
};

}  // namespace gpulens
