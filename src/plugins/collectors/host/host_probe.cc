// What `gpulens doctor` says of the host.

#include <cstdio>

#include "plugins/collectors/host/host_part.h"
#include "sources/host/hardware.h"
#include "sources/host/process.h"

namespace gpulens {
namespace {

constexpr std::string_view kEnergyRemedy =
    "sudo gpulens agent   or, where local users may see fine-grained power (CVE-2020-8694), until the next "
    "boot:\nsudo chmod o+r /sys/class/powercap/intel-rapl:*/energy_uj";

// "4.0 CPUs, 16.0 GiB"; empty without a limit.
std::string LimitsOf(const CgroupInfo& cgroup) {
  std::string out;
  char text[48];
  if (cgroup.cpu_limit) {
    std::snprintf(text, sizeof text, "%.1f CPUs", *cgroup.cpu_limit);
    out = text;
  }
  if (cgroup.memory_limit_bytes) {
    std::snprintf(text, sizeof text, "%.1f GiB", static_cast<double>(*cgroup.memory_limit_bytes) / 0x1p30);
    out.append(out.empty() ? "" : ", ").append(text);
  }
  return out;
}

Finding HostFinding(HostFiles& files, bool has_cgroup) {
  Finding host{.kind = Finding::kFound, .subject = "host", .what = {}, .why = {}, .remedy = {}};
  for (const char* folder : {"proc", "sys"}) {
    if (files.Exists(folder)) host.what.append(host.what.empty() ? "/" : ", /").append(folder);
  }
  if (has_cgroup) host.what += ", cgroup v2";
  if (files.Exists("proc/stat") && files.Exists("proc/meminfo")) return host;
  host.kind = Finding::kBroken;
  host.why = "no proc/stat and proc/meminfo below " + files.root() + "/";
  host.remedy = "set collectors.host.root to the folder where the root of the machine is mounted";
  return host;
}

void AddContainer(HostFiles& files, const CgroupInfo* cgroup, std::vector<Finding>& findings) {
  MachineIdentity machine;
  if (!ReadMachineIdentity(files, machine) || machine.container.empty()) return;
  std::string what = machine.container == "unknown" ? "runs in a container" : machine.container;
  std::string limits = cgroup ? LimitsOf(*cgroup) : std::string();
  if (!limits.empty()) what += ", cgroup v2 limits of this container (" + limits + ")";
  findings.push_back(
      {.kind = Finding::kFound,
       .subject = "container",
       .what = std::move(what),
       .why = "network, mounts and processes are those of the container",
       .remedy = "mount the root of the machine at /host and set collectors.host.root: /host"});
}

void AddEnergy(HostFiles& files, std::vector<Finding>& findings) {
  std::vector<EnergyZone> zones;
  Status status = EnergyReader(files).Read(zones);
  if (status.code == Code::kUnavailable) return;
  Finding energy{
      .kind = Finding::kFound, .subject = "cpu energy", .what = "Intel RAPL", .why = {}, .remedy = {}};
  if (!status) {
    energy.kind = Finding::kBroken;
    energy.why = status.detail;
  }
  if (status.code == Code::kPermissionDenied) {
    energy.kind = Finding::kNoPermission;
    energy.what = "Intel RAPL is here but only root may read it";
    energy.remedy = kEnergyRemedy;
  }
  findings.push_back(std::move(energy));
}

void AddPressure(HostFiles& files, std::vector<Finding>& findings) {
  if (files.Exists("proc/pressure/cpu")) return;
  findings.push_back({.kind = Finding::kNotHere,
                      .subject = "pressure",
                      .what = "no pressure stall information (PSI)",
                      .why = "the kernel is older than 4.20, was built without it, or has it switched off",
                      .remedy = "add psi=1 to the kernel's command line"});
}

}  // namespace

std::vector<Finding> ProbeHost(const Config& config, Env& env) {
  std::vector<Finding> findings;
  auto files = HostFiles::Open(HostRoot(config, env));
  if (!files) {
    findings.push_back({.kind = Finding::kBroken,
                        .subject = "host",
                        .what = "the root cannot be opened",
                        .why = files.error().detail,
                        .remedy = "set collectors.host.root to a folder that exists"});
    return findings;
  }
  CgroupInfo cgroup;
  // A file of it that makes no sense does not make it absent.
  bool has_cgroup = CgroupReader(*files).Read(cgroup).code != Code::kUnavailable;
  findings.push_back(HostFinding(*files, has_cgroup));
  if (findings.front().kind == Finding::kBroken) return findings;
  AddContainer(*files, has_cgroup ? &cgroup : nullptr, findings);
  AddEnergy(*files, findings);
  AddPressure(*files, findings);
  return findings;
}

}  // namespace gpulens
