#include "sources/nvml/reader/nvml_reader.h"

#include <algorithm>
#include <utility>

#include "sources/nvml/reader/read_status.h"

namespace gpulens::nvml {
namespace {

// More than any round asks for but one with every detail of many links: what a library must take at once
// is not written anywhere.
constexpr size_t kBatch = 256;

ReadStatus StatusOf(int code) noexcept { return ReadStatusOf(code); }
int64_t Signed(uint64_t bits) noexcept { return static_cast<int64_t>(bits); }
uint64_t Unsigned(const FieldValue& value) noexcept { return UnsignedOf(value.value_type, value.value); }

}  // namespace

GpuReader::GpuReader(const NvmlLibrary& library, unsigned index, CallSlot& slot, const Clock& clock,
                     ReaderOptions options)
    : index_(index),
      caller_(library, slot, clock),
      options_(std::move(options)),
      links_{
          {{.field = Field::kNvlinkTxBytes, .all_links = kFiNvlinkDataTx, .per_link = kFiNvlinkXmitBytes},
           {.field = Field::kNvlinkRxBytes, .all_links = kFiNvlinkDataRx, .per_link = kFiNvlinkRcvBytes}}} {
  statics_.reserve(kFieldCount);
}

int GpuReader::Attach() {
  next_ = {};
  items_ = {};
  more_items_ = {};
  field_ids_ = {};
  field_id_done_.reset();
  statics_.clear();
  lists_ = {};
  memory_v2_ = field_values_ = blocking_ = {};
  broken_ = ReadStatus::kOk;
  pcie_counter_wraps_ = skip_blocking_ = false;
  blocking_due_ = mig_changed_ = false;
  mig_mode_ = -1;
  pcie_last_ = {};
  for (LinkCounter& counter : links_) {
    counter.last = {};
    counter.all_absent = false;
    counter.each = {};
  }
  int code = ReadIdentity(caller_, index_, identity_);
  samples_.Attach();
  if (code == kSuccess) {
    AddMoreFacts(caller_, index_, options_.details, identity_);
    each_link_.Attach(identity_, options_.details);
  }
  size_t links = links_.size() * (identity_.nvlink_count + 1) + each_link_.most_requests();
  requests_.reserve(kFieldIdRowCount + links);
  // All fields, those of all links, their states, and what is on their other ends.
  readings_.reserve(kFieldCount + links + size_t{5} * identity_.nvlink_count);
  return code;
}

void GpuReader::Emit(uint8_t part, uint16_t field, ReadStatus status, int64_t raw) {
  if (readings_.size() == readings_.capacity()) return;  // A field twice in a round: cannot grow the message.
  readings_.push_back({.device = index_,
                       .field = field,
                       .status = status,
                       .part = part,
                       .boot_ns = caller_.last_boot_ns(),
                       .raw = raw});
  bool once = part == 0 && InfoOf(static_cast<Field>(field)).tier == Tier::kStatic;
  if (once && status == ReadStatus::kOk && statics_.size() < statics_.capacity())
    statics_.push_back(readings_.back());
}

void GpuReader::EmitFailure(std::span<const Field> fields, ReadStatus status) {
  for (Field field : fields) {
    if (field == Field::kCount) break;
    Emit(field, status, 0);
  }
}

// Said again now and then: a message may have been lost.
void GpuReader::RepeatStatics() {
  for (const Reading& reading : statics_) {
    if (readings_.size() < readings_.capacity()) readings_.push_back(reading);
  }
}

void GpuReader::Note(int code) noexcept {
  ReadStatus status = StatusOf(code);
  if (status == ReadStatus::kLost || status == ReadStatus::kResetRequired) broken_ = status;
}

bool GpuReader::Read(int64_t boot_ns) {
  readings_.clear();
  now_ns_ = boot_ns;
  has_processes_ = false;
  broken_ = ReadStatus::kOk;
  for (size_t tier = 0; tier < kTierCount; ++tier) {
    // Rounds come a little early or late: half an interval of slack, so that none is passed over.
    due_[tier] = boot_ns + options_.periods[0].count() / 2 >= next_[tier];
    if (!due_[tier]) continue;
    // GPUs take turns with their long rounds: the agent has room for a few of them at a time.
    int64_t period = options_.periods[tier].count();
    bool first = tier > 0 && next_[tier] == 0;
    next_[tier] = boot_ns + period - (first ? period * (index_ % 8) / 8 : 0);
  }
  if (Due(Tier::kSlow)) RepeatStatics();
  ReadItems();
  ReadFieldIds();
  if (Due(Tier::kFast) && broken_ == ReadStatus::kOk && Queried(kDetailSamples))
    Note(samples_.Read(Context(), Due(Tier::kSlow)));
  if (Due(Tier::kSlow) && broken_ == ReadStatus::kOk) Note(each_link_.ReadRemotes(Context()));
  if (Due(Tier::kFast)) ReadProcesses();
  blocking_due_ = (blocking_due_ || Due(InfoOf(Field::kPcieTxRate).tier)) && broken_ == ReadStatus::kOk;
  return broken_ != ReadStatus::kLost && !std::exchange(mig_changed_, false);
}

template <class Function>
void GpuReader::ReadItem(Tier tier, std::span<const Field> fields, ItemMemory& memory, Function read) {
  if (memory.again.Rests(now_ns_)) {
    if (Due(Tier::kSlow)) EmitFailure(fields, ReadStatus::kNotSupported);
    return;
  }
  const bool due = Due(tier, memory.done) && (!memory.denied || Due(Tier::kSlow));
  if (!due && !memory.again.Due(now_ns_)) return;
  if (broken_ != ReadStatus::kOk) return EmitFailure(fields, broken_);
  int code = read();
  Note(code);
  ReadStatus status = StatusOf(code);
  memory.done = status == ReadStatus::kOk;
  memory.again.Take(status, now_ns_);
  memory.denied = status == ReadStatus::kNoPermission;
  if (status != ReadStatus::kOk) EmitFailure(fields, status);
}

void GpuReader::ReadItems() {
  for (size_t i = 0; i < kItems.size(); ++i) {
    const Item& item = kItems[i];
    ReadItem(item.tier, item.fields, items_[i], [&] { return (this->*item.read)(); });
  }
  ItemContext context = Context();
  size_t at = 0;
  for (std::span<const MoreItem> table : {BoardItems(), ErrorItems(), FabricItems()}) {
    for (const MoreItem& item : table) {
      ItemMemory& memory = more_items_[at++];
      if (Queried(item.details)) ReadItem(item.tier, item.fields, memory, [&] { return item.read(context); });
    }
  }
}

void GpuReader::AddRequest(unsigned id, unsigned scope) {
  FieldValue& request = requests_.emplace_back(FieldValue{});
  request.field_id = id;
  request.scope_id = scope;
}

void GpuReader::RequestFieldIds() {
  requested_ = 0;
  for (size_t row = 0; row < kFieldIdRowCount; ++row) {
    const FieldIdRow& wanted = kFieldIdRows[row];
    if (!Queried(wanted.details)) continue;
    const unsigned id = FieldIdOf(wanted, options_.driver_major);
    if (id == 0 || FieldIdRests(row)) {
      if (Due(Tier::kSlow)) Emit(wanted.field, ReadStatus::kNotSupported, 0);
    } else if (Due(InfoOf(wanted.field).tier, field_id_done_[row]) || field_ids_[row].Due(now_ns_)) {
      if (broken_ != ReadStatus::kOk) {
        Emit(wanted.field, broken_, 0);
      } else {
        AddRequest(id, wanted.scope);
        requested_rows_[requested_++] = static_cast<uint8_t>(row);
      }
    }
  }
}

bool GpuReader::FieldIdRests(size_t row) const noexcept {
  const Field field = kFieldIdRows[row].field;
  const bool wraps = pcie_counter_wraps_ && (field == Field::kPcieTxBytes || field == Field::kPcieRxBytes);
  return wraps || field_values_.Rests(now_ns_) || field_ids_[row].Rests(now_ns_);
}

void GpuReader::RequestLinks() {
  bool links = Due(Tier::kFast) && identity_.nvlink_count > 0 && !field_values_.Rests(now_ns_) &&
               broken_ == ReadStatus::kOk;
  for (LinkCounter& counter : links_) {
    if (counter.each.Due(now_ns_)) {  // From the beginning.
      counter.all_absent = false;
    }
    if (!links) {
      if (Due(Tier::kSlow) || broken_ != ReadStatus::kOk) {
        Emit(counter.field, broken_ == ReadStatus::kOk ? ReadStatus::kNotSupported : broken_, 0);
      }
    } else if (!counter.all_absent) {
      AddRequest(counter.all_links, kAllLinks);
    } else if (!counter.each.Rests(now_ns_)) {
      for (unsigned link = 0; link < identity_.nvlink_count; ++link) AddRequest(counter.per_link, link);
    } else if (Due(Tier::kSlow)) {
      Emit(counter.field, ReadStatus::kNotSupported, 0);
    }
  }
}

void GpuReader::QueryFieldValues() {
  for (size_t at = 0; at < requests_.size(); at += kBatch) {
    std::span<FieldValue> batch = std::span(requests_).subspan(at, std::min(kBatch, requests_.size() - at));
    int code = caller_.Do(Call::kFieldValues, caller_.fn().FieldValues, identity_.device,
                          static_cast<int>(batch.size()), batch.data());
    Note(code);
    if (at == 0) field_values_.Take(StatusOf(code), now_ns_);
    if (code == kSuccess) continue;
    for (FieldValue& request : batch) request.code = code;
  }
}

void GpuReader::ReadFieldIds() {
  requests_.clear();
  RequestFieldIds();
  RequestLinks();
  size_t first_link = requests_.size();
  if (!field_values_.Rests(now_ns_) && broken_ == ReadStatus::kOk)
    each_link_.AddRequests(due_, now_ns_, requests_);
  if (requests_.empty()) return;
  QueryFieldValues();
  size_t at = 0;
  for (; at < requested_; ++at) TakeFieldId(requested_rows_[at], requests_[at]);
  for (LinkCounter& counter : links_) at += TakeLinks(counter, at, first_link);
  // When the call itself is not there, nothing is learnt of the links.
  if (first_link < requests_.size() && !field_values_.absent())
    Note(each_link_.Take(std::span(requests_).subspan(first_link), now_ns_, *this));
}

void GpuReader::TakeFieldId(size_t row, const FieldValue& value) {
  ReadStatus status = StatusOf(value.code);
  Field field = kFieldIdRows[row].field;
  Note(value.code);
  field_id_done_[row] = status == ReadStatus::kOk;
  // When the call itself is not there, that is remembered of the call.
  if (!field_values_.absent()) field_ids_[row].Take(status, now_ns_);
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
  Emit(field, ReadStatus::kNotSupported, 0);
}

// The number of requests that belonged to the counter.
size_t GpuReader::TakeLinks(LinkCounter& counter, size_t at, size_t end) {
  if (at >= end) return 0;
  const FieldValue& first = requests_[at];
  if (first.field_id == counter.all_links) {
    ReadStatus status = StatusOf(first.code);
    Note(first.code);
    if (status == ReadStatus::kOk) counter.each.Take(status, now_ns_);
    if (status == ReadStatus::kNotSupported && !field_values_.absent()) {
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
  for (; at + count < end && requests_[at + count].field_id == counter.per_link; ++count) {
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
  if (!field_values_.absent())
    counter.each.Take(absent == count ? ReadStatus::kNotSupported : ReadStatus::kOk, now_ns_);
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
  for (size_t row = 0; row < kFieldIdRowCount; ++row) {
    if (kFieldIdRows[row].field == Field::kPcieTxBytes) counters = !FieldIdRests(row);
  }
  bool first = true;
  for (auto [field, counter] :
       {std::pair{Field::kPcieTxRate, kPcieTx}, std::pair{Field::kPcieRxRate, kPcieRx}}) {
    if (counters || skip_blocking_ || blocking_.Rests(now_ns_)) {
      Emit(field, ReadStatus::kNotSupported, 0);
      continue;
    }
    unsigned rate = 0;
    int code = caller_.Do(Call::kPcieThroughput, caller_.fn().PcieThroughput, identity_.device,
                          static_cast<unsigned>(counter), &rate);
    ReadStatus status = StatusOf(code);
    if (first) blocking_.Take(status, now_ns_);
    first = false;
    Emit(field, status, status == ReadStatus::kOk ? rate : 0);
  }
  return true;
}

}  // namespace gpulens::nvml
