// What the plugin costs NCCL's threads: a collective with its kernels' channels, as version 7 reports them.
// The page is a file without a reader, so that the ring wraps, which costs the same.
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include <benchmark/benchmark.h>

#include <algorithm>
#include <atomic>
#include <string_view>
#include <vector>

#include "inject/nccl/profiler.h"
#include "inject/nccl/profiler_abi.h"
#include "job_page/job_page.h"

extern "C" {
extern gpulens::nccl_abi::Table7 ncclProfiler_v7;
}

namespace {
std::atomic<uint64_t> g_allocations = 0;  // of this process
}  // namespace

// In place of the C library's, which they call.
extern "C" {
void* __libc_malloc(size_t size);
void* __libc_calloc(size_t count, size_t size);
void* __libc_realloc(void* at, size_t size);
void* malloc(size_t size) {
  g_allocations.fetch_add(1, std::memory_order_relaxed);
  return __libc_malloc(size);
}
void* calloc(size_t count, size_t size) {
  g_allocations.fetch_add(1, std::memory_order_relaxed);
  return __libc_calloc(count, size);
}
void* realloc(void* at, size_t size) {
  g_allocations.fetch_add(1, std::memory_order_relaxed);
  return __libc_realloc(at, size);
}
}

namespace gpulens::nccl_plugin {
namespace {

struct BenchCommunicator {
  explicit BenchCommunicator(const char* level) {
    ::setenv(job_page::kSocketVariable, "", 1);
    ::setenv(job_page::kFolderVariable, "/dev/shm", 1);
    ::setenv("GPULENS_NCCL_LEVEL", level, 1);
    ncclProfiler_v7.init(&context, 0xBE, &mask, "bench", 1, 8, 0, nullptr);
    if (job_page::Page* page = CurrentPage())
      page->header.wanted_level.store(static_cast<uint32_t>(
          std::string_view(level) == "link" ? job_page::Level::kLink : job_page::Level::kTime));
    collective.type = nccl_abi::kCollective;
    collective.collective.function = "AllReduce";
    collective.collective.datatype = "ncclBfloat16";
    collective.collective.algorithm = "RING";
    collective.collective.protocol = "SIMPLE";
    collective.collective.count = 1 << 20;
    channel.type = nccl_abi::kKernelChannel;
  }
  ~BenchCommunicator() { ncclProfiler_v7.finalize(context); }

  // Returns the number of calls.
  int64_t Play(uint8_t channels) {
    ++collective.collective.sequence;
    collective.collective.channels = channels;
    void* handle = nullptr;
    ncclProfiler_v7.start(context, &handle, &collective);
    ncclProfiler_v7.stop(handle);
    channel.parent = handle;
    for (uint8_t i = 0; i < channels; ++i) {
      void* kernel = nullptr;
      channel.kernel_channel.channel = i;
      channel.kernel_channel.timer = 1000;
      ncclProfiler_v7.start(context, &kernel, &channel);
      nccl_abi::StateArguments4 arguments{};
      arguments.timer = 2000;
      ncclProfiler_v7.record(kernel, nccl_abi::kKernelChannelStop, &arguments);
      ncclProfiler_v7.stop(kernel);
    }
    return 2 + 3 * channels;
  }

