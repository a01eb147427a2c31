// The functions of the simulated library that report who uses how much: processes and vGPUs.
#include <algorithm>
#include <cstring>

#include "sources/nvml/reader/nvml_abi.h"
#include "sources/nvml/simulated/fake_call.h"

using namespace gpulens::nvml;

namespace {

uint64_t NowUs() { return static_cast<uint64_t>(gpulens::RealClock().Now().unix_ns) / 1000; }

// What each process of the GPU has used; idle ones are left out, as the library does.
std::vector<ProcessUtilizationInfo> Shares(const FakeView& view) {
  std::vector<ProcessUtilizationInfo> out;
  auto busy = static_cast<unsigned>(view.busy_mean * 100 + 0.5);
  for (const FakeProcess& rule : view.profile->processes) {
    if (!rule.when.Holds(static_cast<int>(view.index), view.since_open)) continue;
    ProcessUtilizationInfo info{};
    info.timestamp_us = NowUs();
    info.pid = rule.when.gpu < 0 ? rule.pid + view.index : rule.pid;
    info.sm = rule.sm == kNoFakeInstance ? busy : rule.sm;
    info.memory = rule.memory_use == kNoFakeInstance ? static_cast<unsigned>(busy * 0.6) : rule.memory_use;
    info.encoder = rule.encoder;
    info.decoder = rule.decoder;
    if (info.sm || info.memory || info.encoder || info.decoder) out.push_back(info);
  }
  return out;
}

const FakeVgpu* FindVgpu(unsigned id) {
  auto profile = FakeWorld::Get().profile();
  if (!profile) return nullptr;
  for (const FakeVgpu& vgpu : profile->parts.vgpus) {
    if (vgpu.id == id && vgpu.when.Holds(vgpu.when.gpu, FakeWorld::Get().OpenFor())) return &vgpu;
  }
  return nullptr;
}

int CopyName(std::string_view text, char* out, unsigned size) {
  if (!out) return kInvalidArgument;
  if (text.size() >= size) return kInsufficientSize;
  std::memcpy(out, text.data(), text.size());
  out[text.size()] = '\0';
  return kSuccess;
}

// `body(vgpu)` when there is such a vGPU. The profile is held while it runs.
template <class Body>
int WithVgpu(const char* call, unsigned id, Body body) {
  if (int code = FakeWorld::Get().Enter(call, -1); code != kSuccess) return code;
  auto profile = FakeWorld::Get().profile();
  const FakeVgpu* vgpu = FindVgpu(id);
  return vgpu ? body(*vgpu) : int{kNotFound};
}

Value Uint(unsigned number) {
  Value value{};
  value.uint_value = number;
  return value;
}

}  // namespace

