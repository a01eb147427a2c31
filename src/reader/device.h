// What a source knows of a device, and where a vendor keeps more of it.
#pragma once

#include <cstdint>
#include <ranges>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "reader/protocol.h"

namespace gpulens::driver {

// `status` is of the latest attempt; `raw` and `boot_ns` are of the latest good one and grow old.
struct FieldReading {
  ReadStatus status = ReadStatus::kNever;
  int64_t boot_ns = 0;  // When the library was asked; 0: never with success.
  int64_t raw = 0;
};

struct Device {
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
  std::vector<std::vector<FieldReading>> links;  // By Reading::part - 1, as far as readings came.
  // Processes, where the library tells them in this form.
  std::vector<ProcessUse> uses;
  int64_t uses_boot_ns = 0;  // 0: no list yet, or none can be had.
  uint32_t opened = 0;       // How often it was opened since the source was made.
  bool counted = false;      // By the present reader process: else it has been taken away.

  // The fact of that key; empty when there is none.
  std::string_view Fact(std::string_view key) const noexcept;
};

// Owns the devices of one source, and keeps what a vendor tells of them in messages of its own. Used by
// the thread of the source.
class VendorState {
 public:
  virtual ~VendorState() = default;
  // One more; it keeps its address while the vendor state lives. At most kMaxDevices times.
  virtual Device& Add() = 0;
  // The device has become another: what was told of it holds no more.
  virtual void Forget(uint32_t device) = 0;
  // A message of the vendor, of a device that was counted. kDataLoss says what is wrong with it.
  virtual Status Take(const VendorReport& report, Instant now) = 0;
};

// For a vendor without messages of its own.
class PlainVendorState final : public VendorState {
 public:
  PlainVendorState() { devices_.reserve(kMaxDevices); }
  Device& Add() override { return devices_.emplace_back(); }
  void Forget(uint32_t) override {}
  Status Take(const VendorReport& report, Instant now) override;

 private:
  std::vector<Device> devices_;
};

// Devices by index, as a range of const Device&. A view of whoever gave it.
class Devices {
 public:
  explicit Devices(std::span<Device* const> devices) : view_(devices, &Of) {}
  size_t size() const noexcept { return view_.size(); }
  bool empty() const noexcept { return view_.empty(); }
  const Device& operator[](size_t index) const noexcept { return *view_.base()[index]; }
  auto begin() const noexcept { return view_.begin(); }
  auto end() const noexcept { return view_.end(); }

 private:
  static const Device& Of(Device* device) noexcept { return *device; }
  std::ranges::transform_view<std::span<Device* const>, const Device& (*)(Device*)> view_;
};

}  // namespace gpulens::driver
