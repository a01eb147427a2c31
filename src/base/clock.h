// Time as a value that is passed in. Nothing below the agent asks the machine for it by itself.
#pragma once

#include <chrono>
#include <cstdint>

namespace gpulens {

using Duration = std::chrono::nanoseconds;

// One moment on both clocks that matter. `boot_ns` is CLOCK_BOOTTIME: it never jumps, counts
// through suspend and is the same in every process of the machine; differences use it alone.
// `unix_ns` is wall time, for people and for the wire.
struct Instant {
  int64_t boot_ns = 0;
  int64_t unix_ns = 0;

  friend Instant operator+(Instant t, Duration d) noexcept {
    return {t.boot_ns + d.count(), t.unix_ns + d.count()};
  }
  friend Duration operator-(Instant a, Instant b) noexcept { return Duration(a.boot_ns - b.boot_ns); }
  friend bool operator==(Instant, Instant) noexcept = default;
};

// Thread-safe. The real one reads the machine; tests drive a ManualClock.
class Clock {
 public:
  virtual ~Clock() = default;
  virtual Instant Now() const noexcept = 0;
};

// The machine's clocks. Static storage.
const Clock& RealClock() noexcept;

// Stands still until told otherwise. Not thread-safe.
class ManualClock final : public Clock {
 public:
  explicit ManualClock(Instant start = {1'000'000'000, 1'700'000'000'000'000'000}) noexcept : now_(start) {}
  Instant Now() const noexcept override { return now_; }
  void Advance(Duration d) noexcept { now_ = now_ + d; }

 private:
  Instant now_;
};

}  // namespace gpulens
