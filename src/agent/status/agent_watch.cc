#include "agent/status/agent_watch.h"

#include <sys/stat.h>
#include <unistd.h>
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <map>

#include "agent/plugin_tables.h"
#include "agent/targets/found_targets.h"
#include "base/files.h"
#include "base/sandbox/launcher.h"
#include "base/version.h"
#include "catalog/gpu.h"
#include "catalog/ledger.h"
#include "catalog/self.h"
#include "config/validate.h"
#include "plugins/agent_stats.h"
#include "plugins/analyzers/fleet_health/health_score.h"

namespace gpulens {

SinkQueues SinkQueuesOf(const Config& config) {
  SinkQueues queues;
  for (const SinkSpec* spec : AllSinks()) {
    if (!spec->network) continue;
    for (const std::string& name : NamesOfSink(*spec, config)) {
      const Config& own = config.Group("sinks").Group(name);
      if (!own.Bool("enabled")) continue;
      queues.sinks.push_back(name);
      const std::string& folder = own.Group("queue").Text("dir");
      if (!folder.empty()) queues.chosen.push_back({folder, name});
    }
  }
  std::ranges::sort(queues.sinks);
  return queues;
}

std::string QueueRootOf(const std::string& state_dir) {
  return state_dir.empty() ? "" : state_dir + "/queue";
}

Finding LeftoverFinding(const std::string& sink, uint64_t bytes) {
  return {Finding::kWarning, "sink " + sink,
          SizeText(bytes) + " wait on disk for it, and it is not configured",
          "it was removed from the configuration, or has another name now",
          "configure it again to deliver them, or drop them: gpulens queue drop " + sink};
}

std::vector<Finding> LeftoverFindings(const Config& config, const std::string& state_dir) {
  const SinkQueues queues = SinkQueuesOf(config);
  const QueuePlaces all = AllQueuePlaces(QueueRootOf(state_dir), queues.chosen);
  std::vector<Finding> findings;
  if (!all.status)
    findings.push_back(
        {all.status.code == Code::kPermissionDenied ? Finding::kNoPermission : Finding::kWarning, "queue",
         "the queues of sinks cannot be read", all.status.detail, ""});
  for (const QueueLeftover& one : FindLeftovers(all.places, queues.sinks))
    findings.push_back(LeftoverFinding(one.sink, one.bytes));
  return findings;
}

std::string SizeText(uint64_t bytes) {
  constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  size_t unit = 0;
  auto value = static_cast<double>(bytes);
  for (; value >= 1024 && unit + 1 < std::size(kUnits); ++unit) value /= 1024;
  char text[32];
  std::snprintf(text, sizeof text, unit == 0 ? "%.0f %s" : "%.1f %s", value, kUnits[unit]);
  return text;
}

namespace {

// Waiting time of a request, in seconds, above which its receiver is too slow.
constexpr double kLongestWait = 120;

struct GpuSeen {
  std::string index, model, state, health;
  std::vector<std::string> reasons;
};

// Calls `visit(info, value)` for every fresh series of the family.
template <class Visit>
void ForEachFresh(const Snapshot& snapshot, const MetricDesc& desc, Visit visit) {
  SeriesFinder(desc).ForEach(snapshot,
                             [&](const SeriesInfo& info, double value, const Frame& frame, uint32_t slot) {
                               if (frame.quality[slot] == Quality::kOk) visit(info, value);
                             });
}

std::string SentenceOf(const std::string& reason) {
  for (const HealthConditionRow& row : kHealthConditionRows) {
    if (row.name == reason) return std::string(row.when);
  }
  return reason;
}

std::map<std::string, GpuSeen> GpusOf(const Snapshot& snapshot) {
  std::map<std::string, GpuSeen> gpus;  // in the order of their numbers, as far as there are fewer than 1,000
  auto of = [&](const SeriesInfo& info) -> GpuSeen& {
    std::string index = info.attributes.Text("gpu.index");
    std::string key = std::string(index.size() < 3 ? 3 - index.size() : 0, '0') + index + " " +
                      info.attributes.Text("gpu.uuid");
    GpuSeen& gpu = gpus[key];
    gpu.index = index;
    gpu.model = info.attributes.Text("gpu.model");
    return gpu;
  };
  auto whole = [](const SeriesInfo& info) {
    return info.attributes.Has("gpu.index") && !info.attributes.Has("gpu.mig.instance_id");
  };
  ForEachFresh(snapshot, kGpuInfo, [&](const SeriesInfo& info, double) {
    if (whole(info)) of(info);
  });
  ForEachFresh(snapshot, kGpuState, [&](const SeriesInfo& info, double value) {
    if (whole(info) && value == 1) of(info).state = info.attributes.Text("gpu.state");
  });
  ForEachFresh(snapshot, kGpuHealthState, [&](const SeriesInfo& info, double value) {
    if (whole(info) && value == 1) of(info).health = info.attributes.Text("gpu.health.state");
  });
  ForEachFresh(snapshot, kGpuHealthCondition, [&](const SeriesInfo& info, double value) {
    if (whole(info) && value == 1) of(info).reasons.push_back(info.attributes.Text("gpu.health.reason"));
  });
  return gpus;
}

Finding FindingOf(const GpuSeen& gpu) {
  Finding finding;
  finding.subject = "GPU " + gpu.index;
  if (gpu.health.empty() && gpu.state == "no_permission") {
    finding.kind = Finding::kNoPermission;
    finding.what = "its health is unknown";
    finding.why = "the agent has no permission to read it";
    return finding;
  }
  if (gpu.health.empty()) {
    bool away = !gpu.state.empty() && gpu.state != "ok";
    finding.kind = away ? Finding::kBroken : Finding::kWarning;
    finding.what = away ? "is " + gpu.state : "its health is unknown";
    finding.why = away ? "" : "none of its readings is new";
    return finding;
  }
  finding.kind = gpu.health == "failed" ? Finding::kBroken : Finding::kWarning;
  finding.what = "is " + gpu.health + (gpu.model.empty() ? "" : " (" + gpu.model + ")");
  for (const std::string& reason : gpu.reasons)
    finding.why += (finding.why.empty() ? "" : "; ") + reason + ": " + SentenceOf(reason);
  finding.remedy = "gpulens events --gpu " + gpu.index;
  return finding;
}

}  // namespace

std::vector<Finding> GpuFindings(const Snapshot& snapshot) {
  std::vector<Finding> findings;
  std::map<std::string, GpuSeen> gpus = GpusOf(snapshot);
  // Without the health of any GPU the analyzer is off, or the first tick is not over: then only the state
  // counts.
  bool validated = std::ranges::any_of(gpus, [](const auto& gpu) { return !gpu.second.health.empty(); });
  for (const auto& [key, gpu] : gpus) {
    if ((validated ? gpu.health : gpu.state) != "ok") findings.push_back(FindingOf(gpu));
  }
  double expected = 0;
  ForEachFresh(snapshot, kGpuDevicesExpected, [&](const SeriesInfo&, double value) { expected += value; });
  if (expected > static_cast<double>(gpus.size())) {
    findings.push_back({Finding::kBroken, "GPUs",
                        std::to_string(gpus.size()) + " of " + std::to_string(static_cast<int>(expected)) +
                            " that this machine should have are here",
                        "one is off the bus, or its driver is not loaded", "gpulens events --name gpu.lost"});
  }
  return findings;
}

std::vector<Finding> DeliveryFindings(const Snapshot& snapshot) {
  std::vector<Finding> findings;
  ForEachFresh(snapshot, kSelfSinkUp, [&](const SeriesInfo& info, double value) {
    if (value != 0) return;
    findings.push_back({Finding::kWarning, "sink " + info.attributes.Text("sink"), "its last delivery failed",
                        "see the log of the agent", ""});
  });
  ForEachFresh(snapshot, kSelfSinkDiskQueueOldestAge, [&](const SeriesInfo& info, double value) {
    if (value <= kLongestWait) return;
    findings.push_back(
        {Finding::kWarning, "sink " + info.attributes.Text("sink"),
         "requests have waited in its queue for " + std::to_string(static_cast<int64_t>(value)) + " s",
         "its receiver does not answer, or is too slow", ""});
  });
  ForEachFresh(snapshot, kSelfSinkDiskQueueUnusable, [&](const SeriesInfo& info, double value) {
    if (value == 0) return;
    findings.push_back(
        {Finding::kBroken, "sink " + info.attributes.Text("sink"), "the folder of its queue cannot be used",
         "queued data is kept in memory, and received data is accepted only once it is delivered",
         "see the log of the agent, and set state_dir to a folder that can be written"});
  });
  ForEachFresh(snapshot, kSelfSinkDiskQueueLeftoverSize, [&](const SeriesInfo& info, double value) {
    findings.push_back(LeftoverFinding(info.attributes.Text("sink"), static_cast<uint64_t>(value)));
  });
  double failed = 0;
  ForEachFresh(snapshot, kSelfStoreWrites, [&](const SeriesInfo& info, double value) {
    if (info.attributes.Text("result") == "error") failed += value;
  });
  if (failed > 0) {
    findings.push_back(
        {Finding::kBroken, "events",
         std::to_string(static_cast<int64_t>(failed)) + " could not be kept for `gpulens events`",
         "the file in the state folder cannot be written", "set state_dir to a folder that can"});
  }
  ForEachFresh(snapshot, kSelfLedgerUp, [&](const SeriesInfo&, double value) {
    if (value != 0) return;
    findings.push_back(
        {Finding::kBroken, "ledger",
         "its file cannot be written: entries wait in memory, and the oldest are dropped in time",
         "see the log of the agent", "set state_dir to a folder that can be written"});
  });
  ForEachFresh(snapshot, kLedgerResidual, [&](const SeriesInfo&, double value) {
    if (value == 0) return;
    findings.push_back({Finding::kBroken, "ledger", "its parts do not add up to the counters of the GPUs",
                        "this is a fault of gpulens: please report it with the log", ""});
  });
  return findings;
}

std::vector<Finding> StateFolderFindings(const std::string& folder) {
  Finding finding{Finding::kBroken, "state_dir", "", "",
                  "set state_dir to a folder that the agent may write"};
  if (folder.empty()) {
    finding.kind = Finding::kWarning;
    finding.what = "there is none: events and queues are not kept over a restart";
    return {finding};
  }
  Status status = MakeFoldersAbove(folder + "/any");
  if (status && ::access(folder.c_str(), W_OK | X_OK) != 0)
    status = {Code::kPermissionDenied, folder + ": " + std::strerror(errno)};
  if (status) return {};
  finding.what = "events, health windows and queues cannot be kept";
  finding.why = status.detail;
  return {finding};
}

namespace {

const CollectorState* StateOf(const std::vector<CollectorState>& states, std::string_view subject) {
  for (const CollectorState& state : states) {
    if (state.collector == subject && !state.one_of_many) return &state;
  }
  return nullptr;
}

bool IsTrouble(Finding::Kind kind) noexcept {
  return kind == Finding::kBroken || kind == Finding::kNoPermission;
}

// `seen`: a probe finds what the collector should read.
Finding FindingOf(const CollectorState& state, bool seen) {
  Finding finding;
  finding.subject = state.name;
  if (state.up) {
    finding.kind = Finding::kFound;
    finding.what = std::to_string(state.series) + " series";
    return finding;
  }
  finding.why = state.last.detail;
  if (!state.answered) {
    finding.kind = state.worked ? Finding::kWarning : Finding::kNotHere;
    finding.what = "has not answered yet";
    return finding;
  }
  finding.what = state.worked ? "worked before and is no longer read" : "is not read";
  switch (state.last.code) {
    case Code::kPermissionDenied: finding.kind = Finding::kNoPermission; break;
    case Code::kUnavailable:
      finding.kind = state.worked ? Finding::kBroken : seen ? Finding::kWarning : Finding::kNotHere;
      if (seen && !state.worked) finding.what = "was found, but is not read";
      break;
    default: finding.kind = Finding::kBroken;
  }
  if (state.one_of_many) finding.kind = Finding::kWarning;
  return finding;
}

}  // namespace

std::vector<Finding> ProbePlugins(const Config& config, Env& env) {
  std::vector<Finding> findings;
  auto add = [&](std::vector<Finding> more) {
    for (Finding& finding : more) findings.push_back(std::move(finding));
  };
  for (const CollectorSpec* spec : AllCollectors()) {
    if (spec->probe && IsOn(*spec, config)) add(spec->probe(PartOf(*spec, config), env));
  }
  for (const DiscoverySpec* spec : AllDiscoveries()) {
    if (spec->probe && IsDiscoveryEnabled(*spec, config))
      add(spec->probe(config.Group("discovery").Group(spec->name), env));
  }
  for (const EnricherSpec* spec : AllEnrichers()) {
    const Config& own = config.Group("enrichers").Group(spec->name);
    if (spec->probe && own.Bool("enabled")) add(spec->probe(own, env));
  }
  return findings;
}

std::vector<Finding> CollectorFindings(const std::vector<CollectorState>& states,
                                       std::vector<Finding> probed) {
  std::vector<Finding> findings;
  std::vector<std::string_view> reported, seen;
  for (Finding& finding : probed) {
    const CollectorState* state = StateOf(states, finding.subject);
    // A probe knows the remedy, and the collector whether it works.
    bool agrees = !state || (state->up ? finding.kind == Finding::kFound || IsTrouble(finding.kind)
                                       : finding.kind != Finding::kFound && !state->worked);
    if (state && state->up && finding.kind == Finding::kBroken) agrees = false;
    if (!agrees && state && finding.kind == Finding::kFound) seen.push_back(state->collector);
    if (!agrees) continue;
    if (state) reported.push_back(state->collector);
    findings.push_back(std::move(finding));
  }
  for (const CollectorState& state : states) {
    bool known = std::ranges::find(reported, state.collector) != reported.end();
    // Targets that answer are the usual case, and may be many; one that never did may be no target at all.
    bool quiet = state.one_of_many && (state.up || !state.answered);
    bool here = std::ranges::find(seen, state.collector) != seen.end();
    if (!known && !quiet) findings.push_back(FindingOf(state, here));
  }
  return findings;
}

void AgentWatch::Observe(const Snapshot& snapshot) {
  std::lock_guard lock(mutex_);
  failures_.Read(snapshot);
}

void AgentWatch::ReloadFailed(std::string why) {
  std::lock_guard lock(mutex_);
  reload_failure_ = std::move(why);
}

double AgentWatch::Failures(std::string_view driver) const {
  std::lock_guard lock(mutex_);
  return failures_.Recent(driver);
}

StatusReport AgentWatch::Report(const Config& config, Env& env, const Pipeline& pipeline) const {
  StatusReport report;
  report.pid = ::getpid();
  report.user = UserName(::geteuid());
  report.version = Version();
  report.state_dir = env.state_dir;
  report.simulated = env.demo;
  report.sinks = SinkQueuesOf(config).sinks;
  report.findings = Findings(config, env, pipeline);
  if (env.stats) {
    report.sandbox = ReadSandbox(env.stats->sandbox_mode, env.stats->sandbox, LauncherPid(), "");
    for (Finding& finding : SandboxFindings(report.sandbox, report.version))
      report.findings.push_back(std::move(finding));
  }
  return report;
}

std::vector<Finding> AgentWatch::Findings(const Config& config, Env& env, const Pipeline& pipeline) const {
  std::vector<CollectorState> states;
  for (const Pipeline::InstanceView& view : pipeline.instances()) {
    states.push_back({view.name, view.spec->name, view.stats.up, view.answered, view.stats.runs_ok != 0,
                      view.spec->per_target, view.stats.last, view.stats.series});
  }
  std::vector<Finding> findings = CollectorFindings(states, ProbePlugins(config, env));
  auto add = [&](std::vector<Finding> more) {
    for (Finding& finding : more) findings.push_back(std::move(finding));
  };
  if (Ref<const Snapshot> snapshot = env.latest->latest()) {
    add(GpuFindings(*snapshot));
    add(DeliveryFindings(*snapshot));
  }
  add(StateFolderFindings(env.state_dir));
  std::lock_guard lock(mutex_);
  for (const DriverFailures::Driver& driver : failures_.drivers()) {
    const double recent = driver.recent.grown();
    if (recent <= DriverFailures::kMost) continue;
    findings.push_back(
        {Finding::kBroken, "driver " + driver.name,
         "its process ended or hung " + std::to_string(static_cast<int>(recent)) + " times within 5 minutes",
         "a call of the vendor's library crashes, hangs, or is killed",
         "gpulens events --since 1h --name gpulens.reader"});
  }
  if (!reload_failure_.empty()) {
    findings.push_back({Finding::kBroken, "config",
                        "the last reload was refused; the old configuration is in force", reload_failure_,
                        "gpulens config check, then reload"});
  }
  return findings;
}

}  // namespace gpulens
