#include "sources/amdsmi/reader/amdsmi_reader.h"

#include <algorithm>
#include <array>

#include "sources/amdsmi/reader/amdsmi_identity.h"

namespace gpulens::amdsmi {
namespace {

using driver::DeviceState;
using driver::ReadStatus;
using driver::Tier;

ReadStatus StatusOf(int code) noexcept {
  switch (code) {
    case kSuccess: return ReadStatus::kOk;
    case kFunctionMissing:
    case kInvalidArgument:  // A number of an enum that this version does not know yet.
    case kNotSupported:
    case kNotYetImplemented:
    case kFailLoadModule:
    case kFailLoadSymbol:
    case kSettingUnavailable: return ReadStatus::kNotSupported;
    case kNoPermission: return ReadStatus::kNoPermission;
    case kNotFound:
    case kNoData: return ReadStatus::kNotFound;
    default: return ReadStatus::kError;
  }
}

// What the library answers when the device behind a handle is no longer there. One such answer may have
// another cause; when every call gets one, the device is gone.
bool IsGone(int code) noexcept {
  switch (code) {
    case kDrmError:
    case kIoError:
    case kFileError:
    case kNotFound:
    case kNotInitialized:
    case kDriverNotLoaded:
    case kFileNotFound: return true;
    default: return false;
  }
}

}  // namespace

AmdsmiReader::AmdsmiReader(const AmdsmiLibrary& library, uint32_t index, driver::CallSlot& slot,
                           const Clock& clock, const driver::TierClock::Periods& periods)
    : library_(library),
      index_(index),
      processor_(library.processors().at(index)),
      gate_(slot, clock),
      caller_(library, gate_),
      tiers_(periods),
      scratch_(kScratchBytes) {
  readings_.reserve(kSlots);
}

driver::DeviceReader::Attached AmdsmiReader::Attach() {
  tiers_.Reset();
  items_ = {};
  denied_.reset();
  ecc_ = {};
  process_list_ = {};
  const Symbols& fn = caller_.fn();
  // The library answers some questions from what it remembers: it is asked for what it must look up.
  uint64_t used = 0;
  int memory = caller_.Do(Call::kMemoryUsage, fn.MemoryUsage, processor_.handle, uint32_t{kVram}, &used);
  int activity = library_.layout() ? caller_.Do(Call::kActivity, fn.Activity, processor_.handle,
                                                static_cast<void*>(Scratch<EngineUsage>()))
                                   : memory;
  facts_.clear();
  if (IsGone(memory) && IsGone(activity)) return {DeviceState::kLost, memory};
  if (memory == kNoPermission && activity == kNoPermission) return {DeviceState::kNoPermission, memory};
  facts_ = ReadFacts(caller_, library_, processor_, scratch_);
  return {};
}

bool AmdsmiReader::Due(Field field) const noexcept {
  return tiers_.Due(AmdsmiVendor().fields[SlotOf(field)].tier);
}

void AmdsmiReader::Emit(Field field, unsigned copy, ReadStatus status, int64_t raw) {
  if (readings_.size() == readings_.capacity()) return;  // A field twice in a round: cannot grow the message.
  readings_.push_back({.device = index_,
                       .field = SlotOf(field, copy),
                       .status = status,
                       .boot_ns = gate_.last_boot_ns(),
                       .raw = raw});
}

void AmdsmiReader::EmitAbsent(Field field, unsigned copy) {
  if (tiers_.Due(Tier::kSlow)) Emit(field, copy, ReadStatus::kNotSupported, 0);
}

void AmdsmiReader::EmitAll(const Item& item, ReadStatus status) {
  for (auto id = static_cast<uint16_t>(item.first); id <= static_cast<uint16_t>(item.last); ++id) {
    auto field = static_cast<Field>(id);
    for (unsigned copy = 0; copy < CopiesOf(field); ++copy) Emit(field, copy, status, 0);
  }
}

bool AmdsmiReader::Round(int64_t boot_ns, driver::Outbox& out) {
  bool good = Read(boot_ns);
  if (!readings_.empty()) out.Send(encoder_.Encode(readings_));
  if (has_processes_) out.Send(encoder_.Encode(index_, processes_boot_ns_, processes_));
  return good;
}

bool AmdsmiReader::Read(int64_t boot_ns) {
  readings_.clear();
  has_processes_ = false;
  now_ns_ = boot_ns;
  tiers_.Begin(boot_ns);
  size_t good = 0, gone = 0;
  std::bitset<kItemCount> tried;
  for (size_t i = 0; i < kItems.size(); ++i) {
    const Item& item = kItems[i];
    if (items_[i].Rests(boot_ns) || (item.needs_layout && !library_.layout())) {
      if (tiers_.Due(Tier::kSlow)) EmitAll(item, ReadStatus::kNotSupported);
      continue;
    }
    const bool due = tiers_.Due(item.tier) && (!denied_[i] || tiers_.Due(Tier::kSlow));
    if (!due && !items_[i].Due(boot_ns)) continue;
    int code = (this->*item.read)();
    tried[i] = true;
    good += code == kSuccess;
    gone += IsGone(code);
    ReadStatus status = StatusOf(code);
    items_[i].Take(status, boot_ns);
    if (code == kSuccess) continue;
    denied_[i] = status == ReadStatus::kNoPermission;
    EmitAll(item, status);
  }
  if (good == 0 && gone >= 2) {
    readings_.clear();
    for (size_t i = 0; i < kItems.size(); ++i) {
      if (tried[i]) EmitAll(kItems[i], ReadStatus::kLost);
    }
    return false;
  }
  if (tiers_.Due(Tier::kFast)) ReadProcesses();
  return true;
}

}  // namespace gpulens::amdsmi
