// Parsers of /proc and /sys texts about network interfaces, RDMA ports, block devices and mounts. Pure
// functions over text; network texts are those of one network namespace.
//
// Failures: kDataLoss, kExhausted; the output is then meaningless. Values that this kernel does not print are
// absent. Lists keep their memory.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <gpulens/status.h>

namespace gpulens {

// One interface of /proc/net/dev. Some drivers count in 32 bits and wrap.
struct NetDevice {
  struct Direction {
    uint64_t bytes = 0, packets = 0, errors = 0, dropped = 0;
  };
  std::string name;
  Direction receive, transmit;
};
Status ParseNetDevices(std::string_view text, std::vector<NetDevice>& out);

// TCP of IPv4 and IPv6 together, from /proc/net/snmp. `tcp_established` is a level: connections established
// or waiting for our close.
struct NetProtocols {
  std::optional<uint64_t> tcp_established, tcp_segments_retransmitted;
};
Status ParseSnmp(std::string_view text, NetProtocols& out);

// Sockets in use, from /proc/net/sockstat (IPv4) and sockstat6. tcp_time_wait is of both protocols;
// tcp_in_use counts listening and connecting sockets too, not those in time-wait. There is no walk over
// /proc/net/tcp: its cost grows with the number of connections.
struct SocketCounts {
  std::optional<uint64_t> tcp_in_use, tcp_time_wait, udp_in_use, tcp6_in_use, udp6_in_use;
};
Status ParseSockstat(std::string_view text, SocketCounts& out);   // Resets `out`.
Status ParseSockstat6(std::string_view text, SocketCounts& out);  // Adds to it.

// "400 Gb/sec (4X NDR)": bytes per second.
Status ParseRdmaRate(std::string_view file, std::string_view text, uint64_t& out);
// "4: ACTIVE", "5: LinkUp": the number.
Status ParseRdmaState(std::string_view file, std::string_view text, uint64_t& out);

// One whole block device, counted since boot (or since it appeared). Bytes are sectors of 512 B, whatever the
// device's own sector size is. Times are milliseconds; the operation times add up over concurrent operations,
// `io_time_ms` does not.
struct DiskStat {
  std::string name;
  uint64_t reads = 0, reads_merged = 0, read_bytes = 0, read_ms = 0;
  uint64_t writes = 0, writes_merged = 0, write_bytes = 0, write_ms = 0;
  uint64_t in_flight = 0;  // As printed: the kernel's own underflow (just below 2^32) is not mended here.
  uint64_t io_time_ms = 0;
};
// Left out: partitions (they follow their disk and repeat its numbers), loop, ram and zram (memory or files
// that are counted elsewhere), floppy and optical drives, and the hidden per-path devices of NVMe multipath
// (nvme0c1n1). Device-mapper and md devices stay, though their bytes are seen again on the disks below.
Status ParseDiskStats(std::string_view text, std::vector<DiskStat>& out);

enum class MountClass : uint8_t {
  kLocal,   // On a block device of this machine, or tmpfs: statfs answers from memory.
  kRemote,  // Network, FUSE, autofs, unknown types, and anything mounted below one of those: a call may hang.
};

struct MountEntry {
  std::string device;  // "/dev/nvme0n1p2", "server:/export".
  std::string mount_point;
  std::string type;
  std::string root;  // Which part of the file system is mounted: "/" is all of it.
  uint32_t major = 0, minor = 0;
  bool read_only = false;
  MountClass mount_class = MountClass::kRemote;
};
// Slots past `count` only keep memory for the next parse.
struct MountTable {
  std::vector<MountEntry> slots;
  size_t count = 0;

  std::span<const MountEntry> mounts() const noexcept { return std::span(slots).first(count); }
};
// Left out: pseudo file systems and read-only images (proc, sysfs, cgroup, squashfs, ...), overlay other than
// "/", tmpfs other than /dev/shm and /tmp, mounts that a later one at the same place hides, and repeated
// mounts of one file system (bind mounts): the one of its root, else the first, stays.
Status ParseMounts(std::string_view text, MountTable& out);

}  // namespace gpulens
