#include "cli/commands.h"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>

#include "agent/control/control_socket.h"
#include "agent/run/config_file.h"
#include "agent/run/plan.h"
#include "agent/status/agent_watch.h"
#include "agent/status/status_report.h"
#include "base/text.h"
#include "cli/common/output.h"
#include "cli/compare/comparison.h"
#include "cli/help/help.h"
#include "config/validate.h"
#include "wire/json/json_object.h"

namespace gpulens {
namespace {

// "kubelet_stats" and a blank.
std::string PaddedSubject(std::string_view text) { return Padded(text, 14, 1); }

size_t Count(const std::vector<Finding>& findings, Finding::Kind kind) {
  return static_cast<size_t>(
      std::ranges::count_if(findings, [&](const Finding& f) { return f.kind == kind; }));
}

void AppendProblems(std::string& out, const std::vector<Finding>& findings, Finding::Kind kind,
                    std::string_view mark) {
  for (const Finding& finding : findings) {
    if (finding.kind != kind) continue;
    out += "  " + std::string(mark) + " " + PaddedSubject(finding.subject) + " " + finding.what + "\n";
    if (!finding.why.empty()) out += "      why  " + finding.why + "\n";
    if (!finding.remedy.empty()) out += "      do   " + finding.remedy + "\n";
  }
}

// The author of the findings: a running agent, or this command.
struct View {
  QueriedStatus agent;
  std::string user;  // who runs this command
};

// "the agent of user gpulens (pid 17) at http://127.0.0.1:9091/"
std::string NameOf(const QueriedStatus& agent) {
  return "the agent of user " + agent.report->user + " (pid " + std::to_string(agent.report->pid) + ") at " +
         agent.at;
}

std::string Headline(const std::vector<Finding>& findings) {
  size_t broken = Count(findings, Finding::kBroken), found = Count(findings, Finding::kFound);
  size_t limited = Count(findings, Finding::kNoPermission), warnings = Count(findings, Finding::kWarning);
  std::string rest;
  if (limited) rest += ", " + Plural(limited, "limit", "limits");
  if (warnings) rest += ", " + Plural(warnings, "warning", "warnings");
  if (broken) return "✖ " + Plural(broken, "fault", "faults") + rest + ".";
  if (!rest.empty()) return "▲ " + rest.substr(2) + ", nothing is broken.";
  return "● fine: " + Plural(found, "source works", "sources work") + ", nothing is broken.";
}

bool FoundGpu(const std::vector<Finding>& findings) {
  constexpr std::string_view kOfGpus[] = {"nvidia", "amd", "gaudi"};
  return std::ranges::any_of(findings, [&](const Finding& f) {
    bool of_gpu = std::ranges::count(kOfGpus, f.subject) > 0;
    return (f.kind == Finding::kFound && of_gpu) || f.subject.starts_with("GPU");
  });
}

// A line for each process of the agent: what of the sandbox is in force.
std::string ConfinedText(const SandboxReport& report) {
  std::string out;
  if (report.mode != "enforce") return out;
  for (const ConfinedProcess& process : report.processes) {
    std::string layers;
    for (const ConfinedProcess::Layer& layer : process.layers) {
      if (!layer.on) continue;
      layers += (layers.empty() ? "" : ", ") + Printable(layer.name);
      if (layer.detail.starts_with("left: ")) layers += " (" + Printable(layer.detail) + ")";
    }
    if (!layers.empty()) out += "  confined   " + PaddedSubject(Printable(process.name)) + layers + "\n";
  }
  return out;
}

std::string Text(const std::vector<Finding>& findings, const View& view) {
  std::string out = Headline(findings) + (FoundGpu(findings) ? "" : " No GPU was found.");
  const QueriedStatus& agent = view.agent;
  out += agent.report && agent.report->simulated ? " SIMULATED GPUs.\n" : "\n";
  if (agent.report) out += "  seen by    " + NameOf(agent) + "\n";
  else
    out += "  seen by    this command as user " + view.user + "; what a running agent may see can differ\n";
  AppendProblems(out, findings, Finding::kBroken, "✖");
  AppendProblems(out, findings, Finding::kNoPermission, "▲");
  AppendProblems(out, findings, Finding::kWarning, "▲");
  for (const Finding& finding : findings) {
    if (finding.kind == Finding::kFound)
      out += "  found      " + PaddedSubject(finding.subject) + finding.what + "\n";
  }
  if (agent.report) out += ConfinedText(agent.report->sandbox);
  for (const Finding& finding : findings) {
    if (finding.kind == Finding::kNotHere)
      out += "  absent     " + PaddedSubject(finding.subject) +
             (finding.why.empty() ? finding.what : finding.why) + "\n";
  }
  if (!agent.report && agent.at.empty())
    out += "  agent      not running.   do: gpulens agent      to see it with GPUs: gpulens agent --demo\n";
  return out;
}

std::string Json(const std::vector<Finding>& findings, const View& view) {
  const QueriedStatus& agent = view.agent;
  return JsonDocumentText("gpulens.doctor/1", [&](JsonObject& root) {
    if (agent.at.empty()) root.Raw("agent", "null");
    else root.Text("agent", agent.at);
    root.Text("seen_by", agent.report ? "agent" : "command");
    root.Text("user", agent.report ? agent.report->user : view.user);
    if (agent.report) root.Whole("pid", agent.report->pid);
    if (agent.report && agent.report->simulated) root.Flag("simulated", true);
    if (agent.report) AppendSandboxJson(root.Key("sandbox"), agent.report->sandbox);
    root.List("findings", findings, AppendFindingJson, "\n", "\n");
  });
}

struct DoctorOptions {
  std::string config_file;
  bool json = false;
};

// Reports the findings of the agent on this machine, or those of this process when none answers. Returns 0
// when all is fine, 1 when limited (no permission, or a warning), 2 for a fault or a bad configuration.
// Absent hardware counts only if the configuration requires it.
int RunDoctor(const DoctorOptions& options) {
  const CommandConfig loaded = LoadCommandConfig(options.config_file, &LoadOutcome::Report);
  if (!loaded.ok()) return 2;
  View view{QueryRunningAgent(loaded.config()), UserName(::geteuid())};
  std::vector<Finding> findings;
  if (view.agent.report) {
    findings = std::move(view.agent.report->findings);
    const StatusReport& report = *view.agent.report;
    // An agent that knows of no sandbox has no findings of it.
    if (report.sandbox.mode.empty()) {
      for (Finding& finding : SandboxFindings(report.sandbox, report.version))
        findings.push_back(std::move(finding));
    }
  } else {
    Env env;
    findings = ProbePlugins(loaded.config(), env);
    for (Finding& left : LeftoverFindings(loaded.config(), StateDir(loaded.config().Text("state_dir"))))
      findings.push_back(std::move(left));
    if (!view.agent.at.empty()) {
      findings.push_back({Finding::kWarning, "agent",
                          "something serves " + view.agent.at + ", but does not report its state",
                          view.agent.refusal,
                          "run as root or as the user of that agent: sudo gpulens doctor"});
    }
  }
  if (std::optional<Finding> driver = DriverFinding(QueryDriverStatus(loaded.config())))
    findings.push_back(*std::move(driver));
  if (options.json) std::fputs(Json(findings, view).c_str(), stdout);
  else WriteText(Text(findings, view));
  if (Count(findings, Finding::kBroken)) return 2;
  return Count(findings, Finding::kNoPermission) || Count(findings, Finding::kWarning) ? 1 : 0;
}

constexpr const char* kDoctorFooter = R"(
  gpulens doctor
  gpulens doctor --compare             each reading next to nvidia-smi's, amd-smi's or hl-smi's
  gpulens doctor --compare-with smi.xml --json   next to the tool's saved output

With --compare: exit 1 when a difference has no known reason, 2 when nothing can be compared.
Exit: 0 fine · 1 limited: something here may not be read · 2 a fault. Absent hardware never counts.)";

}  // namespace

void AddDoctor(CLI::App& app, int& code) {
  struct AllOptions {
    DoctorOptions doctor;
    CompareOptions compare;
  };
  auto kept = std::make_shared<AllOptions>();
  CLI::App* doctor = app.add_subcommand("doctor", "Report what was found, what is missing and what to do.");
  doctor->group("Look");
  AddConfigOption(*doctor, kept->doctor.config_file);
  doctor->add_flag("--json", kept->doctor.json, "JSON");
  AddCompare(*doctor, kept->compare);
  doctor->footer(kDoctorFooter);
  doctor->callback([kept, &code] {
    kept->compare.config_file = kept->doctor.config_file;
    kept->compare.json = kept->doctor.json;
    code = kept->compare.IsRequested() ? RunCompare(kept->compare) : RunDoctor(kept->doctor);
  });
}

}  // namespace gpulens
