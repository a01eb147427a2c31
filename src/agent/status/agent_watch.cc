#include "agent/status/agent_watch.h"

#include <unistd.h>

#include <algorithm>

#include "agent/plugin_tables.h"
#include "agent/status/queue_findings.h"
#include "agent/targets/discovery_runner.h"
#include "base/version.h"
#include "plugins/agent_stats.h"

namespace gpulens {
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

std::vector<Finding> LookEverywhere(const Config& config, Env& env) {
  std::vector<Finding> findings;
  auto add = [&](std::vector<Finding> more) {
    for (Finding& finding : more) findings.push_back(std::move(finding));
  };
  for (const CollectorSpec* spec : AllCollectors()) {
    if (spec->probe && IsOn(*spec, config)) add(spec->probe(PartOf(*spec, config), env));
  }
  for (const DiscoverySpec* spec : AllDiscoveries()) {
    if (spec->probe && Wanted(*spec, config))
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
  std::vector<std::string_view> told, seen;
  for (Finding& finding : probed) {
    const CollectorState* state = StateOf(states, finding.subject);
    // A probe knows the remedy, and the collector whether it works.
    bool agrees = !state || (state->up ? finding.kind == Finding::kFound || IsTrouble(finding.kind)
                                       : finding.kind != Finding::kFound && !state->worked);
    if (state && state->up && finding.kind == Finding::kBroken) agrees = false;
    if (!agrees && state && finding.kind == Finding::kFound) seen.push_back(state->collector);
    if (!agrees) continue;
    if (state) told.push_back(state->collector);
    findings.push_back(std::move(finding));
  }
  for (const CollectorState& state : states) {
    bool known = std::find(told.begin(), told.end(), state.collector) != told.end();
    // Targets that answer are the usual case, and may be many; one that never did may be no target at all.
    bool quiet = state.one_of_many && (state.up || !state.answered);
    bool here = std::find(seen.begin(), seen.end(), state.collector) != seen.end();
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
  return report;
}

std::vector<Finding> AgentWatch::Findings(const Config& config, Env& env, const Pipeline& pipeline) const {
  std::vector<CollectorState> states;
  for (const Pipeline::InstanceView& view : pipeline.instances()) {
    states.push_back({view.name, view.spec->name, view.stats.up, view.answered, view.stats.runs_ok != 0,
                      view.spec->per_target, view.stats.last, view.stats.series});
  }
  std::vector<Finding> findings = CollectorFindings(states, LookEverywhere(config, env));
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
