// The functions of the simulated library for MIG devices.
#include <algorithm>

#include "sources/nvml/reader/nvml_abi.h"
#include "sources/nvml/simulated/fake_call.h"

using namespace gpulens::nvml;

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
  for (const FakeMig& mig : view.profile->parts.mig) {
    if (mig.slot == slot && mig.when.Holds(static_cast<int>(view.index), view.since_open)) return &mig;
  }
  return nullptr;
}

}  // namespace

namespace gpulens::nvml {

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

}  // namespace gpulens::nvml

FAKE_API int nvmlDeviceGetMaxMigDeviceCount(Device device, unsigned* out) {
  return With(__func__, device, [&](const FakeView& view) { return PutIf(view.model->mig, out, 7); });
}
FAKE_API int nvmlDeviceGetMigDeviceHandleByIndex(Device device, unsigned index, Device* out) {
  return With(__func__, device, [&](const FakeView& view) -> int {
    if (!view.gpu->mig) return kNotSupported;
    if (!out || index >= kMaxFakeMig) return kInvalidArgument;
    if (!Find(view, index)) return kNotFound;
    *out = FakeMigHandle(view.index, index);
    return kSuccess;
  });
}
FAKE_API int nvmlDeviceGetGpuInstanceId(Device device, unsigned* out) {
  return With(__func__, device, [&](const FakeView& view) {
    return PutIf(view.mig != nullptr, out, view.mig ? view.mig->instance : 0);
  });
}
FAKE_API int nvmlDeviceGetComputeInstanceId(Device device, unsigned* out) {
  return With(__func__, device, [&](const FakeView& view) {
    return PutIf(view.mig != nullptr, out, view.mig ? view.mig->compute : 0);
  });
}
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

namespace gpulens::nvml {

std::span<const FakeSymbol> FakeMigSymbols() noexcept {
  static const FakeSymbol kTable[] = {
      FAKE_SYMBOL(nvmlDeviceGetMaxMigDeviceCount), FAKE_SYMBOL(nvmlDeviceGetMigDeviceHandleByIndex),
      FAKE_SYMBOL(nvmlDeviceGetGpuInstanceId),     FAKE_SYMBOL(nvmlDeviceGetComputeInstanceId),
      FAKE_SYMBOL(nvmlDeviceGetAttributes_v2),
  };
  return kTable;
}

}  // namespace gpulens::nvml
