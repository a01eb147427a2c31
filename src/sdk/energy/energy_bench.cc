// Cost of windows and tokens for programs, and of reading eight GPUs for the machine.
#include <poll.h>

#include <ctime>

#include <gpulens/energy.h>

#include <benchmark/benchmark.h>

#include "sdk/energy/engine.h"
#include "sdk/energy/fake_source_for_test.h"

namespace gpulens::sdk {
namespace {

std::shared_ptr<FakeSource> Gpus(int count) {
  auto source = std::make_shared<FakeSource>(SteadyClock(), EnergyVendor::kNvidia);
  for (int i = 0; i < count; ++i) {
    source->AddGpu("GPU-" + std::to_string(i), [](int64_t ns) {
      EnergyReading reading;
      reading.watts = 300;
      reading.joules = 300 * SecondsOf(ns);
      return reading;
    });
  }
  return source;
}

EnergyMonitor& Monitor() {
  static EnergyMonitor* const monitor = [] {
    EnergyOptions options;
    options.sources = {Gpus(8)};
    return new EnergyMonitor(std::move(options));
  }();
  return *monitor;
}

// Windows are freed by the next reading, so one is requested before they run out, which is not timed.
void WindowAndEnd(benchmark::State& state) {
  EnergyMonitor& monitor = Monitor();
  int left = 8'000;
  for (auto _ : state) {
    if (--left == 0) {
      state.PauseTiming();
      benchmark::DoNotOptimize(monitor.Window().result(std::chrono::seconds(20)));
      left = 8'000;
      state.ResumeTiming();
    }
    EnergyWindow window = monitor.Request();
    window.End();
  }
}
BENCHMARK(WindowAndEnd);

void AddTokens(benchmark::State& state) {
  static EnergyWindow* const window = new EnergyWindow(Monitor().Request());
  for (auto _ : state) window->AddTokens(1);
}
BENCHMARK(AddTokens)->Threads(1)->Threads(2);

void Mark(benchmark::State& state) {
  EnergyWindow window = Monitor().Request();
  for (auto _ : state) window.Mark("decode");
}
BENCHMARK(Mark);

// Tokens to a hundred open requests, settled every 50 ms: the time of one settling.
void SettleHundredRequests(benchmark::State& state) {
  ManualClock clock;
  auto source = std::make_shared<FakeSource>(clock, EnergyVendor::kNvidia);
  for (int i = 0; i < 8; ++i) {
    EnergyDevice device;
    device.id = "GPU-" + std::to_string(i);
    device.most_watts = 700;
    device.counter_lag = Duration(state.range(0));
    source->Add(device, [](int64_t ns) {
      EnergyReading reading;
      reading.watts = 300;
      reading.joules = 300 * SecondsOf(ns);
      return reading;
    });
  }
  EnergyEngine engine({source}, clock);
  engine.Open();
  EnergyOptions options;
  options.share = Share::kByTokens;
  DeviceLedger* ledger = engine.AddLedger(options);
  engine.Round(true);
  std::vector<WindowSlot*> open;
  for (int i = 0; i < 100; ++i) open.push_back(engine.pool().Begin(ledger, true, engine.Now()));
  for (auto _ : state) {
    for (WindowSlot* one : open) one->AddTokens(3);
    clock.Advance(std::chrono::milliseconds(50));
    engine.Round(true);
  }
}
// With counters of the instant, and with counters whose lag is learned.
BENCHMARK(SettleHundredRequests)->Arg(0)->Arg(-1);

// Cost of the sampler: "cpu_per_second" is that of the whole process, which does nothing else.
void SamplerOfEightGpus(benchmark::State& state) {
  Monitor();
  double used = 0, passed = 0;
  for (auto _ : state) {
    timespec before{}, after{};
    ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &before);
    ::poll(nullptr, 0, 1000);
    ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &after);
    used += static_cast<double>(after.tv_sec - before.tv_sec) +
            static_cast<double>(after.tv_nsec - before.tv_nsec) * 1e-9;
    passed += 1;
  }
  state.counters["cpu_per_second"] = used / passed;
}
BENCHMARK(SamplerOfEightGpus)->Iterations(3)->UseRealTime();

}  // namespace
}  // namespace gpulens::sdk
