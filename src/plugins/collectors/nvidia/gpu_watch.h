// What happens to one GPU, told as events: by the library's own events, and by what has changed between
// two looks at its state and its counters.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "core/frame.h"
#include "plugins/event_queue.h"
#include "sources/nvml/nvml_source.h"

namespace gpulens {

// Used inside the collector's run. Nothing is reported for what was so when it was first seen.
class GpuWatch {
 public:
  struct Look {
    const nvml::Gpu& gpu;
    EntityRef entity;  // null: not known yet; then the bus address stands in the event
    Instant now;
    bool at_start = false;         // the first GPUs after the start of the agent
    bool driver_unloaded = false;  // the kernel driver has gone, and all GPUs with it
    bool released = false;         // the reader process was ended on request since the last look
  };

  explicit GpuWatch(EventQueue* queue) noexcept : queue_(queue) {}

  // An event of the library.
  void Take(const nvml::DeviceEvent& event, const Look& look);
  // Compares with the last look.
  void See(const Look& look);
  // Of the GPU that was seen last; empty before the first.
  const std::string& uuid() const noexcept { return uuid_; }

 private:
  struct Counter {
    int64_t last = -1;  // -1: not seen yet
    int64_t held = 0;   // counted, not told yet
    int64_t reported_ns = 0, library_ns = 0;
  };
  struct Instance {
    nvml::PartKey key;
    std::string profile;
    friend bool operator==(const Instance&, const Instance&) noexcept = default;
  };
  using Attributes = std::initializer_list<AttributeSet::Attribute>;

  void Report(std::string_view name, const Look& look, int64_t boot_ns, Attributes attributes,
              std::string body);
  void ReportEcc(bool uncorrectable, const Look& look, int64_t boot_ns, int64_t errors,
                 std::string_view source);
  void ReportClock(const nvml::DeviceEvent& event, const Look& look);
  void SeeState(const Look& look);
  void SeeReturn(const Look& look);
  void SeeHang(const Look& look);
  void SeeEcc(const Look& look);
  void SeeRemapping(const Look& look);
  void SeeRecovery(const Look& look);
  void SeeClockReasons(const Look& look);
  void SeeInstances(const Look& look);
  // The rise of a field since the last good reading; 0 on the first, and when the counter began anew.
  static int64_t Rise(const nvml::FieldReading& reading, int64_t& last);

  EventQueue* queue_;
  bool known_ = false, gone_ = false, instances_known_ = false, reset_needed_ = false;
  uint32_t opened_ = 0, hangs_ = 0;
  std::string uuid_;
  int64_t energy_ = -1, mig_mode_ = -1, recovery_ = -1, reasons_ = -1;
  int64_t recovery_requested_ns_ = 0, clock_window_ns_ = 0, hot_ns_ = 0;
  int clock_reported_ = 0;
  bool was_released_ = false;
  Counter ecc_[2];  // [1]: uncorrectable
  int64_t remapped_[2] = {-1, -1}, remap_pending_ = -1, remap_failed_ = -1;
  std::vector<Instance> instances_;
};

}  // namespace gpulens
