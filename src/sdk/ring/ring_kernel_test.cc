#include <gmock/gmock.h>
#include <gpulens/ring_kernel.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <future>
#include <stdexcept>
#include <thread>

#include "base/testing/allocations.h"

namespace gpulens {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr Duration kTimeout = 20s;  // of what must come

uint64_t Dropped(const KernelTelemetry& of, DropReason reason) {
  return of.dropped_by[static_cast<size_t>(reason)];
}

const Sample* FindSample(const std::vector<Sample>& all, std::string_view name) {
  for (const Sample& one : all) {
    if (one.name == name) return &one;
  }
  return nullptr;
}

// Waits for a condition of another thread.
template <class Condition>
bool Comes(const Condition& condition) {
  const auto until = std::chrono::steady_clock::now() + kTimeout;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > until) return false;
    std::this_thread::yield();
  }
  return true;
}

// Holds a handler until it is let go.
class Gate {
 public:
  void Pass() {
    inside_.fetch_add(1);
    future_.wait();
  }
  bool Holds() {
    return Comes([this] { return inside_.load() > 0; });
  }
  void Open() { promise_.set_value(); }

 private:
  std::atomic<int> inside_{0};
  std::promise<void> promise_;
  std::shared_future<void> future_ = promise_.get_future().share();
};

struct Runtime {
  explicit Runtime(bool telemetry = true) : runtime({.enable_telemetry = telemetry, .exported = &registry}) {}
  template <class In, class Out>
  RingKernel<In, Out> Start(std::string_view id, std::function<Out(In)> handler,
                            const KernelOptions& options = {}) {
    auto kernel = runtime.Launch<In, Out>(id, std::move(handler), options);
    EXPECT_TRUE(kernel.ok());
    EXPECT_TRUE(runtime.Activate(id).ok());
    return *kernel;
  }
  KernelTelemetry Of(std::string_view id) { return runtime.telemetry(id).value(); }
  Registry registry;
  RingKernelRuntime runtime;
};

TEST(RingKernel, RunsTheExample) {
  Runtime the;
  auto square = the.Start<int, long>("square", [](int x) { return long{x} * x; });
  EXPECT_TRUE(square.Send(7, 1s).ok());
  EXPECT_EQ(square.Receive(kTimeout).value_or(-1), 49);
}

