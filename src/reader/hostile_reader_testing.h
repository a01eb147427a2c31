// What a reader process that is no longer ours can do to the agent's table of devices, for fuzzers of each
// vendor.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "reader/device_table.h"
#include "reader/protocol.h"
#include "reader/reader_child.h"

namespace gpulens::reader {

// Bytes of an input as numbers; zeros behind its end.
class InputBytes {
 public:
  explicit InputBytes(std::span<const uint8_t> bytes) noexcept : rest_(bytes) {}
  bool empty() const noexcept { return rest_.empty(); }
  template <class T>
  T Number() noexcept {
    T value{};
    const size_t size = std::min(sizeof value, rest_.size());
    if (size > 0) std::memcpy(&value, rest_.data(), size);
    rest_ = rest_.subspan(size);
    return value;
  }
  std::string_view Text(size_t size) noexcept {
    size = std::min(size, rest_.size());
    const std::string_view text(reinterpret_cast<const char*>(rest_.data()), size);
    rest_ = rest_.subspan(size);
    return text;
  }

 private:
  std::span<const uint8_t> rest_;
};

// An input is a sequence of steps: a byte for what happens, and what that needs. Messages are made from
// the input or taken as they are; between them time passes, calls hang, and the process ends and starts.
class HostileReader {
 public:
  HostileReader(const VendorTables& vendor, VendorState& vendor_state)
      : vendor_(vendor), table_(vendor, vendor_state) {}

  const DeviceTable& table() const noexcept { return table_; }
  Instant now() const noexcept { return now_; }

  void Step(InputBytes& in) {
    const uint8_t what = in.Number<uint8_t>();
    switch (what % 12) {
      case 0: return Send(Bytes(in.Text(in.Number<uint16_t>() % 2048)));
      case 1: {
        const auto count = in.Number<uint8_t>();
        return table_.Expect(count % (kMaxDevices + 1));  // ReaderSource passes it on from a decoded message
      }
      case 2: {
        DeviceReport head;
        head.device = in.Number<uint8_t>() % 80;
        head.state =
            static_cast<DeviceState>(in.Number<uint8_t>() % (static_cast<unsigned>(DeviceState::kCount) + 1));
        const std::string uuid = "GPU-" + std::to_string(in.Number<uint8_t>() % 8);
        std::vector<FactView> facts = {{"uuid", uuid}, {"name", in.Text(in.Number<uint8_t>())}};
        facts.resize(in.Number<uint8_t>() % (kMaxFacts + 2), {"k", "v"});
        return Send(encoder_.Encode(head, facts));
      }
      case 3: {
        std::vector<DeviceReading> readings(in.Number<uint8_t>() % 40);
        for (DeviceReading& reading : readings) {
          reading.device = in.Number<uint8_t>() % 66;
          reading.field = in.Number<uint16_t>() % (vendor_.fields.size() + 2);
          reading.link = in.Number<uint8_t>() % static_cast<uint8_t>(vendor_.links + 2);
          reading.status = static_cast<ReadStatus>(in.Number<uint8_t>() % (kReadStatusCount + 1));
          reading.boot_ns = Time(in);
          reading.raw = in.Number<int64_t>();
        }
        return Send(encoder_.Encode(readings));
      }
      case 4: {
        std::vector<ProcessUse> uses(in.Number<uint16_t>() % (kMaxProcesses + 2));
        for (ProcessUse& use : uses) use.pid = in.Number<uint8_t>();
        const uint32_t device = in.Number<uint8_t>() % 66;
        const int64_t at = Time(in);
        return Send(encoder_.Encode(device, at, uses));
      }
      case 5: {
        const uint32_t kind = in.Number<uint8_t>() % 16, device = in.Number<uint8_t>() % 66;
        encoder_.BeginVendor(kind, device);
        for (char c : in.Text(in.Number<uint16_t>() % 1024)) encoder_.Number(c);
        return Send(encoder_.Finish());
      }
      case 6: {
        left_out_ = table_.Begin(now_, std::chrono::minutes(5));
        return;
      }
      case 7: now_ = now_ + Duration(in.Number<uint32_t>() * 1000LL); return;
      case 8: {
        CallSlot& slot = page_.devices[in.Number<uint8_t>() % kMaxDevices];
        const auto call = static_cast<CallNumber>(in.Number<uint16_t>());
        slot.Begin(call, Time(in));
        page_.ended_in = in.Number<uint8_t>() % 4 == 0 ? in.Number<uint32_t>() : in.Number<uint8_t>();
        return;
      }
      case 9: {
        const auto hangs = table_.CheckCalls(
            page_, {.usual = std::chrono::seconds(2), .slow = std::chrono::seconds(30)}, now_);
        CHECK(hangs.started <= table_.devices().size());
        CHECK(!hangs.all || table_.hung() > 0);
        CHECK(hangs.started == 0 || table_.HungCall() != "no call");
        const CrashCulprit culprit = CulpritOf(page_, true);
        CHECK(culprit.device < kMaxDevices && !table_.CallOn(culprit.call, culprit.device).empty());
        return;
      }
      case 10: {
        const uint32_t device = in.Number<uint8_t>();
        const bool known = device < table_.devices().size();
        CHECK(!table_.TakeEnd(device, now_) || known);
        return;
      }
      default: {
        const uint32_t device = table_.DueForRetry(now_);
        CHECK(device == kMaxDevices || table_.devices()[device].state == DeviceState::kLeftOut);
        if (device < kMaxDevices) table_.Retry(device, now_);
        if (device < kMaxDevices) CHECK(table_.devices()[device].state == DeviceState::kStarting);
        return;
      }
    }
  }

