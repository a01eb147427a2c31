// The GPUs of the host as collectors show them, so that an address or a UUID in an event becomes a GPU.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/pci_address.h"
#include "catalog/gpu.h"
#include "core/series_finder.h"

namespace gpulens {

// A GPU once seen. Its place in the book never changes.
struct KnownGpu {
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

  // Learns from the gpu.info series of a tick. A GPU that is gone stays known, and is the same one when it is
  // back.
  void Update(const Snapshot& snapshot);

  size_t size() const noexcept { return gpus_.size(); }
  const KnownGpu& operator[](size_t i) const noexcept { return gpus_[i]; }
  // By the entity of the event or its parents, else by the address it names; kNone when it is not known.
  size_t Find(const Event& event) const;
  // Whose entity this is, or a part of; kNone for others.
  size_t FindEntity(const Entity* entity) const noexcept;

 private:
  size_t Learn(const SeriesInfo& info);
  // The one GPU whose board has this function, its audio device for one; kNone where there are several.
  size_t FindSlot(const PciAddress& function) const noexcept;

  SeriesFinder info_{kGpuInfo};
  std::vector<KnownGpu> gpus_;
};

}  // namespace gpulens
