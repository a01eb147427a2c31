// Prints what probes cost the thread that calls: docs/performance/probes-bpf.md has the numbers of a machine.
//
//   bpf_overhead LIBRARY    a fake libcuda.so.1 of bpf_fakes/
#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <memory>
#include <string>
#include <vector>

#include "sources/bpf/probe_session.h"

namespace {

using namespace gpulens::bpf;
using Call = unsigned long (*)(unsigned long);

double NowNs(clockid_t clock) {
  timespec now{};
  ::clock_gettime(clock, &now);
  return static_cast<double>(now.tv_sec) * 1e9 + static_cast<double>(now.tv_nsec);
}

double MedianOf(std::vector<double>& values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

// Nanoseconds of a call, the median of calls that come `rate` times a second for `seconds`; rate 0: one after
// the other, the median of rounds.
double NsOfCall(Call call, double rate, double seconds) {
  std::vector<double> took;
  const double begin = NowNs(CLOCK_MONOTONIC);
  double next = begin;
  while (NowNs(CLOCK_MONOTONIC) - begin < seconds * 1e9) {
    if (rate == 0) {
      const double before = NowNs(CLOCK_THREAD_CPUTIME_ID);
      for (int i = 0; i < 1000; ++i) call(0);
      took.push_back((NowNs(CLOCK_THREAD_CPUTIME_ID) - before) / 1000);
      continue;
    }
    while (NowNs(CLOCK_MONOTONIC) < next) {
    }
    next += 1e9 / rate;
    const double before = NowNs(CLOCK_MONOTONIC);
    call(0);
    took.push_back(NowNs(CLOCK_MONOTONIC) - before);
  }
  return MedianOf(took);
}

int Run(const char* path) {
  void* library = ::dlopen(path, RTLD_NOW);
  const auto call = library ? reinterpret_cast<Call>(::dlsym(library, "cuLaunchKernel")) : nullptr;
  if (!call) {
    (void)std::fprintf(stderr, "no cuLaunchKernel in %s\n", path);
    return 2;
  }
  ProbeSession::Options options;
  options.capabilities = FindCapabilities(RealCapabilityProbe());
  auto session = ProbeSession::Open(options);
  if (!session) {
    (void)std::fprintf(stderr, "%s\n", session.error().detail.c_str());
    return 1;
  }
  const ProbeCosts costs = (*session)->costs();
  std::printf("measured at the start: counted %.0f ns, timed %.0f ns, switch %.0f ns\n", costs.count_ns,
              costs.timed_ns, costs.switch_ns);
  constexpr double kRates[] = {1000, 10'000, 100'000, 0};
  constexpr double kSeconds = 1.5;
  struct Mode {
    const char* name;
    int sampling;  // -1: bare
  };
  constexpr Mode kModes[] = {{"bare", -1}, {"counted", 0}, {"timed 1/64", 64}, {"timed all", 1}};
  std::printf("%-12s %22s %22s %22s %14s\n", "", "1,000/s", "10,000/s", "100,000/s", "without pause");
  double bare[4] = {};
  for (const Mode& mode : kModes) {
    if (mode.sampling >= 0) {
      const auto attached =
          (*session)->Attach(::getpid(), {.launches = true, .synchronizes = false, .data_waits = false});
      if (!attached || attached->libraries.empty()) return 1;
      (*session)->SetSampling(attached->libraries[0].device, attached->libraries[0].inode,
                              static_cast<uint32_t>(mode.sampling));
    }
    std::printf("%-12s", mode.name);
    for (size_t i = 0; i < 4; ++i) {
      const double ns = NsOfCall(call, kRates[i], kSeconds);
      if (mode.sampling < 0) bare[i] = ns;
      const double more = ns - bare[i];
      if (kRates[i] == 0) std::printf(" %11.0f ns\n", ns);
      else std::printf(" %9.0f ns %7.3f %%", ns, more * kRates[i] * 1e-7);
    }
  }
  return 0;
}

}  // namespace

int main(int count, char** arguments) { return count == 2 ? Run(arguments[1]) : 2; }
