// Collector of the phases of processes that use a GPU or write a job page: docs/phases.md.
//
// Pages are read here, so that their marks and moments are exact. What other collectors read (utilisation,
// engines, probes from outside, energy) is taken from the latest tick, so it is up to a tick late.

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/files.h"
#include "base/parse.h"
#include "base/text.h"
#include "catalog/cuda.h"
#include "catalog/inference.h"
#include "catalog/ledger.h"
#include "catalog/phases.h"
#include "core/series_finder.h"
#include "phases/engine_evidence.h"
#include "phases/job_evidence.h"
#include "phases/process_phases.h"
#include "plugins/latest_snapshot.h"
#include "plugins/plugin.h"
#include "plugins/simulated_owners.h"
#include "sources/job_pages/job_pages.h"
#include "sources/nvml/processes/process_table.h"

namespace gpulens {
namespace {

using phases::Evidence;
using phases::Phase;
using phases::ProcessPhases;
using std::chrono::seconds;

constexpr size_t kMostProcesses = 1024;
// Of a process that no tick and no page has shown: a reader process that starts again shows none for a while.
constexpr int64_t kGraceNs = 15'000'000'000;
// A process whose page is younger counts from the page's first moment on.
constexpr int64_t kYoungNs = 30'000'000'000;
// Samples and counters of a source that has not been read for so long are over.
constexpr int64_t kSilentNs = 30'000'000'000;
constexpr double kComputes = 0.8, kStarves = 0.1;  // of the GPU's utilisation
constexpr uint64_t kReads = 1 << 20;               // bytes from storage between two runs

// The phases of the zernel telemetry API.
constexpr Phase kFivePhases[] = {Phase::kDataLoading, Phase::kGpuCompute, Phase::kNcclCollective,
                                 Phase::kOptimizerStep, Phase::kUnknown};
size_t FiveOf(Phase phase) noexcept {
  // An engine computes in both.
  if (phase == Phase::kPrefill || phase == Phase::kDecode) phase = Phase::kGpuCompute;
  const auto* at = std::find(std::begin(kFivePhases), std::end(kFivePhases), phase);
  return static_cast<size_t>((at == std::end(kFivePhases) ? at - 1 : at) - std::begin(kFivePhases));
}

// A value of another collector that grows, and when it was read.
struct Grown {
  double value = 0;
  bool known = false;
  // Its growth since the last call; a first value and one that fell are only remembered.
  double Next(double now) noexcept {
    const double growth = known && now > value ? now - value : 0;
    value = now;
    known = true;
    return growth;
  }
};

struct DiskIo {
  std::optional<uint64_t> read, written;
};
DiskIo ReadDiskIo(std::string_view text) {
  DiskIo out;
  while (!text.empty()) {
    std::string_view line = TakeUntil(text, '\n');
    const std::string_view key = TakeUntil(line, ':');
    if (key == "read_bytes") out.read = ParseInt<uint64_t>(Trim(line));
    if (key == "write_bytes") out.written = ParseInt<uint64_t>(Trim(line));
  }
  return out;
}

// One process.
struct Process {
  Process(int64_t now_ns, int64_t begun_ns) : phases(begun_ns), seen_ns(now_ns) {}

  uint64_t start_ticks = 0;
  ProcessPhases phases;
  phases::JobEvidence evidence;
  EntityRef entity;
  std::string name, owner, container, pod;
  bool simulated = false;
  bool on_gpu = false, has_page = false, measures_waits = false, launches_in_page = false;
  bool ended = false;
  int64_t seen_ns;

  // Of the latest tick.
  std::optional<double> utilization;
  int64_t sampled_ns = 0;
  double energy = 0, waits = 0, launches = 0;
  bool has_energy = false, has_waits = false, has_launches = false;
  Grown waits_grown, launches_grown;
  std::optional<phases::EngineShares> engine;
  int64_t engine_ns = 0;

  // Joules that were divided, and the times up to which they were.
  double energy_divided = 0;
  std::array<double, phases::kPhaseCount> energy_of{};
  std::array<int64_t, phases::kPhaseCount> energy_times{};
  DiskIo io;
  uint64_t read_before = 0;

