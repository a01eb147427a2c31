// The thread that reads one GPU, and what all such threads share.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>

#include "base/clock.h"
#include "sources/nvml/driver/nvml_reader.h"
#include "sources/nvml/driver/parts/event_hub.h"
#include "sources/nvml/nvml_calls.h"

namespace gpulens::nvml {

// Shared by the main thread and the readers through a shared_ptr, since a stuck reader outlives all.
// Thread-safe. No lock is ever held during a library call.
class DriverShared {
 public:
  explicit DriverShared(int socket) noexcept : socket_(socket) {}

  // One packet. When the agent is too slow the message is dropped and counted, never waited for: false.
  bool Send(std::span<const std::byte> message) noexcept;
  // Sleeps until `boot_ns`; false when the driver ends.
  bool SleepUntil(int64_t boot_ns);
  // Tells the readers to end and waits up to `patience` for those that can.
  void Stop(Duration patience);

  void Started();
  void Ended();

  std::atomic<uint64_t> calls{0}, dropped{0};

 private:
  int socket_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool stopping_ = false;
  int running_ = 0;
};

struct GpuThreadOptions {
  unsigned index = 0;
  Duration interval = std::chrono::seconds(1);
  ReaderOptions reader;
  std::shared_ptr<EventHub> events;  // Null: the library has no events.
};

// False when no thread can be made. The slot stays as long as the process.
bool StartGpuThread(std::shared_ptr<DriverShared> shared, std::shared_ptr<const NvmlLibrary> library,
                    CallSlot& slot, GpuThreadOptions options);

// The next multiple of `interval` after `boot_ns`: all readers work at the same moments, so that an
// idle machine is woken once.
int64_t NextTick(int64_t boot_ns, Duration interval) noexcept;

}  // namespace gpulens::nvml
