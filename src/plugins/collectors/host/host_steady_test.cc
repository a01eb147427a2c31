// A steady run must not allocate.

#include <gtest/gtest.h>
#include <time.h>

#include "base/testing/allocations.h"
#include "plugins/collectors/host/host_for_test.h"

namespace gpulens {
namespace {

using std::chrono::seconds;

size_t AllocationsOf(HostRun& run, int runs) {
  uint64_t before = ThreadAllocations();
  for (int i = 0; i < runs; ++i) static_cast<void>(run.After(seconds(1)).ok());
  return ThreadAllocations() - before;
}

double MicrosecondsPerRun(HostRun& run, int runs, Duration step) {
  auto cpu = [] {
    struct timespec now{};
    ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return static_cast<double>(now.tv_sec) * 1e6 + static_cast<double>(now.tv_nsec) * 1e-3;
  };
  double before = cpu();
  for (int i = 0; i < runs; ++i) static_cast<void>(run.After(step).ok());
  return (cpu() - before) / runs;
}

// Every tier is due at least twice in the counted runs, the sensors of sys/class/hwmon among them.
TEST(HostSteady, NoLevelAllocates) {
  HostRun run(kGoodRoot, FullConfig());
  ASSERT_TRUE(run.Collect().ok());
  for (int i = 0; i < 70; ++i) ASSERT_TRUE(run.After(seconds(1)).ok());
  EXPECT_TRUE(run.Has("host_temperature_celsius"));
  EXPECT_EQ(AllocationsOf(run, 130), 0u);
}

TEST(HostSteady, ThisMachineDoesNotAllocate) {
  if (!std::filesystem::exists("/proc/stat")) GTEST_SKIP() << "no /proc here";
  HostRun run("/", HostConfig(), HostSeams{}, RealClock().Now());
  static_cast<void>(run.Collect().ok());
  // The shares of CPU time come with the first tick of the kernel.
  for (int i = 0; i < 100'000 && !run.Has("system_cpu_utilization_ratio"); ++i) {
    static_cast<void>(run.After(seconds(1)).ok());
  }
  // Then each of the frames in use allocates space for them.
  for (int i = 0; i < 12; ++i) static_cast<void>(run.After(seconds(1)).ok());
  EXPECT_EQ(AllocationsOf(run, 40), 0u);
  RecordProperty("series", static_cast<int>(run.table.size()));
  double hot = MicrosecondsPerRun(run, 1000, std::chrono::milliseconds(1));
  double all = MicrosecondsPerRun(run, 100, seconds(60));
  RecordProperty("hot_run_us", static_cast<int>(hot));
  RecordProperty("full_run_us", static_cast<int>(all));
  std::printf("%u series; CPU of a run: %.0f us, of one in which everything is due: %.0f us\n",
              run.table.size(), hot, all);
}

}  // namespace
}  // namespace gpulens
