#include "sources/nvml/reader/gpu_reader.h"

#include <algorithm>
#include <utility>

namespace gpulens::nvml {
namespace {

// More than any round reads but one with every detail of many links: what a library must take at once
// is not written anywhere.
constexpr size_t kBatch = 256;

// A number that nvmlDeviceGetFieldValues reads of the GPU as a whole, in one batch per round.
struct FieldIdRow {
  Field field;
  unsigned id;
  unsigned scope = 0;
  uint32_t details = 0;  // as Item::details
  // Its id in drivers 570 to 579 (nvml.h of CUDA 12.8); today's ids are those of CUDA 13, where power
  // smoothing came before it. Drivers before 570 do not have it.
  unsigned r570_id = 0;
};

constexpr FieldIdRow kFieldIdRows[] = {
#define GPULENS_NVML_FIELD_ID_ROW(id, name, unit, tier, ...) {Field::k##id, __VA_ARGS__},
    GPULENS_NVML_FIELD_VALUES(GPULENS_NVML_FIELD_ID_ROW)
#undef GPULENS_NVML_FIELD_ID_ROW
};
static_assert(std::size(kFieldIdRows) == kFieldIdCount);

// The id of a row in a driver of this major version; 0: it has none.
constexpr unsigned FieldIdOf(const FieldIdRow& row, unsigned driver_major) noexcept {
  if (row.r570_id == 0 || driver_major >= kDriver580) return row.id;
  return driver_major >= 570 ? row.r570_id : 0;
}

int64_t Signed(uint64_t bits) noexcept { return static_cast<int64_t>(bits); }
uint64_t Unsigned(const FieldValue& value) noexcept { return UnsignedOf(value.value_type, value.value); }

}  // namespace

GpuReader::GpuReader(const NvmlLibrary& library, unsigned index, CallSlot& slot, const Clock& clock,
                     GpuReaderOptions options)
    : index_(index),
      caller_(library, slot, clock),
      options_(std::move(options)),
      // GPUs take turns with their long rounds: the agent has room for a few of them at a time.
      tiers_(options_.periods, index % 8),
      links_{
          {{.field = Field::kNvlinkTxBytes, .all_links = kFiNvlinkDataTx, .per_link = kFiNvlinkXmitBytes},
           {.field = Field::kNvlinkRxBytes, .all_links = kFiNvlinkDataRx, .per_link = kFiNvlinkRcvBytes}}} {
  statics_.reserve(kFieldCount);
}

int GpuReader::Attach() {
  tiers_.Reset();
  items_.assign(GpuItems().size(), {});
  field_ids_ = {};
  field_id_done_.reset();
  statics_.clear();
  lists_ = {};
  item_state_ = {};
  field_values_ = blocking_ = {};
  broken_ = ReadStatus::kOk;
  pcie_counter_wraps_ = skip_blocking_ = false;
  blocking_due_ = false;
  pcie_last_ = {};
  for (LinkCounter& counter : links_) {
    counter.last = {};
    counter.all_absent = false;
    counter.each = {};
  }
  int code = ReadIdentity(caller_, index_, identity_);
  samples_.Attach();
  if (code == kSuccess) {
    AddBoardFacts(caller_, index_, options_.details, identity_);
    each_link_.Attach(identity_, options_.details);
  }
  size_t links = links_.size() * (identity_.nvlink_count + 1) + each_link_.most_requests();
  requests_.reserve(kFieldIdCount + links);
  // All fields, those of all links, their states, and what is on their other ends.
  readings_.reserve(kFieldCount + links + size_t{5} * identity_.nvlink_count);
  return code;
}

void GpuReader::Emit(uint8_t link, uint16_t field, ReadStatus status, int64_t raw) {
  if (readings_.size() == readings_.capacity()) return;  // A field twice in a round: cannot grow the message.
  readings_.push_back({.device = index_,
                       .field = field,
                       .status = status,
                       .link = link,
                       .boot_ns = caller_.last_boot_ns(),
                       .raw = raw});
  bool once = link == 0 && InfoOf(static_cast<Field>(field)).tier == FieldTier::kStatic;
  if (once && status == ReadStatus::kOk && statics_.size() < statics_.capacity())
    statics_.push_back(readings_.back());
}

void GpuReader::EmitFailure(std::span<const Field> fields, ReadStatus status) {
  for (Field field : fields) {
    if (field == Field::kCount) break;
    Emit(field, status, 0);
  }
}

// Sent again now and then: a message may have been lost.
void GpuReader::RepeatStatics() {
  for (const DeviceReading& reading : statics_) {
    if (readings_.size() < readings_.capacity()) readings_.push_back(reading);
  }
}

void GpuReader::NoteCode(int code) noexcept {
  ReadStatus status = ReadStatusOf(code);
  if (status == ReadStatus::kLost || status == ReadStatus::kResetRequired) broken_ = status;
}

bool GpuReader::Read(int64_t boot_ns) {
  readings_.clear();
  now_ns_ = item_state_.now_ns = boot_ns;
  has_processes_ = false;
  broken_ = ReadStatus::kOk;
  tiers_.Begin(boot_ns);
  if (Due(FieldTier::kSlow)) RepeatStatics();
  ReadItems();
  ReadFieldIds();
  if (Due(FieldTier::kFast) && broken_ == ReadStatus::kOk && IsConfigured(kDetailSamples))
    NoteCode(samples_.Read(Context(), Due(FieldTier::kSlow)));
  if (Due(FieldTier::kSlow) && broken_ == ReadStatus::kOk) NoteCode(each_link_.ReadRemotes(Context()));
  if (Due(FieldTier::kFast)) ReadProcesses();
  blocking_due_ = (blocking_due_ || Due(InfoOf(Field::kPcieTxRate).tier)) && broken_ == ReadStatus::kOk;
  return broken_ != ReadStatus::kLost && !std::exchange(item_state_.mig_changed, false);
}

void GpuReader::ReadItem(const GpuItem& item, ItemMemory& memory, const ItemContext& context) {
  if (memory.again.Rests(now_ns_)) {
    if (Due(FieldTier::kSlow)) EmitFailure(item.fields, ReadStatus::kNotSupported);
    return;
  }
  const FieldTier tier = InfoOf(item.fields[0]).tier;
  const bool due = Due(tier, memory.done) && (!memory.denied || Due(FieldTier::kSlow));
  if (!due && !memory.again.Due(now_ns_)) return;
  if (broken_ != ReadStatus::kOk) return EmitFailure(item.fields, broken_);
  int code = item.read(context);
  NoteCode(code);
  ReadStatus status = ReadStatusOf(code);
  memory.done = status == ReadStatus::kOk;
  memory.again.Take(status, now_ns_);
  memory.denied = status == ReadStatus::kNoPermission;
  if (status != ReadStatus::kOk) EmitFailure(item.fields, status);
}

void GpuReader::ReadItems() {
  const ItemContext context = Context();
  for (size_t i = 0; i < items_.size(); ++i) {
    if (IsConfigured(GpuItems()[i].details)) ReadItem(GpuItems()[i], items_[i], context);
  }
}

void GpuReader::AddRequest(unsigned id, unsigned scope) {
  FieldValue& request = requests_.emplace_back(FieldValue{});
  request.field_id = id;
  request.scope_id = scope;
}

void GpuReader::RequestFieldIds() {
  requested_ = 0;
  for (size_t row = 0; row < kFieldIdCount; ++row) {
    const FieldIdRow& field = kFieldIdRows[row];
    if (!IsConfigured(field.details)) continue;
    const unsigned id = FieldIdOf(field, options_.driver_major);
    if (id == 0 || FieldIdRests(row)) {
      if (Due(FieldTier::kSlow)) Emit(field.field, ReadStatus::kNotSupported, 0);
    } else if (Due(InfoOf(field.field).tier, field_id_done_[row]) || field_ids_[row].Due(now_ns_)) {
      if (broken_ != ReadStatus::kOk) {
        Emit(field.field, broken_, 0);
      } else {
        AddRequest(id, field.scope);
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
  bool links = Due(FieldTier::kFast) && identity_.nvlink_count > 0 && !field_values_.Rests(now_ns_) &&
               broken_ == ReadStatus::kOk;
  for (LinkCounter& counter : links_) {
    if (counter.each.Due(now_ns_)) {  // From the beginning.
      counter.all_absent = false;
    }
    if (!links) {
      if (Due(FieldTier::kSlow) || broken_ != ReadStatus::kOk) {
        Emit(counter.field, broken_ == ReadStatus::kOk ? ReadStatus::kNotSupported : broken_, 0);
      }
    } else if (!counter.all_absent) {
      AddRequest(counter.all_links, kAllLinks);
    } else if (!counter.each.Rests(now_ns_)) {
      for (unsigned link = 0; link < identity_.nvlink_count; ++link) AddRequest(counter.per_link, link);
    } else if (Due(FieldTier::kSlow)) {
      Emit(counter.field, ReadStatus::kNotSupported, 0);
    }
  }
}

void GpuReader::QueryFieldValues() {
  for (size_t at = 0; at < requests_.size(); at += kBatch) {
    std::span<FieldValue> batch = std::span(requests_).subspan(at, std::min(kBatch, requests_.size() - at));
    int code =
        caller_.Do(caller_.fn().FieldValues, identity_.device, static_cast<int>(batch.size()), batch.data());
    NoteCode(code);
    if (at == 0) field_values_.Take(ReadStatusOf(code), now_ns_);
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
    each_link_.AddRequests(tiers_.due(), now_ns_, requests_);
  if (requests_.empty()) return;
  QueryFieldValues();
  size_t at = 0;
  for (; at < requested_; ++at) TakeFieldId(requested_rows_[at], requests_[at]);
  for (LinkCounter& counter : links_) at += TakeLinks(counter, at, first_link);
  // When the call itself is not there, nothing is learnt of the links.
  if (first_link < requests_.size() && !field_values_.absent())
    NoteCode(each_link_.Take(std::span(requests_).subspan(first_link), now_ns_, *this));
}

void GpuReader::TakeFieldId(size_t row, const FieldValue& value) {
  ReadStatus status = ReadStatusOf(value.code);
  Field field = kFieldIdRows[row].field;
  NoteCode(value.code);
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
    ReadStatus status = ReadStatusOf(first.code);
    NoteCode(first.code);
    if (status == ReadStatus::kOk) counter.each.Take(status, now_ns_);
    if (status == ReadStatus::kNotSupported && !field_values_.absent()) {
      counter.all_absent = true;  // NVLink 5 counts per link instead: read in the next round.
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
      NoteCode(value.code);
      failure = ReadStatusOf(value.code);
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
  for (size_t row = 0; row < kFieldIdCount; ++row) {
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
    int code =
        caller_.Do(caller_.fn().PcieThroughput, identity_.device, static_cast<unsigned>(counter), &rate);
    ReadStatus status = ReadStatusOf(code);
    if (first) blocking_.Take(status, now_ns_);
    first = false;
    Emit(field, status, status == ReadStatus::kOk ? rate : 0);
  }
  return true;
}

// A process that is in two lists counts once, as what it was first: compute before graphics.
int GpuReader::ReadProcessList(size_t list, const MigDevice& of) {
  const int code = lister_.Read(of.device, static_cast<ProcessType>(list));
  if (code != kSuccess) return code;
  const size_t earlier = processes_.size();
  for (GpuProcess process : lister_.found()) {
    if (processes_.size() >= kMaxProcesses) break;
    // Some libraries answer 0 instead of "none" while MIG is off.
    if (item_state_.mig_mode != 1 && mig_devices_.empty())
      process.gpu_instance = process.compute_instance = GpuProcess::kNoInstance;
    if (of.key.kind == SliceKind::kMig) {  // A list of a MIG device need not name it.
      process.gpu_instance = of.key.id;
      process.compute_instance = of.key.sub;
    }
    auto same = [&](const GpuProcess& other) {
      return other.pid == process.pid && other.gpu_instance == process.gpu_instance &&
             other.compute_instance == process.compute_instance;
    };
    auto end = processes_.begin() + static_cast<std::ptrdiff_t>(earlier);
    if (std::none_of(processes_.begin(), end, same)) processes_.push_back(process);
  }
  return code;
}

// One list of the GPU, or of each of its MIG devices. The first failure ends it.
int GpuReader::ReadProcessLists(size_t list) {
  if (mig_devices_.empty()) return ReadProcessList(list, MigDevice{.device = identity_.device, .key = {}});
  for (const MigDevice& mig : mig_devices_) {
    if (int code = ReadProcessList(list, mig); code != kSuccess) return code;
  }
  return kSuccess;
}

void GpuReader::ReadProcesses() {
  if (broken_ != ReadStatus::kOk) return Emit(Field::kProcessCount, broken_, 0);
  processes_.clear();
  int failure = kNotSupported;
  bool any = false;
  for (size_t list = 0; list < lists_.size() && broken_ == ReadStatus::kOk; ++list) {
    if (lists_[list].Rests(now_ns_)) {
      if (!lists_[list].worked()) continue;
      any = false;  // It is missing for a moment: see below.
      break;
    }
    int code = ReadProcessLists(list);
    NoteCode(code);
    const bool absent = code == kNotSupported || code == kFunctionNotFound;
    lists_[list].Take(code == kSuccess ? ReadStatus::kOk
                      : absent         ? ReadStatus::kNotSupported
                                       : ReadStatus::kNever,
                      now_ns_);
    if (code == kSuccess) {
      any = true;
      continue;
    }
    failure = code;
    // Slice of a list would look like processes that have ended.
    if (!absent || lists_[list].worked()) {
      any = false;
      break;
    }
  }
  if (any) {
    has_processes_ = true;
    processes_boot_ns_ = caller_.last_boot_ns();
    Emit(Field::kProcessCount, static_cast<int64_t>(processes_.size()));
  } else {
    ReadStatus status = failure == kNoPermission     ? ReadStatus::kNoPermission
                        : failure == kNotSupported   ? ReadStatus::kNotSupported
                        : broken_ != ReadStatus::kOk ? broken_
                                                     : ReadStatus::kError;
    Emit(Field::kProcessCount, status, 0);
  }
}

}  // namespace gpulens::nvml
