// Measures points and samples per second through the splitters, on one thread.
#include <benchmark/benchmark.h>

#include "base/hash.h"
#include "wire/otlp/otlp_in_testing.h"
#include "wire/remote_write/remote_write_in_testing.h"
#include "wire/split/otlp_splitter.h"
#include "wire/split/remote_write_splitter.h"

namespace gpulens {
namespace {

using otlp_in_testing::Gauge;
using otlp_in_testing::In;
using otlp_in_testing::Pair;
using otlp_in_testing::Point;

// 1000 points with five attributes, of 20 metrics of each of `resources`; the tenant is that of the point.
std::string OtlpPoints(int resources, int tenants) {
  std::string request;
  for (int r = 0; r < resources; ++r) {
    std::string metrics;
    for (int m = 0; m < 20; ++m) {
      std::string points;
      for (int i = 0; i < 50 / resources; ++i) {
        std::string attributes;
        for (int a = 0; a < 4; ++a)
          attributes += In(7, Pair("attribute.key" + std::to_string(a), "value-" + std::to_string(i)));
        attributes += In(7, Pair("tenant", "team-" + std::to_string(i % tenants)));
        points += In(1, Point(attributes, i));
      }
      metrics += In(2, Gauge("some.metric.name." + std::to_string(m), points));
    }
    const std::string resource = In(1, Pair("service.name", "trainer")) +
                                 In(1, Pair("host.name", "node-" + std::to_string(r))) +
                                 In(1, Pair("k8s.namespace.name", "team-" + std::to_string(r % 4)));
    request += otlp_in_testing::Request(resource, metrics);
  }
  return request;
}

void Otlp(benchmark::State& state, int resources, int tenants, const SplitRule& rule) {
  const std::string request = OtlpPoints(resources, tenants);
  OtlpSplitter splitter;
  std::vector<SplitPart> parts;
  uint32_t left_out = 0;
  for (auto _ : state)
    if (!splitter.Split(OtlpSignal::kMetrics, request, rule, parts, left_out))
      state.SkipWithError("not split");
  state.counters["parts"] = static_cast<double>(parts.size());
  state.SetItemsProcessed(state.iterations() * 1000);
  state.SetBytesProcessed(state.iterations() * static_cast<int64_t>(request.size()));
}
BENCHMARK_CAPTURE(Otlp, whole, 1, 1, SplitRule{});
BENCHMARK_CAPTURE(Otlp, whole_by_resource, 1, 1, SplitRule{.by = "k8s.namespace.name"});
BENCHMARK_CAPTURE(Otlp, whole_by_point, 1, 1, SplitRule{.by = "tenant"});
BENCHMARK_CAPTURE(Otlp, cut_by_resource, 50, 1, SplitRule{.by = "k8s.namespace.name"});
BENCHMARK_CAPTURE(Otlp, cut_by_point, 1, 8, SplitRule{.by = "tenant"});
BENCHMARK_CAPTURE(Otlp, shards_of_resources, 50, 1, SplitRule{.hash = SplitHash::kResource, .shards = 8});
BENCHMARK_CAPTURE(Otlp, shards_of_series, 1, 1, SplitRule{.hash = SplitHash::kSeries, .shards = 8});
BENCHMARK_CAPTURE(Otlp, left_out_by_point, 1, 8, SplitRule{.where = {{"tenant", {"team-0"}}}});

std::string WriteSamples(RemoteWriteVersion version, int tenants) {
  remote_write_in_testing::First first;
  remote_write_in_testing::Second second;
  for (int i = 0; i < 1000; ++i) {
    const remote_write_in_testing::Pairs labels = {{"__name__", "some_metric_name_" + std::to_string(i % 20)},
                                                   {"gpu_index", std::to_string(i % 8)},
                                                   {"instance", "node-" + std::to_string(i / 20) + ":9091"},
                                                   {"job", "gpulens"},
                                                   {"tenant", "team-" + std::to_string(i % tenants)}};
    if (version == RemoteWriteVersion::k1) first.Series(labels, remote_write_in_testing::Sample(i));
    else second.Series(labels, remote_write_in_testing::Sample(i));
  }
  return version == RemoteWriteVersion::k1 ? first.bytes() : second.bytes();
}

void Write(benchmark::State& state, RemoteWriteVersion version, int tenants, const SplitRule& rule) {
  const std::string request = WriteSamples(version, tenants);
  RemoteWriteSplitter splitter;
  std::vector<SplitPart> parts;
  uint32_t left_out = 0;
  for (auto _ : state)
    if (!splitter.Split(version, request, rule, parts, left_out)) state.SkipWithError("not split");
  state.counters["parts"] = static_cast<double>(parts.size());
  state.SetItemsProcessed(state.iterations() * 1000);
  state.SetBytesProcessed(state.iterations() * static_cast<int64_t>(request.size()));
}
BENCHMARK_CAPTURE(Write, whole_1, RemoteWriteVersion::k1, 1, SplitRule{.by = "tenant"});
BENCHMARK_CAPTURE(Write, whole_2, RemoteWriteVersion::k2, 1, SplitRule{.by = "tenant"});
BENCHMARK_CAPTURE(Write, cut_1, RemoteWriteVersion::k1, 8, SplitRule{.by = "tenant"});
BENCHMARK_CAPTURE(Write, cut_2, RemoteWriteVersion::k2, 8, SplitRule{.by = "tenant"});
BENCHMARK_CAPTURE(Write, shards_1, RemoteWriteVersion::k1, 1,
                  SplitRule{.hash = SplitHash::kSeries, .shards = 8});
BENCHMARK_CAPTURE(Write, shards_2, RemoteWriteVersion::k2, 1,
                  SplitRule{.hash = SplitHash::kSeries, .shards = 8});

void Pick(benchmark::State& state) {
  std::vector<uint64_t> endpoints;
  for (int i = 0; i < 5; ++i) endpoints.push_back(StableHash("https://gateway-" + std::to_string(i)));
  uint64_t hash = 1;
  for (auto _ : state) hash += PickEndpoint(hash, endpoints);
  benchmark::DoNotOptimize(hash);
}
BENCHMARK(Pick);

}  // namespace
}  // namespace gpulens
