#include "sources/host/machine.h"

#include <sys/timex.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/files.h"
#include "base/result.h"
#include "sources/host/parse/process.h"

namespace gpulens {
namespace {

std::string TextOf(HostFiles& files, const char* path) {
  auto text = files.FindText(path);
  return text ? CleanText(*text) : std::string();
}

// Words of firmware that hypervisors put in place of a vendor and a product.
std::string HypervisorFromFirmware(std::string_view vendor, std::string_view product) {
  struct Row {
    std::string_view word, name;
  };
  constexpr Row kRows[] = {{"QEMU", "kvm"},
                           {"KVM", "kvm"},
                           {"Google Compute Engine", "kvm"},
                           {"Amazon EC2", "kvm"},
                           {"VMware", "vmware"},
                           {"VirtualBox", "virtualbox"},
                           {"Xen", "xen"},
                           {"OpenStack", "kvm"},
                           {"Parallels", "parallels"},
                           {"Bochs", "bochs"},
                           {"innotek", "virtualbox"},
                           {"Virtual Machine", "microsoft"}};
  for (const Row& row : kRows) {
    bool found =
        vendor.find(row.word) != std::string_view::npos || product.find(row.word) != std::string_view::npos;
    if (found && product.find(".metal") == std::string_view::npos) return std::string(row.name);
  }
  return {};
}

std::string FindHypervisor(HostFiles& files, const MachineIdentity& machine) {
  std::string type = TextOf(files, "sys/hypervisor/type");
  if (!type.empty()) return type;
  std::string name = HypervisorFromFirmware(machine.vendor, machine.product);
  if (name.empty() && machine.cpu.under_hypervisor) return "unknown";
  return name;
}

// The marks that container engines leave. A cgroup namespace shows itself in that even the topmost
// visible cgroup has a type, which the real root has not.
std::string FindContainer(HostFiles& files) {
  if (files.Exists("var/run/secrets/kubernetes.io/serviceaccount")) return "kubernetes";
  if (files.Exists("run/.containerenv")) return "podman";
  if (files.Exists(".dockerenv")) return "docker";
  std::string systemd = TextOf(files, "run/systemd/container");
  if (!systemd.empty()) return systemd;
  return files.Exists("sys/fs/cgroup/cgroup.type") ? "unknown" : "";
}

uint64_t NotNegative(int64_t value) noexcept { return value > 0 ? static_cast<uint64_t>(value) : 0; }

}  // namespace

Status ReadMachineIdentity(HostFiles& files, MachineIdentity& out) {
  out = {};
  out.kernel_release = TextOf(files, "proc/sys/kernel/osrelease");
  if (out.kernel_release.empty()) return {Code::kUnavailable, "no proc/sys/kernel/osrelease below the root"};
  out.kernel_version = TextOf(files, "proc/sys/kernel/version");
  out.host_name = TextOf(files, "proc/sys/kernel/hostname");
  out.architecture = TextOf(files, "proc/sys/kernel/arch");
  struct utsname names = {};
  if (out.architecture.empty() && ::uname(&names) == 0) out.architecture = CleanText(names.machine);

  std::string_view text;
  for (const char* path : {"etc/os-release", "usr/lib/os-release"}) {
    if (files.Find(path, text) && ParseOsRelease(text, out.os)) break;
    out.os = {};
  }
  if (!files.Find("proc/cpuinfo", text) || !ParseCpuInfo(text, out.cpu)) out.cpu = {};
  files.Shrink();  // A line of flags per CPU: a megabyte on large machines.
  out.vendor = TextOf(files, "sys/class/dmi/id/sys_vendor");
  out.product = TextOf(files, "sys/class/dmi/id/product_name");
  out.machine_id = TextOf(files, "etc/machine-id");
  out.boot_id = TextOf(files, "proc/sys/kernel/random/boot_id");
  out.hypervisor = FindHypervisor(files, out);
  out.container = FindContainer(files);
  return Ok();
}

Status ReadTimeSync(TimeSync& out) {
  struct timex answer = {};
  int state = ::adjtimex(&answer);
  if (state < 0) return ErrnoStatus("adjtimex", errno);
  bool nanoseconds = (answer.status & STA_NANO) != 0;
  out.synchronized = state != TIME_ERROR && (answer.status & STA_UNSYNC) == 0;
  out.offset_ns = static_cast<int64_t>(answer.offset) * (nanoseconds ? 1 : 1000);
  out.estimated_error_ns = NotNegative(answer.esterror) * 1000;
  out.maximum_error_ns = NotNegative(answer.maxerror) * 1000;
  return Ok();
}

uint64_t ClockTicksPerSecond() noexcept {
  long ticks = ::sysconf(_SC_CLK_TCK);
  return ticks > 0 ? static_cast<uint64_t>(ticks) : 100;
}

uint64_t PageBytes() noexcept {
  long bytes = ::sysconf(_SC_PAGESIZE);
  return bytes > 0 ? static_cast<uint64_t>(bytes) : 4096;
}

}  // namespace gpulens
