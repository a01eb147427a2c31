// What is fixed about the machine, and its clock. Not for every second.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <gpulens/status.h>

#include "sources/host/files.h"
#include "sources/host/parse/identity.h"

namespace gpulens {

// Empty strings: not told or not permitted. All are printable.
struct MachineIdentity {
  std::string host_name;
  std::string architecture;    // "x86_64", "aarch64".
  std::string kernel_release;  // "6.1.0-18-amd64"
  std::string kernel_version;  // "#1 SMP PREEMPT_DYNAMIC Debian 6.1.76-1"
  OsRelease os;
  CpuInfo cpu;
  std::string vendor, product;  // From the firmware: "Supermicro", "SYS-821GE-TNHR".
  std::string hypervisor;       // "kvm", "xen", "microsoft", ...; "unknown" when only its presence is known.
  std::string container;        // "docker", "podman", "kubernetes", ...; "unknown" likewise.
  std::string machine_id, boot_id;
};
// Fails only with kUnavailable: nothing below the root looks like /proc. Absent parts stay empty.
Status ReadMachineIdentity(HostFiles& files, MachineIdentity& out);

// The kernel's idea of how right its clock is.
struct TimeSync {
  bool synchronized = false;
  int64_t offset_ns = 0;  // Clock against its reference; meaningful when synchronized.
  uint64_t estimated_error_ns = 0;
  uint64_t maximum_error_ns = 0;
};
// Asks adjtimex and sets nothing. Always about this machine, whatever the root. kUnavailable or
// kPermissionDenied where a sandbox forbids the call.
Status ReadTimeSync(TimeSync& out);

// Ticks of USER_HZ per second, the unit of CpuModeTicks and ProcessStat. 100 on all known machines.
uint64_t ClockTicksPerSecond() noexcept;
uint64_t PageBytes() noexcept;

}  // namespace gpulens
