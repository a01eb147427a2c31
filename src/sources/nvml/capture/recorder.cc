#include "sources/nvml/capture/recorder.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <map>
#include <mutex>
#include <optional>
#include <unordered_map>

#include "base/clock.h"
#include "base/fd.h"
#include "base/files.h"
#include "sources/nvml/capture/spool.h"

namespace gpulens::nvml {
namespace {

// Of the whole process; never destroyed, since threads may be stuck in the library when it ends.
struct State {
  std::mutex mutex;
  RecorderOptions options;
  UniqueFd spool;
  bool opened = false;
  std::optional<NvmlLibrary> library;
  std::map<Device, std::string> names;
  std::unordered_map<std::string, Answer> last;
  size_t written = 0;
};
State& Get() {
  static State* state = new State;
  return *state;
}

int64_t NowUs(const State& state) {
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
void WriteLine(State& state, std::string line) {
  line += '\n';
  if (state.written + line.size() > kMaxSpoolBytes) {
    if (state.written < kMaxSpoolBytes) static_cast<void>(!::write(state.spool.get(), "F\n", 2));
    state.written = kMaxSpoolBytes;
    return;
  }
  ssize_t done = ::write(state.spool.get(), line.data(), line.size());
  if (done > 0) state.written += static_cast<size_t>(done);
}

void QueryIn(Question& question, std::string& subject, Device device) {
  if (subject.empty()) subject = NameOfDevice(device);
  else question.Add(NameOfDevice(device));
}
template <class P>
void QueryIn(Question& question, std::string& subject, P parameter) {
  if (subject.empty()) subject = "system";
  question.In(parameter);
}

template <auto kMember, Call kCall, class... P>
struct Plain {
  static int Do(P... parameters) {
    Question question(CallName(kCall));
    std::string subject;
    (QueryIn(question, subject, parameters), ...);
    Answer answer{.code = (Recorded().*kMember)(parameters...), .values = {}};
    // Asked without a buffer these two fail, and tell how many pages there are.
    bool counted = kCall == Call::kRetiredPages || kCall == Call::kRetiredPagesV2;
    if (answer.code == kSuccess || (counted && answer.code == kInsufficientSize)) {
      ValuesOut out(answer.values);
      (out.Out(parameters), ...);
    }
    int code = answer.code;
    Note(subject, std::move(question).Take(), std::move(answer));
    return code;
  }
};

template <auto kMember, Call kCall, class... P>
void* PlainFunction(int (*)(P...)) {
  if constexpr (sizeof...(P) > 0 && (kPlainParameter<P> && ...))
    return reinterpret_cast<void*>(&Plain<kMember, kCall, P...>::Do);
  else return nullptr;
}

std::span<const RecorderSymbol> PlainSymbols() {
  static const RecorderSymbol kTable[] = {
#define GPULENS_NVML_RECORD(id, symbol, parameters) \
  {symbol, PlainFunction<&Symbols::id, Call::k##id>(static_cast<decltype(Symbols::id)>(nullptr))},
      GPULENS_NVML_CALLS(GPULENS_NVML_RECORD)
#undef GPULENS_NVML_RECORD
  };
  return kTable;
}

// Which functions the library has, by name.
bool Has(const Symbols& symbols, std::string_view name) {
#define GPULENS_NVML_HAS(id, symbol, parameters) \
  if (name == symbol) return symbols.id != nullptr;
  GPULENS_NVML_CALLS(GPULENS_NVML_HAS)
#undef GPULENS_NVML_HAS
  return false;
}

void OpenLibrary(State& state) {
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
  for (const RecorderSymbol& symbol : PlainSymbols()) {
    if (Has(state.library->fn(), symbol.name)) continue;
    std::string line = "M";
    AppendField(line, symbol.name);
    WriteLine(state, std::move(line));
  }
}

}  // namespace

const Symbols& Recorded() { return Get().library->fn(); }

std::string NameOfDevice(Device device) {
  State& state = Get();
  std::lock_guard lock(state.mutex);
  auto found = state.names.find(device);
  return found == state.names.end() ? std::string() : found->second;
}

void NameDevice(Device device, std::string name) {
  State& state = Get();
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

void Note(const std::string& device, std::string question, Answer answer) {
  if (device.empty()) return;
  State& state = Get();
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
  State& state = Get();
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
  State& state = Get();
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
  State& state = Get();
  if (!std::exchange(state.opened, true)) OpenLibrary(state);
  if (!state.library || !Has(state.library->fn(), name)) return nullptr;
  for (std::span<const RecorderSymbol> table :
       {RecorderListSymbols(), RecorderUseSymbols(), PlainSymbols()}) {
    for (const RecorderSymbol& symbol : table) {
      if (symbol.name == name) return symbol.function;
    }
  }
  return nullptr;
}

}  // namespace gpulens::nvml
