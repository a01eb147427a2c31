// How long a tick of 5,000 points takes to encode: numbers of five attributes each, and histograms of 14
// bounds. Two snapshots take turns, so that every number is another one.
#include <benchmark/benchmark.h>

#include <string>
#include <vector>

#include "base/check.h"
#include "core/frame_writer.h"
#include "wire/otlp/otlp_metrics.h"

namespace gpulens {
namespace {

constexpr int kFamilies = 50, kSeriesEach = 100;

void Spell(const SeriesInfo& series, std::vector<SpelledSeries>& out) {
  SpelledSeries& spelled = out.emplace_back();
  spelled.name = series.desc->name;
  spelled.help = series.desc->help;
  spelled.kind = series.desc->kind;
  for (auto [key, value] : series.attributes) {
    std::string text;
    AppendValue(text, value);
    spelled.labels.emplace_back(key, std::move(text));
  }
}

struct Ticks {
  SeriesTable table;
  FrameWriter writer{table, std::chrono::hours(1), "nvidia"};
  std::vector<Series> series;
  uint64_t points = 0, bytes = 0;

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

// `keep`: a tick puts its numbers into the request of the last one, as where all points fit into one.
void Encode(benchmark::State& state, Kind kind, bool shaped, bool keep) {
  Ticks ticks(kind, shaped);
  OtlpMetrics metrics(Speller(&Spell), {.scope_version = "1", .keep_request = keep});
  const Ref<Snapshot> snapshots[] = {ticks.Next(1), ticks.Next(2)};
  uint64_t points = 0, bytes = 0;
  const OtlpMetrics::Take take = [&](std::string_view request, uint32_t count) {
    points += count;
    bytes += request.size();
    return Status{};
  };
  size_t turn = 0;
  for (auto _ : state) {
    CHECK(metrics.Encode(*snapshots[turn ^= 1], take).ok());
    metrics.Commit();
  }
  state.counters["points"] = benchmark::Counter(static_cast<double>(points), benchmark::Counter::kIsRate);
  state.counters["samples"] = static_cast<double>(points) / static_cast<double>(state.iterations());
  state.counters["bytes"] = static_cast<double>(bytes) / static_cast<double>(state.iterations());
  state.SetBytesProcessed(static_cast<int64_t>(bytes));
}
BENCHMARK_CAPTURE(Encode, gauges, Kind::kGauge, false, true);
BENCHMARK_CAPTURE(Encode, counters, Kind::kCounter, false, true);
BENCHMARK_CAPTURE(Encode, histograms, Kind::kHistogram, true, true);
BENCHMARK_CAPTURE(Encode, gauges_anew, Kind::kGauge, false, false);
BENCHMARK_CAPTURE(Encode, counters_anew, Kind::kCounter, false, false);

void FirstTick(benchmark::State& state) {
  Ticks ticks(Kind::kGauge, false);
  const Ref<Snapshot> snapshot = ticks.Next(1);
  for (auto _ : state) {
    OtlpMetrics metrics(Speller(&Spell), {.scope_version = "1"});
    CHECK(metrics.Encode(*snapshot, [](std::string_view, uint32_t) { return Status{}; }).ok());
  }
}
BENCHMARK(FirstTick);

}  // namespace
}  // namespace gpulens
