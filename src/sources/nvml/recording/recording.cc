#include "sources/nvml/recording/recording.h"

#include <algorithm>
#include <cstdio>
#include <set>

#include "base/parse.h"

namespace gpulens::nvml {
namespace {

struct Word {
  int code;
  std::string_view word;
};
// The library's names without their common beginning.
constexpr Word kWords[] = {
    {1, "UNINITIALIZED"},
    {2, "INVALID_ARGUMENT"},
    {3, "NOT_SUPPORTED"},
    {4, "NO_PERMISSION"},
    {5, "ALREADY_INITIALIZED"},
    {6, "NOT_FOUND"},
    {7, "INSUFFICIENT_SIZE"},
    {8, "INSUFFICIENT_POWER"},
    {9, "DRIVER_NOT_LOADED"},
    {10, "TIMEOUT"},
    {11, "IRQ_ISSUE"},
    {12, "LIBRARY_NOT_FOUND"},
    {13, "FUNCTION_NOT_FOUND"},
    {14, "CORRUPTED_INFOROM"},
    {15, "GPU_IS_LOST"},
    {16, "RESET_REQUIRED"},
    {17, "OPERATING_SYSTEM"},
    {18, "LIB_RM_VERSION_MISMATCH"},
    {19, "IN_USE"},
    {20, "MEMORY"},
    {21, "NO_DATA"},
    {22, "VGPU_ECC_NOT_SUPPORTED"},
    {23, "INSUFFICIENT_RESOURCES"},
    {24, "FREQ_NOT_SUPPORTED"},
    {25, "ARGUMENT_VERSION_MISMATCH"},
    {26, "DEPRECATED"},
    {27, "NOT_READY"},
    {28, "GPU_NOT_FOUND"},
    {29, "INVALID_STATE"},
    {999, "UNKNOWN"},
};
constexpr std::string_view kOther = "CODE_";

// Pids above what the kernel ever gives (2^22): none of a machine that replays is meant by accident.
constexpr uint64_t kFirstMadeUpPid = 5'000'001;

struct PidRows {
  std::string_view words;
  size_t first, width;  // The places first, first + width, … hold pids.
};
constexpr PidRows kPids[] = {
    {"RunningProcesses_v3", 0, 4}, {"RunningProcesses_v2", 0, 4},         {"RunningProcesses", 0, 2},
    {"ProcessUtilization", 0, 5},  {"GetProcessesUtilizationInfo", 0, 7},
};

class Hider {
 public:
  // All pids first, so that the made-up ones are in the same order: lists sorted by pid stay sorted.
  void Collect(const AnswerTracks& tracks) {
    for (const auto& [question, track] : tracks) {
      Collect(BaseOf(question), track.first);
      for (const auto& [at, answer] : track.later) Collect(BaseOf(question), answer);
    }
  }
  void NumberPids() {
    for (uint64_t pid : pids_) Number("pid", std::to_string(pid), 0);
  }

  void Hide(AnswerTracks& tracks) {
    for (auto& [question, track] : tracks) {
      Hide(BaseOf(question), track.first);
      for (auto& [at, answer] : track.later) Hide(BaseOf(question), answer);
    }
  }

 private:
  void Collect(std::string_view base, const RecordedAnswer& answer) {
    ForPids(base, answer.values, [&](const std::string& text) {
      if (auto pid = ParseInt<uint64_t>(text)) pids_.insert(*pid);
    });
  }

  template <class Values, class Body>
  static void ForPids(std::string_view base, Values& values, Body body) {
    for (const PidRows& rows : kPids) {
      if (!base.ends_with(rows.words)) continue;
      for (size_t i = rows.first; i < values.size(); i += rows.width) body(values[i]);
      return;
    }
  }

  void Hide(std::string_view base, RecordedAnswer& answer) {
    auto& values = answer.values;
    if (values.empty()) return;
    if (base == "nvmlDeviceGetUUID") values[0] = Uuid(values[0]);
    if (base == "nvmlVgpuInstanceGetUUID") values[0] = MadeUp("", values[0]);
    if (base == "nvmlDeviceGetSerial") values[0] = Ordinal("serial", values[0], 1'650'000'000'001);
    if (base == "nvmlVgpuInstanceGetVmID") values[0] = "vm-" + Ordinal("vm", values[0], 1);
    // Sixteen bytes in hexadecimal, then, of the platform, sixteen more.
    if (base.starts_with("nvmlDeviceGetGpuFabricInfo")) values[0] = Bytes(values[0]);
    if (base == "nvmlDeviceGetPlatformInfo") {
      for (size_t i = 0; i < values.size() && i < 2; ++i) values[i] = Bytes(values[i]);
    }
    ForPids(base, values, [&](std::string& pid) { pid = Ordinal("pid", pid, kFirstMadeUpPid); });
  }

