// What NvmlSource knows of each GPU: the latest readings, its state, and how often it has hung.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <gpulens/status.h>

#include "sources/nvml/driver_supervisor.h"

namespace gpulens::nvml {

// Used by one thread. Allocates only when a GPU, a fact or a longer process list is new.
class GpuBook {
 public:
  GpuBook() { gpus_.reserve(kMaxGpus); }

  std::span<const Gpu> gpus() const noexcept { return gpus_; }

  // A new driver process: returns the GPUs it must not touch, bit i for GPU i.
  uint64_t Begin(Instant now, Duration retry_left_out);
  // The driver has counted its GPUs.
  void Expect(uint32_t count);

  // kDataLoss for a GPU that was not counted.
  Status Take(const EntityReport& report);
  Status Take(const ReadingsReport& report, Instant now);
  Status Take(const ProcessesReport& report, Instant now);
  Status Take(const PartsReport& report);
  Status Take(const PartReport& report);
  Status Take(const PartReadingsReport& report, Instant now);
  Status Take(const ProcessSharesReport& report, Instant now);

  struct Deadlines {
    Duration usual, slow;
  };
  struct Hangs {
    uint64_t started = 0;  // Calls that passed their deadline just now.
    bool all = false;      // Every GPU that is read hangs.
  };
  Hangs CheckCalls(const CallPage& page, Deadlines deadlines, Instant now);
  // "nvmlDeviceGetPowerUsage on GPU 3": the first that hangs.
  std::string HungCall() const;

  // Whether a GPU that the driver has counted is lost.
  bool AnyLost() const noexcept;
  // The GPUs may have other numbers from now on: which of them have hung means nothing any more.
  void ForgetHangs() noexcept { memory_ = {}; }

  // The next left-out GPU whose time has come; kMaxGpus when there is none. Retry() takes it in again.
  uint32_t DueForRetry(Instant now, Duration retry_left_out) const noexcept;
  void Retry(uint32_t index);

  uint32_t used() const noexcept { return used_; }
  uint32_t left_out() const noexcept { return left_out_; }

 private:
  struct Memory {  // What outlives a process.
    int64_t last_hang_ns = 0;
    uint32_t hangs = 0;  // That count towards leaving it out.
    bool hung = false, left_out = false;
  };

  Gpu* Find(uint32_t index) noexcept { return index < gpus_.size() ? &gpus_[index] : nullptr; }
  void SetState(Gpu& gpu, GpuState state, int32_t code);
  void Count() noexcept;
  // True when the call has just passed its deadline.
  bool CheckCall(Gpu& gpu, CallSlot::View slot, Duration deadline, Instant now);

  std::vector<Gpu> gpus_;
  std::array<Memory, kMaxGpus> memory_;
  uint32_t used_ = 0, left_out_ = 0;
};

}  // namespace gpulens::nvml
