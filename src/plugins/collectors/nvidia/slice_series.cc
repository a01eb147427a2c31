#include "plugins/collectors/nvidia/slice_series.h"

#include <algorithm>
#include <string_view>

namespace gpulens::nvidia {
namespace {

using nvml::SliceField;
using nvml::SliceKind;
using nvml::SliceValue;
using nvml::Tier;

// Facts of the library that the info series show.
constexpr std::pair<std::string_view, std::string_view> kMigFacts[] = {
    {"profile", "gpu.mig.profile"}, {"uuid", "gpu.mig.uuid"}, {"slices", "gpu.mig.slices"}};
constexpr std::pair<std::string_view, std::string_view> kVgpuFacts[] = {
    {"uuid", "gpu.vgpu.uuid"},
    {"type", "gpu.vgpu.type"},
    {"vm", "gpu.vgpu.vm"},
    {"driver", "gpu.vgpu.driver.version"}};

Tier TierOf(SliceField field) {
  if (field == SliceField::kBar1Used || field == SliceField::kVgpuLicensed) return Tier::kSlow;
  return field >= SliceField::kVgpuMemoryUsed ? Tier::kMedium : Tier::kFast;
}

}  // namespace

void SliceSeries::Retire(SeriesTable& table) {
  for (Entry& entry : entries_) table.Retire(entry.entity);
  *this = SliceSeries(detail_);
}

EntityRef SliceSeries::MigEntity(uint32_t gpu_instance, uint32_t compute_instance) const {
  for (const Entry& entry : entries_) {
    if (entry.key.kind == SliceKind::kMig && entry.key.id == gpu_instance &&
        entry.key.sub == compute_instance)
      return entry.entity;
  }
  return {};
}

void SliceSeries::Declare(Entry& entry, const EntityRef& gpu, SeriesTable& table) {
  std::vector<AttributeSet::Attribute> facts;
  auto add = [&](auto& names) {
    for (auto [fact, key] : names) {
      for (const auto& [name, value] : entry.facts) {
        if (name == fact && !value.empty()) facts.push_back({key, std::string_view(value)});
      }
    }
  };
  if (entry.key.kind == SliceKind::kMig) {
    add(kMigFacts);
    entry.entity = MakeRef<Entity>("mig",
                                   AttributeSet({{"gpu.mig.instance_id", int64_t{entry.key.id}},
                                                 {"gpu.mig.compute_instance_id", int64_t{entry.key.sub}}}),
                                   gpu, AttributeSet(facts));
    entry.info = table.Declare(kGpuMigInfo, entry.entity, AttributeSet(facts));
  } else {
    entry.entity = MakeRef<Entity>("vgpu", AttributeSet({{"gpu.vgpu.id", int64_t{entry.key.id}}}), gpu);
    add(kVgpuFacts);
    entry.info = table.Declare(kGpuVgpuInfo, entry.entity, AttributeSet(facts));
  }
}

SliceSeries::Entry& SliceSeries::Find(const nvml::Slice& slice, const EntityRef& gpu, SeriesTable& table) {
  auto found = std::find_if(entries_.begin(), entries_.end(),
                            [&](const Entry& entry) { return entry.key == slice.key; });
  if (found != entries_.end() && found->facts == slice.facts) return *found;
  if (found == entries_.end()) {
    found = entries_.insert(entries_.end(), Entry{});
  } else {
    table.Retire(found->entity);
    *found = Entry{};
  }
  found->key = slice.key;
  found->facts = slice.facts;
  Declare(*found, gpu, table);
  return *found;
}

void SliceSeries::UpdateRows(const GpuRun& run, std::span<const SliceRow> rows,
                             const nvml::SliceValues& values, const EntityRef& entity,
                             std::span<Series> series) const {
  for (size_t i = 0; i < rows.size(); ++i) {
    const SliceRow& row = rows[i];
    if (row.detail && !detail_) continue;
    const SliceValue* value = run.Fresh(values[static_cast<size_t>(row.field)], TierOf(row.field));
    if (!value) continue;
    if (!series[i]) series[i] = DeclareRow(row, entity, run.table());
    run.out.SetRaw(series[i], value->value, row.per);
  }
  run.out.ReadAt(run.now);
}

void SliceSeries::UpdateCounts(const GpuRun& run) {
  const nvml::GpuSlices& slices = run.gpu.slices;
  auto declare = [&](const MetricDesc& metric, std::string_view type = {}) {
    return type.empty() ? run.table().Declare(metric, run.entity)
                        : run.table().Declare(metric, run.entity, {{"gpu.mig.instance_type", type}});
  };
  if (slices.mig_max != nvml::GpuSlices::kUnknown) {
    if (!mig_max_) {
      gpu_instances_ = declare(kGpuMigInstances, "gpu");
      compute_instances_ = declare(kGpuMigInstances, "compute");
      mig_max_ = declare(kGpuMigInstancesMax);
    }
    int64_t instances = 0, devices = 0, last = -1;
    for (const nvml::Slice& slice : slices.list) {
      if (slice.key.kind != SliceKind::kMig) continue;
      ++devices;
      instances += last != int64_t{slice.key.id};
      last = slice.key.id;
    }
    run.out.Set(gpu_instances_, instances);
    run.out.Set(compute_instances_, devices);
    run.out.Set(mig_max_, slices.mig_max);
  }
  if (!slices.vgpu_host) return;
  if (!vgpus_) vgpus_ = declare(kGpuVgpuInstances);
  run.out.Set(vgpus_, std::ranges::count_if(slices.list, [](const nvml::Slice& slice) {
                return slice.key.kind == SliceKind::kVgpu;
              }));
}

void SliceSeries::Update(const GpuRun& run) {
  const nvml::GpuSlices& slices = run.gpu.slices;
  for (Entry& entry : entries_) entry.seen = false;
  // Lists of a GPU that no longer answers are not exported as current.
  const bool live = run.live();
  int64_t instance = -1;
  for (const nvml::Slice& slice : slices.list) {
    const bool mig = slice.key.kind == SliceKind::kMig;
    const bool first = mig && instance != int64_t{slice.key.id};
    instance = mig ? slice.key.id : -1;
    if (slice.facts.empty()) continue;  // its identity has not arrived yet
    Entry& entry = Find(slice, run.entity, run.table());
    entry.seen = true;
    if (!live) continue;
    run.out.Set(entry.info, 1);
    if (!mig) UpdateRows(run, kVgpuRows, slice.values, entry.entity, entry.rows);
    if (!first) continue;  // Memory and GPM belong to the GPU instance: exported once.
    UpdateRows(run, kMigRows, slice.values, entry.entity, entry.rows);
    UpdateRows(run, kGpmRows, slice.values, entry.entity, entry.gpm);
  }
  std::erase_if(entries_, [&](const Entry& entry) {
    if (!entry.seen) run.table().Retire(entry.entity);
    return !entry.seen;
  });
  if (!live) return;
  UpdateCounts(run);
  UpdateRows(run, kGpmRows, slices.whole, run.entity, gpm_);
  UpdateRows(run, kWholeRows, slices.whole, run.entity, whole_);
}

}  // namespace gpulens::nvidia
