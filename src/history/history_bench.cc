// What a tick costs: eight GPUs of 100 series, of which one in four changes by noise, and an hour's reading
// of them.
#include <benchmark/benchmark.h>

#include <random>
#include <vector>

#include "history/history_testing.h"

namespace gpulens {
namespace {

using history_testing::FakeSource;

struct Bench {
  Bench() {
    std::vector<std::pair<Series, history_testing::Value>> values;
    for (int64_t i = 0; i < 800; ++i) {
      series.push_back(
          source.Declare(i % 8 == 0 ? kGpuEnergyConsumption : kGpuPowerDraw, history_testing::Gpu(i)));
      values.push_back({series.back(), {100}});
    }
    source.Read(clock.Now(), values);
    for (size_t i = 0; i < series.size(); i += 4) noisy.push_back(series[i]);
    snapshot = history_testing::MakeTick(1, clock.Now());
    source.AddTo(*snapshot);
    history.Begin();
  }
  void Tick() {
    clock.Advance(std::chrono::seconds(1));
    total += 600 + static_cast<double>(random() % 1000) / 1000;
    source.ReadAgain(clock.Now(), noisy, total);
    snapshot->closed_at = clock.Now();
    ++snapshot->tick;
    history.Observe(*snapshot);
  }

  ManualClock clock;
  History history{{}};
  FakeSource source{"nvidia"};
  std::vector<Series> series, noisy;
  Ref<Snapshot> snapshot;
  std::mt19937_64 random{1};
  double total = 0;
};

void Observe(benchmark::State& state) {
  Bench bench;
  for (auto _ : state) bench.Tick();
  state.SetItemsProcessed(state.iterations() * static_cast<int64_t>(bench.series.size()));
}
BENCHMARK(Observe);

// One series of the last minutes, while all are kept.
void ReadOneSeries(benchmark::State& state) {
  Bench bench;
  for (int i = 0; i < 3600; ++i) bench.Tick();
  const SeriesSelector selector = *ParseSelector("gpu.power.draw{gpu.index=\"1\"}");
  const int64_t now = history_testing::Ms(bench.clock.Now());
  for (auto _ : state) {
    auto windows = bench.history.Read({&selector, 1}, now - state.range(0) * 60'000, now);
    benchmark::DoNotOptimize(windows);
  }
}
BENCHMARK(ReadOneSeries)->Arg(5)->Arg(60)->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace gpulens
