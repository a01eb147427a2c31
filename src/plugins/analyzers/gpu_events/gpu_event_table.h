// The GPUs of the host by their gpu.info series, to find the GPU of an event's address or UUID.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/pci_address.h"
#include "catalog/gpu.h"
#include "core/series_finder.h"

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

}  // namespace gpulens
