// What DriverSource knows of each device: the latest readings, its state, and how often it has hung.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <gpulens/status.h>

#include "driver/source.h"

namespace gpulens::driver {

// Used by one thread. Allocates only when a device, a fact or a longer process list is new.
class DeviceBook {
 public:
  explicit DeviceBook(const Vendor& vendor) : vendor_(vendor) { devices_.reserve(kMaxDevices); }

  std::span<const Device> devices() const noexcept { return devices_; }

  // A new driver process: returns the devices it must not touch, bit i for device i.
  uint64_t Begin(Instant now, Duration retry_left_out);
  // The driver has counted its devices.
  void Expect(uint32_t count);

  // kDataLoss for a device that was not counted.
  Status Take(const DeviceReport& report);
  Status Take(const ReadingsReport& report, Instant now);
  Status Take(const ProcessesReport& report, Instant now);

  struct Deadlines {
    Duration usual, slow;
  };
  struct Hangs {
    uint64_t started = 0;  // Calls that passed their deadline just now.
    bool all = false;      // Every device that is read hangs.
  };
  Hangs CheckCalls(const CallPage& page, Deadlines deadlines, Instant now);
  // "amdsmi_get_power_info on device 3": the first that hangs.
  std::string HungCall() const;

  // The next left-out device whose time has come; kMaxDevices when there is none. Retry() takes it in again.
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

  Device* Find(uint32_t index) noexcept { return index < devices_.size() ? &devices_[index] : nullptr; }
  void SetState(Device& device, DeviceState state, int32_t code);
  void Count() noexcept;
  // True when the call has just passed its deadline.
  bool CheckCall(Device& device, CallSlot::View slot, Duration deadline, Instant now);

  const Vendor& vendor_;
  std::vector<Device> devices_;
  std::array<Memory, kMaxDevices> memory_;
  uint32_t used_ = 0, left_out_ = 0;
};

}  // namespace gpulens::driver
