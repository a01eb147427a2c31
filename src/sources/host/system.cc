#include "sources/host/system.h"

#include <cerrno>

#include "base/files.h"
#include "base/result.h"
#include "sources/host/parse/scan.h"

namespace gpulens {
namespace {

constexpr std::string_view kPressureFiles[] = {"proc/pressure/cpu", "proc/pressure/memory",
                                               "proc/pressure/io", "proc/pressure/irq"};

KeptFile NetFile(const HostFiles& files, std::string_view name) {
  return KeptFile(std::string(files.net()).append(name));
}

}  // namespace

SystemReader::SystemReader(HostFiles& files)
    : files_(files),
      stat_("proc/stat"),
      loadavg_("proc/loadavg"),
      uptime_("proc/uptime"),
      meminfo_("proc/meminfo"),
      vmstat_("proc/vmstat"),
      diskstats_("proc/diskstats"),
      net_dev_(NetFile(files, "/dev")),
      snmp_(NetFile(files, "/snmp")),
      netstat_(NetFile(files, "/netstat")),
      sockstat_(NetFile(files, "/sockstat")),
      sockstat6_(NetFile(files, "/sockstat6")),
      pressure_{KeptFile(std::string(kPressureFiles[0])), KeptFile(std::string(kPressureFiles[1])),
                KeptFile(std::string(kPressureFiles[2])), KeptFile(std::string(kPressureFiles[3]))},
      file_nr_("proc/sys/fs/file-nr"),
      entropy_("proc/sys/kernel/random/entropy_avail") {}

Status SystemReader::ReadCpuTimes(CpuTimes& out) {
  std::string_view text;
  RETURN_IF_ERROR(files_.Read(stat_, text));
  return ParseCpuTimes(text, out);
}

Status SystemReader::ReadLoadAverage(LoadAverage& out) {
  std::string_view text;
  RETURN_IF_ERROR(files_.Read(loadavg_, text));
  return ParseLoadAverage(text, out);
}

Status SystemReader::ReadUptime(Uptime& out) {
  std::string_view text;
  RETURN_IF_ERROR(files_.Read(uptime_, text));
  return ParseUptime(text, out);
}

Status SystemReader::ReadMemory(MemoryInfo& out) {
  std::string_view text;
  RETURN_IF_ERROR(files_.Read(meminfo_, text));
  return ParseMemoryInfo(text, out);
}

Status SystemReader::ReadVmStat(VmStat& out) {
  std::string_view text;
  RETURN_IF_ERROR(files_.Read(vmstat_, text));
  return ParseVmStat(text, out);
}

Status SystemReader::ReadDisks(std::vector<DiskStat>& out) {
  std::string_view text;
  RETURN_IF_ERROR(files_.Read(diskstats_, text));
  return ParseDiskStats(text, out);
}

Status SystemReader::ReadNetDevices(std::vector<NetDevice>& out) {
  std::string_view text;
  RETURN_IF_ERROR(files_.Read(net_dev_, text));
  return ParseNetDevices(text, out);
}

Status SystemReader::ReadNetProtocols(NetProtocols& out) {
  out = {};
  std::string_view text;
  RETURN_IF_ERROR(files_.Read(snmp_, text));
  RETURN_IF_ERROR(ParseSnmp(text, out));
  if (!files_.Find(netstat_, text)) return Ok();
  return ParseNetstat(text, out);
}

Status SystemReader::ReadSockets(SocketCounts& out) {
  std::string_view text;
  RETURN_IF_ERROR(files_.Read(sockstat_, text));
  RETURN_IF_ERROR(ParseSockstat(text, out));
  if (!files_.Find(sockstat6_, text)) return Ok();
  return ParseSockstat6(text, out);
}

Status SystemReader::ReadPressure(PressureResource resource, Pressure& out) {
  KeptFile& file = pressure_[static_cast<size_t>(resource)];
  std::string_view text;
  RETURN_IF_ERROR(files_.Read(file, text));
  return ParsePressure(file.path, text, out);
}

Status SystemReader::ReadFileHandles(FileHandles& out) {
  std::string_view text;
  RETURN_IF_ERROR(files_.Read(file_nr_, text));
  return ParseFileHandles(text, out);
}

Status SystemReader::ReadEntropy(uint64_t& bits) {
  std::string_view text;
  RETURN_IF_ERROR(files_.Read(entropy_, text));
  return ParseScalar(entropy_.path, text, bits);
}

Status ParseFileHandles(std::string_view text, FileHandles& out) {
  constexpr std::string_view kFile = "proc/sys/fs/file-nr";
  LineScanner lines(kFile, text, 1);
  std::string_view line;
  if (!lines.Next(line)) return lines.status();
  std::string_view rest = line;
  // The second number counted unused handles until Linux 2.6 and is 0 since.
  uint64_t unused = 0;
  if (!NextUint(rest, out.used) || !NextUint(rest, unused) || !NextUint(rest, out.limit)) {
    return BadText(kFile, "not three numbers", line);
  }
  return Ok();
}

Status FindDiskSize(HostFiles& files, std::string_view device, std::optional<uint64_t>& bytes) {
  // sysfs writes the slash in a name like cciss/c0d0 as an exclamation mark.
  std::string name(device);
  for (char& c : name) c = c == '/' ? '!' : c;
  RETURN_IF_ERROR(files.FindNumber(files.Path({"sys/block/", name, "/size"}), bytes));
  uint64_t size = 0;
  if (!bytes) return Ok();
  if (!Scale(*bytes, 512, size)) return BadText("sys/block/size", "number too large", name);
  bytes = size;
  return Ok();
}

FileSystemReader::FileSystemReader(HostFiles& files, StatVfs ask)
    : files_(files), query_(ask), mountinfo_(std::string(files.mountinfo())) {}

void FileSystemReader::Query(FileSystem& file_system) {
  path_.assign(files_.root()).append(file_system.mount.mount_point);
  struct statvfs answer = {};
  if (query_(path_.c_str(), &answer) != 0) {
    file_system.answer = FileSystem::Answer::kFailed;
    file_system.error = CodeOfErrno(errno);
    return;
  }
  // ext4 with a reserve larger than what is left reports "available" wrapped around.
  if (answer.f_bavail > answer.f_bfree) answer.f_bavail = 0;
  bool possible = Scale(answer.f_blocks, answer.f_frsize, file_system.size_bytes) && answer.f_blocks > 0 &&
                  answer.f_bfree <= answer.f_blocks;
  if (!possible) {
    file_system.answer = FileSystem::Answer::kFailed;
    file_system.error = Code::kDataLoss;
    return;
  }
  file_system.free_bytes = answer.f_bfree * answer.f_frsize;
  file_system.available_bytes = answer.f_bavail * answer.f_frsize;
  file_system.answer = FileSystem::Answer::kOk;
  if (answer.f_files > 0 && answer.f_ffree <= answer.f_files) {
    file_system.inodes = answer.f_files;
    file_system.inodes_free = answer.f_ffree;
  }
}

Status FileSystemReader::Read(std::vector<FileSystem>& out) {
  std::string_view text;
  RETURN_IF_ERROR(files_.Read(mountinfo_, text));
  RETURN_IF_ERROR(ParseMounts(text, table_));
  size_t count = 0;
  for (const Mount& mount : table_.mounts()) {
    FileSystem& file_system = SlotAt(out, count++);
    file_system.mount = mount;
    file_system.answer = FileSystem::Answer::kNotQueried;
    file_system.error = Code::kOk;
    file_system.inodes.reset();
    file_system.inodes_free.reset();
    if (file_system.mount.mount_class == MountClass::kLocal) Query(file_system);
  }
  out.resize(count);
  return Ok();
}

}  // namespace gpulens
