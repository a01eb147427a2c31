// The functions of the simulated library for MIG devices, vGPUs and what processes use.
#include <algorithm>
#include <utility>

#include "sources/nvml/simulated/fake_call.h"

namespace gpulens::nvml {
namespace {

// The calls a MIG device supports; all else is "not supported", as with the real library.
constexpr std::string_view kOfMigDevices[] = {
    "nvmlDeviceGetUUID",
    "nvmlDeviceGetName",
    "nvmlDeviceGetMinorNumber",
    "nvmlDeviceGetMemoryInfo",
    "nvmlDeviceGetMemoryInfo_v2",
    "nvmlDeviceGetBAR1MemoryInfo",
    "nvmlDeviceGetGpuInstanceId",
    "nvmlDeviceGetComputeInstanceId",
    "nvmlDeviceGetAttributes_v2",
    "nvmlDeviceGetComputeRunningProcesses",
    "nvmlDeviceGetComputeRunningProcesses_v2",
    "nvmlDeviceGetComputeRunningProcesses_v3",
    "nvmlDeviceGetGraphicsRunningProcesses",
    "nvmlDeviceGetGraphicsRunningProcesses_v2",
    "nvmlDeviceGetGraphicsRunningProcesses_v3",
};

const FakeMig* Find(const FakeView& view, unsigned slot) {
  for (const FakeMig& mig : view.profile->mig) {
    if (mig.slot == slot && mig.when.Holds(view.index, view.since_open)) return &mig;
  }
  return nullptr;
}

}  // namespace

int FakeNarrow(std::string_view call, unsigned slot, FakeView& view) {
  view.mig = view.gpu->mig ? Find(view, slot) : nullptr;
  if (!view.mig) return kNotFound;
  if (std::find(std::begin(kOfMigDevices), std::end(kOfMigDevices), call) == std::end(kOfMigDevices))
    return kNotSupported;
  const FakeMig& mig = *view.mig;
  // Memory belongs to the GPU instance, processes to the compute instance.
  uint64_t used = 0;
  for (const GpuProcess& process : view.processes) {
    if (process.gpu_instance == mig.instance) used += process.memory_used;
  }
  std::erase_if(view.processes, [&](const GpuProcess& process) {
    return process.gpu_instance != mig.instance || process.compute_instance != mig.compute;
  });
  view.total = std::min<uint64_t>(uint64_t{mig.gigabytes} << 30, view.total);
  view.reserved = uint64_t{64} << 20;
  view.used = std::min(used, view.total - view.reserved);
  view.free = view.total - view.reserved - view.used;
  return kSuccess;
}

FAKE_NUMBER(nvmlDeviceGetMaxMigDeviceCount, unsigned, view.model->mig, 7)
FAKE_API int nvmlDeviceGetMigDeviceHandleByIndex(Device device, unsigned index, Device* out) {
  return With(__func__, device, [&](const FakeView& view) -> int {
    if (!view.gpu->mig) return kNotSupported;
    if (!out || index >= kMaxFakeMig) return kInvalidArgument;
    if (!Find(view, index)) return kNotFound;
    *out = FakeMigHandle(view.index, index);
    return kSuccess;
  });
}
FAKE_NUMBER(nvmlDeviceGetGpuInstanceId, unsigned, view.mig != nullptr, view.mig ? view.mig->instance : 0)
FAKE_NUMBER(nvmlDeviceGetComputeInstanceId, unsigned, view.mig != nullptr, view.mig ? view.mig->compute : 0)
FAKE_API int nvmlDeviceGetAttributes_v2(Device device, DeviceAttributes* out) {
  return With(__func__, device, [&](const FakeView& view) -> int {
    if (!view.mig) return kNotSupported;
    if (!out) return kInvalidArgument;
    *out = DeviceAttributes{};
    out->multiprocessors = 16 * view.mig->compute_slices;
    out->copy_engines = out->decoders = out->jpeg_engines = view.mig->slices;
    out->gpu_slices = view.mig->slices;
    out->compute_slices = view.mig->compute_slices;
    out->memory_mib = view.total >> 20;
    return kSuccess;
  });
}

namespace {

uint64_t NowUs() { return static_cast<uint64_t>(RealClock().Now().unix_ns) / 1000; }

// What each process of the GPU has used; idle ones are left out, as the library does.
std::vector<ProcessUtilizationInfo> Shares(const FakeView& view) {
  std::vector<ProcessUtilizationInfo> out;
  auto busy = static_cast<unsigned>(view.busy_mean * 100 + 0.5);
  for (const FakeProcess& rule : view.profile->processes) {
    if (!rule.when.Holds(view.index, view.rule_seconds)) continue;
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

// Calls `body(vgpu)` when there is such a vGPU. The profile is held while it runs.
template <class Body>
int WithVgpu(const char* call, unsigned id, Body body) {
  FakeWorld& world = FakeWorld::Get();
  if (int code = world.Enter(call, -1); code != kSuccess) return code;
  auto profile = world.profile();
  if (!profile) return kNotFound;
  for (const FakeVgpu& vgpu : profile->vgpus) {
    if (vgpu.id == id && vgpu.when.Holds(vgpu.when.gpu, world.OpenFor())) return body(vgpu);
  }
  return kNotFound;
}

// Calls `body(place, vgpu)` for the vGPUs of a GPU that there is room for; `count` becomes their number.
template <class Body>
int ForVgpus(const FakeView& view, unsigned& count, Body body) {
  unsigned room = std::exchange(count, 0);
  for (const FakeVgpu& vgpu : view.profile->vgpus) {
    if (!vgpu.when.Holds(view.index, view.since_open)) continue;
    if (count < room) body(count, vgpu);
    ++count;
  }
  return count > room ? kInsufficientSize : kSuccess;
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
    if (view.profile->vgpus.empty()) return kNotSupported;
    if (!count) return kInvalidArgument;
    return ForVgpus(view, *count, [&](unsigned i, const FakeVgpu& vgpu) {
      if (out) out[i] = vgpu.id;
    });
  });
}
FAKE_API int nvmlVgpuInstanceGetUUID(unsigned id, char* out, unsigned size) {
  return WithVgpu(__func__, id, [&](const FakeVgpu& vgpu) {
    return CopyText("51313000-0000-4000-8000-" + std::to_string(1'000'000'000'000 + vgpu.id).substr(1), out,
                    size);
  });
}
FAKE_API int nvmlVgpuInstanceGetVmID(unsigned id, char* out, unsigned size, unsigned* type) {
  return WithVgpu(__func__, id, [&](const FakeVgpu& vgpu) {
    if (type) *type = 1;
    return CopyText(vgpu.vm, out, size);
  });
}
FAKE_API int nvmlVgpuInstanceGetVmDriverVersion(unsigned id, char* out, unsigned size) {
  return WithVgpu(__func__, id, [&](const FakeVgpu& vgpu) { return CopyText(vgpu.driver, out, size); });
}
FAKE_API int nvmlVgpuInstanceGetType(unsigned id, unsigned* out) {
  return WithVgpu(__func__, id, [&](const FakeVgpu& vgpu) { return Put(out, vgpu.id); });
}
FAKE_API int nvmlVgpuTypeGetName(unsigned type, char* out, unsigned* size) {
  return WithVgpu(__func__, type, [&](const FakeVgpu& vgpu) -> int {
    return size ? CopyText(vgpu.type, out, *size) : int{kInvalidArgument};
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
    if (view.profile->vgpus.empty()) return kNotSupported;
    if (!request || request->version != kVgpusUtilizationV1) return kArgumentVersionMismatch;
    request->value_type = kUint;
    return ForVgpus(view, request->count, [&](unsigned i, const FakeVgpu& vgpu) {
      request->list[i] = {NowUs(), vgpu.id, Uint(vgpu.sm), Uint(vgpu.memory),
                          Uint(0), Uint(0), Uint(0),       Uint(0)};
    });
  });
}
FAKE_API int nvmlDeviceGetVgpuUtilization(Device device, unsigned long long, unsigned* type, unsigned* count,
                                          VgpuUtilizationSample* out) {
  return With(__func__, device, [&](const FakeView& view) -> int {
    if (view.profile->vgpus.empty()) return kNotSupported;
    if (!type || !count || !out) return kInvalidArgument;
    *type = kUint;
    return ForVgpus(view, *count, [&](unsigned i, const FakeVgpu& vgpu) {
      out[i] = {vgpu.id, NowUs(), Uint(vgpu.sm), Uint(vgpu.memory), Uint(0), Uint(0)};
    });
  });
}

}  // namespace gpulens::nvml
