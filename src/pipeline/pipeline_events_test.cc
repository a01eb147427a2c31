// Events on their way from the desk to the sinks.

#include <gtest/gtest.h>

#include <condition_variable>
#include <mutex>

#include "base/threads/no_threads_testing.h"
#include "pipeline/events/event_desk.h"
#include "pipeline/receive/receiver.h"
#include "pipeline/sink_runner.h"

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

class TestTaker final : public TakenSink, public OtlpTaker {
 public:
  Status Take(const ReceivedOtlp& received) override {
    std::unique_lock lock(taken->mutex);
    taken->wake.wait(lock, [] { return !taken->block; });
    taken->received += received.items;
    taken->wake.notify_all();
    return taken->fail ? Status{Code::kExhausted, "told to fail"} : Ok();
  }
};
const SinkSpec kThreaded{.name = "threaded", .help = "x.", .threaded = true};
const SinkSpec kPlainSink{.name = "plain", .help = "x."};

class EventLane : public ::testing::Test {
 protected:
  EventLane() { taken = &taken_; }
  static Ref<const Events> Parcel(size_t count) {
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
  static uint64_t Dropped(const SinkRunner& runner, DropReason why) {
    return runner.stats().events_dropped[static_cast<size_t>(why)];
  }
  Taken taken_;
};

TEST_F(EventLane, ASinkWithoutAThreadGetsThemAtOnce) {
  SinkRunner runner({&kPlainSink, {}, {}}, std::make_unique<TakenSink>(), RealClock());
  runner.Offer(Parcel(3));
  EXPECT_EQ(taken_.events, 3u);
  taken_.fail = true;
  runner.Offer(Parcel(1));
  EXPECT_EQ(Dropped(runner, DropReason::kRejected), 1u);
  EXPECT_EQ(runner.stats().dropped[static_cast<size_t>(DropReason::kRejected)], 0u)
      << "snapshots count for themselves";
}

TEST_F(EventLane, ASlowSinkKeepsTheNewestAndSaysHowManyItLost) {
  Block(true);
  SinkRunner runner({&kThreaded, {}, {}}, std::make_unique<TakenSink>(), RealClock());
  // One may be in the sink's hands already.
  for (size_t i = 0; i < SinkRunner::kEventLaneDepth + 11; ++i) runner.Offer(Parcel(1));
  uint64_t lost = Dropped(runner, DropReason::kOverload);
  EXPECT_GE(lost, 10u);
  EXPECT_LE(lost, 11u);
  EXPECT_EQ(runner.stats().events_queued, SinkRunner::kEventLaneDepth);
  Block(false);
  EXPECT_TRUE(WaitForEvents(SinkRunner::kEventLaneDepth));
}

TEST_F(EventLane, ASinkWhoseThreadFoundNoRoomIsDownAndTriesAgain) {
  auto none = std::make_unique<NoThreads>();
  SinkRunner runner({&kThreaded, {}, {}}, std::make_unique<TakenSink>(), RealClock());
  runner.Offer(Parcel(2));
  EXPECT_EQ(taken_.events, 0u) << "never on the thread of who offers";
  EXPECT_FALSE(runner.stats().up);
  EXPECT_EQ(runner.stats().last.code, Code::kExhausted);
  none.reset();
  runner.Offer(Parcel(3));
  EXPECT_TRUE(WaitForEvents(5)) << "what waited comes first";
  runner.Stop(RealClock().Now() + seconds(20));
  SinkRunner never({&kThreaded, {}, {}}, std::make_unique<TakenSink>(), RealClock());
}

TEST_F(EventLane, WhatASinkWithoutAThreadHasAtTheEndIsCounted) {
  NoThreads none;
  SinkRunner runner({&kThreaded, {}, {}}, std::make_unique<TakenSink>(), RealClock());
  runner.Offer(Parcel(2));
  runner.Stop(RealClock().Now());
  EXPECT_EQ(Dropped(runner, DropReason::kShutdown), 1u);
}

TEST_F(EventLane, WhatWaitsAtTheEndIsDeliveredFirst) {
  SinkRunner runner({&kThreaded, {}, {}}, std::make_unique<TakenSink>(), RealClock());
  for (int i = 0; i < 5; ++i) runner.Offer(Parcel(2));
  runner.Stop(RealClock().Now() + seconds(20));
  EXPECT_EQ(taken_.events, 10u);
}

// So that one that hangs takes no time from those that are stopped after it.
TEST_F(EventLane, ItEndsBeforeAnybodyWaitsForIt) {
  SinkRunner runner({&kThreaded, {}, {}}, std::make_unique<TakenSink>(), RealClock());
  for (int i = 0; i < 5; ++i) runner.Offer(Parcel(2));
  runner.BeginStop(RealClock().Now() + seconds(20));
  EXPECT_TRUE(WaitForEvents(10));
  runner.Stop(RealClock().Now() + seconds(20));
  EXPECT_EQ(Dropped(runner, DropReason::kShutdown), 0u);
}

// What is received: the answers of a sink, by the lane's own rules.
class ReceivedLane : public EventLane {
 protected:
  void Offer(SinkRunner& runner) {
    Ref<ReceivedOtlp> received = MakeRef<ReceivedOtlp>();
    received->items = 1;
    runner.Offer(received, [this](Status status) {
      std::lock_guard lock(mutex_);
      ++told_[status.code];
    });
  }
  size_t Told(Code code) {
    std::lock_guard lock(mutex_);
    return told_[code];
  }
  std::mutex mutex_;
  std::map<Code, size_t> told_;
};

TEST_F(ReceivedLane, IsToldWhatTheSinkSaid) {
  SinkRunner runner({&kThreaded, {}, {}}, std::make_unique<TestTaker>(), RealClock());
  EXPECT_TRUE(runner.takes_otlp());
  for (int i = 0; i < 5; ++i) Offer(runner);
  runner.Stop(RealClock().Now() + seconds(20));
  EXPECT_EQ(taken_.received, 5u);
  EXPECT_EQ(Told(Code::kOk), 5u);
  Offer(runner);
  EXPECT_EQ(Told(Code::kUnavailable), 1u) << "after the end";
  SinkRunner plain({&kPlainSink, {}, {}}, std::make_unique<TestTaker>(), RealClock());
  EXPECT_FALSE(plain.takes_otlp());
}

TEST_F(ReceivedLane, AFullLaneSendsAwayAndDropsNothing) {
  Block(true);
  SinkRunner runner({&kThreaded, {}, {}}, std::make_unique<TestTaker>(), RealClock());
  for (size_t i = 0; i < SinkRunner::kOtlpLaneDepth + 11; ++i) Offer(runner);
  const size_t away = Told(Code::kExhausted);
  EXPECT_GE(away, 10u);
  EXPECT_LE(away, 11u);
  Block(false);
  runner.Stop(RealClock().Now() + seconds(20));
  EXPECT_EQ(Told(Code::kOk), SinkRunner::kOtlpLaneDepth + 11 - away);
  EXPECT_EQ(taken_.received, Told(Code::kOk));
}

TEST_F(ReceivedLane, ASinkThatHangsAtTheEndLeavesItToTheSender) {
  Block(true);
  auto runner = std::make_unique<SinkRunner>(SinkRunner::Setup{&kThreaded, {}, {}},
                                             std::make_unique<TestTaker>(), RealClock());
  for (int i = 0; i < 5; ++i) Offer(*runner);
  runner->Stop(RealClock().Now());
  EXPECT_GE(Told(Code::kUnavailable), 4u);
  // The one in the sink's hands is told when it comes back.
  Block(false);
  std::unique_lock lock(taken_.mutex);
  const size_t last = 5 - Told(Code::kUnavailable);
  EXPECT_TRUE(taken_.wake.wait_for(lock, seconds(20), [&] { return taken_.received == last; }));
}

}  // namespace
}  // namespace gpulens
