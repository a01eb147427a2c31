// What the parts of the host collector share: one part reads one subject of the kernel (a file or a
// folder) at its own pace and writes the series of it.
//
// Everything here is used inside one run of one instance: not thread-safe.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <gpulens/status.h>

#include "catalog/host.h"
#include "plugins/plugin.h"
#include "sources/host/files.h"
#include "sources/host/machine.h"
#include "sources/host/system.h"

namespace gpulens {

// What users choose. `exclude` lists hold names with * and ?.
struct HostOptions {
  enum class Temperatures : uint8_t { kNone, kMain, kAll };
  bool per_cpu = false, processes = false, pressure_shares = false, entropy = false;
  Temperatures temperatures = Temperatures::kMain;
  std::vector<std::string> disks_exclude, filesystems_exclude, network_exclude;
};

// The two calls that ask this machine whatever the root is; tests put their own here.
struct HostSeams {
  FileSystemReader::StatVfs statvfs = ::statvfs;
  Status (*time_sync)(TimeSync& out) = &ReadTimeSync;
};

// What all parts work on. Must outlive them.
struct HostContext {
  HostContext(HostFiles host_files, HostOptions chosen, HostSeams calls)
      : files(std::move(host_files)), options(std::move(chosen)), seams(calls) {}

  HostFiles files;
  const HostOptions options;
  const HostSeams seams;
  SystemReader system{files};
  NameList names;  // for a call that needs one
  EntityRef host = MakeRef<const Entity>("host", AttributeSet());
  // Of /proc/stat, which is read first. 0: not told, or in the future by the wall clock.
  int64_t boot_unix_ns = 0;
  std::vector<uint32_t> online_cpus;
};

// A series that is declared when its first value comes: what this machine does not have is no series.
class HostSeries {
 public:
  // From when the kernel counts.
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

// Of what goes through a network: "receive", "transmit".
inline AttributeSet NetworkDirection(std::string_view value) {
  return AttributeSet({{"network.io.direction", value}});
}

class HostPart {
 public:
  struct Pace {
    std::string needs;       // a path below the root without which there is nothing to read; may be empty
    Duration every{0};       // 0: each run
    bool essential = false;  // its absence is a failure of the collector
  };
  HostPart(HostContext& host, Pace pace) : host_(host), pace_(std::move(pace)) {}
  virtual ~HostPart() = default;
  HostPart(const HostPart&) = delete;
  HostPart& operator=(const HostPart&) = delete;

  // Reads and writes when it is time; keeps what the last reading said until the next one is due.
  // What is not here or not permitted is no failure unless essential, and is tried again after 60 s.
  Status Collect(FrameWriter& out);

 protected:
  // What was put before a failure counts as read.
  virtual Status Read(FrameWriter& out) = 0;

  // Writes a number; an optional without value is passed over.
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
  // Counts a reading that cannot be believed.
  void Refuse(FrameWriter& out, HostSeries& series, const EntityRef& on, Validation why);

  HostContext& host_;

 private:
  void Declare(SeriesTable& table, HostSeries& series, const EntityRef& on);
  void Note(Series series);
  Status Later(int64_t now_ns, Status status);

  const Pace pace_;
  int64_t due_ns_ = 0;
  std::vector<Series> good_;  // read by the last reading
  bool any_ = false;          // the last reading gave something
  Status last_;
};

// A counter that the kernel or a driver may keep in 32 bits, carried over its wraps.
class Counter32 {
 public:
  // `went_on`: what is counted beside it did not fall, so a fall here is no restart.
  uint64_t Carry(uint64_t raw, bool went_on) noexcept;

 private:
  uint64_t last_ = 0, carried_ = 0;
};

// Whether one of `patterns` is all of `name`: * stands for any text, ? for one byte.
bool MatchesAny(const std::vector<std::string>& patterns, std::string_view name) noexcept;

using HostParts = std::vector<std::unique_ptr<HostPart>>;
// Each appends the parts of its subject. Processors come first: they tell when the machine booted.
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
