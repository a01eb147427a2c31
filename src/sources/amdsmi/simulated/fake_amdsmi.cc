// The functions of the simulated library that open it and identify its GPUs.
#include <algorithm>
#include <cstdio>
#include <cstring>

#include "sources/amdsmi/simulated/fake_call.h"
#include "sources/amdsmi/simulated/fake_structs.h"

namespace gpulens::amdsmi {
namespace {

uint64_t BdfOf(const FakeView& view) noexcept { return (0x0CULL + 0x16 * view.gpu) << 8 | view.partition; }

// A struct of the version that the profile shows, as the library would fill it in.
template <class Struct, class Body>
int Fill(void* out, Body body) {
  if (!out) return kInvalidArgument;
  Struct info;
  std::memset(&info, 0, sizeof info);
  body(info);
  std::memcpy(out, &info, sizeof info);
  return kSuccess;
}

template <class Info>
void FillAsic(const FakeView& view, Info& info) {
  CopyText(info.market_name, view.model->name);
  CopyText(info.vendor_name, "Advanced Micro Devices Inc. [AMD/ATI]");
  info.vendor_id = info.subvendor_id = 0x1002;
  info.device_id = view.model->device_id;
  char serial[20];
  std::snprintf(serial, sizeof serial, "0x%016llX", 0x51D0A1B2C3ULL + view.gpu);
  CopyText(info.asic_serial, serial);
  info.oam_id = view.gpu;
  unsigned target = view.model->target;
  bool early = view.profile->major == 24 && view.profile->minor < 7;
  info.num_of_compute_units = early ? 0 : view.model->compute_units / view.profile->partitions;
  // What different versions make of it: the kernel's number, or its digits as a hexadecimal number.
  unsigned hex = target / 10'000 << 8 | target / 100 % 100 << 4 | target % 100;
  info.target_graphics_version = early ? 0 : view.profile->major == 24 ? target : hex;
}

template <class Info>
void FillBoard(const FakeView& view, Info& info) {
  char serial[16];
  std::snprintf(serial, sizeof serial, "6924%06u", 17 + view.gpu);
  CopyText(info.model_number, "102-G30211-0C");
  CopyText(info.product_serial, serial);
  CopyText(info.product_name, view.model->name);
  CopyText(info.manufacturer_name, "AMD");
}

}  // namespace

FAKE_API int amdsmi_init(uint64_t flags) {
  return flags & kInitGpus ? FakeWorld::Get().Open() : int{kInvalidArgument};
}
FAKE_API int amdsmi_shut_down() { return kSuccess; }

FAKE_API int amdsmi_get_lib_version(void* out) {
  auto profile = FakeWorld::Get().profile();
  if (!profile || !out) return kNotInitialized;
  auto* words = static_cast<uint32_t*>(out);
  if (profile->major == 24) *words++ = 24;  // The year; its major is the next number.
  if (profile->major == 25) *words++ = 25;  // The year once more, and then a major that had been it.
  if (profile->major != 24) *words++ = profile->major;
  *words++ = profile->minor;
  *words++ = profile->release;
  return kSuccess;
}

FAKE_API int amdsmi_get_socket_handles(uint32_t* count, Handle* out) {
  FakeWorld& world = FakeWorld::Get();
  if (!world.open()) return kNotInitialized;
  if (int code = world.Enter(__func__, -1); code != kSuccess) return code;
  if (!count) return kInvalidArgument;
  auto gpus = static_cast<uint32_t>(world.profile()->gpus.size());
  for (uint32_t i = 0; out && i < std::min(*count, gpus); ++i) {
    out[i] = reinterpret_cast<Handle>(fake_sockets + i);
  }
  *count = out ? std::min(*count, gpus) : gpus;
  return kSuccess;
}

FAKE_API int amdsmi_get_processor_handles(Handle socket, uint32_t* count, Handle* out) {
  FakeWorld& world = FakeWorld::Get();
  if (!world.open()) return kNotInitialized;
  if (int code = world.Enter(__func__, -1); code != kSuccess) return code;
  int place = FakePlaceOf(socket, fake_sockets, kMaxFakeGpus);
  if (!count || place < 0) return kInvalidArgument;
  uint32_t partitions = world.profile()->partitions;
  for (uint32_t i = 0; out && i < std::min(*count, partitions); ++i) {
    out[i] = reinterpret_cast<Handle>(fake_processors + static_cast<unsigned>(place) * partitions + i);
  }
  *count = out ? std::min(*count, partitions) : partitions;
  return kSuccess;
}

FAKE_NUMBER(amdsmi_get_processor_type, uint32_t, true, kTypeGpu)
FAKE_NUMBER(amdsmi_get_gpu_device_bdf, uint64_t, true, BdfOf(view))
FAKE_API int amdsmi_get_gpu_device_uuid(Handle handle, uint32_t* size, char* out) {
  return With(__func__, handle, [&](const FakeView& view) -> int {
    if (!size || !out || *size < 38) return kInvalidArgument;
    std::snprintf(out, *size, "51ff%04x-0000-1000-80a1-%010x%02x", view.model->device_id, view.gpu,
                  view.partition);
    return kSuccess;
  });
}
FAKE_API int amdsmi_get_gpu_asic_info(Handle handle, void* out) {
  return With(__func__, handle, [&](const FakeView& view) {
    auto fill = [&](auto& info) { FillAsic(view, info); };
    return view.profile->major == 24 ? Fill<fake::AsicInfo24>(out, fill) : Fill<fake::AsicInfo25>(out, fill);
  });
}
FAKE_API int amdsmi_get_gpu_board_info(Handle handle, void* out) {
  return With(__func__, handle, [&](const FakeView& view) {
    auto fill = [&](auto& info) { FillBoard(view, info); };
    return view.profile->major == 24 ? Fill<fake::BoardInfo24>(out, fill)
                                     : Fill<fake::BoardInfo25>(out, fill);
  });
}
FAKE_API int amdsmi_get_gpu_vbios_info(Handle handle, void* out) {
  return With(__func__, handle, [&](const FakeView& view) {
    auto fill = [&](auto& info) { CopyText(info.version, view.model->vbios); };
    switch (view.profile->major) {
      case 24: return Fill<fake::VbiosInfo24>(out, fill);
      case 25: return Fill<fake::VbiosInfo25>(out, fill);
      default: return Fill<fake::VbiosInfo26>(out, fill);
    }
  });
}
FAKE_API int amdsmi_get_gpu_driver_info(Handle handle, void* out) {
  return With(__func__, handle, [&](const FakeView& view) -> int {
    if (!out) return kInvalidArgument;
    char text[64];
    CopyText(text, view.profile->driver_version);
    std::memcpy(out, text, sizeof text);
    return kSuccess;
  });
}
FAKE_API int amdsmi_get_gpu_kfd_info(Handle handle, void* out) {
  return With(__func__, handle, [&](const FakeView& view) -> int {
    if (view.profile->major == 24) return kNotSupported;
    return Fill<KfdInfo>(out, [&](KfdInfo& info) {
      info.kfd_id = 40'000 + view.gpu;
      info.node_id = 2 + view.gpu;
      info.partition_id = view.partition;
    });
  });
}
FAKE_NUMBER(amdsmi_get_gpu_topo_numa_affinity, int32_t, true, view.gpu / 4)

void* FakeAmdsmiLookup(const char* name) {
  auto profile = FakeWorld::Get().profile();
  bool missing =
      profile && std::find(profile->missing.begin(), profile->missing.end(), name) != profile->missing.end();
  if (missing) return nullptr;
#define GPULENS_FAKE_FUNCTION(id, symbol, parameters) \
  if (name == std::string_view(#symbol)) return reinterpret_cast<void*>(&symbol);
  GPULENS_AMDSMI_CALLS(GPULENS_FAKE_FUNCTION)
#undef GPULENS_FAKE_FUNCTION
  return nullptr;
}

}  // namespace gpulens::amdsmi
