#include "sources/nvml/reader/process_reader.h"

#include <algorithm>
#include <cstring>

namespace gpulens::nvml {
namespace {

constexpr size_t kFirstRoom = 64;

// 254 is for all that cannot be: it is rejected where the limits are known.
uint8_t Percent(unsigned value) noexcept { return static_cast<uint8_t>(std::min(value, 254U)); }

}  // namespace

int ProcessLister::Read(Device device, ProcessType type) {
  const auto list = static_cast<size_t>(type);
  found_.clear();
  using List = reader::LibraryFunction<Call, int(Device, unsigned*, void*)>;
  // Newest first.
  static constexpr List NvmlSymbols::* kLists[][3] = {
      {&NvmlSymbols::ComputeProcessesV3, &NvmlSymbols::ComputeProcessesV2, &NvmlSymbols::ComputeProcesses},
      {&NvmlSymbols::GraphicsProcessesV3, &NvmlSymbols::GraphicsProcessesV2, &NvmlSymbols::GraphicsProcesses},
      {&NvmlSymbols::MpsProcessesV3, &NvmlSymbols::MpsProcessesV2, &NvmlSymbols::MpsProcesses},
  };
  // Room for a larger struct than the one we know: a driver once wrote 32 bytes per process.
  constexpr size_t kRoomPerProcess = 40;
  constexpr size_t kFirstProcesses = 32;
  const NvmlSymbols& fn = caller_.fn();
  size_t variant = 0;
  if (!(fn.*kLists[list][0]) || (avoid_v3_ && fn.*kLists[list][1])) variant = 1;
  if (variant == 1 && !(fn.*kLists[list][1])) variant = 2;
  if (buffer_.empty()) buffer_.resize(kFirstProcesses * kRoomPerProcess);
  while (true) {
    auto room = static_cast<unsigned>(buffer_.size() / kRoomPerProcess);
    unsigned number = room;
    int code = caller_.Do(fn.*kLists[list][variant], device, &number, static_cast<void*>(buffer_.data()));
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

void ShareReader::Reset(Device gpu) {
  gpu_ = gpu;
  info_ = samples_list_ = {};
  shares_.clear();
}

void ShareReader::Add(ProcessShare share, unsigned long long timestamp_us) {
  auto same = std::find_if(newest_.begin(), newest_.end(),
                           [&](const Newest& other) { return other.share.pid == share.pid; });
  if (same == newest_.end()) newest_.push_back({share, timestamp_us});
  else if (same->timestamp_us < timestamp_us) *same = {share, timestamp_us};
}

int ShareReader::ReadInfo(uint64_t since_us) {
  if (infos_.empty()) infos_.resize(kFirstRoom);
  ProcessesUtilization request{.version = kProcessesUtilizationV1,
                               .count = static_cast<unsigned>(infos_.size()),
                               .last_seen_us = since_us,
                               .list = infos_.data()};
  int code = caller_.Do(caller_.fn().ProcessesUtilizationInfo, gpu_, &request);
  if (code == kInsufficientSize && infos_.size() < kMaxProcesses) {
    infos_.resize(kMaxProcesses);
    return ReadInfo(since_us);
  }
  if (code != kSuccess) return code;
  for (size_t i = 0; i < std::min<size_t>(request.count, infos_.size()); ++i) {
    const ProcessUtilizationInfo& info = infos_[i];
    Add({.pid = info.pid,
         .sm = Percent(info.sm),
         .memory = Percent(info.memory),
         .encoder = Percent(info.encoder),
         .decoder = Percent(info.decoder),
         .jpeg = Percent(info.jpeg),
         .ofa = Percent(info.ofa)},
        info.timestamp_us);
  }
  return code;
}

int ShareReader::ReadSamples(uint64_t since_us) {
  if (samples_.empty()) samples_.resize(kFirstRoom);
  auto count = static_cast<unsigned>(samples_.size());
  int code = caller_.Do(caller_.fn().ProcessUtilization, gpu_, samples_.data(), &count,
                        static_cast<unsigned long long>(since_us));
  if (code == kInsufficientSize && samples_.size() < kMaxProcesses) {
    samples_.resize(kMaxProcesses);
    return ReadSamples(since_us);
  }
  if (code != kSuccess) return code;
  for (size_t i = 0; i < std::min<size_t>(count, samples_.size()); ++i) {
    const ProcessUtilizationSample& sample = samples_[i];
    Add({.pid = sample.pid,
         .sm = Percent(sample.sm),
         .memory = Percent(sample.memory),
         .encoder = Percent(sample.encoder),
         .decoder = Percent(sample.decoder)},
        sample.timestamp_us);
  }
  return code;
}

bool ShareReader::Read(int64_t unix_ns, Duration window) {
  shares_.clear();
  newest_.clear();
  const int64_t now = caller_.now();
  if (info_.Rests(now) && samples_list_.Rests(now)) return false;
  auto since_us = static_cast<uint64_t>(std::max<int64_t>(unix_ns - window.count(), 0)) / 1000;
  int code = kFunctionNotFound;
  if (!info_.Rests(now)) {
    code = ReadInfo(since_us);
    info_.Take(ReadStatusOf(code), now);
  }
  if (ReadStatusOf(code) == ReadStatus::kNotSupported && !samples_list_.Rests(now)) {
    code = ReadSamples(since_us);
    samples_list_.Take(ReadStatusOf(code), now);
  }
  // Nothing newer than the last sample: all are idle.
  if (code != kSuccess && code != kNotFound) return false;
  for (const Newest& one : newest_) {
    if (one.share.pid != 0) shares_.push_back(one.share);  // Old libraries fill the rest with zeros.
  }
  return true;
}

}  // namespace gpulens::nvml
