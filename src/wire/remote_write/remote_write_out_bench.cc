// How many points a second become remote write: gauges of six attributes, classic histograms of eleven
// bounds, and what came by remote write.
#include <benchmark/benchmark.h>

#include "base/check.h"
#include "wire/remote_write/otlp_writer_testing.h"
#include "wire/remote_write/remote_write_in.h"
#include "wire/remote_write/remote_write_in_testing.h"
#include "wire/remote_write/remote_write_out.h"

namespace gpulens {
namespace {

using namespace remote_write_out_testing;

constexpr int kPoints = 2000, kMetrics = 40;

std::vector<std::pair<std::string, std::string>> Attributes(int i) {
  return {{"device", "gpu" + std::to_string(i % 8)}, {"gpu.model", "NVIDIA H100 80GB HBM3"},
          {"http.route", "/v1/completions"},         {"point", std::to_string(i)},
          {"server.address", "node-17.example.org"}, {"zone", "eu-1"}};
}

std::string Otlp(bool histograms) {
  std::string metrics;
  for (int m = 0; m < kMetrics; ++m) {
    std::string points;
    for (int i = m; i < kPoints; i += kMetrics) {
      if (!histograms) points += NumberPoint(i, Attributes(i));
      else
        points += Wrap(1, Pairs(9, Attributes(i)) + Fixed(3, kAt) + Fixed(4, uint64_t{12}) + Fixed(5, 1.0) +
                              Fixeds(6, std::vector<uint64_t>(12, 1)) +
                              Doubles(7, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}));
    }
    const std::string name = "bench.family." + std::to_string(m);
    metrics +=
        Metric(name, "s", histograms ? HistogramData(points) : Gauge(points), "A number that changes.");
  }
  return RequestOf(metrics, {{"service.name", "bench"}, {"service.instance.id", "1"}, {"host.name", "n"}});
}

std::string Relayed() {
  remote_write_in_testing::Second request;
  for (int i = 0; i < kPoints; ++i) {
    auto labels = Attributes(i);
    for (auto& [name, value] : labels) std::replace(name.begin(), name.end(), '.', '_');
    labels.emplace_back("__name__", "bench_family_" + std::to_string(i % kMetrics));
    labels.emplace_back("job", "node");
    std::sort(labels.begin(), labels.end());
    request.Series(labels, remote_write_in_testing::Sample(i), {2, "A number that changes.", "bytes"});
  }
  RemoteWriteIn in({});
  RemoteWriteOutcome outcome;
  std::string out;
  CHECK(in.Convert(request.bytes(), RemoteWriteVersion::k2, out, outcome).ok());
  return out;
}

void Convert(benchmark::State& state, RemoteWriteVersion version, const std::string& request) {
  RemoteWriteOut out({.version = version});
  RemoteWriteOutOutcome outcome;
  int64_t samples = 0;
  for (auto _ : state) {
    CHECK(out.Convert(
                 request, Instant(),
                 [&](std::string_view bytes, uint32_t count) {
                   benchmark::DoNotOptimize(bytes.data());
                   samples += count;
                   return Ok();
                 },
                 outcome)
              .ok());
  }
  CHECK(outcome.points == kPoints);
  state.SetItemsProcessed(state.iterations() * kPoints);
  state.counters["samples"] = benchmark::Counter(static_cast<double>(samples), benchmark::Counter::kIsRate);
}
BENCHMARK_CAPTURE(Convert, gauges_1, RemoteWriteVersion::k1, Otlp(false));
BENCHMARK_CAPTURE(Convert, gauges_2, RemoteWriteVersion::k2, Otlp(false));
BENCHMARK_CAPTURE(Convert, classic_histograms_1, RemoteWriteVersion::k1, Otlp(true));
BENCHMARK_CAPTURE(Convert, classic_histograms_2, RemoteWriteVersion::k2, Otlp(true));
BENCHMARK_CAPTURE(Convert, relayed_2, RemoteWriteVersion::k2, Relayed());

}  // namespace
}  // namespace gpulens
