#include "sources/host/parse/devices.h"

#include <algorithm>
#include <cmath>

#include "base/result.h"
#include "sources/host/parse/scan.h"

namespace gpulens {
namespace {

constexpr UintKey<NetProtocols> kTcp[] = {
    {"CurrEstab", &NetProtocols::tcp_established},
    {"RetransSegs", &NetProtocols::tcp_segments_retransmitted},
};

// A protocol's keys come after its prefix; one table serves all prefixes.
struct SocketKey {
  std::string_view prefix;
  std::string_view key;
  std::optional<uint64_t> SocketCounts::* member;
};
constexpr SocketKey kSocketKeys[] = {
    {"TCP:", "inuse", &SocketCounts::tcp_in_use},   {"TCP:", "tw", &SocketCounts::tcp_time_wait},
    {"UDP:", "inuse", &SocketCounts::udp_in_use},   {"TCP6:", "inuse", &SocketCounts::tcp6_in_use},
    {"UDP6:", "inuse", &SocketCounts::udp6_in_use},
};

Status ParseSockets(std::string_view file, std::string_view text, SocketCounts& out) {
  LineScanner lines(file, text, 64);
  for (std::string_view line; lines.Next(line);) {
    std::string_view rest = line;
    std::string_view prefix = NextField(rest);
    if (!prefix.ends_with(':')) return BadText(file, "no protocol", line);
    while (true) {
      std::string_view key = NextField(rest);
      if (key.empty()) break;
      uint64_t value = 0;
      if (!NextUint(rest, value)) return BadText(file, "not a count", line);
      for (const SocketKey& row : kSocketKeys) {
        if (row.prefix == prefix && row.key == key) out.*(row.member) = value;
      }
    }
  }
  return lines.status();
}

constexpr std::string_view kDiskFile = "proc/diskstats";
constexpr std::string_view kMountFile = "mountinfo";
constexpr uint64_t kSectorBytes = 512;
// Nodes with many containers have tens of thousands of mounts, of which few are worth keeping.
constexpr size_t kMaxMountLines = 65536;
// Each line is compared with those kept so far, so their product bounds the time.
constexpr size_t kMaxFileSystems = 1024;

// How the kernel names a partition: "sda" + "1", and "nvme0n1" + "p" + "1" when the disk ends in a digit.
bool IsPartitionOf(std::string_view name, std::string_view disk) noexcept {
  if (disk.empty() || !name.starts_with(disk)) return false;
  std::string_view rest = name.substr(disk.size());
  if (IsDigit(disk.back())) {
    if (!rest.starts_with('p')) return false;
    rest.remove_prefix(1);
  }
  return AllDigits(rest);
}

// nvme0c1n1: one path of a multipath device, whose sum is nvme0n1.
bool IsNvmePath(std::string_view name) noexcept {
  if (!name.starts_with("nvme")) return false;
  size_t c = name.find('c');
  return c != std::string_view::npos && name.find('n', c) != std::string_view::npos;
}

bool IsLeftOut(std::string_view name) noexcept {
  for (std::string_view prefix : {"loop", "ram", "zram", "fd", "sr"}) {
    if (name.starts_with(prefix) && name.size() > prefix.size() && IsDigit(name[prefix.size()])) return true;
  }
  return IsNvmePath(name);
}

bool ParseDiskNumbers(std::string_view rest, DiskStat& out) noexcept {
  uint64_t read_sectors = 0, write_sectors = 0, weighted_ms = 0;
  for (uint64_t* number :
       {&out.reads, &out.reads_merged, &read_sectors, &out.read_ms, &out.writes, &out.writes_merged,
        &write_sectors, &out.write_ms, &out.in_flight, &out.io_time_ms, &weighted_ms}) {
    if (!NextUint(rest, *number)) return false;
  }
  return Scale(read_sectors, kSectorBytes, out.read_bytes) &&
         Scale(write_sectors, kSectorBytes, out.write_bytes);
}

// mountinfo writes blank, tab, newline and backslash as \ and three octal digits.
bool Unescape(std::string_view text, std::string& out) {
  out.clear();
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\\') {
      out += text[i];
      continue;
    }
    auto byte = text.size() - i > 3 ? ParseInt<uint8_t>(text.substr(i + 1, 3), 8) : std::nullopt;
    if (!byte) return false;
    out += static_cast<char>(*byte);
    i += 3;
  }
  return true;
}

