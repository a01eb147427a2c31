// Field values and process lists of the simulated library.
#include <string_view>

#include "base/parse.h"
#include "sources/nvml/simulated/fake_call.h"

namespace gpulens::nvml {
void FakePutUint(FieldValue& value, unsigned number) noexcept {
  value.value_type = kUint;
  value.value.uint_value = number;
}
void FakePutUllong(FieldValue& value, uint64_t number) noexcept {
  value.value_type = kUllong;
  value.value.ull_value = number;
}
void FakePutInt(FieldValue& value, int number) noexcept {
  value.value_type = kSint;
  value.value.int_value = number;
}

namespace {

using C = FakeFault::Counter;

bool PowerField(const FakeView& view, FieldValue& value) {
  const FakeModel& model = *view.model;
  // The first data centre Ampere has no mean of its own.
  bool mean = model.architecture >= kAmpere && !(model.cc_major == 8 && model.cc_minor == 0);
  switch (value.scope_id) {
    case kPowerOfGpu:
      if (mean) FakePutUint(value, view.power_mean_mw);
      return mean;
    case kPowerOfMemory:
      // HBM is about half of what an idle board draws, and a fifth of what a busy one does.
      if (model.architecture >= kHopper) FakePutUint(value, model.idle_mw / 2 + view.power_mean_mw / 8);
      return model.architecture >= kHopper;
    case kPowerOfModule:
      if (model.coherent) FakePutUint(value, view.power_mean_mw + 180'000);
      return model.coherent;
    default: return false;
  }
}

bool ErrorField(const FakeView& view, FieldValue& value) {
  bool counts = view.model->architecture >= kAmpere;
  switch (value.field_id) {
    case 173:
    case 175: return counts && (FakePutUllong(value, view.Faults(C::kPcieCorrectable)), true);
    case 174:
    case 176:
    case 177:
    case 178:
    case 179:
    case 180:
    case 181:
    case 182:
    case 183: return counts && (FakePutUllong(value, 0), true);
    case 169: return view.model->architecture >= kTuring && (FakePutUllong(value, 3), true);
    case 95: return FakePutUint(value, 0), true;
    case 301:
    case 302:
      return view.profile->remapped_rows && view.model->architecture >= kHopper &&
             (FakePutUint(value, 0), true);
    default: return false;
  }
}

}  // namespace

bool FakeBoardField(const FakeView& view, FieldValue& value) {
  bool margins = view.model->architecture >= kHopper;
  switch (value.field_id) {
    case kFiPowerAverage: return PowerField(view, value);
    case 193: return margins && (FakePutInt(value, -8), true);
    case 194: return margins && (FakePutInt(value, -2), true);
    case 195:
    case 196: return margins && (FakePutInt(value, 0), true);
    case 75: return FakePutUllong(value, view.ThrottledNs(0x60)), true;
    case 77:
    case 78:
    case 79:
    case 80:
    case 81: return FakePutUllong(value, 0), true;
    case 274: return margins && (FakePutUint(value, 100), true);
    case 297: return margins && (FakePutUint(value, static_cast<unsigned>(view.busy * 20)), true);
    case 299:
      return view.model->architecture >= kAda && view.model->links == 0 && (FakePutUint(value, 500), true);
    default: return ErrorField(view, value);
  }
}

namespace {

struct ListKind {
  ProcessType type;
  bool v1;  // The struct of the functions without suffix.
};

int Processes(const char* call, Device device, ListKind kind, unsigned* count, void* out) {
  return With(call, device, [&](const FakeView& view) -> int {
    if (!count) return kInvalidArgument;
    if (view.gpu->mig && kind.type == ProcessType::kMps) return kNotSupported;
    unsigned room = *count, found = 0;
    for (const GpuProcess& process : view.processes) found += process.type == kind.type;
    *count = found;
    if (found > room) return kInsufficientSize;
    if (found > 0 && !out) return kInvalidArgument;
    unsigned at = 0;
    for (const GpuProcess& process : view.processes) {
      if (process.type != kind.type) continue;
      if (kind.v1) {
        static_cast<ProcessInfoV1*>(out)[at++] = {process.pid, process.memory_used};
      } else {
        static_cast<ProcessInfoV2*>(out)[at++] = {process.pid, process.memory_used, process.gpu_instance,
                                                  process.compute_instance};
      }
    }
    return kSuccess;
  });
}

// False when the GPU does not have the NVLink field.
bool NvlinkField(const FakeView& view, FieldValue& value) {
  bool tx = value.field_id == kFiNvlinkDataTx || value.field_id == kFiNvlinkXmitBytes;
  uint64_t bytes = Flow(view, tx ? FakeFlow::kNvlinkTx : FakeFlow::kNvlinkRx);
  bool data = value.field_id == kFiNvlinkDataTx || value.field_id == kFiNvlinkDataRx;
  bool all = value.scope_id == kAllLinks;
  if (view.model->links == 0 || data != (view.model->link_version < 5)) return false;
  if ((all && !data) || (!all && value.scope_id >= view.LinksUp())) return false;
  if (!all) bytes /= view.model->links;
  FakePutUllong(value, data ? bytes / 1024 : bytes);
  return true;
}

// Throttle times have moved in drivers 580; where they are now, power smoothing was, which answers numbers.
bool ThrottleTime(const FakeView& view, FieldValue& value) {
  std::string_view version = view.profile->driver_version;
  const int major = ParseInt<int>(TakeUntil(version, '.')).value_or(0);
  if (major < 570) return false;
  switch (value.field_id + (major < 580 ? kFiSwThermal - kFiSwThermalR570 : 0)) {
    case kFiSwThermal: return FakePutUllong(value, view.ThrottledNs(0x20)), true;
    case kFiHwThermal: return FakePutUllong(value, view.ThrottledNs(0x40)), true;
    case kFiPowerBrake: return FakePutUllong(value, view.ThrottledNs(0x80)), true;
    default:
      if (major < 580) FakePutUint(value, 1);
      return major < 580;
  }
}

bool OtherField(const FakeView& view, FieldValue& value) {
  const FakeModel& model = *view.model;
  switch (value.field_id) {
    case kFiThrottlePower: return FakePutUllong(value, view.ThrottledNs(0x4)), true;
    case kFiThrottleSync: return FakePutUllong(value, view.ThrottledNs(0x10)), true;
    case kFiSwThermalR570:
    case kFiHwThermalR570:
    case kFiPowerBrakeR570:
    case kFiSwThermal:
    case kFiHwThermal:
    case kFiPowerBrake: return ThrottleTime(view, value);
    case kFiMemoryTemperature:
      if (model.bus_width < 1024) return false;  // Not HBM.
      return FakePutUint(value, view.temperature - 3), true;
    case kFiNvlinkCount: return FakePutUint(value, model.links), true;
    case kFiPowerInstant:
      if (value.scope_id != kPowerOfGpu) return false;
      return FakePutUint(value, view.power_mw), true;
    case kFiPowerMinLimit: return FakePutUint(value, model.min_limit_mw), true;
    case kFiPowerMaxLimit:
    case kFiPowerDefaultLimit:
    case kFiPowerRequestedLimit: return FakePutUint(value, model.limit_mw), true;
    case kFiRecoveryAction: return FakePutUint(value, 0), true;
    case kFiPcieTxBytes:
    case kFiPcieRxBytes:
      if (!view.profile->pcie_counters) return false;
      FakePutUllong(value,
                    Flow(view, value.field_id == kFiPcieTxBytes ? FakeFlow::kPcieTx : FakeFlow::kPcieRx));
      return true;
    default: return FakeBoardField(view, value) || FakeLinkField(view, value);
  }
}

}  // namespace

FAKE_API int nvmlDeviceGetFieldValues(Device device, int count, FieldValue* values) {
  return With(__func__, device, [&](const FakeView& view) -> int {
    if (!values || count < 0) return kInvalidArgument;
    for (int i = 0; i < count; ++i) {
      FieldValue& value = values[i];
      bool link = value.field_id == kFiNvlinkDataTx || value.field_id == kFiNvlinkDataRx ||
                  value.field_id == kFiNvlinkXmitBytes || value.field_id == kFiNvlinkRcvBytes;
      value.code = (link ? NvlinkField(view, value) : OtherField(view, value)) ? kSuccess : kNotSupported;
    }
    return kSuccess;
  });
}
FAKE_API int nvmlDeviceGetComputeRunningProcesses_v3(Device device, unsigned* count, void* out) {
  return Processes(__func__, device, {ProcessType::kCompute, false}, count, out);
}
FAKE_API int nvmlDeviceGetComputeRunningProcesses_v2(Device device, unsigned* count, void* out) {
  return Processes(__func__, device, {ProcessType::kCompute, false}, count, out);
}
FAKE_API int nvmlDeviceGetComputeRunningProcesses(Device device, unsigned* count, void* out) {
  return Processes(__func__, device, {ProcessType::kCompute, true}, count, out);
}
FAKE_API int nvmlDeviceGetGraphicsRunningProcesses_v3(Device device, unsigned* count, void* out) {
  return Processes(__func__, device, {ProcessType::kGraphics, false}, count, out);
}
FAKE_API int nvmlDeviceGetGraphicsRunningProcesses_v2(Device device, unsigned* count, void* out) {
  return Processes(__func__, device, {ProcessType::kGraphics, false}, count, out);
}
FAKE_API int nvmlDeviceGetGraphicsRunningProcesses(Device device, unsigned* count, void* out) {
  return Processes(__func__, device, {ProcessType::kGraphics, true}, count, out);
}
FAKE_API int nvmlDeviceGetMPSComputeRunningProcesses_v3(Device device, unsigned* count, void* out) {
  return Processes(__func__, device, {ProcessType::kMps, false}, count, out);
}
FAKE_API int nvmlDeviceGetMPSComputeRunningProcesses_v2(Device device, unsigned* count, void* out) {
  return Processes(__func__, device, {ProcessType::kMps, false}, count, out);
}
FAKE_API int nvmlDeviceGetMPSComputeRunningProcesses(Device device, unsigned* count, void* out) {
  return Processes(__func__, device, {ProcessType::kMps, true}, count, out);
}

}  // namespace gpulens::nvml
