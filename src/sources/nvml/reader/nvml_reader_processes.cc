// The process lists of GpuReader.
#include <algorithm>

#include "sources/nvml/reader/nvml_reader.h"

namespace gpulens::nvml {

// A process that is in two lists counts once, as what it was first: compute before graphics.
int GpuReader::ReadProcessList(size_t list, const MigDevice& of) {
  const int code = lister_.Read(of.device, static_cast<ProcessType>(list));
  if (code != kSuccess) return code;
  const size_t earlier = processes_.size();
  for (GpuProcess process : lister_.found()) {
    if (processes_.size() >= kMaxProcesses) break;
    // Some libraries answer 0 instead of "none" while MIG is off.
    if (mig_mode_ != 1 && mig_devices_.empty())
      process.gpu_instance = process.compute_instance = GpuProcess::kNoInstance;
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
    Note(code);
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
    // Part of a list would look like processes that have ended.
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
