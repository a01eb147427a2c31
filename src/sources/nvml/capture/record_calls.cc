// The functions of the recorder whose answers need more than ValuesOut: those that open the library and give
// handles, lists of fields and processes, events, and measurements between two moments (the driver's samples,
// GPM, what processes and vGPUs used). Long lists of samples are recorded as a summary.
#include <algorithm>
#include <map>
#include <mutex>

#include "sources/nvml/capture/spool.h"
#include "sources/nvml/reader/gpu_items.h"

namespace gpulens::nvml {
namespace {

int Init() { return Recorded().Init(); }
int InitV1() { return Recorded().InitV1(); }

int Count(int (*function)(unsigned*), unsigned* out) {
  int code = function(out);
  if (code == kSuccess && out) *out = SeemingCount(*out);
  RecordedAnswer answer = AnswerOf(code);
  if (code == kSuccess) answer.values = {std::to_string(*out)};
  Note("system", "nvmlDeviceGetCount_v2", std::move(answer));
  return code;
}
int DeviceCount(unsigned* out) { return Count(Recorded().DeviceCount.pointer, out); }
int DeviceCountV1(unsigned* out) { return Count(Recorded().DeviceCountV1.pointer, out); }

int Handle(int (*function)(unsigned, Device*), unsigned index, Device* out) {
  unsigned real = RealIndex(index);
  if (real == ~0U) return kInvalidArgument;
  int code = function(real, out);
  std::string name = "gpu" + std::to_string(index);
  if (code == kSuccess) NameDevice(*out, name);
  Note(name, "nvmlDeviceGetHandleByIndex_v2", AnswerOf(code));
  return code;
}
int HandleByIndex(unsigned index, Device* out) {
  return Handle(Recorded().HandleByIndex.pointer, index, out);
}
int HandleByIndexV1(unsigned index, Device* out) {
  return Handle(Recorded().HandleByIndexV1.pointer, index, out);
}

int MigDeviceHandle(Device device, unsigned place, Device* out) {
  int code = Recorded().MigDeviceHandle(device, place, out);
  std::string gpu = NameOfDevice(device);
  if (code == kSuccess && !gpu.empty()) NameDevice(*out, gpu + ".mig" + std::to_string(place));
  Note(gpu, QuestionOf("nvmlDeviceGetMigDeviceHandleByIndex", place), AnswerOf(code));
  return code;
}

int FieldValues(Device device, int count, FieldValue* values) {
  int code = Recorded().FieldValues(device, count, values);
  std::string name = NameOfDevice(device);
  Note(name, "nvmlDeviceGetFieldValues", AnswerOf(code));
  if (code != kSuccess) return code;
  for (const FieldValue& value : std::span(values, static_cast<size_t>(std::max(count, 0)))) {
    RecordedAnswer answer = AnswerOf(value.code);
    if (value.code == kSuccess) {
      unsigned type = std::min(value.value_type, unsigned{kUshort});
      answer.values = {TextOf(type, value.value), std::string(kValueTypes[type])};
    }
    Note(name, FieldQuestion(value), std::move(answer));
  }
  return code;
}

std::string OrNone(uint64_t number, uint64_t none) {
  return number == none ? "none" : std::to_string(number);
}

template <auto kMember>
int ListedProcesses(Device device, unsigned* count, void* out) {
  unsigned room = *count;
  const auto& function = Recorded().*kMember;
  int code = function(device, count, out);
  if (code == kInsufficientSize) return code;  // Called again with more room.
  std::string_view name = CallName(function.call);
  bool v1 = !name.ends_with("_v2") && !name.ends_with("_v3");
  RecordedAnswer answer = AnswerOf(code);
  for (unsigned i = 0; code == kSuccess && i < std::min(*count, room); ++i) {
    if (v1) {
      const auto& info = static_cast<const ProcessInfoV1*>(out)[i];
      answer.values.insert(answer.values.end(), {std::to_string(info.pid), OrNone(info.used_memory, ~0ULL)});
      continue;
    }
    const auto& info = static_cast<const ProcessInfoV2*>(out)[i];
    answer.values.insert(answer.values.end(),
                         {std::to_string(info.pid), OrNone(info.used_memory, ~0ULL),
                          OrNone(info.gpu_instance, ~0U), OrNone(info.compute_instance, ~0U)});
  }
  Note(NameOfDevice(device), std::string(name), std::move(answer));
  return code;
}

// The words of a set as hexadecimal numbers, without those that are 0 at its end.
RecordedAnswer WordsOf(int code, std::span<const unsigned long> words) {
  RecordedAnswer answer = AnswerOf(code);
  if (code != kSuccess) return answer;
  while (!words.empty() && words.back() == 0) words = words.first(words.size() - 1);
  for (unsigned long word : words) {
    char text[20];
    auto [end, error] = std::to_chars(text, text + sizeof text, word, 16);
    answer.values.emplace_back(text, end);
  }
  return answer;
}

int CpuAffinity(Device device, unsigned size, unsigned long* out) {
  int code = Recorded().CpuAffinity(device, size, out);
  Note(NameOfDevice(device), "nvmlDeviceGetCpuAffinity", WordsOf(code, {out, size}));
  return code;
}
int MemoryAffinity(Device device, unsigned size, unsigned long* out, unsigned scope) {
  int code = Recorded().MemoryAffinity(device, size, out, scope);
  Note(NameOfDevice(device), QuestionOf("nvmlDeviceGetMemoryAffinity", scope), WordsOf(code, {out, size}));
  return code;
}

int EventSetCreate(EventSet* out) {
  int code = Recorded().EventSetCreate(out);
  Note("system", "nvmlEventSetCreate", AnswerOf(code));
  return code;
}
int RegisterEvents(Device device, unsigned long long types, EventSet set) {
  int code = Recorded().RegisterEvents(device, types, set);
  Note(NameOfDevice(device), "nvmlDeviceRegisterEvents", AnswerOf(code));
  return code;
}
int EventWait(EventSet set, EventData* out, unsigned timeout_ms) {
  int code = Recorded().EventWait(set, out, timeout_ms);
  if (code == kSuccess) NoteEvent(*out);
  return code;
}
int EventWaitV1(EventSet set, EventDataV1* out, unsigned timeout_ms) {
  int code = Recorded().EventWaitV1(set, out, timeout_ms);
  if (code == kSuccess) NoteEvent({out->device, out->type, out->data, ~0U, ~0U});
  return code;
}

// [type, number, least, sum, greatest] of those after `since_us`.
RecordedAnswer SummaryOf(unsigned type, std::span<const Sample> samples, unsigned long long since_us) {
  uint64_t least = UINT64_MAX, sum = 0, greatest = 0, count = 0;
  for (const Sample& sample : samples) {
    if (sample.timestamp_us <= since_us) continue;
    uint64_t value = UnsignedOf(type, sample.value);
    least = std::min(least, value);
    greatest = std::max(greatest, value);
    sum += value;
    ++count;
  }
  if (count == 0) least = 0;
  return {.code = kSuccess,
          .values = {std::string(kValueTypes[std::min(type, unsigned{kUshort})]), std::to_string(count),
                     std::to_string(least), std::to_string(sum), std::to_string(greatest)}};
}

int Samples(Device device, unsigned kind, unsigned long long since_us, unsigned* type, unsigned* count,
            Sample* out) {
  unsigned room = *count;
  int code = Recorded().Samples(device, kind, since_us, type, count, out);
  if (out && code == kInsufficientSize) return code;  // Called again with more room.
  CallQuestion question("nvmlDeviceGetSamples");
  question.In(kind);
  RecordedAnswer answer = AnswerOf(code);
  if (!out) {
    question.Add("room");
    if (code == kSuccess || code == kInsufficientSize) answer.values = {std::to_string(*count)};
  } else if (code == kSuccess) {
    answer = SummaryOf(*type, {out, std::min(*count, room)}, since_us);
  }
  Note(NameOfDevice(device), std::move(question).Take(), std::move(answer));
  return code;
}

// What a GPM sample was taken of.
struct GpmSampleOrigin {
  std::string device;
  bool mig = false;
  unsigned instance = 0;
};
struct GpmSampleOrigins {
  std::mutex mutex;
  std::map<GpmSample, GpmSampleOrigin> by_sample;

