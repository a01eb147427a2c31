// Parts of the host collector: each reads one file or folder of the kernel at its own interval and writes
// its series.
//
// Everything here is used inside one run of one instance: not thread-safe.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <gpulens/status.h>

#include "catalog/host.h"
#include "core/series_table.h"
#include "plugins/plugin.h"
#include "sources/host/files.h"
#include "sources/host/system.h"

namespace gpulens {

// A disk, interface, port or the like that a part has seen.
template <class Key>
struct HostDevice {
  HostDevice(Key known_by, EntityRef on) : key(std::move(known_by)), entity(std::move(on)) {}
  Key key;
  EntityRef entity;
  bool seen = false;
};

// The devices of one part, looked up at every reading and retired when they are gone. `Device` derives from
// HostDevice.
template <class Device>
class DeviceList {
 public:
  void Begin() noexcept {
    next_ = 0;
    for (Device& device : devices_) device.seen = false;
  }
  // Returns the device for which `is` holds, or null. Cheap when devices keep their order.
  template <class Is>
  Device* Find(Is is) {
    for (size_t i = 0; i < devices_.size(); ++i) {
      size_t at = (next_ + i) % devices_.size();
      if (!is(devices_[at])) continue;
      devices_[at].seen = true;
      next_ = at + 1;
      return &devices_[at];
    }
    return nullptr;
  }
  // Returns the device with this key, else a new one on the entity that `make_entity` returns, constructed
  // with the further arguments.
  template <class Key, class MakeEntity, class... Args>
  Device& At(const Key& key, MakeEntity make_entity, Args... args) {
    Device* known = Find([&](const Device& device) { return device.key == key; });
    return known ? *known : Add(Device(key, make_entity(), args...));
  }
  Device& Add(Device device) {
    devices_.push_back(std::move(device));
    devices_.back().seen = true;
    next_ = devices_.size();
    return devices_.back();
  }
  // Retires the devices not seen since Begin. Call it only when the list was read to its end.
  void End(SeriesTable& table) {
    std::erase_if(devices_, [&table](const Device& device) {
      if (!device.seen && device.entity) table.Retire(device.entity);
      return !device.seen;
    });
    complete_ = true;
  }
  std::vector<Device>& devices() noexcept { return devices_; }
  bool complete() const noexcept { return complete_; }  // false until the first End

 private:
  std::vector<Device> devices_;
  size_t next_ = 0;
  bool complete_ = false;
};

// Options of the collector. `exclude` lists hold names with * and ?.
struct HostOptions {
  enum class Temperatures : uint8_t { kNone, kMain, kAll };
  bool per_cpu = false, processes = false, pressure_shares = false, entropy = false;
  Temperatures temperatures = Temperatures::kMain;
  std::vector<std::string> disks_exclude, filesystems_exclude, network_exclude;
};

// The two system calls that ignore the root; tests replace them.
struct HostSeams {
  FileSystemReader::StatVfs statvfs = ::statvfs;
  Status (*time_sync)(TimeSync& out) = &ReadTimeSync;
};

// State that all parts share. Must outlive them.
struct HostContext {
  HostContext(HostFiles host_files, HostOptions chosen, HostSeams calls)
      : files(std::move(host_files)), options(std::move(chosen)), seams(calls) {}

  HostFiles files;
  const HostOptions options;
  const HostSeams seams;
  SystemReader system{files};
  NameList names;  // for a call that needs one
  EntityRef host = MakeRef<const Entity>("host", AttributeSet());
  // From /proc/stat, which is read first. 0: unknown, or in the future by the wall clock.
  int64_t boot_unix_ns = 0;
  std::vector<uint32_t> online_cpus;
};

// A series that is declared with its first value, so that counters this machine lacks have no series.
class HostSeries {
 public:
  // Start of the kernel's counter.
  enum class Since : uint8_t { kUnknown, kBoot };
  explicit HostSeries(const MetricDesc& desc, AttributeSet extra = {}, Since since = Since::kUnknown)
      : desc_(&desc), extra_(std::move(extra)), since_(since) {}