constexpr std::string_view kPseudoTypes[] = {
    "proc",      "sysfs",      "devtmpfs",    "devpts",     "cgroup",       "cgroup2",  "securityfs",
    "debugfs",   "tracefs",    "configfs",    "fusectl",    "pstore",       "bpf",      "mqueue",
    "hugetlbfs", "ramfs",      "binfmt_misc", "rpc_pipefs", "nsfs",         "efivarfs", "selinuxfs",
    "squashfs",  "iso9660",    "erofs",       "cramfs",     "romfs",        "rootfs",   "nfsd",
    "resctrl",   "functionfs", "sockfs",      "pipefs",     "anon_inodefs", "binder",   "dmabuf",
};
// Only types known to answer statfs out of their own superblock. All others are taken for remote.
constexpr std::string_view kLocalTypes[] = {
    "ext4",  "xfs",      "btrfs", "ext3",  "ext2",     "zfs",    "f2fs",    "vfat",  "exfat",
    "ntfs3", "bcachefs", "jfs",   "msdos", "reiserfs", "nilfs2", "overlay", "tmpfs", "udf",
};

bool IsWorthKeeping(const MountEntry& mount) noexcept {
  if (std::ranges::find(kPseudoTypes, mount.type) != std::end(kPseudoTypes)) return false;
  if (mount.type == "overlay") return mount.mount_point == "/";
  if (mount.type == "tmpfs") return mount.mount_point == "/dev/shm" || mount.mount_point == "/tmp";
  return true;
}

// "36 35 98:0 /root /mnt rw,noatime master:1 - ext4 /dev/root rw,errors=continue": any number of
// optional fields before the dash.
bool ParseMountLine(std::string_view rest, MountEntry& out) {
  uint64_t id = 0, parent = 0;
  if (!NextUint(rest, id) || !NextUint(rest, parent)) return false;
  std::string_view minor_text = NextField(rest);
  auto major = ParseInt<uint32_t>(TakeUntil(minor_text, ':'));
  auto minor = ParseInt<uint32_t>(minor_text);
  if (!major || !minor) return false;
  out.major = *major;
  out.minor = *minor;
  if (!Unescape(NextField(rest), out.root) || !Unescape(NextField(rest), out.mount_point)) return false;
  std::string_view options = NextField(rest);
  if (out.root.empty() || !out.mount_point.starts_with('/') || options.empty()) return false;
  while (true) {
    std::string_view field = NextField(rest);
    if (field.empty()) return false;
    if (field == "-") break;
  }
  if (!Unescape(NextField(rest), out.type) || !Unescape(NextField(rest), out.device)) return false;
  if (out.type.empty()) return false;
  std::string_view super_options = NextField(rest);
  out.read_only = TakeUntil(options, ',') == "ro" || TakeUntil(super_options, ',') == "ro";
  out.mount_class = std::ranges::find(kLocalTypes, out.type) != std::end(kLocalTypes) ? MountClass::kLocal
                                                                                      : MountClass::kRemote;
  return true;
}

// Subvolumes of one device have numbers of their own, so the device node is compared first.
bool IsSameFileSystem(const MountEntry& a, const MountEntry& b) noexcept {
  if (a.device.starts_with("/dev/") || b.device.starts_with("/dev/")) return a.device == b.device;
  return a.major == b.major && a.minor == b.minor;
}

bool IsBelow(std::string_view path, std::string_view parent) noexcept {
  return path.starts_with(parent) && path.size() > parent.size() &&
         (parent.ends_with('/') || path[parent.size()] == '/');
}

// To reach a local mount below a dead network mount, the kernel would have to query the dead server.
void MarkMountsBelowRemote(std::span<MountEntry> mounts) noexcept {
  for (MountEntry& mount : mounts) {
    if (mount.mount_class == MountClass::kRemote) continue;
    for (const MountEntry& other : mounts) {
      if (other.mount_class == MountClass::kRemote && IsBelow(mount.mount_point, other.mount_point)) {
        mount.mount_class = MountClass::kRemote;
        break;
      }
    }
  }
}

}  // namespace

Status ParseNetDevices(std::string_view text, std::vector<NetDevice>& out) {
  constexpr std::string_view kFile = "proc/net/dev";
  size_t count = 0;
  LineScanner lines(kFile, text, kMaxHostDevices + 2);
  std::string_view line;
  for (int header = 0; header < 2; ++header) {
    if (!lines.Next(line)) return lines.status() ? BadText(kFile, "no header") : lines.status();
    if (line.find('|') == std::string_view::npos) return BadText(kFile, "not the header", line);
  }
  while (lines.Next(line)) {
    std::string_view rest = line;
    // Old kernels print no blank after the colon. No interface name has a colon or a blank in it.
    std::string_view name = Trim(TakeUntil(rest, ':'));
    if (name.empty() || rest.empty()) return BadText(kFile, "not an interface", line);
    NetDevice& device = SlotAt(out, count++);
    device.name.assign(name);
    uint64_t unused = 0;
    NetDevice::Direction &in = device.receive, &to = device.transmit;
    for (uint64_t* number :
         {&in.bytes, &in.packets, &in.errors, &in.dropped, &unused, &unused, &unused, &unused, &to.bytes,
          &to.packets, &to.errors, &to.dropped, &unused, &unused, &unused, &unused}) {
      if (!NextUint(rest, *number)) return BadText(kFile, "not sixteen counters", line);
    }
  }
  RETURN_IF_ERROR(lines.status());
  out.resize(count);
  return Ok();
}

