// For benchmarks of encoders: a world whose every number is another one at each tick.
#pragma once

#include <string>
#include <vector>

#include "core/frame_writer.h"

namespace gpulens::wire_testing {

// 5,000 series of five attributes each in 50 families: plain numbers, or histograms of 14 bounds.
struct Ticks {
  static constexpr int kFamilies = 50, kSeriesEach = 100;

  SeriesTable table;
  FrameWriter writer{table, std::chrono::hours(1), "nvidia"};
  std::vector<Series> series;

  Ticks(Kind kind, bool shaped) {
    auto shape = MakeRef<Shape>();
    for (int i = 0; i < 14; ++i) shape->bounds.push_back(0.01 * (1 << i));
    for (int family = 0; family < kFamilies; ++family) {
      MetricDesc row;
      const std::string name = "bench.family_" + std::to_string(family);
      row.name = name;
      row.help = "A number that changes.";
      row.kind = kind;
      const MetricDesc* desc = table.Own(row);
      for (int64_t i = 0; i < kSeriesEach; ++i) {
        const AttributeSet attributes({{"gpu.index", i},
                                       {"gpu.uuid", "GPU-3d8f1f1e-aaaa-bbbb-cccc-0123456789ab"},
                                       {"gpu.model", "NVIDIA H100 80GB HBM3"},
                                       {"gpu.vendor", "nvidia"},
                                       {"host.name", "node-17"}});
        SeriesTable::Form form{.start_unix_ns = 1'700'000'000'000'000'000};
        if (shaped) form.shape = shape;
        series.push_back(table.Declare(*desc, {}, attributes, form));
      }
    }
  }

  Ref<Snapshot> Next(int64_t tick) {
    writer.Begin({tick * 1'000'000'000, 1'700'000'000'000'000'000 + tick * 1'000'000'000});
    for (Series one : series) {
      double value = static_cast<double>(tick);
      for (Cell& cell : writer.Cells(one)) cell.d = value += 1;
    }
    Ref<Snapshot> snapshot = MakeRef<Snapshot>();
    SnapshotEntry& entry = snapshot->frames.emplace_back();
    entry.frame = writer.Finish();
    entry.source = entry.frame->source;
    snapshot->closed_at = entry.frame->read_at;
    return snapshot;
  }
};

}  // namespace gpulens::wire_testing
