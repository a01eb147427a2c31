// The series of the processes on one GPU: memory, its peak, and their shares of the engines.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <map>

#include "plugins/collectors/nvidia/slice_series.h"
#include "plugins/event_queue.h"
#include "sources/nvml/processes/process_table.h"

namespace gpulens::nvidia {

// Used inside the collector's run. A process is identified by pid, MIG instance and start time: a pid that is
// used again is another process, and a process in two instances is two entities, each on the instance it
// uses.
class ProcessSeries {
 public:
  // `names` describes processes; null: they have no names (simulated processes). `queue` receives an event
  // for each process that left; may be null. Both outlive this.
  explicit ProcessSeries(nvml::ProcessTable* names, EventQueue* queue = nullptr) noexcept
      : names_(names), queue_(queue) {}

  void Retire(SeriesTable& table);
  // The list has just been read. `shares_fresh`: so have the shares; a process without one is idle.
  void Update(const GpuRun& run, const SliceSeries& slices, bool shares_fresh);

 private:
  struct Key {
    uint32_t pid, gpu_instance, compute_instance;
    auto operator<=>(const Key&) const = default;
  };
  struct Entry {
    uint64_t bytes = 0, peak_bytes = 0, update = 0, start_ticks = 0;
    bool bytes_known = false;
    nvml::ProcessType type = nvml::ProcessType::kCompute, declared_type = nvml::ProcessType::kCompute;
    EntityRef entity;
    Series used, peak;
    std::array<Series, 6> shares;
  };

  void ReportEnd(const Entry& entry, const EntityRef& gpu, Instant now) const;
  void UpdateCounts(const GpuRun& run);
  void UpdateEntry(const GpuRun& run, const Key& key, Entry& entry, const SliceSeries& slices);
  void Declare(const GpuRun& run, const Key& key, Entry& entry, const SliceSeries& slices);
  static void UpdateShares(const GpuRun& run, const Key& key, Entry& entry);

  nvml::ProcessTable* names_;
  EventQueue* queue_;
  uint64_t update_ = 0;
  std::map<Key, Entry> processes_;
  std::array<Series, 3> counts_;
};

}  // namespace gpulens::nvidia
