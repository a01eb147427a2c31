// The numbers of PyDotCompute's own telemetry tests, through the C++ interface;
// python/tests/test_numeric_cases.py tests the same in Python. Latencies are in seconds, and the mean of
// nothing is NaN where the original has 0. Only Python has priorities: a C++ kernel's queue is first in,
// first out.
#include <gpulens/kernel_telemetry.h>

#include <cmath>

#include <gpulens/ring_kernel.h>

#include <gtest/gtest.h>

#include "sdk/ring/record/record.h"

namespace gpulens {
namespace {

using namespace std::chrono_literals;
using ring::KernelRecord;

constexpr Duration kTimeout = 20s;
constexpr TimePoint kBegin{1'000s};

// A kernel with these durations, in nanoseconds.
KernelTelemetry Recorded(const std::vector<double>& nanoseconds, TimePoint queried = kBegin + 10s) {
  KernelRecord record("k");
  record.SetState(KernelState::kActive, kBegin);
  for (double one : nanoseconds) record.Processed(kBegin, one * 1e-9);
  return record.Copy(queried, {});
}

TEST(RingCases, Latencies) {
  struct Case {
    std::vector<double> nanoseconds;
    double n, mean, sum, least, most;
  };
  constexpr double kNone = kNotMeasured;
  for (const auto& [reported, n, mean, sum, least, most] : {
           Case{std::vector<double>(10, 100'000), 10, 100'000, 1'000'000, 100'000, 100'000},
           Case{std::vector<double>(4, 1'000'000), 4, 1'000'000, 4'000'000, 1'000'000, 1'000'000},
           Case{{}, 0, kNone, 0, kNone, kNone},
           Case{{1000}, 1, 1000, 1000, 1000, 1000},
           Case{{1000, 2000, 500}, 3, 3500.0 / 3, 3500, 500, 2000},
           Case{std::vector<double>(1000, 100), 1000, 100, 100'000, 100, 100},
           Case{{0}, 1, 0, 0, 0, 0},
           Case{{0, 1e9}, 2, 5e8, 1e9, 0, 1e9},
       }) {
    const Distribution service = Recorded(reported).service_seconds;
    EXPECT_EQ(static_cast<double>(service.n), n);
    for (const auto& [got, wanted] : {std::pair(service.mean, mean), std::pair(service.sum, sum),
                                      std::pair(service.min, least), std::pair(service.max, most)}) {
      EXPECT_EQ(std::isnan(got), std::isnan(wanted)) << "of " << n;
      if (!std::isnan(wanted)) {
        EXPECT_NEAR(got, wanted * 1e-9, wanted * 1e-18) << "of " << n;
      }
    }
  }
}

TEST(RingCases, Throughput) {
  EXPECT_DOUBLE_EQ(Recorded(std::vector<double>(100, 1)).throughput, 10);
  EXPECT_DOUBLE_EQ(Recorded(std::vector<double>(50, 1)).throughput, 5);
  EXPECT_EQ(Recorded(std::vector<double>(100, 1), kBegin).throughput, 0) << "no uptime";
}

TEST(RingCases, DropsErrorsAndAReset) {
  TelemetryCollector collector(true, nullptr);
  const KernelRecorder kernel = collector.Kernel("k");
  kernel.Drop(DropReason::kOldest);
  kernel.Drop(DropReason::kOldest);
  kernel.Error("First error");
  kernel.Error("Second error");
  kernel.Processed(1e-6, true);
  KernelTelemetry reported = *collector.Telemetry("k");
  EXPECT_EQ(reported.dropped, 2u);
  EXPECT_EQ(reported.errors, 2u);
  EXPECT_EQ(reported.last_error, "Second error");
  collector.Reset("k");
  reported = *collector.Telemetry("k");
  EXPECT_EQ(reported.kernel_id, "k");
  EXPECT_EQ(reported.messages_processed + reported.dropped + reported.errors + reported.service_seconds.n,
            0u);
  EXPECT_EQ(reported.last_error, "");
  EXPECT_EQ(reported.throughput, 0);
}

TEST(RingCases, SummarizesTwoKernels) {
  TelemetryCollector collector(true, nullptr);
  const KernelRecorder one = collector.Kernel("k1"), two = collector.Kernel("k2");
  one.Processed(1000e-9, true);
  one.Processed(2000e-9, true);
  one.Drop(DropReason::kRejected);
  two.Processed(3000e-9, true);
  two.Error("e");
  const KernelSummary summary = collector.Summary();
  EXPECT_EQ(summary.kernel_count, 2u);
  EXPECT_EQ(summary.total_messages, 3u);
  EXPECT_EQ(summary.total_dropped, 1u);
  EXPECT_EQ(summary.total_errors, 1u);
}

TEST(RingCases, FindsKernelsById) {
  TelemetryCollector collector(true, nullptr);
  for (int i = 0; i < 100; ++i) collector.RecordReceive("k" + std::to_string(i));
  EXPECT_EQ(collector.Summary().kernel_count, 100u);
  collector.Kernel("k7").Receive();
  EXPECT_EQ(collector.Telemetry("k7")->messages_received, 2u) << "the same one";
  EXPECT_EQ(collector.Summary().kernel_count, 100u);
  collector.Reset("nobody");
}

TEST(RingCases, RecordsNothingWhenOff) {
  RingKernelRuntime runtime({.enable_telemetry = false, .exported = nullptr});
  auto kernel = runtime.Launch<int, int>("k", [](int x) { return x; });
  ASSERT_TRUE(kernel && runtime.Activate("k").ok());
  ASSERT_TRUE(kernel->Send(1, kTimeout).ok() && kernel->Receive(kTimeout).ok());
  EXPECT_FALSE(runtime.telemetry("k"));
  EXPECT_TRUE(runtime.all_telemetry().empty());
  EXPECT_EQ(runtime.Summary().kernel_count, 1u);
  EXPECT_EQ(runtime.Summary().total_messages, 0u);
}

// A kernel that works on nothing, so that its queue keeps what is sent.
struct Resting {
  explicit Resting(const KernelOptions& options) {
    kernel.emplace(*runtime.Launch<int, int>("k", [](int x) { return x; }, options));
    EXPECT_TRUE(runtime.Activate("k").ok());
    EXPECT_TRUE(runtime.Deactivate("k").ok());
  }
  KernelTelemetry reported() const { return *runtime.telemetry("k"); }
  uint64_t dropped(DropReason why) const { return reported().dropped_by[static_cast<size_t>(why)]; }

  RingKernelRuntime runtime{{.enable_telemetry = true, .exported = nullptr}};
  std::optional<RingKernel<int, int>> kernel;
};

TEST(RingCases, AFullQueue) {
  Resting rejects({.queue_size = 2, .when_full = WhenFull::kReject});
  EXPECT_TRUE(rejects.kernel->Send(1).ok() && rejects.kernel->Send(2).ok());
  EXPECT_EQ(rejects.kernel->Send(3).code, Code::kExhausted);
  EXPECT_EQ(rejects.reported().queue_depth, 2u);
  EXPECT_EQ(rejects.dropped(DropReason::kRejected), 1u);
  Resting drops({.queue_size = 2, .when_full = WhenFull::kDropOldest});
  for (int i = 1; i <= 3; ++i) EXPECT_TRUE(drops.kernel->Send(i).ok());
  EXPECT_EQ(drops.reported().queue_depth, 2u);
  EXPECT_EQ(drops.dropped(DropReason::kOldest), 1u);
}

TEST(RingCases, CountsFiveSentAndThreeTaken) {
  TelemetryCollector collector(true, nullptr);
  const KernelRecorder recorder = collector.Kernel("k");
  for (uint64_t i = 1; i <= 5; ++i) recorder.Receive(i);
  for (uint64_t i = 1; i <= 3; ++i) recorder.Take(5 - i, 0);
  const KernelTelemetry reported = *collector.Telemetry("k");
  EXPECT_EQ(reported.queue_depth, 2u);
  EXPECT_EQ(reported.messages_received, 5u);
  EXPECT_EQ(reported.wait_seconds.n, 3u);
  EXPECT_EQ(reported.queue_high_water, 5u);

  Resting five({.queue_size = 8});
  for (int i = 1; i <= 5; ++i) ASSERT_TRUE(five.kernel->Send(i).ok());
  EXPECT_EQ(five.reported().queue_depth, 5u);
  ASSERT_TRUE(five.runtime.Reactivate("k").ok());
  for (int i = 1; i <= 5; ++i) EXPECT_EQ(five.kernel->Receive(kTimeout).value_or(-1), i) << "in their order";
  EXPECT_EQ(five.reported().queue_depth, 0u);
  ASSERT_TRUE(five.runtime.Deactivate("k").ok());
  for (int i = 1; i <= 2; ++i) ASSERT_TRUE(five.kernel->Send(i).ok());
  ASSERT_TRUE(five.runtime.Terminate("k").ok());
  EXPECT_EQ(five.dropped(DropReason::kTerminated), 2u) << "what was cleared is counted";
}

}  // namespace
}  // namespace gpulens
