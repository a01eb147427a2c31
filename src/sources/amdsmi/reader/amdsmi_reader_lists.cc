// What AmdsmiReader reads as lists: error counts by block, retired pages, processes.
#include <algorithm>
#include <cstring>
#include <type_traits>

#include "sources/amdsmi/reader/amdsmi_reader.h"

namespace gpulens::amdsmi {
namespace {

using driver::ProcessUse;
using driver::ReadStatus;
using driver::Tier;

constexpr uint32_t kMaxRetiredPages = 4096;

template <class Number>
Number At(const std::byte* bytes, uint16_t offset) noexcept {
  Number value;
  std::memcpy(&value, bytes + offset, sizeof value);
  return value;
}

}  // namespace

int AmdsmiReader::ReadEccBlocks() {
  uint64_t mask = 0;
  int code = caller_.Do(Call::kEccEnabled, caller_.fn().EccEnabled, processor_.handle, &mask);
  if (code != kSuccess) return code;
  Emit(Field::kEccBlocks, mask);
  for (unsigned block = 0; block < std::size(kEccBlocks); ++block) {
    ErrorCount count{};
    ReadStatus status = ReadStatus::kNotSupported;
    if ((mask >> block & 1) && !ecc_[block].Rests(now_ns_)) {
      code = caller_.Do(Call::kEccCount, caller_.fn().EccCount, processor_.handle, uint64_t{1} << block,
                        static_cast<void*>(&count));
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
  int code = caller_.Do(Call::kTotalEccCount, caller_.fn().TotalEccCount, processor_.handle,
                        static_cast<void*>(&count));
  if (code != kSuccess) return code;
  Emit(Field::kEccTotalCorrectable, count.correctable);
  Emit(Field::kEccTotalUncorrectable, count.uncorrectable);
  Emit(Field::kEccTotalDeferred, count.deferred);
  return code;
}

int AmdsmiReader::ReadRetiredPages() {
  uint32_t count = 0;
  auto ask = [&](void* pages) {
    return caller_.Do(Call::kBadPages, caller_.fn().BadPages, processor_.handle, &count, pages);
  };
  int code = ask(nullptr);
  if (code != kSuccess) return code;
  uint64_t pending = 0, retired = 0;
  if (count > 0 && count <= kMaxRetiredPages) {
    // More may have been added since: there is room for some, and the rest comes in a minute.
    std::vector<RetiredPage> pages(count + 64);
    auto room = static_cast<uint32_t>(pages.size());
    count = room;
    code = ask(pages.data());
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
  const Layout::Process& layout = library_.layout()->process;
  constexpr uint32_t kFirstRoom = 32;
  // A process more than its struct: the library may write one beyond what it was given room for.
  if (process_buffer_.empty()) process_buffer_.resize((kFirstRoom + 1) * layout.stride);
  while (true) {
    auto room = static_cast<uint32_t>(process_buffer_.size() / layout.stride - 1);
    count = room;
    std::fill(process_buffer_.begin(), process_buffer_.end(), std::byte{0});
    int code = caller_.Do(Call::kProcesses, caller_.fn().Processes, processor_.handle, &count,
                          static_cast<void*>(process_buffer_.data()));
    bool more = code == kOutOfResources || code == kInsufficientSize || (code == kSuccess && count > room);
    if (more && room < driver::kMaxProcesses) {
      size_t wanted = std::clamp<size_t>(count, size_t{room} * 2, driver::kMaxProcesses);
      process_buffer_.resize((wanted + 1) * layout.stride);
      continue;
    }
    count = std::min(count, room);
    return more ? kSuccess : code;
  }
}

void AmdsmiReader::TakeProcesses(uint32_t count) {
  const Layout::Process& layout = library_.layout()->process;
  processes_.clear();
  for (uint32_t i = 0; i < count && processes_.size() < driver::kMaxProcesses; ++i) {
    const std::byte* bytes = process_buffer_.data() + size_t{i} * layout.stride;
    ProcessUse use;
    use.pid = At<uint32_t>(bytes, layout.pid);
    if (use.pid == 0) continue;
    use.memory = At<uint64_t>(bytes, layout.memory);
    use.host_memory = At<uint64_t>(bytes, layout.host);
    use.graphics_ns = At<uint64_t>(bytes, layout.graphics);
    use.encode_ns = At<uint64_t>(bytes, layout.encode);
    if (layout.compute_units != Layout::kNone) use.compute_units = At<uint32_t>(bytes, layout.compute_units);
    const char* name = reinterpret_cast<const char*>(bytes);
    std::string_view text(name, ::strnlen(name, layout.name_size));
    text = text.substr(text.rfind('/') + 1);
    if (text != "N/A") std::memcpy(use.name.data(), text.data(), std::min(text.size(), use.name.size() - 1));
    processes_.push_back(use);
  }
}

void AmdsmiReader::ReadProcesses() {
  const Layout* layout = library_.layout();
  if (process_list_.Rests(now_ns_) || !layout || layout->process.stride == 0) {
    if (tiers_.Due(Tier::kSlow)) Emit(Field::kProcessCount, 0, ReadStatus::kNotSupported, 0);
    return;
  }
  uint32_t count = 0;
  int code = ReadProcessList(count);
  if (code == kNoData || code == kNotFound) count = 0, code = kSuccess;  // Nobody uses the GPU.
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
  processes_boot_ns_ = gate_.last_boot_ns();
  Emit(Field::kProcessCount, processes_.size());
}

}  // namespace gpulens::amdsmi
