// The functions of the replay that open the library, give handles, and answer field values and processes.

#include <algorithm>
#include <ctime>
#include <mutex>

#include "sources/nvml/simulated/fake_call.h"
#include "sources/nvml/simulated/replay.h"

namespace gpulens::nvml {
namespace {

constexpr std::string_view kNone = "none";

int Init() { return FakeWorld::Get().Open(); }

int DeviceCount(unsigned* out) {
  ReplayCall call("nvmlDeviceGetCount_v2");
  if (call.code() != kSuccess) return call.code();
  return Put(out, call.profile().gpus.size());
}

int HandleByIndex(unsigned index, Device* out) {
  ReplayCall gate("nvmlDeviceGetHandleByIndex_v2");
  if (gate.code() != kSuccess) return gate.code();
  if (!out || index >= gate.profile().gpus.size()) return kInvalidArgument;
  auto device = reinterpret_cast<Device>(fake_handles + index);
  ReplayCall call("nvmlDeviceGetHandleByIndex_v2", device);
  if (call.code() != kSuccess) return call.code();
  // The machine may have lost it for a while. Where it was never read it is simply there.
  Answer answer = call.Find("nvmlDeviceGetHandleByIndex_v2");
  if (answer.code != kSuccess && answer.code != kNotSupported) return answer.code;
  *out = device;
  return kSuccess;
}

int MigDeviceHandle(Device device, unsigned place, Device* out) {
  constexpr const char* kCall = "nvmlDeviceGetMigDeviceHandleByIndex";
  ReplayCall call(kCall, device);
  if (call.code() != kSuccess) return call.code();
  if (!out || place >= kMaxFakeMig) return kInvalidArgument;
  Question question(kCall);
  question.In(place);
  Answer answer = call.Find(std::move(question).Take());
  if (answer.code == kSuccess) *out = FakeMigHandle(call.gpu(), place);
  return answer.code;
}

int FieldValues(Device device, int count, FieldValue* values) {
  ReplayCall call("nvmlDeviceGetFieldValues", device);
  if (call.code() != kSuccess) return call.code();
  if (!values || count < 0) return kInvalidArgument;
  // A library may refuse the whole list.
  if (Answer all = call.Find("nvmlDeviceGetFieldValues"); all.code != kSuccess && all.code != kNotSupported)
    return all.code;
  int64_t now = ReplayUnixUs();
  for (FieldValue& value : std::span(values, static_cast<size_t>(count))) {
    Answer answer = call.Find(FieldQuestion(value));
    value.code = answer.code;
    value.timestamp_us = now;
    value.latency_us = 0;
    if (answer.code != kSuccess) continue;
    value.value_type = answer.values.size() == 2 ? TypeOf(answer.values[1]) : unsigned{kUshort} + 1;
    if (value.value_type > kUshort || !ValueOf(value.value_type, answer.values[0], value.value))
      value.code = kUnknownError;
  }
  return kSuccess;
}

bool Instance(const std::string& text, unsigned& out) {
  auto number = ParseInt<unsigned>(text);
  out = number.value_or(GpuProcess::kNoInstance);
  return number || text == kNone;
}

bool ReadRow(std::span<const std::string> row, ProcessInfoV2& out) {
  auto pid = ParseInt<unsigned>(row[0]);
  auto bytes = row[1] == kNone ? ~0ULL : ParseInt<unsigned long long>(row[1]);
  out.gpu_instance = out.compute_instance = GpuProcess::kNoInstance;
  if (!pid || !bytes) return false;
  out.pid = *pid, out.used_memory = *bytes;
  return row.size() < 4 || (Instance(row[2], out.gpu_instance) && Instance(row[3], out.compute_instance));
}

int Processes(const char* name, Device device, bool v1, unsigned* count, void* out) {
  ReplayCall call(name, device);
  if (call.code() != kSuccess) return call.code();
  if (!count) return kInvalidArgument;
  Answer answer = call.Find(name);
  if (answer.code != kSuccess) return answer.code;
  size_t width = v1 ? 2 : 4, room = *count, found = answer.values.size() / width;
  *count = static_cast<unsigned>(found);
  if (found > room) return kInsufficientSize;
  if (found > 0 && !out) return kInvalidArgument;
  for (size_t i = 0; i < found; ++i) {
    ProcessInfoV2 info{};
    if (!ReadRow(std::span(answer.values).subspan(i * width, width), info)) return kUnknownError;
    if (v1) static_cast<ProcessInfoV1*>(out)[i] = {info.pid, info.used_memory};
    else static_cast<ProcessInfoV2*>(out)[i] = info;
  }
  return kSuccess;
}

template <Call kCall>
int ListedProcesses(Device device, unsigned* count, void* out) {
  std::string_view name = CallName(kCall);
  return Processes(name.data(), device, !name.ends_with("_v2") && !name.ends_with("_v3"), count, out);
}

int Words(const char* name, Device device, std::string question, std::span<unsigned long> out) {
  ReplayCall call(name, device);
  if (call.code() != kSuccess) return call.code();
  Answer answer = call.Find(question);
  if (answer.code != kSuccess) return answer.code;
  std::fill(out.begin(), out.end(), 0UL);
  for (size_t i = 0; i < std::min(out.size(), answer.values.size()); ++i) {
    auto word = ParseInt<unsigned long>(answer.values[i], 16);
    if (!word) return kUnknownError;
    out[i] = *word;
  }
  return kSuccess;
}

int CpuAffinity(Device device, unsigned size, unsigned long* out) {
  constexpr const char* kCall = "nvmlDeviceGetCpuAffinity";
  return out ? Words(kCall, device, kCall, {out, size}) : int{kInvalidArgument};
}
int MemoryAffinity(Device device, unsigned size, unsigned long* out, unsigned scope) {
  constexpr const char* kCall = "nvmlDeviceGetMemoryAffinity";
  Question question(kCall);
  question.In(scope);
  return out ? Words(kCall, device, std::move(question).Take(), {out, size}) : int{kInvalidArgument};
}

#define REPLAY_PROCESSES(id) {CallName(Call::k##id), Pointer(&ListedProcesses<Call::k##id>)}

struct Set {
  std::mutex mutex;
  std::array<uint64_t, kMaxFakeGpus> types{};
  // How far it was replayed: whole rounds, events of this one, copies of that event.
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

std::span<const ReplaySymbol> ReplayListSymbols() noexcept {
  static const ReplaySymbol kTable[] = {
      {"nvmlInit_v2", Pointer(&Init)},
      {"nvmlInit", Pointer(&Init)},
      {"nvmlDeviceGetCount_v2", Pointer(&DeviceCount)},
      {"nvmlDeviceGetCount", Pointer(&DeviceCount)},
      {"nvmlDeviceGetHandleByIndex_v2", Pointer(&HandleByIndex)},
      {"nvmlDeviceGetHandleByIndex", Pointer(&HandleByIndex)},
      {"nvmlDeviceGetMigDeviceHandleByIndex", Pointer(&MigDeviceHandle)},
      {"nvmlDeviceGetFieldValues", Pointer(&FieldValues)},
      {"nvmlDeviceGetCpuAffinity", Pointer(&CpuAffinity)},
      {"nvmlDeviceGetMemoryAffinity", Pointer(&MemoryAffinity)},
      REPLAY_PROCESSES(ComputeProcessesV3),
      REPLAY_PROCESSES(ComputeProcessesV2),
      REPLAY_PROCESSES(ComputeProcesses),
      REPLAY_PROCESSES(GraphicsProcessesV3),
      REPLAY_PROCESSES(GraphicsProcessesV2),
      REPLAY_PROCESSES(GraphicsProcesses),
      REPLAY_PROCESSES(MpsProcessesV3),
      REPLAY_PROCESSES(MpsProcessesV2),
      REPLAY_PROCESSES(MpsProcesses),
  };
  return kTable;
}

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
