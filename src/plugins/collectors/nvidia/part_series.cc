#include "plugins/collectors/nvidia/part_series.h"

#include <algorithm>
#include <string_view>

#include "quality/raw_rule.h"

namespace gpulens {
namespace {

using nvml::Part;
using nvml::PartField;
using nvml::PartKind;
using nvml::PartValue;
using nvml::ReadStatus;

// Facts of the driver that the info series show.
constexpr std::pair<std::string_view, std::string_view> kMigFacts[] = {
    {"profile", "gpu.mig.profile"}, {"uuid", "gpu.mig.uuid"}, {"slices", "gpu.mig.slices"}};
constexpr std::pair<std::string_view, std::string_view> kVgpuFacts[] = {
    {"uuid", "gpu.vgpu.uuid"},
    {"type", "gpu.vgpu.type"},
    {"vm", "gpu.vgpu.vm"},
    {"driver", "gpu.vgpu.driver.version"}};

int64_t MaxAge(PartField field, const PartSeries::When& when) {
  if (field == PartField::kBar1Used || field == PartField::kVgpuLicensed) return when.slow_ns;
  return field >= PartField::kVgpuMemoryUsed ? when.medium_ns : when.fast_ns;
}

}  // namespace

void PartSeries::Retire(SeriesTable& table) {
  for (One& one : parts_) table.Retire(one.entity);
  *this = PartSeries(detail_);
}

EntityRef PartSeries::MigEntity(uint32_t gpu_instance, uint32_t compute_instance) const {
  for (const One& one : parts_) {
    if (one.key.kind == PartKind::kMig && one.key.id == gpu_instance && one.key.sub == compute_instance)
      return one.entity;
  }
  return {};
}

void PartSeries::Declare(One& one, const EntityRef& gpu, SeriesTable& table) {
  std::vector<AttributeSet::Attribute> facts;
  auto add = [&](auto& names) {
    for (auto [fact, key] : names) {
      for (const auto& [name, value] : one.facts) {
        if (name == fact && !value.empty()) facts.push_back({key, std::string_view(value)});
      }
    }
  };
  if (one.key.kind == PartKind::kMig) {
    add(kMigFacts);
    one.entity = MakeRef<Entity>("mig",
                                 AttributeSet({{"gpu.mig.instance_id", int64_t{one.key.id}},
                                               {"gpu.mig.compute_instance_id", int64_t{one.key.sub}}}),
                                 gpu, AttributeSet(std::span<const AttributeSet::Attribute>(facts)));
    one.info =
        table.Declare(kGpuMigInfo, one.entity, AttributeSet(std::span<const AttributeSet::Attribute>(facts)));
  } else {
    one.entity = MakeRef<Entity>("vgpu", AttributeSet({{"gpu.vgpu.id", int64_t{one.key.id}}}), gpu);
    add(kVgpuFacts);
    one.info = table.Declare(kGpuVgpuInfo, one.entity,
                             AttributeSet(std::span<const AttributeSet::Attribute>(facts)));
  }
}

PartSeries::One& PartSeries::Find(const Part& part, const EntityRef& gpu, SeriesTable& table) {
  auto found =
      std::find_if(parts_.begin(), parts_.end(), [&](const One& one) { return one.key == part.key; });
  if (found != parts_.end() && found->facts == part.facts) return *found;
  if (found == parts_.end()) {
    found = parts_.insert(parts_.end(), One{});
  } else {
    table.Retire(found->entity);
    *found = One{};
  }
  found->key = part.key;
  found->facts = part.facts;
  Declare(*found, gpu, table);
  return *found;
}

void PartSeries::Apply(std::span<const PartRow> rows, const nvml::PartValues& values, const EntityRef& entity,
                       std::span<Series> series, FrameWriter& out) {
  for (size_t i = 0; i < rows.size(); ++i) {
    const PartRow& row = rows[i];
    const PartValue& value = values[static_cast<size_t>(row.field)];
    if (value.boot_ns == 0 || value.status != ReadStatus::kOk || (row.detail && !detail_)) continue;
    int64_t age = when_.now.boot_ns - value.boot_ns;
    if (age > MaxAge(row.field, when_)) continue;
    if (!series[i]) {
      std::vector<AttributeSet::Attribute> extra;
      if (!row.key.empty()) extra.push_back({row.key, row.value});
      if (!row.key2.empty()) extra.push_back({row.key2, row.value2});
      series[i] = out.table().Declare(*row.metric, entity,
                                      AttributeSet(std::span<const AttributeSet::Attribute>(extra)));
    }
    out.ReadAt(when_.now + Duration(-age));
    if (SaysNothing(*row.metric, value.value)) out.Reject(series[i], Validation::kSentinel);
    else out.Set(series[i], value.value / row.per);
  }
  out.ReadAt(when_.now);
}

void PartSeries::UpdateMig(const Part& part, One& one, bool first, FrameWriter& out) {
  out.Set(one.info, 1);
  if (!first) return;  // Memory and GPM belong to the GPU instance: told once.
  Apply(kMigRows, part.values, one.entity, one.rows, out);
  Apply(kGpmRows, part.values, one.entity, one.gpm, out);
}

void PartSeries::UpdateCounts(const nvml::GpuParts& parts, const EntityRef& gpu, FrameWriter& out) {
  if (parts.mig_max != nvml::GpuParts::kUnknown) {
    if (!most_) {
      gpu_instances_ = out.table().Declare(kGpuMigInstances, gpu, {{"gpu.mig.instance_type", "gpu"}});
      compute_instances_ = out.table().Declare(kGpuMigInstances, gpu, {{"gpu.mig.instance_type", "compute"}});
      most_ = out.table().Declare(kGpuMigInstancesMax, gpu);
    }
    int64_t instances = 0, devices = 0, last = -1;
    for (const Part& part : parts.list) {
      if (part.key.kind != PartKind::kMig) continue;
      ++devices;
      instances += last != int64_t{part.key.id};
      last = part.key.id;
    }
    out.Set(gpu_instances_, instances);
    out.Set(compute_instances_, devices);
    out.Set(most_, parts.mig_max);
  }
  if (!parts.vgpu_host) return;
  if (!vgpus_) vgpus_ = out.table().Declare(kGpuVgpuInstances, gpu);
  out.Set(vgpus_, std::count_if(parts.list.begin(), parts.list.end(),
                                [](const Part& part) { return part.key.kind == PartKind::kVgpu; }));
}

void PartSeries::Update(const nvml::Gpu& gpu, const EntityRef& entity, const When& when, FrameWriter& out) {
  when_ = when;
  const nvml::GpuParts& parts = gpu.parts;
  for (One& one : parts_) one.seen = false;
  // What a GPU says no more is not told as if it had just said it.
  bool live = gpu.last_read_boot_ns != 0 && when.now.boot_ns - gpu.last_read_boot_ns <= when.fast_ns;
  int64_t instance = -1;
  for (const Part& part : parts.list) {
    bool first = part.key.kind == PartKind::kMig && instance != int64_t{part.key.id};
    instance = part.key.kind == PartKind::kMig ? part.key.id : -1;
    if (part.facts.empty()) continue;  // Who it is has not arrived yet.
    One& one = Find(part, entity, out.table());
    one.seen = true;
    if (!live) continue;
    if (part.key.kind == PartKind::kMig) {
      UpdateMig(part, one, first, out);
    } else {
      out.Set(one.info, 1);
      Apply(kVgpuRows, part.values, one.entity, one.rows, out);
    }
  }
  std::erase_if(parts_, [&](const One& one) {
    if (!one.seen) out.table().Retire(one.entity);
    return !one.seen;
  });
  if (!live) return;
  UpdateCounts(parts, entity, out);
  Apply(kGpmRows, parts.whole, entity, gpm_, out);
  Apply(kWholeRows, parts.whole, entity, whole_, out);
  if (detail_) Apply(kGpmMoreRows, parts.whole, entity, more_, out);
}

}  // namespace gpulens
