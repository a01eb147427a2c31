// The thread that reads one device, and what all such threads share.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>

#include "driver/side/reader.h"

namespace gpulens::driver {

// Shared by the main thread and the readers through a shared_ptr, since a stuck reader outlives all.
// Thread-safe. No lock is ever held during a library call.
class DriverShared {
 public:
  explicit DriverShared(int socket) noexcept : socket_(socket) {}

  // One packet. When the agent is too slow the message is dropped and counted, never waited for.
  void Send(std::span<const std::byte> message) noexcept;
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

// False when no thread can be made. `library` is kept alive for `reader`.
bool StartDeviceThread(std::shared_ptr<DriverShared> shared, std::shared_ptr<VendorLibrary> library,
                       std::unique_ptr<DeviceReader> reader, uint32_t index, Duration interval);

// The next multiple of `interval` after `boot_ns`: all readers work at the same moments, so that an
// idle machine is woken once.
int64_t NextTick(int64_t boot_ns, Duration interval) noexcept;

}  // namespace gpulens::driver
