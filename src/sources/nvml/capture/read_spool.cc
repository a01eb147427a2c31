#include <algorithm>
#include <utility>

#include "base/parse.h"
#include "sources/nvml/capture/recorder.h"
#include "sources/nvml/reader/nvml_abi.h"
#include "sources/nvml/recording/struct_members.h"

namespace gpulens::nvml {
namespace {

constexpr size_t kMaxQuestions = 8192, kMaxEvents = 10'000, kMaxMissing = 1024;
constexpr size_t kMaxMoments = 200'000;

// Calls whose first so many values only grow.
struct Counter {
  std::string_view base;
  unsigned values;
};
constexpr Counter kCounters[] = {
    {"nvmlDeviceGetTotalEnergyConsumption", 1}, {"nvmlDeviceGetPcieReplayCounter", 1},
    {"nvmlDeviceGetTotalEccErrors", 1},         {"nvmlDeviceGetMemoryErrorCounter", 1},
    {"nvmlDeviceGetRemappedRows", 2},           {"nvmlDeviceGetRetiredPages", 1},
    {"nvmlDeviceGetRetiredPages_v2", 1},        {"nvmlDeviceGetSramEccErrorStatus", kSramCounters},
};
// The same among field values, by number: from, to.
constexpr std::pair<unsigned, unsigned> kCounterFields[] = {
    {3, 31},    {32, 59},   {60, 69},   {74, 81},   {83, 83},   {94, 95},   {96, 119},
    {138, 141}, {142, 143}, {148, 163}, {169, 169}, {173, 183}, {191, 191}, {197, 198},
    {201, 215}, {218, 219}, {221, 221}, {231, 233}, {235, 250}, {269, 271}, {297, 297},
};

unsigned CounterValues(std::string_view base) {
  for (const Counter& counter : kCounters) {
    if (counter.base == base) return counter.values;
  }
  if (!base.starts_with("field ")) return 0;
  auto number = ParseInt<unsigned>(base.substr(6));
  if (!number) return 0;
  return std::any_of(std::begin(kCounterFields), std::end(kCounterFields),
                     [&](const auto& range) { return *number >= range.first && *number <= range.second; });
}

std::string Unescape(std::string_view text) {
  std::string out;
  if (text == "\\e") return out;
  for (size_t i = 0; i < text.size(); ++i) {
    auto byte =
        text.substr(i).starts_with("\\x") ? ParseInt<unsigned char>(text.substr(i + 2, 2), 16) : std::nullopt;
    if (byte) out += static_cast<char>(*byte), i += 3;
    else out += text[i];
  }
  if (out.size() > kMaxRecordedText) out.resize(kMaxRecordedText);
  return out;
}

class Reader {
 public:
  explicit Reader(Spool& out) : out_(out) {}

  void Line(std::string_view line) {
    std::string_view kind = TakeUntil(line, '\t');
    bool good = false;
    if (kind == "S") good = true;
    else if (kind == "F") good = out_.full = true;
    else if (kind == "L") good = true, out_.library_error = Unescape(line);
    else if (kind == "M") good = AddMissing(Unescape(line));
    else if (kind == "O") good = AddAnswer(line);
    else if (kind == "E") good = AddEvent(line);
    if (!good) ++out_.bad_lines;
  }

  void Finish() {
    Recording& recording = out_.recording;
    recording.identity_kept = true;
    auto note = [&](const Tracks& tracks) {
      for (const auto& [question, track] : tracks) {
        std::string_view base = BaseOf(question);
        bool has_values = !track.first.values.empty() || !track.last().values.empty();
        if (unsigned values = CounterValues(base); values > 0 && has_values)
          recording.counters[std::string(base)] = values;
      }
    };
    for (const RecordedGpu& gpu : recording.gpus) {
      note(gpu.calls);
      for (const auto& [place, tracks] : gpu.mig) note(tracks);
    }
    auto driver = recording.system.find("nvmlSystemGetDriverVersion");
    if (driver != recording.system.end() && !driver->second.last().values.empty())
      recording.driver = driver->second.last().values[0];
  }

