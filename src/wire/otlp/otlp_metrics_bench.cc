// How long a tick of 5,000 points takes to encode: numbers of five attributes each, and histograms of 14
// bounds. Two snapshots take turns, so that every number is another one.
#include <benchmark/benchmark.h>

#include "base/check.h"
#include "wire/exposition/naming_testing.h"
#include "wire/otlp/otlp_metrics.h"
#include "wire/ticks_testing.h"

namespace gpulens {
namespace {

using wire_testing::NameVerbatim;
using wire_testing::Ticks;

// `keep`: a tick puts its numbers into the request of the last one, as where all points fit into one.
void Encode(benchmark::State& state, Kind kind, bool shaped, bool keep) {
  Ticks ticks(kind, shaped);
  OtlpMetrics metrics(SeriesNamer(&NameVerbatim), {.scope_version = "1", .keep_request = keep});
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
BENCHMARK_CAPTURE(Encode, gauges_fresh, Kind::kGauge, false, false);
BENCHMARK_CAPTURE(Encode, counters_fresh, Kind::kCounter, false, false);

void FirstTick(benchmark::State& state) {
  Ticks ticks(Kind::kGauge, false);
  const Ref<Snapshot> snapshot = ticks.Next(1);
  for (auto _ : state) {
    OtlpMetrics metrics(SeriesNamer(&NameVerbatim), {.scope_version = "1"});
    CHECK(metrics.Encode(*snapshot, [](std::string_view, uint32_t) { return Status{}; }).ok());
  }
}
BENCHMARK(FirstTick);

}  // namespace
}  // namespace gpulens
