// Record of one kernel: counts since its start for exporters, and since the last reset for callers.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include <gpulens/kernel_telemetry.h>
#include <gpulens/stats.h>

#include "instruments/window.h"

namespace gpulens::ring {

// Rates of a growing counter over the last 1, 10 and 60 seconds, from its values at the beginning of each
// tenth of a second and each second with a count. A count costs one comparison. Not thread-safe; does not
// allocate. Times must not go back.
class MessageRates {
 public:
  // Begins to count.
  void Reset(TimePoint now) noexcept {
    begin_ = next_ = now;
    tenths_ = {};
    seconds_ = {};
  }
  // Called with the counter's value before it is incremented.
  void Count(TimePoint now, uint64_t before) noexcept {
    if (now >= next_) [[unlikely]]
      Begin(now, before);
  }
  // Returns the rate per second over `last` (1 to 60 s), or since the start if that is shorter. `total`: the
  // counter.
  double PerSecond(TimePoint now, std::chrono::seconds last, uint64_t total) const noexcept {
    return last <= std::chrono::seconds(1) ? tenths_.PerSecond(now - begin_, last, total)
                                           : seconds_.PerSecond(now - begin_, last, total);
  }

 private:
  using Span = std::chrono::nanoseconds;
  template <int64_t kNanoseconds, size_t kSlots>
  struct Ring {
    struct Slot {
      int64_t number = -1;  // of the slot's interval, since the start
      uint64_t before = 0;
    };
    void Begin(Span since, uint64_t before) noexcept {
      const int64_t number = since.count() / kNanoseconds;
      Slot& slot = slots[static_cast<size_t>(number) % kSlots];
      if (slot.number != number) slot = {number, before};
    }
    double PerSecond(Span since, Span last, uint64_t total) const noexcept {
      const int64_t now = since.count() / kNanoseconds;
      const int64_t first = std::max<int64_t>(0, now - last.count() / kNanoseconds + 1);
      int64_t earliest = now + 1;
      uint64_t before = total;
      for (const Slot& slot : slots) {
        if (slot.number < first || slot.number >= earliest) continue;
        earliest = slot.number;
        before = slot.before;
      }
      const double span = static_cast<double>(since.count() - first * kNanoseconds) * 1e-9;
      return span > 0 ? static_cast<double>(total - before) / span : 0;
    }
    std::array<Slot, kSlots> slots{};
  };
  static constexpr int64_t kTenth = 100'000'000, kSecond = 1'000'000'000;

  void Begin(TimePoint now, uint64_t before) noexcept {
    const Span since = now - begin_;
    tenths_.Begin(since, before);
    seconds_.Begin(since, before);
    next_ = begin_ + Span((since.count() / kTenth + 1) * kTenth);
  }

  TimePoint begin_{}, next_{};
  Ring<kTenth, 16> tenths_;
  Ring<kSecond, 64> seconds_;
};

// Distribution of durations: exact count, sum, minimum and maximum, and exponential buckets. Not thread-safe.
// Recording does not allocate.
class LatencyRecord {
 public:
  // Ignores NaN, infinite and negative values.
  void Record(double seconds) noexcept;
  // Resets; earlier values are kept for AddTo.
  void Reset();
  // Describes the values since the last reset. Quantiles are in the right bucket: their error is at most its
  // width, 0.27 % for values close together and 4.4 % for values over three decades.
  Distribution Describe() const;
  // Adds all values, also those before resets.
  void AddTo(instruments::ExponentialCounts& sum) const;

