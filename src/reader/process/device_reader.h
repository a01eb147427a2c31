// What a vendor brings to its reader process: a library that can be opened, and readers of its devices.
#pragma once

#include <array>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "reader/process/library_caller.h"
#include "reader/protocol.h"

namespace gpulens::reader {

using DeviceFacts = std::vector<std::pair<std::string, std::string>>;

// When each tier is due. A tier is never read more often than Begin is called.
class TierClock {
 public:
  using Periods = std::array<Duration, kTierCount>;

  // `stagger`: eighths of a period by which the second round of the slower tiers is earlier.
  explicit TierClock(const Periods& periods, unsigned stagger = 0) noexcept
      : periods_(periods), stagger_(stagger) {}
  void Reset() noexcept { next_ = {}; }
  void Begin(int64_t boot_ns) noexcept {
    for (size_t tier = 0; tier < kTierCount; ++tier) {
      // Rounds come a little early or late: half an interval of slack, so that none is passed over.
      due_[tier] = boot_ns + periods_[0].count() / 2 >= next_[tier];
      if (!due_[tier]) continue;
      int64_t period = periods_[tier].count();
      next_[tier] = boot_ns + period - (tier > 0 && next_[tier] == 0 ? period * stagger_ / 8 : 0);
    }
  }
  bool Due(FieldTier tier) const noexcept { return due_[static_cast<size_t>(tier)]; }
  const std::array<bool, kTierCount>& due() const noexcept { return due_; }

 private:
  Periods periods_;
  unsigned stagger_;
  std::array<int64_t, kTierCount> next_{};
  std::array<bool, kTierCount> due_{};
};

// Where messages to the agent go.
class MessageOutbox {
 public:
  virtual ~MessageOutbox() = default;
  // One packet. When the agent is too slow the message is dropped and counted, never waited for: false.
  virtual bool Send(std::span<const std::byte> message) noexcept = 0;
};

// The channel to the agent and the stop flag, shared by all threads of the reader process; a stuck thread
// outlives everything else. Thread-safe. No lock is ever held during a library call.
class AgentChannel final : public MessageOutbox {
 public:
  explicit AgentChannel(int socket) noexcept : socket_(socket) {}

  bool Send(std::span<const std::byte> message) noexcept override;
  // For messages that are sent once, such as an event or an identity: waits until there is room. False when
  // the process ends before. Not for the main thread, whose heartbeat must not wait.
  bool Deliver(std::span<const std::byte> message);
  // Sleeps until `boot_ns`; false when the process ends.
  bool SleepUntil(int64_t boot_ns);
  // Stops the threads and waits up to `timeout` for those that can.
  void Stop(Duration timeout);

  void Started();
  void Ended();

  std::atomic<uint64_t> calls{0}, dropped{0};

 private:
  bool TrySend(std::span<const std::byte> message) noexcept;

  int socket_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool stopping_ = false;
  int running_ = 0;
};

// Reads one device. Used by one thread.
class DeviceReader {
 public:
  virtual ~DeviceReader() = default;

  struct Attached {
    DeviceState state = DeviceState::kOk;  // kOk: it can be read.
    int32_t code = 0;                      // The library's.
  };
  // Opens the device and reads its identity; forgets all that was learnt of it.
  virtual Attached Attach() = 0;
  virtual const DeviceFacts& facts() const noexcept = 0;

  // One round over what is due: reads it, and sends it as ReadingsReport, ProcessesReport and VendorReport.
  // False when the device has to be attached again: it is lost, or has become another.
  virtual bool Round(int64_t boot_ns, MessageOutbox& out) = 0;
  // Library calls that have returned.
  virtual uint64_t calls() const noexcept = 0;
};

// The library, once opened, is shared by all readers, of which a stuck one outlives everything.
class VendorLibrary {
 public:
  virtual ~VendorLibrary() = default;

  struct Opened {
    ReaderFault fault = ReaderFault::kNone;
    int32_t code = 0;
    uint32_t devices = 0;  // At most kMaxDevices.
    std::string path, library_version, driver_version, runtime_version, detail;
  };
  // Called once, by the main thread, before anything else.
  virtual Opened Open(CallSlot& slot) = 0;
  // Once, by the main thread, after the library was opened and before any reader is made: starts a thread
  // that waits for the library's events, where it has such. The slot is that thread's, and stays.
  virtual void Watch(std::shared_ptr<AgentChannel>, CallSlot&) {}
  // Devices whose events are reported. By the main thread.
  virtual uint64_t watched() const noexcept { return 0; }
  // How many devices the library counts now; nothing when it counts them at its start alone. By the main
  // thread, now and then.
  virtual std::optional<uint32_t> Recount(CallSlot&) { return std::nullopt; }
  // The library, the slot and the clock outlive the reader.
  virtual std::unique_ptr<DeviceReader> MakeReader(uint32_t index, CallSlot& slot, const Clock& clock,
                                                   const TierClock::Periods& periods) = 0;
};

}  // namespace gpulens::reader
