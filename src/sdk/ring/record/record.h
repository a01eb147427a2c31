// What is known of one kernel: counts since its start for those that export, and since the last reset for
// those that ask.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include <gpulens/kernel_telemetry.h>

#include "instruments/window.h"
#include "sdk/ring/record/latency.h"
#include "sdk/ring/record/rates.h"

namespace gpulens::ring {

struct Counts {
  uint64_t received = 0, sent = 0, processed = 0, errors = 0;
  std::array<uint64_t, kDropReasons> dropped{};
  double cpu_seconds = 0;
  bool cpu_known = false;
};

// Everything ever recorded, of a kernel or of several.
struct KernelTotals {
  Counts counts;
  instruments::Exponential wait, service;
  uint64_t queue_depth = 0;  // at the moment
};

// Not thread-safe: whoever has it has a lock. Recording does not allocate. A message writes next to where the
// last one did; what lies further away, buckets and windows, is seen to every now and then, and before
// somebody reads.
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
  // Whether more was received than has an outcome.
  bool open() const noexcept { return counts_.received + stray_errors_ > counts_.processed + counts_.errors; }

  void Reset(TimePoint now);
  KernelTelemetry Copy(TimePoint now, std::chrono::system_clock::time_point wall) const;
  void AddTo(KernelTotals& totals) const;

 private:
  // Puts what is pending where it belongs.
  void Settle() const noexcept;

  static constexpr uint32_t kPending = 32;
  struct Service {
    TimePoint end;
    double seconds;
  };

  KernelState state_ = KernelState::kCreated;
  Counts counts_;
  uint64_t depth_ = 0, high_water_ = 0;
  std::optional<TimePoint> last_;
  mutable uint32_t waits_ = 0, services_ = 0;
  std::array<double, kPending> wait_of_;
  std::array<Service, kPending> service_of_;

  const std::string id_;
  Counts base_;
  uint64_t queue_limit_ = 0;
  std::optional<TimePoint> start_, counted_from_, end_;
  mutable Rates rates_;
  mutable Latency wait_, service_;
  std::string last_error_;
  uint64_t stray_errors_ = 0;  // that are the outcome of no message: a second one of the same, or between two
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
