#include "sources/host/system.h"

#include <sys/timex.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <cerrno>

#include "base/files.h"
#include "base/result.h"
#include "sources/host/parse/process.h"
#include "sources/host/parse/scan.h"

namespace gpulens {
namespace {

constexpr std::string_view kPressureFiles[] = {"proc/pressure/cpu", "proc/pressure/memory",
                                               "proc/pressure/io", "proc/pressure/irq"};

KeptFile NetFile(const HostFiles& files, std::string_view name) {
  return KeptFile(std::string(files.net()).append(name));
}

std::string TextOf(HostFiles& files, const char* path) {
  auto text = files.FindText(path);
  return text ? CleanText(*text) : std::string();
}

// Finds the marks that container engines leave. Inside a cgroup namespace even the topmost visible cgroup has
// a type, which the real root has not.
std::string FindContainer(HostFiles& files) {
  if (files.Exists("var/run/secrets/kubernetes.io/serviceaccount")) return "kubernetes";
  if (files.Exists("run/.containerenv")) return "podman";
  if (files.Exists(".dockerenv")) return "docker";
  std::string systemd = TextOf(files, "run/systemd/container");
  if (!systemd.empty()) return systemd;
  return files.Exists("sys/fs/cgroup/cgroup.type") ? "unknown" : "";
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
      sockstat_(NetFile(files, "/sockstat")),
      sockstat6_(NetFile(files, "/sockstat6")),
      pressure_{KeptFile(std::string(kPressureFiles[0])), KeptFile(std::string(kPressureFiles[1])),
                KeptFile(std::string(kPressureFiles[2])), KeptFile(std::string(kPressureFiles[3]))},
      file_nr_("proc/sys/fs/file-nr"),
      entropy_("proc/sys/kernel/random/entropy_avail") {}

Status SystemReader::ReadSockets(SocketCounts& out) {
  std::string_view text;
  RETURN_IF_ERROR(files_.Read(sockstat_, text));
  RETURN_IF_ERROR(ParseSockstat(text, out));
  if (!files_.Find(sockstat6_, text)) return Ok();
  return ParseSockstat6(text, out);
}

Status SystemReader::ReadPressure(PressureResource resource, PressureStall& out) {
  KeptFile& file = pressure_[static_cast<size_t>(resource)];
  std::string_view text;
  RETURN_IF_ERROR(files_.Read(file, text));
  return ParsePressure(file.path, text, out);
}

Status SystemReader::ReadEntropy(uint64_t& bits) {
  std::string_view text;
  RETURN_IF_ERROR(files_.Read(entropy_, text));
  return ParseScalar(entropy_.path, text, bits);
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

FileSystemReader::FileSystemReader(HostFiles& files, StatVfs query)
    : files_(files), query_(query), mountinfo_(std::string(files.mountinfo())) {}

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
  for (const MountEntry& mount : table_.mounts()) {
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

Status ReadMachineIdentity(HostFiles& files, MachineIdentity& out) {
  out = {};
  out.kernel_release = TextOf(files, "proc/sys/kernel/osrelease");
  if (out.kernel_release.empty()) return {Code::kUnavailable, "no proc/sys/kernel/osrelease below the root"};
  out.architecture = TextOf(files, "proc/sys/kernel/arch");
  struct utsname names = {};
  if (out.architecture.empty() && ::uname(&names) == 0) out.architecture = CleanText(names.machine);

  std::string_view text;
  for (const char* path : {"etc/os-release", "usr/lib/os-release"}) {
    if (files.Find(path, text) && ParseOsVersion(text, out.os_version)) break;
    out.os_version.clear();
  }
  if (!files.Find("proc/cpuinfo", text) || !ParseCpuInfo(text, out.cpu)) out.cpu = {};
  files.Shrink();  // A line of flags per CPU: a megabyte on large machines.
  out.vendor = TextOf(files, "sys/class/dmi/id/sys_vendor");
  out.product = TextOf(files, "sys/class/dmi/id/product_name");
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
  return Ok();
}

uint64_t ClockTicksPerSecond() noexcept {
  long ticks = ::sysconf(_SC_CLK_TCK);
  return ticks > 0 ? static_cast<uint64_t>(ticks) : 100;
}

}  // namespace gpulens
