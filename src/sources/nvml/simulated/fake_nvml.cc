// The functions of the simulated library that open it and identify its GPUs.
#include <algorithm>
#include <cstdio>
#include <string>

#include "sources/nvml/simulated/fake_call.h"
#include "sources/nvml/simulated/replay.h"

namespace gpulens::nvml {
namespace {

unsigned BusOf(const FakeView& view) noexcept { return 0x1A + 0x11 * view.gpu->board; }

template <class Format, class... Values>
std::string Text(Format format, Values... values) {
  char text[96];
  std::snprintf(text, sizeof text, format, values...);
  return text;
}

}  // namespace

FAKE_API int nvmlInit_v2() { return FakeWorld::Get().Open(); }
FAKE_API int nvmlInit() { return nvmlInit_v2(); }
FAKE_API int nvmlInitWithFlags(unsigned) { return nvmlInit_v2(); }
FAKE_API int nvmlShutdown() { return kSuccess; }
FAKE_API const char* nvmlErrorString(int code) { return ReturnText(code).data(); }

FAKE_API int nvmlSystemGetDriverVersion(char* out, unsigned size) {
  auto profile = FakeWorld::Get().profile();
  return profile ? CopyText(profile->driver_version, out, size) : int{kUninitialized};
}
FAKE_API int nvmlSystemGetNVMLVersion(char* out, unsigned size) {
  auto profile = FakeWorld::Get().profile();
  return profile ? CopyText(profile->library_version, out, size) : int{kUninitialized};
}
FAKE_API int nvmlSystemGetCudaDriverVersion_v2(int* out) {
  auto profile = FakeWorld::Get().profile();
  return profile ? Put(out, profile->cuda_version) : int{kUninitialized};
}
FAKE_API int nvmlDeviceGetCount_v2(unsigned* out) {
  FakeWorld& world = FakeWorld::Get();
  if (!world.open()) return kUninitialized;
  if (int code = world.Enter("nvmlDeviceGetCount_v2", -1); code != kSuccess) return code;
  return Put(out, world.Count());
}
FAKE_API int nvmlDeviceGetCount(unsigned* out) { return nvmlDeviceGetCount_v2(out); }
FAKE_API int nvmlDeviceGetHandleByIndex_v2(unsigned index, Device* out) {
  FakeWorld& world = FakeWorld::Get();
  if (!world.open()) return kUninitialized;
  int slot = world.SlotOf(index);
  if (!out || slot < 0) return kInvalidArgument;
  if (int code = world.Enter("nvmlDeviceGetHandleByIndex_v2", slot); code != kSuccess) return code;
  *out = reinterpret_cast<Device>(fake_handles + slot);
  return kSuccess;
}
FAKE_API int nvmlDeviceGetHandleByIndex(unsigned index, Device* out) {
  return nvmlDeviceGetHandleByIndex_v2(index, out);
}
FAKE_NUMBER(nvmlDeviceGetIndex, unsigned, true, view.shown_index)
FAKE_API int nvmlDeviceGetUUID(Device device, char* out, unsigned size) {
  return With(__func__, device, [&](const FakeView& view) {
    if (view.mig) {
      return CopyText(Text("MIG-51313000-%04x-4000-%04x-%06x%02x%04x", view.model->device_id >> 16,
                           view.mig->slices, view.gpu->board, view.mig->instance, view.mig->compute),
                      out, size);
    }
    return CopyText(FakeGpuUuid(*view.model, view.gpu->board), out, size);
  });
}
FAKE_API int nvmlDeviceGetName(Device device, char* out, unsigned size) {
  return With(__func__, device, [&](const FakeView& view) {
    std::string name(view.model->name);
    return CopyText(view.mig ? name + " MIG " + view.mig->profile : name, out, size);
  });
}
FAKE_API int nvmlDeviceGetSerial(Device device, char* out, unsigned size) {
  return With(__func__, device, [&](const FakeView& view) {
    return CopyText(Text("16528%08u", 24000 + view.gpu->board), out, size);
  });
}
FAKE_NUMBER(nvmlDeviceGetMinorNumber, unsigned, true, view.index)
FAKE_API int nvmlDeviceGetVbiosVersion(Device device, char* out, unsigned size) {
  return With(__func__, device, [&](const FakeView& view) { return CopyText(view.model->vbios, out, size); });
}
FAKE_API int nvmlDeviceGetInforomImageVersion(Device device, char* out, unsigned size) {
  return With(__func__, device,
              [&](const FakeView& view) { return CopyText(view.model->inforom, out, size); });
}
FAKE_API int nvmlDeviceGetPciInfo_v3(Device device, PciInfo* out) {
  return With(__func__, device, [&](const FakeView& view) -> int {
    if (!out) return kInvalidArgument;
    *out = PciInfo{};
    out->bus = BusOf(view);
    out->device_id = view.model->device_id;
    out->subsystem_id = view.model->subsystem_id;
    std::snprintf(out->bus_id_legacy, sizeof out->bus_id_legacy, "0000:%02X:00.0", out->bus & 0xFF);
    std::snprintf(out->bus_id, sizeof out->bus_id, "00000000:%02X:00.0", out->bus & 0xFF);
    return kSuccess;
  });
}
FAKE_API int nvmlDeviceGetPciInfo_v2(Device device, PciInfoV2* out) {
  return With(__func__, device, [&](const FakeView& view) -> int {
    if (!out) return kInvalidArgument;
    *out = PciInfoV2{};
    out->bus = BusOf(view);
    out->device_id = view.model->device_id;
    out->subsystem_id = view.model->subsystem_id;
    std::snprintf(out->bus_id, sizeof out->bus_id, "0000:%02X:00.0", out->bus & 0xFF);
    return kSuccess;
  });
}
FAKE_NUMBER(nvmlDeviceGetArchitecture, unsigned, true, view.model->architecture)
FAKE_API int nvmlDeviceGetCudaComputeCapability(Device device, int* major, int* minor) {
  return With(__func__, device, [&](const FakeView& view) {
    int code = Put(major, view.model->cc_major);
    return code == kSuccess ? Put(minor, view.model->cc_minor) : code;
  });
}
FAKE_NUMBER(nvmlDeviceGetMemoryBusWidth, unsigned, true, view.model->bus_width)
FAKE_API int nvmlDeviceGetAddressingMode(Device device, AddressingMode* out) {
  return With(__func__, device, [&](const FakeView& view) -> int {
    if (!out) return kInvalidArgument;
    if (out->version != kAddressingModeV1) return kArgumentVersionMismatch;
    out->value = view.model->coherent ? kAddressingAts : kAddressingNone;
    return kSuccess;
  });
}
FAKE_NUMBER(nvmlDeviceGetNumaNodeId, unsigned, view.profile->numa_node >= 0,
            view.profile->numa_node + static_cast<int>(view.index))
FAKE_NUMBER(nvmlDeviceGetNumFans, unsigned, true, view.gpu->fans)
FAKE_API int nvmlDeviceGetMigMode(Device device, unsigned* current, unsigned* pending) {
  return With(__func__, device, [&](const FakeView& view) -> int {
    if (!view.model->mig) return kNotSupported;
    int code = Put(current, view.gpu->mig);
    return code == kSuccess ? Put(pending, view.gpu->mig) : code;
  });
}
FAKE_API int nvmlDeviceGetEccMode(Device device, unsigned* current, unsigned* pending) {
  return With(__func__, device, [&](const FakeView& view) {
    if (view.model->consumer) return int{kNotSupported};
    int code = Put(current, view.gpu->ecc);
    return code == kSuccess ? Put(pending, view.gpu->ecc) : code;
  });
}
FAKE_NUMBER(nvmlDeviceGetPersistenceMode, unsigned, true, 1)

void* FakeNvmlLookup(const char* name) {
  auto profile = FakeWorld::Get().Load();
  if (profile &&
      std::find(profile->missing.begin(), profile->missing.end(), name) != profile->missing.end()) {
    return nullptr;
  }
  if (profile && profile->recording) return ReplayLookup(*profile, name);
  static const NamedFunction kFunctions[] = {
#define GPULENS_FAKE_FUNCTION(id, symbol, parameters) {#symbol, Pointer(&symbol)},
      GPULENS_NVML_CALLS(GPULENS_FAKE_FUNCTION)
#undef GPULENS_FAKE_FUNCTION
  };
  return FindFunction(kFunctions, name);
}

}  // namespace gpulens::nvml
