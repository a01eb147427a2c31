// The functions of the replay for what was measured between two moments: the driver's samples, GPM, and what
// processes and vGPUs used.
#include <algorithm>
#include <cmath>

#include "sources/nvml/simulated/fake_call.h"
#include "sources/nvml/simulated/replay.h"

namespace gpulens::nvml {
namespace {

template <class T>
bool Take(const std::vector<std::string>& values, size_t at, T& out) {
  auto number = at < values.size() ? ParseInt<T>(values[at]) : std::nullopt;
  if (number) out = *number;
  return number.has_value();
}

// What the samples between two rounds came to: [type, number, least, sum, greatest].
struct Summary {
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
  if (call.code() != kSuccess) return call.code();
  if (!type || !count) return kInvalidArgument;
  Question question(kCall);
  question.In(kind);
  if (!out) question.Add("room");
  Answer answer = call.Find(std::move(question).Take());
  if (!out) {
    unsigned room = 0;
    if (answer.values.empty()) return answer.code;
    if (!Take(answer.values, 0, room) || room > Summary::kMostSamples) return kUnknownError;
    *count = room;
    return answer.code;
  }
  if (answer.code != kSuccess) return answer.code;
  Summary summary;
  if (!summary.Read(answer.values)) return kUnknownError;
  *type = summary.type;
  auto now = static_cast<uint64_t>(ReplayUnixUs());
  auto every = static_cast<uint64_t>(call.every() * 1e6);
  uint64_t length = since_us == 0 || since_us >= now ? every : now - since_us;
  // As many as there were in one interval; in proportion when the reader comes much earlier or later.
  bool usual = length > every / 2 && length < every + every / 2;
  uint64_t number = usual ? summary.count : summary.count * length / std::max<uint64_t>(every, 1);
  number = std::min<uint64_t>({number, *count, Summary::kMostSamples});
  if (summary.count < 2) number = std::min(number, summary.count);
  for (uint64_t i = 0; i < number; ++i)
    out[i] = {now - length + length * (i + 1) / number, MakeValue(summary.type, summary.At(i, number))};
  *count = static_cast<unsigned>(number);
  return kSuccess;
}

// A GPM sample of the replay names what it was taken of: the values are in the recording.
struct Taken {
  Device device = nullptr;
  unsigned instance = kNoFakeInstance;
  double seconds = 0;
};
Taken* Of(GpmSample sample) { return reinterpret_cast<Taken*>(sample); }

int GpmAlloc(GpmSample* out) {
  if (!out) return kInvalidArgument;
  *out = reinterpret_cast<GpmSample>(new Taken);
  return kSuccess;
}
int GpmFree(GpmSample sample) {
  if (!sample) return kInvalidArgument;
  delete Of(sample);
  return kSuccess;
}

int TakeSample(const char* name, std::string question, Device device, unsigned instance, GpmSample sample) {
  ReplayCall call(name, device);
  if (call.code() != kSuccess) return call.code();
  if (!sample) return kInvalidArgument;
  Answer answer = call.Find(question);
  if (answer.code != kSuccess) return answer.code;
  *Of(sample) = {device, instance, FakeWorld::Get().OpenFor()};
  return kSuccess;
}
int GpmTake(Device device, GpmSample sample) {
  return TakeSample("nvmlGpmSampleGet", "nvmlGpmSampleGet", device, kNoFakeInstance, sample);
}
int GpmTakeMig(Device device, unsigned instance, GpmSample sample) {
  Question question("nvmlGpmMigSampleGet");
  question.In(instance);
  return TakeSample("nvmlGpmMigSampleGet", std::move(question).Take(), device, instance, sample);
}

int GpmMetrics(GpmMetricsGet* request) {
  constexpr const char* kCall = "nvmlGpmMetricsGet";
  if (!request || request->version != kGpmVersion) return kArgumentVersionMismatch;
  if (!request->older || !request->newer || request->count > kGpmRoom) return kInvalidArgument;
  const Taken &older = *Of(request->older), &newer = *Of(request->newer);
  if (!newer.device || older.device != newer.device || older.instance != newer.instance ||
      newer.seconds <= older.seconds) {
    return kInvalidArgument;
  }
  ReplayCall call(kCall, newer.device);
  if (call.code() != kSuccess) return call.code();
  unsigned greatest = 0;
  for (unsigned i = 0; i < request->count; ++i) greatest = std::max(greatest, request->metrics[i].id);
  Answer all = call.Find(std::string(kCall) + "(" + std::to_string(greatest) + ")");
  if (all.code != kSuccess && all.code != kNotSupported) return all.code;
  for (unsigned i = 0; i < request->count; ++i) {
    GpmMetric& metric = request->metrics[i];
    std::string question = "gpm " + std::to_string(metric.id);
    if (newer.instance != kNoFakeInstance) question += "(" + std::to_string(newer.instance) + ")";
    Answer answer = call.Find(question);
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
  Answer answer = call.Find(name);
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
  if (call.code() != kSuccess) return call.code();
  if (!request || request->version != kProcessesUtilizationV1) return kArgumentVersionMismatch;
  std::vector<unsigned> rows;
  if (int code = Rows(call, kCall, 7, request->count, rows); code != kSuccess) return code;
  for (size_t i = 0; i < request->count; ++i) {
    const unsigned* row = &rows[i * 7];
    request->list[i] = {static_cast<unsigned long long>(ReplayUnixUs()),
                        row[0],
                        row[1],
                        row[2],
                        row[3],
                        row[4],
                        row[5],
                        row[6]};
  }
  return kSuccess;
}

int ProcessUtilization(Device device, ProcessUtilizationSample* out, unsigned* count, unsigned long long) {
  constexpr const char* kCall = "nvmlDeviceGetProcessUtilization";
  ReplayCall call(kCall, device);
  if (call.code() != kSuccess) return call.code();
  if (!count) return kInvalidArgument;
  std::vector<unsigned> rows;
  if (int code = Rows(call, kCall, 5, *count, rows); code != kSuccess) return code;
  for (size_t i = 0; out && i < *count; ++i) {
    const unsigned* row = &rows[i * 5];
    out[i] = {row[0], static_cast<unsigned long long>(ReplayUnixUs()), row[1], row[2], row[3], row[4]};
  }
  return kSuccess;
}

int ActiveVgpus(Device device, unsigned* count, unsigned* out) {
  constexpr const char* kCall = "nvmlDeviceGetActiveVgpus";
  ReplayCall call(kCall, device);
  if (call.code() != kSuccess) return call.code();
  if (!count) return kInvalidArgument;
  std::vector<unsigned> ids;
  if (int code = Rows(call, kCall, 1, *count, ids); code != kSuccess) return code;
  if (out) std::copy(ids.begin(), ids.end(), out);
  return kSuccess;
}

// [type, id, sm, memory, encoder, decoder(, jpeg, ofa), id, …]
int VgpuRows(const Answer& answer, size_t width, unsigned& type, unsigned& count, std::vector<Value>& out) {
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
  if (call.code() != kSuccess) return call.code();
  if (!request || request->version != kVgpusUtilizationV1) return kArgumentVersionMismatch;
  std::vector<Value> rows;
  int code = VgpuRows(call.Find(kCall), 7, request->value_type, request->count, rows);
  if (code != kSuccess) return code;
  for (size_t i = 0; i < request->count; ++i) {
    const Value* row = &rows[i * 7];
    request->list[i] = {static_cast<unsigned long long>(ReplayUnixUs()),
                        row[0].uint_value,
                        row[1],
                        row[2],
                        row[3],
                        row[4],
                        row[5],
                        row[6]};
  }
  return kSuccess;
}

int VgpuUtilization(Device device, unsigned long long, unsigned* type, unsigned* count,
                    VgpuUtilizationSample* out) {
  constexpr const char* kCall = "nvmlDeviceGetVgpuUtilization";
  ReplayCall call(kCall, device);
  if (call.code() != kSuccess) return call.code();
  if (!type || !count || !out) return kInvalidArgument;
  std::vector<Value> rows;
  if (int code = VgpuRows(call.Find(kCall), 5, *type, *count, rows); code != kSuccess) return code;
  for (size_t i = 0; i < *count; ++i) {
    const Value* row = &rows[i * 5];
    out[i] = {
        row[0].uint_value, static_cast<unsigned long long>(ReplayUnixUs()), row[1], row[2], row[3], row[4]};
  }
  return kSuccess;
}

}  // namespace

std::span<const ReplaySymbol> ReplayUseSymbols() noexcept {
  static const ReplaySymbol kTable[] = {
      {"nvmlDeviceGetSamples", Pointer(&Samples)},
      {"nvmlGpmSampleAlloc", Pointer(&GpmAlloc)},
      {"nvmlGpmSampleFree", Pointer(&GpmFree)},
      {"nvmlGpmSampleGet", Pointer(&GpmTake)},
      {"nvmlGpmMigSampleGet", Pointer(&GpmTakeMig)},
      {"nvmlGpmMetricsGet", Pointer(&GpmMetrics)},
      {"nvmlDeviceGetProcessesUtilizationInfo", Pointer(&ProcessesUtilizationInfo)},
      {"nvmlDeviceGetProcessUtilization", Pointer(&ProcessUtilization)},
      {"nvmlDeviceGetActiveVgpus", Pointer(&ActiveVgpus)},
      {"nvmlDeviceGetVgpuInstancesUtilizationInfo", Pointer(&VgpusUtilizationInfo)},
      {"nvmlDeviceGetVgpuUtilization", Pointer(&VgpuUtilization)},
  };
  return kTable;
}

}  // namespace gpulens::nvml
