#include "agent/demo/demo_node.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "base/files.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/parse.h"
#include "base/result.h"
#include "base/text.h"
#include "sources/nvml/simulated/fault_watch.h"

namespace gpulens::demo {
namespace {

using nvml::kNsPerSecond;
using nvml::LoadSchedule;

constexpr std::string_view kStateHeader = "gpulens-demo 1";
constexpr int64_t kForgetAfter = 60;  // seconds after its end, so that the simulated library has seen it

struct Words {
  std::string_view engine, load, length, after;
};

Result<Words> ReadWords(std::string_view text, bool with_load) {
  Words out;
  for (text = Trim(text); !text.empty(); text = Trim(text)) {
    std::string_view value = TakeUntil(text, ' ');
    const std::string_view key = TakeUntil(value, '=');
    if (key == "engine") out.engine = value;
    else if (key == "load" && with_load) out.load = value;
    else if (key == "for") out.length = value;
    else if (key == "after") out.after = value;
    else
      return Status{Code::kInvalidArgument, "no key \"" + std::string(key) + "\"; expected engine=NAME" +
                                                (with_load ? " load=0…1.5" : "") +
                                                " [for=TIME] [after=TIME]"};
  }
  return out;
}

int64_t CeilSeconds(int64_t ns) { return (ns + kNsPerSecond - 1) / kNsPerSecond; }

std::string DescribeChange(const Workload& workload, const LoadSchedule::Change& change, int64_t now_s) {
  std::string out = workload.name;
  if (change.level == LoadSchedule::kAbsent) {
    out += " stopped";
  } else {
    const std::string hundredths = std::to_string(100 + change.level % 100).substr(1);
    out += " load=" + std::to_string(change.level / 100) + "." + hundredths;
  }
  if (now_s < change.from_s) out += ", begins in " + std::to_string(change.from_s - now_s) + " s";
  if (change.to_s == INT64_MAX) return out + ", until it is healed";
  return out + ", for " + std::to_string(change.to_s - std::max(now_s, change.from_s)) + " s more";
}

void AppendLevels(std::string& out, const std::vector<int>& levels) {
  for (int level : levels) {
    if (out.back() != '[') out += ',';
    out += std::to_string(level);
  }
}

}  // namespace

DemoNode::DemoNode(Scenario scenario, Options options)
    : scenario_(std::move(scenario)), options_(std::move(options)), live_(scenario_.workloads.size()) {
  Load();
}

Result<std::vector<size_t>> DemoNode::Chosen(std::string_view name) const {
  std::vector<size_t> out;
  std::string names;
  for (size_t i = 0; i < scenario_.workloads.size(); ++i) {
    const Workload& workload = scenario_.workloads[i];
    if (workload.name == name || (name == "all" && workload.of.empty())) out.push_back(i);
    names += (names.empty() ? "" : ", ") + workload.name;
  }
  if (!out.empty()) return out;
  if (name.empty()) return Status{Code::kInvalidArgument, "engine=NAME is missing: " + names};
  return Status{Code::kInvalidArgument,
                "no engine \"" + std::string(name) + "\"; they are: " + names + ", all"};
}

Result<std::string> DemoNode::Set(std::string_view words, int64_t boot_ns) {
  return Change(words, false, boot_ns);
}

Result<std::string> DemoNode::Stop(std::string_view words, int64_t boot_ns) {
  return Change(words, true, boot_ns);
}

Result<std::string> DemoNode::Change(std::string_view words, bool stop, int64_t boot_ns) {
  ASSIGN_OR_RETURN(Words in, ReadWords(words, !stop));
  std::lock_guard lock(mutex_);
  ASSIGN_OR_RETURN(std::vector<size_t> chosen, Chosen(in.engine));
  LoadSchedule::Change change;
  change.level = LoadSchedule::kAbsent;
  if (!stop) {
    const std::optional<double> load = ParseDouble(in.load);
    if (!load || !(*load >= 0 && *load <= kMostLoad / 100.0))
      return Status{Code::kInvalidArgument, "load must be 0 to 1.5: of what the engine can do"};
    change.level = static_cast<int>(std::lround(*load * 100));
    for (size_t i : chosen) {
      const Workload& workload = scenario_.workloads[i];
      if (!workload.of.empty())
        return Status{Code::kInvalidArgument,
                      workload.name + " has the load of " + workload.of + ": set that one"};
    }
  }
  int64_t after_ns = 0, length_ns = 0;
  if (!in.after.empty()) {
    ASSIGN_OR_RETURN(after_ns, nvml::ParseFaultTime(in.after));
  }
  if (!in.length.empty()) {
    ASSIGN_OR_RETURN(length_ns, nvml::ParseFaultTime(in.length));
  }
  const int64_t now_s = boot_ns / kNsPerSecond;
  // The simulated library must know it before it begins.
  change.from_s = CeilSeconds(boot_ns + after_ns) + 1;
  if (length_ns > 0) change.to_s = change.from_s + CeilSeconds(length_ns);
  ForgetOld(now_s);
  if (Count() + chosen.size() > kMostChanges)
    return Status{Code::kExhausted,
                  std::to_string(kMostChanges) + " changes at a time are the most: gpulens sim heal"};
  std::string done;
  for (size_t i : chosen) {
    Put(i, change);
    done += (done.empty() ? "" : ";") + DescribeChange(scenario_.workloads[i], change, now_s);
  }
  RETURN_IF_ERROR(Save());
  return done;
}

// A later command counts: what it overlaps ends where it begins, and does not come back.
void DemoNode::Put(size_t workload, LoadSchedule::Change change) {
  EndAll(workload, change.from_s);
  live_[workload].changes.push_back(change);
  scenario_.workloads[workload].load.SetChanges(live_[workload].changes);
}

void DemoNode::EndAll(size_t workload, int64_t at_s) {
  std::vector<LoadSchedule::Change>& changes = live_[workload].changes;
  for (LoadSchedule::Change& change : changes) change.to_s = std::min(change.to_s, at_s);
  std::erase_if(changes, [](const LoadSchedule::Change& change) { return change.to_s <= change.from_s; });
  scenario_.workloads[workload].load.SetChanges(changes);
}

Result<std::string> DemoNode::Heal(std::string_view words, int64_t boot_ns) {
  ASSIGN_OR_RETURN(Words in, ReadWords(words, false));
  std::lock_guard lock(mutex_);
  std::vector<size_t> chosen;
  if (in.engine.empty() || in.engine == "all") {
    for (size_t i = 0; i < live_.size(); ++i) chosen.push_back(i);
  } else {
    ASSIGN_OR_RETURN(chosen, Chosen(in.engine));
  }
  const int64_t at_s = CeilSeconds(boot_ns) + 1;
  size_t healed = 0;
  for (size_t i : chosen) {
    healed += static_cast<size_t>(
        std::ranges::count_if(live_[i].changes, [&](const auto& change) { return change.to_s > at_s; }));
    EndAll(i, at_s);
  }
  ForgetOld(boot_ns / kNsPerSecond);
  RETURN_IF_ERROR(Save());
  return std::to_string(healed) + (healed == 1 ? " change" : " changes") + " of the scenario ended";
}

// What a change has added to the time at each level stays when the change is forgotten.
void DemoNode::ForgetOld(int64_t now_s) {
  for (size_t i = 0; i < live_.size(); ++i) {
    Live& live = live_[i];
    LoadSchedule steps(scenario_.step_s, scenario_.workloads[i].load.levels());
    auto add = [&](int level, int64_t ns) {
      if (level >= 0) live.carried_s[static_cast<size_t>(level)] += ns / kNsPerSecond;
    };
    while (!live.changes.empty() && live.changes.front().to_s < now_s - kForgetAfter) {
      const LoadSchedule::Change& old = live.changes.front();
      auto add_less = [&](int level, int64_t ns) { add(level, -ns); };
      steps.ForEachStretch(old.from_s * kNsPerSecond, add);
      steps.ForEachStretch(old.to_s * kNsPerSecond, add_less);
      add(old.level, (old.to_s - old.from_s) * kNsPerSecond);
      live.changes.erase(live.changes.begin());
    }
    scenario_.workloads[i].load.SetChanges(live.changes);
  }
}

size_t DemoNode::Count() const {
  size_t count = 0;
  for (const Live& live : live_) count += live.changes.size();
  return count;
}

std::string DemoNode::Describe(int64_t boot_ns) const {
  std::lock_guard lock(mutex_);
  std::string out;
  const int64_t now_s = boot_ns / kNsPerSecond;
  for (size_t i = 0; i < live_.size(); ++i) {
    for (const LoadSchedule::Change& change : live_[i].changes) {
      if (change.to_s <= now_s) continue;
      out += (out.empty() ? "" : ";") + DescribeChange(scenario_.workloads[i], change, now_s);
    }
  }
  return out.empty() ? "no change of the scenario" : out;
}

std::string DemoNode::Profile(int64_t boot_ns) const {
  std::lock_guard lock(mutex_);
  std::string out = "model: " + scenario_.gpu_model + "\ngpus: " + std::to_string(scenario_.gpus) +
                    "\nperiod: " + std::to_string(scenario_.day_s) + "\n" + scenario_.profile;
  if (out.back() != '\n') out += '\n';
  std::string loads, processes;
  for (size_t i = 0; i < live_.size(); ++i) {
    const Workload& workload = scenario_.workloads[i];
    if (workload.gpus.empty()) continue;
    std::vector<int> levels = workload.load.levels();
    for (int& level : levels) level = BusyAt(workload, level);
    std::string schedule = "{step: " + std::to_string(scenario_.step_s) + ", levels: [";
    AppendLevels(schedule, levels);
    schedule += "], changes: [";
    for (const LoadSchedule::Change& change : live_[i].changes) {
      if (schedule.back() != '[') schedule += ", ";
      schedule += "[" + std::to_string(change.from_s) + ", " +
                  std::to_string(change.to_s == INT64_MAX ? 0 : change.to_s) + ", " +
                  std::to_string(BusyAt(workload, change.level)) + "]";
    }
    int64_t carried = 0;
    for (size_t level = 0; level < live_[i].carried_s.size(); ++level)
      carried += live_[i].carried_s[level] * BusyAt(workload, static_cast<int>(level));
    schedule += "], carried: " + std::to_string(carried) + "}";
    for (size_t at = 0; at < workload.gpus.size(); ++at) {
      const std::string gpu = std::to_string(workload.gpus[at]);
      loads += "  - {gpu: " + gpu + ", load: {schedule: " + schedule + "}}\n";
      if (workload.executable.empty() || !RunsLocked(i, boot_ns)) continue;
      processes += "  - {gpu: " + gpu + ", pid: " + std::to_string(workload.pid + at) +
                   ", memory: " + std::to_string(static_cast<int64_t>(workload.memory)) + "}\n";
    }
  }
  if (!loads.empty()) out += "each:\n" + loads;
  if (!processes.empty()) out += "processes:\n" + processes;
  return out;
}

EngineTime DemoNode::TimeOf(size_t workload, int64_t boot_ns) const {
  std::lock_guard lock(mutex_);
  EngineTime out;
  const LoadSchedule& load = scenario_.workloads[workload].load;
  const auto& carried = live_[workload].carried_s;
  for (size_t level = 0; level < carried.size(); ++level) out.ns[level] = carried[level] * kNsPerSecond;
  load.ForEachStretch(boot_ns, [&](int level, int64_t ns) {
    if (level >= 0) out.ns[static_cast<size_t>(level)] += ns;
  });
  const auto [level, since_ns] = load.MomentAt(boot_ns);
  out.level = level;
  out.seconds_at_level = static_cast<double>(boot_ns - since_ns) * 1e-9;
  return out;
}

bool DemoNode::RunsLocked(size_t workload, int64_t boot_ns) const {
  return scenario_.workloads[workload].load.LevelAt(boot_ns) != LoadSchedule::kAbsent;
}

bool DemoNode::Runs(size_t workload, int64_t boot_ns) const {
  std::lock_guard lock(mutex_);
  return RunsLocked(workload, boot_ns);
}

std::string DemoNode::UuidOf(unsigned gpu) const {
  return nvml::FakeGpuUuid(*nvml::FindFakeModel(scenario_.gpu_model), gpu);
}

uint64_t DemoNode::RunningHash(int64_t boot_ns) const {
  std::lock_guard lock(mutex_);
  uint64_t bits = 1;
  for (size_t i = 0; i < live_.size(); ++i) bits = bits << 1 | (RunsLocked(i, boot_ns) ? 1U : 0U);
  return bits;
}

AttributeSet DemoNode::AttributesOf(const Workload& workload) const {
  std::vector<AttributeSet::Attribute> out;
  auto add = [&](std::string_view key, const std::string& value) {
    if (!value.empty()) out.push_back({key, std::string_view(value)});
  };
  if (!workload.pod.empty()) {
    add("k8s.pod.name", workload.pod);
    add("k8s.namespace.name", workload.name_space);
    add("k8s.pod.uid", workload.pod_uid);
    add("k8s.container.name", workload.container);
    add("k8s.deployment.name", workload.deployment);
  } else {
    add("slurm.job.id", workload.job);
    add("slurm.job.name", workload.job_name);
    add("slurm.job.user", workload.user);
    add("slurm.job.account", workload.account);
    add("slurm.job.partition", workload.partition);
  }
  add("tenant", workload.tenant);
  return AttributeSet(out);
}

SimulatedOwners::Process DemoNode::ProcessOf(uint32_t pid) const {
  for (const Workload& workload : scenario_.workloads) {
    if (pid >= workload.pid && pid < workload.pid + workload.gpus.size())
      return {workload.executable, workload.user, 0};
  }
  return {};
}

GpuPodTable::List DemoNode::Holdings(int64_t boot_ns) const {
  GpuPodTable::List out;
  std::lock_guard lock(mutex_);
  for (size_t i = 0; i < live_.size(); ++i) {
    const Workload& workload = scenario_.workloads[i];
    if (workload.pod.empty() || !RunsLocked(i, boot_ns)) continue;
    for (unsigned gpu : workload.gpus) {
      const std::string uuid = UuidOf(gpu);
      const AttributeSet own({{"gpu.uuid", std::string_view(uuid)},
                              {"gpu.index", int64_t{gpu}},
                              {"gpu.allocation", std::string_view("exclusive")},
                              {"simulated", true}});
      out.push_back(own.OverlaidOn(AttributesOf(workload)));
    }
  }
  return out;
}

AttributeSet DemoNode::OwnerOf(const Entity& entity) const {
  // The nearest that it belongs to and that has an owner: a GPU, or a process of a job page.
  const Entity* gpu = &entity;
  while (gpu && gpu->type != "gpu" && !(gpu->type == "process" && !gpu->parent)) gpu = gpu->parent.get();
  if (!gpu || gpu->attributes.Text("simulated") != "true") return {};
  // An index may be another GPU's after the fault renumber.
  const std::string uuid = gpu->attributes.Text("gpu.uuid");
  const std::optional<unsigned> index = ParseInt<unsigned>(gpu->attributes.Text("gpu.index"));
  auto is_at = [&](unsigned place) { return uuid.empty() ? index == place : uuid == UuidOf(place); };
  const Entity& process = gpu->type == "process" ? *gpu : entity;
  const std::optional<unsigned> pid = ParseInt<unsigned>(process.attributes.Text("process.pid"));
  const int64_t now_ns = RealClock().Now().boot_ns;
  std::lock_guard lock(mutex_);
  for (size_t i = 0; i < live_.size(); ++i) {
    const Workload& workload = scenario_.workloads[i];
    const bool own = pid ? *pid >= workload.pid && *pid < workload.pid + workload.gpus.size()
                         : std::ranges::any_of(workload.gpus, is_at) && RunsLocked(i, now_ns);
    if (own) return AttributesOf(workload);
  }
  return {};
}

// The changes since the boot, as lines: NAME from to level, and NAME carried level:seconds ….
Status DemoNode::Save() const {
  if (options_.state_file.empty()) return Ok();
  std::string out = std::string(kStateHeader) + " " + options_.boot_id + "\n";
  for (size_t i = 0; i < live_.size(); ++i) {
    const std::string& name = scenario_.workloads[i].name;
    for (const LoadSchedule::Change& change : live_[i].changes) {
      out += name + " " + std::to_string(change.from_s) + " " + std::to_string(change.to_s) + " " +
             std::to_string(change.level) + "\n";
    }
    for (size_t level = 0; level < live_[i].carried_s.size(); ++level) {
      if (const int64_t seconds = live_[i].carried_s[level]; seconds != 0)
        out += name + " carried " + std::to_string(level) + " " + std::to_string(seconds) + "\n";
    }
  }
  RETURN_IF_ERROR(MakeFoldersAbove(options_.state_file));
  return WriteFileAtomically(options_.state_file, out);
}

void DemoNode::Load() {
  if (options_.state_file.empty() || options_.boot_id.empty()) return;
  std::string text;
  if (!ReadFile(options_.state_file.c_str(), text, kMostScenarioBytes)) return;
  std::string_view rest = text;
  if (TakeUntil(rest, '\n') != std::string(kStateHeader) + " " + options_.boot_id) return;
  while (!rest.empty()) {
    std::string_view line = TakeUntil(rest, '\n');
    const std::string_view name = TakeUntil(line, ' '), first = TakeUntil(line, ' ');
    const auto second = ParseInt<int64_t>(TakeUntil(line, ' ')), third = ParseInt<int64_t>(line);
    const auto chosen = Chosen(name);
    if (!chosen || chosen->size() != 1 || !second || !third) continue;
    Live& live = live_[chosen->front()];
    const auto from = ParseInt<int64_t>(first);
    if (first == "carried" && *second >= 0 && *second <= kMostLoad) {
      live.carried_s[static_cast<size_t>(*second)] = *third;
    } else if (from && *from >= 0 && *second > *from && *third >= LoadSchedule::kAbsent &&
               *third <= kMostLoad && (live.changes.empty() || *from >= live.changes.back().to_s) &&
               live.changes.size() < kMostChanges) {
      live.changes.push_back({*from, *second, static_cast<int>(*third)});
    }
  }
  for (size_t i = 0; i < live_.size(); ++i) scenario_.workloads[i].load.SetChanges(live_[i].changes);
}

}  // namespace gpulens::demo
