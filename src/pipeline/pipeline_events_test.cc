// Delivery of events from the queue to the sinks.

#include <gtest/gtest.h>

#include <condition_variable>
#include <mutex>

#include "base/no_threads_testing.h"
#include "pipeline/sink_runner.h"
#include "plugins/event_queue.h"
#include "plugins/receiver.h"

namespace gpulens {
namespace {

using std::chrono::seconds;

struct Taken {
  std::mutex mutex;
  std::condition_variable wake;
  size_t events = 0, snapshots = 0, received = 0;
  bool block = false, fail = false;
};
Taken* taken = nullptr;

class TakenSink : public Sink {
 public:
  Status Write(const Snapshot&) override {
    std::unique_lock lock(taken->mutex);
    taken->wake.wait(lock, [] { return !taken->block; });
    ++taken->snapshots;
    taken->wake.notify_all();
    return Ok();
  }
  Status Write(const Events& events) override {
    std::unique_lock lock(taken->mutex);
    taken->wake.wait(lock, [] { return !taken->block; });
    taken->events += events.list.size();
    taken->wake.notify_all();
    return taken->fail ? Status{Code::kIo, "told to fail"} : Ok();
  }
};

const SinkSpec kThreaded{.name = "threaded", .help = "x.", .threaded = true};
const SinkSpec kPlainSink{.name = "plain", .help = "x."};

class EventBuffer : public ::testing::Test {
 protected:
  EventBuffer() { taken = &taken_; }
  static Ref<const Events> EventList(size_t count) {
    Ref<Events> events = MakeRef<Events>();
    events->list.resize(count);
    return events;
  }
  void Block(bool on) {
    std::lock_guard lock(taken_.mutex);
    taken_.block = on;
    taken_.wake.notify_all();
  }
  bool WaitForEvents(size_t count) {
    std::unique_lock lock(taken_.mutex);
    return taken_.wake.wait_for(lock, seconds(20), [&] { return taken_.events >= count; });
  }
  static uint64_t Dropped(const SinkRunner& runner, SinkDropReason why) {
    return runner.stats().events_dropped[static_cast<size_t>(why)];
  }
  Taken taken_;
};

TEST_F(EventBuffer, ASinkWithoutAThreadGetsThemAtOnce) {
  SinkRunner runner({"sink", &kPlainSink, {}, {}}, std::make_unique<TakenSink>(), RealClock());
  runner.Offer(EventList(3));
  EXPECT_EQ(taken_.events, 3u);
  taken_.fail = true;
  runner.Offer(EventList(1));
  EXPECT_EQ(Dropped(runner, SinkDropReason::kRejected), 1u);
  EXPECT_EQ(runner.stats().dropped[static_cast<size_t>(SinkDropReason::kRejected)], 0u)
      << "snapshots count for themselves";
}

TEST_F(EventBuffer, ASlowSinkKeepsTheNewestAndCountsTheDropped) {
  Block(true);
  SinkRunner runner({"sink", &kThreaded, {}, {}}, std::make_unique<TakenSink>(), RealClock());
  // One may be in the sink's hands already.
  for (size_t i = 0; i < SinkRunner::kEventQueueDepth + 11; ++i) runner.Offer(EventList(1));
  uint64_t lost = Dropped(runner, SinkDropReason::kOverload);
  EXPECT_GE(lost, 10u);
  EXPECT_LE(lost, 11u);
  EXPECT_EQ(runner.stats().events_queued, SinkRunner::kEventQueueDepth);
  Block(false);
  EXPECT_TRUE(WaitForEvents(SinkRunner::kEventQueueDepth));
}

TEST_F(EventBuffer, ASinkWhoseThreadFoundNoRoomIsDownAndTriesAgain) {
  auto none = std::make_unique<NoThreads>();
  SinkRunner runner({"sink", &kThreaded, {}, {}}, std::make_unique<TakenSink>(), RealClock());
  runner.Offer(EventList(2));
  EXPECT_EQ(taken_.events, 0u) << "never on the thread of who offers";
  EXPECT_FALSE(runner.stats().up);
  EXPECT_EQ(runner.stats().last.code, Code::kExhausted);
  none.reset();
  runner.Offer(EventList(3));
  EXPECT_TRUE(WaitForEvents(5)) << "what waited comes first";
  runner.Stop(RealClock().Now() + seconds(20));
  SinkRunner never({"sink", &kThreaded, {}, {}}, std::make_unique<TakenSink>(), RealClock());
}

TEST_F(EventBuffer, DataOfASinkWithoutAThreadIsCountedAtTheEnd) {
  NoThreads none;
  SinkRunner runner({"sink", &kThreaded, {}, {}}, std::make_unique<TakenSink>(), RealClock());
  runner.Offer(EventList(2));
  runner.Stop(RealClock().Now());
  EXPECT_EQ(Dropped(runner, SinkDropReason::kShutdown), 1u);
}

TEST_F(EventBuffer, WaitingDataIsDeliveredBeforeTheEnd) {
  SinkRunner runner({"sink", &kThreaded, {}, {}}, std::make_unique<TakenSink>(), RealClock());
  for (int i = 0; i < 5; ++i) runner.Offer(EventList(2));
  runner.Stop(RealClock().Now() + seconds(20));
  EXPECT_EQ(taken_.events, 10u);
}

// So that one that hangs takes no time from those that are stopped after it.
TEST_F(EventBuffer, EndsBeforeAnyWaiter) {
  SinkRunner runner({"sink", &kThreaded, {}, {}}, std::make_unique<TakenSink>(), RealClock());
  for (int i = 0; i < 5; ++i) runner.Offer(EventList(2));
  runner.BeginStop(RealClock().Now() + seconds(20));
  EXPECT_TRUE(WaitForEvents(10));
  runner.Stop(RealClock().Now() + seconds(20));
  EXPECT_EQ(Dropped(runner, SinkDropReason::kShutdown), 0u);
}

}  // namespace
}  // namespace gpulens
