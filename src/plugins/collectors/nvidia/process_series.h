// The series of the processes on one GPU: memory, its peak, and what each uses of the engines.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <map>

#include "core/frame_writer.h"
#include "plugins/collectors/nvidia/part_series.h"
#include "plugins/event_queue.h"
#include "sources/nvml/nvml_source.h"
#include "sources/nvml/processes/process_table.h"

namespace gpulens {

// Used inside the collector's run. A process is known by its number, its MIG instance and when it
// started: a number that is used again is another process, and one process in two instances is two entities,
// each on the instance it uses.
class ProcessSeries {
 public:
  // `book` tells who processes are; null: nobody does (simulated processes). `desk` is told of those that
  // left; null: nobody is. Both outlive this.
  explicit ProcessSeries(nvml::ProcessTable* table, EventQueue* queue = nullptr) noexcept
      : table_(table), queue_(queue) {}

  void Retire(SeriesTable& table);
  // The list has just been read. `shares_fresh`: so have the shares; a process without one is idle.
  void Update(const nvml::Gpu& gpu, const EntityRef& entity, const PartSeries& parts, bool shares_fresh,
              FrameWriter& out);

 private:
  struct Key {
    uint32_t pid, gpu_instance, compute_instance;
    auto operator<=>(const Key&) const = default;
  };
  struct One {
    uint64_t bytes = 0, peak_bytes = 0, update = 0, start_ticks = 0;
    bool bytes_known = false;
    nvml::ProcessType type = nvml::ProcessType::kCompute, declared_type = nvml::ProcessType::kCompute;
    EntityRef entity;
    Series used, peak;
    std::array<Series, 6> shares;
  };

  void ReportEnd(const One& one, const EntityRef& gpu, Instant now) const;
  void Count(const EntityRef& entity, FrameWriter& out);
  void UpdateOne(const Key& key, One& one, const EntityRef& gpu, const PartSeries& parts, FrameWriter& out);
  void Declare(const Key& key, One& one, const EntityRef& gpu, const PartSeries& parts, SeriesTable& table);
  void UpdateShares(const nvml::GpuParts& parts, const Key& key, One& one, FrameWriter& out);

  nvml::ProcessTable* table_;
  EventQueue* queue_;
  uint64_t update_ = 0;
  std::map<Key, One> processes_;
  std::array<Series, 3> counts_;
};

}  // namespace gpulens