  // The how manieth of its kind, from `base` on. The same text gets the same number.
  uint64_t Number(const std::string& kind, const std::string& text, uint64_t base) {
    auto& known = known_[kind];
    return base + known.emplace(text, known.size()).first->second;
  }
  std::string Ordinal(const std::string& kind, const std::string& text, uint64_t base) {
    return std::to_string(Number(kind, text, base));
  }
  std::string Uuid(const std::string& text) {
    return MadeUp(text.starts_with("MIG-") ? "MIG-" : "GPU-", text);
  }
  std::string MadeUp(const char* prefix, const std::string& text) {
    char out[64];
    std::snprintf(out, sizeof out, "%s7265636f-7264-4000-8000-%012llx", prefix,
                  static_cast<unsigned long long>(Number(std::string("uuid") + prefix, text, 1)));
    return out;
  }
  // All zeros: there is none.
  std::string Bytes(const std::string& hex) {
    if (hex.find_first_not_of('0') == std::string::npos) return hex;
    char out[40];
    std::snprintf(out, sizeof out, "7265636f726440008000%012llx",
                  static_cast<unsigned long long>(Number("bytes", hex, 1)));
    return out;
  }

  std::map<std::string, std::map<std::string, uint64_t>> known_;
  std::set<uint64_t> pids_;
};

}  // namespace

const RecordedAnswer& AnswerTrack::At(double seconds) const noexcept {
  auto after = std::upper_bound(later.begin(), later.end(), seconds,
                                [](double t, const auto& change) { return t < change.first; });
  return after == later.begin() ? first : std::prev(after)->second;
}

AnswerTracks* NvmlRecording::Find(std::string_view device) {
  if (device == "system") return &system;
  if (!device.starts_with("gpu")) return nullptr;
  device.remove_prefix(3);
  std::string_view number = TakeUntil(device, '.');
  auto index = ParseInt<unsigned>(number);
  if (!index || *index >= gpus.size()) return nullptr;
  RecordedGpu& gpu = gpus[*index];
  if (device.empty()) return &gpu.calls;
  if (!device.starts_with("mig")) return nullptr;
  auto place = ParseInt<unsigned>(device.substr(3));
  auto found = place ? gpu.mig.find(*place) : gpu.mig.end();
  return found == gpu.mig.end() ? nullptr : &found->second;
}

std::string_view BaseOf(std::string_view question) noexcept { return question.substr(0, question.find('(')); }

bool IsQuestion(std::string_view text) noexcept {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) { return c >= ' ' && c <= '~'; });
}

std::string_view CodeWord(int code) noexcept {
  for (const Word& word : kWords) {
    if (word.code == code) return word.word;
  }
  return {};
}

int CodeOfWord(std::string_view text) noexcept {
  for (const Word& word : kWords) {
    if (word.word == text) return word.code;
  }
  if (!text.starts_with(kOther)) return -1;
  auto code = ParseInt<int>(text.substr(kOther.size()));
  return code && *code > 0 ? *code : -1;
}

std::string WordOfCode(int code) {
  std::string_view word = CodeWord(code);
  return word.empty() ? std::string(kOther) + std::to_string(code) : std::string(word);
}

void HideIdentity(NvmlRecording& recording) {
  Hider hider;
  hider.Collect(recording.system);
  for (const RecordedGpu& gpu : recording.gpus) {
    hider.Collect(gpu.calls);
    for (const auto& [place, tracks] : gpu.mig) hider.Collect(tracks);
  }
  hider.NumberPids();
  hider.Hide(recording.system);
  for (RecordedGpu& gpu : recording.gpus) {
    hider.Hide(gpu.calls);
    for (auto& [place, tracks] : gpu.mig) hider.Hide(tracks);
  }
  recording.identity_kept = false;
}

}  // namespace gpulens::nvml
