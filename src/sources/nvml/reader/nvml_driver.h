// The reader process of NVIDIA GPUs: `gpulens reader nvml`.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include <gpulens/status.h>

#include "reader/process/driver_loop.h"
#include "sources/nvml/reader/event_waiter.h"
#include "sources/nvml/reader/nvml_library.h"
#include "sources/nvml/reader/nvml_reader.h"

namespace gpulens::nvml {

using driver::kDriverBadStart;
using driver::kDriverDone;
using driver::kDriverNoLibrary;
using driver::kDriverRecount;

struct DriverOptions : driver::DriverOptions {
  DriverOptions() { device_folder = "/proc/driver/nvidia/gpus"; }
  uint32_t details = kDetailSamples;  // Details: what is read beyond the usual.
  uint64_t event_types = kUsualEvents;
  SymbolLookup lookup = nullptr;  // Instead of a file: the simulated library.
};

// What NvmlSource passes after `driver nvml`: what driver::ParseDriverArguments knows, --details=MASK and
// --events=MASK (hexadecimal). kInvalidArgument names the bad one.
Result<DriverOptions> ParseDriverArguments(std::span<const std::string_view> arguments);

// NVML for driver::RunDriver. `options` outlives it.
class NvmlDriver final : public driver::VendorLibrary {
 public:
  explicit NvmlDriver(const DriverOptions& options) noexcept : options_(options) {}

  Opened Open(CallSlot& slot) override;
  void Watch(std::shared_ptr<driver::DriverShared> shared, CallSlot& slot) override;
  uint64_t watched() const noexcept override { return events_ ? events_->devices() : 0; }
  std::optional<uint32_t> Recount(CallSlot& slot) override;
  std::unique_ptr<driver::DeviceReader> MakeReader(uint32_t index, CallSlot& slot, const Clock& clock,
                                                   const driver::TierClock::Periods& periods) override;

 private:
  const DriverOptions& options_;
  std::shared_ptr<const NvmlLibrary> library_;  // Shared with the thread that waits, which may outlive us.
  std::shared_ptr<EventWaiter> events_;         // Null: the library has no events.
  bool avoid_process_v3_ = false;
  unsigned driver_major_ = kDriver580;  // One that does not tell its version is taken for a new one.
};

// As driver::RunDriver.
int RunNvmlDriver(const DriverOptions& options);

}  // namespace gpulens::nvml
