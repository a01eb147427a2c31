#include <cstdio>
#include <map>
#include <set>

#include "base/parse.h"
#include "sources/nvml/recording/recording.h"

namespace gpulens::nvml {
namespace {

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
  void Collect(const Tracks& tracks) {
    for (const auto& [question, track] : tracks) {
      Collect(BaseOf(question), track.first);
      for (const auto& [at, answer] : track.later) Collect(BaseOf(question), answer);
    }
  }
  void NumberPids() {
    for (uint64_t pid : pids_) Number("pid", std::to_string(pid), 0);
  }

  void Hide(Tracks& tracks) {
    for (auto& [question, track] : tracks) {
      Hide(BaseOf(question), track.first);
      for (auto& [at, answer] : track.later) Hide(BaseOf(question), answer);
    }
  }

 private:
  void Collect(std::string_view base, const Answer& answer) {
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

  void Hide(std::string_view base, Answer& answer) {
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
  // All zeros say that there is none.
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

void HideIdentity(Recording& recording) {
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