TEST(RingKernel, CountsAHundredMessagesInOrder) {
  Runtime the;
  auto echo = the.Start<std::string, std::string>("worker", [](std::string text) { return text + "!"; });
  EXPECT_EQ(the.Of("worker").messages_processed, 0u);
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(echo.Send(std::to_string(i)).ok());
  for (int i = 0; i < 100; ++i) ASSERT_EQ(echo.Receive(kTimeout).value_or(""), std::to_string(i) + "!");
  const KernelTelemetry copy = the.Of("worker");
  EXPECT_EQ(copy.messages_received, 100u);
  EXPECT_EQ(copy.messages_processed, 100u);
  EXPECT_EQ(copy.messages_sent, 100u);
  EXPECT_EQ(copy.wait_seconds.n, 100u);
  EXPECT_EQ(copy.service_seconds.n, 100u);
  EXPECT_GT(copy.throughput, 0);
  EXPECT_GT(copy.throughput_60s, 0);
  EXPECT_GT(copy.uptime, 0ns);
  EXPECT_EQ(copy.queue_depth, 0u);
  EXPECT_GE(copy.queue_high_water, 1u);
  EXPECT_EQ(copy.queue_limit, 4'096u);
  EXPECT_GE(copy.cpu_seconds, 0);
  EXPECT_TRUE(copy.last_message_time);
  EXPECT_EQ(copy.state, KernelState::kActive);
}

TEST(RingKernel, CountsExceptionsAndContinues) {
  Runtime the;
  auto kernel = the.Start<int, int>("k", [](int x) {
    if (x == 13) throw 13;
    if (x % 20 == 0) throw std::runtime_error("no twenties: " + std::to_string(x));
    return x;
  });
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(kernel.Send(i).ok());
  for (int i = 0; i < 94; ++i) ASSERT_TRUE(kernel.Receive(kTimeout).ok());
  const KernelTelemetry copy = the.Of("k");
  EXPECT_EQ(copy.errors, 6u);
  EXPECT_EQ(copy.messages_processed, 94u);
  EXPECT_DOUBLE_EQ(copy.error_rate, 6.0 / 94);
  EXPECT_EQ(copy.last_error, "no twenties: 80");
  EXPECT_EQ(copy.service_seconds.n, 100u);
  EXPECT_EQ(copy.state, KernelState::kActive);
}

TEST(RingKernel, RunsWithoutReplies) {
  Runtime the;
  std::atomic<int> sum{0};
  auto kernel = the.Start<int, void>("sum", [&](int x) { sum += x; });
  for (int i = 1; i <= 10; ++i) ASSERT_TRUE(kernel.Send(i).ok());
  EXPECT_TRUE(Comes([&] { return the.Of("sum").messages_processed == 10; }));
  EXPECT_EQ(sum, 55);
  EXPECT_EQ(the.Of("sum").messages_sent, 0u);
}

TEST(RingKernel, ReceiveTimesOutWithoutAReply) {
  Runtime the;
  auto kernel = the.Start<int, int>("k", [](int x) { return x; });
  const auto before = std::chrono::steady_clock::now();
  EXPECT_EQ(kernel.Receive(30ms).status().code, Code::kTimeout);
  EXPECT_GE(std::chrono::steady_clock::now() - before, 30ms);
  EXPECT_EQ(kernel.Receive(0s).status().code, Code::kTimeout);
}

TEST(RingKernel, MovesMoveOnlyMessages) {
  Runtime the;
  using Box = std::unique_ptr<int>;
  auto kernel = the.Start<Box, Box>("k", [](Box box) { return ++*box, std::move(box); }, {.queue_size = 1});
  EXPECT_TRUE(kernel.Send(std::make_unique<int>(1)).ok());
  EXPECT_EQ(**kernel.Receive(kTimeout), 2);
}

TEST(RingKernel, States) {
  Runtime the;
  RingKernelRuntime& runtime = the.runtime;
  auto kernel = runtime.Launch<int, int>("k", [](int x) { return x; });
  ASSERT_TRUE(kernel);
  EXPECT_EQ(*runtime.state("k"), KernelState::kLaunched);
  EXPECT_EQ(the.Of("k").state, KernelState::kLaunched);
  EXPECT_EQ(the.Of("k").start_time, std::nullopt);
  const Status early = kernel->Send(1);
  EXPECT_EQ(early.code, Code::kInvalidArgument);
  EXPECT_THAT(early.detail, HasSubstr("\"k\" is launched: activate it before you send"));
  EXPECT_EQ(kernel->Receive(0s).status().code, Code::kInvalidArgument);
  EXPECT_FALSE(runtime.Deactivate("k").ok());
  EXPECT_FALSE(runtime.Reactivate("k").ok());
  EXPECT_TRUE(runtime.Activate("k").ok());
  EXPECT_EQ(the.Of("k").state, KernelState::kActive);
  EXPECT_LT(std::chrono::system_clock::now() - *the.Of("k").start_time, kTimeout);
  const Status twice = runtime.Activate("k");
  EXPECT_EQ(twice.code, Code::kInvalidArgument);
  EXPECT_THAT(twice.detail, HasSubstr("is active; only one that is launched can be activated"));
  EXPECT_TRUE(runtime.Deactivate("k").ok());
  EXPECT_FALSE(runtime.Activate("k").ok()) << "that is what Reactivate is for";
  EXPECT_TRUE(runtime.Reactivate("k").ok());
  EXPECT_TRUE(runtime.Terminate("k").ok());
  EXPECT_EQ(the.Of("k").state, KernelState::kTerminated);
  EXPECT_EQ(runtime.state("k").status().code, Code::kInvalidArgument) << "forgotten";
  EXPECT_EQ(kernel->Send(1).code, Code::kUnavailable);
  EXPECT_FALSE(kernel->TrySend(1));
}

TEST(RingKernel, QueuesMessagesWhileDeactivated) {
  Runtime the;
  auto kernel = the.Start<int, int>("k", [](int x) { return x; });
  ASSERT_TRUE(the.runtime.Deactivate("k").ok());
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(kernel.Send(i).ok());
  EXPECT_EQ(kernel.Receive(20ms).status().code, Code::kTimeout);
  EXPECT_EQ(the.Of("k").queue_depth, 3u);
  EXPECT_EQ(the.Of("k").messages_received, 3u);
  EXPECT_EQ(the.Of("k").messages_processed, 0u);
  ASSERT_TRUE(the.runtime.Reactivate("k").ok());
  for (int i = 0; i < 3; ++i) EXPECT_EQ(kernel.Receive(kTimeout).value_or(-1), i);
}

TEST(RingKernel, RejectsInvalidLaunches) {
  Runtime the;
  RingKernelRuntime& runtime = the.runtime;
  const auto echo = [](int x) { return x; };
  EXPECT_THAT((runtime.Launch<int, int>("", echo).status().detail), HasSubstr("1 to 255 bytes"));
  EXPECT_EQ((runtime.Launch<int, int>(std::string(256, 'k'), echo).status().code), Code::kInvalidArgument);
  EXPECT_THAT((runtime.Launch<int, int>("k", nullptr).status().detail), HasSubstr("has no handler"));
  EXPECT_THAT((runtime.Launch<int, int>("k", echo, {.queue_size = 0}).status().detail),
              HasSubstr("queue_size"));
  EXPECT_EQ((runtime.Launch<int, int>("k", echo, {.queue_size = size_t{1} << 25}).status().code),
            Code::kInvalidArgument);
  ASSERT_TRUE((runtime.Launch<int, int>("k", echo)));
  EXPECT_THAT((runtime.Launch<int, int>("k", echo).status().detail), HasSubstr("already, which is launched"));
  const Status unknown = runtime.Activate("nobody");
  EXPECT_EQ(unknown.code, Code::kInvalidArgument);
  EXPECT_THAT(unknown.detail, HasSubstr("no kernel \"nobody\"; there are: k"));
  EXPECT_THAT(runtime.kernel_ids(), ElementsAre("k"));
}

TEST(RingKernel, WhenFullRejects) {
  Runtime the;
  auto kernel =
      the.Start<int, int>("k", [](int x) { return x; }, {.queue_size = 2, .when_full = WhenFull::kReject});
  ASSERT_TRUE(the.runtime.Deactivate("k").ok());
  EXPECT_TRUE(kernel.Send(1).ok());
  EXPECT_TRUE(kernel.Send(2).ok());
  EXPECT_EQ(kernel.Send(3).code, Code::kExhausted);
  int four = 4;
  EXPECT_FALSE(kernel.TrySend(std::move(four)));
  const KernelTelemetry copy = the.Of("k");
  EXPECT_EQ(copy.messages_received, 2u);
  EXPECT_EQ(Dropped(copy, DropReason::kRejected), 2u);
  EXPECT_EQ(copy.queue_high_water, 2u);
}

TEST(RingKernel, WhenFullDropsTheOldest) {
  Runtime the;
  auto kernel = the.Start<std::string, std::string>("k", [](std::string x) { return x; },
                                                    {.queue_size = 2, .when_full = WhenFull::kDropOldest});
  ASSERT_TRUE(the.runtime.Deactivate("k").ok());
  for (const char* text : {"one", "two", "three", "four", "five"}) EXPECT_TRUE(kernel.Send(text).ok());
  const KernelTelemetry copy = the.Of("k");
  EXPECT_EQ(copy.queue_depth, 2u);
  EXPECT_EQ(copy.messages_received, 5u);
  EXPECT_EQ(Dropped(copy, DropReason::kOldest), 3u);
  ASSERT_TRUE(the.runtime.Reactivate("k").ok());
  EXPECT_EQ(kernel.Receive(kTimeout).value_or(""), "four");
  EXPECT_EQ(kernel.Receive(kTimeout).value_or(""), "five");
}

TEST(RingKernel, WhenFullDropsTheNewest) {
  Runtime the;
  auto kernel = the.Start<int, int>("k", [](int x) { return x; },
                                    {.queue_size = 2, .when_full = WhenFull::kDropNewest});
  ASSERT_TRUE(the.runtime.Deactivate("k").ok());
  for (int i = 1; i <= 5; ++i) EXPECT_TRUE(kernel.Send(i).ok());
  EXPECT_EQ(the.Of("k").messages_received, 2u);
  EXPECT_EQ(Dropped(the.Of("k"), DropReason::kNewest), 3u);
  ASSERT_TRUE(the.runtime.Reactivate("k").ok());
  EXPECT_EQ(kernel.Receive(kTimeout).value_or(-1), 1);
  EXPECT_EQ(kernel.Receive(kTimeout).value_or(-1), 2);
}

TEST(RingKernel, WhenFullBlocksUntilThereIsRoomOrTheDeadline) {
  Runtime the;
  auto kernel = the.Start<int, int>("k", [](int x) { return x; }, {.queue_size = 1});
  ASSERT_TRUE(the.runtime.Deactivate("k").ok());
  EXPECT_TRUE(kernel.Send(1).ok());
  EXPECT_EQ(kernel.Send(2, 10ms).code, Code::kTimeout);
  EXPECT_FALSE(kernel.TrySend(3));
  EXPECT_EQ(Dropped(the.Of("k"), DropReason::kTimeout), 1u);
  EXPECT_EQ(Dropped(the.Of("k"), DropReason::kRejected), 1u);
  std::thread sender([&] { EXPECT_TRUE(kernel.Send(4, kTimeout).ok()); });
  ASSERT_TRUE(the.runtime.Reactivate("k").ok());
  EXPECT_EQ(kernel.Receive(kTimeout).value_or(-1), 1);
  EXPECT_EQ(kernel.Receive(kTimeout).value_or(-1), 4);
  sender.join();
}

TEST(RingKernel, BlocksOrDropsUnreceivedReplies) {
  Runtime the;
  const auto echo = [](int x) { return x; };
  auto rejects = the.Start<int, int>("rejects", echo, {.queue_size = 2, .when_full = WhenFull::kReject});
  auto oldest = the.Start<int, int>("oldest", echo, {.queue_size = 2, .when_full = WhenFull::kDropOldest});
  for (const char* id : {"rejects", "oldest"}) {
    auto& kernel = id == std::string("rejects") ? rejects : oldest;
    for (uint64_t i = 0; i < 5; ++i) {
      ASSERT_TRUE(kernel.Send(static_cast<int>(i)).ok());
      ASSERT_TRUE(Comes([&] { return the.Of(id).messages_processed == i + 1; }));
    }
    EXPECT_EQ(Dropped(the.Of(id), DropReason::kReply), 3u) << id;
  }
  EXPECT_EQ(the.Of("rejects").messages_sent, 2u);
  EXPECT_EQ(the.Of("oldest").messages_sent, 5u);
  EXPECT_EQ(rejects.Receive(kTimeout).value_or(-1), 0);
  EXPECT_EQ(oldest.Receive(kTimeout).value_or(-1), 3);
}

TEST(RingKernel, TerminateWakesAllWaiters) {
  Runtime the;
  auto kernel = the.Start<int, int>("k", [](int x) { return x; }, {.queue_size = 1});
  auto idle = the.Start<int, int>("idle", [](int x) { return x; });
  ASSERT_TRUE(the.runtime.Deactivate("k").ok());
  ASSERT_TRUE(kernel.Send(1).ok());
  Status sent, received;
  std::atomic<int> ready{0};
  std::thread sender([&] { ++ready, sent = kernel.Send(2); });
  std::thread receiver([&] { ++ready, received = idle.Receive().status(); });
  EXPECT_TRUE(Comes([&] { return ready == 2; }));
  EXPECT_TRUE(the.runtime.Terminate("k", kTimeout).ok());
  EXPECT_TRUE(the.runtime.Terminate("idle", kTimeout).ok());
  sender.join();
  receiver.join();
  EXPECT_EQ(sent.code, Code::kUnavailable);
  EXPECT_EQ(received.code, Code::kUnavailable);
  EXPECT_THAT(received.detail, HasSubstr("terminat"));
  EXPECT_EQ(Dropped(the.Of("k"), DropReason::kTerminated), 1u);
}

TEST(RingKernel, KeepsAKernelWhoseHandlerDoesNotEnd) {
  Runtime the;
  Gate gate;
  auto kernel = the.Start<int, int>("k", [&](int x) { return gate.Pass(), x; });
  ASSERT_TRUE(kernel.Send(1).ok());
  ASSERT_TRUE(gate.Holds());
  EXPECT_EQ(the.runtime.Terminate("k", 10ms).code, Code::kTimeout);
  EXPECT_EQ(*the.runtime.state("k"), KernelState::kTerminating);
  EXPECT_EQ(kernel.Send(2).code, Code::kUnavailable);
  gate.Open();
  EXPECT_TRUE(the.runtime.Terminate("k", kTimeout).ok());
  EXPECT_EQ(the.Of("k").messages_processed, 1u);
  EXPECT_EQ(Dropped(the.Of("k"), DropReason::kTerminated), 1u) << "its reply";
}

TEST(RingKernel, CannotTerminateItselfButEnds) {
  Runtime the;
  std::promise<Status> got;
  auto kernel = the.Start<int, void>("k", [&](int) { got.set_value(the.runtime.Terminate("k")); });
  ASSERT_TRUE(kernel.Send(1).ok());
  EXPECT_EQ(got.get_future().get().code, Code::kInvalidArgument);
  EXPECT_TRUE(the.runtime.Terminate("k", kTimeout).ok());
}

TEST(RingKernel, HandlesOutliveTheRuntime) {
  std::optional<RingKernel<int, int>> kernel;
  {
    Runtime the;
    kernel = the.Start<int, int>("k", [](int x) { return x; });
  }
  EXPECT_EQ(kernel->Send(1).code, Code::kUnavailable);
  EXPECT_EQ(kernel->Receive().status().code, Code::kUnavailable);
}

TEST(RingKernel, TelemetryOutlivesTheKernelUntilAReset) {
  Runtime the;
  const auto echo = [](int x) { return x; };
  for (uint64_t round = 1; round <= 2; ++round) {
    auto kernel = the.Start<int, int>("k", echo);
    EXPECT_EQ(the.Of("k").messages_processed, 0u) << "a new one begins at 0";
    for (uint64_t i = 0; i < round; ++i) ASSERT_TRUE(kernel.Send(1).ok() && kernel.Receive(kTimeout).ok());
    ASSERT_TRUE(the.runtime.Terminate("k").ok());
    EXPECT_EQ(the.Of("k").messages_processed, round);
  }
  const KernelTelemetry last = the.Of("k");
  EXPECT_EQ(the.Of("k").uptime, last.uptime) << "stands still";
  EXPECT_EQ(the.runtime.Summary().kernel_count, 0u);
  EXPECT_EQ(the.runtime.Summary().total_messages, 2u);
  EXPECT_EQ(FindSample(the.registry.Snapshot(), "ring_kernel.messages.processed")->value, 3) << "of both";
  the.runtime.ResetTelemetry();
  EXPECT_FALSE(the.runtime.telemetry("k"));
  EXPECT_EQ(FindSample(the.registry.Snapshot(), "ring_kernel.messages.processed")->value, 3);
}

TEST(RingKernel, ResetRestartsCountsOfARunningKernel) {
  Runtime the;
  const auto echo = [](int x) { return x; };
  auto a = the.Start<int, int>("a", echo), b = the.Start<int, int>("b", echo);
  for (auto* kernel : {&a, &b}) ASSERT_TRUE(kernel->Send(1).ok() && kernel->Receive(kTimeout).ok());
  const double cpu = the.Of("a").cpu_seconds;
  the.runtime.ResetTelemetry("a");
  EXPECT_EQ(the.Of("a").messages_processed, 0u);
  EXPECT_GE(the.Of("a").cpu_seconds, 0);
  EXPECT_LT(the.Of("a").cpu_seconds, cpu + 10);
  EXPECT_TRUE(the.Of("a").start_time);
  EXPECT_EQ(the.Of("b").messages_processed, 1u);
  ASSERT_TRUE(a.Send(1).ok() && a.Receive(kTimeout).ok());
  EXPECT_EQ(the.Of("a").messages_processed, 1u);
  EXPECT_EQ(FindSample(the.registry.Snapshot(), "ring_kernel.messages.processed")->value, 2);
}

TEST(RingKernel, TelemetryIsOffByDefault) {
  RingKernelRuntime runtime;
  EXPECT_FALSE(runtime.telemetry_enabled());
  auto kernel = runtime.Launch<int, int>("k", [](int x) { return x; });
  ASSERT_TRUE(kernel && runtime.Activate("k").ok());
  for (int i = 0; i < 10; ++i) ASSERT_TRUE(kernel->Send(i).ok() && kernel->Receive(kTimeout).ok());
  EXPECT_FALSE(runtime.telemetry("k"));
  EXPECT_THAT(runtime.all_telemetry(), IsEmpty());
  EXPECT_EQ(runtime.Summary().kernel_count, 1u);
  EXPECT_EQ(runtime.Summary().total_messages, 0u);
  runtime.ResetTelemetry();
  for (const Sample& one : Registry::Process().Snapshot())
    EXPECT_EQ(one.name.find("ring_kernel"), one.name.npos);
}

using Loop = RingContext<int, int>;

TEST(RingLoop, ReceivesAndSendsUntilTermination) {
  Runtime the;
  auto kernel = the.runtime.LaunchLoop<int, int>("loop", [](Loop& context) {
    while (auto message = context.Receive()) {
      if (*message < 0) continue;
      for (int i = 0; i < 2; ++i) static_cast<void>(context.Send(*message + i));
    }
    EXPECT_TRUE(context.should_terminate());
  });
  ASSERT_TRUE(kernel && the.runtime.Activate("loop").ok());
  for (int i = 0; i < 10; ++i) {
    ASSERT_TRUE(kernel->Send(i).ok() && kernel->Send(-1).ok());
    EXPECT_EQ(kernel->Receive(kTimeout).value_or(-1), i);
    EXPECT_EQ(kernel->Receive(kTimeout).value_or(-1), i + 1);
  }
  EXPECT_TRUE(Comes([&] { return the.Of("loop").messages_processed == 20; })) << "one for each receive";
  EXPECT_EQ(the.Of("loop").messages_sent, 20u);
  EXPECT_EQ(the.Of("loop").service_seconds.n, 20u);
  EXPECT_TRUE(the.runtime.Terminate("loop", kTimeout).ok());
}

TEST(RingLoop, FailsWhenItThrows) {
  Runtime the;
  auto kernel = the.runtime.LaunchLoop<int, int>("loop", [](Loop& context) {
    auto message = context.Receive();
    static_cast<void>(context.Send(*message));
    message = context.Receive();
    throw std::runtime_error("two is too many");
  });
  ASSERT_TRUE(kernel && the.runtime.Activate("loop").ok());
  ASSERT_TRUE(kernel->Send(1).ok() && kernel->Send(2).ok());
  EXPECT_TRUE(Comes([&] { return *the.runtime.state("loop") == KernelState::kFailed; }));
  EXPECT_EQ(kernel->Receive(kTimeout).value_or(-1), 1) << "the reply from before is still there";
  const Status none = kernel->Receive().status();
  EXPECT_EQ(none.code, Code::kUnavailable);
  EXPECT_THAT(none.detail, HasSubstr("\"loop\" has failed: two is too many"));
  EXPECT_EQ(kernel->Send(3).code, Code::kUnavailable);
  const KernelTelemetry copy = the.Of("loop");
  EXPECT_EQ(copy.state, KernelState::kFailed);
  EXPECT_EQ(copy.errors, 1u);
  EXPECT_EQ(copy.messages_processed, 1u);
  EXPECT_FALSE(the.runtime.Activate("loop").ok());
  EXPECT_TRUE(the.runtime.Terminate("loop").ok());
  EXPECT_EQ(the.Of("loop").state, KernelState::kTerminated);
}

TEST(RingLoop, EndsWhenItReturns) {
  Runtime the;
  auto once = [](Loop& context) { static_cast<void>(context.Send(*context.Receive() + 1)); };
  for (int i = 0; i < 3; ++i) {
    auto kernel = the.runtime.LaunchLoop<int, int>("once", once);
    ASSERT_TRUE(kernel) << "the id is free again";
    ASSERT_TRUE(the.runtime.Activate("once").ok() && kernel->Send(i).ok());
    EXPECT_TRUE(Comes([&] { return *the.runtime.state("once") == KernelState::kTerminated; }));
    EXPECT_EQ(kernel->Receive().value_or(-1), i + 1);
    EXPECT_EQ(kernel->Receive().status().code, Code::kUnavailable);
  }
}

TEST(RingRuntime, SummarySumsItsKernels) {
  Runtime the;
  const auto echo = [](int x) { return x; };
  for (const char* id : {"worker_0", "worker_1", "worker_2"}) {
    auto kernel = the.Start<int, int>(id, echo);
    for (int i = 0; i < 10; ++i) ASSERT_TRUE(kernel.Send(i).ok() && kernel.Receive(kTimeout).ok());
  }
  const KernelSummary summary = the.runtime.Summary();
  EXPECT_EQ(summary.kernel_count, 3u);
  EXPECT_EQ(summary.total_messages, 30u);
  ASSERT_THAT(summary.per_kernel, SizeIs(3));
  double throughput = 0;
  for (const KernelTelemetry& one : summary.per_kernel) {
    EXPECT_GT(one.throughput, 0);
    throughput += one.throughput;
  }
  EXPECT_DOUBLE_EQ(summary.aggregate_throughput, throughput);
  EXPECT_THAT(the.runtime.all_telemetry(), SizeIs(3));
}

TEST(RingRuntime, IsExactUnderManySenders) {
  constexpr int kThreads = 8, kCounts = 20'000;
  Runtime the;
  std::atomic<uint64_t> sum{0};
  auto kernel =
      the.Start<int, void>("k", [&](int x) { sum += static_cast<uint64_t>(x); }, {.queue_size = 64});
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < kCounts; ++i) EXPECT_TRUE(kernel.Send(1).ok());
    });
  }
  for (int i = 0; i < 100; ++i) {  // at every instant the numbers agree with each other
    const KernelTelemetry copy = the.Of("k");
    const uint64_t done = copy.messages_processed + copy.queue_depth;
    EXPECT_GE(copy.messages_received, done);
    EXPECT_LE(copy.messages_received, done + 1);
    EXPECT_EQ(copy.service_seconds.n, copy.messages_processed);
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_TRUE(Comes([&] { return the.Of("k").messages_processed == kThreads * kCounts; }));
  EXPECT_EQ(sum, uint64_t{kThreads} * kCounts);
  EXPECT_EQ(the.Of("k").dropped, 0u);
}

TEST(RingRuntime, DoesNotAllocateInSteadyRoundTrips) {
  if (!AllocationsAreCounted()) GTEST_SKIP() << "a sanitizer has its own operator new";
  Runtime the;
  auto kernel = the.Start<int, int>("k", [](int x) { return x; });
  const auto round = [&] { ASSERT_TRUE(kernel.Send(1).ok() && kernel.Receive(kTimeout).ok()); };
  for (int i = 0; i < 100; ++i) round();
  const uint64_t before = AllAllocations();
  for (int i = 0; i < 1'000; ++i) round();
  EXPECT_EQ(AllAllocations(), before);
}

TEST(RingRuntime, SpinningGivesTheSameResults) {
  Runtime the;
  auto kernel = the.Start<int, int>("k", [](int x) { return x; }, {.spin = 50us});
  for (int i = 0; i < 200; ++i)
    ASSERT_TRUE(kernel.Send(i).ok() && kernel.Receive(kTimeout).value_or(-1) == i);
  EXPECT_TRUE(the.runtime.Terminate("k", kTimeout).ok());
}

}  // namespace
}  // namespace gpulens
