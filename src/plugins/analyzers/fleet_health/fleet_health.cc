// Analyzer of the health of each GPU, of any vendor: a score with reasons and confidence over a window that
// survives restarts. docs/fleet-health.md has the formulas.

#include <algorithm>

#include "base/files.h"
#include "base/log.h"
#include "catalog/gpu.h"
#include "plugins/analyzers/fleet_health/gpu_health.h"
#include "plugins/analyzers/fleet_health/gpu_inputs.h"
#include "plugins/analyzers/fleet_health/health_state.h"
#include "plugins/plugin.h"

namespace gpulens {
namespace {

constexpr std::string_view kFileName = "/fleet_health.state";
constexpr int64_t kSaveEvery = 60'000'000'000;

class FleetHealth final : public Analyzer {
 public:
  FleetHealth(Duration window, Env& env)
      : window_(window),
        env_(env),
        path_(env.state_dir.empty() ? "" : env.state_dir + std::string(kFileName)) {
    Load();
  }
  ~FleetHealth() override {
    if (!gpus_.empty()) Save(env_.clock->Now());
  }

  Status Analyze(const Snapshot& snapshot, FrameWriter& out) override {
    inputs_.Gather(snapshot);
    Instant now = snapshot.closed_at;
    auto& gpus = inputs_.gpus();
    // When all are gone at once, no collector reads GPUs, and none is missing.
    bool any = std::any_of(gpus.begin(), gpus.end(), [](const GpuNow& gpu) { return gpu.here; });
    for (const GpuNow& gpu : gpus) {
      GpuHealth& health = Of(gpu.key);
      bool recent = now.boot_ns - health.seen_ns() <= window_.count();
      if (gpu.here) health.Update(gpu, now, out, env_.events);
      else if (any && recent && !gpu.nameless && !HasNamelessSuccessor(gpu))
        health.Missing(gpu, now, out, env_.events);
      else health.Gone(out.table());
    }
    ForgetTheGone(now);
    if (!inputs_.gpus().empty()) WriteWindow(out);
    if (saved_ns_ == 0) saved_ns_ = now.boot_ns;
    if (now.boot_ns - saved_ns_ >= kSaveEvery && !gpus_.empty()) Save(now);
    return Ok();
  }

 private:
  GpuHealth& Of(const std::string& key) {
    for (GpuHealth& health : gpus_) {
      if (health.key() == key) return health;
    }
    return gpus_.emplace_back(key, window_);
  }

  // A GPU that cannot be opened has neither model nor uuid: it is the one that had its index.
  bool HasNamelessSuccessor(const GpuNow& gone) const {
    auto& gpus = inputs_.gpus();
    return std::any_of(gpus.begin(), gpus.end(), [&](const GpuNow& other) {
      return other.here && other.nameless && other.index == gone.index;
    });
  }

  // Removes GPUs that were not seen for a window, and at once those with an index only.
  void ForgetTheGone(Instant now) {
    auto& known = inputs_.gpus();
    for (size_t i = known.size(); i-- > 0;) {
      if (known[i].here) continue;
      bool recent = now.boot_ns - Of(known[i].key).seen_ns() <= window_.count();
      if (recent && !known[i].nameless) continue;
      inputs_.Remove(i);
    }
    std::erase_if(gpus_, [&](const GpuHealth& health) {
      bool watched =
          std::any_of(known.begin(), known.end(), [&](const GpuNow& g) { return g.key == health.key(); });
      return !watched && now.boot_ns - health.seen_ns() > window_.count();
    });
  }

  void WriteWindow(FrameWriter& out) {
    if (!host_) {
      host_ = MakeRef<Entity>("host", env_.demo ? AttributeSet({{"simulated", true}}) : AttributeSet());
      length_ = out.table().Declare(kGpuHealthWindow, host_);
    }
    out.Set(length_, static_cast<double>(window_.count()) * 1e-9);
  }

  void Load() {
    if (path_.empty()) return;
    Result<std::string> text = ReadFile(path_, kHealthFileLimit);
    if (!text && text.error().code == Code::kUnavailable) return;
    Status status = text.status();
    if (text) {
      Result<std::vector<SavedGpu>> saved = DecodeHealthFile(*text);
      if (saved) return Restore(*saved);
      status = saved.error();
    }
    Log(LogLevel::kWarn, "fleet_health", "state", path_ + ": " + status.detail + "; the window starts empty");
  }

  void Restore(const std::vector<SavedGpu>& saved) {
    Instant now = env_.clock->Now();
    for (const SavedGpu& gpu : saved) {
      GpuHealth& health = gpus_.emplace_back(gpu.key, window_);
      health.SeenAt(now.boot_ns);
      if (gpu.state) health.Restore(*gpu.state);
      health.window().Restore(gpu.corrected, gpu.xids);
      for (HealthMoment moment : gpu.moments) {
        int64_t age = now.unix_ns - moment.at_ns;
        // After a clock change moments could be in the future.
        if (age < 0 || age > 2 * window_.count()) continue;
        moment.at_ns = now.boot_ns - age;
        health.window().Restore(moment);
      }
    }
  }

  void Save(Instant now) {
    saved_ns_ = now.boot_ns;
    if (path_.empty()) return;
    std::vector<SavedGpu> saved;
    for (const GpuHealth& health : gpus_) {
      SavedGpu gpu{health.key(), health.state(), health.window().corrected(), health.window().xids(), {}};
      for (size_t i = 0; i < health.window().size(); ++i) {
        HealthMoment moment = health.window()[i];
        moment.at_ns = now.unix_ns - (now.boot_ns - moment.at_ns);
        if (moment.at_ns > 0) gpu.moments.push_back(moment);
      }
      saved.push_back(std::move(gpu));
    }
    Status status = MakeFoldersAbove(path_);
    // Not synced: the tick waits for this.
    if (status) status = WriteFileAtomically(path_, EncodeHealthFile(saved), {.sync = false});
    if (!status && !save_failed_) Log(LogLevel::kWarn, "fleet_health", "state", status.detail);
    save_failed_ = !status;
  }

  const Duration window_;
  Env& env_;
  const std::string path_;  // empty: nothing is kept
  GpuInputs inputs_;
  std::vector<GpuHealth> gpus_;
  EntityRef host_;
  Series length_;
  int64_t saved_ns_ = 0;
  bool save_failed_ = false;
};

Result<std::unique_ptr<Analyzer>> Create(const Config& config, Env& env) {
  return std::unique_ptr<Analyzer>(std::make_unique<FleetHealth>(config.Time("window"), env));
}

constexpr OptionSpec kOptions[] = {
    {.key = "window",
     .type = OptionType::kTime,
     .fallback = "5m",
     .help = "Time over which rates and the heating of a GPU are computed",
     .min = 60,
     .max = 86400},
};

constexpr const MetricDesc* kMetrics[] = {
    &kGpuXidErrorRate,  &kGpuEccSbeRate,           &kGpuEccDbeTotal,     &kGpuRowRemapAvailable,
    &kGpuHealthScore,   &kGpuPcieLinkDowntraining, &kGpuThermalRampRate, &kGpuHealthConfidence,
    &kGpuHealthPenalty, &kGpuHealthState,          &kGpuHealthWindow,    &kGpuHealthCondition,
};

}  // namespace

extern const AnalyzerSpec fleet_health_analyzer;
const AnalyzerSpec fleet_health_analyzer{.name = "fleet_health",
                                         .help = "A health score of each GPU, with reasons and confidence.",
                                         .options = kOptions,
                                         .metrics = kMetrics,
                                         .create = &Create};

}  // namespace gpulens
