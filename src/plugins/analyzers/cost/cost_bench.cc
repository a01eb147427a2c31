// What a tick costs with 8 GPUs, 20 pods and 6 engines, and a write of the ledger's file.
#include <benchmark/benchmark.h>

#include "base/testing/allocations.h"
#include "plugins/analyzers/cost/cost_world_testing.h"
#include "plugins/analyzers/cost/ledger_writer.h"

namespace gpulens::cost {
namespace {

using namespace std::string_view_literals;

// One tick a second; the pages of engines are read each 15 seconds.
void BM_Tick(benchmark::State& state) {
  testing::TempFolder folder;
  ManualClock clock({.boot_ns = 1'000'000'000'000, .unix_ns = 1'700'000'000'000'000'000});
  AgentStats stats;
  Env env;
  env.stats = &stats;
  env.clock = &clock;
  env.state_dir = folder.path();
  auto analyzer = *cost_analyzer.create(CostConfig(), env);
  TestSource nvidia("nvidia");
  std::vector<EntityRef> gpus, processes, engines;
  for (int64_t i = 0; i < 8; ++i) gpus.push_back(TestGpu(i));
  for (int64_t i = 0; i < 20; ++i) {
    const std::string pod = "llama-" + std::to_string(i),
                      uid = "00000000-aaaa-bbbb-cccc-" + std::to_string(i);
    processes.push_back(TestProcess(gpus[static_cast<size_t>(i) % 8], 1000 + i,
                                    AttributeSet({{"process.executable.name", "VLLM::Worker_TP"sv},
                                                  {"process.owner", "root"sv},
                                                  {"k8s.pod.name", std::string_view(pod)},
                                                  {"k8s.pod.uid", std::string_view(uid)},
                                                  {"k8s.namespace.name", "inference"sv}}),
                                    std::to_string(100 + i % 6), 77));
  }
  std::vector<std::unique_ptr<TestSource>> pages;
  for (int64_t i = 0; i < 6; ++i) {
    const std::string name = "vllm-" + std::to_string(8000 + i);
    engines.push_back(TestEngine(name, "engine", {}, 100 + i));
    pages.push_back(std::make_unique<TestSource>("targets/" + name));
  }
  const AttributeSet compute({{"gpu.task.type", "compute"sv}}), ok({{"gpu.state", "ok"sv}});
  const AttributeSet model({{"model.name", "meta-llama/Llama-3.3-70B-Instruct"sv}});
  SeriesTable table;
  FrameWriter out(table, std::chrono::seconds(10));
  Snapshot snapshot;
  double ticks = 0;
  auto prepare = [&] {
    clock.Advance(std::chrono::seconds(1));
    ++ticks;
    for (const EntityRef& gpu : gpus) {
      nvidia.Set(gpu, kGpuState, ok, 1);
      nvidia.Set(gpu, kGpuEnergyConsumption, 500 * ticks);
      nvidia.Set(gpu, kGpuPowerDraw, 500);
      nvidia.Set(gpu, kGpuUtilization, compute, 0.8);
      nvidia.Set(gpu, kGpuSampleAge, 0.1);
      nvidia.Set(gpu, kGpuProcesses, gpu == gpus[0] || gpu->attributes.Text("gpu.index") < "4"sv ? 3 : 2);
    }
    for (const EntityRef& process : processes) {
      nvidia.Set(process, kGpuProcessMemoryUsed, 10e9);
      nvidia.Set(process, kGpuProcessUtilization, compute, 0.3);
    }
    nvidia.Run(clock.Now());
    snapshot.closed_at = clock.Now();
    snapshot.frames.assign(1, nvidia.entry());
    for (size_t i = 0; i < pages.size(); ++i) {
      if (static_cast<int64_t>(ticks) % 15 == 1) {
        pages[i]->Set(engines[i], kInferencePromptTokens, model, 1000 * ticks);
        pages[i]->Set(engines[i], kInferenceGenerationTokens, model, 400 * ticks);
        pages[i]->SetSum(engines[i], kInferencePrefillTime, model, ticks, ticks);
        pages[i]->SetSum(engines[i], kInferenceDecodeTime, model, 5 * ticks, ticks);
        pages[i]->Set(engines[i], kInferenceRequestsRunning, model, 4);
        pages[i]->Set(engines[i], kInferenceRequestsWaiting, model, 0);
        pages[i]->Run(clock.Now());
      }
      snapshot.frames.push_back(pages[i]->entry());
    }
  };
  auto tick = [&] {
    out.Begin(clock.Now());
    benchmark::DoNotOptimize(analyzer->Analyze(snapshot, out));
    benchmark::DoNotOptimize(out.Finish());
  };
  for (int i = 0; i < 600; ++i) {
    prepare();
    tick();
  }
  uint64_t allocations = 0, count = 0;
  for (auto _ : state) {
    state.PauseTiming();
    prepare();
    const uint64_t before = ThreadAllocations();
    state.ResumeTiming();
    tick();
    state.PauseTiming();
    allocations += ThreadAllocations() - before;
    ++count;
    state.ResumeTiming();
  }
  state.counters["allocations"] = static_cast<double>(allocations) / static_cast<double>(count);
}
// Whole minutes, so that windows and pages have their share.
BENCHMARK(BM_Tick)->Unit(benchmark::kMicrosecond)->Iterations(3600);

void BM_WriteOfAWindow(benchmark::State& state) {
  testing::TempFolder folder;
  ManualClock clock;
  auto file = *ledger::LedgerFile::Open({.path = folder.path() + "/ledger.db"});
  std::vector<ledger::Entry> entries(200);
  for (size_t i = 0; i < entries.size(); ++i) {
    entries[i].account.gpu = UuidOf(static_cast<int64_t>(i % 8));
    entries[i].account.owner.pod = "llama-" + std::to_string(i);
    entries[i].amounts.energy_uj = 1'000'000;
  }
  ledger::LedgerState saved;
  saved.gpus.resize(8);
  int64_t window_ms = 1'700'000'000'000;
  for (auto _ : state) {
    for (ledger::Entry& entry : entries) entry.window_unix_ms = window_ms;
    window_ms += 10'000;
    if (Status status = file->Write(entries, saved, clock.Now()); !status)
      state.SkipWithError(status.detail.c_str());
  }
}
BENCHMARK(BM_WriteOfAWindow)->Unit(benchmark::kMicrosecond)->Iterations(360);

}  // namespace
}  // namespace gpulens::cost
