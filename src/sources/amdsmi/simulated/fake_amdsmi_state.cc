// The functions of the simulated library that report what a GPU is doing.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "sources/amdsmi/amdsmi_fields.h"
#include "sources/amdsmi/simulated/fake_call.h"
#include "sources/amdsmi/simulated/fake_structs.h"

namespace gpulens::amdsmi {
namespace {

int PutErrors(const FakeView& view, uint64_t blocks, void* out) {
  if (!out) return kInvalidArgument;
  ErrorCount count{};
  for (unsigned block = 0; block < std::size(kEccBlocks); ++block) {
    if (!(blocks >> block & 1)) continue;
    count.correctable += view.Errors(block, FakeErrors::Type::kCorrectable);
    count.uncorrectable += view.Errors(block, FakeErrors::Type::kUncorrectable);
    count.deferred += view.Errors(block, FakeErrors::Type::kDeferred);
  }
  std::memcpy(out, &count, sizeof count);
  return kSuccess;
}

int PutText(const std::string& text, char* out, uint32_t size) {
  if (!out || size <= text.size()) return out ? kInsufficientSize : kInvalidArgument;
  std::memcpy(out, text.c_str(), text.size() + 1);
  return kSuccess;
}

// As in the library, count 0 queries the number; a list that does not fit is truncated, with a status.
template <class Info>
int PutProcesses(const FakeView& view, uint32_t* count, void* out) {
  auto all = static_cast<uint32_t>(view.processes.size());
  uint32_t room = *count;
  *count = all;
  if (room == 0 || !out) return kSuccess;
  for (uint32_t i = 0; i < std::min(room, all); ++i) {
    const FakeProcess& process = view.processes[i];
    Info info;
    std::memset(&info, 0, sizeof info);
    CopyText(info.name, process.name);
    info.pid = process.pid;
    info.mem = static_cast<uint64_t>(process.bytes + process.host_bytes);
    info.memory.vram = static_cast<uint64_t>(process.bytes);
    info.memory.gtt = static_cast<uint64_t>(process.host_bytes);
    info.engines.gfx = static_cast<uint64_t>(view.since_open * 0.5e9);
    info.cu_occupancy = view.profile->major >= 26 ? process.compute_units : 0;
    std::memcpy(static_cast<char*>(out) + i * sizeof info, &info, sizeof info);
  }
  return room < all ? int{kOutOfResources} : int{kSuccess};
}

unsigned Percent(double share) noexcept { return static_cast<unsigned>(share * 100 + 0.5); }

template <class Info>
int PutPower(const FakeView& view, void* out) {
  if (!out) return kInvalidArgument;
  Info info;
  std::memset(&info, 0xFF, sizeof info);
  info.current_socket_power = view.model->current_power ? view.power_w : 0xFFFF;
  info.average_socket_power = view.model->current_power ? 0xFFFF : view.power_w;
  info.power_limit = view.model->cap_w;
  std::memcpy(out, &info, sizeof info);
  return kSuccess;
}

struct Clocks {
  unsigned now, max;
};
bool ClockOf(const FakeView& view, uint32_t type, Clocks& out) {
  const FakeModel& model = *view.model;
  switch (type) {
    case kClkGfx: out = {view.clock, model.max_clock}; return true;
    case kClkMemory: out = {model.memory_clock, model.memory_clock}; return true;
    case kClkSoc: out = {model.soc_clock, model.soc_clock}; return true;
    case kClkFabric: out = {model.fabric_clock, model.fabric_clock}; return true;
    case kClkVclk0:
    case kClkDclk0: out = {29, 1333}; return model.vcn > 0;
    default: return false;
  }
}

uint64_t ThrottleBits(const FakeView& view) {
  using Cause = FakeThrottle::Cause;
  constexpr std::pair<Cause, unsigned> kBits[] = {{Cause::kPower, 0},
                                                  {Cause::kSocket, 36},
                                                  {Cause::kProchot, 47},
                                                  {Cause::kMemory, 34},
                                                  {Cause::kVr, 38}};
  uint64_t mask = 0;
  for (auto [cause, bit] : kBits) mask |= uint64_t{view.Throttles(cause)} << bit;
  return mask;
}

void FillMetrics(const FakeView& view, GpuMetrics& out) {
  using Cause = FakeThrottle::Cause;
  const FakeModel& model = *view.model;
  out.format = 1;
  out.content = model.residency ? 7 : 3;
  out.temperature_hotspot = static_cast<uint16_t>(view.temperature);
  if (!model.residency) out.temperature_vr_gfx = static_cast<uint16_t>(view.temperature - 6);
  for (unsigned i = 0; i < model.stacks; ++i) {
    out.temperature_stack[i] = static_cast<uint16_t>(view.temperature - 8 + i);
  }
  if (!model.residency) {
    out.throttle_mask = ThrottleBits(view);
    out.voltage_gfx = static_cast<uint16_t>(750 + 100 * view.busy);
  }
  if (model.vcn > 0) {
    for (uint16_t& activity : out.vcn_activity) activity = 0;
    for (unsigned i = 0; i < model.jpeg; ++i) out.jpeg_activity[i] = 0;
    out.vcn_activity[0] = static_cast<uint16_t>(Percent(view.busy / 10));
  }
  if (model.links > 0) {
    out.xgmi_width = 16;
    for (unsigned i = 0; i < 8; ++i) {
      bool used = i < model.links && i != view.profile->link_down;
      out.xgmi_read[i] = used ? static_cast<uint64_t>(view.link_kib * 0.98) : 0;
      out.xgmi_write[i] = used ? static_cast<uint64_t>(view.link_kib) : 0;
    }
  }
  if (model.residency) {
    auto cycles = [&](double seconds) { return static_cast<uint64_t>(seconds * 1000); };
    out.residency_cycles = cycles(view.since_open);
    out.residency_power = cycles(view.Throttled(Cause::kPower));
    out.residency_socket = cycles(view.Throttled(Cause::kSocket));
    out.residency_prochot = cycles(view.Throttled(Cause::kProchot));
    out.residency_memory = cycles(view.Throttled(Cause::kMemory));
    out.residency_vr = cycles(view.Throttled(Cause::kVr));
  }
}

}  // namespace

FAKE_API int amdsmi_get_gpu_activity(Handle handle, void* out) {
  return With(__func__, handle, [&](const FakeView& view) -> int {
    if (!out) return kInvalidArgument;
    bool media = view.model->vcn > 0;
    EngineUsage usage{.gfx = Percent(view.busy),
                      .memory = Percent(view.busy * 0.5),
                      .multimedia = media ? Percent(view.busy / 10) : 0xFFFF,
                      .reserved = {}};
    std::memcpy(out, &usage, sizeof usage);
    return kSuccess;
  });
}
FAKE_API int amdsmi_get_gpu_memory_total(Handle handle, uint32_t type, uint64_t* out) {
  return With(__func__, handle, [&](const FakeView& view) -> int {
    if (type > kGtt) return kInvalidArgument;
    uint64_t bytes = type == kVram ? view.total : type == kGtt ? 1ULL << 39 : view.model->visible_mib << 20;
    return Put(out, bytes);
  });
}
FAKE_API int amdsmi_get_gpu_memory_usage(Handle handle, uint32_t type, uint64_t* out) {
  return With(__func__, handle, [&](const FakeView& view) -> int {
    if (type > kGtt) return kInvalidArgument;
    uint64_t visible = std::min<uint64_t>(view.used, view.model->visible_mib << 20);
    return Put(out, type == kVram ? view.used : type == kGtt ? 14ULL << 20 : visible);
  });
}
FAKE_API int amdsmi_get_power_info(Handle handle, void* out) {
  return With(__func__, handle, [&](const FakeView& view) -> int {
    if (!IsBoard(view)) return kNotSupported;
    switch (view.profile->major) {
      case 24: return PutPower<fake::PowerInfo24>(view, out);
      case 25: return PutPower<fake::PowerInfo25>(view, out);
      default: return PutPower<fake::PowerInfo26>(view, out);
    }
  });
}
FAKE_API int amdsmi_get_power_cap_info(Handle handle, uint32_t sensor, void* out) {
  return With(__func__, handle, [&](const FakeView& view) -> int {
    if (!IsBoard(view)) return kNotSupported;
    if (!out || sensor != 0) return kInvalidArgument;
    uint64_t unit = view.profile->watts ? 1 : 1'000'000;
    PowerCapInfo info{.cap = view.model->cap_w * unit,
                      .default_cap = view.model->cap_w * unit,
                      .dpm_cap = view.model->max_clock,
                      .min_cap = view.model->min_cap_w * unit,
                      .max_cap = view.model->cap_w * unit,
                      .reserved = {}};
    std::memcpy(out, &info, sizeof info);
    return kSuccess;
  });
}
FAKE_API int amdsmi_get_energy_count(Handle handle, uint64_t* count, float* resolution, uint64_t* timestamp) {
  return With(__func__, handle, [&](const FakeView& view) -> int {
    if (!IsBoard(view)) return kNotSupported;
    if (!resolution || !timestamp) return kInvalidArgument;
    *resolution = static_cast<float>(view.profile->resolution);
    *timestamp = static_cast<uint64_t>(view.seconds * 1e9);
    double unit = view.profile->resolution > 0 ? view.profile->resolution : 1;
    return Put(count, view.joules * 1e6 / unit);
  });
}
FAKE_API int amdsmi_get_temp_metric(Handle handle, uint32_t type, uint32_t metric, int64_t* out) {
  return With(__func__, handle, [&](const FakeView& view) -> int {
    if (!IsBoard(view)) return kNotSupported;
    if (type > kTempVram) return kNotSupported;
    if (type == kTempEdge && !view.model->edge) return kNotSupported;
    int64_t limit = type == kTempEdge ? 100 : type == kTempHotspot ? 110 : 108;
    int64_t below = type == kTempEdge ? 10 : type == kTempHotspot ? 0 : 5;
    int64_t value = 0;
    switch (metric) {
      case kTempCurrent: value = static_cast<int64_t>(view.temperature) - below; break;
      case kTempCritical: value = limit; break;
      case kTempEmergency: value = limit + 5; break;
      default: return kNotSupported;
    }
    return Put(out, view.profile->millidegrees ? value * 1000 : value);
  });
}
FAKE_API int amdsmi_get_clock_info(Handle handle, uint32_t type, void* out) {
  return With(__func__, handle, [&](const FakeView& view) -> int {
    Clocks clocks{};
    if (!out) return kInvalidArgument;
    if (!ClockOf(view, type, clocks)) return kNotSupported;
    ClockInfo info{};
    info.current = clocks.now;
    info.min = view.model->idle_clock;
    info.max = clocks.max;
    std::memcpy(out, &info, sizeof info);
    return kSuccess;
  });
}
FAKE_API int amdsmi_get_gpu_metrics_info(Handle handle, void* out) {
  return With(__func__, handle, [&](const FakeView& view) -> int {
    if (!IsBoard(view)) return kNotSupported;
    if (!out) return kInvalidArgument;
    GpuMetrics metrics;
    std::memset(&metrics, 0xFF, sizeof metrics);
    FillMetrics(view, metrics);
    // Older versions end before the residencies.
    size_t size = view.profile->major == 24 ? offsetof(GpuMetrics, residency_cycles) : sizeof metrics;
    std::memcpy(out, &metrics, size);
    return kSuccess;
  });
}
FAKE_API int amdsmi_get_pcie_info(Handle handle, void* out) {
  return With(__func__, handle, [&](const FakeView& view) -> int {
    if (!IsBoard(view)) return kNotSupported;
    if (!out) return kInvalidArgument;
    constexpr uint32_t kSpeeds[] = {0, 2500, 5000, 8000, 16000, 32000, 64000};
    PcieInfo info{};
    info.fixed.max_width = static_cast<uint16_t>(view.model->pcie_width);
    info.fixed.max_speed = kSpeeds[view.model->pcie_generation] / 1000;
    info.metric.width = static_cast<uint16_t>(view.model->pcie_width);
    info.metric.speed = kSpeeds[view.model->pcie_generation];
    info.metric.replay = 0;
    info.metric.nak_sent = info.metric.nak_received = view.model->residency ? 0 : ~uint64_t{0};
    std::memcpy(out, &info, sizeof info);
    return kSuccess;
  });
}
FAKE_API int amdsmi_get_gpu_xgmi_link_status(Handle handle, void* out) {
  return With(__func__, handle, [&](const FakeView& view) -> int {
    if (view.model->links == 0 || !IsBoard(view) || view.profile->major == 24) return kNotSupported;
    if (!out) return kInvalidArgument;
    XgmiLinkStatus links{};
    links.total = 8;
    for (unsigned i = 0; i < 8; ++i) {
      links.status[i] = i >= view.model->links ? 2 : i == view.profile->link_down ? 0 : 1;
    }
    std::memcpy(out, &links, sizeof links);
    return kSuccess;
  });
}
FAKE_API int amdsmi_get_gpu_fan_speed(Handle handle, uint32_t, int64_t* out) {
  return With(__func__, handle, [&](const FakeView& view) {
    return PutIf(view.model->fan, out, std::lround(51 + 102 * view.busy));
  });
}
FAKE_API int amdsmi_get_gpu_fan_speed_max(Handle handle, uint32_t, uint64_t* out) {
  return With(__func__, handle, [&](const FakeView& view) { return PutIf(view.model->fan, out, 255); });
}
FAKE_API int amdsmi_get_gpu_fan_rpms(Handle handle, uint32_t, int64_t* out) {
  return With(__func__, handle, [&](const FakeView& view) {
    return PutIf(view.model->fan, out, std::lround(600 + 1400 * view.busy));
  });
}

FAKE_NUMBER(amdsmi_get_gpu_ecc_enabled, uint64_t, view.model->ecc_blocks != 0 && IsBoard(view),
            view.model->ecc_blocks)
FAKE_API int amdsmi_get_gpu_ecc_count(Handle handle, uint64_t block, void* out) {
  return With(__func__, handle, [&](const FakeView& view) -> int {
    if (std::popcount(block) != 1) return kInvalidArgument;
    if (!(view.model->ecc_blocks & block)) return kNotSupported;
    return PutErrors(view, block, out);
  });
}
FAKE_API int amdsmi_get_gpu_total_ecc_count(Handle handle, void* out) {
  return With(__func__, handle, [&](const FakeView& view) -> int {
    if (view.model->ecc_blocks == 0 || !IsBoard(view)) return kNotSupported;
    return PutErrors(view, view.model->ecc_blocks, out);
  });
}
FAKE_API int amdsmi_get_gpu_bad_page_info(Handle handle, uint32_t* count, void* out) {
  return With(__func__, handle, [&](const FakeView& view) -> int {
    if (view.model->ecc_blocks == 0 || !IsBoard(view)) return kNotSupported;
    if (!count) return kInvalidArgument;
    uint32_t room = *count, all = 0;
    for (const FakePages& rule : view.profile->pages) {
      if (!rule.when.Holds(view.gpu, view.since_open)) continue;
      for (unsigned i = 0; i < rule.amount; ++i, ++all) {
        if (!out || all >= room) continue;
        RetiredPage page{.address = 0x7F000ULL + all, .size = 4096, .status = rule.pending ? 1U : 0U};
        std::memcpy(static_cast<char*>(out) + all * sizeof page, &page, sizeof page);
      }
    }
    *count = all;
    return kSuccess;
  });
}
FAKE_API int amdsmi_get_gpu_compute_partition(Handle handle, char* out, uint32_t size) {
  return With(__func__, handle, [&](const FakeView& view) -> int {
    if (!view.model->partitions) return kNotSupported;
    return PutText(view.profile->compute_partition, out, size);
  });
}
FAKE_API int amdsmi_get_gpu_memory_partition(Handle handle, char* out, uint32_t size) {
  return With(__func__, handle, [&](const FakeView& view) -> int {
    if (!view.model->partitions) return kNotSupported;
    return PutText(view.profile->memory_partition, out, size);
  });
}
FAKE_NUMBER(amdsmi_get_gpu_perf_level, uint32_t, IsBoard(view), 0)
FAKE_API int amdsmi_get_gpu_process_list(Handle handle, uint32_t* count, void* out) {
  return With(__func__, handle, [&](const FakeView& view) -> int {
    if (!count) return kInvalidArgument;
    return view.profile->major == 24 ? PutProcesses<fake::ProcessInfo24>(view, count, out)
                                     : PutProcesses<fake::ProcessInfo25>(view, count, out);
  });
}

}  // namespace gpulens::amdsmi
