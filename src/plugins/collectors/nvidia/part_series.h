// The series of a GPU's parts: MIG instances, vGPUs, and what GPM tells of the GPU or its instances.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <iterator>
#include <vector>

#include "core/frame_writer.h"
#include "plugins/collectors/nvidia/part_more_rows.h"
#include "sources/nvml/nvml_source.h"

namespace gpulens {

// Used inside the collector's run. Parts come and go with the driver's lists; a part whose identity changes
// under the same number is another part.
class PartSeries {
 public:
  struct When {
    Instant now;
    int64_t fast_ns = 0, medium_ns = 0, slow_ns = 0;  // ages up to which a reading counts as just read
  };

  // `detail`: whether rows that are off by default are declared.
  explicit PartSeries(bool detail) noexcept : detail_(detail) {}

  // Ends all series of parts; those on the GPU itself end with its entity.
  void Retire(SeriesTable& table);
  // `gpu` is the entity of the GPU.
  void Update(const nvml::Gpu& gpu, const EntityRef& entity, const When& when, FrameWriter& out);
  // The entity of a MIG device; null when there is none.
  EntityRef MigEntity(uint32_t gpu_instance, uint32_t compute_instance) const;

 private:
  struct One {
    nvml::PartKey key;
    std::vector<std::pair<std::string, std::string>> facts;
    EntityRef entity;
    Series info;
    std::array<Series, std::size(kGpmRows)> gpm;
    std::array<Series, std::max(std::size(kMigRows), std::size(kVgpuRows))> rows;
    bool seen = false;
  };

  One& Find(const nvml::Part& part, const EntityRef& gpu, SeriesTable& table);
  void Declare(One& one, const EntityRef& gpu, SeriesTable& table);
  void UpdateMig(const nvml::Part& part, One& one, bool first, FrameWriter& out);
  void UpdateCounts(const nvml::GpuParts& parts, const EntityRef& gpu, FrameWriter& out);
  void Apply(std::span<const PartRow> rows, const nvml::PartValues& values, const EntityRef& entity,
             std::span<Series> series, FrameWriter& out);

  bool detail_;
  When when_;
  std::vector<One> parts_;
  std::array<Series, std::size(kGpmRows)> gpm_;
  std::array<Series, std::size(kWholeRows)> whole_;
  std::array<Series, std::size(kGpmMoreRows)> more_;
  Series gpu_instances_, compute_instances_, most_, vgpus_;
};

}  // namespace gpulens
