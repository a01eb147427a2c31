// Links of the simulated boards one by one, paths between GPUs, and the driver's samples.
#include <algorithm>
#include <cmath>

#include "sources/nvml/simulated/fake_call.h"

namespace gpulens::nvml {
namespace {

using C = FakeFault::Counter;

// Errors and states that NVLink 5 counts, by their field ids.
bool NewLinkField(const FakeView& view, FieldValue& value) {
  bool tx = value.field_id == 201;
  uint64_t packets = Flow(view, tx ? FakeFlow::kNvlinkTx : FakeFlow::kNvlinkRx) / view.model->links / 256;
  switch (value.field_id) {
    case 201:
    case 203: return FakePutUllong(value, packets), true;
    case 220:
    case 222:
    case 293: return FakePutUllong(value, value.field_id == 293 ? 0x30B : 0x1FE), true;  // 3e-11, 1e-254
    case 213:
    case 221: return FakePutUllong(value, value.scope_id == 0 ? view.Faults(C::kLinkReplay) : 0), true;
    default: break;
  }
  bool errors = (value.field_id >= 206 && value.field_id <= 214) || value.field_id == 219;
  bool history = value.field_id >= 235 && value.field_id <= 250;
  if (history) FakePutUllong(value, value.field_id == 235 ? packets : value.field_id == 236 ? 12 : 0);
  if (errors) FakePutUllong(value, 0);
  return errors || history;
}

// What NVLink before version 5 counts: by link as scope since Hopper, by an id for each link before.
bool OldLinkField(const FakeView& view, FieldValue& value) {
  unsigned id = value.field_id;
  if (id == 38 || id == 45 || id == 59 || id == 160) return FakePutUllong(value, 0), true;
  if (id == 52) return FakePutUllong(value, view.Faults(C::kLinkReplay)), true;
  if (id >= 161 && id <= 163) {
    if (view.model->architecture < kHopper || value.scope_id >= view.model->links) return false;
    FakePutUllong(value, id == 161 && value.scope_id == 0 ? view.Faults(C::kLinkReplay) : 0);
    return true;
  }
  constexpr unsigned kGroups[][3] = {{32, 96, 0}, {39, 102, 0}, {46, 108, 1}, {53, 114, 0}, {148, 154, 0}};
  for (auto [low, high, replay] : kGroups) {
    bool first = id >= low && id < low + 6, second = id >= high && id < high + 6;
    if (!first && !second) continue;
    unsigned link = first ? id - low : id - high + 6;
    if (link >= view.model->links) return false;
    return FakePutUllong(value, replay && link == 0 ? view.Faults(C::kLinkReplay) : 0), true;
  }
  return false;
}

bool C2cField(const FakeView& view, FieldValue& value) {
  constexpr unsigned kLinks = 2;
  if (!view.model->coherent) return false;
  if (value.field_id == kFiC2cCount) return FakePutUint(value, kLinks), true;
  if (value.scope_id >= kLinks) return false;
  switch (value.field_id) {
    case kFiC2cStatus: return FakePutUint(value, 1), true;
    case 172: return FakePutUint(value, 225'000), true;
    case 231:
    case 232:
    case 233:
    case 234: return FakePutUllong(value, 0), true;
    default: return false;
  }
}

double SampledAt(const FakeView& view, unsigned type, double at) noexcept {
  double busy = view.BusyAt(at);
  switch (type) {
    case kSamplePower: return view.PowerAt(at);
    case kSampleGpuUtilization: return std::round(100 * busy);
    case kSampleMemoryUtilization: return std::round(60 * busy);
    case kSampleProcessorClock: return view.ClockOf(busy);
    default: return view.model->memory_clock;
  }
}

}  // namespace

FAKE_API int nvmlDeviceGetSamples(Device device, unsigned type, unsigned long long last, unsigned* value_type,
                                  unsigned* count, Sample* samples) {
  return With(__func__, device, [&](const FakeView& view) -> int {
    constexpr unsigned kKept = 120;
    constexpr int64_t kPeriodUs = 50'000;
    bool known =
        type <= kSampleMemoryUtilization || type == kSampleProcessorClock || type == kSampleMemoryClock;
    if (!count || !value_type) return kInvalidArgument;
    if (!known || view.gpu->mig) return kNotSupported;
    *value_type = kUint;
    if (!samples) return *count = kKept, kSuccess;
    if (*count < kKept) return kInsufficientSize;
    *count = 0;
    for (int64_t slot = view.unix_us / kPeriodUs - kKept + 1; slot <= view.unix_us / kPeriodUs; ++slot) {
      auto stamp = static_cast<unsigned long long>(slot * kPeriodUs);
      if (stamp <= last) continue;
      double ago = static_cast<double>(view.unix_us - slot * kPeriodUs) * 1e-6;
      Sample& sample = samples[(*count)++];
      sample.timestamp_us = stamp;
      sample.value.uint_value = static_cast<unsigned>(SampledAt(view, type, view.seconds - ago));
    }
    return *count > 0 ? kSuccess : kNotFound;
  });
}
FAKE_API int nvmlDeviceGetNvLinkVersion(Device device, unsigned link, unsigned* out) {
  return With(__func__, device, [&](const FakeView& view) -> int {
    if (link >= view.model->links) return view.model->links == 0 ? kNotSupported : kInvalidArgument;
    return Put(out, view.model->link_version);
  });
}
FAKE_API int nvmlDeviceGetNvLinkRemoteDeviceType(Device device, unsigned link, unsigned* out) {
  return With(__func__, device, [&](const FakeView& view) -> int {
    if (link >= view.model->links) return view.model->links == 0 ? kNotSupported : kInvalidArgument;
    return Put(out, view.model->link_version >= 3 ? kRemoteSwitch : kRemoteGpu);
  });
}
FAKE_API int nvmlDeviceGetNvLinkRemotePciInfo_v2(Device device, unsigned link, PciInfo* out) {
  return With(__func__, device, [&](const FakeView& view) -> int {
    if (link >= view.model->links) return view.model->links == 0 ? kNotSupported : kInvalidArgument;
    if (!out) return kInvalidArgument;
    *out = PciInfo{};
    out->bus = 0x05 + link % 4;
    return kSuccess;
  });
}
FAKE_API int nvmlDeviceGetCpuAffinity(Device device, unsigned words, unsigned long* out) {
  return With(__func__, device, [&](const FakeView& view) -> int {
    if (!out || words == 0) return kInvalidArgument;
    std::fill(out, out + words, 0UL);
    out[0] = view.index < (view.profile->gpus.size() + 1) / 2 ? 0xFFFFFFFFUL : 0xFFFFFFFF00000000UL;
    return kSuccess;
  });
}
FAKE_API int nvmlDeviceGetMemoryAffinity(Device device, unsigned words, unsigned long* out, unsigned) {
  return With(__func__, device, [&](const FakeView& view) -> int {
    if (!out || words == 0) return kInvalidArgument;
    std::fill(out, out + words, 0UL);
    out[0] = view.index < (view.profile->gpus.size() + 1) / 2 ? 1 : 2;
    return kSuccess;
  });
}
FAKE_API int nvmlDeviceGetTopologyCommonAncestor(Device device, Device peer, unsigned* out) {
  return With(__func__, device, [&](const FakeView& view) -> int {
    int other = FakeIndexOf(peer);
    if (other < 0) return kInvalidArgument;
    size_t half = (view.profile->gpus.size() + 1) / 2;
    return Put(out, (view.index < half) == (static_cast<size_t>(other) < half) ? 40 : 50);
  });
}
FAKE_API int nvmlDeviceGetP2PStatus(Device device, Device peer, unsigned capability, unsigned* out) {
  return With(__func__, device, [&](const FakeView& view) -> int {
    if (FakeIndexOf(peer) < 0 || capability > 4) return kInvalidArgument;
    constexpr unsigned kNotPossible = 4;
    return Put(out, capability != kP2pNvlink || view.model->links > 0 ? 0U : kNotPossible);
  });
}

bool FakeLinkField(const FakeView& view, FieldValue& value) {
  const FakeModel& model = *view.model;
  if (C2cField(view, value)) return true;
  if (model.links == 0) return false;
  switch (value.field_id) {
    case kFiNvlinkSpeed:
      if (value.scope_id >= view.LinksUp() || model.architecture < kAda - 1) return false;
      return FakePutUint(value, model.link_mb_per_s), true;
    case 146:
      if (value.scope_id >= view.LinksUp()) return false;
      return FakePutUint(value, value.scope_id + 2), true;
    case 167:
      if (value.scope_id >= model.links || model.architecture < kHopper) return false;
      return FakePutUint(value, 0), true;
    default: break;
  }
  if (model.link_version < 5) return OldLinkField(view, value);
  return value.scope_id < model.links && NewLinkField(view, value);
}

}  // namespace gpulens::nvml
