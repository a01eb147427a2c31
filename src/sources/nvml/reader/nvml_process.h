// The reader process of NVIDIA GPUs: `gpulens reader nvml`.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include <gpulens/status.h>

#include "reader/process/device_reader.h"
#include "reader/process/reader_loop.h"
#include "sources/nvml/reader/event_waiter.h"
#include "sources/nvml/reader/gpu_reader.h"
#include "sources/nvml/reader/nvml_library.h"
#include "sources/nvml/reader/slices_reader.h"

namespace gpulens::nvml {

// Reads one GPU: its numbers, slices and events. Used by the thread of its GPU. The library, the slot and the
// clock outlive it. A steady round does not allocate.
class GpuDevice final : public reader::DeviceReader {
 public:
  struct Options {
    unsigned index = 0;
    GpuReaderOptions reader;
    std::shared_ptr<EventWaiter> events;  // Null: the library has no events.
  };
  GpuDevice(const NvmlLibrary& library, CallSlot& slot, const Clock& clock, Options options);

  Attached Attach() override;
  const reader::Facts& facts() const noexcept override { return reader_.identity().facts; }
  bool Round(int64_t boot_ns, reader::Outbox& out) override;
  uint64_t calls() const noexcept override;

 private:
  const unsigned index_;
  const std::shared_ptr<EventWaiter> events_;
  GpuReader reader_;
  SlicesReader parts_;
  MessageEncoder encoder_;
};

using reader::kReaderBadStart;
using reader::kReaderDone;
using reader::kReaderNoLibrary;
using reader::kReaderRecount;

struct ReaderProcessOptions : reader::ReaderProcessOptions {
  ReaderProcessOptions() { device_folder = "/proc/driver/nvidia/gpus"; }
  uint32_t details = kDetailSamples;  // Details: what is read beyond the usual.
  uint64_t event_types = kUsualEvents;
  SymbolLookup lookup = nullptr;  // Instead of a file: the simulated library.
};

// What NvmlSource passes after `driver nvml`: what reader::ParseReaderArguments knows, --details=MASK and
// --events=MASK (hexadecimal). kInvalidArgument names the bad one.
Result<ReaderProcessOptions> ParseReaderArguments(std::span<const std::string_view> arguments);

// NVML for reader::RunReader. `options` outlives it.
class NvmlVendorLibrary final : public reader::VendorLibrary {
 public:
  explicit NvmlVendorLibrary(const ReaderProcessOptions& options) noexcept : options_(options) {}

  Opened Open(CallSlot& slot) override;
  void Watch(std::shared_ptr<reader::AgentChannel> shared, CallSlot& slot) override;
  uint64_t watched() const noexcept override { return events_ ? events_->devices() : 0; }
  std::optional<uint32_t> Recount(CallSlot& slot) override;
  std::unique_ptr<reader::DeviceReader> MakeReader(uint32_t index, CallSlot& slot, const Clock& clock,
                                                   const reader::TierClock::Periods& periods) override;

 private:
  const ReaderProcessOptions& options_;
  std::shared_ptr<const NvmlLibrary> library_;  // Shared with the thread that waits, which may outlive us.
  std::shared_ptr<EventWaiter> events_;         // Null: the library has no events.
  bool avoid_process_v3_ = false;
  unsigned driver_major_ = kDriver580;  // a driver without a version counts as a new one
};

// As reader::RunReader.
int RunNvmlReader(const ReaderProcessOptions& options);

}  // namespace gpulens::nvml
