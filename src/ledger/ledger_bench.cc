// A second of a machine: 8 GPUs, 20 pods with a process each, 6 engines over one or two GPUs, one reading a
// second and a page of each engine every 5 s; windows are closed as they are complete.
#include <benchmark/benchmark.h>

#include <string>

#include "base/testing/allocations.h"
#include "ledger/ledger.h"

namespace gpulens::ledger {
namespace {

constexpr int64_t kSecond = 1'000'000'000;
constexpr int kGpus = 8, kPods = 20, kEngines = 6;

GpuReading BenchReading(int gpu, int64_t second) {
  GpuReading reading;
  reading.gpu = "GPU-8f3c2a10-0000-0000-0000-00000000000" + std::to_string(gpu);
  reading.model = "NVIDIA H100 80GB HBM3";
  reading.at_ns = second * kSecond;
  reading.energy_uj = second * (300'000'000 + 1'000 * (gpu + second % 7));
  reading.energy_source = EnergySource::kCounter;
  reading.performance_state = 0;
  reading.utilization = 0.8;
  reading.users_known = true;
  for (int pod = gpu; pod < kPods; pod += kGpus) {
    GpuUser user;
    user.pid = 1000 + pod;
    user.start_ticks = 77 * pod;
    user.owner.process = "python3";
    user.owner.name_space = "inference";
    user.owner.pod = "llama-70b-decode-7f9c6d5b8-x" + std::to_string(pod);
    user.owner.tenant = "tenant-" + std::to_string(pod % 4);
    if (pod < kEngines) user.owner.engine = "10.0.0." + std::to_string(pod) + ":8000";
    if (pod >= kGpus && pod < kGpus + 2)
      user.owner.engine = "10.0.0." + std::to_string(pod - kGpus) + ":8000";
    user.memory_bytes = (pod + 1) << 20;
    user.utilization = 0.2 + 0.01 * pod;
    reading.users.push_back(user);
  }
  return reading;
}

EngineReading BenchPage(int engine, int64_t second) {
  EngineReading page;
  page.engine = "10.0.0." + std::to_string(engine) + ":8000";
  page.at_ns = second * kSecond;
  EngineWork work;
  work.model = "meta-llama/Llama-3.1-70B-Instruct";
  const auto grown = static_cast<double>(second);
  work.prompt_tokens = 900 * grown, work.cached_tokens = 200 * grown, work.generated_tokens = 400 * grown;
  work.prefill_seconds = 0.3 * grown, work.decode_seconds = 8 * grown;
  work.running = 5, work.waiting = 0;
  page.work.push_back(work);
  return page;
}

void OneSecond(benchmark::State& state) {
  Ledger::Options options;
  options.boot_to_unix_ns = 1'700'000'000 * kSecond;
  Ledger ledger(options, [](std::string_view, int64_t) {
    Rates rates;
    rates.pico_per_gpu_hour = 2'500'000'000'000, rates.pico_per_kwh = 120'000'000'000;
    rates.mg_per_kwh = 380'000;
    return rates;
  });
  int64_t second = 1000;
  uint64_t entries = 0, own = 0;
  const auto one = [&] {
    for (int gpu = 0; gpu < kGpus; ++gpu) {
      GpuReading reading = BenchReading(gpu, second);
      const uint64_t before = ThreadAllocations();
      ledger.Observe(std::move(reading));
      own += ThreadAllocations() - before;
    }
    for (int engine = 0; engine < kEngines && second % 5 == 0; ++engine)
      ledger.Observe(BenchPage(engine, second));
    const uint64_t before = ThreadAllocations();
    const Ledger::Closed closed =
        ledger.Close({second * kSecond, second * kSecond + options.boot_to_unix_ns});
    own += ThreadAllocations() - before;
    entries += closed.entries.size();
    ++second;
  };
  // The grace is full of readings.
  for (int i = 0; i < 400; ++i) one();
  entries = own = 0;
  for (auto _ : state) one();
  const auto seconds = static_cast<double>(state.iterations());
  state.counters["entries_per_window"] = 10 * static_cast<double>(entries) / seconds;
  state.counters["allocations_per_second"] = static_cast<double>(own) / seconds;
}
BENCHMARK(OneSecond)->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace gpulens::ledger
