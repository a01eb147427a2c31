// How many samples a second become OTLP: a request of Prometheus' usual size, 2000 samples of 40 families and
// 10 targets with six labels each.
#include <benchmark/benchmark.h>

#include "base/check.h"
#include "wire/remote_write/remote_write_in.h"
#include "wire/remote_write/remote_write_in_testing.h"

namespace gpulens {
namespace {

using namespace remote_write_in_testing;

constexpr int kSamples = 2000;

Pairs LabelsOf(int i) {
  return {{"__name__", "bench_family_" + std::to_string(i % 40) + "_total"},
          {"device", "gpu" + std::to_string(i / 400)},
          {"hostname", "node-17.example.org"},
          {"instance", "10.0.0." + std::to_string(i / 40 % 10) + ":9100"},
          {"job", "node"},
          {"model", "NVIDIA H100 80GB HBM3"}};
}

std::string RequestOf(RemoteWriteVersion version) {
  if (version == RemoteWriteVersion::k1) {
    First request;
    for (int i = 0; i < kSamples; ++i) request.Series(LabelsOf(i), Sample(i));
    for (int i = 0; i < 40; ++i)
      request.Metadata(1, "bench_family_" + std::to_string(i) + "_total", "A number that changes.", "bytes");
    return request.bytes();
  }
  Second request;
  for (int i = 0; i < kSamples; ++i)
    request.Series(LabelsOf(i), Sample(i, kMs, kMs - 1000), {1, "A number that changes.", "bytes"});
  return request.bytes();
}

void Convert(benchmark::State& state, RemoteWriteVersion version) {
  const std::string request = RequestOf(version);
  RemoteWriteIn in({});
  RemoteWriteOutcome outcome;
  std::string out;
  for (auto _ : state) {
    CHECK(in.Convert(request, version, out, outcome).ok());
    benchmark::DoNotOptimize(out.data());
  }
  CHECK(outcome.samples == kSamples);
  state.SetItemsProcessed(state.iterations() * kSamples);
  state.SetBytesProcessed(state.iterations() * static_cast<int64_t>(request.size()));
}
BENCHMARK_CAPTURE(Convert, version1, RemoteWriteVersion::k1);
BENCHMARK_CAPTURE(Convert, version2, RemoteWriteVersion::k2);

}  // namespace
}  // namespace gpulens
