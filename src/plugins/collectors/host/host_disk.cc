// Block devices and file systems.

#include "base/result.h"
#include "plugins/collectors/host/host_part.h"

namespace gpulens {
namespace {

using std::chrono::seconds;
using Since = HostSeries::Since;

AttributeSet DiskDirection(std::string_view value) { return AttributeSet({{"disk.io.direction", value}}); }

double Seconds(uint64_t milliseconds) noexcept { return static_cast<double>(milliseconds) * 1e-3; }

// A part with series of each block device.
class PerDiskPart : public HostPart {
 protected:
  using HostPart::HostPart;
  EntityRef DiskEntity(std::string_view name) const { return EntityOf("disk", {{"system.device", name}}); }
};

class DiskPart final : public PerDiskPart {
  using PerDiskPart::PerDiskPart;

  // Times are 32 bits of milliseconds, so the number of wraps since boot is unknown.
  struct Direction {
    Direction(std::string_view direction, Since since)
        : bytes(kSystemDiskIo, DiskDirection(direction), since),
          operations(kSystemDiskOperations, DiskDirection(direction), since),
          merged(kSystemDiskMerged, DiskDirection(direction), since),
          time(kSystemDiskOperationTime, DiskDirection(direction)) {}
    HostSeries bytes, operations, merged, time;
    Counter32 milliseconds;
    uint64_t last_operations = 0;
  };
  struct Disk : HostDevice<std::string> {
    Disk(std::string device, EntityRef on, Since since)
        : HostDevice(std::move(device), std::move(on)), read("read", since), write("write", since) {}
    Direction read, write;
    HostSeries busy{kSystemDiskIoTime}, pending{kHostDiskPendingOperations};
    Counter32 busy_milliseconds;
  };

  Status Read(FrameWriter& out) override {
    RETURN_IF_ERROR(host_.system.ReadDisks(list_));
    disks_.Begin();
    for (const DiskStat& stat : list_) {
      if (MatchesAny(host_.options.disks_exclude, stat.name)) continue;
      // A disk that came later counts from then.
      Since since = disks_.complete() ? Since::kUnknown : Since::kBoot;
      PutDisk(out, disks_.At(stat.name, [&] { return DiskEntity(stat.name); }, since), stat);
    }
    disks_.End(out.table());
    return Ok();
  }

  void PutDisk(FrameWriter& out, Disk& disk, const DiskStat& stat) {
    bool reads_on = stat.reads >= disk.read.last_operations;
    bool writes_on = stat.writes >= disk.write.last_operations;
    const EntityRef& on = disk.entity;
    Put(out, disk.read.bytes, stat.read_bytes, on);
    Put(out, disk.read.operations, stat.reads, on);
    Put(out, disk.read.merged, stat.reads_merged, on);
    Put(out, disk.read.time, Seconds(disk.read.milliseconds.Carry(stat.read_ms, reads_on)), on);
    Put(out, disk.write.bytes, stat.write_bytes, on);
    Put(out, disk.write.operations, stat.writes, on);
    Put(out, disk.write.merged, stat.writes_merged, on);
    Put(out, disk.write.time, Seconds(disk.write.milliseconds.Carry(stat.write_ms, writes_on)), on);
    Put(out, disk.busy, Seconds(disk.busy_milliseconds.Carry(stat.io_time_ms, reads_on && writes_on)), on);
    Put(out, disk.pending, stat.in_flight, on);
    disk.read.last_operations = stat.reads;
    disk.write.last_operations = stat.writes;
  }

  std::vector<DiskStat> list_;
  DeviceList<Disk> disks_;
};

class DiskSizePart final : public PerDiskPart {
  using PerDiskPart::PerDiskPart;

  struct Disk : HostDevice<std::string> {
    using HostDevice::HostDevice;
    HostSeries limit{kSystemDiskLimit};
  };

  Status Read(FrameWriter& out) override {
    RETURN_IF_ERROR(host_.system.ReadDisks(list_));
    Status first;
    disks_.Begin();
    for (const DiskStat& stat : list_) {
      if (MatchesAny(host_.options.disks_exclude, stat.name)) continue;
      Disk& disk = disks_.At(stat.name, [&] { return DiskEntity(stat.name); });
      std::optional<uint64_t> bytes;
      Status status = FindDiskSize(host_.files, stat.name, bytes);
      if (status) Put(out, disk.limit, bytes, disk.entity);
      else if (first) first = std::move(status);
    }
    disks_.End(out.table());
    return first;
  }

