// What DriverSource knows of each device: the latest readings, its state, and how often it has hung.
//
// Devices are numbered by the library, anew each time it is opened. Their identity is the fact "uuid": when
// the library shows a known device under another number, the identities change places, so that each device is
// in the book once, and the one that the library no longer counts is the one that is lost.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <gpulens/status.h>

#include "reader/device.h"

namespace gpulens::driver {

// Used by one thread. Allocates only when a device, a fact or a longer process list is new. Vendor and
// vendor state outlive it; only this table removes devices from the vendor state.
class DeviceTable {
 public:
  DeviceTable(const Vendor& vendor, VendorState& vendor_state)
      : vendor_(vendor), vendor_state_(vendor_state) {
    devices_.reserve(kMaxDevices);
  }

  Devices devices() const noexcept { return Devices(std::span<Device* const>(devices_)); }

  // A new reader process: returns the devices it must not touch, bit i for device i. A device is left out for
  // `retry_left_out`, and twice as long each time that it has failed again, up to 8 times.
  uint64_t Begin(Instant now, Duration retry_left_out);
  // The driver has counted its devices. One that is counted again after it was not is opened anew. Those that
  // are no longer counted are lost as soon as each of the others has said which one it is.
  void Expect(uint32_t count);

  // What is told of devices; other messages are passed over. kDataLoss for a device that was not counted.
  Status Take(const Message& message, Instant now);
  Status Take(const DeviceReport& report);
  Status Take(const ReadingsReport& report, Instant now);
  Status Take(const ProcessesReport& report, Instant now);
  Status Take(const VendorReport& report, Instant now);

  struct Deadlines {
    Duration usual, slow;
  };
  struct Hangs {
    uint64_t started = 0;  // Calls that passed their deadline just now.
    bool all = false;      // Every device that is read hangs.
  };
  Hangs CheckCalls(const CallPage& page, Deadlines deadlines, Instant now);
  // A call of the device has ended the reader process, or has kept it from answering. Of a device that is not
  // counted, nothing. True when the next Begin leaves it out.
  bool TakeEnd(uint32_t index, Instant now);
  // "amdsmi_get_power_info on GPU 3"; "GPU 3" for what is no call.
  std::string CallOn(CallNumber call, uint32_t index) const;
  // The same of the first that hangs.
  std::string HungCall() const;
  // "every GPU hangs, the first in …".
  std::string AllHang() const;
  uint32_t hung() const noexcept;

  // Whether a device that the driver has counted is lost, or hangs.
  bool AnyAway() const noexcept;
  // The devices may have other numbers from now on: which of them have failed means nothing any more.
  void ForgetFaults() noexcept { memory_ = {}; }

  // The next left-out device whose time has come; kMaxDevices when there is none. Retry() takes it in again.
  uint32_t DueForRetry(Instant now) const noexcept;
  void Retry(uint32_t index, Instant now);

  uint32_t used() const noexcept { return used_; }
  uint32_t left_out() const noexcept { return left_out_; }
  uint32_t unread() const noexcept { return unread_; }

 private:
  struct Memory {  // What outlives a process.
    int64_t last_fault_ns = 0;
    uint32_t faults = 0;  // Hangs and ends of the process that count towards leaving it out.
    uint32_t rests = 0;   // How often it was left out, without a long time in between.
    bool hung = false, left_out = false;
  };

  Device* Find(uint32_t index) noexcept { return index < devices_.size() ? devices_[index] : nullptr; }
  void SetState(Device& device, DeviceState state, int32_t code);
  void Forget(Device& device);
  // Gives the identity that the device had until now to the one that had the identity it has now.
  void Swap(Device& device, std::string_view uuid);
  void SettleUncounted();
  void Count() noexcept;
  Duration RestOf(const Memory& memory) const noexcept;
  void CountFault(Memory& memory, Instant now) noexcept;
  // True when the call has just passed its deadline.
  bool CheckCall(Device& device, CallSlot::View slot, Duration deadline, Instant now);

  const Vendor& vendor_;
  VendorState& vendor_state_;
  std::vector<Device*> devices_;
  std::array<Memory, kMaxDevices> memory_;
  Duration retry_left_out_ = std::chrono::minutes(5);
  uint32_t used_ = 0, left_out_ = 0, unread_ = 0;
};

}  // namespace gpulens::driver
