// What a source knows of a device, and where a vendor keeps more of it.
#pragma once

#include <array>
#include <cstdint>
#include <ranges>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gpulens/status.h>

#include "base/clock.h"
#include "reader/protocol.h"

namespace gpulens::reader {

// `status` is of the latest attempt; `raw` and `boot_ns` are of the latest good one and grow old.
struct FieldReading {
  ReadStatus status = ReadStatus::kNever;
  int64_t boot_ns = 0;  // when the library was called; 0: never with success
  int64_t raw = 0;
};

struct DeviceEntry {
  uint32_t index = 0;
  DeviceState state = DeviceState::kStarting;
  int32_t code = 0;                                        // The library's, in kFailed and its like.
  std::vector<std::pair<std::string, std::string>> facts;  // Empty until opened.
  uint32_t identity_version = 0;                           // Grows when `facts` change.
  CallNumber hung_call = kNoCall;                          // In kHung.
  int64_t hung_since_boot_ns = 0;
  uint32_t hangs = 0;                            // Since the source was made.
  int64_t last_read_boot_ns = 0;                 // Of the latest good reading; 0: none.
  std::vector<FieldReading> fields;              // As many as the vendor has.
  std::vector<std::vector<FieldReading>> links;  // By DeviceReading::link - 1, as far as readings came.
  // Processes, where the library reports them in this form.
  std::vector<ProcessUse> uses;
  int64_t uses_boot_ns = 0;  // 0: no list yet, or none can be had.
  uint32_t opened = 0;       // How often it was opened since the source was made.
  bool counted = false;      // By the present reader process: else it has been taken away.

  // The fact of that key; empty when there is none.
  std::string_view Fact(std::string_view key) const noexcept;
};

// Owns the devices of one source, and keeps what a vendor reports in messages of its own. Used by
// the thread of the source.
class VendorState {
 public:
  virtual ~VendorState() = default;
  // One more; it keeps its address while the vendor state lives. At most kMaxDevices times.
  virtual DeviceEntry& Add() = 0;
  // The device has become another: its readings no longer hold.
  virtual void Forget(uint32_t device) = 0;
  // A message of the vendor, of a device that was counted. kDataLoss names the error.
  virtual Status Take(const VendorReport& report, Instant now) = 0;
};

// For a vendor without messages of its own.
class PlainVendorState final : public VendorState {
 public:
  PlainVendorState() { devices_.reserve(kMaxDevices); }
  DeviceEntry& Add() override { return devices_.emplace_back(); }
  void Forget(uint32_t) override {}
  Status Take(const VendorReport& report, Instant now) override;

 private:
  std::vector<DeviceEntry> devices_;
};

// Devices by index, as a range of const Device&. A view; the table outlives it.
class DeviceRange {
 public:
  explicit DeviceRange(std::span<DeviceEntry* const> devices) : view_(devices, &Of) {}
  size_t size() const noexcept { return view_.size(); }
  bool empty() const noexcept { return view_.empty(); }
  const DeviceEntry& operator[](size_t index) const noexcept { return *view_.base()[index]; }
  auto begin() const noexcept { return view_.begin(); }
  auto end() const noexcept { return view_.end(); }

 private:
  static const DeviceEntry& Of(DeviceEntry* device) noexcept { return *device; }
  std::ranges::transform_view<std::span<DeviceEntry* const>, const DeviceEntry& (*)(DeviceEntry*)> view_;
};

// What ReaderSource knows of each device: the latest readings, its state, and how often it has hung.
//
// The library numbers devices each time it is opened. Their identity is the fact "uuid": when
// the library shows a known device under another number, the identities change places, so that each device is
// in the table once, and the one that the library no longer counts is the one that is lost.

// Used by one thread. Allocates only when a device, a fact or a longer process list is new. Vendor and
// vendor state outlive it; only this table removes devices from the vendor state.
class DeviceTable {
 public:
  DeviceTable(const VendorTables& vendor, VendorState& vendor_state)
      : vendor_(vendor), vendor_state_(vendor_state) {
    devices_.reserve(kMaxDevices);
  }

  DeviceRange devices() const noexcept { return DeviceRange(std::span<DeviceEntry* const>(devices_)); }

  // A new reader process: returns the devices it must not touch, bit i for device i. A device is left out for
  // `retry_left_out`, and twice as long each time that it has failed again, up to 8 times.
  uint64_t Begin(Instant now, Duration retry_left_out);
  // The reader process has counted its devices. One that is counted again is opened again. Those that are no
  // longer counted are lost as soon as each of the others has reported its identity.
  void Expect(uint32_t count);

  // Takes messages about devices and ignores others. kDataLoss for a device that was not counted.
  Status Take(const ReaderMessage& message, Instant now);
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

  // Whether a device that the reader process has counted is lost, or hangs.
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

  DeviceEntry* Find(uint32_t index) noexcept { return index < devices_.size() ? devices_[index] : nullptr; }
  void SetState(DeviceEntry& device, DeviceState state, int32_t code);
  void Forget(DeviceEntry& device);
  // Gives the identity that the device had until now to the one that had the identity it has now.
  void Swap(DeviceEntry& device, std::string_view uuid);
  void SettleUncounted();
  void Count() noexcept;
  Duration RestOf(const Memory& memory) const noexcept;
  void CountFault(Memory& memory, Instant now) noexcept;
  // True when the call has just passed its deadline.
  bool CheckCall(DeviceEntry& device, CallSlot::View slot, Duration deadline, Instant now);

  const VendorTables& vendor_;
  VendorState& vendor_state_;
  std::vector<DeviceEntry*> devices_;
  std::array<Memory, kMaxDevices> memory_;
  Duration retry_left_out_ = std::chrono::minutes(5);
  uint32_t used_ = 0, left_out_ = 0, unread_ = 0;
};

}  // namespace gpulens::reader