  int mask = 0;
  void* context = nullptr;
  nccl_abi::Descriptor7 collective{}, channel{};
};

void NcclCollective(benchmark::State& state) {
  BenchCommunicator communicator("time");
  int64_t calls = 0;
  for (auto _ : state) calls += communicator.Play(static_cast<uint8_t>(state.range(0)));
  state.SetItemsProcessed(calls);
}
BENCHMARK(NcclCollective)->Arg(1)->Arg(8)->Arg(32);

// A call that is not wanted: at the level `off`, NCCL makes none of these but one for each group.
void NcclUnwantedEvent(benchmark::State& state) {
  BenchCommunicator communicator("time");
  nccl_abi::Descriptor7 descriptor{};
  descriptor.type = nccl_abi::kGroup;
  for (auto _ : state) {
    void* handle = nullptr;
    ncclProfiler_v7.start(communicator.context, &handle, &descriptor);
    benchmark::DoNotOptimize(handle);
  }
}
BENCHMARK(NcclUnwantedEvent);

// A step of the network that sends, at the level link: its begin, three states and its end.
void NcclStep(benchmark::State& state) {
  BenchCommunicator communicator("link");
  void* collective = nullptr;
  ncclProfiler_v7.start(communicator.context, &collective, &communicator.collective);
  nccl_abi::Descriptor7 proxy{}, step{};
  proxy.type = nccl_abi::kProxyOp;
  proxy.parent = collective;
  proxy.proxy_op.pid = ::getpid();
  proxy.proxy_op.peer = 1;
  step.type = nccl_abi::kProxyStep;
  ncclProfiler_v7.start(communicator.context, &step.parent, &proxy);
  if (!step.parent) state.SkipWithError("no step");
  int64_t calls = 0;
  for (auto _ : state) {
    void* handle = nullptr;
    ncclProfiler_v7.start(communicator.context, &handle, &step);
    for (const int wait : {nccl_abi::kSendGpuWait, nccl_abi::kSendPeerWait, nccl_abi::kSendWait})
      ncclProfiler_v7.record(handle, wait, nullptr);
    ncclProfiler_v7.stop(handle);
    calls += 5;
  }
  state.SetItemsProcessed(calls);
}
BENCHMARK(NcclStep);

// The longest calls: a clock before and after each collective of 8 channels, whose own cost is in it.
void NcclCollectiveQuantiles(benchmark::State& state) {
  BenchCommunicator communicator("time");
  std::vector<double> times;
  times.reserve(1 << 20);
  for (auto _ : state) {
    timespec begin{}, end{};
    ::clock_gettime(CLOCK_MONOTONIC, &begin);
    communicator.Play(8);
    ::clock_gettime(CLOCK_MONOTONIC, &end);
    if (times.size() < times.capacity())
      times.push_back(static_cast<double>(end.tv_sec - begin.tv_sec) * 1e9 +
                      static_cast<double>(end.tv_nsec - begin.tv_nsec));
  }
  std::sort(times.begin(), times.end());
  const auto at = [&](double share) {
    return times[static_cast<size_t>(share * static_cast<double>(times.size() - 1))];
  };
  state.counters["p50_ns"] = at(0.5);
  state.counters["p999_ns"] = at(0.999);
}
BENCHMARK(NcclCollectiveQuantiles);

// What most of it is: one reading of the clock.
void BootClockReading(benchmark::State& state) {
  for (auto _ : state) {
    timespec now{};
    ::clock_gettime(CLOCK_BOOTTIME, &now);
    benchmark::DoNotOptimize(now);
  }
}
BENCHMARK(BootClockReading);

double ThreadNanoseconds() {
  timespec now{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e9 + static_cast<double>(now.tv_nsec);
}

double MedianOf(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2),
                   values.end());
  return values[values.size() / 2];
}

// The gate of `./dev bench`: a call at the level `time` against a reading of the clock, in turn, so that the
// machine meets both; and what the calls allocate. That they call the kernel for nothing is a test's.
void NcclCallPaired(benchmark::State& state) {
  BenchCommunicator communicator("time");
  constexpr int kCollectives = 500;
  communicator.Play(8);
  std::vector<double> ratios, ours, clock;
  ratios.reserve(1000), ours.reserve(1000), clock.reserve(1000);
  uint64_t allocated = 0;
  for (auto _ : state) {
    const uint64_t before = g_allocations.load();
    const double begun = ThreadNanoseconds();
    int64_t calls = 0;
    for (int i = 0; i < kCollectives; ++i) calls += communicator.Play(8);
    const double played = ThreadNanoseconds();
    for (int64_t i = 0; i < calls; ++i) {
      timespec now{};
      ::clock_gettime(CLOCK_BOOTTIME, &now);
      benchmark::DoNotOptimize(now);
    }
    const double read = ThreadNanoseconds();
    ours.push_back((played - begun) / static_cast<double>(calls));
    clock.push_back((read - played) / static_cast<double>(calls));
    ratios.push_back(ours.back() / clock.back());
    allocated += g_allocations.load() - before;
  }
  state.counters["ratio"] = MedianOf(ratios);
  state.counters["ours_ns"] = MedianOf(ours);
  state.counters["clock_ns"] = MedianOf(clock);
  state.counters["allocations"] = static_cast<double>(allocated);
}
BENCHMARK(NcclCallPaired)->Iterations(200)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace gpulens::nccl_plugin
