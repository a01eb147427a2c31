// What a vendor brings to its driver process: a library that can be opened, and readers of its devices.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "driver/protocol.h"

namespace gpulens::driver {

using Facts = std::vector<std::pair<std::string, std::string>>;

// Announces library calls on the shared page, and counts them. Used by one thread; slot and clock outlive it.
class CallGate {
 public:
  CallGate(CallSlot& slot, const Clock& clock) noexcept : slot_(slot), clock_(clock) {}

  void Begin(CallNumber call) noexcept {
    last_boot_ns_ = clock_.Now().boot_ns;
    slot_.Begin(call, last_boot_ns_);
  }
  void End() noexcept {
    slot_.End();
    ++calls_;
  }
  // When the last call began.
  int64_t last_boot_ns() const noexcept { return last_boot_ns_; }
  uint64_t calls() const noexcept { return calls_; }

 private:
  CallSlot& slot_;
  const Clock& clock_;
  int64_t last_boot_ns_ = 0;
  uint64_t calls_ = 0;
};

// When each tier is due. A tier is never read more often than Begin is called.
class TierClock {
 public:
  using Periods = std::array<Duration, kTierCount>;

  explicit TierClock(const Periods& periods) noexcept : periods_(periods) {}
  void Reset() noexcept { next_ = {}; }
  void Begin(int64_t boot_ns) noexcept {
    for (size_t tier = 0; tier < kTierCount; ++tier) {
      // Rounds come a little early or late: half an interval of slack, so that none is passed over.
      due_[tier] = boot_ns + periods_[0].count() / 2 >= next_[tier];
      if (due_[tier]) next_[tier] = boot_ns + periods_[tier].count();
    }
  }
  bool Due(Tier tier) const noexcept { return due_[static_cast<size_t>(tier)]; }

 private:
  Periods periods_;
  std::array<int64_t, kTierCount> next_{};
  std::array<bool, kTierCount> due_{};
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
  virtual const Facts& facts() const noexcept = 0;

  // One round over the tiers that are due. The results stay until the next round. False when the device
  // has to be attached again: it is lost, or has become another.
  virtual bool Read(int64_t boot_ns) = 0;
  virtual std::span<const Reading> readings() const noexcept = 0;
  // True when the last round has read the process list.
  virtual bool has_processes() const noexcept = 0;
  virtual std::span<const ProcessUse> processes() const noexcept = 0;
  virtual int64_t processes_boot_ns() const noexcept = 0;
  virtual uint64_t calls() const noexcept = 0;
};

// The library, once opened, is shared by all readers, of which a stuck one outlives everything.
class VendorLibrary {
 public:
  virtual ~VendorLibrary() = default;

  struct Opened {
    Fault fault = Fault::kNone;
    int32_t code = 0;
    uint32_t devices = 0;  // At most kMaxDevices.
    std::string path, library_version, driver_version, runtime_version, detail;
  };
  // Called once, by the main thread, before any reader is made.
  virtual Opened Open(CallSlot& slot) = 0;
  // The library, the slot and the clock outlive the reader.
  virtual std::unique_ptr<DeviceReader> MakeReader(uint32_t index, CallSlot& slot, const Clock& clock,
                                                   const TierClock::Periods& periods) = 0;
};

}  // namespace gpulens::driver
