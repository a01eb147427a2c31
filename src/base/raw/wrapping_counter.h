// A counter of few bits, made into one that does not wrap: energy in microjoules in 32 bits wraps every
// minute, bytes in KiB every few hours.
#pragma once

#include <cstdint>

namespace gpulens {

// Not thread-safe. A fall from the last quarter of the range into the first is a wrap; any other fall means
// that the counter began anew, and what was counted before is forgotten with it.
class WrappingCounter {
 public:
  // `width`: 1 to 63 bits.
  explicit constexpr WrappingCounter(unsigned width) noexcept : range_(uint64_t{1} << width) {}

  // The count with all wraps seen so far. Bits above the width are ignored.
  constexpr uint64_t Read(uint64_t raw) noexcept {
    raw &= range_ - 1;
    if (raw < last_) {
      bool wrapped = last_ >= range_ / 4 * 3 && raw < range_ / 4;
      base_ = wrapped ? base_ + range_ : 0;
    }
    last_ = raw;
    return base_ + raw;
  }

 private:
  uint64_t range_;
  uint64_t base_ = 0, last_ = 0;
};

}  // namespace gpulens
