#include "sources/amdsmi/reader/amdsmi_reader.h"

#include <algorithm>

namespace gpulens::amdsmi {
namespace {

using reader::DeviceState;
using reader::FieldTier;
using reader::ReadStatus;

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

using reader::ProcessUse;

constexpr uint32_t kMaxRetiredPages = 4096;

template <class Number>
Number At(const std::byte* bytes, uint16_t offset) noexcept {
  Number value;
  std::memcpy(&value, bytes + offset, sizeof value);
  return value;
}

}  // namespace

AmdsmiReader::AmdsmiReader(const AmdsmiLibrary& library, uint32_t index, reader::CallSlot& slot,
                           const Clock& clock, const reader::TierClock::Periods& periods)
    : library_(library),
      index_(index),
      processor_(library.processors().at(index)),
      caller_(library, slot, clock),
      tiers_(periods),
      scratch_(kScratchBytes) {
  readings_.reserve(kSlots);
}

reader::DeviceReader::Attached AmdsmiReader::Attach() {
  tiers_.Reset();
  items_.assign(Items().size(), {});
  ecc_ = {};
  process_list_ = {};
  // The library answers some calls from a cache: query what it must look up.
  uint64_t used = 0;
  int memory = Do(&AmdsmiSymbols::MemoryUsage, uint32_t{kVram}, &used);
  int activity =
      library_.layout() ? Do(&AmdsmiSymbols::Activity, static_cast<void*>(Scratch<EngineUsage>())) : memory;
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
                       .boot_ns = caller_.last_boot_ns(),
                       .raw = raw});
}

void AmdsmiReader::EmitAbsent(Field field, unsigned copy) {
  if (tiers_.Due(FieldTier::kSlow)) Emit(field, copy, ReadStatus::kNotSupported, 0);
}

void AmdsmiReader::EmitAll(const Item& item, ReadStatus status) {
  for (auto id = static_cast<uint16_t>(item.first); id <= static_cast<uint16_t>(item.last); ++id) {
    auto field = static_cast<Field>(id);
    for (unsigned copy = 0; copy < CopiesOf(field); ++copy) Emit(field, copy, status, 0);
  }
}

bool AmdsmiReader::Round(int64_t boot_ns, reader::MessageOutbox& out) {
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
  for (size_t i = 0; i < items_.size(); ++i) {
    const Item& item = Items()[i];
    ItemMemory& memory = items_[i];
    memory.tried = false;
    if (memory.again.Rests(boot_ns) || (item.needs_layout && !library_.layout())) {
      if (tiers_.Due(FieldTier::kSlow)) EmitAll(item, ReadStatus::kNotSupported);
      continue;
    }
    const bool due = Due(item.first) && (!memory.denied || tiers_.Due(FieldTier::kSlow));
    if (!due && !memory.again.Due(boot_ns)) continue;
    int code = (this->*item.read)();
    memory.tried = true;
    good += code == kSuccess;
    gone += IsGone(code);
    ReadStatus status = StatusOf(code);
    memory.again.Take(status, boot_ns);
    if (code == kSuccess) continue;
    memory.denied = status == ReadStatus::kNoPermission;
    EmitAll(item, status);
  }
  if (good == 0 && gone >= 2) {
    readings_.clear();
    for (size_t i = 0; i < items_.size(); ++i) {
      if (items_[i].tried) EmitAll(Items()[i], ReadStatus::kLost);
    }
    return false;
  }
  if (tiers_.Due(FieldTier::kFast)) ReadProcesses();
  return true;
}

int AmdsmiReader::ReadEccBlocks() {
  uint64_t mask = 0;
  int code = Do(&AmdsmiSymbols::EccEnabled, &mask);
  if (code != kSuccess) return code;
  Emit(Field::kEccBlocks, mask);
  for (unsigned block = 0; block < std::size(kEccBlocks); ++block) {
    ErrorCount count{};
    ReadStatus status = ReadStatus::kNotSupported;
    if ((mask >> block & 1) && !ecc_[block].Rests(now_ns_)) {
      code = Do(&AmdsmiSymbols::EccCount, uint64_t{1} << block, static_cast<void*>(&count));
      bool absent = code == kNotSupported || code == kFunctionMissing || code == kInvalidArgument;
      status = code == kSuccess ? ReadStatus::kOk : absent ? ReadStatus::kNotSupported : ReadStatus::kError;
      ecc_[block].Take(status, now_ns_);
    }
    Emit(Field::kEccCorrectable, block, status, static_cast<int64_t>(count.correctable));
    Emit(Field::kEccUncorrectable, block, status, static_cast<int64_t>(count.uncorrectable));
    Emit(Field::kEccDeferred, block, status, static_cast<int64_t>(count.deferred));
  }
  return kSuccess;
}

