// The functions of the recorder for what was measured between two moments: the driver's samples, GPM, and
// what processes and vGPUs used. Of long lists of samples what they came to is kept, not each of them.
#include <algorithm>
#include <map>
#include <mutex>

#include "sources/nvml/capture/spool.h"
#include "sources/nvml/reader/gpu_items.h"
#include "sources/nvml/reader/nvml_abi.h"

namespace gpulens::nvml {
namespace {

// [type, number, least, sum, greatest] of those after `since_us`.
Answer SummaryOf(unsigned type, std::span<const Sample> samples, unsigned long long since_us) {
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
  Question question("nvmlDeviceGetSamples");
  question.In(kind);
  Answer answer{.code = code, .values = {}};
  if (!out) {
    question.Add("room");
    if (code == kSuccess || code == kInsufficientSize) answer.values = {std::to_string(*count)};
  } else if (code == kSuccess) {
    answer = SummaryOf(*type, {out, std::min(*count, room)}, since_us);
  }
  Note(NameOfDevice(device), std::move(question).Take(), std::move(answer));
  return code;
}

// Of whom each GPM sample was taken.
struct Taken {
  std::string device;
  bool mig = false;
  unsigned instance = 0;
};
struct CapturedTable {
  std::mutex mutex;
  std::map<GpmSample, Taken> samples;
};
CapturedTable& Table() {
  static auto* table = new CapturedTable;
  return *table;
}
void Keep(GpmSample sample, Taken taken) {
  std::lock_guard lock(Table().mutex);
  Table().samples[sample] = std::move(taken);
}

int GpmAlloc(GpmSample* out) { return Recorded().GpmAlloc(out); }
int GpmFree(GpmSample sample) {
  {
    std::lock_guard lock(Table().mutex);
    Table().samples.erase(sample);
  }
  return Recorded().GpmFree(sample);
}
int GpmTake(Device device, GpmSample sample) {
  int code = Recorded().GpmTake(device, sample);
  std::string name = NameOfDevice(device);
  Note(name, "nvmlGpmSampleGet", {.code = code, .values = {}});
  Keep(sample, {.device = std::move(name)});
  return code;
}
int GpmTakeMig(Device device, unsigned instance, GpmSample sample) {
  int code = Recorded().GpmTakeMig(device, instance, sample);
  std::string name = NameOfDevice(device);
  Question question("nvmlGpmMigSampleGet");
  question.In(instance);
  Note(name, std::move(question).Take(), {.code = code, .values = {}});
  Keep(sample, {.device = std::move(name), .mig = true, .instance = instance});
  return code;
}
int GpmMetrics(GpmMetricsGet* request) {
  int code = Recorded().GpmMetrics(request);
  Taken taken;
  {
    std::lock_guard lock(Table().mutex);
    taken = Table().samples[request->newer];
  }
  std::span metrics(request->metrics, std::min(request->count, kGpmRoom));
  unsigned greatest = 0;
  for (const GpmMetric& metric : metrics) greatest = std::max(greatest, metric.id);
  Question question("nvmlGpmMetricsGet");
  question.In(greatest);
  Note(taken.device, std::move(question).Take(), {.code = code, .values = {}});
  if (code != kSuccess) return code;
  for (const GpmMetric& metric : metrics) {
    Question one("gpm " + std::to_string(metric.id));
    if (taken.mig) one.In(taken.instance);
    Answer answer{.code = metric.code, .values = {}};
    if (metric.code == kSuccess) answer.values = {TextOf(metric.value)};
    Note(taken.device, std::move(one).Take(), std::move(answer));
  }
  return code;
}

// The newest row of each id, in the order of ids.
class Newest {
 public:
  void Add(unsigned id, unsigned long long timestamp_us, std::vector<std::string> row) {
    auto& place = rows_[id];
    if (place.second.empty() || place.first < timestamp_us) place = {timestamp_us, std::move(row)};
  }
  Answer Take(int code, std::vector<std::string> before = {}) {
    Answer answer{.code = code, .values = {}};
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

int ProcessesInfo(Device device, ProcessesUtilization* request) {
  unsigned room = request->count;
  int code = Recorded().ProcessesUtilizationInfo(device, request);
  if (code == kInsufficientSize) return code;
  Newest rows;
  for (unsigned i = 0; code == kSuccess && i < std::min(request->count, room); ++i) {
    const ProcessUtilizationInfo& info = request->list[i];
    if (info.pid == 0) continue;
    rows.Add(info.pid, info.timestamp_us,
             Row({info.sm, info.memory, info.encoder, info.decoder, info.jpeg, info.ofa}));
  }
  Note(NameOfDevice(device), "nvmlDeviceGetProcessesUtilizationInfo", rows.Take(code));
  return code;
}

int ProcessSamples(Device device, ProcessUtilizationSample* out, unsigned* count, unsigned long long since) {
  unsigned room = *count;
  int code = Recorded().ProcessUtilization(device, out, count, since);
  if (code == kInsufficientSize) return code;
  Newest rows;
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
  Answer answer{.code = code, .values = {}};
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

int VgpusInfo(Device device, VgpusUtilization* request) {
  unsigned room = request->count;
  int code = Recorded().VgpusUtilizationInfo(device, request);
  unsigned type = std::min(request->value_type, unsigned{kUshort});
  Newest rows;
  for (unsigned i = 0; code == kSuccess && i < std::min(request->count, room); ++i) {
    const VgpuUtilizationInfo& info = request->list[i];
    rows.Add(info.vgpu, info.timestamp_us,
             Row(type, {info.sm, info.memory, info.encoder, info.decoder, info.jpeg, info.ofa}));
  }
  Note(NameOfDevice(device), "nvmlDeviceGetVgpuInstancesUtilizationInfo", rows.Take(code, {TypeName(type)}));
  return code;
}

int VgpuSamples(Device device, unsigned long long since, unsigned* type, unsigned* count,
                VgpuUtilizationSample* out) {
  unsigned room = *count;
  int code = Recorded().VgpuUtilization(device, since, type, count, out);
  Newest rows;
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

std::span<const RecorderSymbol> RecorderUseSymbols() noexcept {
  static const RecorderSymbol kTable[] = {
      {"nvmlDeviceGetSamples", Pointer(&Samples)},
      {"nvmlGpmSampleAlloc", Pointer(&GpmAlloc)},
      {"nvmlGpmSampleFree", Pointer(&GpmFree)},
      {"nvmlGpmSampleGet", Pointer(&GpmTake)},
      {"nvmlGpmMigSampleGet", Pointer(&GpmTakeMig)},
      {"nvmlGpmMetricsGet", Pointer(&GpmMetrics)},
      {"nvmlDeviceGetProcessesUtilizationInfo", Pointer(&ProcessesInfo)},
      {"nvmlDeviceGetProcessUtilization", Pointer(&ProcessSamples)},
      {"nvmlDeviceGetActiveVgpus", Pointer(&ActiveVgpus)},
      {"nvmlDeviceGetVgpuInstancesUtilizationInfo", Pointer(&VgpusInfo)},
      {"nvmlDeviceGetVgpuUtilization", Pointer(&VgpuSamples)},
  };
  return kTable;
}

}  // namespace gpulens::nvml
