#include "sources/nvml/capture/recorder.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <map>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <utility>

#include "base/fd.h"
#include "base/files.h"
#include "base/parse.h"
#include "sources/nvml/capture/spool.h"
#include "sources/nvml/reader/nvml_abi.h"
#include "sources/nvml/recording/call_text.h"

namespace gpulens::nvml {
namespace {

// Of the whole process; never destroyed, since threads may be stuck in the library when it ends.
struct RecorderState {
  std::mutex mutex;
  RecorderOptions options;
  UniqueFd spool;
  bool opened = false;
  std::optional<NvmlLibrary> library;
  std::map<Device, std::string> names;
  std::unordered_map<std::string, RecordedAnswer> last;
  size_t written = 0;
};
RecorderState& Get() {
  static RecorderState* state = new RecorderState;
  return *state;
}

int64_t NowUs(const RecorderState& state) {
  const Clock* clock = state.options.clock;
  return (clock ? clock : &RealClock())->Now().boot_ns / 1000;
}

// Tabs and ends of lines part what is written.
void AppendField(std::string& line, std::string_view text) {
  line += '\t';
  if (text.empty()) line += "\\e";  // Not the same as no field.
  for (char c : text.substr(0, kMaxRecordedText)) {
    auto byte = static_cast<unsigned char>(c);
    if (byte >= 0x20 && byte != 0x7F && c != '\\') {
      line += c;
      continue;
    }
    constexpr char kDigits[] = "0123456789abcdef";
    ((line += "\\x") += kDigits[byte >> 4]) += kDigits[byte & 15];
  }
}

// One line, under the lock, in one write: a process that is killed leaves whole lines.
void WriteLine(RecorderState& state, std::string line) {
  line += '\n';
  if (state.written + line.size() > kMaxSpoolBytes) {
    if (state.written < kMaxSpoolBytes) static_cast<void>(!::write(state.spool.get(), "F\n", 2));
    state.written = kMaxSpoolBytes;
    return;
  }
  ssize_t done = ::write(state.spool.get(), line.data(), line.size());
  if (done > 0) state.written += static_cast<size_t>(done);
}

void QueryIn(CallQuestion& question, std::string& subject, Device device) {
  if (subject.empty()) subject = NameOfDevice(device);
  else question.Add(NameOfDevice(device));
}
template <class P>
void QueryIn(CallQuestion& question, std::string& subject, P parameter) {
  if (subject.empty()) subject = "system";
  question.In(parameter);
}

template <auto kMember, class... P>
struct RecordPlain {
  static int Do(P... parameters) {
    const auto& function = Recorded().*kMember;
    CallQuestion question(CallName(function.call));
    std::string subject;
    (QueryIn(question, subject, parameters), ...);
    RecordedAnswer answer{.code = function(parameters...), .values = {}};
    // Called without a buffer these two fail, and return how many pages there are.
    bool counted = function.call == Call::kRetiredPages || function.call == Call::kRetiredPagesV2;
    if (answer.code == kSuccess || (counted && answer.code == kInsufficientSize)) {
      ValuesOut out(answer.values);
      (out.Out(parameters), ...);
    }
    int code = answer.code;
    Note(subject, std::move(question).Take(), std::move(answer));
    return code;
  }
};

template <auto kMember, class... P>
void* PlainFunction(reader::LibraryFunction<Call, int(P...)> NvmlSymbols::*) {
  if constexpr (sizeof...(P) > 0 && (kPlainParameter<P> && ...))
    return reinterpret_cast<void*>(&RecordPlain<kMember, P...>::Do);
  else return nullptr;
}

std::span<const NamedFunction> PlainFunctions() {
  static const NamedFunction kTable[] = {
#define GPULENS_NVML_RECORD(id, symbol, parameters) \
  {#symbol, PlainFunction<&NvmlSymbols::id>(&NvmlSymbols::id)},
      GPULENS_NVML_CALLS(GPULENS_NVML_RECORD)
#undef GPULENS_NVML_RECORD
  };
  return kTable;
}

// Which functions the library has, by name.
bool Has(const NvmlSymbols& symbols, std::string_view name) {
#define GPULENS_NVML_HAS(id, symbol, parameters) \
  if (name == #symbol) return static_cast<bool>(symbols.id);
  GPULENS_NVML_CALLS(GPULENS_NVML_HAS)
#undef GPULENS_NVML_HAS
  return false;
}

void OpenLibrary(RecorderState& state) {
  const RecorderOptions& options = state.options;
  auto library = options.lookup ? NvmlLibrary::FromLookup(options.lookup, "simulated library")
                                : NvmlLibrary::Open(options.library_path);
  std::lock_guard lock(state.mutex);
  if (!library) {
    std::string line = "L";
    AppendField(line, library.error().detail);
    WriteLine(state, std::move(line));
    return;
  }
  state.library = *std::move(library);
  for (const NamedFunction& function : PlainFunctions()) {
    if (Has(state.library->fn(), function.name)) continue;
    std::string line = "M";
    AppendField(line, function.name);
    WriteLine(state, std::move(line));
  }
}

constexpr size_t kMaxQuestions = 8192, kMaxEvents = 10'000, kMaxMissing = 1024;
constexpr size_t kMaxMoments = 200'000;

// Calls whose first so many values only grow.
struct CounterCall {
  std::string_view base;
  unsigned values;
};
constexpr CounterCall kCounters[] = {
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
  for (const CounterCall& counter : kCounters) {
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

class SpoolReader {
 public:
  explicit SpoolReader(CaptureSpool& out) : out_(out) {}

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
    NvmlRecording& recording = out_.recording;
    recording.identity_kept = true;
    auto note = [&](const AnswerTracks& tracks) {
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
  AnswerTracks* Find(std::string_view device) {
    NvmlRecording& recording = out_.recording;
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
    AnswerTracks* tracks = code ? Find(device) : nullptr;
    if (!tracks) return false;
    RecordedAnswer answer{.code = *code, .values = {}};
    while (!line.empty() && answer.values.size() < kMaxAnswerValues)
      answer.values.push_back(Unescape(TakeUntil(line, '\t')));
    auto found = tracks->find(question);
    if (found == tracks->end()) {
      if (tracks->size() == kMaxQuestions) return false;
      (*tracks)[question].first = std::move(answer);
      return true;
    }
    // A reader process that was started again sends all it knows again.
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

  CaptureSpool& out_;
  int64_t begin_us_ = -1;
  size_t changes_ = 0;
};

}  // namespace

const NvmlSymbols& Recorded() { return Get().library->fn(); }

std::string NameOfDevice(Device device) {
  RecorderState& state = Get();
  std::lock_guard lock(state.mutex);
  auto found = state.names.find(device);
  return found == state.names.end() ? std::string() : found->second;
}

void NameDevice(Device device, std::string name) {
  RecorderState& state = Get();
  std::lock_guard lock(state.mutex);
  state.names[device] = std::move(name);
}

unsigned RealIndex(unsigned index) {
  const auto& gpus = Get().options.gpus;
  if (gpus.empty()) return index;
  return index < gpus.size() ? gpus[index] : ~0U;
}

unsigned SeemingCount(unsigned count) {
  const auto& gpus = Get().options.gpus;
  if (gpus.empty()) return count;
  return static_cast<unsigned>(
      std::count_if(gpus.begin(), gpus.end(), [&](unsigned gpu) { return gpu < count; }));
}

void Note(const std::string& device, std::string question, RecordedAnswer answer) {
  if (device.empty()) return;
  RecorderState& state = Get();
  std::lock_guard lock(state.mutex);
  int64_t now = NowUs(state);
  auto [place, added] = state.last.try_emplace(device + '\t' + question);
  if (!added && place->second == answer) return;
  std::string line = "O\t" + std::to_string(now);
  AppendField(line, device);
  AppendField(line, question);
  line += '\t' + std::to_string(answer.code);
  for (size_t i = 0; i < std::min(answer.values.size(), kMaxAnswerValues); ++i)
    AppendField(line, answer.values[i]);
  place->second = std::move(answer);
  WriteLine(state, std::move(line));
}

void NoteEvent(const EventData& event) {
  std::string device = NameOfDevice(event.device);
  if (device.empty()) return;
  RecorderState& state = Get();
  std::lock_guard lock(state.mutex);
  std::string line = "E\t" + std::to_string(NowUs(state));
  AppendField(line, device);
  for (uint64_t number : {uint64_t{event.type}, uint64_t{event.data}, uint64_t{event.gpu_instance},
                          uint64_t{event.compute_instance}}) {
    line += '\t' + std::to_string(number);
  }
  WriteLine(state, std::move(line));
}

Status StartRecorder(RecorderOptions options) {
  RecorderState& state = Get();
  UniqueFd spool(::open(options.spool.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC | O_NOFOLLOW));
  if (!spool) return ErrnoStatus(options.spool, errno);
  off_t size = ::lseek(spool.get(), 0, SEEK_END);
  std::lock_guard lock(state.mutex);
  state.options = std::move(options);
  state.spool = std::move(spool);
  state.last.clear();
  state.opened = false;
  state.library.reset();
  state.written = size > 0 ? static_cast<size_t>(size) : 0;
  WriteLine(state, "S\t" + std::to_string(NowUs(state)));
  return Ok();
}

void* RecorderLookup(const char* name) {
  RecorderState& state = Get();
  if (!std::exchange(state.opened, true)) OpenLibrary(state);
  if (!state.library || !Has(state.library->fn(), name)) return nullptr;
  if (void* special = FindFunction(RecorderSpecialFunctions(), name)) return special;
  return FindFunction(PlainFunctions(), name);
}

CaptureSpool ReadSpool(std::string_view text) {
  CaptureSpool out;
  SpoolReader reader(out);
  while (!text.empty()) reader.Line(TakeUntil(text, '\n'));
  reader.Finish();
  return out;
}

}  // namespace gpulens::nvml
