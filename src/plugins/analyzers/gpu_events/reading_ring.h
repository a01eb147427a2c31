// The last minute of each GPU in memory, so that there is something to look at when one fails.
//
// A fixed set of families (power, temperatures, load, memory, clocks, throttling, errors, links) as 8-byte
// numbers: kColumns · 8 + 8 bytes per sample. At one tick a second that is 66 samples, 13.5 KiB per GPU.
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

  // Takes the readings of a tick. Only those just read: a value that merely rides along is no new reading.
  void Record(const Snapshot& snapshot, const GpuEventTable& table);
  // The readings of a GPU from `from` to `to` (boot time), times relative to `to`.
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
  // Which cells of a layout go where.
  struct Wanted {
    uint32_t slot = 0, gpu = 0, column = 0;
  };
  struct Plan {
    std::vector<Wanted> wanted;
    uint64_t used = 0;
    size_t gpus = 0;  // known when it was made
  };

  const Plan& PlanOf(const Layout& layout, const GpuEventTable& table);
  uint32_t ColumnOf(Ring& ring, const SeriesInfo& info) const;
  Sample* OpenSample(Ring& ring, int64_t now_ns) const;
  bool Due(int64_t now_ns);

  std::vector<Ring> rings_;  // by the GPU's place in the book
  std::unordered_map<uint64_t, Plan> plans_;
  size_t slots_ = 0;
  int64_t last_ns_ = 0, gap_ns_ = 0;
  uint64_t tick_ = 0;
};

}  // namespace gpulens
