// The reader process of NVIDIA GPUs: `gpulens reader nvml`.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string_view>

#include <gpulens/status.h>

#include "reader/process/device_reader.h"
#include "reader/process/reader_loop.h"
#include "sources/nvml/nvml_slices.h"
#include "sources/nvml/reader/gpu_reader.h"
#include "sources/nvml/reader/nvml_library.h"
#include "sources/nvml/reader/slices_reader.h"
#include "sources/nvml/reader_protocol.h"

namespace gpulens::nvml {

// Waits for the library's events of all GPUs. Shared by the main thread, the readers and the thread that
// waits. Thread-safe; no lock is held during a library call.
class EventWaiter {
 public:
  // `types`: of EventType.
  explicit EventWaiter(uint64_t types) noexcept : types_(types) {}

  // Creates the event set, before any reader starts; false when the library has no events.
  bool Open(NvmlCaller& caller);
  // After GPU `index` was opened: registers the configured types that it supports. A
  // handle is registered once.
  void Register(NvmlCaller& caller, unsigned index, Device device);

  enum class Outcome : uint8_t { kEvent, kNothing, kBroken };
  // Waits for one event, at most `timeout_ms`. kBroken: the library failed; wait a while before the next.
  Outcome Wait(NvmlCaller& caller, unsigned timeout_ms, DeviceEvent& out);
  unsigned devices() const noexcept { return registered_.load(std::memory_order_relaxed); }
  bool has_devices() const noexcept { return registered_.load(std::memory_order_acquire) > 0; }

  // Whether MIG instances of the GPU have changed since the last call.
  bool TakeRescan(unsigned index) noexcept {
    return index < kMaxGpus && rescan_[index].exchange(false, std::memory_order_relaxed);
  }

 private:
  uint32_t IndexOf(Device device);

  const uint64_t types_;
  EventSet set_ = nullptr;
  std::atomic<unsigned> registered_{0};
  std::mutex mutex_;
  std::array<Device, kMaxGpus> devices_{};
  std::array<std::atomic<bool>, kMaxGpus> rescan_{};
};

// Starts the thread that waits and sends; it ends with `shared`. kExhausted when no thread can be made. The
// slot stays as long as the process.
Status StartEventThread(std::shared_ptr<reader::AgentChannel> shared,
                        std::shared_ptr<const NvmlLibrary> library, std::shared_ptr<EventWaiter> hub,
                        CallSlot& slot);

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
  const reader::DeviceFacts& facts() const noexcept override { return reader_.identity().facts; }
  bool Round(int64_t boot_ns, reader::MessageOutbox& out) override;
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

// What NvmlSource passes after `reader nvml`: what reader::ParseReaderArguments knows, --details=MASK and
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
