// Cost of a message to an actor: with telemetry, with telemetry off, and with an actor compiled without any.
#include <benchmark/benchmark.h>
#include <gpulens/ring_kernel.h>

#include <time.h>

#include <algorithm>
#include <chrono>
#include <future>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "sdk/ring/actor.h"

namespace gpulens {
namespace {

using internal::ActorOptions;
using internal::BasicActor;
using internal::FormOf;
using internal::Room;

constexpr int64_t kWithout = 0, kOff = 1, kOn = 2;

struct Body final : internal::KernelBody {
  void Run(internal::RingActor& actor) override {
    internal::HandlerBody<int64_t, int64_t>([](int64_t x) { return x * x; }).Run(actor);
  }
};

std::shared_ptr<internal::RingActor> Make(
    int64_t telemetry, Duration spin, std::unique_ptr<internal::KernelBody> body = std::make_unique<Body>()) {
  ActorOptions options{.id = "bench",
                       .messages = &FormOf<int64_t>(),
                       .replies = &FormOf<int64_t>(),
                       .body = std::move(body),
                       .options = {.spin = spin},
                       .telemetry = telemetry == kOn};
  if (telemetry == kWithout) return std::make_shared<BasicActor<false>>(std::move(options));
  return std::make_shared<BasicActor<true>>(std::move(options));
}

void Send(internal::RingActor& actor, int64_t value) {
  Room<int64_t> room(std::move(value));
  benchmark::DoNotOptimize(internal::SendTo(actor, room.at(), room.full, Duration::max()));
}
void Receive(internal::RingActor& actor) {
  Room<int64_t> room;
  benchmark::DoNotOptimize(internal::ReceiveFrom(actor, room.at(), room.full, Duration::max()));
}

constexpr const char* kNames[] = {"compiled without", "off", "on"};
void Names(benchmark::State& state) { state.SetLabel(kNames[state.range(0)]); }

double ProcessSeconds() {
  timespec at{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &at);
  return static_cast<double>(at.tv_sec) + static_cast<double>(at.tv_nsec) * 1e-9;
}

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

// All of an actor's work on a message and its reply, in one thread: without wake-ups, so that it can be
// compared to the nanosecond.
void OwnWork(benchmark::State& state) {
  Names(state);
  struct Everything final : internal::KernelBody {
    Everything(benchmark::State& its, std::promise<void>& its_end) : state(its), end(its_end) {}
    void Run(internal::RingActor& actor) override {
      for (auto _ : state) {
        Send(actor, 7);
        Room<int64_t> message;
        benchmark::DoNotOptimize(internal::Take(actor, message.at(), message.full, Duration::max()));
        Room<int64_t> reply(*message * *message);
        benchmark::DoNotOptimize(internal::Put(actor, reply.at(), reply.full));
        Receive(actor);
      }
      end.set_value();
    }
    benchmark::State& state;
    std::promise<void>& end;
  };
  std::promise<void> ended;
  auto actor = Make(state.range(0), {}, std::make_unique<Everything>(state, ended));
  if (!actor->Activate().ok()) return state.SkipWithError("no thread");
  ended.get_future().wait();
  static_cast<void>(actor->Terminate(Duration::max()));
}
BENCHMARK(OwnWork)->Arg(kWithout)->Arg(kOff)->Arg(kOn)->ArgName("telemetry")->UseRealTime();

// A message and its reply: two wake-ups of threads, or none with a spin.
void RoundTrip(benchmark::State& state) {
  Names(state);
  auto actor = Make(state.range(0), std::chrono::microseconds(state.range(1)));
  if (!actor->Activate().ok()) return state.SkipWithError("no thread");
  for (auto _ : state) {
    Send(*actor, 7);
    Receive(*actor);
  }
  static_cast<void>(actor->Terminate(Duration::max()));
}
BENCHMARK(RoundTrip)
    ->ArgsProduct({{kWithout, kOff, kOn}, {0, 100}})
    ->ArgNames({"telemetry", "spin_us"})
    ->UseRealTime();

// 512 messages on their way at a time.
void Throughput(benchmark::State& state) {
  Names(state);
  constexpr int kBatch = 512;
  auto actor = Make(state.range(0), {});
  if (!actor->Activate().ok()) return state.SkipWithError("no thread");
  for (auto _ : state) {
    for (int i = 0; i < kBatch; ++i) Send(*actor, i);
    for (int i = 0; i < kBatch; ++i) Receive(*actor);
  }
  state.SetItemsProcessed(state.iterations() * kBatch);
  static_cast<void>(actor->Terminate(Duration::max()));
}
BENCHMARK(Throughput)->Arg(kWithout)->Arg(kOff)->Arg(kOn)->ArgName("telemetry")->UseRealTime();

// Two actors in turn, in rounds so short that what else the machine does meets both: the medians of the
// rounds' ratios. Of the clock, and of the processor time of the process.
void RoundTripPaired(benchmark::State& state) {
  constexpr int kTrips = 200;
  using Clock = std::chrono::steady_clock;
  const auto first = Make(state.range(0), {}), second = Make(state.range(1), {});
  if (!first->Activate().ok() || !second->Activate().ok()) return state.SkipWithError("no thread");
  struct Cost {
    double wall, cpu;
  };
  const auto measure = [](internal::RingActor& actor) {
    const double cpu = ProcessSeconds();
    const auto begun = Clock::now();
    for (int i = 0; i < kTrips; ++i) {
      Send(actor, 7);
      Receive(actor);
    }
    return Cost{std::chrono::duration<double>(Clock::now() - begun).count(), ProcessSeconds() - cpu};
  };
  std::vector<double> wall, cpu;
  for (auto _ : state) {
    const bool turned = wall.size() % 2 == 1;
    Cost before = measure(turned ? *second : *first), after = measure(turned ? *first : *second);
    if (turned) std::swap(before, after);
    wall.push_back(after.wall / before.wall);
    cpu.push_back(after.cpu / before.cpu);
  }
  state.counters["wall_ratio"] = Median(wall);
  state.counters["cpu_ratio"] = Median(cpu);
  state.SetLabel(std::string(kNames[state.range(1)]) + " against " + kNames[state.range(0)]);
  for (const auto& actor : {first, second}) static_cast<void>(actor->Terminate(Duration::max()));
}
BENCHMARK(RoundTripPaired)
    ->Args({kWithout, kOff})
    ->Args({kOff, kOn})
    ->ArgNames({"of", "telemetry"})
    ->Iterations(1500)
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);

void RecordAMessage(benchmark::State& state) {
  static TelemetryCollector collector(true, nullptr);
  const KernelRecorder kernel = collector.Kernel("bench");
  for (auto _ : state) {
    kernel.Receive(1);
    kernel.Take(0, 1e-6);
    kernel.Processed(2e-6, true);
  }
}
BENCHMARK(RecordAMessage)->Threads(1)->Threads(8);

void SummaryOf1000(benchmark::State& state) {
  TelemetryCollector collector(true, nullptr);
  for (int i = 0; i < 1'000; ++i) {
    const KernelRecorder kernel = collector.Kernel("kernel_" + std::to_string(i));
    for (int k = 1; k < 50; ++k) {
      kernel.Receive(1);
      kernel.Take(0, k * 1e-6);
      kernel.Processed(k * 2e-6, true);
    }
  }
  for (auto _ : state) benchmark::DoNotOptimize(collector.Summary());
}
BENCHMARK(SummaryOf1000)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace gpulens