  std::array<Series, phases::kPhaseCount> state, joules;
  std::array<std::array<Series, phases::kPhaseCount>, phases::kEvidenceCount> times;
  Series transitions, confidence, read, written;
  bool declared = false;
};

class PhasesCollector final : public Collector {
 public:
  PhasesCollector(Env& env, bool pages)
      : env_(env),
        root_(env.root == "/" ? "" : env.root),
        names_(env.root, FindSimulated<nvml::ProcessDetails>(env.simulated)),
        feed_(pages && env.job_pages ? env.job_pages->Subscribe("phases") : nullptr) {}

  Status Collect(FrameWriter& out) override {
    now_ = out.begun_at().boot_ns;
    names_.NextRound();
    ReadPages();
    if (env_.latest) {
      if (Ref<const Snapshot> snapshot = env_.latest->latest(); snapshot && snapshot->tick != tick_) {
        tick_ = snapshot->tick;
        ReadTick(*snapshot);
      }
    }
    EndProcesses(out);
    for (auto& [pid, process] : processes_) {
      Decide(pid, process);
      Divide(process);
      Write(pid, process, out);
    }
    WriteTotals(out);
    return Ok();
  }

 private:
  struct Engine {
    phases::EngineCounters counters, before;
    int64_t read_ns = 0;
    bool seen = false;
  };

  Process* Find(int64_t pid, uint64_t start_ticks, int64_t begun_ns) {
    auto at = processes_.find(pid);
    // The same number, and another process.
    if (at != processes_.end() && start_ticks != 0 && at->second.start_ticks != 0 &&
        at->second.start_ticks != start_ticks) {
      replaced_.push_back(at->second.entity);
      processes_.erase(at);
      at = processes_.end();
    }
    if (at == processes_.end()) {
      if (pid <= 0 || processes_.size() >= kMostProcesses) return nullptr;
      at = processes_.emplace(std::piecewise_construct, std::tuple(pid), std::tuple(now_, begun_ns)).first;
    }
    if (start_ticks != 0) at->second.start_ticks = start_ticks;
    at->second.seen_ns = now_;
    return &at->second;
  }

  void ReadPages() {
    for (auto& [pid, process] : processes_) process.has_page = false;
    if (!feed_) return;
    feed_->Visit([&](const JobPageView& view) {
      const auto opened = static_cast<int64_t>(view.page.opened_boot_ns);
      const bool young = opened <= now_ && now_ - opened < kYoungNs;
      if (view.ended && !processes_.contains(view.owner.pid)) return;
      Process* process = Find(view.owner.pid, view.owner.start_ticks, young ? opened : now_);
      if (!process) return;
      process->evidence.Read(view.page, view.records, view.edges);
      process->has_page = true;
      process->measures_waits |= view.page.data_loading.has_value();
      process->launches_in_page |= !view.page.devices.empty();
      process->on_gpu |= !view.page.devices.empty() || view.page.writer == job_page::Writer::kNcclPlugin;
      process->ended |= view.ended;
    });
  }

  // A process of a series of the latest tick; null for others.
  Process* ProcessOf(const SeriesInfo& info) {
    const auto* pid = std::get_if<int64_t>(&(value_ = info.attributes.Find("process.pid", int64_t{0})));
    if (!pid || *pid <= 0) return nullptr;
    uint64_t start = 0;
    if (info.entity) {
      const AttributeSet::Value ticks = info.entity->facts.Find("process.start_ticks", int64_t{0});
      if (const auto* number = std::get_if<int64_t>(&ticks)) start = static_cast<uint64_t>(*number);
    }
    return Find(*pid, start, now_);
  }

