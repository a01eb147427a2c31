// What roll-ups cost a tick, and how many bytes they save a made-up node.
//
//   build/release/pipeline_rollup_bench                            # time and allocations
//   build/release/pipeline_rollup_bench --benchmark_filter=Bytes   # bytes of requests of 10 minutes
//
// The node has 8 GPUs, read each second, and 20 pods, read each 15 s: 4 train on one GPU each, 4 serve a
// model on one GPU each, 12 have none. Its metrics are the catalogue's; a sink sends each 15 s.
#include <benchmark/benchmark.h>

#include <chrono>
#include <random>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/testing/allocations.h"
#include "catalog/gpu.h"
#include "catalog/inference.h"
#include "catalog/kubernetes.h"
#include "names/naming.h"
#include "pipeline/rollup/rollup_testing.h"
#include "wire/otlp/otlp_metrics.h"
#include "wire/packing.h"
#include "wire/remote_write/remote_write.h"
#include "wire/remote_write/remote_write_request.h"

namespace gpulens {
namespace {

using rollup_testing::At;
using rollup_testing::RuleOf;
using rollup_testing::SnapshotOf;
using rollup_testing::TestSource;
using enum RollupFunction;

constexpr size_t kRowsOfGpu = 65, kRowsOfEngine = 54;
constexpr std::string_view kNamespace = "k8s.namespace.name", kPod = "k8s.pod.name";

class Node {
 public:
  Node() {
    for (int64_t gpu = 0; gpu < 8; ++gpu) {
      const std::string uuid = "GPU-3d8f1f1e-5c0b-4f2e-9a7d-0123456789a" + std::to_string(gpu);
      const std::string bus = "0000:" + std::to_string(10 + gpu) + ":00.0", pod = PodName(gpu);
      const AttributeSet attributes({{"gpu.index", gpu},
                                     {"gpu.uuid", std::string_view(uuid)},
                                     {"gpu.model", "NVIDIA H100 80GB HBM3"},
                                     {"gpu.vendor", "nvidia"},
                                     {"gpu.pci.bus_id", std::string_view(bus)},
                                     {kNamespace, NamespaceOf(gpu)},
                                     {kPod, std::string_view(pod)},
                                     {"k8s.container.name", "main"}});
      AddRows(gpus_, std::span(kGpuRows).first(kRowsOfGpu), attributes);
    }
    for (int64_t pod = 0; pod < 20; ++pod) {
      const std::string name = PodName(pod);
      const AttributeSet of_pod({{kNamespace, NamespaceOf(pod)}, {kPod, std::string_view(name)}});
      AddRows(pods_, kKubernetesUsageRows, of_pod);
      if (pod < 4 || pod >= 8) continue;
      const std::string model = "meta-llama/Llama-3.1-70B-Instruct";
      const AttributeSet of_engine = AttributeSet({{"inference.engine.name", "vllm"},
                                                   {"model.name", std::string_view(model)},
                                                   {"server.address", "10.0.0.17:8000"}})
                                         .OverlaidOn(of_pod);
      AddRows(pods_, std::span(kInferenceRows).first(kRowsOfEngine), of_engine);
    }
  }

  // The snapshot of a tick; one a second.
  Ref<const Snapshot> Tick(int64_t second) {
    Read(gpus_, second);
    if (second % 15 == 0) Read(pods_, second);
    return SnapshotOf({&gpus_.source, &pods_.source}, At(second));
  }
  size_t series() const { return gpus_.series.size() + pods_.series.size(); }

 private:
  struct Part {
    explicit Part(std::string name) : source(std::move(name), std::chrono::seconds(60)) {}
    TestSource source;
    std::vector<Series> series;
    std::vector<std::vector<double>> numbers;
  };

