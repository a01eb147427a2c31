// How long a tick of 5,000 series takes to encode: numbers of five labels each, and histograms of 14 bounds.
// What was told is never committed, so that each tick tells everything.
#include <benchmark/benchmark.h>

#include <string>
#include <vector>

#include "base/check.h"
#include "core/frame_writer.h"
#include "wire/remote_write/remote_write.h"
#include "wire/remote_write/snappy_block.h"

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

  explicit Ticks(bool shaped) {
    auto shape = MakeRef<Shape>();
    for (int i = 0; i < 14; ++i) shape->bounds.push_back(0.01 * (1 << i));
    for (int family = 0; family < kFamilies; ++family) {
      MetricDesc row;
      const std::string name = "bench_family_" + std::to_string(family);
      row.name = name;
      row.help = "A number that changes.";
      row.kind = shaped ? Kind::kHistogram : Kind::kGauge;
      const MetricDesc* desc = table.Own(row);
      for (int64_t i = 0; i < kSeriesEach; ++i) {
        const AttributeSet attributes({{"gpu_index", i},
                                       {"gpu_uuid", "GPU-3d8f1f1e-aaaa-bbbb-cccc-0123456789ab"},
                                       {"gpu_model", "NVIDIA H100 80GB HBM3"},
                                       {"gpu_vendor", "nvidia"},
                                       {"host_name", "node-17"}});
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

void Encode(benchmark::State& state, RemoteWriteVersion version, bool shaped, bool native) {
  Ticks ticks(shaped);
  RemoteWrite::Options options;
  options.version = version;
  options.native_histograms = native;
  RemoteWrite writer{Speller(&Spell), options};
  uint64_t samples = 0, bytes = 0;
  const RemoteWrite::Take take = [&](std::string_view request, uint32_t count) {
    samples += count;
    bytes += request.size();
    return Status{};
  };
  const Ref<Snapshot> first = ticks.Next(1), second = ticks.Next(2);
  CHECK(writer.Encode(*first, take).ok());
  writer.Commit();
  samples = bytes = 0;
  for (auto _ : state) CHECK(writer.Encode(*second, take).ok());
  state.counters["samples"] = benchmark::Counter(static_cast<double>(samples), benchmark::Counter::kIsRate);
  state.SetBytesProcessed(static_cast<int64_t>(bytes));
}
BENCHMARK_CAPTURE(Encode, version1_gauges, RemoteWriteVersion::k1, false, false);
BENCHMARK_CAPTURE(Encode, version1_histograms, RemoteWriteVersion::k1, true, false);
BENCHMARK_CAPTURE(Encode, version2_gauges, RemoteWriteVersion::k2, false, false);
BENCHMARK_CAPTURE(Encode, version2_histograms, RemoteWriteVersion::k2, true, false);
BENCHMARK_CAPTURE(Encode, version2_native, RemoteWriteVersion::k2, true, true);

void Pack(benchmark::State& state, RemoteWriteVersion version) {
  Ticks ticks(false);
  RemoteWrite::Options options;
  options.version = version;
  RemoteWrite writer{Speller(&Spell), options};
  std::string request, packed;
  uint64_t bytes = 0, out = 0;
  CHECK(writer
            .Encode(*ticks.Next(1),
                    [&](std::string_view one, uint32_t samples) {
                      if (samples == options.max_samples) request = one;
                      return Status{};
                    })
            .ok());
  for (auto _ : state) {
    SnappyPack(request, packed);
    bytes += request.size();
    out += packed.size();
  }
  state.SetBytesProcessed(static_cast<int64_t>(bytes));
  state.counters["ratio"] = static_cast<double>(bytes) / static_cast<double>(out);
}
BENCHMARK_CAPTURE(Pack, version1, RemoteWriteVersion::k1);
BENCHMARK_CAPTURE(Pack, version2, RemoteWriteVersion::k2);

void FirstTick(benchmark::State& state) {
  Ticks ticks(false);
  const Ref<Snapshot> snapshot = ticks.Next(1);
  for (auto _ : state) {
    RemoteWrite writer{Speller(&Spell), {}};
    CHECK(writer.Encode(*snapshot, [](std::string_view, uint32_t) { return Status{}; }).ok());
  }
}
BENCHMARK(FirstTick);

}  // namespace
}  // namespace gpulens
