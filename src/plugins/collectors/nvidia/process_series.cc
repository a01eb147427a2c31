#include "plugins/collectors/nvidia/process_series.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "catalog/gpu.h"

namespace gpulens {
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
  for (auto& [key, one] : processes_) table.Retire(one.entity);
  *this = ProcessSeries(table_, queue_);
}

void ProcessSeries::ReportEnd(const One& one, const EntityRef& gpu, Instant now) const {
  if (!queue_ || !one.entity) return;
  std::vector<AttributeSet::Attribute> attributes;
  std::string who = "a process";
  for (auto [key, value] : one.entity->attributes) {
    if (key == "process.pid" || key == "process.executable.name" || key == "process.owner")
      attributes.push_back({key, value});
  }
  if (std::string name = one.entity->attributes.Text("process.executable.name"); !name.empty()) who = name;
  std::string body = who + " (pid " + one.entity->attributes.Text("process.pid") + ") left the GPU";
  if (one.peak_bytes != 0) {
    attributes.push_back({"gpu.process.memory.peak", static_cast<int64_t>(one.peak_bytes)});
    body += "; it used at most " + std::to_string(one.peak_bytes >> 20) + " MiB";
  }
  queue_->Report({.at = now,
                  .name = "gpu.process.end",
                  .entity = gpu,
                  .attributes = AttributeSet(std::span<const AttributeSet::Attribute>(attributes)),
                  .body = std::move(body)});
}

void ProcessSeries::Update(const nvml::Gpu& gpu, const EntityRef& entity, const PartSeries& parts,
                           bool shares_fresh, FrameWriter& out) {
  ++update_;
  // The driver tells the same memory for each type of a process, so types count once. Compute comes first.
  for (const GpuProcess& process : gpu.processes) {
    One& one = processes_[{process.pid, process.gpu_instance, process.compute_instance}];
    if (std::exchange(one.update, update_) != update_) {
      one.bytes = 0;
      one.bytes_known = false;
      one.type = process.type;
    }
    one.type = std::min(one.type, process.type);
    if (process.memory_used == GpuProcess::kUnknownMemory) continue;
    one.bytes_known = true;
    one.bytes = std::max(one.bytes, process.memory_used);
  }
  for (auto at = processes_.begin(); at != processes_.end();) {
    if (at->second.update != update_) {
      ReportEnd(at->second, entity, out.begun_at());
      out.table().Retire(at->second.entity);
      at = processes_.erase(at);
      continue;
    }
    UpdateOne(at->first, at->second, entity, parts, out);
    if (shares_fresh && at->first.gpu_instance == GpuProcess::kNoInstance)
      UpdateShares(gpu.parts, at->first, at->second, out);
    ++at;
  }
  Count(entity, out);
}

// A process in several instances is one process.
void ProcessSeries::Count(const EntityRef& entity, FrameWriter& out) {
  std::array<uint64_t, std::size(kTypes)> counts{};
  for (auto at = processes_.begin(); at != processes_.end();) {
    nvml::ProcessType type = at->second.type;
    uint32_t pid = at->first.pid;
    for (; at != processes_.end() && at->first.pid == pid; ++at) type = std::min(type, at->second.type);
    ++counts[static_cast<size_t>(type)];
  }
  for (size_t i = 0; i < counts.size(); ++i) {
    if (!counts_[i])
      counts_[i] = out.table().Declare(kGpuProcesses, entity, {{"gpu.process.type", kTypes[i]}});
    out.Set(counts_[i], counts[i]);
  }
}

void ProcessSeries::Declare(const Key& key, One& one, const EntityRef& gpu, const PartSeries& parts,
                            SeriesTable& table) {
  std::vector<AttributeSet::Attribute> attributes = {{"process.pid", int64_t{key.pid}}};
  auto text = [&](std::string_view name, std::string_view value) {
    if (!value.empty()) attributes.push_back({name, value});
  };
  if (table_) {
    const nvml::ProcessDetails& details = table_->Look(key.pid);
    one.start_ticks = details.start_ticks;
    text("process.executable.name", details.name);
    text("process.owner", details.owner);
    text("container.id", details.container_id);
    text("k8s.pod.uid", details.pod_uid);
  }
  EntityRef parent = gpu;
  if (key.gpu_instance != GpuProcess::kNoInstance) {
    if (EntityRef mig = parts.MigEntity(key.gpu_instance, key.compute_instance)) {
      parent = mig;
    } else {
      attributes.push_back({"gpu.mig.instance_id", int64_t{key.gpu_instance}});
      attributes.push_back({"gpu.mig.compute_instance_id", int64_t{key.compute_instance}});
    }
  }
  one.entity =
      MakeRef<Entity>("process", AttributeSet(std::span<const AttributeSet::Attribute>(attributes)), parent);
  one.declared_type = one.type;
  if (!one.bytes_known) return;
  one.used = table.Declare(kGpuProcessMemoryUsed, one.entity,
                           {{"gpu.process.type", kTypes[static_cast<size_t>(one.type)]}});
  one.peak = table.Declare(kGpuProcessMemoryPeak, one.entity);
}

void ProcessSeries::UpdateOne(const Key& key, One& one, const EntityRef& gpu, const PartSeries& parts,
                              FrameWriter& out) {
  uint64_t start = table_ ? table_->Look(key.pid).start_ticks : 0;
  bool another = one.entity && start != 0 && one.start_ticks != 0 && start != one.start_ticks;
  bool retyped = one.entity && one.type != one.declared_type;
  bool late = one.entity && one.bytes_known && !one.used;
  if (another) ReportEnd(one, gpu, out.begun_at());
  if (another || retyped || late) {
    out.table().Retire(one.entity);
    uint64_t peak = another ? 0 : one.peak_bytes;
    one = One{.bytes = one.bytes,
              .peak_bytes = peak,
              .update = one.update,
              .bytes_known = one.bytes_known,
              .type = one.type,
              .entity = {},
              .used = {},
              .peak = {},
              .shares = {}};
  }
  if (!one.entity) Declare(key, one, gpu, parts, out.table());
  if (!one.bytes_known) return;
  one.peak_bytes = std::max(one.peak_bytes, one.bytes);
  out.Set(one.used, one.bytes);
  out.Set(one.peak, one.peak_bytes);
}

void ProcessSeries::UpdateShares(const nvml::GpuParts& parts, const Key& key, One& one, FrameWriter& out) {
  auto found = std::find_if(parts.shares.begin(), parts.shares.end(),
                            [&](const ProcessShare& share) { return share.pid == key.pid; });
  // Who is not in the list has not been running since the last sample.
  constexpr ProcessShare kIdle{.sm = 0, .memory = 0, .encoder = 0, .decoder = 0, .jpeg = 0, .ofa = 0};
  const ProcessShare& share = found == parts.shares.end() ? kIdle : *found;
  for (size_t i = 0; i < std::size(kShares); ++i) {
    uint8_t percent = share.*kShares[i].share;
    if (percent == ProcessShare::kUnknown) continue;
    if (!one.shares[i]) {
      if (percent == 0 && !kShares[i].always) continue;
      one.shares[i] =
          out.table().Declare(kGpuProcessUtilization, one.entity, {{"gpu.task.type", kShares[i].task}});
    }
    out.Set(one.shares[i], percent / 100.0);
  }
}

}  // namespace gpulens
