// Block devices and mounts as the kernel lists them: /proc/diskstats and /proc/self/mountinfo. Pure
// functions over text; whether a file system is asked for its size is decided by the class given here.
//
// Failures: kDataLoss, kExhausted; the output is then meaningless. Lists keep their memory.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <gpulens/status.h>

namespace gpulens {

// One whole block device, counted since boot (or since it appeared). Bytes are sectors of 512 B,
// whatever the device's own sector size is. Times are milliseconds; the operation times add up over
// concurrent operations, `io_time_ms` does not.
struct DiskStat {
  std::string name;
  uint32_t major = 0;
  uint32_t minor = 0;
  uint64_t reads = 0, reads_merged = 0, read_bytes = 0, read_ms = 0;
  uint64_t writes = 0, writes_merged = 0, write_bytes = 0, write_ms = 0;
  uint64_t in_flight = 0;  // As printed: the kernel's own underflow (just below 2^32) is not mended here.
  uint64_t io_time_ms = 0, weighted_io_time_ms = 0;
  std::optional<uint64_t> discards, discard_bytes;  // Since Linux 4.18.
  std::optional<uint64_t> flushes, flush_ms;        // Since Linux 5.5.
};
// Left out: partitions (they follow their disk and repeat its numbers), loop, ram and zram (memory or
// files that are counted elsewhere), floppy and optical drives, and the hidden per-path devices of
// NVMe multipath (nvme0c1n1). Device-mapper and md devices stay: they are devices of their own,
// though their bytes are seen again on the disks below.
Status ParseDiskStats(std::string_view text, std::vector<DiskStat>& out);

enum class MountClass : uint8_t {
  kLocal,   // On a block device of this machine, or tmpfs: statfs answers from memory.
  kRemote,  // Network, FUSE, autofs, unknown types, and anything mounted below one of those: a call
            // may wait for ever for somebody else.
};

struct Mount {
  std::string device;  // "/dev/nvme0n1p2", "server:/export".
  std::string mount_point;
  std::string type;
  std::string root;  // Which part of the file system is mounted: "/" is all of it.
  uint32_t major = 0;
  uint32_t minor = 0;
  bool read_only = false;
  MountClass mount_class = MountClass::kRemote;
};
// Slots past `count` only keep memory for the next parse.
struct MountTable {
  std::vector<Mount> slots;
  size_t count = 0;

  std::span<const Mount> mounts() const noexcept { return std::span(slots).first(count); }
};
// Left out: pseudo file systems and read-only images (proc, sysfs, cgroup, squashfs, ...), overlay
// other than "/", tmpfs other than /dev/shm and /tmp, mounts that a later one at the same place hides, and
// repeated mounts of one file system (bind mounts): the one of its root, else the first, stays.
Status ParseMounts(std::string_view text, MountTable& out);

}  // namespace gpulens
