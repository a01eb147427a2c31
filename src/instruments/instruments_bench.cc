// What one record costs its thread.
#include <benchmark/benchmark.h>
#include <gpulens/instruments.h>

#include <mutex>

#include "instruments/workers.h"

namespace gpulens {
namespace {

constexpr double kBounds[] = {0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10};

void CounterAdd(benchmark::State& state) {
  static const Counter counter("bench.counter");
  for (auto _ : state) counter.Add();
}
BENCHMARK(CounterAdd)->Threads(1)->Threads(8);

// What a counter of everyone's costs.
void SharedAtomicAdd(benchmark::State& state) {
  static std::atomic<int64_t> counter{0};
  for (auto _ : state) counter.fetch_add(1, std::memory_order_relaxed);
}
BENCHMARK(SharedAtomicAdd)->Threads(1)->Threads(8);

void GaugeSet(benchmark::State& state) {
  static const Gauge gauge("bench.gauge");
  double value = 0;
  for (auto _ : state) gauge.Set(value += 1);
}
BENCHMARK(GaugeSet);

void Record(benchmark::State& state, const Histogram& histogram) {
  double value = 1e-4;
  for (auto _ : state) {
    histogram.Record(value);
    value = value > 8 ? 1e-4 : value * 1.37;
  }
}
void ExplicitRecord(benchmark::State& state) {
  static const Histogram histogram("bench.explicit", {.bounds = kBounds});
  Record(state, histogram);
}
void ExponentialRecord(benchmark::State& state) {
  static const Histogram histogram("bench.exponential");
  Record(state, histogram);
}
BENCHMARK(ExplicitRecord)->Threads(1)->Threads(8);
BENCHMARK(ExponentialRecord)->Threads(1)->Threads(8);

void SnapshotOf1000(benchmark::State& state) {
  static Registry registry;
  static const Counter counter("bench.series", {}, registry);
  for (int64_t i = 0; i < 1000; ++i) counter.Bind({{"i", i}}).Add();
  for (auto _ : state) benchmark::DoNotOptimize(registry.Snapshot());
}
BENCHMARK(SnapshotOf1000);

// The same once the process shares its counts with other workers; last, since it does so to its end.
void SharedCounterAdd(benchmark::State& state) {
  static const Counter counter("bench.counter");
  const Status shared = instruments::WorkersFolder::Instance().Open({}, {});
  if (!shared) return state.SkipWithError(shared.detail.c_str());
  for (auto _ : state) counter.Add();
}
void SharedExponentialRecord(benchmark::State& state) {
  static const Histogram histogram("bench.exponential");
  Record(state, histogram);
}
void PageOfWorkers(benchmark::State& state) {
  for (auto _ : state) benchmark::DoNotOptimize(instruments::WorkersFolder::Instance().Read());
}
BENCHMARK(SharedCounterAdd);
BENCHMARK(SharedExponentialRecord);
BENCHMARK(PageOfWorkers);

}  // namespace
}  // namespace gpulens