  void ReadTick(const Snapshot& snapshot) {
    for (auto& [pid, process] : processes_) {
      process.utilization.reset();
      process.energy = process.waits = process.launches = 0;
      process.has_energy = process.has_waits = process.has_launches = false;
    }
    std::map<std::string, std::pair<int, Process*>> sole;  // processes by GPU
    memory_.ForEach(snapshot, [&](const SeriesInfo& info, double, const Frame& frame, uint32_t) {
      Process* process = ProcessOf(info);
      if (!process) return;
      process->on_gpu = true;
      process->sampled_ns = frame.read_at.boot_ns;
      process->simulated = info.attributes.Has("simulated");
      process->name = info.attributes.Text("process.executable.name");
      process->owner = info.attributes.Text("process.owner");
      process->container = info.attributes.Text("container.id");
      process->pod = info.attributes.Text("k8s.pod.uid");
      auto& [count, only] = sole[info.attributes.Text("gpu.uuid") + info.attributes.Text("gpu.index")];
      if (only != process) ++count;
      only = process;
    });
    process_utilization_.ForEach(snapshot, [&](const SeriesInfo& info, double value, const Frame&, uint32_t) {
      if (!info.attributes.Has("gpu.task.type") || info.attributes.Text("gpu.task.type") == "compute" ||
          info.attributes.Text("gpu.task.type") == "sm") {
        if (Process* process = Known(info))
          process->utilization = std::max(process->utilization.value_or(0), value);
      }
    });
    // Of a GPU with one process it is that of the process.
    utilization_.ForEach(snapshot, [&](const SeriesInfo& info, double value, const Frame&, uint32_t) {
      auto at = sole.find(info.attributes.Text("gpu.uuid") + info.attributes.Text("gpu.index"));
      if (at == sole.end() || at->second.first != 1) return;
      Process& process = *at->second.second;
      if (!process.utilization) process.utilization = value;
    });
    energy_.ForEach(snapshot, [&](const SeriesInfo& info, double value, const Frame&, uint32_t) {
      if (Process* process = Known(info)) process->energy += value, process->has_energy = true;
    });
    waits_.ForEach(snapshot, [&](const SeriesInfo& info, double, const Frame& frame, uint32_t) {
      Process* process = info.attributes.Text("dataloader.source") == "waker" ? ProcessOf(info) : nullptr;
      if (!process || !info.shape || !info.shape->has_sum) return;
      process->waits += frame.cells[info.first_cell + info.shape->sum_cell()].d;
      process->has_waits = true;
    });
    launches_.ForEach(snapshot, [&](const SeriesInfo& info, double value, const Frame&, uint32_t) {
      Process* process = ProcessOf(info);
      if (!process) return;
      process->on_gpu = true;
      process->launches += value;
      process->has_launches = true;
    });
    ReadEngines(snapshot);
  }

  Process* Known(const SeriesInfo& info) {
    const AttributeSet::Value value = info.attributes.Find("process.pid", int64_t{0});
    const auto* pid = std::get_if<int64_t>(&value);
    auto at = pid ? processes_.find(*pid) : processes_.end();
    return at == processes_.end() ? nullptr : &at->second;
  }

  void ReadEngines(const Snapshot& snapshot) {
    for (auto& [pid, engine] : engines_) {
      engine.counters = {};
      engine.seen = false;
    }
    auto add = [&](SeriesFinder& finder, std::optional<double> phases::EngineCounters::* to) {
      finder.ForEach(snapshot, [&](const SeriesInfo& info, double value, const Frame& frame, uint32_t) {
        if (!info.entity) return;
        const AttributeSet::Value at = info.entity->facts.Find("process.pid", int64_t{0});
        const auto* pid = std::get_if<int64_t>(&at);
        if (!pid || *pid <= 0) return;
        if (info.shape) {
          if (!info.shape->has_sum) return;
          value = frame.cells[info.first_cell + info.shape->sum_cell()].d;
        }
        Engine& engine = engines_[*pid];
        engine.seen = true;
        engine.counters.*to = (engine.counters.*to).value_or(0) + value;
        read_at_[*pid] = std::max(read_at_[*pid], frame.read_at.boot_ns);
      });
    };
    read_at_.clear();
    add(running_, &phases::EngineCounters::running);
    add(waiting_, &phases::EngineCounters::waiting);
    add(prompt_, &phases::EngineCounters::prompt_tokens);
    add(generated_, &phases::EngineCounters::generated_tokens);
    add(prefill_, &phases::EngineCounters::prefill_seconds);
    add(decode_, &phases::EngineCounters::decode_seconds);
    std::erase_if(engines_, [](const auto& item) { return !item.second.seen; });
    for (auto& [pid, engine] : engines_) {
      const int64_t read = read_at_[pid];
      if (read == engine.read_ns) continue;
      const bool first = std::exchange(engine.read_ns, read) == 0;
      const auto shares = first ? std::nullopt : phases::SharesOf(engine.before, engine.counters);
      engine.before = engine.counters;
      if (Process* process = Find(pid, 0, now_)) {
        process->engine = shares;
        process->engine_ns = now_;
      }
    }
  }