FAKE_API int nvmlDeviceGetProcessesUtilizationInfo(Device device, ProcessesUtilization* request) {
  return With(__func__, device, [&](const FakeView& view) -> int {
    if (view.gpu->mig) return kNotSupported;
    if (!request || request->version != kProcessesUtilizationV1) return kArgumentVersionMismatch;
    std::vector<ProcessUtilizationInfo> shares = Shares(view);
    unsigned room = request->count;
    request->count = static_cast<unsigned>(shares.size());
    if (shares.empty()) return kNotFound;
    if (!request->list || shares.size() > room) return kInsufficientSize;
    std::copy(shares.begin(), shares.end(), request->list);
    return kSuccess;
  });
}
FAKE_API int nvmlDeviceGetProcessUtilization(Device device, ProcessUtilizationSample* out, unsigned* count,
                                             unsigned long long) {
  return With(__func__, device, [&](const FakeView& view) -> int {
    if (view.gpu->mig) return kNotSupported;
    if (!count) return kInvalidArgument;
    std::vector<ProcessUtilizationInfo> shares = Shares(view);
    unsigned room = *count;
    *count = static_cast<unsigned>(shares.size());
    if (shares.empty()) return kNotFound;
    if (!out || shares.size() > room) return kInsufficientSize;
    for (size_t i = 0; i < shares.size(); ++i) {
      const ProcessUtilizationInfo& from = shares[i];
      out[i] = {from.pid, from.timestamp_us, from.sm, from.memory, from.encoder, from.decoder};
    }
    return kSuccess;
  });
}
FAKE_API int nvmlDeviceGetActiveVgpus(Device device, unsigned* count, unsigned* out) {
  return With(__func__, device, [&](const FakeView& view) -> int {
    if (view.profile->parts.vgpus.empty()) return kNotSupported;
    if (!count) return kInvalidArgument;
    unsigned room = *count, found = 0;
    for (const FakeVgpu& vgpu : view.profile->parts.vgpus) {
      if (!vgpu.when.Holds(static_cast<int>(view.index), view.since_open)) continue;
      if (out && found < room) out[found] = vgpu.id;
      ++found;
    }
    *count = found;
    return found > room ? kInsufficientSize : kSuccess;
  });
}
FAKE_API int nvmlVgpuInstanceGetUUID(unsigned id, char* out, unsigned size) {
  return WithVgpu(__func__, id, [&](const FakeVgpu& vgpu) {
    return CopyName("51313000-0000-4000-8000-" + std::to_string(1'000'000'000'000 + vgpu.id).substr(1), out,
                    size);
  });
}
FAKE_API int nvmlVgpuInstanceGetVmID(unsigned id, char* out, unsigned size, unsigned* type) {
  return WithVgpu(__func__, id, [&](const FakeVgpu& vgpu) {
    if (type) *type = 1;
    return CopyName(vgpu.vm, out, size);
  });
}
FAKE_API int nvmlVgpuInstanceGetVmDriverVersion(unsigned id, char* out, unsigned size) {
  return WithVgpu(__func__, id, [&](const FakeVgpu& vgpu) { return CopyName(vgpu.driver, out, size); });
}
FAKE_API int nvmlVgpuInstanceGetType(unsigned id, unsigned* out) {
  return WithVgpu(__func__, id, [&](const FakeVgpu& vgpu) { return Put(out, vgpu.id); });
}
FAKE_API int nvmlVgpuTypeGetName(unsigned type, char* out, unsigned* size) {
  return WithVgpu(__func__, type, [&](const FakeVgpu& vgpu) -> int {
    return size ? CopyName(vgpu.type, out, *size) : int{kInvalidArgument};
  });
}
FAKE_API int nvmlVgpuInstanceGetFbUsage(unsigned id, unsigned long long* out) {
  return WithVgpu(__func__, id, [&](const FakeVgpu& vgpu) { return Put(out, vgpu.bytes); });
}
FAKE_API int nvmlVgpuInstanceGetLicenseInfo_v2(unsigned id, VgpuLicenseInfo* out) {
  return WithVgpu(__func__, id, [&](const FakeVgpu& vgpu) -> int {
    if (!out) return kInvalidArgument;
    *out = VgpuLicenseInfo{};
    out->licensed = vgpu.licensed;
    out->state = vgpu.licensed ? kLicenseStateLicensed : kLicenseStateLicensed - 1;
    return kSuccess;
  });
}
FAKE_API int nvmlDeviceGetVgpuInstancesUtilizationInfo(Device device, VgpusUtilization* request) {
  return With(__func__, device, [&](const FakeView& view) -> int {
    if (view.profile->parts.vgpus.empty()) return kNotSupported;
    if (!request || request->version != kVgpusUtilizationV1) return kArgumentVersionMismatch;
    request->value_type = kUint;
    unsigned room = request->count, found = 0;
    for (const FakeVgpu& vgpu : view.profile->parts.vgpus) {
      if (!vgpu.when.Holds(static_cast<int>(view.index), view.since_open)) continue;
      if (found < room) {
        request->list[found] = {NowUs(), vgpu.id, Uint(vgpu.sm), Uint(vgpu.memory),
                                Uint(0), Uint(0), Uint(0),       Uint(0)};
      }
      ++found;
    }
    request->count = found;
    return found > room ? kInsufficientSize : kSuccess;
  });
}
FAKE_API int nvmlDeviceGetVgpuUtilization(Device device, unsigned long long, unsigned* type, unsigned* count,
                                          VgpuUtilizationSample* out) {
  return With(__func__, device, [&](const FakeView& view) -> int {
    if (view.profile->parts.vgpus.empty()) return kNotSupported;
    if (!type || !count || !out) return kInvalidArgument;
    *type = kUint;
    unsigned room = *count, found = 0;
    for (const FakeVgpu& vgpu : view.profile->parts.vgpus) {
      if (!vgpu.when.Holds(static_cast<int>(view.index), view.since_open)) continue;
      if (found < room) out[found] = {vgpu.id, NowUs(), Uint(vgpu.sm), Uint(vgpu.memory), Uint(0), Uint(0)};
      ++found;
    }
    *count = found;
    return found > room ? kInsufficientSize : kSuccess;
  });
}

namespace gpulens::nvml {

std::span<const FakeSymbol> FakeUseSymbols() noexcept {
  static const FakeSymbol kTable[] = {
      FAKE_SYMBOL(nvmlDeviceGetProcessesUtilizationInfo),
      FAKE_SYMBOL(nvmlDeviceGetProcessUtilization),
      FAKE_SYMBOL(nvmlDeviceGetActiveVgpus),
      FAKE_SYMBOL(nvmlVgpuInstanceGetUUID),
      FAKE_SYMBOL(nvmlVgpuInstanceGetVmID),
      FAKE_SYMBOL(nvmlVgpuInstanceGetVmDriverVersion),
      FAKE_SYMBOL(nvmlVgpuInstanceGetType),
      FAKE_SYMBOL(nvmlVgpuTypeGetName),
      FAKE_SYMBOL(nvmlVgpuInstanceGetFbUsage),
      FAKE_SYMBOL(nvmlVgpuInstanceGetLicenseInfo_v2),
      FAKE_SYMBOL(nvmlDeviceGetVgpuInstancesUtilizationInfo),
      FAKE_SYMBOL(nvmlDeviceGetVgpuUtilization),
  };
  return kTable;
}

}  // namespace gpulens::nvml
