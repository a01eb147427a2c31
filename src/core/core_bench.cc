#include <benchmark/benchmark.h>

#include <vector>

#include "core/frame_writer.h"

namespace gpulens {
namespace {

constexpr Rule kRange{.low = 0, .high = 1e12};
constexpr Rule kJump{.low = 0, .high = 1e12, .max_change_per_second = 1e12};
constexpr MetricDesc kPlain{.name = "plain", .unit = "W", .help = "", .rule = &kRange};
constexpr MetricDesc kValidated{.name = "judged", .unit = "W", .help = "", .rule = &kJump};
constexpr MetricDesc kCounter{
    .name = "counter", .unit = "By", .help = "", .kind = Kind::kCounter, .number = Number::kInt};

struct Bench {
  Bench(const MetricDesc& desc, int64_t count) {
    for (int64_t i = 0; i < count; ++i) {
      auto gpu = MakeRef<const Entity>("gpu", AttributeSet({{"gpu.index", i}}));
      series.push_back(table.Declare(desc, gpu));
    }
  }
  void Begin() { writer.Begin({++runs * 1'000'000'000, runs}); }
  SeriesTable table;
  FrameWriter writer{table, std::chrono::hours(1)};
  std::vector<Series> series;
  int64_t runs = 0;
};

void Set(benchmark::State& state, const MetricDesc& desc) {
  Bench bench(desc, 5000);
  for (auto _ : state) {
    bench.Begin();
    for (Series series : bench.series) bench.writer.SetInt(series, bench.runs);
  }
  state.SetItemsProcessed(state.iterations() * 5000);
}
BENCHMARK_CAPTURE(Set, range_rule, kPlain);
BENCHMARK_CAPTURE(Set, jump_rule, kValidated);
BENCHMARK_CAPTURE(Set, counter, kCounter);

void Finish(benchmark::State& state) {
  Bench bench(kPlain, state.range(0));
  bench.Begin();
  for (Series series : bench.series) bench.writer.Set(series, 1.0);
  Ref<const Frame> published;
  for (auto _ : state) {
    for (Series series : bench.series) bench.writer.Keep(series);
    published = bench.writer.Finish();
  }
  state.SetItemsProcessed(state.iterations() * state.range(0));
}
BENCHMARK(Finish)->Arg(500)->Arg(5000)->Arg(50000);

void FinishStale(benchmark::State& state) {
  Bench bench(kPlain, 5000);
  bench.Begin();
  for (Series series : bench.series) bench.writer.Set(series, 1.0);
  Ref<const Frame> published;
  for (auto _ : state) {
    bench.Begin();
    published = bench.writer.Finish();
  }
  state.SetItemsProcessed(state.iterations() * 5000);
}
BENCHMARK(FinishStale);

void Declare(benchmark::State& state) {
  std::vector<EntityRef> gpus;
  for (int64_t i = 0; i < 5000; ++i) {
    gpus.push_back(MakeRef<const Entity>("gpu", AttributeSet({{"gpu.index", i}})));
  }
  for (auto _ : state) {
    SeriesTable table;
    for (const EntityRef& gpu : gpus) benchmark::DoNotOptimize(table.Declare(kPlain, gpu));
    benchmark::DoNotOptimize(table.Freeze());
  }
  state.SetItemsProcessed(state.iterations() * 5000);
}
BENCHMARK(Declare);

}  // namespace
}  // namespace gpulens