  static std::string PodName(int64_t pod) {
    const std::string of = pod < 4 ? "train-llama-" : pod < 8 ? "serve-llama-70b-7d9c6b5f4-" : "web-5b8c7d-";
    return of + std::to_string(10'000 + pod * 37);
  }
  static std::string_view NamespaceOf(int64_t pod) {
    return pod < 4 ? "research" : pod < 8 ? "inference" : "default";
  }

  void AddRows(Part& part, std::span<const MetricDesc* const> rows, const AttributeSet& attributes) {
    auto shape = MakeRef<Shape>();
    for (int i = 0; i < 14; ++i) shape->bounds.push_back(0.01 * (1 << i));
    for (const MetricDesc* row : rows) {
      SeriesTable::Form form{.start_unix_ns = rollup_testing::kStart.unix_ns};
      if (row->kind == Kind::kHistogram) form.shape = shape;
      std::vector<AttributeSet::Attribute> own;
      for (std::string_view key : row->keys) own.push_back({key, "some"});
      const AttributeSet extra = AttributeSet(std::span<const AttributeSet::Attribute>(own));
      const Series series = part.source.table.Declare(*row, {}, extra.OverlaidOn(attributes), form);
      if (!series) continue;
      part.series.push_back(series);
      part.numbers.emplace_back(form.shape ? form.shape->cells() : 1);
    }
  }

  // Gauges wander, counters grow, some numbers stay as they are.
  void Read(Part& part, int64_t second) {
    FrameWriter& writer = part.source.writer;
    writer.Begin(At(second));
    for (size_t i = 0; i < part.series.size(); ++i) {
      const SeriesInfo& info = part.source.table.InfoAt(part.series[i].slot);
      std::vector<double>& numbers = part.numbers[i];
      const bool moves = i % 3 != 0;
      double step = moves ? static_cast<double>(random_() % 1000) : 0;
      if (info.desc->kind == Kind::kHistogram) {
        const size_t bucket = random_() % 14;
        for (size_t b = bucket; b < 14; ++b) numbers[b] += step;
        numbers[14] += step * 0.1;
        numbers[15] += step;
      } else {
        numbers[0] = IsMonotonic(info.desc->kind) ? numbers[0] + step : 100 + step / 10;
      }
      std::span<Cell> cells = writer.Cells(part.series[i]);
      for (size_t c = 0; c < cells.size(); ++c) {
        if (info.desc->number == Number::kInt) cells[c].i = static_cast<int64_t>(numbers[c]);
        else cells[c].d = numbers[c];
      }
    }
    part.source.frame = writer.Finish();
  }

  Part gpus_{"nvidia"}, pods_{"engines"};
  std::mt19937 random_{1};
};

RollupRule Rule(std::vector<std::string> metrics, std::vector<RollupForm> kinds, std::vector<std::string> by,
                std::vector<RollupFunction> functions) {
  RollupRule rule = RuleOf(std::move(functions), std::move(metrics));
  rule.kinds = std::move(kinds);
  rule.by = std::move(by);
  return rule;
}

// The table of docs/rollups.md: by pod.
std::vector<RollupRule> ByPod() {
  const std::vector<std::string> pod = {"k8s.namespace.name", "k8s.pod.name", "model.name"};
  return {Rule({"*"}, {RollupForm::kReadings}, pod, {kAvg, kMax}),
          Rule({"*"}, {RollupForm::kIncreases, RollupForm::kBuckets}, pod, {kSum})};
}
// Every series, once a minute.
std::vector<RollupRule> EachMinute() {
  return {Rule({"*"}, {RollupForm::kReadings}, {"*"}, {kAvg}),
          Rule({"*"}, {RollupForm::kIncreases, RollupForm::kBuckets}, {"*"}, {kSum})};
}
std::vector<RollupRule> ByNamespace() {
  const std::vector<std::string> tenant = {"k8s.namespace.name"};
  return {Rule({"*"}, {RollupForm::kReadings}, tenant, {kAvg}),
          Rule({"*"}, {RollupForm::kIncreases, RollupForm::kBuckets}, tenant, {kSum})};
}

void Tick(benchmark::State& state, std::vector<RollupRule> (*rules)()) {
  Node node;
  Rollup rollup(rules());
  uint64_t allocations = 0;
  int64_t second = 0;
  auto once = [&] {
    const Ref<const Snapshot> tick = node.Tick(second++);
    const uint64_t before = ThreadAllocations();
    const auto begin = std::chrono::steady_clock::now();
    benchmark::DoNotOptimize(rollup.Apply(tick));
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    allocations += ThreadAllocations() - before;
    return took.count();
  };
  for (int i = 0; i < 200; ++i) once();
  allocations = 0;
  for (auto _ : state) state.SetIterationTime(once());
  state.SetItemsProcessed(state.iterations() * static_cast<int64_t>(node.series()));
  state.counters["series"] = static_cast<double>(node.series());
  state.counters["allocations"] =
      benchmark::Counter(static_cast<double>(allocations), benchmark::Counter::kAvgIterations);
}
BENCHMARK_CAPTURE(Tick, by_pod, &ByPod)->UseManualTime();
BENCHMARK_CAPTURE(Tick, each_minute, &EachMinute)->UseManualTime();

// Requests of 10 minutes as receivers get them.
void Bytes(benchmark::State& state, std::vector<RollupRule> (*rules)()) {
  const std::string native[] = {std::string(kNativeNaming)};
  uint64_t plain_rw = 0, packed_rw = 0, plain_otlp = 0, packed_otlp = 0, samples = 0, points = 0;
  for (auto _ : state) {
    Node node;
    Rollup rollup(rules ? rules() : std::vector<RollupRule>());
    RemoteWrite push(MakeSeriesNamer(native), {.version = RemoteWriteVersion::k2});
    OtlpMetrics otlp(MakeSeriesNamer(native, NameForm::kOtel), {});
    std::string packed;
    ZstdCompressor zstd;
    for (int64_t second = 0; second <= 600; ++second) {
      const Ref<const Snapshot> out = rollup.Apply(node.Tick(second));
      if (second % 15 != 0) continue;
      CHECK(push.Encode(*out,
                        [&](std::string_view request, uint32_t) {
                          SnappyPack(request, packed);
                          plain_rw += request.size();
                          packed_rw += packed.size();
                          return Ok();
                        })
                .ok());
      push.Commit();
      samples += push.samples();
      CHECK(otlp.Encode(*out,
                        [&](std::string_view request, uint32_t) {
                          zstd.Compress(request, packed);
                          plain_otlp += request.size();
                          packed_otlp += packed.size();
                          return Ok();
                        })
                .ok());
      otlp.Commit();
      points += otlp.points();
    }
    state.counters["series"] = static_cast<double>(node.series());
  }
  state.counters["rw2_samples"] = static_cast<double>(samples);
  state.counters["rw2_bytes"] = static_cast<double>(plain_rw);
  state.counters["rw2_snappy"] = static_cast<double>(packed_rw);
  state.counters["otlp_points"] = static_cast<double>(points);
  state.counters["otlp_bytes"] = static_cast<double>(plain_otlp);
  state.counters["otlp_zstd"] = static_cast<double>(packed_otlp);
}
BENCHMARK_CAPTURE(Bytes, no_rollups, nullptr)->Iterations(1);
BENCHMARK_CAPTURE(Bytes, each_minute, &EachMinute)->Iterations(1);
BENCHMARK_CAPTURE(Bytes, by_pod, &ByPod)->Iterations(1);
BENCHMARK_CAPTURE(Bytes, by_namespace, &ByNamespace)->Iterations(1);

}  // namespace
}  // namespace gpulens
