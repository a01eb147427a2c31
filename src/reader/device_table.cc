#include "reader/device_table.h"

#include <algorithm>

namespace gpulens::reader {
namespace {

constexpr uint32_t kFaultsToLeaveOut = 2;
constexpr uint32_t kMostDoublings = 3;
// The fact that stays with a device whatever its number.
constexpr std::string_view kIdentity = "uuid";

Status NotCounted() { return BadMessage("a device beyond the reported count"); }

bool SameFacts(const DeviceEntry& device, const DeviceReport& report) {
  if (device.facts.size() != report.fact_count) return false;
  for (size_t i = 0; i < report.fact_count; ++i) {
    const auto& [key, value] = device.facts[i];
    if (key != report.facts[i].key || value != report.facts[i].value) return false;
  }
  return true;
}

}  // namespace

std::string_view DeviceEntry::Fact(std::string_view key) const noexcept {
  for (const auto& [name, value] : facts) {
    if (name == key) return value;
  }
  return {};
}

Status PlainVendorState::Take(const VendorReport&, Instant) {
  return BadMessage("of a kind that this library does not have");
}

Duration DeviceTable::RestOf(const Memory& memory) const noexcept {
  return retry_left_out_ * (1 << std::min(memory.rests, kMostDoublings));
}

// Faults that lie far apart are not counted together: each costs the others no more than a moment.
void DeviceTable::CountFault(Memory& memory, Instant now) noexcept {
  const int64_t since = now.boot_ns - memory.last_fault_ns;
  if (since >= 2 * RestOf(memory).count()) memory.rests = 0;
  if (since >= RestOf(memory).count()) memory.faults = 0;
  memory.last_fault_ns = now.boot_ns;
  ++memory.faults;
}

bool DeviceTable::TakeEnd(uint32_t index, Instant now) {
  if (!Find(index)) return false;
  CountFault(memory_[index], now);
  return memory_[index].faults >= kFaultsToLeaveOut;
}

uint64_t DeviceTable::Begin(Instant now, Duration retry_left_out) {
  retry_left_out_ = retry_left_out;
  uint64_t left_out = 0;
  for (size_t i = 0; i < kMaxDevices; ++i) {
    Memory& memory = memory_[i];
    memory.hung = false;
    const bool bad = memory.faults >= kFaultsToLeaveOut;
    if (bad && !memory.left_out) {
      memory.left_out = true;
    } else if (bad && now.boot_ns - memory.last_fault_ns >= RestOf(memory).count()) {
      Retry(static_cast<uint32_t>(i), now);
    }
    if (memory.left_out) left_out |= uint64_t{1} << i;
  }
  for (DeviceEntry* device : devices_) {
    SetState(*device, memory_[device->index].left_out ? DeviceState::kLeftOut : DeviceState::kStarting, 0);
  }
  Count();
  return left_out;
}

void DeviceTable::Expect(uint32_t count) {
  for (auto i = static_cast<uint32_t>(devices_.size()); i < count; ++i) {
    DeviceEntry& device = *devices_.emplace_back(&vendor_state_.Add());
    device.index = i;
    device.fields.resize(vendor_.fields.size());
    if (memory_[i].left_out) device.state = DeviceState::kLeftOut;
  }
  const auto before = static_cast<uint32_t>(std::count_if(
      devices_.begin(), devices_.end(), [](const DeviceEntry* device) { return device->counted; }));
  if (before > 0 && before != count) ForgetFaults();  // They are of other numbers.
  for (DeviceEntry* device : devices_) {
    bool counted = device->index < count, was = std::exchange(device->counted, counted);
    if (counted && !was && device->state == DeviceState::kLost) SetState(*device, DeviceState::kStarting, 0);
  }
  SettleUncounted();
  Count();
}

// Fewer than before: which one is missing is known when all others have been opened, or cannot be.
void DeviceTable::SettleUncounted() {
  for (const DeviceEntry* device : devices_) {
    if (device->counted && device->state == DeviceState::kStarting) return;
  }
  for (DeviceEntry* device : devices_) {
    if (!device->counted && device->state != DeviceState::kLost) SetState(*device, DeviceState::kLost, 0);
  }
}

void DeviceTable::Swap(DeviceEntry& device, std::string_view uuid) {
  if (uuid.empty() || device.Fact(kIdentity) == uuid) return;
  for (DeviceEntry* other : devices_) {
    // One that this reader process has opened has its identity from there.
    const bool open = other->counted && other->state != DeviceState::kStarting;
    if (other == &device || open || other->Fact(kIdentity) != uuid) continue;
    std::swap(device.facts, other->facts);
    std::swap(device.hangs, other->hangs);
    ++other->identity_version;
    Forget(*other);
    return;
  }
}

Status DeviceTable::Take(const DeviceReport& report) {
  DeviceEntry* device = Find(report.device);
  if (!device) return NotCounted();
  if (report.state == DeviceState::kOk && !SameFacts(*device, report)) {
    for (size_t i = 0; i < report.fact_count; ++i) {
      if (report.facts[i].key == kIdentity) Swap(*device, report.facts[i].value);
    }
    device->facts.clear();
    for (size_t i = 0; i < report.fact_count; ++i) {
      device->facts.emplace_back(report.facts[i].key, report.facts[i].value);
    }
    ++device->identity_version;
    Forget(*device);
  }
  if (report.state == DeviceState::kOk) ++device->opened;
  if (report.state != DeviceState::kUnread) memory_[device->index].left_out = false;
  SetState(*device, report.state, report.code);
  SettleUncounted();
  Count();
  return Status{};
}

Status DeviceTable::Take(const ReadingsReport& report, Instant now) {
  for (size_t i = 0; i < report.readings.size(); ++i) {
    DeviceReading reading = report.readings[i];
    DeviceEntry* device = Find(reading.device);
    if (!device) return NotCounted();
    if (reading.link > device->links.size())
      device->links.resize(reading.link, std::vector<FieldReading>(vendor_.link_fields));
    FieldReading& field =
        reading.link == 0 ? device->fields[reading.field] : device->links[reading.link - 1u][reading.field];
    field.status = reading.status;
    if (reading.status == ReadStatus::kLost) SetState(*device, DeviceState::kLost, 0);
    if (reading.status == ReadStatus::kResetRequired) SetState(*device, DeviceState::kResetRequired, 0);
    if (reading.status != ReadStatus::kOk) continue;
    field.boot_ns = std::min(reading.boot_ns, now.boot_ns);
    field.raw = reading.raw;
    device->last_read_boot_ns = std::max(device->last_read_boot_ns, field.boot_ns);
    bool over = device->state == DeviceState::kHung || device->state == DeviceState::kResetRequired;
    if (over) SetState(*device, DeviceState::kOk, 0);
  }
  return Status{};
}

Status DeviceTable::Take(const ProcessesReport& report, Instant now) {
  DeviceEntry* device = Find(report.device);
  if (!device) return NotCounted();
  device->uses_boot_ns = std::min(report.boot_ns, now.boot_ns);
  device->uses.resize(report.processes.size());
  for (size_t i = 0; i < report.processes.size(); ++i) device->uses[i] = report.processes[i];
  return Status{};
}

Status DeviceTable::Take(const VendorReport& report, Instant now) {
  return Find(report.device) ? vendor_state_.Take(report, now) : NotCounted();
}

Status DeviceTable::Take(const ReaderMessage& message, Instant now) {
  if (const auto* readings = std::get_if<ReadingsReport>(&message)) return Take(*readings, now);
  if (const auto* list = std::get_if<ProcessesReport>(&message)) return Take(*list, now);
  if (const auto* device = std::get_if<DeviceReport>(&message)) return Take(*device);
  if (const auto* more = std::get_if<VendorReport>(&message)) return Take(*more, now);
  return Status{};
}

// What was reported may be another device's.
void DeviceTable::Forget(DeviceEntry& device) {
  std::fill(device.fields.begin(), device.fields.end(), FieldReading{});
  device.links.clear();
  device.uses.clear();
  device.uses_boot_ns = device.last_read_boot_ns = 0;
  vendor_state_.Forget(device.index);
}

bool DeviceTable::AnyAway() const noexcept {
  return std::any_of(devices_.begin(), devices_.end(), [](const DeviceEntry* device) {
    return device->counted && (device->state == DeviceState::kLost || device->state == DeviceState::kHung);
  });
}

uint32_t DeviceTable::hung() const noexcept {
  return static_cast<uint32_t>(std::count_if(devices_.begin(), devices_.end(), [](const DeviceEntry* device) {
    return device->state == DeviceState::kHung;
  }));
}

void DeviceTable::SetState(DeviceEntry& device, DeviceState state, int32_t code) {
  device.state = state;
  device.code = code;
  if (state == DeviceState::kHung) return;
  device.hung_call = kNoCall;
  device.hung_since_boot_ns = 0;
  memory_[device.index].hung = false;
}

void DeviceTable::Count() noexcept {
  used_ = left_out_ = unread_ = 0;
  for (const DeviceEntry* device : devices_) {
    const bool left_out = device->state == DeviceState::kLeftOut;
    ++(left_out ? left_out_ : device->state == DeviceState::kUnread ? unread_ : used_);
  }
}

DeviceTable::Hangs DeviceTable::CheckCalls(const CallPage& page, Deadlines deadlines, Instant now) {
  Hangs out;
  size_t read = 0, hung = 0;
  for (DeviceEntry* device : devices_) {
    // One that is not counted is not read: its slot in the page means nothing.
    if (device->state == DeviceState::kLeftOut || !device->counted) continue;
    CallSlot::View slot = page.devices[device->index].Read();
    out.started +=
        CheckCall(*device, slot, vendor_.slow_call(slot.call) ? deadlines.slow : deadlines.usual, now);
    hung += device->state == DeviceState::kHung;
    read += device->state == DeviceState::kOk || device->state == DeviceState::kHung ||
            device->state == DeviceState::kStarting;
  }
  SettleUncounted();
  out.all = read > 0 && hung == read;
  return out;
}

bool DeviceTable::CheckCall(DeviceEntry& device, CallSlot::View slot, Duration deadline, Instant now) {
  Memory& memory = memory_[device.index];
  bool beyond = slot.call != kNoCall && now.boot_ns - slot.since_boot_ns > deadline.count();
  if (!beyond) {
    // It came back: its next reading or identity gives its state.
    if (memory.hung) SetState(device, device.facts.empty() ? DeviceState::kStarting : DeviceState::kOk, 0);
    return false;
  }
  SetState(device, DeviceState::kHung, 0);
  if (memory.hung) return false;
  memory.hung = true;
  CountFault(memory, now);
  ++device.hangs;
  device.hung_call = slot.call;
  device.hung_since_boot_ns = slot.since_boot_ns;
  return true;
}

std::string DeviceTable::CallOn(CallNumber call, uint32_t index) const {
  const std::string device = std::string(vendor_.device) + " " + std::to_string(index);
  return call == kNoCall ? device : std::string(vendor_.call_name(call)) + " on " + device;
}

std::string DeviceTable::HungCall() const {
  for (const DeviceEntry* device : devices_) {
    if (device->state == DeviceState::kHung) return CallOn(device->hung_call, device->index);
  }
  return "no call";
}

std::string DeviceTable::AllHang() const {
  return "every " + std::string(vendor_.device) + " hangs, the first in " + HungCall();
}

uint32_t DeviceTable::DueForRetry(Instant now) const noexcept {
  for (const DeviceEntry* device : devices_) {
    const Memory& memory = memory_[device->index];
    bool rested = now.boot_ns - memory.last_fault_ns >= RestOf(memory).count();
    if (device->state == DeviceState::kLeftOut && rested) return device->index;
  }
  return kMaxDevices;
}

// One more chance: the next fault leaves it out again, for longer.
void DeviceTable::Retry(uint32_t index, Instant now) {
  Memory& memory = memory_[index];
  memory.faults = kFaultsToLeaveOut - 1;
  memory.last_fault_ns = now.boot_ns;
  memory.left_out = false;
  ++memory.rests;
  DeviceEntry* device = Find(index);
  if (!device) return;
  SetState(*device, DeviceState::kStarting, 0);
  Count();
}

}  // namespace gpulens::reader
