// What confines the running agent and the processes below it, for `gpulens doctor`.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/sandbox/sandbox.h"
#include "plugins/plugin.h"

namespace gpulens {

struct ConfinedProcess {
  struct Layer {
    std::string name;  // as in SandboxLayer, or "no new privileges"
    bool on = false;
    std::string detail;
  };

  std::string name;  // "agent", "launcher", "reader nvml", or the name of a program
  int64_t pid = 0;
  std::vector<Layer> layers;  // none: it could not be read
};

struct SandboxReport {
  std::string mode;  // since the start: "enforce", "log" or "off"; empty: the agent does not report it
  std::vector<ConfinedProcess> processes;
};

// Of this process, which reports `own`, and of all below it, which the kernel reports in the /proc of `root`.
// The kernel does not report whether their files are limited. `launcher`: its process, -1: none. At most 64
// processes.
SandboxReport ReadSandbox(SandboxMode mode, const std::vector<SandboxLayer>& own, pid_t launcher,
                          const std::string& root);

// A warning where nothing is refused, where a process below the agent is less confined than the agent is, or
// where the report has no mode: `version` is the agent's then. Parts that this system does not have are
// absent.
std::vector<Finding> SandboxFindings(const SandboxReport& report, std::string_view version);

// {"mode":"enforce","processes":[{"process":"agent","pid":17,"layers":[{"layer":"files","on":true,…
void AppendSandboxJson(std::string& out, const SandboxReport& report);
// Reads the member "sandbox"; none gives no mode. At most 64 processes and 16 layers of each.
SandboxReport ParseSandbox(const JsonDocument& document);

}  // namespace gpulens