  void EndProcesses(FrameWriter& out) {
    for (const EntityRef& entity : replaced_) {
      if (entity) out.table().Retire(entity);
    }
    replaced_.clear();
    std::erase_if(processes_, [&](const auto& item) {
      const Process& process = item.second;
      const bool silent = now_ - process.seen_ns > kGraceNs;
      const bool gone = process.ended || silent ||
                        (now_ != process.seen_ns && !process.simulated && names_.sees_host() &&
                         !names_.Find(static_cast<uint32_t>(item.first)).visible);
      if (gone && process.entity) out.table().Retire(process.entity);
      return gone;
    });
  }

  void Decide(int64_t pid, Process& process) {
    ProcessPhases& deciding = process.phases;
    const int64_t stretch = now_ - deciding.settled_ns();
    ReadIo(pid, process);
    process.evidence.Give(now_, deciding);
    if (process.engine && now_ - process.engine_ns < kSilentNs) {
      const std::pair<Phase, double> shares[] = {{Phase::kPrefill, process.engine->prefill},
                                                 {Phase::kDecode, process.engine->decode},
                                                 {Phase::kQueued, process.engine->queued},
                                                 {Phase::kIdle, process.engine->idle}};
      for (auto [phase, share] : shares)
        deciding.Amount(Evidence::kEngine, phase, static_cast<int64_t>(share * static_cast<double>(stretch)));
    }
    // What a page measures, the probes from outside would count a second time.
    if (process.has_waits && !process.measures_waits) {
      const double grown = process.waits_grown.Next(process.waits);
      deciding.Amount(Evidence::kDataWaitOutside, Phase::kDataLoading, static_cast<int64_t>(grown * 1e9));
    }
    if (process.has_launches && !process.launches_in_page &&
        process.launches_grown.Next(process.launches) > 0)
      deciding.Interval(Evidence::kDevice, deciding.settled_ns(), now_);
    Sample(process);
    deciding.Advance(now_);
  }

  void Sample(Process& process) {
    if (process.sampled_ns == 0) return;
    if (now_ - process.sampled_ns > kSilentNs || !process.utilization) {
      process.phases.EndSamples(Evidence::kUtilization, now_);
      return;
    }
    const uint64_t read = process.io.read.value_or(0);
    const bool reads = read > process.read_before && read - process.read_before >= kReads;
    const Phase phase = *process.utilization > kComputes           ? Phase::kGpuCompute
                        : *process.utilization < kStarves && reads ? Phase::kDataLoading
                                                                   : Phase::kUnknown;
    process.phases.Sample(Evidence::kUtilization, phase, now_);
  }

  void ReadIo(int64_t pid, Process& process) {
    process.read_before = process.io.read.value_or(0);
    process.io = {};
    if (process.simulated || !names_.sees_host()) return;
    const std::string path = root_ + "/proc/" + std::to_string(pid) + "/io";
    if (ReadFile(path.c_str(), text_, 4096).ok()) process.io = ReadDiskIo(text_);
  }

  // Divides the joules that the process was charged with since the last time, by the time of its phases since
  // then. The sum of the parts is the whole.
  static void Divide(Process& process) {
    if (!process.has_energy) return;
    const double grown = process.energy - process.energy_divided;
    if (grown <= 0) return;
    int64_t all = 0;
    std::array<int64_t, phases::kPhaseCount> times{};
    for (size_t i = 0; i < times.size(); ++i) {
      const int64_t now = process.phases.time_ns(static_cast<Phase>(i));
      times[i] = now - std::exchange(process.energy_times[i], now);
      all += times[i];
    }
    if (all == 0) times[static_cast<size_t>(Phase::kUnknown)] = all = 1;
    for (size_t i = 0; i < times.size(); ++i)
      process.energy_of[i] += grown * static_cast<double>(times[i]) / static_cast<double>(all);
    process.energy_divided = process.energy;
  }

