// Whether there is memory to take more in: the part of the whole program's limit that receiving may bring it
// to.
#pragma once

#include <cstdint>
#include <functional>

#include "base/clock.h"

namespace gpulens {

// The Collector's memory_limiter: above `share` less `spike` of the limit senders are told to come again.
// Not thread-safe.
class MemoryLimiter {
 public:
  struct Options {
    uint64_t limit = 0;  // bytes; 0: none
    double share = 0.8, spike = 0.25;
  };
  // `used` tells what the program holds now; 0: not known, then nothing is refused.
  using Used = std::function<uint64_t()>;

  MemoryLimiter(Options options, const Clock& clock, Used used);

  // False while the program holds too much. Looks at most ten times a second.
  bool HasRoom();
  uint64_t soft_limit() const noexcept { return soft_; }

 private:
  const uint64_t soft_;
  const Clock& clock_;
  const Used used_;
  int64_t looked_ns_ = -1, trimmed_ns_ = -1;
  bool room_ = true;
};

}  // namespace gpulens
