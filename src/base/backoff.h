// Exponential back-off with jitter, so that the hosts of a fleet do not return at one moment.
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
    Duration cap = std::chrono::seconds(60);
    double factor = 2;
    double jitter = 1;  // share of each wait that is random; 1: full jitter; 0: none, the seed has no effect
    Duration longest_requested = std::chrono::hours(1);  // bound of AtLeast, which may exceed the cap
  };
  explicit Backoff(uint64_t seed) : Backoff(Options{}, seed) {}
  Backoff(const Options& options, uint64_t seed);

  // The wait after a failure: at most initial · factorⁿ and at most cap; n counts failures since Reset.
  Duration Next();
  // The server requested a wait (Retry-After, RetryInfo): the following Next returns at least that, plus up
  // to a tenth of it. The longest of several requests counts.
  void AtLeast(Duration requested) noexcept;
  // Changes the cap of further waits.
  void SetCap(Duration cap) noexcept;
  // Call after a success.
  void Reset() noexcept;
  // Whether Next was called since the last Reset.
  bool failed() const noexcept { return failed_; }

 private:
  Options options_;
  std::mt19937_64 random_;
  Duration ceiling_;
  Duration requested_{};
  bool failed_ = false;
};

}  // namespace gpulens