 private:
  std::array<instruments::CounterCell, instruments::kExponentialCells> window_{};
  uint64_t n_ = 0;
  double sum_ = 0, least_ = 0, most_ = 0;
  double first_ = 0, off_ = 0, squares_ = 0;  // sums of differences from the first value, for the deviation
  instruments::ExponentialCounts before_;
};

struct KernelCounts {
  uint64_t received = 0, sent = 0, processed = 0, errors = 0;
  std::array<uint64_t, kDropReasons> dropped{};
  double cpu_seconds = 0;
  bool cpu_known = false;
};

// Totals since the start, of one kernel or several.
struct KernelTotals {
  KernelCounts counts;
  instruments::ExponentialCounts wait, service;
  uint64_t queue_depth = 0;  // at the moment
};

// Record of one kernel. Not thread-safe. Recording does not allocate. A message writes to adjacent memory
// only; buckets and windows are updated in batches and before a read.
class KernelRecord {
 public:
  explicit KernelRecord(std::string id);

  void SetState(KernelState state, TimePoint now) noexcept;
  KernelState state() const noexcept { return state_; }
  void SetQueueLimit(uint64_t limit) noexcept { queue_limit_ = limit; }

  void Received(TimePoint now, uint64_t depth) noexcept {
    ++counts_.received;
    last_ = now;
    SetDepth(depth);
    if (depth > high_water_) high_water_ = depth;
  }
  void SetDepth(uint64_t depth) noexcept { depth_ = depth; }
  void Took(double wait_seconds) noexcept {
    if (waits_ == kPending) [[unlikely]]
      Settle();
    wait_of_[waits_++] = wait_seconds;
  }
  void Processed(TimePoint now, double service_seconds) noexcept {
    if (services_ == kPending) [[unlikely]]
      Settle();
    service_of_[services_++] = {now, service_seconds};
    ++counts_.processed;
    last_ = now;
  }
  void Sent(TimePoint now) noexcept {
    ++counts_.sent;
    last_ = now;
  }
  void Error(TimePoint now, std::string_view what, double service_seconds) noexcept;
  void Drop(DropReason reason, uint64_t count) noexcept {
    counts_.dropped[static_cast<size_t>(reason)] += count;
  }
  void AddCpu(double seconds) noexcept {
    counts_.cpu_seconds += seconds;
    counts_.cpu_known = true;
  }
  void SetCpu(double seconds) noexcept {
    counts_.cpu_seconds = seconds;
    counts_.cpu_known = true;
  }
  // Whether a received message has no outcome yet.
  bool open() const noexcept { return counts_.received + stray_errors_ > counts_.processed + counts_.errors; }

  void Reset(TimePoint now);
  KernelTelemetry Copy(TimePoint now, std::chrono::system_clock::time_point wall) const;
  void AddTo(KernelTotals& totals) const;

 private:
  // Applies pending values.
  void Settle() const noexcept;

  static constexpr uint32_t kPending = 32;
  struct Service {
    TimePoint end;
    double seconds;
  };

  KernelState state_ = KernelState::kCreated;
  KernelCounts counts_;
  uint64_t depth_ = 0, high_water_ = 0;
  std::optional<TimePoint> last_;
  mutable uint32_t waits_ = 0, services_ = 0;
  std::array<double, kPending> wait_of_;
  std::array<Service, kPending> service_of_;

  const std::string id_;
  KernelCounts base_;
  uint64_t queue_limit_ = 0;
  std::optional<TimePoint> start_, counted_from_, end_;
  // By the first copy: two clocks are read one after the other, so that later ones would differ a little.
  mutable std::optional<std::chrono::system_clock::time_point> start_wall_;
  mutable MessageRates rates_;
  mutable LatencyRecord wait_, service_;
  std::string last_error_;
  uint64_t stray_errors_ =
      0;  // errors that are no message's outcome: a second one of a message, or between two
};

// A kernel whose record can be read. Thread-safe.
class KernelSource {
 public:
  virtual ~KernelSource() = default;
  virtual KernelTelemetry Copy() const = 0;
  virtual void AddTo(KernelTotals& totals) const = 0;
  virtual void Reset() = 0;
  virtual bool Ended() const = 0;  // kTerminated
};

}  // namespace gpulens::ring