 private:
  bool AddMissing(std::string name) {
    auto& missing = out_.recording.missing;
    if (name.empty() || missing.size() == kMaxMissing) return false;
    if (std::find(missing.begin(), missing.end(), name) == missing.end()) missing.push_back(std::move(name));
    return true;
  }

  // Seconds since the first answer of a GPU, which is where a recording begins.
  bool TakeTime(std::string_view& line, bool of_gpu, double& out) {
    auto us = ParseInt<int64_t>(TakeUntil(line, '\t'));
    if (!us || *us < 0) return false;
    if (begin_us_ < 0 && of_gpu) begin_us_ = *us;
    out = begin_us_ < 0 ? 0 : static_cast<double>(std::max<int64_t>(0, *us - begin_us_)) * 1e-6;
    return true;
  }

  // Makes the GPU and the MIG device when they are new.
  Tracks* Find(std::string_view device) {
    Recording& recording = out_.recording;
    if (device == "system") return &recording.system;
    if (!device.starts_with("gpu")) return nullptr;
    device.remove_prefix(3);
    auto index = ParseInt<unsigned>(TakeUntil(device, '.'));
    if (!index || *index >= kMaxRecordedGpus) return nullptr;
    if (*index >= recording.gpus.size()) recording.gpus.resize(*index + 1);
    RecordedGpu& gpu = recording.gpus[*index];
    if (device.empty()) return &gpu.calls;
    auto place = device.starts_with("mig") ? ParseInt<unsigned>(device.substr(3)) : std::nullopt;
    return place && *place < kMaxRecordedMig ? &gpu.mig[*place] : nullptr;
  }

  bool AddAnswer(std::string_view line) {
    std::string_view time = TakeUntil(line, '\t');
    std::string device = Unescape(TakeUntil(line, '\t')), question = Unescape(TakeUntil(line, '\t'));
    double at = 0;
    if (!TakeTime(time, device.starts_with("gpu"), at) || !IsQuestion(question)) return false;
    auto code = ParseInt<int>(TakeUntil(line, '\t'));
    Tracks* tracks = code ? Find(device) : nullptr;
    if (!tracks) return false;
    Answer answer{.code = *code, .values = {}};
    while (!line.empty() && answer.values.size() < kMaxAnswerValues)
      answer.values.push_back(Unescape(TakeUntil(line, '\t')));
    auto found = tracks->find(question);
    if (found == tracks->end()) {
      if (tracks->size() == kMaxQuestions) return false;
      (*tracks)[question].first = std::move(answer);
      return true;
    }
    // A reader process that was started again says all it knows again.
    if (found->second.last() == answer) return true;
    if (changes_ == kMaxMoments) return false;
    auto& later = found->second.later;
    if (!later.empty() && at < later.back().first) return false;
    later.emplace_back(at, std::move(answer));
    ++changes_;
    return true;
  }

  bool AddEvent(std::string_view line) {
    RecordedEvent event;
    std::string_view time = TakeUntil(line, '\t');
    std::string device = Unescape(TakeUntil(line, '\t'));
    if (!TakeTime(time, true, event.at) || !Find(device)) return false;
    std::string_view name = std::string_view(device).substr(3);
    event.gpu = ParseInt<unsigned>(TakeUntil(name, '.')).value_or(0);
    auto type = ParseInt<uint64_t>(TakeUntil(line, '\t')), data = ParseInt<uint64_t>(TakeUntil(line, '\t'));
    auto gpu = ParseInt<unsigned>(TakeUntil(line, '\t')), compute = ParseInt<unsigned>(line);
    auto& events = out_.recording.events;
    if (!type || !data || !gpu || !compute || device == "system" || events.size() == kMaxEvents) return false;
    if (!events.empty() && event.at < events.back().at) return false;
    event.type = *type, event.data = *data, event.gpu_instance = *gpu, event.compute_instance = *compute;
    events.push_back(event);
    return true;
  }

  Spool& out_;
  int64_t begin_us_ = -1;
  size_t changes_ = 0;
};

}  // namespace

Spool ReadSpool(std::string_view text) {
  Spool out;
  Reader reader(out);
  while (!text.empty()) reader.Line(TakeUntil(text, '\n'));
  reader.Finish();
  return out;
}

}  // namespace gpulens::nvml
