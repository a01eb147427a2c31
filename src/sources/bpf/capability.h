// What this kernel and the rights of this process allow of probes, and why not.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <gpulens/status.h>

namespace gpulens::bpf {

// How calls of a function are seen, best first.
enum class Mechanism : uint8_t {
  kNone,
  kSession,    // begin and end of a call in one probe, end at will: Linux 6.13
  kMulti,      // begin of calls: Linux 6.6
  kPerfEvent,  // the same, one descriptor for each function: Linux 5.15
};
std::string_view MechanismName(Mechanism mechanism) noexcept;

struct KernelVersion {
  int major = 0, minor = 0;
  auto operator<=>(const KernelVersion&) const = default;
};
// Of "6.8.0-1012-nvidia-64k". {0, 0}: not understood.
KernelVersion ParseKernelVersion(std::string_view release) noexcept;

// What names a machine in rows of refusals. Empty: unknown.
struct MachineNames {
  std::string kernel;        // uname -r
  std::string architecture;  // uname -m: "x86_64", "aarch64"
  std::string cpu;           // its model, or on arm64 the numbers of implementer and part: "0x41 0xd4f"
  std::string driver;        // of NVIDIA in the kernel: "570.86.15"
  std::string gpus;          // models: "NVIDIA H100 80GB HBM3, NVIDIA GB200"
};
MachineNames ReadMachineNames(const std::string& proc);

// A row of the administrator's: no probes on a machine that meets all its conditions. Empty: any.
struct MachineRefusal {
  std::string driver, kernel;  // the version, or its first numbers: "570.86"
  std::string cpu, gpu;        // a part of the name; of the CPU also the architecture
  std::string why;             // for who is refused

  friend bool operator==(const MachineRefusal&, const MachineRefusal&) = default;
};
// The first row that the machine meets; null: none, or a row without a condition.
const MachineRefusal* FindMachineRefusal(const MachineNames& machine,
                                         std::span<const MachineRefusal> rows) noexcept;

// One thing that probes need.
struct Capability {
  std::string_view name;  // "machine", "kernel", "bpf", "btf", "uprobes", …; static storage
  bool works = false;
  std::string sentence;  // why not and what to do, or what works
};

struct Capabilities {
  MachineNames machine;
  KernelVersion kernel;
  Mechanism mechanism = Mechanism::kNone;
  bool data_waits = false;
  std::vector<Capability> rows;  // in the order in which they are needed

  bool launches() const noexcept { return mechanism != Mechanism::kNone; }
  // The sentence of the first row that does not work; empty: all do.
  std::string_view trouble() const noexcept;
};

// What is tried. Tests replace them; the errors are errno, 0: it works.
struct CapabilityProbe {
  std::function<MachineNames()> machine;
  std::function<std::string()> lockdown;  // of /sys/kernel/security/lockdown; empty: unknown
  std::function<int()> load;              // load the smallest program that traces
  std::function<bool()> btf;              // /sys/kernel/btf/vmlinux can be read
  std::function<int(Mechanism)> attach;   // load and attach to a function of this process
  std::function<int()> tracepoints;       // attach to sched_process_exit by BTF
  std::function<bool()> other_users;      // CAP_SYS_PTRACE is there
};
// The machine's own. Each try takes some milliseconds and leaves nothing attached.
CapabilityProbe RealCapabilityProbe();

// Tries nothing on a machine that a row of `refusals` names.
Capabilities FindCapabilities(const CapabilityProbe& probe, std::span<const MachineRefusal> refusals = {});

}  // namespace gpulens::bpf
