// The functions of the simulated library that report errors, pages, partitions and processes.
#include <algorithm>
#include <bit>
#include <cstdio>
#include <cstring>

#include "sources/amdsmi/amdsmi_fields.h"
#include "sources/amdsmi/simulated/fake_call.h"
#include "sources/amdsmi/simulated/fake_structs.h"

using namespace gpulens::amdsmi;

namespace {

int PutErrors(const FakeView& view, uint64_t blocks, void* out) {
  if (!out) return kInvalidArgument;
  ErrorCount count{};
  for (unsigned block = 0; block < std::size(kEccBlocks); ++block) {
    if (!(blocks >> block & 1)) continue;
    count.correctable += view.Errors(block, FakeErrors::Type::kCorrectable);
    count.uncorrectable += view.Errors(block, FakeErrors::Type::kUncorrectable);
    count.deferred += view.Errors(block, FakeErrors::Type::kDeferred);
  }
  std::memcpy(out, &count, sizeof count);
  return kSuccess;
}

int PutText(const std::string& text, char* out, uint32_t size) {
  if (!out || size <= text.size()) return out ? kInsufficientSize : kInvalidArgument;
  std::memcpy(out, text.c_str(), text.size() + 1);
  return kSuccess;
}

// As the library does: count 0 asks for the number; too little room gives what fits, with a status.
template <class Info>
int PutProcesses(const FakeView& view, uint32_t* count, void* out) {
  auto all = static_cast<uint32_t>(view.processes.size());
  uint32_t room = *count;
  *count = all;
  if (room == 0 || !out) return kSuccess;
  for (uint32_t i = 0; i < std::min(room, all); ++i) {
    const FakeProcess& process = view.processes[i];
    Info info;
    std::memset(&info, 0, sizeof info);
    CopyText(info.name, process.name);
    info.pid = process.pid;
    info.mem = static_cast<uint64_t>(process.bytes + process.host_bytes);
    info.memory.vram = static_cast<uint64_t>(process.bytes);
    info.memory.gtt = static_cast<uint64_t>(process.host_bytes);
    info.engines.gfx = static_cast<uint64_t>(view.since_open * 0.5e9);
    info.cu_occupancy = view.profile->major >= 26 ? process.compute_units : 0;
    std::memcpy(static_cast<char*>(out) + i * sizeof info, &info, sizeof info);
  }
  return room < all ? int{kOutOfResources} : int{kSuccess};
}

}  // namespace

FAKE_API int amdsmi_get_gpu_ecc_enabled(Handle handle, uint64_t* out) {
  return With(__func__, handle, [&](const FakeView& view) {
    return PutIf(view.model->ecc_blocks != 0 && IsBoard(view), out, view.model->ecc_blocks);
  });
}
FAKE_API int amdsmi_get_gpu_ecc_count(Handle handle, uint64_t block, void* out) {
  return With(__func__, handle, [&](const FakeView& view) -> int {
    if (std::popcount(block) != 1) return kInvalidArgument;
    if (!(view.model->ecc_blocks & block)) return kNotSupported;
    return PutErrors(view, block, out);
  });
}
FAKE_API int amdsmi_get_gpu_total_ecc_count(Handle handle, void* out) {
  return With(__func__, handle, [&](const FakeView& view) -> int {
    if (view.model->ecc_blocks == 0 || !IsBoard(view)) return kNotSupported;
    return PutErrors(view, view.model->ecc_blocks, out);
  });
}
FAKE_API int amdsmi_get_gpu_bad_page_info(Handle handle, uint32_t* count, void* out) {
  return With(__func__, handle, [&](const FakeView& view) -> int {
    if (view.model->ecc_blocks == 0 || !IsBoard(view)) return kNotSupported;
    if (!count) return kInvalidArgument;
    uint32_t room = *count, all = 0;
    for (const FakePages& rule : view.profile->pages) {
      if (!rule.when.Holds(view.gpu, view.since_open)) continue;
      for (unsigned i = 0; i < rule.amount; ++i, ++all) {
        if (!out || all >= room) continue;
        RetiredPage page{.address = 0x7F000ULL + all, .size = 4096, .status = rule.pending ? 1U : 0U};
        std::memcpy(static_cast<char*>(out) + all * sizeof page, &page, sizeof page);
      }
    }
    *count = all;
    return kSuccess;
  });
}
FAKE_API int amdsmi_get_gpu_compute_partition(Handle handle, char* out, uint32_t size) {
  return With(__func__, handle, [&](const FakeView& view) -> int {
    if (!view.model->partitions) return kNotSupported;
    return PutText(view.profile->compute_partition, out, size);
  });
}
FAKE_API int amdsmi_get_gpu_memory_partition(Handle handle, char* out, uint32_t size) {
  return With(__func__, handle, [&](const FakeView& view) -> int {
    if (!view.model->partitions) return kNotSupported;
    return PutText(view.profile->memory_partition, out, size);
  });
}
FAKE_API int amdsmi_get_gpu_perf_level(Handle handle, uint32_t* out) {
  return With(__func__, handle, [&](const FakeView& view) { return PutIf(IsBoard(view), out, 0); });
}
FAKE_API int amdsmi_get_gpu_process_list(Handle handle, uint32_t* count, void* out) {
  return With(__func__, handle, [&](const FakeView& view) -> int {
    if (!count) return kInvalidArgument;
    return view.profile->major == 24 ? PutProcesses<fake::ProcessInfo24>(view, count, out)
                                     : PutProcesses<fake::ProcessInfo25>(view, count, out);
  });
}

namespace gpulens::amdsmi {

std::span<const FakeSymbol> FakeListSymbols() noexcept {
  static const FakeSymbol kTable[] = {
      FAKE_SYMBOL(amdsmi_get_gpu_ecc_enabled),       FAKE_SYMBOL(amdsmi_get_gpu_ecc_count),
      FAKE_SYMBOL(amdsmi_get_gpu_total_ecc_count),   FAKE_SYMBOL(amdsmi_get_gpu_bad_page_info),
      FAKE_SYMBOL(amdsmi_get_gpu_compute_partition), FAKE_SYMBOL(amdsmi_get_gpu_memory_partition),
      FAKE_SYMBOL(amdsmi_get_gpu_perf_level),        FAKE_SYMBOL(amdsmi_get_gpu_process_list),
  };
  return kTable;
}

}  // namespace gpulens::amdsmi
