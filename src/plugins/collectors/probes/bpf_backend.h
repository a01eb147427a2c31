// The backend of the probe host over BPF (sources/bpf), with the governor.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <gpulens/status.h>

#include "plugins/collectors/probes/probe_backend.h"
#include "sources/bpf/capability.h"

namespace gpulens::probes {

struct BpfBackendOptions {
  std::string proc = "/proc";
  // Tests replace it: what the machine lacks then.
  bpf::CapabilityProbe capabilities = bpf::RealCapabilityProbe();
};
std::unique_ptr<ProbeBackend> MakeBpfBackend(BpfBackendOptions options = {});

// Processes that use CUDA, and which of its functions could be probed, as far as the caller may read them;
// `pid` 0: all. Attaches nothing and needs no rights for the caller's own processes.
Result<std::vector<ListedTarget>> ListProbeTargets(const std::string& proc, int64_t pid);

// The ability of a machine by what was found. `reason` is one of probe_backend.h.
Ability AbilityOf(const bpf::Capabilities& found);

}  // namespace gpulens::probes