  EntityRef EntityOf(int64_t pid, Process& process) {
    const nvml::ProcessDetails& details = names_.Find(static_cast<uint32_t>(pid));
    process.simulated |= details.simulated;
    if (process.name.empty() && (!process.simulated || details.simulated)) {
      process.name = details.name;
      process.owner = details.owner;
      process.container = details.container_id;
      process.pod = details.pod_uid;
      if (process.start_ticks == 0) process.start_ticks = details.start_ticks;
    }
    std::vector<AttributeSet::Attribute> attributes = {{"process.pid", pid}}, facts;
    auto text = [&](std::string_view key, const std::string& value) {
      if (!value.empty()) attributes.push_back({key, std::string_view(value)});
    };
    text("process.executable.name", process.name);
    text("process.owner", process.owner);
    text("container.id", process.container);
    text("k8s.pod.uid", process.pod);
    if (process.simulated) attributes.push_back({"simulated", true});
    if (process.start_ticks != 0)
      facts.push_back({"process.start_ticks", static_cast<int64_t>(process.start_ticks)});
    return MakeRef<Entity>("process", AttributeSet(attributes), EntityRef(), AttributeSet(facts));
  }

  void Write(int64_t pid, Process& process, FrameWriter& out) {
    const ProcessPhases& decided = process.phases;
    if (!std::exchange(process.declared, true)) process.entity = EntityOf(pid, process);
    const EntityRef& entity = process.entity;
    for (size_t i = 0; i < phases::kPhaseCount; ++i) {
      const auto phase = static_cast<Phase>(i);
      const std::string_view name = phases::PhaseName(phase);
      // The five of training are always there, those of engines once they were reached.
      const bool five =
          std::find(std::begin(kFivePhases), std::end(kFivePhases), phase) != std::end(kFivePhases);
      if (five || decided.time_ns(phase) > 0)
        out.DeclareAndSet(process.state[i], kProcessPhase, entity, {{"process.phase", name}},
                          int64_t{decided.phase() == phase});
      for (size_t by = 0; by < phases::kEvidenceCount; ++by) {
        const auto evidence = static_cast<Evidence>(by);
        // Both have one name.
        if (evidence == Evidence::kCollective) continue;
        int64_t ns = decided.time_ns(phase, evidence);
        if (evidence == Evidence::kExposed) ns += decided.time_ns(phase, Evidence::kCollective);
        if (ns == 0) continue;
        out.DeclareAndSet(process.times[by][i], kProcessPhaseTime, entity,
                          {{"process.phase", name}, {"phase.source", EvidenceName(evidence)}},
                          static_cast<double>(ns) / 1e9);
      }
      if (process.energy_of[i] > 0)
        out.DeclareAndSet(process.joules[i], kProcessPhaseEnergy, entity, {{"process.phase", name}},
                          process.energy_of[i]);
    }
    out.DeclareAndSet(process.transitions, kProcessPhaseTransitions, entity, {},
                      static_cast<int64_t>(decided.transitions()));
    out.DeclareAndSet(process.confidence, kProcessPhaseConfidence, entity, {}, decided.confidence());
    if (process.io.read)
      out.DeclareAndSet(process.read, kProcessDiskIo, entity, {{"disk.io.direction", "read"}},
                        static_cast<int64_t>(*process.io.read));
    if (process.io.written)
      out.DeclareAndSet(process.written, kProcessDiskIo, entity, {{"disk.io.direction", "write"}},
                        static_cast<int64_t>(*process.io.written));
    decisions_ += decided.decisions() - std::exchange(counted_[pid].decisions, decided.decisions());
    transitions_ += decided.transitions() - std::exchange(counted_[pid].transitions, decided.transitions());
  }

