// The GPUs of the host by their gpu.info series, and their readings of the last minute.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/pci_address.h"
#include "catalog/gpu.h"
#include "core/frame.h"
#include "core/series_finder.h"
#include "store/incident_store.h"

namespace gpulens {

// A GPU that was seen once. Its index in the table never changes.
struct TrackedGpu {
  EntityRef entity;  // as it was last seen
  std::string uuid, vendor;
  std::optional<PciAddress> pci;
  bool simulated = false;
  bool present = false;
  int64_t seen_boot_ns = 0;
};

// Not thread-safe. Update does not allocate while the GPUs stay.
class GpuEventTable {
 public:
  static constexpr size_t kMaxGpus = 128;
  static constexpr size_t kNone = SIZE_MAX;

  // Reads the gpu.info series of a tick. A GPU that is gone stays in the table.
  void Update(const Snapshot& snapshot);

  size_t size() const noexcept { return gpus_.size(); }
  const TrackedGpu& operator[](size_t i) const noexcept { return gpus_[i]; }
  // By the event's entity or its parents, else by its address; kNone: unknown.
  size_t Find(const Event& event) const;
  // By the entity of a GPU or of a part of one; kNone for others.
  size_t FindEntity(const Entity* entity) const noexcept;

 private:
  size_t FindOrAdd(const SeriesInfo& info);
  // The GPU whose board has this PCI function, such as its audio device; kNone where there are several.
  size_t FindSlot(const PciAddress& function) const noexcept;

  SeriesFinder info_{kGpuInfo};
  std::vector<TrackedGpu> gpus_;
};

// The readings of each GPU in the last minute, for the incident when it fails: a fixed set of families
// (power, temperatures, load, memory, clocks, throttling, errors, links). A sample has kColumns · 8 + 8
// bytes: at one tick a second, 66 samples or 13.5 KiB per GPU.
//
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
