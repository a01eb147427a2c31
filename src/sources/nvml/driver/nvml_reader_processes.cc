// The process lists of GpuReader.
#include <algorithm>
#include <cstring>

#include "sources/nvml/driver/nvml_reader.h"

namespace gpulens::nvml {

int GpuReader::ReadProcessList(size_t list, const MigDevice& of) {
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
  if (!(fn.*kLists[list].function[0]) || (options_.avoid_process_v3 && fn.*kLists[list].function[1]))
    variant = 1;
  if (variant == 1 && !(fn.*kLists[list].function[1])) variant = 2;
  if (process_buffer_.empty()) process_buffer_.resize(kFirstRoom * kRoomPerProcess);
  while (true) {
    auto room = static_cast<unsigned>(process_buffer_.size() / kRoomPerProcess);
    unsigned number = room;
    int code = caller_.Do(kLists[list].call[variant], fn.*kLists[list].function[variant], of.device, &number,
                          static_cast<void*>(process_buffer_.data()));
    if (code == kInsufficientSize && room < kMaxProcesses) {
      process_buffer_.resize(std::min<size_t>(room * 2, kMaxProcesses) * kRoomPerProcess);
      continue;
    }
    if (code == kSuccess)
      AppendProcesses(static_cast<ProcessType>(list), std::min(number, room), variant == 2, of);
    return code;
  }
}

// A process that is in two lists counts once, as what it was first: compute before graphics.
void GpuReader::AppendProcesses(ProcessType type, size_t count, bool v1, const MigDevice& of) {
  size_t earlier = processes_.size();
  for (size_t i = 0; i < count && processes_.size() < kMaxProcesses; ++i) {
    GpuProcess process{.type = type};
    if (v1) {
      ProcessInfoV1 info;
      std::memcpy(&info, process_buffer_.data() + i * sizeof info, sizeof info);
      process.pid = info.pid, process.memory_used = info.used_memory;
    } else {
      ProcessInfoV2 info;
      std::memcpy(&info, process_buffer_.data() + i * sizeof info, sizeof info);
      process.pid = info.pid, process.memory_used = info.used_memory;
      process.gpu_instance = info.gpu_instance, process.compute_instance = info.compute_instance;
    }
    if (of.key.kind == PartKind::kMig) {  // Who is asked for a MIG device need not say which.
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
  for (size_t list = 0; list < list_absent_.size() && broken_ == ReadStatus::kOk; ++list) {
    if (list_absent_[list]) continue;
    int code = ReadProcessLists(list);
    Note(code);
    if (code == kSuccess) {
      any = true;
      continue;
    }
    failure = code;
    list_absent_[list] = code == kNotSupported || code == kFunctionNotFound;
    // Part of a list would look like processes that have ended.
    if (!list_absent_[list]) {
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