  static GpmSampleOrigins& Get() {
    static auto* origins = new GpmSampleOrigins;
    return *origins;
  }
  void Set(GpmSample sample, GpmSampleOrigin origin) {
    std::lock_guard lock(mutex);
    by_sample[sample] = std::move(origin);
  }
};

int GpmAlloc(GpmSample* out) { return Recorded().GpmAlloc(out); }
int GpmFree(GpmSample sample) {
  {
    std::lock_guard lock(GpmSampleOrigins::Get().mutex);
    GpmSampleOrigins::Get().by_sample.erase(sample);
  }
  return Recorded().GpmFree(sample);
}
int GpmTake(Device device, GpmSample sample) {
  int code = Recorded().GpmTake(device, sample);
  std::string name = NameOfDevice(device);
  Note(name, "nvmlGpmSampleGet", AnswerOf(code));
  GpmSampleOrigins::Get().Set(sample, {.device = std::move(name)});
  return code;
}
int GpmTakeMig(Device device, unsigned instance, GpmSample sample) {
  int code = Recorded().GpmTakeMig(device, instance, sample);
  std::string name = NameOfDevice(device);
  Note(name, QuestionOf("nvmlGpmMigSampleGet", instance), AnswerOf(code));
  GpmSampleOrigins::Get().Set(sample, {.device = std::move(name), .mig = true, .instance = instance});
  return code;
}
int GpmMetrics(GpmMetricsGet* request) {
  int code = Recorded().GpmMetrics(request);
  GpmSampleOrigin origin;
  {
    std::lock_guard lock(GpmSampleOrigins::Get().mutex);
    origin = GpmSampleOrigins::Get().by_sample[request->newer];
  }
  std::span metrics(request->metrics, std::min(request->count, kGpmRoom));
  unsigned greatest = GreatestMetric(metrics);
  Note(origin.device, QuestionOf("nvmlGpmMetricsGet", greatest), AnswerOf(code));
  if (code != kSuccess) return code;
  for (const GpmMetric& metric : metrics) {
    CallQuestion one("gpm " + std::to_string(metric.id));
    if (origin.mig) one.In(origin.instance);
    RecordedAnswer answer = AnswerOf(metric.code);
    if (metric.code == kSuccess) answer.values = {TextOf(metric.value)};
    Note(origin.device, std::move(one).Take(), std::move(answer));
  }
  return code;
}

// The newest row of each id, in the order of ids.
class NewestRows {
 public:
  void Add(unsigned id, unsigned long long timestamp_us, std::vector<std::string> row) {
    auto& place = rows_[id];
    if (place.second.empty() || place.first < timestamp_us) place = {timestamp_us, std::move(row)};
  }
  RecordedAnswer Take(int code, std::vector<std::string> before = {}) {
    RecordedAnswer answer = AnswerOf(code);
    if (code != kSuccess) return answer;
    answer.values = std::move(before);
    for (auto& [id, row] : rows_) {
      answer.values.push_back(std::to_string(id));
      answer.values.insert(answer.values.end(), row.second.begin(), row.second.end());
    }
    return answer;
  }

