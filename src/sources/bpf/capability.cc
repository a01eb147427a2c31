#include "sources/bpf/capability.h"

#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <bpf/libbpf.h>
#include <linux/capability.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <set>

#include "base/fd.h"
#include "base/files.h"
#include "base/parse.h"
#include "sources/bpf/kernel_calls.h"

namespace gpulens::bpf {
namespace {

int ErrnoOf(Code code) {
  if (code == Code::kOk) return 0;
  return code == Code::kPermissionDenied ? EPERM : EINVAL;
}

int TryMechanism(Mechanism mechanism) {
  const int program = LoadSmallestProgram(BPF_PROG_TYPE_KPROBE, AttachTypeOf(mechanism), 0);
  if (program < 0) return -program;
  const UniqueFd loaded(program);
  auto self = FindSelfFunction();
  if (!self) return ErrnoOf(self.error().code);
  const std::array<uint64_t, 1> offsets = {self->offset}, cookies = {0};
  const auto link = LinkProbes(loaded.get(), mechanism, self->file.get(), offsets, cookies);
  return ErrnoOf(link.status().code);
}

int TryTracepoints() {
  const int id = ::libbpf_find_vmlinux_btf_id("sched_process_exit", BPF_TRACE_RAW_TP);
  if (id < 0) return -id;
  const int program = LoadSmallestProgram(BPF_PROG_TYPE_TRACING, BPF_TRACE_RAW_TP, static_cast<uint32_t>(id));
  if (program < 0) return -program;
  const UniqueFd loaded(program);
  const auto link = LinkTracepoint(loaded.get());
  return ErrnoOf(link.status().code);
}

bool HasPtraceRight() {
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  std::array<__user_cap_data_struct, 2> data{};
  if (::syscall(SYS_capget, &header, data.data()) != 0) return false;
  return (data[0].effective >> CAP_SYS_PTRACE & 1) != 0;
}

// "CPU part : 0xd4f" of a file with such lines; of the first that has the key.
std::string ValueOf(std::string_view text, std::string_view key) {
  while (!text.empty()) {
    std::string_view line = TakeUntil(text, '\n');
    if (Trim(TakeUntil(line, ':')) == key) return std::string(Trim(line));
  }
  return {};
}

// The first word that looks like a version: "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.104.05  Sat
// …".
std::string VersionIn(std::string_view line) {
  while (!line.empty()) {
    const std::string_view word = TakeUntil(line, ' ');
    if (word.find('.') != std::string_view::npos &&
        word.find_first_not_of("0123456789.") == std::string_view::npos)
      return std::string(word);
  }
  return {};
}

// "570.86" is that version, 570.86.15 and 570.86-1, not 570.860.
bool IsVersion(std::string_view version, std::string_view wanted) noexcept {
  if (wanted.empty()) return true;
  if (!version.starts_with(wanted)) return false;
  version.remove_prefix(wanted.size());
  return version.empty() || version.front() < '0' || version.front() > '9';
}

bool IsConfidential(const std::string& lockdown) {
  return lockdown.find("[confidentiality]") != std::string::npos;
}

std::string LoadSentence(int error, const std::string& lockdown) {
  if (IsConfidential(lockdown))
    return "the kernel is locked down (confidentiality): it refuses programs that trace";
  if (error == EPERM || error == EACCES)
    return "no right to load programs: CAP_BPF and CAP_PERFMON are needed";
  if (error == ENOSYS) return "the kernel is built without BPF";
  return std::string("the kernel refuses programs: ") + std::strerror(error);
}

}  // namespace

std::string_view MechanismName(Mechanism mechanism) noexcept {
  switch (mechanism) {
    case Mechanism::kSession: return "session";
    case Mechanism::kMulti: return "multi";
    case Mechanism::kPerfEvent: return "perf_event";
    case Mechanism::kNone: break;
  }
  return "none";
}

KernelVersion ParseKernelVersion(std::string_view release) noexcept {
  const auto major = ParseInt<int>(TakeUntil(release, '.'));
  const auto minor = ParseInt<int>(release.substr(0, release.find_first_not_of("0123456789")));
  return major && minor ? KernelVersion{*major, *minor} : KernelVersion{};
}

std::string_view Capabilities::trouble() const noexcept {
  for (const Capability& row : rows) {
    if (!row.works) return row.sentence;
  }
  return {};
}

MachineNames ReadMachineNames(const std::string& proc) {
  constexpr size_t kMostBytes = size_t{1} << 20;
  MachineNames out;
  utsname names{};
  if (::uname(&names) == 0) out.kernel = names.release, out.architecture = names.machine;
  const std::string cpus = ReadFile(proc + "/cpuinfo", kMostBytes).value_or("");
  out.cpu = ValueOf(cpus, "model name");
  if (out.cpu.empty())
    out.cpu = std::string(Trim(ValueOf(cpus, "CPU implementer") + " " + ValueOf(cpus, "CPU part")));
  const std::string version = ReadFile(proc + "/driver/nvidia/version", 4096).value_or("");
  out.driver = VersionIn(std::string_view(version).substr(0, version.find('\n')));
  const std::string folder = proc + "/driver/nvidia/gpus";
  std::set<std::string> models;
  const Status listed = ForEachName(folder, [&](std::string_view name) {
    models.insert(
        ValueOf(ReadFile(folder + "/" + std::string(name) + "/information", 4096).value_or(""), "Model"));
    return true;
  });
  if (!listed) return out;  // no driver
  models.erase("");
  for (const std::string& model : models) out.gpus += (out.gpus.empty() ? "" : ", ") + model;
  return out;
}

const MachineRefusal* FindMachineRefusal(const MachineNames& machine,
                                         std::span<const MachineRefusal> rows) noexcept {
  const auto has = [](std::string_view text, std::string_view part) {
    return text.find(part) != std::string_view::npos;
  };
  for (const MachineRefusal& row : rows) {
    if (row.driver.empty() && row.kernel.empty() && row.cpu.empty() && row.gpu.empty()) continue;
    if (IsVersion(machine.driver, row.driver) && IsVersion(machine.kernel, row.kernel) &&
        (has(machine.cpu, row.cpu) || machine.architecture == row.cpu) && has(machine.gpus, row.gpu))
      return &row;
  }
  return nullptr;
}

CapabilityProbe RealCapabilityProbe() {
  CapabilityProbe probe;
  probe.machine = [] { return ReadMachineNames("/proc"); };
  probe.lockdown = [] { return ReadFile(std::string("/sys/kernel/security/lockdown"), 256).value_or(""); };
  probe.load = [] {
    const int program = LoadSmallestProgram(BPF_PROG_TYPE_KPROBE, 0, 0);
    if (program < 0) return -program;
    const UniqueFd loaded(program);
    return 0;
  };
  probe.btf = [] { return ::access("/sys/kernel/btf/vmlinux", R_OK) == 0; };
  probe.attach = TryMechanism;
  probe.tracepoints = TryTracepoints;
  probe.other_users = HasPtraceRight;
  return probe;
}

Capabilities FindCapabilities(const CapabilityProbe& probe, std::span<const MachineRefusal> refusals) {
  Capabilities out;
  out.machine = probe.machine();
  out.kernel = ParseKernelVersion(out.machine.kernel);
  const auto row = [&](std::string_view name, bool works, std::string sentence) {
    out.rows.push_back({name, works, std::move(sentence)});
    return works;
  };
  if (const MachineRefusal* refusal = FindMachineRefusal(out.machine, refusals)) {
    row("machine", false, refusal->why);
    return out;
  }
  if (!row("kernel", out.kernel >= KernelVersion{5, 15},
           out.kernel >= KernelVersion{5, 15} ? "Linux is new enough" : "Linux is older than 5.15"))
    return out;
  const int error = probe.load();
  const std::string lockdown = probe.lockdown();
  if (!row("bpf", error == 0 && !IsConfidential(lockdown), LoadSentence(error, lockdown))) return out;
  if (!probe.btf()) {
    row("btf", false,
        "the kernel does not describe its types: /sys/kernel/btf/vmlinux is needed (CONFIG_DEBUG_INFO_BTF)");
    return out;
  }
  row("btf", true, "the kernel describes its types");
  const int tracepoints = probe.tracepoints();
  out.data_waits = row("tracepoints", tracepoints == 0,
                       tracepoints == 0 ? "processes can be followed, and waits for data measured"
                                        : std::string("programs cannot be attached to the scheduler: ") +
                                              std::strerror(tracepoints));
  if (!out.data_waits) return out;
  for (Mechanism one : {Mechanism::kSession, Mechanism::kMulti, Mechanism::kPerfEvent}) {
    if (probe.attach(one) != 0) continue;
    out.mechanism = one;
    break;
  }
  row("uprobes", out.launches(),
      out.mechanism == Mechanism::kSession ? "calls can be counted and timed"
      : out.launches()                     ? "calls can be counted, not timed: that needs Linux 6.13"
                                           : "the kernel refuses probes of functions (CONFIG_UPROBES)");
  const bool others = probe.other_users();
  row("other_users", others,
      others ? "processes of all users can be found"
             : "processes of other users cannot be found: CAP_SYS_PTRACE is needed");
  return out;
}

}  // namespace gpulens::bpf
