// The functions of the replay for events: each comes when it came, once per round of the recording, on every
// copy of its GPU.
#include <ctime>
#include <mutex>

#include "sources/nvml/simulated/fake_call.h"
#include "sources/nvml/simulated/replay.h"

namespace gpulens::nvml {
namespace {

struct Set {
  std::mutex mutex;
  std::array<uint64_t, kMaxFakeGpus> types{};
  // How far it has been told: whole rounds, events of this one, copies of that event.
  uint64_t round = 0;
  size_t event = 0, copy = 0;
};
Set* Of(EventSet set) { return reinterpret_cast<Set*>(set); }

struct Due {
  unsigned gpu = 0;
  RecordedEvent event;
};

bool TakeDue(Set& set, const FakeProfile& profile, Due& out) {
  const Recording& recording = *profile.recording;
  double now = FakeWorld::Get().OpenFor();
  std::lock_guard lock(set.mutex);
  while (!recording.events.empty() && (set.round == 0 || !profile.recording_holds)) {
    if (set.event >= recording.events.size()) {
      ++set.round, set.event = 0;
      continue;
    }
    const RecordedEvent& event = recording.events[set.event];
    if (static_cast<double>(set.round) * recording.seconds + event.at > now) return false;
    size_t gpu = event.gpu + set.copy * recording.gpus.size();
    if (gpu >= profile.gpus.size()) {
      ++set.event, set.copy = 0;
      continue;
    }
    ++set.copy;
    if (!(set.types[gpu] & event.type)) continue;
    out = {static_cast<unsigned>(gpu), event};
    return true;
  }
  return false;
}

int WaitFor(const char* name, EventSet set, unsigned timeout_ms, Due& out) {
  ReplayCall call(name);
  if (call.code() != kSuccess) return call.code();
  if (!set) return kInvalidArgument;
  int64_t end = RealClock().Now().boot_ns + int64_t{timeout_ms} * 1'000'000;
  while (!TakeDue(*Of(set), call.profile(), out)) {
    if (RealClock().Now().boot_ns >= end) return kTimeoutError;
    timespec wait{.tv_sec = 0, .tv_nsec = 5'000'000};
    ::nanosleep(&wait, nullptr);
  }
  return kSuccess;
}

int EventSetCreate(EventSet* out) {
  ReplayCall call("nvmlEventSetCreate");
  if (call.code() != kSuccess) return call.code();
  if (!out) return kInvalidArgument;
  Answer answer = call.Find("nvmlEventSetCreate");
  if (answer.code != kSuccess && answer.code != kNotSupported) return answer.code;
  // Kept for ever, as the reader process does: a thread may still wait in it.
  static std::mutex mutex;
  static auto* sets = new std::vector<std::unique_ptr<Set>>;
  std::lock_guard lock(mutex);
  *out = reinterpret_cast<EventSet>(sets->emplace_back(std::make_unique<Set>()).get());
  return kSuccess;
}

int RegisterEvents(Device device, unsigned long long types, EventSet set) {
  ReplayCall call("nvmlDeviceRegisterEvents", device);
  if (call.code() != kSuccess) return call.code();
  if (!set) return kInvalidArgument;
  Answer answer = call.Find("nvmlDeviceRegisterEvents");
  if (answer.code != kSuccess) return answer.code;
  std::lock_guard lock(Of(set)->mutex);
  Of(set)->types[call.gpu()] |= types;
  return kSuccess;
}

int EventWait(EventSet set, EventData* out, unsigned timeout_ms) {
  if (!out) return kInvalidArgument;
  Due due;
  if (int code = WaitFor("nvmlEventSetWait_v2", set, timeout_ms, due); code != kSuccess) return code;
  *out = {reinterpret_cast<Device>(fake_handles + due.gpu), due.event.type, due.event.data,
          due.event.gpu_instance, due.event.compute_instance};
  return kSuccess;
}
int EventWaitV1(EventSet set, EventDataV1* out, unsigned timeout_ms) {
  if (!out) return kInvalidArgument;
  Due due;
  if (int code = WaitFor("nvmlEventSetWait", set, timeout_ms, due); code != kSuccess) return code;
  *out = {reinterpret_cast<Device>(fake_handles + due.gpu), due.event.type, due.event.data};
  return kSuccess;
}

}  // namespace

std::span<const ReplaySymbol> ReplayEventSymbols() noexcept {
  static const ReplaySymbol kTable[] = {
      {"nvmlEventSetCreate", Pointer(&EventSetCreate)},
      {"nvmlDeviceRegisterEvents", Pointer(&RegisterEvents)},
      {"nvmlEventSetWait_v2", Pointer(&EventWait)},
      {"nvmlEventSetWait", Pointer(&EventWaitV1)},
  };
  return kTable;
}

}  // namespace gpulens::nvml
