// What /proc says of the whole machine: the files that are read every second or ten.
//
//   auto files = HostFiles::Open("/");
//   SystemReader reader(*files);
//   CpuTimes cpu;
//   Status status = reader.ReadCpuTimes(cpu);
//
// Each call reads one file anew; nothing is cached. Repeated calls on the same struct allocate nothing.
#pragma once

#include <sys/statvfs.h>

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <gpulens/status.h>

#include "sources/host/files.h"
#include "sources/host/parse/cpu.h"
#include "sources/host/parse/memory.h"
#include "sources/host/parse/network.h"
#include "sources/host/parse/storage.h"

namespace gpulens {

enum class PressureResource : uint8_t { kCpu, kMemory, kIo, kIrq };

// /proc/sys/fs/file-nr.
struct FileHandles {
  uint64_t used = 0;
  uint64_t limit = 0;
};
Status ParseFileHandles(std::string_view text, FileHandles& out);

// Not thread-safe; `files` must outlive it. Keeps the files open. Failures: kUnavailable (this kernel
// or container has no such file), kPermissionDenied, kDataLoss (it makes no sense; `out` is then
// meaningless), kExhausted.
class SystemReader {
 public:
  explicit SystemReader(HostFiles& files);

  Status ReadCpuTimes(CpuTimes& out);
  Status ReadLoadAverage(LoadAverage& out);
  Status ReadUptime(Uptime& out);
  Status ReadMemory(MemoryInfo& out);
  Status ReadVmStat(VmStat& out);
  Status ReadDisks(std::vector<DiskStat>& out);
  Status ReadNetDevices(std::vector<NetDevice>& out);
  // snmp and netstat. The latter is absent in some containers: its members then are.
  Status ReadNetProtocols(NetProtocols& out);
  // Without IPv6 its members are absent.
  Status ReadSockets(SocketCounts& out);
  // kUnavailable without PSI (before 4.20, or psi=0); irq exists since Linux 6.1 only.
  Status ReadPressure(PressureResource resource, Pressure& out);
  Status ReadFileHandles(FileHandles& out);
  // Bits of entropy that the kernel's pool claims.
  Status ReadEntropy(uint64_t& bits);

 private:
  HostFiles& files_;
  KeptFile stat_, loadavg_, uptime_, meminfo_, vmstat_, diskstats_;
  KeptFile net_dev_, snmp_, netstat_, sockstat_, sockstat6_;
  std::array<KeptFile, 4> pressure_;
  KeptFile file_nr_, entropy_;
};

// Size of a block device of DiskStat::name, bytes; absent when it cannot be read.
Status FindDiskSize(HostFiles& files, std::string_view device, std::optional<uint64_t>& bytes);

struct FileSystem {
  enum class Answer : uint8_t {
    kOk,
    kNotQueried,  // Remote: a call could hang for ever, so that is left to a process that may be killed.
    kFailed,      // `error` tells: not permitted, gone, or impossible numbers.
  };
  Mount mount;
  Answer answer = Answer::kNotQueried;
  Code error = Code::kOk;
  // Meaningful when answered. used = size - free; reserved for root = free - available.
  uint64_t size_bytes = 0, free_bytes = 0, available_bytes = 0;
  std::optional<uint64_t> inodes, inodes_free;  // Absent where the file system has no fixed number.
};

// Reads the mounts and asks statvfs of the local ones; never of a MountClass::kRemote. One file system
// that fails does not fail the call. Not for every second: a node can have hundreds of mounts.
// `ask` is statvfs itself but for tests; it gets the mount point below the root.
class FileSystemReader {
 public:
  using StatVfs = int (*)(const char* path, struct statvfs* out);

  explicit FileSystemReader(HostFiles& files, StatVfs ask = ::statvfs);
  Status Read(std::vector<FileSystem>& out);

 private:
  void Query(FileSystem& file_system);

  HostFiles& files_;
  StatVfs query_;
  KeptFile mountinfo_;
  MountTable table_;
  std::string path_;
};

}  // namespace gpulens
