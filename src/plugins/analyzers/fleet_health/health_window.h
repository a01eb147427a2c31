// Sliding window over the readings of one GPU, and the state file that keeps windows over restarts. Plain
// values without a clock or I/O; not thread-safe. Counts are kept as growth, so that a counter that restarts
// (a driver reload) counts nothing twice.
//
// The file has one line per GPU, then one per moment of its window:
//
//   gpulens-fleet-health 1
//   gpu GPU-2f1c ok corrected 12 4 xids - 0
//   at 1711800000123 64 4 0
//   end 1
//
// `corrected` and `xids` have the last count ("-": none yet) and its growth so far; `at` has Unix
// milliseconds, the temperature, and the two growths then ("-": not read).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <gpulens/status.h>

#include "base/clock.h"
#include "plugins/analyzers/fleet_health/health_score.h"

namespace gpulens {

// Growth of a cumulative count since this process (or the one before) first read it.
struct GrowingCount {
  std::optional<double> last;  // the newest reading
  double grown = 0;

  void Read(double value) noexcept;
};

// Growth of a count within the last five minutes, in steps of half a minute.
class RecentGrowth {
 public:
  // `now_ns` never falls from one call to the next.
  void Read(int64_t now_ns, double value) noexcept;
  double grown() const noexcept;

 private:
  static constexpr size_t kSteps = 10;
  static constexpr int64_t kStepNs = 30'000'000'000;
  GrowingCount count_;
  std::array<double, kSteps> steps_{};
  int64_t step_ = 0;  // number of the newest step since the clock began
};

// A condition that counts only once it has lasted.
class LastingCondition {
 public:
  // Returns whether `holds` was true in every call for at least `delay_ns`.
  bool For(int64_t delay_ns, bool holds, int64_t now_ns) noexcept {
    if (!holds) since_ns_ = 0;
    else if (since_ns_ == 0) since_ns_ = now_ns;
    return holds && now_ns - since_ns_ >= delay_ns;
  }
  void Reset() noexcept { since_ns_ = 0; }

 private:
  int64_t since_ns_ = 0;  // 0: does not hold
};

// One moment; absent values could not be read.
struct HealthMoment {
  int64_t at_ns = 0;  // boot time
  std::optional<float> temperature;
  std::optional<double> corrected, xids;  // GrowingCount::grown at that time
};

class HealthWindow {
 public:
  // The window, and one moment before it as the base of its counts.
  static constexpr size_t kMoments = 62;

  explicit HealthWindow(Duration length) noexcept : length_(length) {}

  struct Reading {
    std::optional<double> temperature, corrected, xids;  // the source's counts
  };
  // `now_ns` never falls from one call to the next.
  void Observe(int64_t now_ns, const Reading& reading) noexcept;

  // Growth within the window, per hour of its full length also while it is not full. Absent without a reading
  // in the last Observe, or an earlier one.
  std::optional<double> CorrectedPerHour() const noexcept { return PerHour(&HealthMoment::corrected); }
  std::optional<double> XidsPerHour() const noexcept { return PerHour(&HealthMoment::xids); }
  // Least-squares slope of the temperature in degrees per minute; needs readings over half a window.
  std::optional<double> RampPerMinute() const noexcept;

  // For the state file. Moments come oldest first.
  size_t size() const noexcept { return size_; }
  const HealthMoment& operator[](size_t i) const noexcept { return moments_[(first_ + i) % kMoments]; }
  const GrowingCount& corrected() const noexcept { return corrected_; }
  const GrowingCount& xids() const noexcept { return xids_; }
  // Restores saved values before the first Observe, moments in order of time; more than fit replace the
  // oldest.
  void Restore(const HealthMoment& moment) noexcept { Push(moment); }
  void Restore(const GrowingCount& corrected, const GrowingCount& xids) noexcept {
    corrected_ = corrected;
    xids_ = xids;
  }

 private:
  void Push(const HealthMoment& moment) noexcept;
  std::optional<double> PerHour(std::optional<double> HealthMoment::* count) const noexcept;

  Duration length_;
  std::array<HealthMoment, kMoments> moments_{};
  size_t first_ = 0, size_ = 0;
  HealthMoment now_;
  GrowingCount corrected_, xids_;
};

struct SavedGpu {
  std::string key;
  std::optional<HealthState> state;
  GrowingCount corrected, xids;
  std::vector<HealthMoment> moments;  // at_ns here: Unix time; oldest first
};

inline constexpr size_t kHealthFileLimit = 4 << 20;

// Returns the file. GPUs whose key it cannot hold are left out.
std::string EncodeHealthFile(const std::vector<SavedGpu>& gpus);
// kDataLoss names the line. Rejects a damaged file as a whole: more than 256 GPUs, moments out of order or
// more than a window has, growths that fall, impossible temperatures.
Result<std::vector<SavedGpu>> DecodeHealthFile(std::string_view text);

}  // namespace gpulens
