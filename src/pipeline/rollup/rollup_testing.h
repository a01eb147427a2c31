// For tests of roll-ups: a source of readings, snapshots of some, and a look at the results.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/frame_writer.h"
#include "pipeline/rollup/rollup.h"

namespace gpulens::rollup_testing {

// At a full minute of both.
inline constexpr Instant kStart{1'000'000'000'000, 1'700'000'040'000'000'000};
inline constexpr Instant At(int64_t seconds) {
  return {kStart.boot_ns + seconds * 1'000'000'000, kStart.unix_ns + seconds * 1'000'000'000};
}

inline constexpr MetricDesc kPower{.name = "gpu.power.draw", .unit = "W", .help = "Power."};
inline constexpr MetricDesc kMemory{
    .name = "gpu.memory.used", .unit = "By", .kind = Kind::kUpDownCounter, .number = Number::kInt};
inline constexpr MetricDesc kEnergy{.name = "gpu.energy", .unit = "J", .kind = Kind::kCounter};
inline constexpr MetricDesc kBytes{
    .name = "gpu.io", .unit = "By", .kind = Kind::kCounter, .number = Number::kInt};
inline constexpr MetricDesc kLatency{.name = "inference.latency", .unit = "s", .kind = Kind::kHistogram};
inline constexpr MetricDesc kInfo{.name = "gpu.info", .kind = Kind::kInfo};
inline constexpr MetricDesc kState{.name = "gpu.state", .kind = Kind::kStateSet};

struct TestSource {
  explicit TestSource(std::string name, Duration ttl = std::chrono::seconds(20))
      : writer(table, ttl, std::move(name)) {}

  Series Declare(const MetricDesc& desc, std::string_view pod, int64_t gpu, SeriesTable::Form form = {}) {
    return table.Declare(desc, {}, AttributeSet({{"k8s.pod.name", pod}, {"gpu.index", gpu}}), form);
  }
  void SetBuckets(Series series, std::vector<double> numbers) {
    std::span<Cell> cells = writer.Cells(series);
    for (size_t i = 0; i < cells.size(); ++i) cells[i].d = numbers[i];
  }

  SeriesTable table;
  FrameWriter writer;
  Ref<const Frame> frame;
};

// Of the last frames of these sources.
inline Ref<const Snapshot> SnapshotOf(const std::vector<TestSource*>& sources, Instant now) {
  static uint64_t ticks = 0;
  auto snapshot = MakeRef<Snapshot>();
  snapshot->closed_at = now;
  snapshot->tick = ++ticks;
  for (TestSource* source : sources) {
    SnapshotEntry& entry = snapshot->frames.emplace_back();
    entry.frame = source->frame;
    entry.source = source->frame->source;
  }
  return snapshot;
}

struct Seen {
  double value = 0;
  Quality quality = Quality::kOk;
  uint32_t age_ms = 0;
  const SeriesInfo* info = nullptr;
  const Frame* frame = nullptr;

  std::span<const Cell> cells() const {
    return std::span(frame->cells).subspan(info->first_cell, info->cells());
  }
};

// The series that a sink would show with this name and these attributes.
inline std::optional<Seen> Find(const Ref<const Snapshot>& snapshot, std::string_view name,
                                const AttributeSet& attributes) {
  for (const SnapshotEntry& entry : snapshot->frames) {
    const Frame& frame = *entry.frame;
    for (uint32_t slot = 0; slot < frame.quality.size(); ++slot) {
      const SeriesInfo& info = (*frame.layout)[slot];
      if (!info.desc || info.desc->name != name || info.attributes != attributes) continue;
      if (frame.quality[slot] == Quality::kAbsent) continue;
      const Cell cell = frame.cells[info.first_cell];
      const double value = info.desc->number == Number::kInt ? static_cast<double>(cell.i) : cell.d;
      return Seen{value, frame.quality[slot], frame.AgeMs(slot), &info, &frame};
    }
  }
  return std::nullopt;
}

inline std::optional<double> ValueOf(const Ref<const Snapshot>& snapshot, std::string_view name,
                                     std::string_view pod) {
  auto seen = Find(snapshot, name, AttributeSet({{"k8s.pod.name", pod}}));
  return seen ? std::optional(seen->value) : std::nullopt;
}

inline RollupRule RuleOf(std::vector<RollupFunction> functions, std::vector<std::string> metrics = {"*"}) {
  RollupRule rule;
  rule.metrics = std::move(metrics);
  rule.by = {"k8s.pod.name"};
  rule.functions = std::move(functions);
  return rule;
}

}  // namespace gpulens::rollup_testing
