#include "plugins/collectors/nvidia/slice_series.h"

#include <string_view>

namespace gpulens::nvidia {
namespace {

using nvml::FieldTier;
using nvml::SliceField;
using nvml::SliceKind;
using nvml::SliceValue;

// Facts of the library that the info series show.
constexpr std::pair<std::string_view, std::string_view> kMigFacts[] = {
    {"profile", "gpu.mig.profile"}, {"uuid", "gpu.mig.uuid"}, {"slices", "gpu.mig.slices"}};
constexpr std::pair<std::string_view, std::string_view> kVgpuFacts[] = {
    {"uuid", "gpu.vgpu.uuid"},
    {"type", "gpu.vgpu.type"},
    {"vm", "gpu.vgpu.vm"},
    {"driver", "gpu.vgpu.driver.version"}};

FieldTier TierOf(SliceField field) {
  if (field == SliceField::kBar1Used || field == SliceField::kVgpuLicensed) return FieldTier::kSlow;
  return field >= SliceField::kVgpuMemoryUsed ? FieldTier::kMedium : FieldTier::kFast;
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

SliceSeries::Entry& SliceSeries::Find(const nvml::GpuSlice& slice, const EntityRef& gpu, SeriesTable& table) {
  auto found = std::ranges::find_if(entries_, [&](const Entry& entry) { return entry.key == slice.key; });
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
    for (const nvml::GpuSlice& slice : slices.list) {
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
  run.out.Set(vgpus_, std::ranges::count_if(slices.list, [](const nvml::GpuSlice& slice) {
                return slice.key.kind == SliceKind::kVgpu;
              }));
}

void SliceSeries::Update(const GpuRun& run) {
  const nvml::GpuSlices& slices = run.gpu.slices;
  for (Entry& entry : entries_) entry.seen = false;
  // Lists of a GPU that no longer answers are not exported as current.
  const bool live = run.live();
  int64_t instance = -1;
  for (const nvml::GpuSlice& slice : slices.list) {
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

namespace {

using nvml::GpuProcess;
using nvml::ProcessShare;

constexpr std::string_view kTypes[] = {"compute", "graphics", "mps"};

struct ShareRow {
  uint8_t ProcessShare::* share;
  std::string_view task;
  bool always;  // else declared when it is first not 0
};
constexpr ShareRow kShares[] = {
    {&ProcessShare::sm, "compute", true},       {&ProcessShare::memory, "memory_controller", true},
    {&ProcessShare::encoder, "encoder", false}, {&ProcessShare::decoder, "decoder", false},
    {&ProcessShare::jpeg, "jpeg", false},       {&ProcessShare::ofa, "optical_flow", false}};

}  // namespace

void ProcessSeries::Retire(SeriesTable& table) {
  for (auto& [key, entry] : processes_) table.Retire(entry.entity);
  *this = ProcessSeries(names_, queue_);
}

void ProcessSeries::ReportEnd(const Entry& entry, const EntityRef& gpu, Instant now) const {
  if (!queue_ || !entry.entity) return;
  std::vector<AttributeSet::Attribute> attributes;
  std::string who = "a process";
  for (auto [key, value] : entry.entity->attributes) {
    if (key == "process.pid" || key == "process.executable.name" || key == "process.owner")
      attributes.push_back({key, value});
  }
  if (std::string name = entry.entity->attributes.Text("process.executable.name"); !name.empty()) who = name;
  std::string body = who + " (pid " + entry.entity->attributes.Text("process.pid") + ") left the GPU";
  if (entry.peak_bytes != 0) {
    attributes.push_back({"gpu.process.memory.peak", static_cast<int64_t>(entry.peak_bytes)});
    body += "; it used at most " + std::to_string(entry.peak_bytes >> 20) + " MiB";
  }
  queue_->Report({.at = now,
                  .name = "gpu.process.end",
                  .entity = gpu,
                  .attributes = AttributeSet(attributes),
                  .body = std::move(body)});
}

void ProcessSeries::Update(const GpuRun& run, const SliceSeries& slices, bool shares_fresh) {
  ++update_;
  // The library reports the same memory for each type of a process, so types count once. Compute comes first.
  for (const GpuProcess& process : run.gpu.processes) {
    Entry& entry = processes_[{process.pid, process.gpu_instance, process.compute_instance}];
    if (std::exchange(entry.update, update_) != update_) {
      entry.bytes = 0;
      entry.bytes_known = false;
      entry.type = process.type;
    }
    entry.type = std::min(entry.type, process.type);
    if (process.memory_used == GpuProcess::kUnknownMemory) continue;
    entry.bytes_known = true;
    entry.bytes = std::max(entry.bytes, process.memory_used);
  }
  for (auto at = processes_.begin(); at != processes_.end();) {
    if (at->second.update != update_) {
      ReportEnd(at->second, run.entity, run.out.begun_at());
      run.table().Retire(at->second.entity);
      at = processes_.erase(at);
      continue;
    }
    UpdateEntry(run, at->first, at->second, slices);
    if (shares_fresh && at->first.gpu_instance == GpuProcess::kNoInstance)
      UpdateShares(run, at->first, at->second);
    ++at;
  }
  UpdateCounts(run);
}

// A process in several instances counts once.
void ProcessSeries::UpdateCounts(const GpuRun& run) {
  std::array<uint64_t, std::size(kTypes)> counts{};
  for (auto at = processes_.begin(); at != processes_.end();) {
    nvml::ProcessType type = at->second.type;
    uint32_t pid = at->first.pid;
    for (; at != processes_.end() && at->first.pid == pid; ++at) type = std::min(type, at->second.type);
    ++counts[static_cast<size_t>(type)];
  }
  for (size_t i = 0; i < counts.size(); ++i) {
    run.out.DeclareAndSet(counts_[i], kGpuProcesses, run.entity, {{"gpu.process.type", kTypes[i]}},
                          counts[i]);
  }
}

void ProcessSeries::Declare(const GpuRun& run, const Key& key, Entry& entry, const SliceSeries& slices) {
  std::vector<AttributeSet::Attribute> attributes = {{"process.pid", int64_t{key.pid}}}, facts;
  auto text = [&](std::string_view name, std::string_view value) {
    if (!value.empty()) attributes.push_back({name, value});
  };
  if (names_) {
    const nvml::ProcessDetails& details = names_->Find(key.pid);
    entry.start_ticks = details.start_ticks;
    text("process.executable.name", details.name);
    text("process.owner", details.owner);
    text("container.id", details.container_id);
    text("k8s.pod.uid", details.pod_uid);
    // For analyzers that join engines and processes.
    if (details.start_ticks != 0)
      facts.push_back({"process.start_ticks", static_cast<int64_t>(details.start_ticks)});
    if (!details.parents.empty()) facts.push_back({"process.parents", std::string_view(details.parents)});
  }
  EntityRef parent = run.entity;
  if (key.gpu_instance != GpuProcess::kNoInstance) {
    if (EntityRef mig = slices.MigEntity(key.gpu_instance, key.compute_instance)) {
      parent = mig;
    } else {
      attributes.push_back({"gpu.mig.instance_id", int64_t{key.gpu_instance}});
      attributes.push_back({"gpu.mig.compute_instance_id", int64_t{key.compute_instance}});
    }
  }
  entry.entity = MakeRef<Entity>("process", AttributeSet(attributes), parent, AttributeSet(facts));
  entry.declared_type = entry.type;
  if (!entry.bytes_known) return;
  entry.used = run.table().Declare(kGpuProcessMemoryUsed, entry.entity,
                                   {{"gpu.process.type", kTypes[static_cast<size_t>(entry.type)]}});
  entry.peak = run.table().Declare(kGpuProcessMemoryPeak, entry.entity);
}

void ProcessSeries::UpdateEntry(const GpuRun& run, const Key& key, Entry& entry, const SliceSeries& slices) {
  uint64_t start = names_ ? names_->Find(key.pid).start_ticks : 0;
  bool another = entry.entity && start != 0 && entry.start_ticks != 0 && start != entry.start_ticks;
  bool retyped = entry.entity && entry.type != entry.declared_type;
  bool late = entry.entity && entry.bytes_known && !entry.used;
  if (another) ReportEnd(entry, run.entity, run.out.begun_at());
  if (another || retyped || late) {
    run.table().Retire(entry.entity);
    uint64_t peak = another ? 0 : entry.peak_bytes;
    entry = Entry{.bytes = entry.bytes,
                  .peak_bytes = peak,
                  .update = entry.update,
                  .bytes_known = entry.bytes_known,
                  .type = entry.type,
                  .entity = {},
                  .used = {},
                  .peak = {},
                  .shares = {}};
  }
  if (!entry.entity) Declare(run, key, entry, slices);
  if (!entry.bytes_known) return;
  entry.peak_bytes = std::max(entry.peak_bytes, entry.bytes);
  run.out.Set(entry.used, entry.bytes);
  run.out.Set(entry.peak, entry.peak_bytes);
}

void ProcessSeries::UpdateShares(const GpuRun& run, const Key& key, Entry& entry) {
  const std::vector<ProcessShare>& list = run.gpu.slices.shares;
  auto found = std::ranges::find_if(list, [&](const ProcessShare& share) { return share.pid == key.pid; });
  // A process without a share has not used the GPU since the last sample.
  constexpr ProcessShare kIdle{.sm = 0, .memory = 0, .encoder = 0, .decoder = 0, .jpeg = 0, .ofa = 0};
  const ProcessShare& share = found == list.end() ? kIdle : *found;
  for (size_t i = 0; i < std::size(kShares); ++i) {
    uint8_t percent = share.*kShares[i].share;
    if (percent == ProcessShare::kUnknown) continue;
    if (!entry.shares[i]) {
      if (percent == 0 && !kShares[i].always) continue;
      entry.shares[i] =
          run.table().Declare(kGpuProcessUtilization, entry.entity, {{"gpu.task.type", kShares[i].task}});
    }
    run.out.Set(entry.shares[i], percent / 100.0);
  }
}

}  // namespace gpulens::nvidia
