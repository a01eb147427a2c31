#include "sources/nvml/reader/process_list.h"

#include <algorithm>
#include <cstring>

namespace gpulens::nvml {

int ProcessLister::Read(Device device, ProcessType type) {
  const auto list = static_cast<size_t>(type);
  found_.clear();
  struct Variants {
    int (*Symbols::* function[3])(Device, unsigned*, void*);
    Call call[3];
  };
  static constexpr Variants kLists[] = {
      {{&Symbols::ComputeProcessesV3, &Symbols::ComputeProcessesV2, &Symbols::ComputeProcesses},
       {Call::kComputeProcessesV3, Call::kComputeProcessesV2, Call::kComputeProcesses}},
      {{&Symbols::GraphicsProcessesV3, &Symbols::GraphicsProcessesV2, &Symbols::GraphicsProcesses},
       {Call::kGraphicsProcessesV3, Call::kGraphicsProcessesV2, Call::kGraphicsProcesses}},
      {{&Symbols::MpsProcessesV3, &Symbols::MpsProcessesV2, &Symbols::MpsProcesses},
       {Call::kMpsProcessesV3, Call::kMpsProcessesV2, Call::kMpsProcesses}},
  };
  // Room for a larger struct than the one we know: a driver once wrote 32 bytes per process.
  constexpr size_t kRoomPerProcess = 40;
  constexpr size_t kFirstRoom = 32;
  const Symbols& fn = caller_.fn();
  size_t variant = 0;
  if (!(fn.*kLists[list].function[0]) || (avoid_v3_ && fn.*kLists[list].function[1])) variant = 1;
  if (variant == 1 && !(fn.*kLists[list].function[1])) variant = 2;
  if (buffer_.empty()) buffer_.resize(kFirstRoom * kRoomPerProcess);
  while (true) {
    auto room = static_cast<unsigned>(buffer_.size() / kRoomPerProcess);
    unsigned number = room;
    int code = caller_.Do(kLists[list].call[variant], fn.*kLists[list].function[variant], device, &number,
                          static_cast<void*>(buffer_.data()));
    if (code == kInsufficientSize && room < kMaxProcesses) {
      buffer_.resize(std::min<size_t>(room * 2, kMaxProcesses) * kRoomPerProcess);
      continue;
    }
    if (code == kSuccess) Take(type, std::min(number, room), variant == 2);
    return code;
  }
}

void ProcessLister::Take(ProcessType type, size_t count, bool v1) {
  for (size_t i = 0; i < count; ++i) {
    GpuProcess process{.type = type};
    if (v1) {
      ProcessInfoV1 info;
      std::memcpy(&info, buffer_.data() + i * sizeof info, sizeof info);
      process.pid = info.pid, process.memory_used = info.used_memory;
    } else {
      ProcessInfoV2 info;
      std::memcpy(&info, buffer_.data() + i * sizeof info, sizeof info);
      process.pid = info.pid, process.memory_used = info.used_memory;
      process.gpu_instance = info.gpu_instance, process.compute_instance = info.compute_instance;
    }
    found_.push_back(process);
  }
}

}  // namespace gpulens::nvml
