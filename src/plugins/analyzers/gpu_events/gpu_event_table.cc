#include "plugins/analyzers/gpu_events/gpu_event_table.h"

#include <algorithm>
#include <limits>

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

namespace {

// Most useful first: when a GPU has more series than columns, the last are left out.
constexpr const MetricDesc* kKept[] = {
    &kGpuPowerDraw,          &kGpuTemperature,          &kGpuUtilization,       &kGpuMemoryUtilization,
    &kGpuMemoryUsed,         &kGpuClockFrequency,       &kGpuThrottleMask,      &kGpuPcieReplayCount,
    &kGpuEccErrors,          &kGpuPowerLimit,           &kGpuFanSpeed,          &kGpuPowerState,
    &kGpuPcieLinkGenCurrent, &kGpuPcieLinkWidthCurrent, &kGpuInterconnectLinks, &kGpuInterconnectErrors,
    &kGpuRetiredPages,       &kGpuRowRemapCount,
};

// At ten ticks a second a minute has 600 samples; faster ticks are thinned to that.
constexpr int64_t kShortestGapNs = 100'000'000;
constexpr size_t kSpareSlots = 6;

// The attributes that identify a series within its family on the GPU.
AttributeSet OwnAttributes(const SeriesInfo& info) {
  std::vector<AttributeSet::Attribute> own;
  for (auto [key, value] : info.attributes) {
    if (std::ranges::find(info.desc->keys, key) != info.desc->keys.end()) own.push_back({key, value});
  }
  return AttributeSet(own);
}

}  // namespace

uint32_t ReadingRing::ColumnOf(Ring& ring, const SeriesInfo& info) const {
  AttributeSet own = OwnAttributes(info);
  for (uint32_t i = 0; i < ring.columns.size(); ++i) {
    if (ring.columns[i].desc == info.desc && ring.columns[i].attributes == own) return i;
  }
  if (ring.columns.size() >= kColumns) return kColumns;
  ring.columns.push_back({info.desc, std::move(own)});
  return static_cast<uint32_t>(ring.columns.size() - 1);
}

const ReadingRing::Plan& ReadingRing::PlanOf(const Layout& layout, const GpuEventTable& table) {
  auto [at, added] = plans_.try_emplace(layout.id());
  Plan& plan = at->second;
  plan.used = tick_;
  if (!added && plan.gpus == table.size()) return plan;
  plan.gpus = table.size();
  plan.sources.clear();
  // By family first, so that columns go to the most useful ones.
  for (const MetricDesc* desc : kKept) {
    for (uint32_t slot = 0; slot < layout.slots(); ++slot) {
      const SeriesInfo& info = layout[slot];
      if (info.desc != desc || info.cells() != 1) continue;
      // Only the GPU's own series, not those of its parts (MIG slices, links).
      size_t gpu = table.FindEntity(info.entity.get());
      if (gpu == GpuEventTable::kNone || table[gpu].entity != info.entity) continue;
      uint32_t column = ColumnOf(rings_[gpu], info);
      if (column < kColumns) plan.sources.push_back({slot, static_cast<uint32_t>(gpu), column});
    }
  }
  return plan;
}

// The distance of the first ticks determines the number of samples.
bool ReadingRing::Due(int64_t now_ns) {
  int64_t since = now_ns - last_ns_;
  if (last_ns_ != 0 && since <= 0) return false;
  if (slots_ == 0) {
    if (last_ns_ != 0) {
      gap_ns_ = std::clamp<int64_t>(since, kShortestGapNs, kKeepNs / 4);
      slots_ = static_cast<size_t>(kKeepNs / gap_ns_) + kSpareSlots;
    }
    last_ns_ = now_ns;
    return slots_ != 0;
  }
  // Half a gap of tolerance, as ticks are not exactly on the grid.
  if (since < gap_ns_ / 2) return false;
  last_ns_ = now_ns;
  return true;
}

ReadingRing::Sample* ReadingRing::OpenSample(Ring& ring, int64_t now_ns) const {
  if (ring.open) return ring.open;
  Sample& sample = ring.samples[ring.next];
  ring.next = (ring.next + 1) % slots_;
  sample.boot_ns = now_ns;
  sample.values.fill(std::numeric_limits<double>::quiet_NaN());
  return ring.open = &sample;
}

void ReadingRing::Record(const Snapshot& snapshot, const GpuEventTable& table) {
  int64_t now_ns = snapshot.closed_at.boot_ns;
  if (!Due(now_ns)) return;
  ++tick_;
  if (rings_.size() < table.size()) rings_.resize(table.size());
  for (Ring& ring : rings_) {
    if (ring.samples.empty()) {
      ring.samples.resize(slots_);
      ring.columns.reserve(kColumns);
    }
    ring.open = nullptr;
  }
  for (const SnapshotEntry& entry : snapshot.frames) {
    const Frame& frame = *entry.frame;
    for (const Source& source : PlanOf(*frame.layout, table).sources) {
      if (frame.quality[source.slot] != Quality::kOk) continue;
      const SeriesInfo& info = (*frame.layout)[source.slot];
      Cell cell = frame.cells[info.first_cell];
      double value = info.desc->number == Number::kInt ? static_cast<double>(cell.i) : cell.d;
      OpenSample(rings_[source.gpu], now_ns)->values[source.column] = value;
    }
  }
  std::erase_if(plans_, [this](const auto& item) { return item.second.used != tick_; });
}

IncidentReadings ReadingRing::Between(size_t gpu, int64_t from_ns, int64_t to_ns) const {
  IncidentReadings out;
  if (gpu >= rings_.size()) return out;
  const Ring& ring = rings_[gpu];
  for (const Column& column : ring.columns) {
    out.columns.push_back(
        {std::string(column.desc->name), std::string(column.desc->unit), column.attributes});
  }
  for (size_t i = 0; i < ring.samples.size(); ++i) {
    const Sample& sample = ring.samples[(ring.next + i) % ring.samples.size()];
    if (sample.boot_ns == 0 || sample.boot_ns < from_ns || sample.boot_ns > to_ns) continue;
    IncidentReadings::Sample row;
    row.seconds = static_cast<double>(sample.boot_ns - to_ns) * 1e-9;
    row.values.assign(sample.values.begin(), sample.values.begin() + static_cast<long>(ring.columns.size()));
    out.samples.push_back(std::move(row));
  }
  return out;
}

}  // namespace gpulens