  // What holds whatever came.
  void CheckTable() const {
    const DeviceRange devices = table_.devices();
    CHECK(devices.size() <= kMaxDevices);
    CHECK(table_.used() + table_.left_out() + table_.unread() <= devices.size());
    uint32_t hung = 0;
    for (size_t i = 0; i < devices.size(); ++i) {
      const DeviceEntry& device = devices[i];
      CHECK(device.index == i && device.state < DeviceState::kCount);
      CHECK(device.fields.size() == vendor_.fields.size());
      CHECK(device.links.size() <= vendor_.links && device.facts.size() <= kMaxFacts);
      CHECK(device.uses.size() <= kMaxProcesses);
      CHECK(device.uses_boot_ns >= 0 && device.uses_boot_ns <= now_.boot_ns);
      CHECK(device.last_read_boot_ns <= now_.boot_ns);
      hung += device.state == DeviceState::kHung;
      CHECK((device.hung_call == kNoCall) || device.state == DeviceState::kHung);
      CheckFields(device.fields, device);
      for (const auto& link : device.links) {
        CHECK(link.size() == vendor_.link_fields);
        CheckFields(link, device);
      }
    }
    CHECK(table_.hung() == hung);
  }

 private:
  static std::span<const std::byte> Bytes(std::string_view text) noexcept {
    return std::as_bytes(std::span(text.data(), text.size()));
  }
  // Around now, and times of no clock.
  int64_t Time(InputBytes& in) const {
    switch (in.Number<uint8_t>() % 4) {
      case 0: return now_.boot_ns;
      case 1: return in.Number<int64_t>();
      case 2: return now_.boot_ns - in.Number<uint32_t>() * int64_t{10};
      default: return in.Number<uint8_t>() % 2 == 0 ? INT64_MIN : INT64_MAX;
    }
  }
  // As ReaderSource does with each packet: what cannot be taken ends the process.
  void Send(std::span<const std::byte> bytes) {
    const auto message = DecodeMessage(bytes, vendor_);
    Status status = message.status();
    if (message) {
      const auto* library = std::get_if<LibraryReport>(&*message);
      if (library && library->fault == ReaderFault::kNone) table_.Expect(library->devices);
      status = table_.Take(*message, now_);
    }
    if (status) return;
    CHECK(!status.detail.empty() && status.code == Code::kDataLoss);
    left_out_ = table_.Begin(now_, std::chrono::minutes(5));
  }
  // The age of a reading is a number, and none is from the future.
  void CheckFields(const std::vector<FieldReading>& fields, const DeviceEntry& device) const {
    for (const FieldReading& field : fields) {
      CHECK(field.status < ReadStatus::kCount);
      CHECK(field.boot_ns >= 0 && field.boot_ns <= device.last_read_boot_ns);
    }
  }

  const VendorTables& vendor_;
  DeviceTable table_;
  CallPage page_;
  MessageEncoder encoder_;
  Instant now_{.boot_ns = 3'600'000'000'000, .unix_ns = 1'795'651'200'000'000'000};
  uint64_t left_out_ = 0;
};

}  // namespace gpulens::reader
