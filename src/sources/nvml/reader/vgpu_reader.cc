#include "sources/nvml/reader/vgpu_reader.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <string>

#include "sources/nvml/reader/read_status.h"

namespace gpulens::nvml {
namespace {

double NumberOf(const Value& value, unsigned type) noexcept {
  switch (type) {
    case kDouble: return value.double_value;
    case kUint: return value.uint_value;
    case kUlong: return static_cast<double>(value.ulong_value);
    case kUllong: return static_cast<double>(value.ull_value);
    case kSllong: return static_cast<double>(value.sll_value);
    case kSint: return value.int_value;
    default: return value.ushort_value;
  }
}

template <class Function, class... More>
void AddText(Caller& caller, PartFacts& out, const char* key, Call call, Function function, uint32_t vgpu,
             More... more) {
  std::array<char, 96> text{};
  if (caller.Do(call, function, vgpu, text.data(), static_cast<unsigned>(text.size()), more...) != kSuccess)
    return;
  size_t length = ::strnlen(text.data(), text.size());
  if (length) out.emplace_back(key, std::string(text.data(), length));
}

}  // namespace

void VgpuReader::Reset(Device gpu) {
  gpu_ = gpu;
  host_ = false;
  list_ = info_ = shares_ = {};
  vgpus_.clear();
}

bool VgpuReader::Scan() {
  if (list_.Rests(caller_.now())) return false;
  std::array<unsigned, kMaxParts> list{};
  auto count = static_cast<unsigned>(list.size());
  int code = caller_.Do(Call::kActiveVgpus, caller_.fn().ActiveVgpus, gpu_, &count, list.data());
  list_.Take(ReadStatusOf(code), caller_.now());
  if (code != kSuccess) return false;
  count = std::min<unsigned>(count, kMaxParts);
  std::sort(list.begin(), list.begin() + count);
  count = static_cast<unsigned>(std::unique(list.begin(), list.begin() + count) - list.begin());
  bool first = !std::exchange(host_, true);
  bool same = std::equal(vgpus_.begin(), vgpus_.end(), list.begin(), list.begin() + count,
                         [](const PartKey& key, unsigned id) { return key.id == id; });
  if (same) return first;
  vgpus_.clear();
  for (unsigned i = 0; i < count; ++i) vgpus_.push_back({.kind = PartKind::kVgpu, .id = list[i]});
  return true;
}

void VgpuReader::Identify(const PartKey& key, PartFacts& out) {
  const Symbols& fn = caller_.fn();
  out.clear();
  AddText(caller_, out, "uuid", Call::kVgpuUuid, fn.VgpuUuid, key.id);
  unsigned id_type = 0, type = 0;
  AddText(caller_, out, "vm", Call::kVgpuVm, fn.VgpuVm, key.id, &id_type);
  AddText(caller_, out, "driver", Call::kVgpuDriver, fn.VgpuDriver, key.id);
  if (caller_.Do(Call::kVgpuType, fn.VgpuType, key.id, &type) != kSuccess) return;
  std::array<char, 96> name{};
  auto size = static_cast<unsigned>(name.size());
  if (caller_.Do(Call::kVgpuTypeName, fn.VgpuTypeName, type, name.data(), &size) == kSuccess)
    out.emplace_back("type", std::string(name.data(), ::strnlen(name.data(), name.size())));
}

void VgpuReader::Emit(uint32_t vgpu, PartField field, double value, std::vector<PartReading>& out) {
  out.push_back({.entity = index_,
                 .key = {.kind = PartKind::kVgpu, .id = vgpu},
                 .field = static_cast<uint16_t>(field),
                 .status = ReadStatus::kOk,
                 .boot_ns = caller_.last_boot_ns(),
                 .value = value});
}

void VgpuReader::Read(int64_t unix_ns, bool slow, std::vector<PartReading>& out) {
  if (vgpus_.empty()) return;
  const Symbols& fn = caller_.fn();
  for (const PartKey& key : vgpus_) {
    unsigned long long bytes = 0;
    if (caller_.Do(Call::kVgpuMemory, fn.VgpuMemory, key.id, &bytes) == kSuccess)
      Emit(key.id, PartField::kVgpuMemoryUsed, static_cast<double>(bytes), out);
    VgpuLicenseInfo license{};
    if (slow && caller_.Do(Call::kVgpuLicense, fn.VgpuLicense, key.id, &license) == kSuccess)
      Emit(key.id, PartField::kVgpuLicensed, license.state == kLicenseStateLicensed, out);
  }
  constexpr uint64_t kWindowUs = 2'000'000;
  if (!info_.Rests(caller_.now()) || !shares_.Rests(caller_.now()))
    ReadShares(static_cast<uint64_t>(unix_ns) / 1000 - kWindowUs, out);
}

void VgpuReader::ReadShares(uint64_t since_us, std::vector<PartReading>& out) {
  infos_.resize(kMaxParts);
  VgpusUtilization request{.version = kVgpusUtilizationV1,
                           .value_type = 0,
                           .count = static_cast<unsigned>(infos_.size()),
                           .last_seen_us = since_us,
                           .list = infos_.data()};
  int code = kFunctionNotFound;
  const int64_t now = caller_.now();
  if (!info_.Rests(now)) {
    code = caller_.Do(Call::kVgpusUtilizationInfo, caller_.fn().VgpusUtilizationInfo, gpu_, &request);
    info_.Take(ReadStatusOf(code), now);
  }
  if (ReadStatusOf(code) == ReadStatus::kNotSupported) {
    if (!shares_.Rests(now)) shares_.Take(ReadStatusOf(ReadSharesV1(since_us, out)), now);
    return;
  }
  if (code != kSuccess) return;
  for (size_t i = 0; i < std::min<size_t>(request.count, infos_.size()); ++i) {
    const VgpuUtilizationInfo& info = infos_[i];
    const std::pair<PartField, const Value*> values[] = {
        {PartField::kVgpuSm, &info.sm},           {PartField::kVgpuMemory, &info.memory},
        {PartField::kVgpuEncoder, &info.encoder}, {PartField::kVgpuDecoder, &info.decoder},
        {PartField::kVgpuJpeg, &info.jpeg},       {PartField::kVgpuOfa, &info.ofa}};
    for (auto [field, value] : values) Emit(info.vgpu, field, NumberOf(*value, request.value_type), out);
  }
}

int VgpuReader::ReadSharesV1(uint64_t since_us, std::vector<PartReading>& out) {
  samples_.resize(kMaxParts);
  auto count = static_cast<unsigned>(samples_.size());
  unsigned type = 0;
  int code = caller_.Do(Call::kVgpuUtilization, caller_.fn().VgpuUtilization, gpu_, since_us, &type, &count,
                        samples_.data());
  if (code != kSuccess) return code;
  for (size_t i = 0; i < std::min<size_t>(count, samples_.size()); ++i) {
    const VgpuUtilizationSample& sample = samples_[i];
    Emit(sample.vgpu, PartField::kVgpuSm, NumberOf(sample.sm, type), out);
    Emit(sample.vgpu, PartField::kVgpuMemory, NumberOf(sample.memory, type), out);
    Emit(sample.vgpu, PartField::kVgpuEncoder, NumberOf(sample.encoder, type), out);
    Emit(sample.vgpu, PartField::kVgpuDecoder, NumberOf(sample.decoder, type), out);
  }
  return code;
}

}  // namespace gpulens::nvml
