// The readings of each GPU in the last minute, for the incident when it fails: a fixed set of families
// (power, temperatures, load, memory, clocks, throttling, errors, links). A sample has kColumns · 8 + 8
// bytes: at one tick a second, 66 samples or 13.5 KiB per GPU.
#pragma once

#include <array>
#include <unordered_map>
#include <vector>

#include "core/frame.h"
#include "plugins/analyzers/gpu_events/gpu_event_table.h"
#include "store/incident_store.h"

namespace gpulens {

// Not thread-safe. Record does not allocate while layouts and GPUs stay.
class ReadingRing {
 public:
  static constexpr size_t kColumns = 25;
  static constexpr int64_t kKeepNs = 60'000'000'000;

  // Records the fresh readings of a tick.
  void Record(const Snapshot& snapshot, const GpuEventTable& table);
  // Returns the readings of a GPU from `from_ns` to `to_ns` (boot time), with times relative to `to_ns`.
  IncidentReadings Between(size_t gpu, int64_t from_ns, int64_t to_ns) const;

 private:
  struct Column {
    const MetricDesc* desc = nullptr;
    AttributeSet attributes;
  };
  struct Sample {
    int64_t boot_ns = 0;
    std::array<double, kColumns> values{};
  };
  struct Ring {
    std::vector<Column> columns;
    std::vector<Sample> samples;  // slots_ of them
    size_t next = 0;
    Sample* open = nullptr;  // of the tick that is recorded
  };
  // The column of a cell of a layout.
  struct Source {
    uint32_t slot = 0, gpu = 0, column = 0;
  };
  struct Plan {
    std::vector<Source> sources;
    uint64_t used = 0;
    size_t gpus = 0;  // in the table when it was made
  };

  const Plan& PlanOf(const Layout& layout, const GpuEventTable& table);
  uint32_t ColumnOf(Ring& ring, const SeriesInfo& info) const;
  Sample* OpenSample(Ring& ring, int64_t now_ns) const;
  bool Due(int64_t now_ns);

  std::vector<Ring> rings_;  // by the GPU's index in the table
  std::unordered_map<uint64_t, Plan> plans_;
  size_t slots_ = 0;
  int64_t last_ns_ = 0, gap_ns_ = 0;
  uint64_t tick_ = 0;
};

}  // namespace gpulens
