// The series of a GPU's slices: MIG instances, vGPUs, and the GPM values of the GPU or its instances.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "plugins/collectors/nvidia/gpu_run.h"
#include "plugins/collectors/nvidia/metric_rows.h"

namespace gpulens::nvidia {

// Used inside the collector's run. Slices come and go with the library's lists; one whose identity changes
// under the same number is another slice.
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

  Entry& Find(const nvml::Slice& slice, const EntityRef& gpu, SeriesTable& table);
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

}  // namespace gpulens::nvidia