// Pairs of lines: names, then values in the same order. Values of other keys may be signed.
Status ParseSnmp(std::string_view text, NetProtocols& out) {
  constexpr std::string_view kFile = "proc/net/snmp";
  out = {};
  LineScanner lines(kFile, text, 64);
  for (std::string_view names; lines.Next(names);) {
    std::string_view values;
    if (!lines.Next(values)) return BadText(kFile, "names without values", names);
    std::string_view prefix = NextField(names);
    if (!prefix.ends_with(':') || NextField(values) != prefix)
      return BadText(kFile, "not a pair of lines", values);
    if (prefix != "Tcp:") continue;
    while (true) {
      std::string_view name = NextField(names), value = NextField(values);
      if (name.empty() != value.empty()) return BadText(kFile, "more names than values or fewer", prefix);
      if (name.empty()) break;
      const auto* row = FindKey<NetProtocols>(kTcp, name);
      if (row == nullptr) continue;
      out.*(row->member) = ParseInt<uint64_t>(value);
      if (!(out.*(row->member))) return BadText(kFile, "not a number", value);
    }
  }
  return lines.status();
}

Status ParseSockstat(std::string_view text, SocketCounts& out) {
  out = {};
  return ParseSockets("proc/net/sockstat", text, out);
}

Status ParseSockstat6(std::string_view text, SocketCounts& out) {
  return ParseSockets("proc/net/sockstat6", text, out);
}

Status ParseRdmaRate(std::string_view file, std::string_view text, uint64_t& out) {
  std::string_view rest = Trim(text);
  // Halves exist: "2.5 Gb/sec (1X SDR)".
  auto gigabits = ParseDecimal(NextField(rest));
  if (!gigabits || *gigabits > 1e6 || NextField(rest) != "Gb/sec") return BadText(file, "not a rate", text);
  out = static_cast<uint64_t>(std::llround(*gigabits * 125e6));
  return Ok();
}

Status ParseRdmaState(std::string_view file, std::string_view text, uint64_t& out) {
  std::string_view rest = Trim(text);
  auto number = ParseInt<uint64_t>(TakeUntil(rest, ':'));
  if (!number || rest.empty()) return BadText(file, "not a state", text);
  out = *number;
  return Ok();
}

Status ParseDiskStats(std::string_view text, std::vector<DiskStat>& out) {
  size_t count = 0;
  std::string_view last_disk;
  LineScanner lines(kDiskFile, text, kMaxMountLines);
  for (std::string_view line; lines.Next(line);) {
    std::string_view rest = line;
    auto major = ParseInt<uint32_t>(NextField(rest));
    auto minor = ParseInt<uint32_t>(NextField(rest));
    std::string_view name = NextField(rest);
    if (!major || !minor || name.empty()) return BadText(kDiskFile, "not a device", line);
    if (IsPartitionOf(name, last_disk)) continue;
    last_disk = name;
    if (IsLeftOut(name)) continue;
    if (count == kMaxHostDevices) return TooMany(kDiskFile, "devices", kMaxHostDevices);
    DiskStat& disk = SlotAt(out, count++);
    disk.name.assign(name);
    if (!ParseDiskNumbers(rest, disk)) return BadText(kDiskFile, "not eleven counters", line);
  }
  RETURN_IF_ERROR(lines.status());
  out.resize(count);
  return Ok();
}

Status ParseMounts(std::string_view text, MountTable& out) {
  size_t& count = out.count;
  count = 0;
  LineScanner lines(kMountFile, text, kMaxMountLines);
  for (std::string_view line; lines.Next(line);) {
    if (count == kMaxFileSystems) return TooMany(kMountFile, "file systems", kMaxFileSystems);
    if (!ParseMountLine(line, SlotAt(out.slots, count))) return BadText(kMountFile, "not a mount", line);
    auto fresh = out.slots.begin() + static_cast<std::ptrdiff_t>(count);
    auto hidden = std::find_if(out.slots.begin(), fresh, [&](const MountEntry& kept) {
      return kept.mount_point == fresh->mount_point;
    });
    if (hidden != fresh) {
      // Copied and not moved: so each slot holds the same strings in each parse, and keeps their memory.
      std::copy(hidden + 1, fresh + 1, hidden);
      --fresh;
      --count;
    }
    if (!IsWorthKeeping(*fresh)) continue;
    auto same = std::find_if(out.slots.begin(), fresh,
                             [&](const MountEntry& kept) { return IsSameFileSystem(kept, *fresh); });
    if (same == fresh) {
      ++count;
    } else if (same->root != "/" && fresh->root == "/") {
      *same = *fresh;
    }
  }
  RETURN_IF_ERROR(lines.status());
  MarkMountsBelowRemote(std::span(out.slots).first(count));
  return Ok();
}

}  // namespace gpulens
