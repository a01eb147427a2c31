// The functions of the simulated library that open it and identify its GPUs.
#include "sources/nvml/simulated/fake_nvml.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <string>

#include "sources/nvml/simulated/fake_call.h"
#include "sources/nvml/simulated/replay.h"

using namespace gpulens::nvml;

namespace {

int CopyText(std::string_view text, char* out, unsigned size) {
  if (!out) return kInvalidArgument;
  if (text.size() >= size) return kInsufficientSize;
  std::memcpy(out, text.data(), text.size());
  out[text.size()] = '\0';
  return kSuccess;
}

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
FAKE_API int nvmlDeviceGetIndex(Device device, unsigned* out) {
  return With(__func__, device, [&](const FakeView& view) { return Put(out, view.shown_index); });
}
FAKE_API int nvmlDeviceGetUUID(Device device, char* out, unsigned size) {
  return With(__func__, device, [&](const FakeView& view) {
    if (view.mig) {
      return CopyText(Text("MIG-51313000-%04x-4000-%04x-%06x%02x%04x", view.model->device_id >> 16,
                           view.mig->slices, view.gpu->board, view.mig->instance, view.mig->compute),
                      out, size);
    }
    std::string uuid =
        Text("GPU-51313000-%04x-4000-8000-%012x", view.model->device_id >> 16, view.gpu->board);
    return CopyText(uuid, out, size);
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
FAKE_API int nvmlDeviceGetMinorNumber(Device device, unsigned* out) {
  return With(__func__, device, [&](const FakeView& view) { return Put(out, view.index); });
}
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
FAKE_API int nvmlDeviceGetArchitecture(Device device, unsigned* out) {
  return With(__func__, device, [&](const FakeView& view) { return Put(out, view.model->architecture); });
}
FAKE_API int nvmlDeviceGetCudaComputeCapability(Device device, int* major, int* minor) {
  return With(__func__, device, [&](const FakeView& view) {
    int code = Put(major, view.model->cc_major);
    return code == kSuccess ? Put(minor, view.model->cc_minor) : code;
  });
}
FAKE_API int nvmlDeviceGetMemoryBusWidth(Device device, unsigned* out) {
  return With(__func__, device, [&](const FakeView& view) { return Put(out, view.model->bus_width); });
}
FAKE_API int nvmlDeviceGetAddressingMode(Device device, AddressingMode* out) {
  return With(__func__, device, [&](const FakeView& view) -> int {
    if (!out) return kInvalidArgument;
    if (out->version != kAddressingModeV1) return kArgumentVersionMismatch;
    out->value = view.model->coherent ? kAddressingAts : kAddressingNone;
    return kSuccess;
  });
}
FAKE_API int nvmlDeviceGetNumaNodeId(Device device, unsigned* out) {
  return With(__func__, device, [&](const FakeView& view) {
    return PutIf(view.profile->numa_node >= 0, out, view.profile->numa_node + static_cast<int>(view.index));
  });
}
FAKE_API int nvmlDeviceGetNumFans(Device device, unsigned* out) {
  return With(__func__, device, [&](const FakeView& view) { return Put(out, view.gpu->fans); });
}
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
FAKE_API int nvmlDeviceGetPersistenceMode(Device device, unsigned* out) {
  return With(__func__, device, [&](const FakeView&) { return Put(out, 1); });
}

namespace gpulens::nvml {

std::span<const FakeSymbol> FakeIdentitySymbols() noexcept {
  static const FakeSymbol kTable[] = {
      FAKE_SYMBOL(nvmlInit_v2),
      FAKE_SYMBOL(nvmlInit),
      FAKE_SYMBOL(nvmlInitWithFlags),
      FAKE_SYMBOL(nvmlShutdown),
      FAKE_SYMBOL(nvmlErrorString),
      FAKE_SYMBOL(nvmlSystemGetDriverVersion),
      FAKE_SYMBOL(nvmlSystemGetNVMLVersion),
      FAKE_SYMBOL(nvmlSystemGetCudaDriverVersion_v2),
      FAKE_SYMBOL(nvmlDeviceGetCount_v2),
      FAKE_SYMBOL(nvmlDeviceGetCount),
      FAKE_SYMBOL(nvmlDeviceGetHandleByIndex_v2),
      FAKE_SYMBOL(nvmlDeviceGetHandleByIndex),
      FAKE_SYMBOL(nvmlDeviceGetIndex),
      FAKE_SYMBOL(nvmlDeviceGetUUID),
      FAKE_SYMBOL(nvmlDeviceGetName),
      FAKE_SYMBOL(nvmlDeviceGetSerial),
      FAKE_SYMBOL(nvmlDeviceGetMinorNumber),
      FAKE_SYMBOL(nvmlDeviceGetVbiosVersion),
      FAKE_SYMBOL(nvmlDeviceGetInforomImageVersion),
      FAKE_SYMBOL(nvmlDeviceGetPciInfo_v3),
      FAKE_SYMBOL(nvmlDeviceGetPciInfo_v2),
      FAKE_SYMBOL(nvmlDeviceGetArchitecture),
      FAKE_SYMBOL(nvmlDeviceGetCudaComputeCapability),
      FAKE_SYMBOL(nvmlDeviceGetMemoryBusWidth),
      FAKE_SYMBOL(nvmlDeviceGetAddressingMode),
      FAKE_SYMBOL(nvmlDeviceGetNumaNodeId),
      FAKE_SYMBOL(nvmlDeviceGetNumFans),
      FAKE_SYMBOL(nvmlDeviceGetMigMode),
      FAKE_SYMBOL(nvmlDeviceGetEccMode),
      FAKE_SYMBOL(nvmlDeviceGetPersistenceMode),
  };
  return kTable;
}

void* FakeNvmlLookup(const char* name) {
  auto profile = FakeWorld::Get().Load();
  if (profile &&
      std::find(profile->missing.begin(), profile->missing.end(), name) != profile->missing.end()) {
    return nullptr;
  }
  if (profile && profile->recording) return ReplayLookup(*profile, name);
  for (std::span<const FakeSymbol> table :
       {FakeIdentitySymbols(), FakeStateSymbols(), FakeListSymbols(), FakeBoardSymbols(), FakeLinkSymbols(),
        FakeMigSymbols(), FakeGpmSymbols(), FakeEventSymbols(), FakeUseSymbols()}) {
    for (const FakeSymbol& symbol : table) {
      if (symbol.name == name) return symbol.function;
    }
  }
  return nullptr;
}

}  // namespace gpulens::nvml
