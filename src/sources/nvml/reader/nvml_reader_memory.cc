// The memory of a GPU, for GpuReader: its own, one that it shares with the CPU, or the machine's.
#include "base/files.h"
#include "base/parse.h"
#include "sources/nvml/reader/nvml_reader.h"

namespace gpulens::nvml {

int GpuReader::ReadMemory() {
  MemoryV2 memory{};
  memory.version = kMemoryV2;
  int code = kFunctionNotFound;
  const bool newer = !memory_v2_.Rests(now_ns_);
  if (newer) code = caller_.Do(Call::kMemoryInfoV2, caller_.fn().MemoryInfoV2, identity_.device, &memory);
  if (newer && code == kSuccess) memory_v2_.Take(ReadStatus::kOk, now_ns_);
  if (code == kFunctionNotFound || code == kArgumentVersionMismatch || code == kNotSupported) {
    Memory old{};
    code = caller_.Do(Call::kMemoryInfo, caller_.fn().MemoryInfo, identity_.device, &old);
    if (code == kSuccess) {
      if (newer) memory_v2_.Take(ReadStatus::kNotSupported, now_ns_);
      memory.total = old.total, memory.free = old.free, memory.used = old.used;
    }
  }
  const bool told = code != kNotSupported && code != kFunctionNotFound;
  // A GPU without memory of its own: some libraries answer with the machine's, and some refuse.
  if ((!told || code == kSuccess) && identity_.integrated && ReadMemoryOfMachine() == kSuccess)
    return kSuccess;
  if (!told) return ReadMemoryOfNode();
  if (code == kSuccess && identity_.integrated) {
    memory.free += memory.reserved;
    memory.total = 0;
  }
  if (code == kSuccess) EmitMemory(memory, !memory_v2_.absent());
  return code;
}

// Unified is a pool that the CPU addresses coherently, or one in use without a frame buffer (total 0).
void GpuReader::EmitMemory(const MemoryV2& memory, bool reserved_known) {
  bool only_unified = memory.total == 0;
  if (only_unified) {
    for (Field field :
         {Field::kMemoryTotal, Field::kMemoryUsed, Field::kMemoryFree, Field::kMemoryReserved}) {
      Emit(field, ReadStatus::kNotSupported, 0);
    }
  } else {
    Emit(Field::kMemoryTotal, static_cast<int64_t>(memory.total));
    Emit(Field::kMemoryUsed, static_cast<int64_t>(memory.used));
    Emit(Field::kMemoryFree, static_cast<int64_t>(memory.free));
    // The old struct counts what is reserved as used and does not say how much that is.
    Emit(Field::kMemoryReserved, reserved_known ? ReadStatus::kOk : ReadStatus::kNotSupported,
         static_cast<int64_t>(memory.reserved));
  }
  bool unified = identity_.coherent_memory || (only_unified && memory.used + memory.free > 0);
  ReadStatus status = unified ? ReadStatus::kOk : ReadStatus::kNotSupported;
  uint64_t total = only_unified ? memory.used + memory.free : memory.total;
  Emit(Field::kUnifiedTotal, status, unified ? static_cast<int64_t>(total) : 0);
  Emit(Field::kUnifiedUsed, status, unified ? static_cast<int64_t>(memory.used) : 0);
}

// Where the library answers NOT_SUPPORTED and the GPU's memory is a NUMA node, the kernel knows it.
int GpuReader::ReadMemoryOfNode() {
  if (identity_.numa_node < 0) return kNotSupported;
  std::string path =
      options_.sysfs + "/devices/system/node/node" + std::to_string(identity_.numa_node) + "/meminfo";
  Result<std::string> text = ReadFile(path, 64 * 1024);
  return text ? EmitUnified(*text, "MemFree:") : int{kNotSupported};
}

// As DGX Spark and Jetson: what a program may still have of the machine's memory is free.
int GpuReader::ReadMemoryOfMachine() {
  Result<std::string> text = ReadFile(options_.procfs + "/meminfo", 64 * 1024);
  return text ? EmitUnified(*text, "MemAvailable:") : int{kNotSupported};
}

int GpuReader::EmitUnified(std::string_view meminfo, std::string_view free_key) {
  int64_t total = -1, free = -1;
  std::string_view rest = meminfo;
  while (!rest.empty()) {
    std::string_view line = TakeUntil(rest, '\n');  // "Node 2 MemTotal:  100663296 kB"
    for (auto [key, out] : {std::pair{std::string_view("MemTotal:"), &total}, {free_key, &free}}) {
      size_t at = line.find(key);
      if (at == std::string_view::npos) continue;
      std::string_view number = Trim(line.substr(at + key.size()));
      *out = ParseInt<int64_t>(TakeUntil(number, ' ')).value_or(-1);
    }
  }
  constexpr int64_t kLimit = int64_t{1} << 40;  // kB: no node has an exabyte.
  if (total < 0 || free < 0 || free > total || total > kLimit) return kNotSupported;
  for (Field field : {Field::kMemoryTotal, Field::kMemoryUsed, Field::kMemoryFree, Field::kMemoryReserved}) {
    Emit(field, ReadStatus::kNotSupported, 0);
  }
  Emit(Field::kUnifiedTotal, total * 1024);
  Emit(Field::kUnifiedUsed, (total - free) * 1024);
  return kSuccess;
}

}  // namespace gpulens::nvml
