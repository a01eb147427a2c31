// Notices of the kernel log as events, the counters of NVSwitches, which only the kernel log has, and the
// choice of the log that is read.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/frame.h"
#include "core/frame_writer.h"
#include "plugins/event_queue.h"
#include "plugins/plugin.h"
#include "sources/kernel_log/log_reader.h"
#include "sources/kernel_log/parse/notice.h"
#include "sources/kernel_log/pci_bus.h"

namespace gpulens {

// Not thread-safe. `queue` may be null: then only counters are kept.
class EventMaker {
 public:
  // `source`: kmsg, journald, file.
  EventMaker(EventQueue* queue, std::string_view source, std::string root);

  void Take(const kernel_log::KernelNotice& notice, std::string_view message, Instant at);
  // Writes the counters of switches; declares new ones first.
  void WriteCounters(FrameWriter& out);

 private:
  struct Switch {
    kernel_log::PciDevice device;
    EntityRef entity;
    Series fatal_series, non_fatal_series;
    uint64_t fatal = 0, non_fatal = 0;
  };
  // An event that is reported at most once a minute.
  struct Muted {
    std::string key;
    int64_t until_boot_ns = 0;
  };
  using Attributes = std::vector<AttributeSet::Attribute>;

  // Adds the attributes that all events take from their notice.
  void Report(std::string_view name, const kernel_log::KernelNotice& notice, Attributes attributes,
              std::string_view message, Instant at);
  void TakeXid(const kernel_log::KernelNotice& notice, std::string_view message, Instant at);
  void TakeSxid(const kernel_log::KernelNotice& notice, std::string_view message, Instant at);
  void TakeRas(const kernel_log::KernelNotice& notice, std::string_view message, Instant at);
  void TakePcieError(const kernel_log::KernelNotice& notice, std::string_view message, Instant at);
  Switch* FindSwitch(const PciAddress& address);
  // The GPU that an error report of a device or of a port above it is about.
  std::optional<PciAddress> GpuBehind(const PciAddress& reporter, std::string_view driver, Instant at);
  bool IsMuted(const std::string& key, Instant at);

  EventQueue* const queue_;
  const std::string_view source_;
  const std::string root_;
  std::vector<Switch> switches_;
  std::vector<kernel_log::PciDevice> bus_;
  int64_t bus_read_at_ns_ = 0;
  std::vector<Muted> muted_;
  int64_t oom_pid_ = 0;
  std::string oom_cgroup_;
};

struct ChosenLog {
  std::unique_ptr<kernel_log::LogReader> reader;
  std::string_view source;  // as events name it: kmsg, journald, file
  std::string place;        // for log lines: "/dev/kmsg"
};

// Checks collectors.kernel_log.
void CheckLog(const Config& config, ConfigFaults& faults);

// Opens the log by `collectors.kernel_log.source`; `auto` takes the first that can be read of /dev/kmsg, the
// journal, and the files of syslog daemons.
Result<ChosenLog> ChooseLog(const Config& config, const Env& env);

// The same as ChooseLog without a side effect: for `gpulens doctor`.
std::vector<Finding> ProbeLog(const Config& config, const Env& env);

// Whether the journal of the system may be read below `root` ("" is this machine). The folders are open to
// all users, the files only to root and the groups adm and systemd-journal: for others journalctl prints
// nothing, without a failure.
bool SystemJournalReadable(const std::string& root);

}  // namespace gpulens
