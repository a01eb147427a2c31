// Readers of what /proc reports about the whole machine.
//
//   auto files = HostFiles::Open("/");
//   SystemReader reader(*files);
//   CpuTimes cpu;
//   Status status = reader.ReadCpuTimes(cpu);
//
// Each call reads one file again; nothing is cached. Repeated calls on the same struct allocate nothing.
#pragma once

#include <sys/statvfs.h>

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <gpulens/status.h>

#include "sources/host/files.h"
#include "sources/host/parse/devices.h"
#include "sources/host/parse/system.h"

namespace gpulens {

enum class PressureResource : uint8_t { kCpu, kMemory, kIo, kIrq };

// Not thread-safe; `files` must outlive it. Keeps the files open. Failures: kUnavailable (this kernel or
// container has no such file), kPermissionDenied, kDataLoss (malformed; `out` is then meaningless),
// kExhausted.
class SystemReader {
 public:
  explicit SystemReader(HostFiles& files);

  Status ReadCpuTimes(CpuTimes& out) { return Parse(stat_, ParseCpuTimes, out); }
  Status ReadLoadAverage(LoadAverage& out) { return Parse(loadavg_, ParseLoadAverage, out); }
  Status ReadUptime(SystemUptime& out) { return Parse(uptime_, ParseUptime, out); }
  Status ReadMemory(MemoryInfo& out) { return Parse(meminfo_, ParseMemoryInfo, out); }
  Status ReadVmStat(VmStat& out) { return Parse(vmstat_, ParseVmStat, out); }
  Status ReadDisks(std::vector<DiskStat>& out) { return Parse(diskstats_, ParseDiskStats, out); }
  Status ReadNetDevices(std::vector<NetDevice>& out) { return Parse(net_dev_, ParseNetDevices, out); }
  Status ReadNetProtocols(NetProtocols& out) { return Parse(snmp_, ParseSnmp, out); }
  Status ReadFileHandles(FileHandles& out) { return Parse(file_nr_, ParseFileHandles, out); }
  // The members of IPv6 are absent without it.
  Status ReadSockets(SocketCounts& out);
  // kUnavailable without PSI (before 4.20, or psi=0); irq exists since Linux 6.1 only.
  Status ReadPressure(PressureResource resource, PressureStall& out);
  // Bits of entropy in the kernel's pool.
  Status ReadEntropy(uint64_t& bits);

 private:
  template <class T>
  Status Parse(KeptFile& file, Status (*parse)(std::string_view, T&), T& out) {
    std::string_view text;
    Status status = files_.Read(file, text);
    return status ? parse(text, out) : status;
  }

  HostFiles& files_;
  KeptFile stat_, loadavg_, uptime_, meminfo_, vmstat_, diskstats_;
  KeptFile net_dev_, snmp_, sockstat_, sockstat6_;
  std::array<KeptFile, 4> pressure_;
  KeptFile file_nr_, entropy_;
};

// Size of a block device of DiskStat::name, bytes; absent when it cannot be read.
Status FindDiskSize(HostFiles& files, std::string_view device, std::optional<uint64_t>& bytes);

struct FileSystem {
  enum class Answer : uint8_t {
    kOk,
    kNotQueried,  // Remote: a call could hang for ever.
    kFailed,      // `error` is why: not permitted, gone, or impossible numbers.
  };
  MountEntry mount;
  Answer answer = Answer::kNotQueried;
  Code error = Code::kOk;
  // Meaningful when answered. used = size - free; reserved for root = free - available.
  uint64_t size_bytes = 0, free_bytes = 0, available_bytes = 0;
  std::optional<uint64_t> inodes, inodes_free;  // Absent where the file system has no fixed number.
};

// Reads the mounts and calls `query` for the local ones; never for a MountClass::kRemote. One file system
// that fails does not fail the call. Not for every second: a node can have hundreds of mounts.
class FileSystemReader {
 public:
  using StatVfs = int (*)(const char* path, struct statvfs* out);

  explicit FileSystemReader(HostFiles& files, StatVfs query = ::statvfs);
  Status Read(std::vector<FileSystem>& out);

 private:
  void Query(FileSystem& file_system);

  HostFiles& files_;
  StatVfs query_;
  KeptFile mountinfo_;
  MountTable table_;
  std::string path_;
};

// Empty strings are unknown or not permitted. All are printable.
struct MachineIdentity {
  std::string architecture;    // "x86_64", "aarch64".
  std::string kernel_release;  // "6.1.0-18-amd64"
  std::string os_version;      // "24.04"
  CpuInfo cpu;
  std::string vendor, product;  // From the firmware: "Supermicro", "SYS-821GE-TNHR".
  std::string container;  // "docker", "podman", "kubernetes", ...; "unknown" when only its presence is known.
};
// Fails only with kUnavailable: nothing below the root looks like /proc. Absent parts stay empty.
Status ReadMachineIdentity(HostFiles& files, MachineIdentity& out);

// How the kernel rates its clock.
struct TimeSync {
  bool synchronized = false;
  int64_t offset_ns = 0;  // Clock against its reference; meaningful when synchronized.
};
// Calls adjtimex and sets nothing. Always about this machine, whatever the root. kUnavailable or
// kPermissionDenied where a sandbox forbids the call.
Status ReadTimeSync(TimeSync& out);

// Ticks of USER_HZ per second, the unit of CpuModeTicks and ProcessStat. 100 on all known machines.
uint64_t ClockTicksPerSecond() noexcept;

}  // namespace gpulens
