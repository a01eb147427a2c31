// Clocks as parameters: code below the agent does not read the time itself.
#pragma once

#include <chrono>
#include <cstdint>

namespace gpulens {

using Duration = std::chrono::nanoseconds;

// A moment on two clocks. `boot_ns` is CLOCK_BOOTTIME, which never jumps, includes suspend and is the same in
// every process; differences use it. `unix_ns` is wall time, for output.
struct Instant {
  int64_t boot_ns = 0;
  int64_t unix_ns = 0;

  friend Instant operator+(Instant t, Duration d) noexcept {
    return {t.boot_ns + d.count(), t.unix_ns + d.count()};
  }
  friend Duration operator-(Instant a, Instant b) noexcept { return Duration(a.boot_ns - b.boot_ns); }
  friend bool operator==(Instant, Instant) noexcept = default;
};

// Thread-safe. Tests use a ManualClock.
class Clock {
 public:
  virtual ~Clock() = default;
  virtual Instant Now() const noexcept = 0;
};

// The machine's clocks. Static storage.
const Clock& RealClock() noexcept;

// Moves by Advance only. Not thread-safe.
class ManualClock final : public Clock {
 public:
  explicit ManualClock(Instant start = {1'000'000'000, 1'700'000'000'000'000'000}) noexcept : now_(start) {}
  Instant Now() const noexcept override { return now_; }
  void Advance(Duration d) noexcept { now_ = now_ + d; }

 private:
  Instant now_;
};

}  // namespace gpulens
