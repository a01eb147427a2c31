// Functions of the simulated library for a board's less common readings. Each generation lacks what the
// real one lacks.
#include <algorithm>
#include <cstdio>
#include <cstring>

#include "sources/nvml/simulated/fake_call.h"

namespace gpulens::nvml {
namespace {

using C = FakeFault::Counter;

uint64_t SupportedReasons(const FakeView& view) noexcept { return view.model->consumer ? 0x1EF : 0x1FF; }

// Which memories a generation counts errors of.
bool CountsErrors(const FakeModel& model, unsigned place, unsigned type) noexcept {
  constexpr unsigned kDram = 2, kCbu = 6, kSram = 7;
  if (model.architecture == kVolta) return place <= 3 || (place == kCbu && type == kUncorrectedError);
  return place == kDram || place == kSram;
}

int FabricState(const FakeView& view) noexcept {
  if (view.model->architecture < kHopper || view.model->links == 0) return 0;
  return view.Faults(C::kFabricPending) > 0 ? 2 : 3;
}

}  // namespace

FAKE_API int nvmlDeviceGetTemperatureThreshold(Device device, unsigned type, unsigned* out) {
  return With(__func__, device, [&](const FakeView& view) -> int {
    if (view.model->architecture >= kHopper) return kNotSupported;  // Margins instead.
    bool hbm = view.model->bus_width >= 1024;
    switch (type) {
      case kThresholdShutdown: return Put(out, 95);
      case kThresholdSlowdown: return Put(out, 92);
      case kThresholdMemoryMax: return PutIf(hbm, out, 95);
      case kThresholdGpuMax: return Put(out, 88);
      case kThresholdTarget: return PutIf(view.model->consumer, out, 83);
      default: return kInvalidArgument;
    }
  });
}
FAKE_API int nvmlDeviceGetMarginTemperature(Device device, MarginTemperature* out) {
  return With(__func__, device, [&](const FakeView& view) -> int {
    if (view.model->architecture < kHopper) return kNotSupported;
    if (!out) return kInvalidArgument;
    if (out->version != StructVersion(sizeof *out, 1)) return kArgumentVersionMismatch;
    out->margin = 87 - static_cast<int>(view.temperature);
    return kSuccess;
  });
}
FAKE_API int nvmlDeviceGetApplicationsClock(Device device, unsigned type, unsigned* out) {
  return With(__func__, device, [&](const FakeView& view) -> int {
    if (view.model->consumer || view.model->architecture >= kBlackwell) return kNotSupported;
    if (type == kGraphicsClock) return Put(out, view.model->max_clock);
    return type == kMemoryClock ? Put(out, view.model->memory_clock) : int{kInvalidArgument};
  });
}
FAKE_NUMBER(nvmlDeviceGetSupportedClocksEventReasons, unsigned long long, true, SupportedReasons(view))
FAKE_NUMBER(nvmlDeviceGetSupportedClocksThrottleReasons, unsigned long long, true, SupportedReasons(view))
FAKE_API int nvmlDeviceGetFanSpeedRPM(Device device, FanSpeedInfo* out) {
  return With(__func__, device, [&](const FakeView& view) -> int {
    if (view.gpu->fans == 0) return kNotSupported;
    if (!out || out->fan >= view.gpu->fans) return kInvalidArgument;
    if (out->version != StructVersion(sizeof *out, 1)) return kArgumentVersionMismatch;
    out->speed = 900 + static_cast<unsigned>(view.busy_mean * 1200) + 30 * out->fan;
    return kSuccess;
  });
}
FAKE_API int nvmlDeviceGetEncoderStats(Device device, unsigned* sessions, unsigned* rate, unsigned* latency) {
  return With(__func__, device, [&](const FakeView& view) -> int {
    if (view.gpu->mig) return kNotSupported;
    if (!sessions || !rate || !latency) return kInvalidArgument;
    *sessions = view.Faults(C::kEncoderSessions);
    *rate = *sessions > 0 ? 60 : 0;
    *latency = *sessions > 0 ? 4200 : 0;
    return kSuccess;
  });
}
FAKE_API int nvmlDeviceGetEncoderCapacity(Device device, unsigned codec, unsigned* out) {
  return With(__func__, device, [&](const FakeView& view) -> int {
    if (codec > kEncoderAv1) return kInvalidArgument;
    bool encodes = view.model->links == 0 && (codec != kEncoderAv1 || view.model->architecture >= kAda);
    return PutIf(encodes, out, 100 - 10 * std::min(view.Faults(C::kEncoderSessions), 10U));
  });
}
FAKE_API int nvmlDeviceGetFBCStats(Device device, FbcStats* out) {
  return With(__func__, device, [&](const FakeView&) -> int {
    if (!out) return kInvalidArgument;
    *out = FbcStats{};
    return kSuccess;
  });
}
FAKE_API int nvmlDeviceGetMemoryErrorCounter(Device device, unsigned type, unsigned counter, unsigned place,
                                             unsigned long long* out) {
  return With(__func__, device, [&](const FakeView& view) -> int {
    constexpr unsigned kDram = 2, kSram = 7;
    if (type > kUncorrectedError || counter > kAggregateEcc || place > kSram) return kInvalidArgument;
    if (!view.gpu->ecc || !CountsErrors(*view.model, place, type)) return kNotSupported;
    unsigned count = 0;
    if (place == kDram) count = view.Faults(type == kCorrectedError ? C::kEccCorrected : C::kEccUncorrected);
    if (place == kSram && type == kUncorrectedError) count = view.Faults(C::kSramUncorrected);
    return Put(out, count);
  });
}
FAKE_API int nvmlDeviceGetSramEccErrorStatus(Device device, SramEccErrorStatus* out) {
  return With(__func__, device, [&](const FakeView& view) -> int {
    if (!view.gpu->ecc || view.model->architecture < kAmpere) return kNotSupported;
    if (!out) return kInvalidArgument;
    if (out->version != StructVersion(sizeof *out, 1)) return kArgumentVersionMismatch;
    unsigned version = out->version;
    *out = SramEccErrorStatus{};
    out->version = version;
    out->bucket_sm = out->aggregate_secded = view.Faults(C::kSramUncorrected);
    out->threshold_exceeded = out->bucket_sm > 0;
    return kSuccess;
  });
}
FAKE_API int nvmlDeviceGetRowRemapperHistogram(Device device, RowRemapperHistogram* out) {
  return With(__func__, device, [&](const FakeView& view) -> int {
    if (!view.profile->remapped_rows || view.model->bus_width < 1024) return kNotSupported;
    if (!out) return kInvalidArgument;
    unsigned banks = view.model->bus_width / 2;
    unsigned used = std::min(banks, view.Faults(C::kBanksUsed));
    *out = {.max = banks - used, .high = 0, .partial = 0, .low = used, .none = 0};
    return kSuccess;
  });
}
FAKE_NUMBER(nvmlDeviceGetUnrepairableMemoryFlag_v1, unsigned, view.model->architecture >= kHopper,
            view.Faults(C::kRemapFailure) > 0)
FAKE_API int nvmlDeviceGetGpuFabricInfoV(Device device, FabricInfoV3* out) {
  return With(__func__, device, [&](const FakeView& view) -> int {
    if (view.model->architecture < kHopper) return kNotSupported;
    if (!out) return kInvalidArgument;
    bool third = out->version == StructVersion(sizeof *out, 3);
    if (!third && out->version != StructVersion(kFabricInfoV2Size, 2)) return kArgumentVersionMismatch;
    std::memset(out->cluster_uuid, view.model->coherent ? 0xAB : 0, sizeof out->cluster_uuid);
    out->status = kSuccess;
    out->clique = view.model->coherent ? 32766 : 0;
    out->state = static_cast<unsigned char>(FabricState(view));
    // Per condition: 1 is true, 2 is false; the configuration (bit 8) is right at 1.
    out->health = view.model->architecture < kBlackwell ? 0U : 0x1AAU;
    if (out->health != 0 && view.Faults(C::kFabricDegraded) > 0) out->health = 0x1A9;
    if (third) out->summary = 1;
    return kSuccess;
  });
}
FAKE_API int nvmlDeviceGetGpuFabricInfo(Device device, FabricInfoV1* out) {
  return With(__func__, device, [&](const FakeView& view) -> int {
    if (view.model->architecture < kHopper) return kNotSupported;
    if (!out) return kInvalidArgument;
    *out = FabricInfoV1{};
    out->state = static_cast<unsigned char>(FabricState(view));
    return kSuccess;
  });
}
FAKE_API int nvmlSystemGetConfComputeState(ConfComputeState* out) {
  return With(__func__, reinterpret_cast<Device>(fake_handles), [&](const FakeView& view) -> int {
    if (view.model->architecture < kHopper) return kNotSupported;
    if (!out) return kInvalidArgument;
    *out = {.environment = 0, .feature = view.Faults(C::kConfidential) > 0, .dev_tools = 0};
    return kSuccess;
  });
}
FAKE_API int nvmlSystemGetConfComputeGpusReadyState(unsigned* out) {
  return With(__func__, reinterpret_cast<Device>(fake_handles), [&](const FakeView& view) {
    return PutIf(view.model->architecture >= kHopper, out, view.Faults(C::kConfidential) > 0);
  });
}
FAKE_API int nvmlDeviceGetConfComputeMemSizeInfo(Device device, ConfComputeMemory* out) {
  return With(__func__, device, [&](const FakeView& view) -> int {
    if (view.model->architecture < kHopper) return kNotSupported;
    if (!out) return kInvalidArgument;
    bool on = view.Faults(C::kConfidential) > 0;
    *out = {.protected_kib = on ? view.total / 1024 : 0, .unprotected_kib = on ? 0 : view.total / 1024};
    return kSuccess;
  });
}
FAKE_NUMBER(nvmlDeviceGetComputeMode, unsigned, true, 0)
FAKE_NUMBER(nvmlDeviceGetDisplayActive, unsigned, true, view.model->consumer)
FAKE_API int nvmlDeviceValidateInforom(Device device) {
  return With(__func__, device, [&](const FakeView& view) {
    if (view.model->consumer) return int{kNotSupported};
    return view.Faults(C::kInforomCorrupt) > 0 ? kCorruptedInforom : int{kSuccess};
  });
}
FAKE_NUMBER(nvmlDeviceGetVirtualizationMode, unsigned, true, 0)
FAKE_NUMBER(nvmlDeviceGetPowerSource, unsigned, true, 0)
FAKE_API int nvmlDeviceGetPlatformInfo(Device device, PlatformInfo* out) {
  return With(__func__, device, [&](const FakeView& view) -> int {
    if (view.model->architecture < kBlackwell) return kNotSupported;
    if (!out) return kInvalidArgument;
    if (out->version != StructVersion(sizeof *out, 2)) return kArgumentVersionMismatch;
    unsigned version = out->version;
    *out = PlatformInfo{};
    out->version = version;
    std::snprintf(reinterpret_cast<char*>(out->chassis_serial), sizeof out->chassis_serial, "1820225190126");
    out->slot = 9;
    out->tray = 4;
    out->host = 1;
    out->module = static_cast<unsigned char>(view.index + 1);
    return kSuccess;
  });
}
FAKE_API int nvmlDeviceGetGspFirmwareVersion(Device device, char* out) {
  return With(__func__, device, [&](const FakeView& view) -> int {
    if (view.model->architecture < kTuring) return kNotSupported;
    if (!out) return kInvalidArgument;
    std::snprintf(out, kGspVersionBytes, "%s", view.profile->driver_version.c_str());
    return kSuccess;
  });
}

}  // namespace gpulens::nvml
