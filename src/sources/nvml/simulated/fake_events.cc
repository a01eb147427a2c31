// The functions of the simulated library for events: those of the profile, each once per event set.
#include <algorithm>
#include <cmath>
#include <ctime>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "sources/nvml/nvml_slices.h"
#include "sources/nvml/reader/nvml_abi.h"
#include "sources/nvml/simulated/fake_call.h"

namespace gpulens::nvml {
struct EventSetHandle {
  std::mutex mutex;
  std::array<uint64_t, kMaxFakeGpus> types{};
  std::vector<FakeEvent> delivered;
  std::vector<double> periods;  // of a profile with periods, by event: the last one delivered
  // Faults that began since the set was made are delivered once for each GPU.
  int64_t made_ns = 0;
  std::vector<std::pair<uint32_t, unsigned>> delivered_faults;
};

namespace {

constexpr uint64_t kSupported = 0xFFFF & ~uint64_t{0x60};

// The same of a profile with periods: each event once a period, from when the set was made.
bool TakePeriodic(EventSetHandle& set, const FakeProfile& profile, FakeEvent& out) {
  auto period_of = [&](const FakeEvent& event, int64_t boot_ns) {
    return std::floor((static_cast<double>(boot_ns) * 1e-9 - event.at) / profile.period);
  };
  for (size_t i = set.periods.size(); i < profile.events.size(); ++i)
    set.periods.push_back(period_of(profile.events[i], set.made_ns));
  const int64_t now = FakeWorld::Get().boot_ns();
  for (size_t i = 0; i < profile.events.size(); ++i) {
    const FakeEvent& event = profile.events[i];
    if (std::exchange(set.periods[i], period_of(event, now)) >= period_of(event, now)) continue;
    if (!(set.types[event.gpu] & event.type)) continue;
    out = event;
    return true;
  }
  return false;
}

// The next event that is due, was requested and not delivered yet. An event that is twice in the
// profile is delivered twice.
bool TakeDue(EventSetHandle& set, FakeEvent& out) {
  FakeWorld& world = FakeWorld::Get();
  auto profile = world.profile();
  if (!profile) return false;
  double now = world.OpenFor();
  std::lock_guard lock(set.mutex);
  if (profile->period > 0) return TakePeriodic(set, *profile, out);
  std::vector<FakeEvent> delivered = set.delivered;
  for (const FakeEvent& event : profile->events) {
    if (event.at > now || !(set.types[event.gpu] & event.type)) continue;
    auto found = std::find(delivered.begin(), delivered.end(), event);
    if (found != delivered.end()) {
      delivered.erase(found);
      continue;
    }
    set.delivered.push_back(event);
    out = event;
    return true;
  }
  return false;
}

bool TakeFault(EventSetHandle& set, FakeEvent& out) {
  FakeWorld& world = FakeWorld::Get();
  auto profile = world.profile();
  if (!profile) return false;
  FaultScript faults = world.faults();
  int64_t now = world.boot_ns();
  std::lock_guard lock(set.mutex);
  for (const LiveFault& fault : *faults) {
    FaultEvent event = EventOf(fault);
    if (event.type == 0 || fault.from_ns > now || fault.from_ns < set.made_ns) continue;
    for (unsigned gpu = 0; gpu < profile->gpus.size(); ++gpu) {
      bool meant = (fault.gpu < 0 || fault.gpu == static_cast<int>(gpu)) && (set.types[gpu] & event.type);
      auto& delivered = set.delivered_faults;
      if (!meant || std::ranges::find(delivered, std::pair{fault.id, gpu}) != delivered.end()) continue;
      delivered.emplace_back(fault.id, gpu);
      out = {.gpu = gpu, .type = event.type, .data = event.data};
      return true;
    }
  }
  return false;
}

int Wait(const char* call, EventSet set, unsigned timeout_ms, FakeEvent& out) {
  FakeWorld& world = FakeWorld::Get();
  if (!world.open()) return kUninitialized;
  if (!set) return kInvalidArgument;
  if (int code = world.Enter(call, -1); code != kSuccess) return code;
  int64_t end = RealClock().Now().boot_ns + int64_t{timeout_ms} * 1'000'000;
  while (!TakeDue(*set, out) && !TakeFault(*set, out)) {
    int64_t left = end - RealClock().Now().boot_ns;
    if (left <= 0) return kTimeoutError;
    timespec wait{.tv_sec = 0, .tv_nsec = std::min<int64_t>(left, 50'000'000)};
    ::nanosleep(&wait, nullptr);
  }
  return kSuccess;
}

}  // namespace

FAKE_API int nvmlEventSetCreate(EventSet* out) {
  if (!FakeWorld::Get().open()) return kUninitialized;
  if (!out) return kInvalidArgument;
  if (int code = FakeWorld::Get().Enter(__func__, -1); code != kSuccess) return code;
  // Kept for ever, as the reader process does: a thread may still wait in it.
  static std::mutex mutex;
  static auto* sets = new std::vector<std::unique_ptr<EventSetHandle>>;
  std::lock_guard lock(mutex);
  *out = sets->emplace_back(std::make_unique<EventSetHandle>()).get();
  (*out)->made_ns = FakeWorld::Get().boot_ns();
  return kSuccess;
}
FAKE_API int nvmlEventSetFree(EventSet set) { return set ? kSuccess : kInvalidArgument; }
FAKE_NUMBER(nvmlDeviceGetSupportedEventTypes, unsigned long long, true, kSupported)
FAKE_API int nvmlDeviceRegisterEvents(Device device, unsigned long long types, EventSet set) {
  return With(__func__, device, [&](const FakeView& view) -> int {
    if (!set) return kInvalidArgument;
    if (types & ~kSupported) return kNotSupported;
    std::lock_guard lock(set->mutex);
    set->types[view.index] |= types;
    return kSuccess;
  });
}
FAKE_API int nvmlEventSetWait_v2(EventSet set, EventData* out, unsigned timeout_ms) {
  if (!out) return kInvalidArgument;
  FakeEvent event;
  if (int code = Wait(__func__, set, timeout_ms, event); code != kSuccess) return code;
  *out = {reinterpret_cast<Device>(fake_handles + event.gpu), event.type, event.data, event.instance,
          kNoFakeInstance};
  return kSuccess;
}
FAKE_API int nvmlEventSetWait(EventSet set, EventDataV1* out, unsigned timeout_ms) {
  if (!out) return kInvalidArgument;
  FakeEvent event;
  if (int code = Wait(__func__, set, timeout_ms, event); code != kSuccess) return code;
  *out = {reinterpret_cast<Device>(fake_handles + event.gpu), event.type, event.data};
  return kSuccess;
}

}  // namespace gpulens::nvml