 private:
  std::map<unsigned, std::pair<unsigned long long, std::vector<std::string>>> rows_;
};

std::vector<std::string> Row(std::initializer_list<unsigned> numbers) {
  std::vector<std::string> out;
  for (unsigned number : numbers) out.push_back(std::to_string(number));
  return out;
}

int ProcessesUtilizationInfo(Device device, ProcessesUtilization* request) {
  unsigned room = request->count;
  int code = Recorded().ProcessesUtilizationInfo(device, request);
  if (code == kInsufficientSize) return code;
  NewestRows rows;
  for (unsigned i = 0; code == kSuccess && i < std::min(request->count, room); ++i) {
    const ProcessUtilizationInfo& info = request->list[i];
    if (info.pid == 0) continue;
    rows.Add(info.pid, info.timestamp_us,
             Row({info.sm, info.memory, info.encoder, info.decoder, info.jpeg, info.ofa}));
  }
  Note(NameOfDevice(device), "nvmlDeviceGetProcessesUtilizationInfo", rows.Take(code));
  return code;
}

int ProcessUtilization(Device device, ProcessUtilizationSample* out, unsigned* count,
                       unsigned long long since) {
  unsigned room = *count;
  int code = Recorded().ProcessUtilization(device, out, count, since);
  if (code == kInsufficientSize) return code;
  NewestRows rows;
  for (unsigned i = 0; code == kSuccess && i < std::min(*count, room); ++i) {
    if (out[i].pid == 0) continue;
    rows.Add(out[i].pid, out[i].timestamp_us,
             Row({out[i].sm, out[i].memory, out[i].encoder, out[i].decoder}));
  }
  Note(NameOfDevice(device), "nvmlDeviceGetProcessUtilization", rows.Take(code));
  return code;
}

int ActiveVgpus(Device device, unsigned* count, unsigned* out) {
  unsigned room = *count;
  int code = Recorded().ActiveVgpus(device, count, out);
  RecordedAnswer answer = AnswerOf(code);
  for (unsigned i = 0; code == kSuccess && out && i < std::min(*count, room); ++i)
    answer.values.push_back(std::to_string(out[i]));
  Note(NameOfDevice(device), "nvmlDeviceGetActiveVgpus", std::move(answer));
  return code;
}

std::vector<std::string> Row(unsigned type, std::initializer_list<Value> values) {
  std::vector<std::string> out;
  for (const Value& value : values) out.push_back(TextOf(type, value));
  return out;
}
std::string TypeName(unsigned type) { return std::string(kValueTypes[std::min(type, unsigned{kUshort})]); }

int VgpusUtilizationInfo(Device device, VgpusUtilization* request) {
  unsigned room = request->count;
  int code = Recorded().VgpusUtilizationInfo(device, request);
  unsigned type = std::min(request->value_type, unsigned{kUshort});
  NewestRows rows;
  for (unsigned i = 0; code == kSuccess && i < std::min(request->count, room); ++i) {
    const VgpuUtilizationInfo& info = request->list[i];
    rows.Add(info.vgpu, info.timestamp_us,
             Row(type, {info.sm, info.memory, info.encoder, info.decoder, info.jpeg, info.ofa}));
  }
  Note(NameOfDevice(device), "nvmlDeviceGetVgpuInstancesUtilizationInfo", rows.Take(code, {TypeName(type)}));
  return code;
}

int VgpuUtilization(Device device, unsigned long long since, unsigned* type, unsigned* count,
                    VgpuUtilizationSample* out) {
  unsigned room = *count;
  int code = Recorded().VgpuUtilization(device, since, type, count, out);
  NewestRows rows;
  for (unsigned i = 0; code == kSuccess && out && i < std::min(*count, room); ++i) {
    const VgpuUtilizationSample& sample = out[i];
    rows.Add(
        sample.vgpu, sample.timestamp_us,
        Row(std::min(*type, unsigned{kUshort}), {sample.sm, sample.memory, sample.encoder, sample.decoder}));
  }
  Note(NameOfDevice(device), "nvmlDeviceGetVgpuUtilization", rows.Take(code, {TypeName(*type)}));
  return code;
}

}  // namespace

std::span<const NamedFunction> RecorderSpecialFunctions() noexcept {
  static const NamedFunction kTable[] = {
#define GPULENS_NVML_ROW(id) {CallName(Call::k##id), Pointer(&id)},
      GPULENS_NVML_SPECIAL_CALLS(GPULENS_NVML_ROW)
#undef GPULENS_NVML_ROW
#define GPULENS_NVML_ROW(id) {CallName(Call::k##id), Pointer(&ListedProcesses<&NvmlSymbols::id>)},
          GPULENS_NVML_PROCESS_CALLS(GPULENS_NVML_ROW)
#undef GPULENS_NVML_ROW
  };
  return kTable;
}

}  // namespace gpulens::nvml
