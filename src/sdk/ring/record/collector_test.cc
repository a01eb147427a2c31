#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <thread>

#include <gpulens/kernel_telemetry.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/testing/allocations.h"
#include "sdk/ring/record/directory.h"

namespace gpulens {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;
using ::testing::SizeIs;

const Sample* Find(const std::vector<Sample>& all, std::string_view name, std::string_view id,
                   std::string_view reason = {}) {
  for (const Sample& one : all) {
    if (one.name != name) continue;
    bool same = false, why = reason.empty();
    for (const auto& [key, value] : one.attributes) {
      same |= value == id;
      why |= key == "reason" && value == reason;
    }
    if (same && why) return &one;
  }
  return nullptr;
}

TEST(TelemetryCollector, RecordsById) {
  TelemetryCollector collector(true, nullptr);
  for (int i = 0; i < 3; ++i) collector.RecordReceive("k");
  for (int i = 0; i < 3; ++i) collector.RecordSend("k");
  collector.RecordError("k");
  collector.RecordError("k", "why");
  const auto copy = collector.Telemetry("k");
  ASSERT_TRUE(copy);
  EXPECT_EQ(copy->messages_received, 3u);
  EXPECT_EQ(copy->messages_sent, 3u);
  EXPECT_EQ(copy->messages_processed, 3u) << "answered, which is all that is told";
  EXPECT_EQ(copy->errors, 2u);
  EXPECT_EQ(copy->last_error, "why");
  EXPECT_EQ(copy->state, KernelState::kActive);
  EXPECT_TRUE(copy->start_time);
  EXPECT_FALSE(collector.Telemetry("other"));
}

TEST(TelemetryCollector, SendWithoutReceiveIsNotProcessed) {
  TelemetryCollector collector(true, nullptr);
  collector.RecordReceive("k");
  collector.RecordSend("k");
  collector.RecordSend("k");
  EXPECT_EQ(collector.Telemetry("k")->messages_processed, 1u);
  collector.RecordReceive("k");
  collector.RecordError("k");
  collector.RecordSend("k");
  EXPECT_EQ(collector.Telemetry("k")->messages_processed, 1u) << "the second one failed";
  collector.RecordReceive("explicit");
  collector.RecordProcessed("explicit", 1e-3);
  collector.RecordSend("explicit");
  EXPECT_EQ(collector.Telemetry("explicit")->messages_processed, 1u) << "told, so not guessed as well";
}

TEST(TelemetryCollector, StrayErrorsHideNoMessage) {
  TelemetryCollector collector(true, nullptr);
  for (int i = 0; i < 3; ++i) {
    collector.RecordReceive("k");
    collector.RecordSend("k");
    collector.RecordError("k");  // when it cleans up
  }
  EXPECT_EQ(collector.Telemetry("k")->messages_processed, 3u);
  collector.RecordReceive("k");
  collector.RecordError("k");
  collector.RecordError("k");  // twice the same message
  collector.RecordSend("k");
  EXPECT_EQ(collector.Telemetry("k")->messages_processed, 3u);
  collector.RecordReceive("k");
  collector.RecordSend("k");
  EXPECT_EQ(collector.Telemetry("k")->messages_processed, 4u);
  EXPECT_EQ(collector.Telemetry("k")->errors, 5u);
}

TEST(TelemetryCollector, TimesOneMessageAtATime) {
  TelemetryCollector collector(true, nullptr);
  const KernelRecorder kernel = collector.Kernel("k");
  for (int i = 0; i < 3; ++i) {
    const TimePoint received = kernel.Receive(2);
    EXPECT_LE(received, std::chrono::steady_clock::now());
    kernel.Begin(1, received);
    if (i == 2) kernel.Error("e");
    else kernel.Done(i == 0);
  }
  kernel.Done(false);
  kernel.Done(true);
  const KernelTelemetry copy = *collector.Telemetry("k");
  EXPECT_EQ(copy.messages_processed, 2u) << "done without a message is nothing";
  EXPECT_EQ(copy.messages_sent, 2u) << "but a reply is one";
  EXPECT_EQ(copy.errors, 1u);
  EXPECT_EQ(copy.wait_seconds.n, 3u);
  EXPECT_EQ(copy.service_seconds.n, 3u);
  EXPECT_GE(copy.service_seconds.min, 0);
  EXPECT_EQ(copy.queue_depth, 1u);
  EXPECT_EQ(copy.queue_high_water, 2u);
}

TEST(TelemetryCollector, RecordsNothingWhenOff) {
  TelemetryCollector collector(false);
  EXPECT_FALSE(collector.enabled());
  EXPECT_FALSE(collector.Kernel("k"));
  collector.RecordReceive("k");
  collector.RecordError("k", "e");
  collector.Kernel("k").SetState(KernelState::kActive);
  collector.Kernel("k").Begin(1, collector.Kernel("k").Receive());
  collector.Kernel("k").Done(true);
  collector.Reset();
  EXPECT_FALSE(collector.Telemetry("k"));
  EXPECT_THAT(collector.AllTelemetry(), IsEmpty());
  EXPECT_EQ(collector.Summary().kernel_count, 0u);
}

TEST(TelemetryCollector, SummarizesTwoKernels) {
  TelemetryCollector collector(true, nullptr);
  KernelRecorder one = collector.Kernel("k1"), two = collector.Kernel("k2");
  one.Receive();
  one.Processed(1'000e-9, true);
  one.Receive();
  one.Processed(2'000e-9, true);
  one.Drop(DropReason::kOldest);
  two.Receive();
  two.Processed(3'000e-9, true);
  two.Error("e");
  const KernelSummary summary = collector.Summary();
  EXPECT_EQ(summary.kernel_count, 2u);
  EXPECT_EQ(summary.total_messages, 3u);
  EXPECT_EQ(summary.total_dropped, 1u);
  EXPECT_EQ(summary.total_errors, 1u);
  ASSERT_THAT(summary.per_kernel, SizeIs(2));
  EXPECT_DOUBLE_EQ(summary.aggregate_throughput,
                   summary.per_kernel[0].throughput + summary.per_kernel[1].throughput);
  EXPECT_DOUBLE_EQ(summary.per_kernel[0].service_seconds.sum, 3'000e-9);
  two.SetState(KernelState::kTerminated);
  EXPECT_EQ(collector.Summary().kernel_count, 1u);
  EXPECT_EQ(collector.Summary().total_messages, 3u) << "what has ended still counts";
}

TEST(TelemetryCollector, CountsAHundredKernels) {
  TelemetryCollector collector(true, nullptr);
  for (int i = 0; i < 100; ++i) collector.RecordReceive("k" + std::to_string(i));
  collector.RecordReceive("k7");
  EXPECT_EQ(collector.Summary().kernel_count, 100u);
  EXPECT_THAT(collector.AllTelemetry(), SizeIs(100));
}

TEST(TelemetryCollector, ResetsOneOrAll) {
  TelemetryCollector collector(true, nullptr);
  for (const char* id : {"a", "b", "c"}) collector.RecordReceive(id);
  const auto began = collector.Telemetry("a")->start_time;
  collector.Reset("a");
  collector.Reset("nobody");
  EXPECT_EQ(collector.Telemetry("a")->messages_received, 0u);
  EXPECT_LT(*collector.Telemetry("a")->start_time - *began, std::chrono::seconds(1)) << "the start stays";
  EXPECT_EQ(collector.Telemetry("b")->messages_received, 1u);
  const KernelRecorder c = collector.Kernel("c");
  c.SetState(KernelState::kTerminated);
  EXPECT_EQ(collector.Telemetry("c")->messages_received, 1u) << "kept after the end";
  collector.Reset();
  EXPECT_EQ(collector.Telemetry("b")->messages_received, 0u);
  EXPECT_FALSE(collector.Telemetry("c")) << "until a reset";
  EXPECT_EQ(c.Telemetry()->messages_received, 1u) << "who holds it still sees it";
  EXPECT_FALSE(KernelRecorder().Telemetry());
}

TEST(TelemetryCollector, IsExactUnderManyThreads) {
  constexpr int kThreads = 8, kCounts = 1'000'000;
  Registry registry;
  TelemetryCollector collector(true, &registry);
  const KernelRecorder kernel = collector.Kernel("k");
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([kernel]() mutable {
      for (int i = 0; i < kCounts; ++i) kernel.Receive(1);
    });
  }
  uint64_t least = 0;
  for (int i = 0; i < 20; ++i) {
    const uint64_t now = collector.Telemetry("k")->messages_received;
    EXPECT_GE(now, least);
    least = now;
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(collector.Telemetry("k")->messages_received, uint64_t{kThreads} * kCounts);
  EXPECT_EQ(Find(registry.Snapshot(), "ring_kernel.messages.received", "k")->value, kThreads * kCounts);
}

TEST(TelemetryCollector, RecordingDoesNotAllocate) {
  TelemetryCollector collector(true, nullptr);
  KernelRecorder kernel = collector.Kernel("k");
  kernel.Error("something long enough to be no short string");
  const uint64_t before = ThreadAllocations();
  for (int i = 0; i < 1'000; ++i) {
    kernel.Receive(1);
    kernel.Take(0, 1e-6);
    kernel.Processed(i * 1e-6, true);
    kernel.Error("something long enough to be no short string");
  }
  EXPECT_EQ(ThreadAllocations(), before);
}

TEST(TelemetryCollector, KeepsEndedKernelsUpToALimit) {
  TelemetryCollector collector(true, nullptr);
  collector.RecordReceive("stays");
  for (size_t i = 0; i < 3 * ring::kMostEnded; ++i)
    collector.Kernel("k" + std::to_string(i)).SetState(KernelState::kTerminated);
  EXPECT_LE(collector.AllTelemetry().size(), ring::kMostEnded * 5 / 4);
  EXPECT_GE(collector.AllTelemetry().size(), ring::kMostEnded);
  EXPECT_TRUE(collector.Telemetry("stays"));
  EXPECT_TRUE(collector.Telemetry("k" + std::to_string(3 * ring::kMostEnded - 1)));
  EXPECT_FALSE(collector.Telemetry("k0"));
}

TEST(ExportedKernels, AreSeriesOfTheRegistry) {
  Registry registry;
  TelemetryCollector collector(true, &registry);
  KernelRecorder kernel = collector.Kernel("worker");
  kernel.Receive(3);
  kernel.Take(2, 0.5);
  kernel.Processed(0.25, true);
  kernel.Error("e", 0.25);
  kernel.Drop(DropReason::kRejected, 4);
  kernel.AddCpu(1.5);
  const std::vector<Sample> all = registry.Snapshot();
  const Sample* received = Find(all, "ring_kernel.messages.received", "worker");
  ASSERT_TRUE(received);
  EXPECT_EQ(received->value, 1);
  EXPECT_TRUE(received->integer);
  EXPECT_EQ(received->unit, "{message}");
  EXPECT_EQ(received->kind, InstrumentKind::kCounter);
  EXPECT_GT(received->start_unix_ns, 1'600'000'000'000'000'000);
  EXPECT_THAT(received->attributes, ElementsAre(Pair("ring_kernel.id", "worker")));
  EXPECT_EQ(Find(all, "ring_kernel.messages.sent", "worker")->value, 1);
  EXPECT_EQ(Find(all, "ring_kernel.messages.processed", "worker")->value, 1);
  EXPECT_EQ(Find(all, "ring_kernel.errors", "worker")->value, 1);
  EXPECT_EQ(Find(all, "ring_kernel.messages.dropped", "worker", "rejected")->value, 4);
  EXPECT_EQ(Find(all, "ring_kernel.messages.dropped", "worker", "oldest")->value, 0);
  EXPECT_EQ(Find(all, "ring_kernel.queue.depth", "worker")->value, 2);
  EXPECT_EQ(Find(all, "ring_kernel.cpu.time", "worker")->value, 1.5);
  const Sample* service = Find(all, "ring_kernel.service.duration", "worker");
  EXPECT_EQ(service->count, 2u);
  EXPECT_EQ(service->sum, 0.5);
  EXPECT_TRUE(service->exponential);
  EXPECT_EQ(Find(all, "ring_kernel.wait.duration", "worker")->count, 1u);
}

TEST(ExportedKernels, NeverFall) {
  Registry registry;
  {
    TelemetryCollector collector(true, &registry);
    KernelRecorder kernel = collector.Kernel("k");
    for (int i = 0; i < 5; ++i) kernel.Receive(1);
    collector.Reset();
    EXPECT_EQ(Find(registry.Snapshot(), "ring_kernel.messages.received", "k")->value, 5);
    kernel.Receive(1);
    EXPECT_EQ(collector.Telemetry("k")->messages_received, 1u);
    EXPECT_EQ(Find(registry.Snapshot(), "ring_kernel.messages.received", "k")->value, 6);
    kernel.SetState(KernelState::kTerminated);
    collector.Kernel("k").Receive(1);
    EXPECT_EQ(collector.Telemetry("k")->messages_received, 1u) << "a new kernel of the same name";
    EXPECT_EQ(Find(registry.Snapshot(), "ring_kernel.messages.received", "k")->value, 7);
    EXPECT_FALSE(Find(registry.Snapshot(), "ring_kernel.cpu.time", "k")) << "not known is not told";
  }
  EXPECT_EQ(Find(registry.Snapshot(), "ring_kernel.messages.received", "k")->value, 7);
  EXPECT_FALSE(Find(registry.Snapshot(), "ring_kernel.queue.depth", "k")) << "there is no queue any more";
  TelemetryCollector again(true, &registry), second(true, &registry);
  again.RecordReceive("k");
  second.RecordReceive("k");
  EXPECT_EQ(Find(registry.Snapshot(), "ring_kernel.messages.received", "k")->value, 9);
}

TEST(ExportedKernels, MergesKernelsBeyondTheLimit) {
  Registry registry;
  TelemetryCollector collector(true, &registry);
  for (size_t i = 0; i < ring::kMostExportedIds + 5; ++i) collector.RecordReceive("k" + std::to_string(i));
  const std::vector<Sample> all = registry.Snapshot();
  size_t series = 0;
  for (const Sample& one : all) series += one.name == "ring_kernel.messages.received";
  EXPECT_EQ(series, ring::kMostExportedIds + 1);
  const Sample* rest = Find(all, "ring_kernel.messages.received", "true");
  ASSERT_TRUE(rest);
  EXPECT_THAT(rest->attributes, ElementsAre(Pair("otel.metric.overflow", "true")));
  EXPECT_EQ(rest->value, 5);
}

TEST(ExportedKernels, ForkRestartsCounts) {
  Registry registry;
  TelemetryCollector collector(true, &registry);
  collector.RecordReceive("parents");
  const pid_t child = ::fork();
  if (child == 0) {
    bool good = !Find(registry.Snapshot(), "ring_kernel.messages.received", "parents");
    TelemetryCollector own(true, &registry);
    own.RecordReceive("childs");
    const std::vector<Sample> all = registry.Snapshot();
    good = good && Find(all, "ring_kernel.messages.received", "childs") &&
           !Find(all, "ring_kernel.messages.received", "parents");
    ::_exit(good ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  EXPECT_TRUE(Find(registry.Snapshot(), "ring_kernel.messages.received", "parents"));
}

}  // namespace
}  // namespace gpulens