int AmdsmiReader::ReadEccTotals() {
  ErrorCount count{};
  int code = Do(&AmdsmiSymbols::TotalEccCount, static_cast<void*>(&count));
  if (code != kSuccess) return code;
  Emit(Field::kEccTotalCorrectable, count.correctable);
  Emit(Field::kEccTotalUncorrectable, count.uncorrectable);
  Emit(Field::kEccTotalDeferred, count.deferred);
  return code;
}

int AmdsmiReader::ReadRetiredPages() {
  uint32_t count = 0;
  auto query = [&](void* pages) { return Do(&AmdsmiSymbols::BadPages, &count, pages); };
  int code = query(nullptr);
  if (code != kSuccess) return code;
  uint64_t pending = 0, retired = 0;
  if (count > 0 && count <= kMaxRetiredPages) {
    // More may have been added since: there is room for some, and the rest comes in a minute.
    std::vector<RetiredPage> pages(count + 64);
    auto room = static_cast<uint32_t>(pages.size());
    count = room;
    code = query(pages.data());
    if (code != kSuccess) return code;
    for (uint32_t i = 0; i < std::min(count, room); ++i) {
      pending += pages[i].status == 1;
      retired += pages[i].status != 1;
    }
  } else {
    retired = count;
  }
  Emit(Field::kRetiredPages, retired);
  Emit(Field::kRetiredPagesPending, pending);
  return code;
}

int AmdsmiReader::ReadProcessList(uint32_t& count) {
  const StructLayout::Process& layout = library_.layout()->process;
  constexpr uint32_t kFirstRoom = 32;
  // A process more than its struct: the library may write one beyond what it was given room for.
  if (process_buffer_.empty()) process_buffer_.resize((kFirstRoom + 1) * layout.stride);
  while (true) {
    auto room = static_cast<uint32_t>(process_buffer_.size() / layout.stride - 1);
    count = room;
    std::fill(process_buffer_.begin(), process_buffer_.end(), std::byte{0});
    int code = Do(&AmdsmiSymbols::Processes, &count, static_cast<void*>(process_buffer_.data()));
    bool more = code == kOutOfResources || code == kInsufficientSize || (code == kSuccess && count > room);
    if (more && room < reader::kMaxProcesses) {
      size_t wanted = std::clamp<size_t>(count, size_t{room} * 2, reader::kMaxProcesses);
      process_buffer_.resize((wanted + 1) * layout.stride);
      continue;
    }
    count = std::min(count, room);
    return more ? kSuccess : code;
  }
}

void AmdsmiReader::TakeProcesses(uint32_t count) {
  const StructLayout::Process& layout = library_.layout()->process;
  processes_.clear();
  for (uint32_t i = 0; i < count && processes_.size() < reader::kMaxProcesses; ++i) {
    const std::byte* bytes = process_buffer_.data() + size_t{i} * layout.stride;
    ProcessUse use;
    use.pid = At<uint32_t>(bytes, layout.pid);
    if (use.pid == 0) continue;
    use.memory = At<uint64_t>(bytes, layout.memory);
    use.host_memory = At<uint64_t>(bytes, layout.host);
    use.graphics_ns = At<uint64_t>(bytes, layout.graphics);
    use.encode_ns = At<uint64_t>(bytes, layout.encode);
    if (layout.compute_units != StructLayout::kNone)
      use.compute_units = At<uint32_t>(bytes, layout.compute_units);
    const char* name = reinterpret_cast<const char*>(bytes);
    std::string_view text(name, ::strnlen(name, layout.name_size));
    text = text.substr(text.rfind('/') + 1);
    if (text != "N/A") std::memcpy(use.name.data(), text.data(), std::min(text.size(), use.name.size() - 1));
    processes_.push_back(use);
  }
}

void AmdsmiReader::ReadProcesses() {
  const StructLayout* layout = library_.layout();
  if (process_list_.Rests(now_ns_) || !layout || layout->process.stride == 0) {
    if (tiers_.Due(FieldTier::kSlow)) Emit(Field::kProcessCount, 0, ReadStatus::kNotSupported, 0);
    return;
  }
  uint32_t count = 0;
  int code = ReadProcessList(count);
  if (code == kNoData || code == kNotFound) count = 0, code = kSuccess;  // No process uses the GPU.
  if (code != kSuccess) {
    bool absent = code == kNotSupported || code == kFunctionMissing || code == kInvalidArgument;
    ReadStatus status = absent                  ? ReadStatus::kNotSupported
                        : code == kNoPermission ? ReadStatus::kNoPermission
                                                : ReadStatus::kError;
    process_list_.Take(status, now_ns_);
    return Emit(Field::kProcessCount, 0, status, 0);
  }
  process_list_.Take(ReadStatus::kOk, now_ns_);
  TakeProcesses(count);
  has_processes_ = true;
  processes_boot_ns_ = caller_.last_boot_ns();
  Emit(Field::kProcessCount, processes_.size());
}

}  // namespace gpulens::amdsmi
