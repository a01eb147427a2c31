// Events of GPUs and of their reader process: those of the library, and those found by comparing two states
// of a GPU.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "plugins/collectors/nvidia/gpu_series.h"
#include "plugins/event_queue.h"
#include "sources/nvml/nvml_source.h"

namespace gpulens::nvidia {

// The events of one GPU. Used inside the collector's run. Conditions that exist when the GPU is first seen
// are not reported.
class GpuWatch {
 public:
  // The state of the GPU in this run.
  struct View {
    const nvml::Gpu& gpu;
    EntityRef entity;  // null: not known yet; the event then has the bus address
    Instant now;
    bool at_start = false;         // one of the first GPUs after the start of the agent
    bool driver_unloaded = false;  // the kernel driver has gone, and all GPUs with it
    bool released = false;         // the reader process was ended on request since the last view
  };

  explicit GpuWatch(EventQueue* queue) noexcept : queue_(queue) {}
  // Reports an event of the library.
  void OnEvent(const nvml::DeviceEvent& event, const View& view);
  // Reports what has changed since the last view.
  void Compare(const View& view);
  // UUID of the GPU that was seen last; empty before the first.
  const std::string& uuid() const noexcept { return uuid_; }

 private:
  struct Counter {
    int64_t last = -1;  // -1: not seen yet
    int64_t held = 0;   // counted, not reported yet
    int64_t reported_ns = 0, library_ns = 0;
  };
  struct Instance {
    nvml::SliceKey key;
    std::string profile;
    friend bool operator==(const Instance&, const Instance&) noexcept = default;
  };
  using Attributes = std::initializer_list<AttributeSet::Attribute>;

  // `text` follows the name of the GPU. Adds event.source, and the bus address where there is no entity.
  void Report(std::string_view name, const View& view, int64_t boot_ns, Attributes attributes,
              std::string_view text, std::string_view source = "nvml");
  void ReportEcc(bool uncorrectable, const View& view, int64_t boot_ns, int64_t errors);
  void ReportClock(const nvml::DeviceEvent& event, const View& view);
  void CompareState(const View& view);
  void ReportReturn(const View& view);
  void CompareHangs(const View& view);
  void CompareEcc(const View& view);
  void CompareRemapping(const View& view);
  void CompareRecovery(const View& view);
  void CompareClockReasons(const View& view);
  void CompareInstances(const View& view);
  // The rise of a field since the last good reading; 0 on the first, and when the counter restarted.
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

// The events of all GPUs and of the reader process. Used inside the collector's run; does not allocate in a
// run without events.
class EventReporter {
 public:
  // `queue`: null where events are not used; those of the source are then discarded.
  explicit EventReporter(EventQueue* queue) noexcept : queue_(queue) {}
  ~EventReporter() { SetWatching(false); }
  EventReporter(const EventReporter&) = delete;
  EventReporter& operator=(const EventReporter&) = delete;

  // Takes the events of the source since the last call, and compares its GPUs. `series`: by GPU index; events
  // are about their entities.
  void Report(nvml::NvmlSource& source, const EntityRef& reader, std::span<const GpuSeries> series,
              Instant now);

 private:
  // Publishes whether the library reports events: from then on no XID means that there was none.
  void SetWatching(bool works);
  // Lets a GPU that has another index keep its watch.
  void FollowIndexes(std::span<const nvml::Gpu> gpus);

  EventQueue* queue_;
  std::vector<GpuWatch> watches_;
  std::vector<nvml::DeviceEvent> events_;
  std::vector<nvml::ReaderChange> changes_;
  bool watching_ = false;
  size_t first_gpus_ = 0;  // GPUs at the start
};

}  // namespace gpulens::nvidia
