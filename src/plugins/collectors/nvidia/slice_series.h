// Series of a GPU's slices (MIG instances, vGPUs, and the GPM values of the GPU or its instances), and of the
// processes on the GPU.
#pragma once

#include <algorithm>
#include <array>
#include <compare>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "plugins/collectors/nvidia/board_series.h"
#include "plugins/collectors/nvidia/metric_rows.h"
#include "plugins/event_queue.h"
#include "sources/nvml/processes/process_table.h"

namespace gpulens::nvidia {

// Series of MIG instances and vGPUs, and the GPM values of the GPU or its instances. Used inside the
// collector's run. Slices come and go with the library's lists; one whose identity changes under the same
// number is another slice.
class SliceSeries {
 public:
  // `detail`: whether rows that are off by default are exported.
  explicit SliceSeries(bool detail) noexcept : detail_(detail) {}
  // Ends all series of slices; those on the GPU itself end with its entity.
  void Retire(SeriesTable& table);
  void Update(const GpuRun& run);
  // The entity of a MIG device; null when there is none.
  EntityRef MigEntity(uint32_t gpu_instance, uint32_t compute_instance) const;

 private:
  struct Entry {
    nvml::SliceKey key;
    std::vector<std::pair<std::string, std::string>> facts;
    EntityRef entity;
    Series info;
    std::array<Series, std::size(kGpmRows)> gpm;
    std::array<Series, std::max(std::size(kMigRows), std::size(kVgpuRows))> rows;
    bool seen = false;
  };

  Entry& Find(const nvml::GpuSlice& slice, const EntityRef& gpu, SeriesTable& table);
  static void Declare(Entry& entry, const EntityRef& gpu, SeriesTable& table);
  void UpdateCounts(const GpuRun& run);
  void UpdateRows(const GpuRun& run, std::span<const SliceRow> rows, const nvml::SliceValues& values,
                  const EntityRef& entity, std::span<Series> series) const;

  bool detail_;
  std::vector<Entry> entries_;
  std::array<Series, std::size(kGpmRows)> gpm_;
  std::array<Series, std::size(kWholeRows)> whole_;
  Series gpu_instances_, compute_instances_, mig_max_, vgpus_;
};

// Series of the processes on a GPU: memory, its peak, and shares of the engines. Used inside the collector's
// run. A process is identified by pid, MIG instance and start time: a pid that is
// used again is another process, and a process in two instances is two entities, each on the instance it
// uses.
class ProcessSeries {
 public:
  // `names` describes processes; null: they have no names (simulated processes). `queue` receives an event
  // for each process that left; may be null. Both outlive this.
  explicit ProcessSeries(nvml::ProcessTable* names, EventQueue* queue = nullptr) noexcept
      : names_(names), queue_(queue) {}

  void Retire(SeriesTable& table);
  // Call when the list has been read. `shares_fresh`: the shares, too; a process without one is idle.
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
