#include "sources/nvml/reader/mig_reader.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <string_view>

#include "sources/nvml/reader/read_status.h"

namespace gpulens::nvml {
namespace {

constexpr double kGib = 1024.0 * 1024.0 * 1024.0;

// Empty when the library would not tell.
std::string Text(Caller& caller, Call call, int (*function)(Device, char*, unsigned), Device device) {
  std::array<char, 96> text{};
  if (caller.Do(call, function, device, text.data(), static_cast<unsigned>(text.size())) != kSuccess)
    return {};
  return {text.data(), ::strnlen(text.data(), text.size())};
}

bool Same(const std::vector<MigDevice>& a, const std::vector<MigDevice>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const MigDevice& x, const MigDevice& y) {
    return x.key == y.key && x.device == y.device;
  });
}

}  // namespace

std::string MigProfileName(const DeviceAttributes& attributes, uint64_t gpu_memory) {
  if (attributes.gpu_slices == 0 || attributes.gpu_slices > 8 || attributes.memory_mib == 0 ||
      gpu_memory == 0) {
    return {};
  }
  double share = static_cast<double>(attributes.memory_mib) * 1024 * 1024 / static_cast<double>(gpu_memory);
  double eighths = std::ceil(std::min(share, 1.0) * 8) / 8;
  auto gigabytes =
      static_cast<unsigned>(std::lround(eighths * std::ceil(static_cast<double>(gpu_memory) / kGib)));
  std::string name = std::to_string(attributes.gpu_slices) + "g." + std::to_string(gigabytes) + "gb";
  bool part = attributes.compute_slices != 0 && attributes.compute_slices < attributes.gpu_slices;
  return part ? std::to_string(attributes.compute_slices) + "c." + name : name;
}

void MigReader::Reset(Device gpu) {
  gpu_ = gpu;
  max_ = GpuParts::kUnknown;
  gpu_memory_ = 0;
  devices_.clear();
}

bool MigReader::Scan() {
  const Symbols& fn = caller_.fn();
  if (!known()) {
    unsigned max = 0;
    if (caller_.Do(Call::kMaxMigDevices, fn.MaxMigDevices, gpu_, &max) != kSuccess) return false;
    max_ = std::min<uint32_t>(max, kMaxParts);
    devices_.reserve(max_);
    found_.reserve(max_);
  }
  found_.clear();
  for (unsigned i = 0; i < max_; ++i) {
    MigDevice mig;
    int code = caller_.Do(Call::kMigDeviceHandle, fn.MigDeviceHandle, gpu_, i, &mig.device);
    if (code == kNotFound || code == nvml::kInvalidArgument) continue;
    if (code == kNotSupported) break;  // MIG is off.
    if (code != kSuccess) return false;
    mig.key.kind = PartKind::kMig;
    code = caller_.Do(Call::kMigGpuInstance, fn.MigGpuInstance, mig.device, &mig.key.id);
    if (code == kSuccess)
      code = caller_.Do(Call::kMigComputeInstance, fn.MigComputeInstance, mig.device, &mig.key.sub);
    if (code == kNotFound) continue;  // Destroyed a moment ago.
    if (code != kSuccess) return false;
    auto same = [&](const MigDevice& other) { return other.key == mig.key; };
    if (std::none_of(found_.begin(), found_.end(), same)) found_.push_back(mig);
  }
  std::sort(found_.begin(), found_.end(), [](const MigDevice& a, const MigDevice& b) {
    return a.key.id != b.key.id ? a.key.id < b.key.id : a.key.sub < b.key.sub;
  });
  for (size_t i = 0; i < found_.size(); ++i)
    found_[i].first = i == 0 || found_[i - 1].key.id != found_[i].key.id;
  bool changed = !Same(devices_, found_);
  devices_.swap(found_);
  return changed;
}

void MigReader::Identify(const MigDevice& mig, PartFacts& out) {
  const Symbols& fn = caller_.fn();
  out.clear();
  std::string uuid = Text(caller_, Call::kUuid, fn.Uuid, mig.device);
  std::string name = Text(caller_, Call::kName, fn.Name, mig.device);
  if (!uuid.empty()) out.emplace_back("uuid", uuid);
  if (!name.empty()) out.emplace_back("name", name);
  DeviceAttributes attributes{};
  bool known = caller_.Do(Call::kMigAttributes, fn.MigAttributes, mig.device, &attributes) == kSuccess;
  // The name of a MIG device ends with its profile: "NVIDIA H100 80GB HBM3 MIG 3g.40gb".
  constexpr std::string_view kBefore = " MIG ";
  size_t at = name.rfind(kBefore);
  std::string profile = at == std::string::npos ? "" : name.substr(at + kBefore.size());
  if (profile.empty() && known) {
    if (gpu_memory_ == 0) {
      Memory memory{};
      if (caller_.Do(Call::kMemoryInfo, fn.MemoryInfo, gpu_, &memory) == kSuccess) gpu_memory_ = memory.total;
    }
    profile = MigProfileName(attributes, gpu_memory_);
  }
  if (!profile.empty()) out.emplace_back("profile", profile);
  if (known && attributes.gpu_slices) out.emplace_back("slices", std::to_string(attributes.gpu_slices));
}

bool MigReader::Read(const MigDevice& mig, bool slow, std::vector<PartReading>& out) {
  auto emit = [&](PartField field, unsigned long long bytes) {
    out.push_back({.entity = index_,
                   .key = mig.key,
                   .field = static_cast<uint16_t>(field),
                   .status = ReadStatus::kOk,
                   .boot_ns = caller_.last_boot_ns(),
                   .value = static_cast<double>(bytes)});
  };
  const Symbols& fn = caller_.fn();
  MemoryV2 memory{.version = kMemoryV2, .total = 0, .reserved = 0, .free = 0, .used = 0};
  int code = caller_.Do(Call::kMemoryInfoV2, fn.MemoryInfoV2, mig.device, &memory);
  if (code == kSuccess) {
    emit(PartField::kMemoryTotal, memory.total);
    emit(PartField::kMemoryUsed, memory.used);
    emit(PartField::kMemoryFree, memory.free);
    emit(PartField::kMemoryReserved, memory.reserved);
  } else if (code == kFunctionNotFound) {
    Memory old{};
    code = caller_.Do(Call::kMemoryInfo, fn.MemoryInfo, mig.device, &old);
    if (code == kSuccess) {
      emit(PartField::kMemoryTotal, old.total);
      emit(PartField::kMemoryUsed, old.used);
      emit(PartField::kMemoryFree, old.free);
    }
  }
  if (slow && code == kSuccess) {
    Bar1Memory bar1{};
    if (caller_.Do(Call::kBar1Memory, fn.Bar1Memory, mig.device, &bar1) == kSuccess)
      emit(PartField::kBar1Used, bar1.used);
  }
  return code == kSuccess || ReadStatusOf(code) == ReadStatus::kError;
}

}  // namespace gpulens::nvml
