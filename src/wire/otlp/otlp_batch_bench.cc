// Points per second through scan and splice, as a receiver does it, on one thread.
#include <benchmark/benchmark.h>

#include "wire/otlp/otlp_batch.h"
#include "wire/otlp/otlp_in_testing.h"

namespace gpulens {
namespace {

using namespace otlp_in_testing;

// Adds a pod of five attributes to each GPU, as the enrichers do.
class Pods final : public OtlpEnricher {
 public:
  const OtlpAddition* OfResource(const OtlpIdentity&) override { return &pod_; }
  const OtlpAddition* OfItem(const OtlpIdentity&, const OtlpIdentity&) override { return &pod_; }

 private:
  const OtlpAddition pod_{AttributeSet({{"k8s.pod.name", "trainer-0"},
                                        {"k8s.namespace.name", "research"},
                                        {"k8s.deployment.name", "trainer"},
                                        {"k8s.container.name", "main"},
                                        {"cloud.availability_zone", "eu-west-1a"}})};
};

// 1000 points, 50 a metric, of five attributes each, which is what the SDKs send.
std::string Points(bool of_gpus) {
  std::string metrics;
  for (int m = 0; m < 20; ++m) {
    std::string points;
    for (int i = 0; i < 50; ++i) {
      std::string attributes;
      for (int a = 0; a < 4; ++a)
        attributes += In(7, Pair("attribute.key" + std::to_string(a), "value-" + std::to_string(i)));
      attributes += In(7, of_gpus ? Pair("gpu.index", std::to_string(i % 8)) : Pair("http.route", "/v1/x"));
      points += In(1, Point(attributes, i));
    }
    metrics += In(2, Gauge("some.metric.name." + std::to_string(m), points));
  }
  return Request(In(1, Pair("service.name", "trainer")) + In(1, Pair("k8s.pod.uid", "u")), metrics);
}

void Receive(benchmark::State& state, bool of_gpus) {
  const std::string request = Points(of_gpus);
  const std::vector<std::string> patterns = {"go_*", "python_*", "*_created"};
  const NameFilter unwanted(patterns);
  Pods pods;
  OtlpScan scan;
  size_t sent = 0;
  OtlpBatch batch(OtlpSignal::kMetrics, {}, [&](std::string bytes, uint32_t) { sent += bytes.size(); });
  for (auto _ : state) {
    if (!ScanOtlp(OtlpSignal::kMetrics, request, &unwanted, scan)) state.SkipWithError("not read");
    batch.Add(scan, &pods);
  }
  benchmark::DoNotOptimize(sent);
  state.SetItemsProcessed(state.iterations() * 1000);
  state.SetBytesProcessed(state.iterations() * static_cast<int64_t>(request.size()));
}
BENCHMARK_CAPTURE(Receive, resource, false);
BENCHMARK_CAPTURE(Receive, each_point, true);

}  // namespace
}  // namespace gpulens
