// The functions of the simulated library that report the present state of its GPUs.
#include <algorithm>
#include <ctime>

#include "sources/nvml/simulated/fake_call.h"

namespace gpulens::nvml {
namespace {

unsigned Percent(double share) noexcept { return static_cast<unsigned>(share * 100 + 0.5); }

// The use of a video engine that GPUs have since an architecture: `share` of the load, on graphics boards.
int PutShare(const char* call, Device device, unsigned since, double share, unsigned* out, unsigned* period) {
  return With(call, device, [&](const FakeView& view) -> int {
    if (view.gpu->mig || view.model->architecture < since) return kNotSupported;
    int code = Put(period, 167000);
    return code == kSuccess ? Put(out, view.model->links == 0 ? Percent(view.busy_mean * share) : 0) : code;
  });
}

int RetiredPages(const char* call, Device device, unsigned cause, unsigned* count) {
  return With(call, device, [&](const FakeView& view) -> int {
    if (view.profile->remapped_rows || view.model->consumer) return kNotSupported;
    if (!count || cause > kDoubleBit) return kInvalidArgument;
    unsigned room = *count;
    *count = view.Faults(cause == kDoubleBit ? FakeFault::Counter::kRetiredDouble
                                             : FakeFault::Counter::kRetiredSingle);
    return *count > room ? kInsufficientSize : kSuccess;
  });
}

}  // namespace

FAKE_API int nvmlDeviceGetUtilizationRates(Device device, Utilization* out) {
  return With(__func__, device, [&](const FakeView& view) -> int {
    if (view.gpu->mig) return kNotSupported;
    if (!out) return kInvalidArgument;
    *out = {.gpu = view.utilization, .memory = Percent(view.busy_mean * 0.6)};
    return kSuccess;
  });
}
FAKE_API int nvmlDeviceGetEncoderUtilization(Device device, unsigned* out, unsigned* period) {
  return PutShare(__func__, device, kVolta, 0.1, out, period);
}
FAKE_API int nvmlDeviceGetDecoderUtilization(Device device, unsigned* out, unsigned* period) {
  return PutShare(__func__, device, kVolta, 0.25, out, period);
}
FAKE_API int nvmlDeviceGetJpgUtilization(Device device, unsigned* out, unsigned* period) {
  return PutShare(__func__, device, kAmpere, 0, out, period);
}
FAKE_API int nvmlDeviceGetOfaUtilization(Device device, unsigned* out, unsigned* period) {
  return PutShare(__func__, device, kTuring, 0, out, period);
}
FAKE_API int nvmlDeviceGetMemoryInfo_v2(Device device, MemoryV2* out) {
  return With(__func__, device, [&](const FakeView& view) -> int {
    if (!view.profile->memory_v2) return kFunctionNotFound;
    if (view.gpu->unified_only) return kNotSupported;
    if (!out) return kInvalidArgument;
    if (out->version != kMemoryV2) return kArgumentVersionMismatch;
    *out = {kMemoryV2, view.total, view.reserved, view.free, view.used};
    return kSuccess;
  });
}
FAKE_API int nvmlDeviceGetMemoryInfo(Device device, Memory* out) {
  return With(__func__, device, [&](const FakeView& view) -> int {
    if (view.gpu->unified_only) return kNotSupported;
    if (!out) return kInvalidArgument;
    *out = {view.total, view.free, view.used + view.reserved};
    return kSuccess;
  });
}
FAKE_API int nvmlDeviceGetBAR1MemoryInfo(Device device, Bar1Memory* out) {
  return With(__func__, device, [&](const FakeView& view) -> int {
    if (view.model->bar1_mib == 0) return kNotSupported;
    if (!out) return kInvalidArgument;
    unsigned long long total = static_cast<unsigned long long>(view.model->bar1_mib) << 20;
    *out = {total, total - (2ULL << 20), 2ULL << 20};
    return kSuccess;
  });
}
FAKE_API int nvmlDeviceGetTemperatureV(Device device, TemperatureV1* out) {
  return With(__func__, device, [&](const FakeView& view) -> int {
    if (!out || out->sensor != 0) return kInvalidArgument;
    if (out->version != kTemperatureV1) return kArgumentVersionMismatch;
    out->temperature = static_cast<int>(view.core_temperature);
    return kSuccess;
  });
}
FAKE_API int nvmlDeviceGetTemperature(Device device, unsigned sensor, unsigned* out) {
  return With(__func__, device, [&](const FakeView& view) -> int {
    return sensor == 0 ? Put(out, view.core_temperature) : int{kInvalidArgument};
  });
}
FAKE_NUMBER(nvmlDeviceGetPowerUsage, unsigned, true, view.power_mean_mw)
FAKE_NUMBER(nvmlDeviceGetEnforcedPowerLimit, unsigned, true, view.model->limit_mw)
FAKE_NUMBER(nvmlDeviceGetTotalEnergyConsumption, unsigned long long, true,
            Flow(view, FakeFlow::kEnergyMillijoules))
FAKE_API int nvmlDeviceGetClockInfo(Device device, unsigned type, unsigned* out) {
  return With(__func__, device, [&](const FakeView& view) -> int {
    switch (type) {
      case kGraphicsClock:
      case kSmClock: return Put(out, view.clock);
      case kMemoryClock: return Put(out, view.model->memory_clock);
      case kVideoClock: return Put(out, std::min(view.clock, view.model->video_clock));
      default: return kInvalidArgument;
    }
  });
}
FAKE_API int nvmlDeviceGetMaxClockInfo(Device device, unsigned type, unsigned* out) {
  return With(__func__, device, [&](const FakeView& view) -> int {
    switch (type) {
      case kGraphicsClock:
      case kSmClock: return Put(out, view.model->max_clock);
      case kMemoryClock: return Put(out, view.model->memory_clock);
      case kVideoClock: return Put(out, view.model->video_clock);
      default: return kInvalidArgument;
    }
  });
}
FAKE_NUMBER(nvmlDeviceGetPerformanceState, unsigned, true, view.busy < 0.01 ? view.model->idle_state : 0)
FAKE_NUMBER(nvmlDeviceGetCurrentClocksEventReasons, unsigned long long, true, view.reasons)
FAKE_NUMBER(nvmlDeviceGetCurrentClocksThrottleReasons, unsigned long long, true, view.reasons)
FAKE_API int nvmlDeviceGetFanSpeed_v2(Device device, unsigned fan, unsigned* out) {
  return With(__func__, device, [&](const FakeView& view) -> int {
    if (fan >= view.gpu->fans) return kInvalidArgument;
    return Put(out, 30 + Percent(view.busy_mean) / 2 + 4 * fan);
  });
}
FAKE_NUMBER(nvmlDeviceGetFanSpeed, unsigned, view.gpu->fans > 0, 30 + Percent(view.busy_mean) / 2)
FAKE_API int nvmlDeviceGetTotalEccErrors(Device device, unsigned type, unsigned, unsigned long long* out) {
  return With(__func__, device, [&](const FakeView& view) {
    const auto counter =
        type == kUncorrectedError ? FakeFault::Counter::kEccUncorrected : FakeFault::Counter::kEccCorrected;
    return PutIf(view.gpu->ecc, out, view.Faults(counter));
  });
}
FAKE_API int nvmlDeviceGetRemappedRows(Device device, unsigned* corrected, unsigned* uncorrected,
                                       unsigned* pending, unsigned* failure) {
  return With(__func__, device, [&](const FakeView& view) -> int {
    if (!view.profile->remapped_rows) return kNotSupported;
    if (!corrected || !uncorrected || !pending || !failure) return kInvalidArgument;
    *corrected = view.Faults(FakeFault::Counter::kRemappedCorrectable);
    *uncorrected = view.Faults(FakeFault::Counter::kRemappedUncorrectable);
    *pending = view.Faults(FakeFault::Counter::kRemapPending) > 0;
    *failure = view.Faults(FakeFault::Counter::kRemapFailure) > 0;
    return kSuccess;
  });
}
FAKE_API int nvmlDeviceGetRetiredPages_v2(Device device, unsigned cause, unsigned* count, unsigned long long*,
                                          unsigned long long*) {
  return RetiredPages(__func__, device, cause, count);
}
FAKE_API int nvmlDeviceGetRetiredPages(Device device, unsigned cause, unsigned* count, unsigned long long*) {
  return RetiredPages(__func__, device, cause, count);
}
FAKE_NUMBER(nvmlDeviceGetRetiredPagesPendingStatus, unsigned,
            !view.profile->remapped_rows && !view.model->consumer, 0)
FAKE_NUMBER(nvmlDeviceGetPcieReplayCounter, unsigned, true, view.Faults(FakeFault::Counter::kPcieReplay))
FAKE_API int nvmlDeviceGetPcieThroughput(Device device, unsigned counter, unsigned* out) {
  return With(__func__, device, [&](const FakeView& view) -> int {
    if (counter > kPcieRx) return kInvalidArgument;
    timespec wait{.tv_sec = 0, .tv_nsec = 20'000'000};  // As the real one does.
    ::nanosleep(&wait, nullptr);
    FakeFlow flow = counter == kPcieTx ? FakeFlow::kPcieTx : FakeFlow::kPcieRx;
    FakeView later;
    FakeWorld::Get().View(view.index, later);
    double seconds = std::max(later.since_open - view.since_open, 1e-3);
    return Put(out, static_cast<double>(Flow(later, flow) - Flow(view, flow)) / seconds / 1024);
  });
}
FAKE_NUMBER(nvmlDeviceGetCurrPcieLinkGeneration, unsigned, true, view.busy < 0.01 ? 1 : view.model->pcie_gen)
FAKE_NUMBER(nvmlDeviceGetCurrPcieLinkWidth, unsigned, true, view.model->pcie_width)
FAKE_NUMBER(nvmlDeviceGetMaxPcieLinkGeneration, unsigned, true, view.model->pcie_gen)
FAKE_NUMBER(nvmlDeviceGetMaxPcieLinkWidth, unsigned, true, view.model->pcie_width)
FAKE_API int nvmlDeviceGetNvLinkState(Device device, unsigned link, unsigned* out) {
  return With(__func__, device, [&](const FakeView& view) -> int {
    if (view.model->links == 0) return kNotSupported;
    if (link >= view.model->links) return kInvalidArgument;
    return Put(out, link < view.LinksUp());
  });
}

}  // namespace gpulens::nvml
