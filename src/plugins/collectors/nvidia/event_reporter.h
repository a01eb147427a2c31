// Everything that happens to the GPUs and to the reader process, as events for the desk.
#pragma once

#include <span>
#include <vector>

#include "plugins/collectors/nvidia/gpu_series.h"
#include "plugins/collectors/nvidia/gpu_watch.h"
#include "sources/nvml/nvml_source.h"

namespace gpulens {

// Used inside the collector's run. A run in which nothing happened does not allocate.
class EventReporter {
 public:
  // `desk`: null when nobody listens; what the source noted is then thrown away.
  explicit EventReporter(EventQueue* queue) noexcept : queue_(queue) {}
  ~EventReporter() { Watch(false); }
  EventReporter(const EventReporter&) = delete;
  EventReporter& operator=(const EventReporter&) = delete;

  // Takes what the source has noted since the last call, and looks at its GPUs. `series`: by GPU index;
  // their entities stand in the events.
  void Report(nvml::NvmlSource& source, const EntityRef& driver, std::span<const GpuSeries> series,
              Instant now);

 private:
  // Says whether the library tells events: from then on no XID means that there was none.
  void Watch(bool works);
  // A GPU that has another number now keeps its watch.
  void FollowNumbers(std::span<const nvml::Gpu> gpus);

  EventQueue* queue_;
  std::vector<GpuWatch> watches_;
  std::vector<nvml::DeviceEvent> events_;
  std::vector<nvml::DriverChange> changes_;
  bool reported_works_ = false;
  size_t first_gpus_ = 0;  // how many there were at the start
};

}  // namespace gpulens
