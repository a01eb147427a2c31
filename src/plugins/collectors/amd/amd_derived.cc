// The series of AmdSeries that take more than one reading: rates of links, throttling, modes, processes.
#include <algorithm>
#include <iterator>
#include <string>
#include <vector>

#include "base/files.h"
#include "base/parse.h"
#include "plugins/collectors/amd/amd_series.h"

namespace gpulens::amd {
namespace {

// The name as the kernel has it; empty when the process is not ours to see.
std::string ExecutableName(uint32_t pid) {
  auto text = ReadFile("/proc/" + std::to_string(pid) + "/comm", 4096);
  return text ? std::string(Trim(*text)) : "";
}

}  // namespace

void AmdSeries::UpdateLinks(FrameWriter& out) {
  int64_t active = 0, inactive = 0;
  for (unsigned i = 0; i < kLinks; ++i) {
    if (const Reading* link = Fresh(Field::kXgmiLink, i, out)) ++(link->raw == 1 ? active : inactive);
  }
  if (active + inactive > 0) {
    using namespace std::string_view_literals;
    auto declare = [&](Series& series, std::string_view state) {
      Ensure(series, kGpuInterconnectLinks, board_,
             {{kLinkType, "xgmi"sv}, {"gpu.interconnect.state", state}}, out);
    };
    declare(links_active_, "active");
    declare(links_inactive_, "inactive");
    out.Set(links_active_, active);
    out.Set(links_inactive_, inactive);
  }
  for (unsigned i = 0; i < kLinks; ++i) {
    UpdateRate(Field::kXgmiRead, i, "receive", out);
    UpdateRate(Field::kXgmiWrite, i, "transmit", out);
  }
}

void AmdSeries::UpdateRate(Field field, unsigned copy, std::string_view direction, FrameWriter& out) {
  if (Skips({.field = field, .metric = &kGpuInterconnectThroughput}, copy)) return;
  const Reading* counter = Fresh(field, copy, out);
  if (!counter) return;
  Rate& rate = rates_[field == Field::kXgmiRead ? 0 : 1][copy];
  bool first = rate.at_ns == 0;
  if (!first && !rate.series) {
    rate.series = out.table().Declare(
        kGpuInterconnectThroughput, board_,
        {{kDirection, direction}, {kLinkType, std::string_view("xgmi")}, {kLinkIndex, int64_t{copy}}});
  }
  if (!first && counter->boot_ns == rate.at_ns) return out.Keep(rate.series);
  // A counter that fell began anew (the driver was reloaded): no rate for this span.
  if (!first && counter->raw >= rate.raw) {
    double seconds = static_cast<double>(counter->boot_ns - rate.at_ns) * 1e-9;
    out.Set(rate.series, static_cast<double>(counter->raw - rate.raw) / seconds);
  }
  rate.raw = counter->raw;
  rate.at_ns = counter->boot_ns;
}

// Where the board counts the cycles of each cause, these are exact between two readings; older boards have
// a mask of what holds the clock down at the moment.
void AmdSeries::UpdateThrottling(FrameWriter& out) {
  if (const Reading* cycles = Fresh(Field::kResidencyCycles, out)) return UpdateResidencies(*cycles, out);
  const Reading* mask = Fresh(Field::kThrottleMask, out);
  if (!mask) return;
  for (size_t i = 0; i < std::size(kThrottles); ++i) {
    Ensure(throttles_[i].reason, kGpuThrottleReason, board_, {{"gpu.throttle.cause", kThrottles[i].cause}},
           out);
    out.Set(throttles_[i].reason, static_cast<uint64_t>(mask->raw) & kThrottles[i].bits ? 1 : 0);
  }
}

void AmdSeries::UpdateResidencies(const Reading& cycles, FrameWriter& out) {
  bool same = cycles.boot_ns == cycles_at_ns_;
  int64_t span = cycles_at_ns_ == 0 ? 0 : cycles.raw - cycles_;
  for (size_t i = 0; i < std::size(kThrottles); ++i) {
    Throttle& throttle = throttles_[i];
    const Reading* held = Fresh(kThrottles[i].residency, out);
    if (!held) continue;
    if (same) {
      if (throttle.reason) out.Keep(throttle.reason);
      if (throttle.share) out.Keep(throttle.share);
      continue;
    }
    int64_t step = held->raw - throttle.raw;
    throttle.raw = held->raw;
    if (span <= 0 || step < 0) continue;  // The first reading, or the counters began anew.
    AttributeSet::Attribute cause = {"gpu.throttle.cause", kThrottles[i].cause};
    Ensure(throttle.reason, kGpuThrottleReason, board_, {cause}, out);
    Ensure(throttle.share, kGpuThrottleShare, board_, {cause}, out);
    out.Set(throttle.reason, step > 0 ? 1 : 0);
    out.Set(throttle.share, static_cast<double>(step) / static_cast<double>(span));
  }
  cycles_ = cycles.raw;
  cycles_at_ns_ = cycles.boot_ns;
}

void AmdSeries::UpdateHealth(FrameWriter& out) {
  using namespace std::string_view_literals;
  if (const Reading* blocks = Fresh(Field::kEccBlocks, out)) {
    Ensure(ecc_mode_, kGpuEccMode, board_, {{"gpu.ecc.mode_type", "current"sv}}, out);
    out.Set(ecc_mode_, blocks->raw != 0 ? 1 : 0);
  }
  if (const Reading* pending = Fresh(Field::kRetiredPagesPending, out)) {
    Ensure(pages_pending_, kGpuRetiredPagesPending, board_, {}, out);
    out.Set(pages_pending_, pending->raw > 0 ? 1 : 0);
  }
  if (const Reading* level = Fresh(Field::kPerformanceLevel, out)) {
    for (size_t i = 0; i < levels_.size(); ++i) {
      Ensure(levels_[i], kGpuPerformanceLevel, board_,
             {{"gpu.performance.level", amdsmi::kPerformanceLevels[i]}}, out);
      out.Set(levels_[i], level->raw == static_cast<int64_t>(i) ? 1 : 0);
    }
  }
}

void AmdSeries::UpdateModes(FrameWriter& out) {
  const Reading* compute = Fresh(Field::kComputePartition, out);
  const Reading* memory = Fresh(Field::kMemoryPartition, out);
  if (!compute) return;
  if (compute->raw <= 0 || compute->raw >= static_cast<int64_t>(std::size(amdsmi::kComputePartitions)))
    return;
  int64_t mode = compute->raw * 16 + (memory ? memory->raw : 0);
  if (mode != partition_mode_) {
    partition_mode_ = mode;
    out.table().Retire(partition_);
    std::string nps = memory ? "nps" + std::to_string(memory->raw) : "";
    std::vector<AttributeSet::Attribute> extra = {
        {"gpu.partition.compute", amdsmi::kComputePartitions[static_cast<size_t>(compute->raw)]}};
    if (memory) extra.push_back({"gpu.partition.memory", std::string_view(nps)});
    if (part_ == board_) extra.push_back({"gpu.partition.id", int64_t{0}});
    partition_ = out.table().Declare(kGpuPartitionInfo, part_,
                                     AttributeSet(std::span<const AttributeSet::Attribute>(extra)));
  }
  out.Set(partition_, 1);
}

void AmdSeries::UpdateProcesses(FrameWriter& out) {
  if (!Fresh(Field::kProcessCount, out) || device_->uses_boot_ns == 0) return;
  Ensure(process_count_, kGpuProcesses, part_, {}, out);
  out.Set(process_count_, device_->uses.size());
  for (const driver::ProcessUse& use : device_->uses) UpdateProcess(use, out);
  for (auto at = processes_.begin(); at != processes_.end();) {
    if (at->second.seen == update_) {
      ++at;
      continue;
    }
    out.table().Retire(at->second.entity);
    at = processes_.erase(at);
  }
}

void AmdSeries::DeclareProcess(const driver::ProcessUse& use, Process& process, SeriesTable& table) const {
  std::string name(use.name.data());
  if (name.empty() && !options_.simulated) name = ExecutableName(use.pid);
  std::vector<AttributeSet::Attribute> attributes = {{"process.pid", int64_t{use.pid}}};
  if (!name.empty()) attributes.push_back({"process.executable.name", std::string_view(name)});
  process.entity =
      MakeRef<Entity>("process", AttributeSet(std::span<const AttributeSet::Attribute>(attributes)), part_);
  if (use.memory == driver::ProcessUse::kUnknown) return;
  process.used = table.Declare(kGpuProcessMemoryUsed, process.entity);
  process.peak = table.Declare(kGpuProcessMemoryPeak, process.entity);
}

void AmdSeries::UpdateProcess(const driver::ProcessUse& use, FrameWriter& out) {
  Process& process = processes_[use.pid];
  if (process.seen == update_) return;  // Twice in one list: it is one process.
  process.seen = update_;
  if (!process.entity) DeclareProcess(use, process, out.table());
  if (process.used && use.memory != driver::ProcessUse::kUnknown) {
    process.peak_bytes = std::max(process.peak_bytes, use.memory);
    out.Set(process.used, use.memory);
    out.Set(process.peak, process.peak_bytes);
  }
  if (use.host_memory != driver::ProcessUse::kUnknown) {
    Ensure(process.host, kGpuProcessMemoryGtt, process.entity, {}, out);
    out.Set(process.host, use.host_memory);
  }
  // The library writes 0 for an engine whose time it cannot tell: a time begins with its first step.
  auto engine = [&](Series& series, uint64_t ns, std::string_view type) {
    if (ns == driver::ProcessUse::kUnknown || (ns == 0 && !series)) return;
    Ensure(series, kGpuProcessEngineTime, process.entity, {{kEngine, type}}, out);
    out.Set(series, static_cast<double>(ns) * 1e-9);
  };
  engine(process.graphics, use.graphics_ns, "gfx");
  engine(process.encode, use.encode_ns, "enc");
  if (use.compute_units != ~0U && compute_units_ > 0) {
    Ensure(process.occupancy, kGpuProcessCuOccupancy, process.entity, {}, out);
    out.Set(process.occupancy, static_cast<double>(use.compute_units) / compute_units_);
  }
}

}  // namespace gpulens::amd
