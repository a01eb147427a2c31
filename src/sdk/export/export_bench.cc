// Cost of an export: a registry of 1,000 series, half of them exponential histograms.
#include <benchmark/benchmark.h>
#include <gpulens/instruments.h>

#include "sdk/export/metrics_page.h"
#include "wire/otlp/otlp_write.h"

namespace gpulens {
namespace {

struct Filled {
  Filled() {
    const Counter counter("bench.requests", {.unit = "{request}"}, registry);
    const Histogram histogram("bench.duration", {.unit = "s"}, registry);
    for (int64_t i = 0; i < 500; ++i) {
      counter.Bind({{"route", i}}).Add(i);
      const Histogram bound = histogram.Bind({{"route", i}});
      for (int k = 1; k < 1'000; ++k) bound.Record(k * 1e-3);
    }
  }
  Registry registry;
};

void Snapshot(benchmark::State& state) {
  const Filled filled;
  for (auto _ : state) benchmark::DoNotOptimize(filled.registry.Snapshot());
}
BENCHMARK(Snapshot);

void Otlp(benchmark::State& state) {
  const Filled filled;
  const std::vector<Sample> samples = filled.registry.Snapshot();
  std::string out;
  for (auto _ : state) {
    out.clear();
    EncodeSamples(samples, {AttributeSet({{"service.name", "bench"}}), "gpulens.sdk", "1", 1}, out);
  }
  state.counters["bytes"] = static_cast<double>(out.size());
}
BENCHMARK(Otlp);

void Page(benchmark::State& state) {
  const Filled filled;
  const std::vector<Sample> samples = filled.registry.Snapshot();
  std::string out;
  for (auto _ : state)
    sdk::WriteMetricsPage(samples, {}, ExpositionFormat::kText004, ManualClock().Now(), out);
  state.counters["bytes"] = static_cast<double>(out.size());
}
BENCHMARK(Page);

}  // namespace
}  // namespace gpulens
