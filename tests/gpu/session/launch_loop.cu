// Launches small kernels at a known rate and prints what CUDA's own events and the host's clock say, one JSON object.
//   launch_loop --launches N [--rate PER_SECOND] [--kernel-us N] [--kind kernel|ex|cooperative|graph] [--nodes N]
//               [--sync-every N] [--json]
// 100 launches come before the loop, 50 after it where --kernel-us is 100 or more.
// Compiled twice, also with --default-stream per-thread; the runtime is static.
#include <cuda_runtime.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <string>
#include <vector>

#define CHECK(call)                                                            \
  do {                                                                         \
    const cudaError_t error = (call);                                          \
    if (error != cudaSuccess) {                                                \
      std::fprintf(stderr, "%s: %s\n", #call, cudaGetErrorString(error));      \
      std::exit(1);                                                            \
    }                                                                          \
  } while (0)

// Busy for `cycles` of the device's clock.
__global__ void Spin(long long cycles) {
  const long long begin = clock64();
  while (clock64() - begin < cycles) {
  }
}

static double Now() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return double(now.tv_sec) + double(now.tv_nsec) * 1e-9;
}

int main(int count, char** arguments) {
  long launches = 10000, rate = 0, nodes = 10, sync_every = 0;
  double kernel_us = 0;
  std::string kind = "kernel";
  for (int i = 1; i < count; ++i) {
    const std::string option = arguments[i];
    if (option == "--json") continue;  // as fake_cuda_loop has it
    if (++i == count) return 2;
    const char* value = arguments[i];
    if (option == "--launches") launches = std::atol(value);
    if (option == "--rate") rate = std::atol(value);
    if (option == "--nodes") nodes = std::atol(value);
    if (option == "--sync-every") sync_every = std::atol(value);
    if (option == "--kernel-us") kernel_us = std::atof(value);
    if (option == "--kind") kind = value;
  }
  int clock_khz = 0;
  CHECK(cudaSetDevice(0));
  CHECK(cudaDeviceGetAttribute(&clock_khz, cudaDevAttrClockRate, 0));
  const long long cycles = static_cast<long long>(kernel_us * clock_khz / 1000);
  cudaStream_t stream;
  CHECK(cudaStreamCreate(&stream));
  void* parameters[] = {const_cast<long long*>(&cycles)};
  cudaGraphExec_t graph = nullptr;
  if (kind == "graph") {
    cudaGraph_t captured;
    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    for (long i = 0; i < nodes; ++i) Spin<<<1, 1, 0, stream>>>(cycles);
    CHECK(cudaStreamEndCapture(stream, &captured));
    CHECK(cudaGraphInstantiate(&graph, captured, 0));
  }
  const auto launch = [&] {
    if (kind == "kernel") {
      Spin<<<1, 1, 0, stream>>>(cycles);
    } else if (kind == "ex") {
      cudaLaunchConfig_t config{};
      config.gridDim = dim3(1);
      config.blockDim = dim3(1);
      config.stream = stream;
      CHECK(cudaLaunchKernelEx(&config, Spin, cycles));
    } else if (kind == "cooperative") {
      CHECK(cudaLaunchCooperativeKernel(reinterpret_cast<const void*>(Spin), dim3(1), dim3(1), parameters, 0, stream));
    } else {
      CHECK(cudaGraphLaunch(graph, stream));
    }
  };
  for (int i = 0; i < 100; ++i) launch();
  CHECK(cudaStreamSynchronize(stream));
  cudaEvent_t begin_event, end_event;
  CHECK(cudaEventCreate(&begin_event));
  CHECK(cudaEventCreate(&end_event));

  CHECK(cudaEventRecord(begin_event, stream));
  const double begin = Now();
  double in_calls = 0, turn = begin;
  for (long i = 0; i < launches; ++i) {
    if (rate > 0) {
      while (Now() < turn) {
      }
      turn += 1.0 / double(rate);
      const double before = Now();
      launch();
      in_calls += Now() - before;
    } else {
      launch();
    }
    if (sync_every > 0 && (i + 1) % sync_every == 0) CHECK(cudaStreamSynchronize(stream));
  }
  const double enqueued = Now() - begin;
  CHECK(cudaEventRecord(end_event, stream));
  CHECK(cudaStreamSynchronize(stream));
  const double done = Now() - begin;
  float event_ms = 0;
  CHECK(cudaEventElapsedTime(&event_ms, begin_event, end_event));

  // Single kernels between two events each, where an event's own time matters little.
  double each_ms = 0;
  int each = 0;
  if (kernel_us >= 100 && kind != "graph") {
    for (; each < 50; ++each) {
      float ms = 0;
      CHECK(cudaEventRecord(begin_event, stream));
      launch();
      CHECK(cudaEventRecord(end_event, stream));
      CHECK(cudaEventSynchronize(end_event));
      CHECK(cudaEventElapsedTime(&ms, begin_event, end_event));
      each_ms += ms;
    }
  }
  std::printf("{\"launches\":%ld,\"ns_per_launch\":%.1f,\"ns_in_call\":%.1f,\"seconds\":%.6f,\"events_ms\":%.4f,"
              "\"kernel_ms_by_events\":%.6f}\n",
              launches, enqueued / double(launches) * 1e9, rate > 0 ? in_calls / double(launches) * 1e9 : 0.0, done,
              double(event_ms), each ? each_ms / each : 0.0);
  CHECK(cudaDeviceSynchronize());
  return 0;
}
