#include "plugins/analyzers/gpu_events/gpu_event_table.h"

#include "catalog/events.h"

namespace gpulens {

size_t GpuEventTable::FindEntity(const Entity* entity) const noexcept {
  for (; entity; entity = entity->parent.get()) {
    for (size_t i = 0; i < gpus_.size(); ++i) {
      if (gpus_[i].entity.get() == entity) return i;
    }
  }
  return kNone;
}

size_t GpuEventTable::FindOrAdd(const SeriesInfo& info) {
  std::string uuid = info.attributes.Text("gpu.uuid");
  auto pci = ParsePciAddress(info.attributes.Text("gpu.pci.bus_id"));
  size_t found = kNone;
  for (size_t i = 0; i < gpus_.size() && found == kNone; ++i) {
    const TrackedGpu& tracked = gpus_[i];
    bool same = uuid.empty() ? tracked.uuid.empty() && pci && tracked.pci == pci : tracked.uuid == uuid;
    if (same) found = i;
  }
  if (found == kNone) {
    if (gpus_.size() >= kMaxGpus) return kNone;
    gpus_.emplace_back();
    found = gpus_.size() - 1;
  }
  TrackedGpu& gpu = gpus_[found];
  gpu.entity = info.entity;
  gpu.uuid = std::move(uuid);
  gpu.pci = pci;
  gpu.vendor = info.attributes.Text("gpu.vendor");
  gpu.simulated = info.attributes.Has("simulated");
  return found;
}

void GpuEventTable::Update(const Snapshot& snapshot) {
  for (TrackedGpu& gpu : gpus_) gpu.present = false;
  info_.ForEach(snapshot, [&](const SeriesInfo& info, double, const Frame&, uint32_t) {
    if (!info.entity) return;
    size_t at = kNone;
    for (size_t i = 0; i < gpus_.size() && at == kNone; ++i) {
      if (gpus_[i].entity == info.entity) at = i;
    }
    if (at == kNone) at = FindOrAdd(info);
    if (at == kNone) return;
    gpus_[at].present = true;
    gpus_[at].seen_boot_ns = snapshot.closed_at.boot_ns;
  });
}

size_t GpuEventTable::Find(const Event& event) const {
  if (size_t found = FindEntity(event.entity.get()); found != kNone) return found;
  // The entity may be outdated by a change of identity.
  std::string uuid = event.entity ? event.entity->attributes.Text("gpu.uuid") : "";
  auto pci = ParsePciAddress(event.attributes.Text(kEventPciBusId));
  size_t found = kNone;
  for (size_t i = 0; i < gpus_.size(); ++i) {
    bool same = uuid.empty() ? pci && gpus_[i].pci == pci : gpus_[i].uuid == uuid;
    // Of two boards in one slot one after the other, the present one.
    if (same && (found == kNone || gpus_[i].present)) found = i;
  }
  return found == kNone && uuid.empty() && pci ? FindSlot(*pci) : found;
}

size_t GpuEventTable::FindSlot(const PciAddress& function) const noexcept {
  size_t found = kNone;
  for (size_t i = 0; i < gpus_.size(); ++i) {
    if (!gpus_[i].present || !gpus_[i].pci || !gpus_[i].pci->SameSlot(function)) continue;
    if (found != kNone) return kNone;
    found = i;
  }
  return found;
}

}  // namespace gpulens
