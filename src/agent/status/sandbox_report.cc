#include "agent/status/sandbox_report.h"

#include <unistd.h>

#include <algorithm>
#include <bit>
#include <optional>
#include <string_view>

#include "base/files.h"
#include "base/parse.h"
#include "base/text.h"
#include "wire/json/json_object.h"

namespace gpulens {
namespace {

constexpr size_t kMostProcesses = 64, kMostLayers = 16;
constexpr std::string_view kSystemCalls = "system calls", kNoNewPrivileges = "no new privileges";

std::string_view WordOf(SandboxMode mode) noexcept {
  constexpr std::string_view kWords[] = {"enforce", "log", "off"};
  return kWords[static_cast<size_t>(mode)];
}

// The value of a line "NAME:\tVALUE" of /proc/PID/status.
std::string_view FieldOf(std::string_view status, std::string_view name) {
  for (std::string_view rest = status; !rest.empty();) {
    const std::string_view line = TakeUntil(rest, '\n');
    if (line.starts_with(name) && line.substr(name.size()).starts_with(':'))
      return Trim(line.substr(name.size() + 1));
  }
  return {};
}

// By their numbers, without CAP_.
constexpr std::string_view kCapabilityNames[] = {"CHOWN",
                                                 "DAC_OVERRIDE",
                                                 "DAC_READ_SEARCH",
                                                 "FOWNER",
                                                 "FSETID",
                                                 "KILL",
                                                 "SETGID",
                                                 "SETUID",
                                                 "SETPCAP",
                                                 "LINUX_IMMUTABLE",
                                                 "NET_BIND_SERVICE",
                                                 "NET_BROADCAST",
                                                 "NET_ADMIN",
                                                 "NET_RAW",
                                                 "IPC_LOCK",
                                                 "IPC_OWNER",
                                                 "SYS_MODULE",
                                                 "SYS_RAWIO",
                                                 "SYS_CHROOT",
                                                 "SYS_PTRACE",
                                                 "SYS_PACCT",
                                                 "SYS_ADMIN",
                                                 "SYS_BOOT",
                                                 "SYS_NICE",
                                                 "SYS_RESOURCE",
                                                 "SYS_TIME",
                                                 "SYS_TTY_CONFIG",
                                                 "MKNOD",
                                                 "LEASE",
                                                 "AUDIT_WRITE",
                                                 "AUDIT_CONTROL",
                                                 "SETFCAP",
                                                 "MAC_OVERRIDE",
                                                 "MAC_ADMIN",
                                                 "SYSLOG",
                                                 "WAKE_ALARM",
                                                 "BLOCK_SUSPEND",
                                                 "AUDIT_READ",
                                                 "PERFMON",
                                                 "BPF",
                                                 "CHECKPOINT_RESTORE"};
// A process that has more of them is not limited.
constexpr int kMostCapabilities = 4;

ConfinedProcess::Layer CapabilitiesOf(uint64_t left) {
  ConfinedProcess::Layer layer{"capabilities", std::popcount(left) <= kMostCapabilities, {}};
  for (size_t i = 0; i < 64; ++i) {
    if (!(left >> i & 1)) continue;
    layer.detail += layer.detail.empty() ? "left: " : ", ";
    layer.detail +=
        i < std::size(kCapabilityNames) ? "CAP_" + std::string(kCapabilityNames[i]) : std::to_string(i);
  }
  if (layer.detail.empty()) layer.detail = "none left";
  return layer;
}

// A filter that only logs is none.
std::vector<ConfinedProcess::Layer> LayersOf(std::string_view status, bool enforce) {
  std::vector<ConfinedProcess::Layer> layers;
  if (const std::string_view set = FieldOf(status, "NoNewPrivs"); !set.empty())
    layers.push_back(
        {std::string(kNoNewPrivileges), set == "1", set == "1" ? "" : "programs of root may give it some"});
  if (const auto left = ParseInt<uint64_t>(FieldOf(status, "CapEff"), 16))
    layers.push_back(CapabilitiesOf(*left));
  if (const std::string_view set = FieldOf(status, "Seccomp"); !set.empty())
    layers.push_back({std::string(kSystemCalls), set == "2" && enforce,
                      set != "2" ? "not filtered"
                      : enforce  ? "filtered"
                                 : "only logged"});
  return layers;
}

// "reader nvml" of this program; of others the name of the file.
std::string NameOfCommand(std::string_view command) {
  std::string_view rest = command;
  const std::string_view program = TakeUntil(rest, '\0');
  if (TakeUntil(rest, '\0') == "reader") return "reader " + std::string(TakeUntil(rest, '\0'));
  return std::string(program.substr(program.rfind('/') + 1));
}

class Tree {
 public:
  Tree(const std::string& root, pid_t launcher, bool enforce)
      : proc_(root + "/proc/"), launcher_(launcher), enforce_(enforce) {}

  // Adds what is below the process `pid`.
  void AddBelow(pid_t pid, SandboxReport& report) const {
    const std::string tasks = proc_ + std::to_string(pid) + "/task";
    std::vector<pid_t> children;
    static_cast<void>(ForEachName(tasks, [&](std::string_view task) {
      const Result<std::string> list = ReadFile(tasks + "/" + std::string(task) + "/children");
      for (std::string_view rest = list ? std::string_view(*list) : std::string_view(); !rest.empty();) {
        if (const auto child = ParseInt<pid_t>(TakeUntil(rest, ' '))) children.push_back(*child);
      }
      return true;
    }));
    std::ranges::sort(children);
    for (pid_t child : children) {
      if (report.processes.size() >= kMostProcesses) return;
      report.processes.push_back(Read(child));
      AddBelow(child, report);
    }
  }

