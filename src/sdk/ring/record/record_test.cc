#include "sdk/ring/record/record.h"

#include <cmath>
#include <numeric>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/testing/allocations.h"

namespace gpulens::ring {
namespace {

using namespace std::chrono_literals;
using ::testing::DoubleNear;
using ::testing::SizeIs;

constexpr TimePoint kBegin{1'000s};
const std::chrono::system_clock::time_point kWall{1'700'000'000s};

struct Started : KernelRecord {
  Started() : KernelRecord("k") {
    SetState(KernelState::kLaunched, kBegin);
    SetState(KernelState::kActive, kBegin);
  }
};

TEST(Latency, HasCountSumMinimumAndMaximum) {
  LatencyRecord latency;
  EXPECT_EQ(latency.Describe().n, 0u);
  EXPECT_TRUE(std::isnan(latency.Describe().min));
  latency.Record(1'000e-9);
  EXPECT_EQ(latency.Describe().min, 1'000e-9);
  EXPECT_EQ(latency.Describe().max, 1'000e-9);
  EXPECT_EQ(latency.Describe().p50, 1'000e-9);
  EXPECT_TRUE(std::isnan(latency.Describe().std));
  latency.Record(2'000e-9);
  latency.Record(500e-9);
  const Distribution three = latency.Describe();
  EXPECT_EQ(three.n, 3u);
  EXPECT_DOUBLE_EQ(three.sum, 3'500e-9);
  EXPECT_EQ(three.min, 500e-9);
  EXPECT_EQ(three.max, 2'000e-9);
  EXPECT_THAT(three.std, DoubleNear(763.7626e-9, 1e-13));
}

TEST(Latency, AcceptsZeroAndWholeSeconds) {
  LatencyRecord latency;
  latency.Record(0);
  EXPECT_EQ(latency.Describe().min, 0);
  latency.Record(500e-9);
  EXPECT_EQ(latency.Describe().min, 0) << "0 is not taken for nothing";
  latency.Record(1);
  EXPECT_EQ(latency.Describe().max, 1);
  for (double odd : {-1.0, double{NAN}, double{INFINITY}}) latency.Record(odd);
  EXPECT_EQ(latency.Describe().n, 3u);
}

TEST(Latency, MeansOfManyAndOfTen) {
  LatencyRecord thousand, ten;
  for (int i = 0; i < 1'000; ++i) thousand.Record(100e-9);
  EXPECT_EQ(thousand.Describe().n, 1'000u);
  EXPECT_DOUBLE_EQ(thousand.Describe().mean, 100e-9);
  EXPECT_THAT(thousand.Describe().std, DoubleNear(0, 1e-15));
  for (int i = 0; i < 10; ++i) ten.Record(100'000e-9);
  EXPECT_DOUBLE_EQ(ten.Describe().mean, 100'000e-9);
}

TEST(Latency, QuantilesAreNearTheExactOnes) {
  std::mt19937_64 random(7);
  std::lognormal_distribution<double> shape(-9, 1.5);
  LatencyRecord latency;
  std::vector<double> values;
  for (int i = 0; i < 20'000; ++i) {
    values.push_back(shape(random));
    latency.Record(values.back());
  }
  const Distribution ours = latency.Describe(), theirs = Describe(values);
  EXPECT_THAT(ours.p50, DoubleNear(theirs.p50, theirs.p50 * 0.05));
  EXPECT_THAT(ours.p90, DoubleNear(theirs.p90, theirs.p90 * 0.05));
  EXPECT_THAT(ours.p95, DoubleNear(theirs.p95, theirs.p95 * 0.05));
  EXPECT_THAT(ours.p99, DoubleNear(theirs.p99, theirs.p99 * 0.05));
  EXPECT_DOUBLE_EQ(ours.min, theirs.min);
  EXPECT_DOUBLE_EQ(ours.max, theirs.max);
  EXPECT_THAT(ours.std, DoubleNear(theirs.std, theirs.std * 1e-9));
}

TEST(Latency, ResetKeepsExportedTotals) {
  LatencyRecord latency;
  for (int i = 0; i < 10; ++i) latency.Record(1e-3);
  latency.Record(0);
  latency.Reset();
  EXPECT_EQ(latency.Describe().n, 0u);
  latency.Record(2e-3);
  EXPECT_EQ(latency.Describe().min, 2e-3);
  instruments::ExponentialCounts all;
  latency.AddTo(all);
  const auto counts = all.buckets.counts();
  EXPECT_EQ(std::accumulate(counts.begin(), counts.end(), all.zeros), 12u);
  EXPECT_DOUBLE_EQ(all.sum, 12e-3);
}

TEST(Rates, OverTheLastSeconds) {
  MessageRates rates;
  rates.Reset(kBegin);
  uint64_t total = 0;
  TimePoint now = kBegin;
  EXPECT_EQ(rates.PerSecond(now, 1s, total), 0) << "no time has passed";
  for (int i = 0; i < 20'000; ++i) {  // 20 s of 1,000 a second
    now += 1ms;
    rates.Count(now, total++);
  }
  for (auto last : {1s, 10s, 60s}) EXPECT_THAT(rates.PerSecond(now, last, total), DoubleNear(1'000, 5));
  for (int i = 0; i < 200; ++i) {  // 2 s of 100
    now += 10ms;
    rates.Count(now, total++);
  }
  EXPECT_THAT(rates.PerSecond(now, 1s, total), DoubleNear(100, 5));
  EXPECT_THAT(rates.PerSecond(now, 10s, total), DoubleNear(800, 100));
  EXPECT_THAT(rates.PerSecond(now, 60s, total), DoubleNear(20'200 / 22.0, 5));
  now += 5s;
  EXPECT_EQ(rates.PerSecond(now, 1s, total), 0);
  EXPECT_GT(rates.PerSecond(now, 10s, total), 0);
  now += 100s;
  EXPECT_EQ(rates.PerSecond(now, 60s, total), 0);
  rates.Count(now, total++);
  EXPECT_EQ(rates.PerSecond(now + 500ms, 60s, total), 1 / 59.5);
}

TEST(KernelRecord, IsUnknownBeforeTheStart) {
  KernelRecord record("k");
  record.SetState(KernelState::kLaunched, kBegin);
  const KernelTelemetry copy = record.Copy(kBegin + 5s, kWall);
  EXPECT_EQ(copy.kernel_id, "k");
  EXPECT_EQ(copy.state, KernelState::kLaunched);
  EXPECT_EQ(copy.start_time, std::nullopt);
  EXPECT_EQ(copy.last_message_time, std::nullopt);
  EXPECT_EQ(copy.uptime, 0ns);
  EXPECT_EQ(copy.throughput, 0);
  EXPECT_EQ(copy.error_rate, 0);
  EXPECT_TRUE(std::isnan(copy.cpu_seconds));
}

TEST(KernelRecord, ThroughputIsOverTheUptime) {
  Started record;
  for (int i = 0; i < 100; ++i) {
    record.Received(kBegin + 10ms * i, 1);
    record.Took(1e-6);
    record.Processed(kBegin + 10ms * i, 10e-6);
    record.Sent(kBegin + 10ms * i);
  }
  EXPECT_EQ(record.Copy(kBegin, kWall - 10s).throughput, 0) << "no uptime";
  const KernelTelemetry at_ten = record.Copy(kBegin + 10s, kWall);
  EXPECT_DOUBLE_EQ(at_ten.throughput, 10);
  EXPECT_EQ(at_ten.uptime, 10s);
  EXPECT_EQ(at_ten.start_time, kWall - 10s);
  EXPECT_EQ(at_ten.last_message_time, kWall - 10s + 990ms);
  const KernelTelemetry at_two = record.Copy(kBegin + 2s, kWall);
  EXPECT_DOUBLE_EQ(at_two.throughput, 50);
  EXPECT_EQ(at_two.messages_received, 100u);
  EXPECT_EQ(at_two.messages_processed, 100u);
  EXPECT_EQ(at_two.messages_sent, 100u);
  EXPECT_EQ(at_two.wait_seconds.n, 100u);
  EXPECT_DOUBLE_EQ(at_two.service_seconds.mean, 10e-6);
}

TEST(KernelRecord, ErrorsAndTheirRate) {
  Started record;
  record.Error(kBegin, "First error", 1e-6);
  EXPECT_EQ(record.Copy(kBegin, kWall).error_rate, 1) << "errors alone";
  record.Error(kBegin, "Second error", kNotMeasured);
  EXPECT_EQ(record.Copy(kBegin, kWall).errors, 2u);
  EXPECT_EQ(record.Copy(kBegin, kWall).last_error, "Second error");
  for (int i = 0; i < 3; ++i) record.Error(kBegin, "e", 0);
  for (int i = 0; i < 95; ++i) record.Processed(kBegin, 0);
  EXPECT_DOUBLE_EQ(record.Copy(kBegin, kWall).error_rate, 5.0 / 95);
  record.Error(kBegin, std::string(254, 'x') + "\xc3\xa9", 0);
  EXPECT_THAT(record.Copy(kBegin, kWall).last_error, SizeIs(254)) << "no half of a character";
}

TEST(KernelRecord, DropsByReason) {
  Started record;
  record.Drop(DropReason::kRejected, 1);
  record.Drop(DropReason::kRejected, 1);
  record.Drop(DropReason::kOldest, 3);
  const KernelTelemetry copy = record.Copy(kBegin, kWall);
  EXPECT_EQ(copy.dropped, 5u);
  EXPECT_EQ(copy.dropped_by[static_cast<size_t>(DropReason::kRejected)], 2u);
  EXPECT_EQ(copy.dropped_by[static_cast<size_t>(DropReason::kOldest)], 3u);
}

TEST(KernelRecord, ResetMovesTheBase) {
  Started record;
  for (int i = 0; i < 100; ++i) {
    record.Received(kBegin + 1s, 7);
    record.Took(1);
    record.Processed(kBegin + 1s, 1);
  }
  record.SetDepth(2);
  record.SetCpu(3);
  record.Error(kBegin + 1s, "e", 1);
  record.Drop(DropReason::kNewest, 4);
  record.Reset(kBegin + 10s);
  const KernelTelemetry fresh = record.Copy(kBegin + 10s, kWall);
  EXPECT_EQ(fresh.kernel_id, "k");
  EXPECT_EQ(fresh.messages_received + fresh.messages_processed + fresh.errors + fresh.dropped, 0u);
  EXPECT_EQ(fresh.last_error, "");
  EXPECT_EQ(fresh.wait_seconds.n + fresh.service_seconds.n, 0u);
  EXPECT_EQ(fresh.throughput, 0);
  EXPECT_EQ(fresh.cpu_seconds, 0);
  EXPECT_EQ(fresh.queue_depth, 2u);
  EXPECT_EQ(fresh.queue_high_water, 2u);
  EXPECT_EQ(fresh.uptime, 10s);
  EXPECT_EQ(fresh.start_time, kWall - 10s);
  for (int i = 0; i < 50; ++i) record.Processed(kBegin + 11s, 0);
  record.SetCpu(4);
  const KernelTelemetry later = record.Copy(kBegin + 15s, kWall);
  EXPECT_DOUBLE_EQ(later.throughput, 10) << "since the reset";
  EXPECT_EQ(later.cpu_seconds, 1);
  EXPECT_DOUBLE_EQ(later.cpu_ratio, 0.2);
  KernelTotals totals;
  record.AddTo(totals);
  EXPECT_EQ(totals.counts.processed, 150u);
  EXPECT_EQ(totals.counts.errors, 1u);
  EXPECT_EQ(totals.counts.dropped[static_cast<size_t>(DropReason::kNewest)], 4u);
  EXPECT_EQ(totals.counts.cpu_seconds, 4);
}

// The clocks are read one after the other, and the second may be late.
TEST(KernelRecord, StartStaysWhateverTheDelayBetweenTwoClocks) {
  Started record;
  record.Processed(kBegin, 0);
  const KernelTelemetry first = record.Copy(kBegin + 1s, kWall + 3us);
  const KernelTelemetry second = record.Copy(kBegin + 2s, kWall + 1s);
  EXPECT_EQ(first.start_time, kWall + 3us - 1s);
  EXPECT_EQ(second.start_time, first.start_time);
  EXPECT_EQ(second.last_message_time, first.start_time) << "not before the start";
}

TEST(KernelRecord, UptimeStopsAtTheEnd) {
  Started record;
  record.Processed(kBegin + 1s, 0);
  record.SetState(KernelState::kTerminating, kBegin + 3s);
  record.SetState(KernelState::kTerminated, kBegin + 4s);
  const KernelTelemetry copy = record.Copy(kBegin + 1'000s, kWall);
  EXPECT_EQ(copy.uptime, 4s);
  EXPECT_DOUBLE_EQ(copy.throughput, 0.25);
  EXPECT_EQ(copy.start_time, kWall - 1'000s);
}

TEST(KernelRecord, RecordingDoesNotAllocate) {
  Started record;
  const std::string what(1'000, 'e');
  const uint64_t before = ThreadAllocations();
  TimePoint now = kBegin;
  for (int i = 1; i < 10'000; ++i) {
    now += 1ms;
    record.Received(now, 1);
    record.Took(i * 1e-6);
    record.Processed(now, i * 1e-9);
    record.Sent(now);
    record.Error(now, what, 1);
    record.Drop(DropReason::kOldest, 1);
  }
  EXPECT_EQ(ThreadAllocations(), before);
}

}  // namespace
}  // namespace gpulens::ring
