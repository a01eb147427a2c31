#include "sources/nvml/driver/nvml_reader.h"

#include <algorithm>
#include <utility>

#include "sources/nvml/driver/read_status.h"

namespace gpulens::nvml {
namespace {

ReadStatus StatusOf(int code) noexcept { return ReadStatusOf(code); }

int64_t Signed(uint64_t bits) noexcept { return static_cast<int64_t>(bits); }

uint64_t Unsigned(const FieldValue& value) noexcept {
  switch (value.value_type) {
    case kDouble: return value.value.double_value > 0 ? static_cast<uint64_t>(value.value.double_value) : 0;
    case kUint: return value.value.uint_value;
    case kUlong: return value.value.ulong_value;
    case kSllong: return static_cast<uint64_t>(value.value.sll_value);
    case kSint: return static_cast<uint64_t>(static_cast<int64_t>(value.value.int_value));
    case kUshort: return value.value.ushort_value;
    default: return value.value.ull_value;
  }
}

}  // namespace

struct GpuReader::FieldIdRow {
  Field field;
  FieldId id;
};

const std::array<GpuReader::FieldIdRow, 14> GpuReader::kFieldIds = {{
    {Field::kTemperatureMemory, kFiMemoryTemperature},
    {Field::kPowerInstant, kFiPowerInstant},
    {Field::kPcieTxBytes, kFiPcieTxBytes},
    {Field::kPcieRxBytes, kFiPcieRxBytes},
    {Field::kThrottleTimePower, kFiThrottlePower},
    {Field::kThrottleTimeSync, kFiThrottleSync},
    {Field::kThrottleTimeSwThermal, kFiSwThermal},
    {Field::kThrottleTimeHwThermal, kFiHwThermal},
    {Field::kThrottleTimeBrake, kFiPowerBrake},
    {Field::kRecoveryAction, kFiRecoveryAction},
    {Field::kPowerLimitMin, kFiPowerMinLimit},
    {Field::kPowerLimitMax, kFiPowerMaxLimit},
    {Field::kPowerLimitDefault, kFiPowerDefaultLimit},
    {Field::kPowerLimitRequested, kFiPowerRequestedLimit},
}};

GpuReader::GpuReader(const NvmlLibrary& library, unsigned index, CallSlot& slot, const Clock& clock,
                     ReaderOptions options)
    : index_(index),
      caller_(library, slot, clock),
      options_(std::move(options)),
      links_{
          {{.field = Field::kNvlinkTxBytes, .all_links = kFiNvlinkDataTx, .per_link = kFiNvlinkXmitBytes},
           {.field = Field::kNvlinkRxBytes, .all_links = kFiNvlinkDataRx, .per_link = kFiNvlinkRcvBytes}}} {
  readings_.reserve(kFieldCount);
  requests_.reserve(kFieldIds.size() + links_.size());
}

int GpuReader::Attach() {
  next_ = {};
  item_absent_.reset();
  item_denied_.reset();
  field_id_absent_.reset();
  list_absent_ = {};
  broken_ = ReadStatus::kOk;
  memory_v1_ = field_values_absent_ = pcie_counter_wraps_ = blocking_absent_ = false;
  blocking_due_ = mig_changed_ = false;
  mig_mode_ = -1;
  pcie_last_ = {};
  for (LinkCounter& counter : links_) {
    counter.last = {};
    counter.all_absent = counter.each_absent = false;
  }
  int code = ReadIdentity(caller_, index_, identity_);
  requests_.reserve(kFieldIds.size() + links_.size() * (identity_.nvlink_count + 1));
  return code;
}

void GpuReader::Emit(Field field, ReadStatus status, int64_t raw) {
  if (readings_.size() == readings_.capacity()) return;  // A field twice in a round: cannot grow the message.
  readings_.push_back({.entity = index_,
                       .field = static_cast<uint16_t>(field),
                       .status = status,
                       .boot_ns = caller_.last_boot_ns(),
                       .raw = raw});
}

void GpuReader::EmitFailure(const Item& item, ReadStatus status) {
  for (Field field : item.fields) {
    if (field == Field::kCount) break;
    Emit(field, status, 0);
  }
}

void GpuReader::Note(int code) noexcept {
  ReadStatus status = StatusOf(code);
  if (status == ReadStatus::kGpuLost || status == ReadStatus::kResetRequired) broken_ = status;
}

bool GpuReader::Read(int64_t boot_ns) {
  readings_.clear();
  has_processes_ = false;
  broken_ = ReadStatus::kOk;
  for (size_t tier = 0; tier < kTierCount; ++tier) {
    // Rounds come a little early or late: half an interval of slack, so that none is passed over.
    due_[tier] = boot_ns + options_.periods[0].count() / 2 >= next_[tier];
    if (due_[tier]) next_[tier] = boot_ns + options_.periods[tier].count();
  }
  ReadItems();
  ReadFieldIds();
  if (Due(Tier::kFast)) ReadProcesses();
  blocking_due_ = (blocking_due_ || Due(InfoOf(Field::kPcieTxRate).tier)) && broken_ == ReadStatus::kOk;
  return broken_ != ReadStatus::kGpuLost && !std::exchange(mig_changed_, false);
}

void GpuReader::ReadItems() {
  for (size_t i = 0; i < kItems.size(); ++i) {
    const Item& item = kItems[i];
    if (!Due(item.tier) && !(item_absent_[i] && Due(Tier::kSlow))) continue;
    if (item_absent_[i]) {
      // Said again now and then: a message may have been lost.
      if (Due(Tier::kSlow)) EmitFailure(item, ReadStatus::kNotSupported);
      continue;
    }
    if (item_denied_[i] && !Due(Tier::kSlow)) continue;
    if (broken_ != ReadStatus::kOk) {
      EmitFailure(item, broken_);
      continue;
    }
    int code = (this->*item.read)();
    Note(code);
    if (code == kSuccess) continue;
    ReadStatus status = StatusOf(code);
    item_absent_[i] = status == ReadStatus::kNotSupported;
    item_denied_[i] = status == ReadStatus::kNoPermission;
    EmitFailure(item, status);
  }
}

void GpuReader::AddRequest(unsigned id, unsigned scope) {
  FieldValue& request = requests_.emplace_back(FieldValue{});
  request.field_id = id;
  request.scope_id = scope;
}

void GpuReader::ReadFieldIds() {
  requests_.clear();
  for (size_t row = 0; row < kFieldIds.size(); ++row) {
    Tier tier = InfoOf(kFieldIds[row].field).tier;
    if (field_values_absent_ || field_id_absent_[row]) {
      if (Due(Tier::kSlow)) Emit(kFieldIds[row].field, ReadStatus::kNotSupported, 0);
    } else if (Due(tier)) {
      if (broken_ != ReadStatus::kOk) {
        Emit(kFieldIds[row].field, broken_, 0);
      } else {
        AddRequest(kFieldIds[row].id, 0);
      }
    }
  }
  size_t rows = requests_.size();
  bool links =
      Due(Tier::kFast) && identity_.nvlink_count > 0 && !field_values_absent_ && broken_ == ReadStatus::kOk;
  for (const LinkCounter& counter : links_) {
    if (!links) {
      if (Due(Tier::kSlow) || broken_ != ReadStatus::kOk) {
        Emit(counter.field, broken_ == ReadStatus::kOk ? ReadStatus::kNotSupported : broken_, 0);
      }
    } else if (!counter.all_absent) {
      AddRequest(counter.all_links, kAllLinks);
    } else if (!counter.each_absent) {
      for (unsigned link = 0; link < identity_.nvlink_count; ++link) AddRequest(counter.per_link, link);
    } else if (Due(Tier::kSlow)) {
      Emit(counter.field, ReadStatus::kNotSupported, 0);
    }
  }
  if (requests_.empty()) return;
  int code = caller_.Do(Call::kFieldValues, caller_.fn().FieldValues, identity_.device,
                        static_cast<int>(requests_.size()), requests_.data());
  Note(code);
  if (code != kSuccess) {
    field_values_absent_ = StatusOf(code) == ReadStatus::kNotSupported;
    for (FieldValue& request : requests_) request.code = code;
  }
  size_t at = 0;
  for (size_t row = 0; row < kFieldIds.size() && at < rows; ++row) {
    if (requests_[at].field_id == kFieldIds[row].id) TakeFieldId(row, requests_[at++]);
  }
  for (LinkCounter& counter : links_) at += TakeLinks(counter, at);
}

void GpuReader::TakeFieldId(size_t row, const FieldValue& value) {
  ReadStatus status = StatusOf(value.code);
  Field field = kFieldIds[row].field;
  Note(value.code);
  if (status == ReadStatus::kNotSupported) field_id_absent_[row] = true;
  if (status != ReadStatus::kOk) return Emit(field, status, 0);
  if (field == Field::kPcieTxBytes || field == Field::kPcieRxBytes) return TakePcieBytes(field, value);
  Emit(field, Signed(Unsigned(value)));
}

// A byte counter of 32 bits goes round several times a second on a fast link: no rate can be made of
// it. It is given up, and the blocking call takes its place.
void GpuReader::TakePcieBytes(Field field, const FieldValue& value) {
  uint64_t bytes = Unsigned(value);
  uint64_t& last = pcie_last_[field == Field::kPcieRxBytes];
  bool narrow = value.value_type == kUint || (bytes < last && last <= UINT32_MAX);
  last = bytes;
  if (narrow) pcie_counter_wraps_ = true;
  if (!pcie_counter_wraps_) return Emit(field, Signed(bytes));
  for (size_t row = 0; row < kFieldIds.size(); ++row) {
    if (kFieldIds[row].field == Field::kPcieTxBytes || kFieldIds[row].field == Field::kPcieRxBytes) {
      field_id_absent_[row] = true;
    }
  }
  Emit(field, ReadStatus::kNotSupported, 0);
}

// The number of requests that belonged to the counter.
size_t GpuReader::TakeLinks(LinkCounter& counter, size_t at) {
  if (at >= requests_.size()) return 0;
  const FieldValue& first = requests_[at];
  if (first.field_id == counter.all_links) {
    ReadStatus status = StatusOf(first.code);
    Note(first.code);
    if (status == ReadStatus::kNotSupported) {
      counter.all_absent = true;  // NVLink 5 counts per link instead: asked in the next round.
    } else {
      Emit(counter.field, status, status == ReadStatus::kOk ? Signed(Unsigned(first) * 1024) : 0);
    }
    return 1;
  }
  if (first.field_id != counter.per_link) return 0;
  size_t count = 0, good = 0, absent = 0;
  uint64_t sum = 0;
  ReadStatus failure = ReadStatus::kError;
  for (; at + count < requests_.size() && requests_[at + count].field_id == counter.per_link; ++count) {
    const FieldValue& value = requests_[at + count];
    // A link that is down keeps its last count, so that the sum never falls.
    uint64_t& last = counter.last[value.scope_id % kMaxLinks];
    if (value.code == kSuccess) {
      last = Unsigned(value);
      ++good;
    } else {
      Note(value.code);
      failure = StatusOf(value.code);
      absent += failure == ReadStatus::kNotSupported;
    }
    sum += last;
  }
  if (absent == count) counter.each_absent = true;
  if (good > 0) {
    Emit(counter.field, Signed(sum));
  } else {
    Emit(counter.field, failure, 0);
  }
  return count;
}

bool GpuReader::ReadBlocking() {
  readings_.clear();
  if (!std::exchange(blocking_due_, false)) return false;
  bool counters = true;
  for (size_t row = 0; row < kFieldIds.size(); ++row) {
    if (kFieldIds[row].field == Field::kPcieTxBytes)
      counters = !field_id_absent_[row] && !field_values_absent_;
  }
  bool first = true;
  for (auto [field, counter] :
       {std::pair{Field::kPcieTxRate, kPcieTx}, std::pair{Field::kPcieRxRate, kPcieRx}}) {
    if (counters || blocking_absent_) {
      Emit(field, ReadStatus::kNotSupported, 0);
      continue;
    }
    unsigned rate = 0;
    int code = caller_.Do(Call::kPcieThroughput, caller_.fn().PcieThroughput, identity_.device,
                          static_cast<unsigned>(counter), &rate);
    ReadStatus status = StatusOf(code);
    if (first && status == ReadStatus::kNotSupported) blocking_absent_ = true;
    first = false;
    Emit(field, status, status == ReadStatus::kOk ? rate : 0);
  }
  return true;
}

}  // namespace gpulens::nvml
