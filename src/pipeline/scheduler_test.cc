#include "pipeline/scheduler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>

namespace gpulens {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::ElementsAre;
using testing::IsEmpty;

constexpr int64_t kMs = 1'000'000;
Instant At(int64_t ms) { return {ms * kMs, 0}; }

class SchedulerTest : public testing::Test {
 protected:
  std::vector<Scheduler::TaskId> Start(int64_t ms) {
    scheduler.Run(At(ms), decision);
    return decision.start;
  }
  int64_t WakeAt() const { return decision.wake_at_ns / kMs; }

  Scheduler scheduler;
  Scheduler::Decision decision;
};

TEST_F(SchedulerTest, NothingToDo) {
  EXPECT_THAT(Start(5), IsEmpty());
  EXPECT_EQ(decision.wake_at_ns, INT64_MAX);
}

TEST_F(SchedulerTest, StartsWhenDueAndOnItsGrid) {
  auto task = scheduler.Add(seconds(1), seconds(1), At(1000));
  EXPECT_EQ(scheduler.period(task), seconds(1));
  EXPECT_THAT(Start(999), IsEmpty());
  EXPECT_EQ(WakeAt(), 1000);
  EXPECT_THAT(Start(1030), ElementsAre(task)) << "a late wake-up";
  EXPECT_TRUE(scheduler.running(task));
  scheduler.Finished(task);
  EXPECT_FALSE(scheduler.running(task));
  EXPECT_THAT(Start(1999), IsEmpty());
  EXPECT_EQ(WakeAt(), 2000) << "lateness does not shift the grid";
  EXPECT_THAT(Start(2000), ElementsAre(task));
  scheduler.Finished(task);
  EXPECT_EQ(scheduler.skipped(task), 0u);
}

TEST_F(SchedulerTest, NeverStacked) {
  auto task = scheduler.Add(seconds(1), seconds(10), At(1000));
  EXPECT_THAT(Start(1000), ElementsAre(task));
  EXPECT_THAT(Start(2000), IsEmpty());
  EXPECT_THAT(Start(3000), IsEmpty());
  EXPECT_EQ(scheduler.skipped(task), 2u);
  scheduler.Finished(task);
  EXPECT_THAT(Start(3500), IsEmpty()) << "a skipped period is not made up for";
  EXPECT_THAT(Start(4000), ElementsAre(task));
}

TEST_F(SchedulerTest, PeriodsThatPassUnseenAreSkipped) {
  auto task = scheduler.Add(seconds(1), seconds(1), At(1000));
  EXPECT_THAT(Start(5500), ElementsAre(task)) << "once, though five were due";
  EXPECT_EQ(scheduler.skipped(task), 4u);
  EXPECT_EQ(WakeAt(), 6000);
  scheduler.Finished(task);
  scheduler.Run(At(6000), decision);
  scheduler.Run(At(9000), decision);
  EXPECT_EQ(scheduler.skipped(task), 7u) << "7, 8 and 9 s came while it ran";
}

TEST_F(SchedulerTest, ATimeoutIsReportedOnceARun) {
  auto task = scheduler.Add(seconds(10), milliseconds(300), At(1000));
  Start(1000);
  EXPECT_EQ(WakeAt(), 1300);
  Start(1299);
  EXPECT_THAT(decision.timed_out, IsEmpty());
  Start(1300);
  EXPECT_THAT(decision.timed_out, ElementsAre(task));
  EXPECT_TRUE(scheduler.running(task)) << "it still runs, only late";
  EXPECT_EQ(WakeAt(), 11'000);
  Start(1400);
  EXPECT_THAT(decision.timed_out, IsEmpty());
  scheduler.Finished(task);
  EXPECT_THAT(Start(11'000), ElementsAre(task));
  Start(11'300);
  EXPECT_THAT(decision.timed_out, ElementsAre(task)) << "the next run has its own";
}

TEST_F(SchedulerTest, AFinishedRunDoesNotTimeOut) {
  auto task = scheduler.Add(seconds(1), milliseconds(300), At(1000));
  Start(1000);
  scheduler.Finished(task);
  Start(1500);
  EXPECT_THAT(decision.timed_out, IsEmpty());
}

TEST_F(SchedulerTest, TasksDoNotHoldEachOtherUp) {
  auto slow = scheduler.Add(seconds(1), seconds(5), At(1000));
  auto quick = scheduler.Add(milliseconds(500), seconds(5), At(1000));
  EXPECT_THAT(Start(1000), ElementsAre(slow, quick));
  scheduler.Finished(quick);
  EXPECT_THAT(Start(1500), ElementsAre(quick));
  scheduler.Finished(quick);
  EXPECT_THAT(Start(2000), ElementsAre(quick));
  EXPECT_EQ(scheduler.skipped(slow), 1u);
  EXPECT_EQ(scheduler.skipped(quick), 0u);
}

TEST_F(SchedulerTest, ARemovedTaskIsLeftAlone) {
  auto gone = scheduler.Add(seconds(1), milliseconds(100), At(1000));
  auto stays = scheduler.Add(seconds(1), seconds(1), At(1000));
  Start(1000);
  scheduler.Remove(gone);
  scheduler.Finished(stays);
  EXPECT_THAT(Start(2000), ElementsAre(stays));
  EXPECT_THAT(decision.timed_out, IsEmpty());
  EXPECT_EQ(WakeAt(), 3000);
  scheduler.Finished(gone);
  scheduler.Remove(stays);
  EXPECT_THAT(Start(3000), IsEmpty());
  EXPECT_EQ(decision.wake_at_ns, INT64_MAX);
}

TEST_F(SchedulerTest, DueAtBringsARunForward) {
  auto task = scheduler.Add(seconds(10), seconds(1), At(1000));
  Start(1000);
  scheduler.Finished(task);
  scheduler.DueAt(task, At(2500));
  EXPECT_THAT(Start(2400), IsEmpty());
  EXPECT_EQ(WakeAt(), 2500);
  EXPECT_THAT(Start(2500), ElementsAre(task));
}

TEST_F(SchedulerTest, DueWithNeverDelaysARun) {
  auto slow = scheduler.Add(seconds(10), seconds(1), At(1000));
  auto quick = scheduler.Add(seconds(1), seconds(1), At(1000));
  Start(1000);
  scheduler.Finished(slow);
  scheduler.Finished(quick);
  scheduler.DueWith(slow, quick);
  EXPECT_THAT(Start(2000), ElementsAre(slow, quick));
  scheduler.Finished(slow);
  scheduler.Finished(quick);
  scheduler.DueWith(quick, slow);
  EXPECT_THAT(Start(3000), ElementsAre(quick));
}

TEST_F(SchedulerTest, APeriodIsNeeded) {
  EXPECT_DEATH(scheduler.Add(seconds(0), seconds(1), At(0)), "CHECK failed");
}

}  // namespace
}  // namespace gpulens