  void WriteTotals(FrameWriter& out) {
    std::erase_if(counted_, [&](const auto& item) { return !processes_.contains(item.first); });
    // Nothing is exported before there was a process.
    if (processes_.empty() && !totals_declared_) return;
    totals_declared_ = true;
    int64_t on_gpu = 0, all_ns = 0;
    std::array<int64_t, std::size(kFivePhases)> tasks{}, times{};
    for (const auto& [pid, process] : processes_) {
      on_gpu += process.on_gpu;
      ++tasks[FiveOf(process.phases.phase())];
      for (size_t i = 0; i < phases::kPhaseCount; ++i) {
        const int64_t ns = process.phases.time_ns(static_cast<Phase>(i));
        times[FiveOf(static_cast<Phase>(i))] += ns;
        all_ns += ns;
      }
    }
    out.DeclareAndSet(total_, kProcessPhasesTracked, {}, {{"task.type", "total"}},
                      static_cast<int64_t>(processes_.size()));
    out.DeclareAndSet(ml_, kProcessPhasesTracked, {}, {{"task.type", "ml"}}, on_gpu);
    out.DeclareAndSet(decided_, kProcessPhasesDecisions, {}, {}, static_cast<int64_t>(decisions_));
    out.DeclareAndSet(changed_, kProcessPhasesTransitions, {}, {}, static_cast<int64_t>(transitions_));
    for (size_t i = 0; i < std::size(kFivePhases); ++i) {
      const std::string_view name = phases::PhaseName(kFivePhases[i]);
      out.DeclareAndSet(tasks_[i], kProcessPhasesCurrent, {}, {{"process.phase", name}}, tasks[i]);
      if (all_ns > 0)
        out.DeclareAndSet(shares_[i], kProcessPhasesShare, {}, {{"process.phase", name}},
                          static_cast<double>(times[i]) / static_cast<double>(all_ns));
      else out.Clear(shares_[i]);
    }
  }

  struct Counted {
    uint64_t decisions = 0, transitions = 0;
  };

  Env& env_;
  const std::string root_;
  nvml::ProcessTable names_;
  const std::unique_ptr<JobPages::Feed> feed_;
  std::map<int64_t, Process> processes_;  // by pid
  std::map<int64_t, Engine> engines_;     // by pid
  std::map<int64_t, int64_t> read_at_;    // of engines; used in ReadEngines
  std::map<int64_t, Counted> counted_;
  std::vector<EntityRef> replaced_;
  int64_t now_ = 0;
  uint64_t tick_ = 0, decisions_ = 0, transitions_ = 0;
  AttributeSet::Value value_;
  std::string text_;
  bool totals_declared_ = false;
  Series total_, ml_, decided_, changed_;
  std::array<Series, std::size(kFivePhases)> tasks_, shares_;
  SeriesFinder memory_{kGpuProcessMemoryUsed}, process_utilization_{kGpuProcessUtilization},
      utilization_{kGpuUtilization}, energy_{kGpuProcessEnergy}, waits_{kDataloaderWaitDuration},
      launches_{kCudaLaunches}, running_{kInferenceRequestsRunning}, waiting_{kInferenceRequestsWaiting},
      prompt_{kInferencePromptTokens}, generated_{kInferenceGenerationTokens},
      prefill_{kInferencePrefillTime}, decode_{kInferenceDecodeTime};
};

constexpr OptionSpec kOptions[] = {
    BoolOption(
        "pages", false,
        "Read the pages of programs of this machine that mark their phases, or have the SDK, the hook of "
        "PyTorch, the NCCL plugin or the CUDA library loaded"),
};
using Options = OptionsOf<kOptions>;

Result<std::unique_ptr<Collector>> Create(const Config& config, Env& env) {
  const bool pages = Options(config).Bool("pages");
  if (!env.latest && !(pages && env.job_pages))
    return Status{Code::kUnavailable,
                  "without job pages phases follow from other collectors, which are not here"};
  return std::unique_ptr<Collector>(std::make_unique<PhasesCollector>(env, pages));
}

}  // namespace

extern const CollectorSpec phases_collector;
const CollectorSpec phases_collector{
    .name = "phases",
    .help = "Which phase each process that uses a GPU or writes a job page is in, with its time and energy.",
    .period = seconds(1),
    .ttl = seconds(5),
    .options = kOptions,
    .metrics = kProcessPhaseRows,
    .create = &Create};

}  // namespace gpulens