  std::vector<DiskStat> list_;
  DeviceList<Disk> disks_;
};

AttributeSet SpaceState(std::string_view value) { return AttributeSet({{"system.filesystem.state", value}}); }

// File systems of this machine. A remote one may never answer, so it is not queried and has no series.
class FileSystemPart final : public HostPart {
  using HostPart::HostPart;

  struct Space : HostDevice<MountEntry> {
    Space(const MountEntry& mount, EntityRef on, EntityRef mount_point)
        : HostDevice(mount, std::move(on)), path(std::move(mount_point)) {}
    EntityRef path;
    HostSeries used{kSystemFilesystemUsage, SpaceState("used")};
    HostSeries free{kSystemFilesystemUsage, SpaceState("free")};
    HostSeries reserved{kSystemFilesystemUsage, SpaceState("reserved")};
    HostSeries inodes_used{kHostFilesystemInodes, SpaceState("used")};
    HostSeries inodes_free{kHostFilesystemInodes, SpaceState("free")};
    HostSeries utilization{kSystemFilesystemUtilization}, limit{kSystemFilesystemLimit};
    HostSeries unreachable{kHostFilesystemUnreachable};

    bool Is(const MountEntry& other) const noexcept {
      return key.mount_point == other.mount_point && key.device == other.device && key.type == other.type &&
             key.read_only == other.read_only;
    }
  };

  Status Read(FrameWriter& out) override {
    RETURN_IF_ERROR(reader_.Read(list_));
    // Removed ones are retired first: one that was mounted again has the mount point of the old one.
    spaces_.Begin();
    for (const FileSystem& now : list_) spaces_.Find([&](const Space& one) { return one.Is(now.mount); });
    Retire(out.table());
    for (const FileSystem& now : list_) {
      if (now.answer == FileSystem::Answer::kNotQueried || Excluded(now.mount)) continue;
      Space* space = spaces_.Find([&](const Space& one) { return one.Is(now.mount); });
      if (!space) space = &spaces_.Add(MakeSpace(now.mount));
      PutSpace(out, *space, now);
    }
    return Ok();
  }

  Space MakeSpace(const MountEntry& mount) const {
    EntityRef entity = EntityOf("filesystem", {{"system.device", mount.device},
                                               {"system.filesystem.mountpoint", mount.mount_point},
                                               {"system.filesystem.type", mount.type},
                                               {"system.filesystem.mode", mount.read_only ? "ro" : "rw"}});
    return {mount, std::move(entity),
            EntityOf("mountpoint", {{"system.filesystem.mountpoint", mount.mount_point},
                                    {"system.filesystem.type", mount.type}})};
  }
  bool Excluded(const MountEntry& mount) const noexcept {
    return MatchesAny(host_.options.filesystems_exclude, mount.mount_point);
  }

  void Retire(SeriesTable& table) {
    for (const Space& space : spaces_.devices()) {
      if (!space.seen) table.Retire(space.path);
    }
    spaces_.End(table);
  }

  void PutSpace(FrameWriter& out, Space& space, const FileSystem& now) {
    bool answered = now.answer == FileSystem::Answer::kOk;
    // Other failures (not permitted, gone, impossible numbers) do not mean that it is unreachable.
    if (answered || now.error == Code::kIo) Put(out, space.unreachable, answered ? 0 : 1, space.path);
    if (!answered) return;
    uint64_t used = now.size_bytes - now.free_bytes;
    Put(out, space.used, used, space.entity);
    Put(out, space.free, now.available_bytes, space.entity);
    Put(out, space.reserved, now.free_bytes - now.available_bytes, space.entity);
    Put(out, space.limit, now.size_bytes, space.entity);
    if (uint64_t usable = used + now.available_bytes; usable != 0) {
      double share = static_cast<double>(used) / static_cast<double>(usable);
      Put(out, space.utilization, share, space.entity);
    }
    if (!now.inodes || !now.inodes_free) return;
    Put(out, space.inodes_used, *now.inodes - *now.inodes_free, space.entity);
    Put(out, space.inodes_free, *now.inodes_free, space.entity);
  }

  FileSystemReader reader_{host_.files, host_.seams.statvfs};
  std::vector<FileSystem> list_;
  DeviceList<Space> spaces_;
};

}  // namespace

void AddDiskParts(HostContext& host, HostParts& parts) {
  AddPart<DiskPart>(host, parts, {.needs = "proc/diskstats"});
  AddPart<DiskSizePart>(host, parts, {.needs = "proc/diskstats", .every = seconds(60)});
  AddPart<FileSystemPart>(host, parts, {.needs = std::string(host.files.mountinfo()), .every = seconds(10)});
}

}  // namespace gpulens
