// The functions of the replay whose answers need more than ValuesIn: those that open the library and give
// handles, lists of fields and processes, events, and measurements between two moments (the driver's samples,
// GPM, what processes and vGPUs used).
#include <algorithm>
#include <ctime>
#include <mutex>

#include "sources/nvml/simulated/fake_call.h"
#include "sources/nvml/simulated/replay.h"

namespace gpulens::nvml {
namespace {

constexpr std::string_view kNone = "none";

int Init() { return FakeWorld::Get().Open(); }

int InitV1() { return Init(); }

int DeviceCount(unsigned* out) {
  ReplayCall call("nvmlDeviceGetCount_v2");
  return call.code() == kSuccess ? Put(out, call.profile().gpus.size()) : call.code();
}
int DeviceCountV1(unsigned* out) { return DeviceCount(out); }

int HandleByIndex(unsigned index, Device* out) {
  ReplayCall gate("nvmlDeviceGetHandleByIndex_v2");
  if (gate.code() != kSuccess) return gate.code();
  if (!out || index >= gate.profile().gpus.size()) return kInvalidArgument;
  auto device = reinterpret_cast<Device>(fake_handles + index);
  ReplayCall call("nvmlDeviceGetHandleByIndex_v2", device);
  // The machine may have lost it for a while. Where it was never read it is simply there.
  RecordedAnswer answer = call.Find("nvmlDeviceGetHandleByIndex_v2");
  if (answer.code != kSuccess && answer.code != kNotSupported) return answer.code;
  *out = device;
  return kSuccess;
}
int HandleByIndexV1(unsigned index, Device* out) { return HandleByIndex(index, out); }

int MigDeviceHandle(Device device, unsigned place, Device* out) {
  constexpr const char* kCall = "nvmlDeviceGetMigDeviceHandleByIndex";
  ReplayCall call(kCall, device);
  if (!out || place >= kMaxFakeMig) return kInvalidArgument;
  RecordedAnswer answer = call.Find(QuestionOf(kCall, place));
  if (answer.code == kSuccess) *out = FakeMigHandle(call.gpu(), place);
  return answer.code;
}

int FieldValues(Device device, int count, FieldValue* values) {
  ReplayCall call("nvmlDeviceGetFieldValues", device);
  if (call.code() != kSuccess) return call.code();
  if (!values || count < 0) return kInvalidArgument;
  // A library may refuse the whole list.
  if (RecordedAnswer all = call.Find("nvmlDeviceGetFieldValues");
      all.code != kSuccess && all.code != kNotSupported)
    return all.code;
  int64_t now = ReplayUnixUs();
  for (FieldValue& value : std::span(values, static_cast<size_t>(count))) {
    RecordedAnswer answer = call.Find(FieldQuestion(value));
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
  if (!count) return kInvalidArgument;
  RecordedAnswer answer = call.Find(name);
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
  RecordedAnswer answer = call.Find(question);
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
  return out ? Words(kCall, device, QuestionOf(kCall, scope), {out, size}) : int{kInvalidArgument};
}

struct ReplayedEventSet {
  std::mutex mutex;
  std::array<uint64_t, kMaxFakeGpus> types{};
  // How far it was replayed: whole rounds, events of this one, copies of that event.
  uint64_t round = 0;
  size_t event = 0, copy = 0;
};
ReplayedEventSet* Of(EventSet set) { return reinterpret_cast<ReplayedEventSet*>(set); }

struct DueEvent {
  unsigned gpu = 0;
  RecordedEvent event;
};

bool TakeDue(ReplayedEventSet& set, const FakeProfile& profile, DueEvent& out) {
  const NvmlRecording& recording = *profile.recording;
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

int WaitFor(const char* name, EventSet set, unsigned timeout_ms, DueEvent& out) {
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
  RecordedAnswer answer = call.Find("nvmlEventSetCreate");
  if (answer.code != kSuccess && answer.code != kNotSupported) return answer.code;
  // Kept for ever, as the reader process does: a thread may still wait in it.
  static std::mutex mutex;
  static auto* sets = new std::vector<std::unique_ptr<ReplayedEventSet>>;
  std::lock_guard lock(mutex);
  *out = reinterpret_cast<EventSet>(sets->emplace_back(std::make_unique<ReplayedEventSet>()).get());
  return kSuccess;
}

int RegisterEvents(Device device, unsigned long long types, EventSet set) {
  ReplayCall call("nvmlDeviceRegisterEvents", device);
  if (!set) return kInvalidArgument;
  RecordedAnswer answer = call.Find("nvmlDeviceRegisterEvents");
  if (answer.code != kSuccess) return answer.code;
  std::lock_guard lock(Of(set)->mutex);
  Of(set)->types[call.gpu()] |= types;
  return kSuccess;
}

int EventWait(EventSet set, EventData* out, unsigned timeout_ms) {
  if (!out) return kInvalidArgument;
  DueEvent due;
  if (int code = WaitFor("nvmlEventSetWait_v2", set, timeout_ms, due); code != kSuccess) return code;
  *out = {reinterpret_cast<Device>(fake_handles + due.gpu), due.event.type, due.event.data,
          due.event.gpu_instance, due.event.compute_instance};
  return kSuccess;
}
int EventWaitV1(EventSet set, EventDataV1* out, unsigned timeout_ms) {
  if (!out) return kInvalidArgument;
  DueEvent due;
  if (int code = WaitFor("nvmlEventSetWait", set, timeout_ms, due); code != kSuccess) return code;
  *out = {reinterpret_cast<Device>(fake_handles + due.gpu), due.event.type, due.event.data};
  return kSuccess;
}

template <class T>
bool Take(const std::vector<std::string>& values, size_t at, T& out) {
  auto number = at < values.size() ? ParseInt<T>(values[at]) : std::nullopt;
  if (number) out = *number;
  return number.has_value();
}

// What the samples between two rounds came to: [type, number, least, sum, greatest].
struct SampleSummary {
  unsigned type = kUint;
  uint64_t count = 0, least = 0, sum = 0, greatest = 0;

  bool Read(const std::vector<std::string>& values) {
    type = values.empty() ? unsigned{kUshort} + 1 : TypeOf(values[0]);
    return type <= kUshort && Take(values, 1, count) && Take(values, 2, least) && Take(values, 3, sum) &&
           Take(values, 4, greatest) && least <= greatest && count <= kMostSamples;
  }
  // The i-th of `number` samples that have this least, greatest and mean one.
  uint64_t At(uint64_t i, uint64_t number) const {
    if (i == 0) return least;
    if (i + 1 == number) return greatest;
    uint64_t between = number - 2, total = number == count ? sum : sum / count * number;
    uint64_t rest = total > least + greatest ? total - least - greatest : 0;
    uint64_t value = rest / between + (i <= rest % between ? 1 : 0);
    return std::clamp(value, least, greatest);
  }

  static constexpr uint64_t kMostSamples = 4096;
};

Value MakeValue(unsigned type, uint64_t number) {
  Value out{};
  if (type == kDouble) out.double_value = static_cast<double>(number);
  else if (!ValueOf(type, std::to_string(number), out)) out.ull_value = 0;
  return out;
}

int Samples(Device device, unsigned kind, unsigned long long since_us, unsigned* type, unsigned* count,
            Sample* out) {
  constexpr const char* kCall = "nvmlDeviceGetSamples";
  ReplayCall call(kCall, device);
  if (!type || !count) return kInvalidArgument;
  CallQuestion question(kCall);
  question.In(kind);
  if (!out) question.Add("room");
  RecordedAnswer answer = call.Find(std::move(question).Take());
  if (!out) {
    unsigned room = 0;
    if (answer.values.empty()) return answer.code;
    if (!Take(answer.values, 0, room) || room > SampleSummary::kMostSamples) return kUnknownError;
    *count = room;
    return answer.code;
  }
  if (answer.code != kSuccess) return answer.code;
  SampleSummary summary;
  if (!summary.Read(answer.values)) return kUnknownError;
  *type = summary.type;
  auto now = static_cast<uint64_t>(ReplayUnixUs());
  auto every = static_cast<uint64_t>(call.every() * 1e6);
  uint64_t length = since_us == 0 || since_us >= now ? every : now - since_us;
  // As many as there were in one interval; in proportion when the reader comes much earlier or later.
  bool usual = length > every / 2 && length < every + every / 2;
  uint64_t number = usual ? summary.count : summary.count * length / std::max<uint64_t>(every, 1);
  number = std::min<uint64_t>({number, *count, SampleSummary::kMostSamples});
  if (summary.count < 2) number = std::min(number, summary.count);
  for (uint64_t i = 0; i < number; ++i)
    out[i] = {now - length + length * (i + 1) / number, MakeValue(summary.type, summary.At(i, number))};
  *count = static_cast<unsigned>(number);
  return kSuccess;
}

// What a GPM sample of the replay was taken of; the values are in the recording.
struct ReplayedGpmSample {
  Device device = nullptr;
  unsigned instance = kNoFakeInstance;
  double seconds = 0;
};
ReplayedGpmSample* Of(GpmSample sample) { return reinterpret_cast<ReplayedGpmSample*>(sample); }

int GpmAlloc(GpmSample* out) {
  if (!out) return kInvalidArgument;
  *out = reinterpret_cast<GpmSample>(new ReplayedGpmSample);
  return kSuccess;
}
int GpmFree(GpmSample sample) {
  if (!sample) return kInvalidArgument;
  delete Of(sample);
  return kSuccess;
}

int TakeSample(const char* name, std::string question, Device device, unsigned instance, GpmSample sample) {
  ReplayCall call(name, device);
  if (!sample) return kInvalidArgument;
  RecordedAnswer answer = call.Find(question);
  if (answer.code != kSuccess) return answer.code;
  *Of(sample) = {device, instance, FakeWorld::Get().OpenFor()};
  return kSuccess;
}
int GpmTake(Device device, GpmSample sample) {
  return TakeSample("nvmlGpmSampleGet", "nvmlGpmSampleGet", device, kNoFakeInstance, sample);
}
int GpmTakeMig(Device device, unsigned instance, GpmSample sample) {
  constexpr const char* kCall = "nvmlGpmMigSampleGet";
  return TakeSample(kCall, QuestionOf(kCall, instance), device, instance, sample);
}

int GpmMetrics(GpmMetricsGet* request) {
  constexpr const char* kCall = "nvmlGpmMetricsGet";
  if (!request || request->version != kGpmVersion) return kArgumentVersionMismatch;
  if (!request->older || !request->newer || request->count > kGpmRoom) return kInvalidArgument;
  const ReplayedGpmSample &older = *Of(request->older), &newer = *Of(request->newer);
  if (!newer.device || older.device != newer.device || older.instance != newer.instance ||
      newer.seconds <= older.seconds) {
    return kInvalidArgument;
  }
  ReplayCall call(kCall, newer.device);
  if (call.code() != kSuccess) return call.code();
  std::span metrics(request->metrics, request->count);
  RecordedAnswer all = call.Find(QuestionOf(kCall, GreatestMetric(metrics)));
  if (all.code != kSuccess && all.code != kNotSupported) return all.code;
  for (GpmMetric& metric : metrics) {
    std::string question = "gpm " + std::to_string(metric.id);
    if (newer.instance != kNoFakeInstance) question += "(" + std::to_string(newer.instance) + ")";
    RecordedAnswer answer = call.Find(question);
    metric.code = answer.code;
    if (answer.code != kSuccess) continue;
    auto value = answer.values.empty() ? std::nullopt : ParseDouble(answer.values[0]);
    if (value) metric.value = *value;
    else metric.code = kUnknownError;
  }
  return kSuccess;
}

// Rows of numbers, as wide as that; kInsufficientSize with the number of rows when there is no room.
int Rows(const ReplayCall& call, const char* name, size_t width, unsigned& count,
         std::vector<unsigned>& out) {
  RecordedAnswer answer = call.Find(name);
  if (answer.code != kSuccess) return answer.code;
  unsigned room = count;
  count = static_cast<unsigned>(answer.values.size() / width);
  if (count > room) return kInsufficientSize;
  out.resize(count * width);
  for (size_t i = 0; i < out.size(); ++i) {
    if (!Take(answer.values, i, out[i])) return kUnknownError;
  }
  return kSuccess;
}

int ProcessesUtilizationInfo(Device device, ProcessesUtilization* request) {
  constexpr const char* kCall = "nvmlDeviceGetProcessesUtilizationInfo";
  ReplayCall call(kCall, device);
  if (!request || request->version != kProcessesUtilizationV1) return kArgumentVersionMismatch;
  std::vector<unsigned> rows;
  if (int code = Rows(call, kCall, 7, request->count, rows); code != kSuccess) return code;
  const auto now = static_cast<unsigned long long>(ReplayUnixUs());
  for (size_t i = 0; i < request->count; ++i) {
    const unsigned* row = &rows[i * 7];
    request->list[i] = {now, row[0], row[1], row[2], row[3], row[4], row[5], row[6]};
  }
  return kSuccess;
}

int ProcessUtilization(Device device, ProcessUtilizationSample* out, unsigned* count, unsigned long long) {
  constexpr const char* kCall = "nvmlDeviceGetProcessUtilization";
  ReplayCall call(kCall, device);
  if (!count) return kInvalidArgument;
  std::vector<unsigned> rows;
  if (int code = Rows(call, kCall, 5, *count, rows); code != kSuccess) return code;
  const auto now = static_cast<unsigned long long>(ReplayUnixUs());
  for (size_t i = 0; out && i < *count; ++i) {
    const unsigned* row = &rows[i * 5];
    out[i] = {row[0], now, row[1], row[2], row[3], row[4]};
  }
  return kSuccess;
}

int ActiveVgpus(Device device, unsigned* count, unsigned* out) {
  constexpr const char* kCall = "nvmlDeviceGetActiveVgpus";
  ReplayCall call(kCall, device);
  if (!count) return kInvalidArgument;
  std::vector<unsigned> ids;
  if (int code = Rows(call, kCall, 1, *count, ids); code != kSuccess) return code;
  if (out) std::copy(ids.begin(), ids.end(), out);
  return kSuccess;
}

// [type, id, sm, memory, encoder, decoder(, jpeg, ofa), id, …]
int VgpuRows(const RecordedAnswer& answer, size_t width, unsigned& type, unsigned& count,
             std::vector<Value>& out) {
  if (answer.code != kSuccess) return answer.code;
  type = answer.values.empty() ? unsigned{kUint} : TypeOf(answer.values[0]);
  if (type > kUshort) return kUnknownError;
  unsigned room = count;
  count = answer.values.empty() ? 0 : static_cast<unsigned>((answer.values.size() - 1) / width);
  if (count > room) return kInsufficientSize;
  out.resize(count * width);
  for (size_t i = 0; i < out.size(); ++i) {
    bool id = i % width == 0;
    if (!ValueOf(id ? unsigned{kUint} : type, answer.values[i + 1], out[i])) return kUnknownError;
  }
  return kSuccess;
}

int VgpusUtilizationInfo(Device device, VgpusUtilization* request) {
  constexpr const char* kCall = "nvmlDeviceGetVgpuInstancesUtilizationInfo";
  ReplayCall call(kCall, device);
  if (!request || request->version != kVgpusUtilizationV1) return kArgumentVersionMismatch;
  std::vector<Value> rows;
  int code = VgpuRows(call.Find(kCall), 7, request->value_type, request->count, rows);
  if (code != kSuccess) return code;
  const auto now = static_cast<unsigned long long>(ReplayUnixUs());
  for (size_t i = 0; i < request->count; ++i) {
    const Value* row = &rows[i * 7];
    request->list[i] = {now, row[0].uint_value, row[1], row[2], row[3], row[4], row[5], row[6]};
  }
  return kSuccess;
}

int VgpuUtilization(Device device, unsigned long long, unsigned* type, unsigned* count,
                    VgpuUtilizationSample* out) {
  constexpr const char* kCall = "nvmlDeviceGetVgpuUtilization";
  ReplayCall call(kCall, device);
  if (!type || !count || !out) return kInvalidArgument;
  std::vector<Value> rows;
  if (int code = VgpuRows(call.Find(kCall), 5, *type, *count, rows); code != kSuccess) return code;
  const auto now = static_cast<unsigned long long>(ReplayUnixUs());
  for (size_t i = 0; i < *count; ++i) {
    const Value* row = &rows[i * 5];
    out[i] = {row[0].uint_value, now, row[1], row[2], row[3], row[4]};
  }
  return kSuccess;
}

}  // namespace

std::span<const NamedFunction> ReplaySpecialFunctions() noexcept {
  static const NamedFunction kTable[] = {
#define GPULENS_NVML_ROW(id) {CallName(Call::k##id), Pointer(&id)},
      GPULENS_NVML_SPECIAL_CALLS(GPULENS_NVML_ROW)
#undef GPULENS_NVML_ROW
#define GPULENS_NVML_ROW(id) {CallName(Call::k##id), Pointer(&ListedProcesses<Call::k##id>)},
          GPULENS_NVML_PROCESS_CALLS(GPULENS_NVML_ROW)
#undef GPULENS_NVML_ROW
  };
  return kTable;
}

}  // namespace gpulens::nvml