 private:
  friend class HostPart;
  const MetricDesc* desc_;
  AttributeSet extra_;
  Since since_;
  bool declared_ = false;
  Series series_;
};

// "receive", "transmit".
inline AttributeSet NetworkDirection(std::string_view value) {
  return AttributeSet({{"network.io.direction", value}});
}

class HostPart {
 public:
  struct Pace {
    std::string needs;       // a path below the root that must exist; may be empty
    Duration every{0};       // 0: each run
    bool essential = false;  // its absence is a failure of the collector
  };
  HostPart(HostContext& host, Pace pace) : host_(host), pace_(std::move(pace)) {}
  virtual ~HostPart() = default;
  HostPart(const HostPart&) = delete;
  HostPart& operator=(const HostPart&) = delete;

  // Reads and writes when due; until then the last values are kept. Unavailable or forbidden files are a
  // failure only when essential, and are tried again after 60 s.
  Status Collect(FrameWriter& out);

 protected:
  // Values put before a failure count as read.
  virtual Status Read(FrameWriter& out) = 0;

  // Writes a number; an optional without value is skipped.
  template <class T>
  void Put(FrameWriter& out, HostSeries& to, T value) {
    Put(out, to, value, host_.host);
  }
  template <class T>
  void Put(FrameWriter& out, HostSeries& to, std::optional<T> value, const EntityRef& on) {
    if (value) Put(out, to, *value, on);
  }
  template <class T>
    requires std::is_arithmetic_v<T>
  void Put(FrameWriter& out, HostSeries& to, T value, const EntityRef& on) {
    if (!to.declared_) Declare(out.table(), to, on);
    if (!to.series_) return;
    uint64_t accepted = out.counts().accepted;
    out.Set(to.series_, value);
    if (out.counts().accepted != accepted) Note(to.series_);
  }
  // Counts an implausible reading.
  void Refuse(FrameWriter& out, HostSeries& series, const EntityRef& on, Validation why);
  // Returns an entity on the host.
  EntityRef EntityOf(const char* type, std::initializer_list<AttributeSet::Attribute> known_by) const {
    return MakeRef<const Entity>(type, AttributeSet(known_by), host_.host);
  }

  HostContext& host_;

 private:
  void Declare(SeriesTable& table, HostSeries& series, const EntityRef& on);
  void Note(Series series);
  Status Later(int64_t now_ns, Status status);

  const Pace pace_;
  int64_t due_ns_ = 0;
  std::vector<Series> good_;  // read by the last reading
  bool any_ = false;          // the last reading had values
  Status last_;
};

// A counter that the kernel or a driver may keep in 32 bits, carried over its wraps.
class Counter32 {
 public:
  // `went_on`: a related counter did not fall, so a fall here is not a restart.
  uint64_t Carry(uint64_t raw, bool went_on) noexcept;

 private:
  uint64_t last_ = 0, carried_ = 0;
};

// Whether `name` matches a pattern as a whole: * matches any text, ? one character.
bool MatchesAny(const std::vector<std::string>& patterns, std::string_view name) noexcept;

using HostParts = std::vector<std::unique_ptr<HostPart>>;
template <class Part, class... Args>
void AddPart(HostContext& host, HostParts& parts, HostPart::Pace pace, Args... args) {
  parts.push_back(std::make_unique<Part>(host, std::move(pace), args...));
}
// Each appends the parts of its subject. Processors come first: they set the boot time.
void AddCpuParts(HostContext& host, HostParts& parts);
void AddMemoryParts(HostContext& host, HostParts& parts);
void AddDiskParts(HostContext& host, HostParts& parts);
void AddNetworkParts(HostContext& host, HostParts& parts);
void AddRdmaParts(HostContext& host, HostParts& parts);
void AddMachineParts(HostContext& host, HostParts& parts);

// kUnavailable when nothing below the root looks like a Linux machine.
Result<std::unique_ptr<Collector>> MakeHostCollector(const Config& config, const Env& env,
                                                     const HostSeams& seams);
std::vector<Finding> ProbeHost(const Config& config, Env& env);
// The root that `config` names, or the program's own.
const std::string& HostRoot(const Config& config, const Env& env);

}  // namespace gpulens
