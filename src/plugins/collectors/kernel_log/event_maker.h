// Notices of the kernel log as events, and the counters of NVSwitches, which only the kernel log has.
#pragma once

#include <string>
#include <vector>

#include "core/frame.h"
#include "core/frame_writer.h"
#include "plugins/event_queue.h"
#include "sources/kernel_log/parse/notice.h"
#include "sources/kernel_log/pci_bus.h"

namespace gpulens {

// Not thread-safe. `desk` may be null: then only counters are kept.
class EventMaker {
 public:
  // `source`: kmsg, journald, file.
  EventMaker(EventQueue* queue, std::string_view source, std::string root);

  void Take(const kernel_log::Notice& notice, std::string_view message, Instant at);
  // Writes the counters of switches; declares new ones first.
  void WriteCounters(FrameWriter& out);

 private:
  struct Switch {
    kernel_log::PciDevice device;
    EntityRef entity;
    Series fatal_series, non_fatal_series;
    uint64_t fatal = 0, non_fatal = 0;
  };
  // A thing that is told of at most once a minute.
  struct Muted {
    std::string what;
    int64_t until_boot_ns = 0;
  };
  using Attributes = std::vector<AttributeSet::Attribute>;

  void Report(std::string_view name, Attributes attributes, std::string_view message, Instant at);
  void TakeXid(const kernel_log::Notice& notice, std::string_view message, Instant at);
  void TakeSxid(const kernel_log::Notice& notice, std::string_view message, Instant at);
  void TakeRas(const kernel_log::Notice& notice, std::string_view message, Instant at);
  void TakePcieError(const kernel_log::Notice& notice, std::string_view message, Instant at);
  void TakeOomKill(const kernel_log::Notice& notice, std::string_view message, Instant at);
  void TakeHardware(const kernel_log::Notice& notice, std::string_view message, Instant at);
  void TakeDriverFault(const kernel_log::Notice& notice, std::string_view message, Instant at);
  Switch* FindSwitch(const PciAddress& address);
  // The GPU that an error report of a device or of a port above it is about.
  std::optional<PciAddress> GpuBehind(const PciAddress& reporter, std::string_view driver, Instant at);
  bool IsMuted(const std::string& what, Instant at);

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

}  // namespace gpulens