 private:
  ConfinedProcess Read(pid_t pid) const {
    const std::string folder = proc_ + std::to_string(pid);
    ConfinedProcess process{.name = "launcher", .pid = pid, .layers = {}};
    if (pid != launcher_) {
      const Result<std::string> command = ReadFile(folder + "/cmdline");
      process.name = NameOfCommand(command ? std::string_view(*command) : std::string_view());
    }
    if (const Result<std::string> status = ReadFile(folder + "/status"))
      process.layers = LayersOf(*status, enforce_);
    return process;
  }

  const std::string proc_;
  const pid_t launcher_;
  const bool enforce_;
};

const ConfinedProcess::Layer* LayerOf(const ConfinedProcess& process, std::string_view name) {
  const auto found = std::ranges::find(process.layers, name, &ConfinedProcess::Layer::name);
  return found == process.layers.end() ? nullptr : &*found;
}

bool IsOn(const ConfinedProcess& process, std::string_view name) {
  const ConfinedProcess::Layer* layer = LayerOf(process, name);
  return layer && layer->on;
}

Finding FindingOfMode(std::string_view mode) {
  const bool logs = mode == "log";
  return {Finding::kWarning, "sandbox",
          logs ? "nothing is refused: the kernel logs what the agent's processes may not do"
               : "the agent's processes may do all that their user may",
          "sandbox.mode was " + std::string(mode) + " when the agent started",
          "set sandbox.mode to enforce, and restart the agent"};
}

}  // namespace

SandboxReport ReadSandbox(SandboxMode mode, const std::vector<SandboxLayer>& own, pid_t launcher,
                          const std::string& root) {
  SandboxReport report;
  report.mode = WordOf(mode);
  ConfinedProcess agent{.name = "agent", .pid = ::getpid(), .layers = {}};
  for (const SandboxLayer& layer : own)
    agent.layers.push_back({std::string(layer.name), layer.on, layer.detail});
  report.processes.push_back(std::move(agent));
  Tree(root, launcher, mode == SandboxMode::kEnforce).AddBelow(::getpid(), report);
  return report;
}

std::vector<Finding> SandboxFindings(const SandboxReport& report, std::string_view version) {
  if (report.mode.empty() || report.processes.empty()) {
    return {{Finding::kWarning, "sandbox", "unknown: the agent does not report what confines its processes",
             "it is gpulens " + std::string(version), "restart the agent with this version"}};
  }
  if (report.mode != "enforce") return {FindingOfMode(report.mode)};
  std::vector<Finding> findings;
  const ConfinedProcess& agent = report.processes.front();
  if (agent.layers.empty())
    return {{Finding::kWarning, "sandbox", "the agent's processes are not confined",
             "sandbox.mode is enforce, and no part of it is in force", ""}};
  for (const ConfinedProcess::Layer& layer : agent.layers) {
    if (!layer.on)
      findings.push_back(
          {Finding::kNotHere, "sandbox", layer.name + " are not limited: " + layer.detail, "", ""});
  }
  const bool filters = IsOn(agent, kSystemCalls);
  for (const ConfinedProcess& process : report.processes) {
    if (&process == &agent) continue;
    if (process.layers.empty()) {
      findings.push_back({Finding::kWarning, "sandbox", "unknown: what confines " + Printable(process.name),
                          "its /proc/" + std::to_string(process.pid) + "/status cannot be read", ""});
    } else if (filters && !(IsOn(process, kSystemCalls) && IsOn(process, kNoNewPrivileges))) {
      findings.push_back({Finding::kWarning, "sandbox",
                          Printable(process.name) + " (pid " + std::to_string(process.pid) +
                              ") is not confined as the agent is",
                          "its system calls are not filtered, or it may get privileges of other programs",
                          ""});
    }
  }
  return findings;
}

void AppendSandboxJson(std::string& out, const SandboxReport& report) {
  JsonObject object(out);
  object.Text("mode", report.mode);
  object.List("processes", report.processes, [](std::string& text, const ConfinedProcess& process) {
    JsonObject one(text);
    one.Text("process", process.name);
    one.Whole("pid", process.pid);
    one.List("layers", process.layers, [](std::string& inner, const ConfinedProcess::Layer& layer) {
      JsonObject row(inner);
      row.Text("layer", layer.name);
      row.Flag("on", layer.on);
      row.TextIfAny("detail", layer.detail);
    });
  });
}

SandboxReport ParseSandbox(const JsonDocument& document) {
  SandboxReport report;
  const std::string sandbox = "/sandbox";
  report.mode = document.Text(sandbox + "/mode").value_or("");
  const std::string processes = sandbox + "/processes";
  for (size_t i = 0, count = std::min(document.Size(processes), kMostProcesses); i < count; ++i) {
    const std::string at = processes + "/" + std::to_string(i);
    ConfinedProcess process{.name = document.Text(at + "/process").value_or(""),
                            .pid = document.Integer(at + "/pid").value_or(0),
                            .layers = {}};
    for (size_t k = 0, layers = std::min(document.Size(at + "/layers"), kMostLayers); k < layers; ++k) {
      const std::string row = at + "/layers/" + std::to_string(k);
      process.layers.push_back({document.Text(row + "/layer").value_or(""),
                                document.Truth(row + "/on").value_or(false),
                                document.Text(row + "/detail").value_or("")});
    }
    report.processes.push_back(std::move(process));
  }
  return report;
}

}  // namespace gpulens
