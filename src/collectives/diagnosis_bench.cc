// What a gateway spends on one core: batches decoded and joined, with all rules, by the number of ranks. The
// target of docs/performance/stragglers.md is 200,000 samples a second.
#include <benchmark/benchmark.h>

#include <string>
#include <vector>

#include "collectives/batch_codec.h"
#include "collectives/world_testing.h"

namespace gpulens::collectives {
namespace {

struct RecordedReport {
  std::string bytes;
  Batch batch;
  Instant at;
};

// Four collectives a second of each rank, of which all are sent.
std::vector<RecordedReport> ReportsOf(int hosts, double seconds) {
  WorldOptions options;
  options.hosts = hosts;
  options.groups = true;
  World world(options);
  std::vector<RecordedReport> reports;
  while (world.now_s() < seconds) {
    world.Step([&](const Batch& batch, Instant at) {
      reports.push_back({{}, batch, at});
      EncodeBatch(batch, reports.back().bytes);
    });
  }
  return reports;
}

void Join(benchmark::State& state, bool decoded) {
  const auto reports = ReportsOf(static_cast<int>(state.range(0)) / 8, state.range(0) > 1000 ? 10 : 60);
  uint64_t samples = 0;
  size_t memory = 0;
  Batch batch;
  for (auto _ : state) {
    Diagnosis diagnosis({});
    Instant advanced{};
    for (const RecordedReport& report : reports) {
      if (decoded) {
        if (!DecodeBatch(report.bytes, batch)) state.SkipWithError("a batch is not read");
        diagnosis.Add(batch, report.at);
      } else {
        diagnosis.Add(report.batch, report.at);
      }
      if (report.at.boot_ns - advanced.boot_ns < 250'000'000) continue;
      advanced = report.at;
      diagnosis.Advance(advanced);
    }
    samples += diagnosis.counts().samples;
    memory = diagnosis.memory();
  }
  state.SetItemsProcessed(static_cast<int64_t>(samples));
  state.counters["MB"] = static_cast<double>(memory) / 1e6;
}
BENCHMARK_CAPTURE(Join, plain, false)->Arg(64)->Arg(4096)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(Join, decoded, true)->Arg(64)->Arg(4096)->Unit(benchmark::kMillisecond);

void ChooseSamples(benchmark::State& state) {
  Sampler sampler(7);
  Measured measured;
  measured.function = Function::kAllReduce;
  measured.duration_ns = 100'000;
  std::vector<Sample> out;
  for (auto _ : state) {
    ++measured.sequence;
    measured.ended_ns += 1'000'000;
    sampler.Add(measured, out);
    if (out.size() > 1000) out.clear();
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(ChooseSamples);

}  // namespace
}  // namespace gpulens::collectives
