#include "proxy/admission/leases.h"

#include <gtest/gtest.h>

#include <random>
#include <thread>

#include "base/files.h"
#include "proxy/admission/lease_starts.h"
#include "proxy/admission/leases_testing.h"

namespace gpulens::proxy {
namespace {

using testing::EngineState;
using testing::MemoryEngine;
using testing::Replica;

constexpr int64_t kMicro = kPicoPerMicro;
constexpr int64_t kHourMs = 3'600'000;
const Instant kStart{.boot_ns = 50'000'000'000, .unix_ns = 1'795'780'800'000'000'000};

BudgetSpec SharedSpec(int64_t limit_micros, std::string_view window = "forever") {
  BudgetSpec spec;
  spec.name = "team";
  spec.limit_pico = limit_micros * kMicro;
  spec.mode = BudgetMode::kHard;
  spec.window = *ParseBudgetWindow(window);
  spec.shared = true;
  return spec;
}

class LeaseKeepers : public ::testing::Test {
 protected:
  Replica& Start(const std::string& name, const BudgetSpec& spec, bool open = false) {
    LeaseOptions options;
    options.replica = name;
    options.open_when_down = open;
    return *replicas_.emplace_back(
        std::make_unique<Replica>(std::make_unique<MemoryEngine>(state_), spec, options));
  }
  void Advance(Duration time) {
    now_ = now_ + time;
    state_.now_ms = now_.unix_ns / 1'000'000;
  }
  void StepAll(bool all = true) {
    for (const auto& replica : replicas_) replica->keeper.Step(now_, all);
  }
  EngineBudget Engine() { return state_.budgets["team"].first; }
  void SetUp() override { Advance({}); }

  EngineState state_;
  Instant now_ = kStart;
  std::vector<std::unique_ptr<Replica>> replicas_;
};

TEST_F(LeaseKeepers, AFirstRequestWaitsForALeaseAndLaterOnesDoNot) {
  Replica& a = Start("a", SharedSpec(1'000'000));
  EXPECT_EQ(a.Spend(10 * kMicro, now_), BudgetAnswer::kLease);
  int answered = 0;
  a.keeper.WhenLeased([&] { ++answered; });
  a.keeper.Step(now_, false);
  EXPECT_EQ(answered, 1);
  EXPECT_EQ(a.Spend(10 * kMicro, now_), BudgetAnswer::kAdmitted);
  EXPECT_EQ(Engine().leased, 10) << "one request's: nothing was known about the spending";
  // 100 a second for 20 s; the keeper takes ahead.
  int waited = 0;
  for (int i = 0; i < 2000; ++i) {
    Advance(std::chrono::milliseconds(10));
    if (a.Spend(10 * kMicro, now_) == BudgetAnswer::kLease) {
      ++waited;
      a.keeper.Step(now_, false);
      EXPECT_EQ(a.Spend(10 * kMicro, now_), BudgetAnswer::kAdmitted);
    }
    if (i % 2 == 0) a.keeper.Step(now_, i % 100 == 0);
  }
  EXPECT_LE(waited, 40);
  EXPECT_LT(a.keeper.counts().calls, 300u);
  // Twice the last 10 s at most.
  EXPECT_LE(Engine().leased, 2 * 10'000 + 2'000);
}

TEST_F(LeaseKeepers, ReplicasTogetherStayWithinTheLimit) {
  std::mt19937_64 random(5);
  for (int round = 0; round < 20; ++round) {
    replicas_.clear();
    state_.budgets.clear();
    for (const char* name : {"a", "b", "c"}) Start(name, SharedSpec(1'000));
    int64_t spent = 0;
    for (int i = 0; i < 3000; ++i) {
      Advance(std::chrono::milliseconds(random() % 30));
      Replica& one = *replicas_[random() % 3];
      // Odd picodollars: leases are whole microdollars.
      const int64_t pico = static_cast<int64_t>(random() % (3 * kMicro));
      if (one.Spend(pico, now_) == BudgetAnswer::kAdmitted) spent += pico;
      if (random() % 50 == 0) state_.loses_reply = true;
      if (random() % 100 == 0) state_.down = !state_.down;
      if (random() % 3 == 0) one.keeper.Step(now_, random() % 4 == 0);
      ASSERT_LE(spent, 1'000 * kMicro);
      ASSERT_LE(Engine().spent + Engine().leased, 1'000);
    }
    state_.down = state_.loses_reply = false;
    for (int i = 0; i < 20; ++i) Advance(std::chrono::seconds(2)), StepAll();
    ASSERT_GT(spent, 990 * kMicro) << "slices leave nothing behind";
    ASSERT_GE(Engine().spent * kMicro, spent);
    ASSERT_LE(Engine().spent * kMicro, spent + 3 * kMicro) << "each replica rounds up once";
    ASSERT_EQ(Engine().leased, 0);
  }
}

TEST_F(LeaseKeepers, WhenLittleIsLeftOnlySingleRequestsAreLeased) {
  Replica& a = Start("a", SharedSpec(10'000));
  for (int i = 0; i < 9'600; ++i) {
    Advance(std::chrono::milliseconds(1));
    while (a.Spend(kMicro, now_) == BudgetAnswer::kLease) a.keeper.Step(now_, false);
    if (i % 10 == 0) a.keeper.Step(now_, true);
  }
  Replica& b = Start("b", SharedSpec(10'000));
  // A's surplus comes back when it is idle.
  for (int i = 0; i < 15; ++i) Advance(std::chrono::seconds(1)), StepAll();
  EXPECT_EQ(Engine().leased, 0);
  EXPECT_EQ(Engine().spent, 9'600);
  for (int i = 0; i < 400; ++i) {
    Advance(std::chrono::milliseconds(1));
    if (b.Spend(kMicro, now_) == BudgetAnswer::kLease) b.keeper.Step(now_, false);
    ASSERT_LE(Engine().leased, 3);
    if (b.Spend(kMicro, now_) != BudgetAnswer::kAdmitted) break;
  }
  b.keeper.Step(now_ + std::chrono::seconds(2), true);
  EXPECT_GE(Engine().spent, 9'990);
}

TEST_F(LeaseKeepers, AUsedUpBudgetRefusesWithoutACallForEachRequest) {
  Replica& a = Start("a", SharedSpec(5, "day"));
  EXPECT_EQ(a.Spend(6 * kMicro, now_), BudgetAnswer::kLease);
  a.keeper.Step(now_, false);
  const int calls = state_.calls;
  for (int i = 0; i < 100; ++i) {
    const auto refused = a.budgets.Admit(a.of, {.expected_pico = 6 * kMicro, .most_pico = 6 * kMicro}, now_);
    ASSERT_EQ(refused.answer, BudgetAnswer::kLimit);
    ASSERT_EQ(refused.until_unix_ns, kStart.unix_ns + 12 * kHourMs * 1'000'000);
    a.keeper.Step(now_, false);
  }
  EXPECT_EQ(state_.calls, calls);
  Advance(std::chrono::seconds(2));
  EXPECT_EQ(a.Spend(6 * kMicro, now_), BudgetAnswer::kLease) << "it is tried again after a second";
}

// B6.
TEST_F(LeaseKeepers, WithoutTheEngineTheLeaseIsSpentAndThenRequestsAreRefused) {
  Replica& a = Start("a", SharedSpec(1'000));
  EXPECT_EQ(a.Spend(100 * kMicro, now_), BudgetAnswer::kLease);
  a.keeper.Step(now_, false);
  state_.down = true;
  for (int i = 0; i < 100; ++i) ASSERT_EQ(a.Spend(kMicro, now_), BudgetAnswer::kAdmitted);
  EXPECT_EQ(a.Spend(kMicro, now_), BudgetAnswer::kLease) << "nobody knows yet that the engine is away";
  Advance(std::chrono::seconds(2));
  a.keeper.Step(now_, true);
  EXPECT_EQ(a.Spend(kMicro, now_), BudgetAnswer::kEngineDown);
  EXPECT_EQ(a.budgets.held_pico(), 0);
  state_.down = false;
  Advance(std::chrono::seconds(2));
  a.keeper.Step(now_, true);
  EXPECT_EQ(Engine().spent, 100);
  EXPECT_EQ(a.Spend(kMicro, now_), BudgetAnswer::kAdmitted) << "the report took ahead";
}

TEST_F(LeaseKeepers, OpenWithoutTheEngineCountsWhatItAdmits) {
  Replica& a = Start("a", SharedSpec(1'000), true);
  EXPECT_EQ(a.Spend(10 * kMicro, now_), BudgetAnswer::kLease);
  a.keeper.Step(now_, false);
  state_.down = true;
  Advance(std::chrono::seconds(2));
  static_cast<void>(a.Spend(10 * kMicro, now_));
  a.keeper.Step(now_, true);
  for (int i = 0; i < 50; ++i) ASSERT_EQ(a.Spend(kMicro, now_), BudgetAnswer::kAdmitted);
  EXPECT_EQ(a.budgets.View("team", now_)->opened_pico, 50 * kMicro);
  state_.down = false;
  for (int i = 0; i < 12; ++i) Advance(std::chrono::seconds(2)), a.keeper.Step(now_, true);
  EXPECT_EQ(Engine().spent, 60) << "what was spent meanwhile is reported";
  EXPECT_EQ(Engine().leased, 0);
}

TEST_F(LeaseKeepers, AReplyThatIsLostIsNoSecondLease) {
  Replica& a = Start("a", SharedSpec(1'000));
  EXPECT_EQ(a.Spend(100 * kMicro, now_), BudgetAnswer::kLease);
  state_.loses_reply = true;
  a.keeper.Step(now_, false);
  EXPECT_EQ(Engine().leased, 100);
  Advance(std::chrono::seconds(2));
  a.keeper.Step(now_, true);
  EXPECT_EQ(Engine().leased, 100);
  EXPECT_EQ(a.Spend(100 * kMicro, now_), BudgetAnswer::kAdmitted);
}

// B7.
TEST_F(LeaseKeepers, TheLeaseOfADeadReplicaCountsAsSpentUntilItsReport) {
  Replica& a = Start("a", SharedSpec(100));
  EXPECT_EQ(a.Spend(60 * kMicro, now_), BudgetAnswer::kLease);
  a.keeper.Step(now_, false);
  EXPECT_EQ(a.Spend(45 * kMicro, now_), BudgetAnswer::kAdmitted);
  const int64_t fence = a.keeper.fence();
  EngineState before;
  before.budgets = state_.budgets;
  // Killed: nothing more is reported. Its object stays, unused, so that it cannot give back.
  Replica& b = Start("b", SharedSpec(100));
  Advance(std::chrono::hours(2));
  EXPECT_EQ(b.Spend(41 * kMicro, now_), BudgetAnswer::kLease);
  b.keeper.Step(now_, false);
  EXPECT_EQ(b.Spend(41 * kMicro, now_), BudgetAnswer::kLimit);
  // A starts again, with what the ledger has of its earlier start.
  Replica& again = Start("a", SharedSpec(100));
  for (int i = 0; i < 2; ++i) {
    EXPECT_TRUE(again.keeper.ReportEnded(SharedSpec(100), fence, 45 * kMicro, now_));
    EXPECT_EQ(Engine().spent, 45);
    EXPECT_EQ(Engine().leased, 0);
  }
  Advance(std::chrono::seconds(2));
  EXPECT_EQ(b.Spend(41 * kMicro, now_), BudgetAnswer::kLease);
  b.keeper.Step(now_, false);
  EXPECT_EQ(b.Spend(41 * kMicro, now_), BudgetAnswer::kAdmitted);
}

TEST_F(LeaseKeepers, TheEndOfAnUnknownStartChangesNothing) {
  Replica& a = Start("a", SharedSpec(100));
  EXPECT_EQ(a.Spend(60 * kMicro, now_), BudgetAnswer::kLease);
  a.keeper.Step(now_, false);
  EXPECT_TRUE(a.keeper.ReportEnded(SharedSpec(100), a.keeper.fence() + 7, 45 * kMicro, now_));
  EXPECT_EQ(Engine().spent, 0);
  EXPECT_EQ(Engine().leased, 60);
}

TEST_F(LeaseKeepers, NothingIsLeasedBeforeTheFenceIsKept) {
  LeaseOptions options;
  options.replica = "a";
  int64_t kept = 0;
  bool works = false;
  options.on_fence = [&](int64_t fence) {
    kept = fence;
    return works ? Ok() : Status{Code::kIo, "the disk is full"};
  };
  Replica a(std::make_unique<MemoryEngine>(state_), SharedSpec(100), options);
  EXPECT_EQ(a.Spend(60 * kMicro, now_), BudgetAnswer::kLease);
  a.keeper.Step(now_, false);
  EXPECT_EQ(a.Spend(60 * kMicro, now_), BudgetAnswer::kEngineDown);
  EXPECT_EQ(a.keeper.fence(), 0);
  EXPECT_EQ(Engine().leased, 0);
  works = true;
  Advance(std::chrono::seconds(2));
  a.keeper.Step(now_, true);
  EXPECT_EQ(a.Spend(60 * kMicro, now_), BudgetAnswer::kAdmitted);
  EXPECT_EQ(a.keeper.fence(), kept);
}

TEST(LeaseStarts, AreKeptInAFileOfBoundedSize) {
  const TempFolder folder;
  const std::string path = folder.path() + "/leases";
  EXPECT_TRUE(ReadLeaseStarts(path)->empty());
  std::vector<LeaseStart> starts;
  for (int64_t i = 1; i <= 150; ++i) starts.push_back({i, 1000 * i});
  ASSERT_TRUE(WriteLeaseStarts(path, starts));
  starts.erase(starts.begin(), starts.begin() + 50);
  EXPECT_EQ(*ReadLeaseStarts(path), starts);
  for (const char* bad : {"1\n", "a\t1\n", "1\t\n", "0\t1\n", "1\t2\t3\n"}) {
    ASSERT_TRUE(WriteFileAtomically(path, bad));
    EXPECT_FALSE(ReadLeaseStarts(path)) << bad;
  }
}

TEST_F(LeaseKeepers, ANewWindowForgetsTheLeasesOfTheDeadAndKeepsThoseOfTheLiving) {
  Replica &a = Start("a", SharedSpec(100, "hour")), &b = Start("b", SharedSpec(100, "hour"));
  static_cast<void>(a.Spend(60 * kMicro, now_)), static_cast<void>(b.Spend(40 * kMicro, now_));
  StepAll();
  EXPECT_EQ(a.Spend(50 * kMicro, now_), BudgetAnswer::kAdmitted);
  const int64_t dead = a.keeper.fence();
  // B renews; a is dead.
  for (int i = 0; i < 61; ++i) {
    Advance(std::chrono::minutes(1));
    static_cast<void>(b.budgets.Admit(b.of, {.expected_pico = 1, .most_pico = 1}, now_));
    b.keeper.Step(now_, true);
  }
  EXPECT_EQ(Engine().spent, 0);
  EXPECT_LE(Engine().leased, 40);
  EXPECT_GT(Engine().window_ms, kStart.unix_ns / 1'000'000);
  // What the dead one spent was counted in its window, and is not again; beyond its lease it is.
  LeaseCall late;
  late.budget = "team", late.limit = 100, late.replica = "a", late.fence = dead, late.spent = 50,
  late.close = true;
  late.window_ms = Engine().window_ms;
  EXPECT_TRUE(a.engine->Exchange(late));
  EXPECT_EQ(Engine().spent, 0);
  late.spent = 61;
  EXPECT_TRUE(a.engine->Exchange(late));
  EXPECT_EQ(Engine().spent, 1);
}

TEST_F(LeaseKeepers, AReplicaWithAClockAheadOpensNoWindow) {
  Replica& a = Start("a", SharedSpec(100, "hour"));
  static_cast<void>(a.Spend(100 * kMicro, now_));
  StepAll();
  EXPECT_EQ(a.Spend(100 * kMicro, now_), BudgetAnswer::kAdmitted);
  Instant ahead = now_ + std::chrono::hours(1);
  a.keeper.Step(ahead, true);
  EXPECT_EQ(a.Spend(kMicro, ahead), BudgetAnswer::kLease);
  a.keeper.Step(ahead + std::chrono::seconds(1), true);
  EXPECT_EQ(Engine().spent, 100);
  EXPECT_EQ(a.Spend(kMicro, ahead + std::chrono::seconds(1)), BudgetAnswer::kLimit);
}

TEST_F(LeaseKeepers, AnEngineThatForgotEverythingLearnsWhatTheLivingSpent) {
  Replica& a = Start("a", SharedSpec(100));
  static_cast<void>(a.Spend(60 * kMicro, now_));
  StepAll();
  EXPECT_EQ(a.Spend(50 * kMicro, now_), BudgetAnswer::kAdmitted);
  state_.budgets.clear();
  Advance(std::chrono::seconds(2));
  StepAll();
  EXPECT_EQ(Engine().spent, 50);
  EXPECT_EQ(a.Spend(60 * kMicro, now_), BudgetAnswer::kLease) << "the old lease is not valid any more";
}

TEST_F(LeaseKeepers, StopReportsAndGivesBack) {
  Replica& a = Start("a", SharedSpec(1'000));
  static_cast<void>(a.Spend(100 * kMicro, now_));
  StepAll();
  EXPECT_EQ(a.Spend(30 * kMicro, now_), BudgetAnswer::kAdmitted);
  auto open = a.budgets.Admit(a.of, {.expected_pico = 20 * kMicro, .most_pico = 20 * kMicro}, now_);
  a.keeper.Stop();
  EXPECT_EQ(Engine().spent, 30);
  EXPECT_EQ(Engine().leased, 20) << "an open request keeps its part";
  bool called = false;
  a.keeper.WhenLeased([&] { called = true; });
  EXPECT_TRUE(called);
}

TEST_F(LeaseKeepers, ThreadsOfAReplicaShareALease) {
  LeaseOptions options;
  options.replica = "a";
  options.report_every = std::chrono::milliseconds(20);
  options.retry = std::chrono::milliseconds(20);
  Replica a(std::make_unique<MemoryEngine>(state_), SharedSpec(1'000), options);
  ASSERT_TRUE(a.keeper.Start());
  std::atomic<int> admitted{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 400; ++i) {
        auto one = a.AdmitWaiting({.expected_pico = kMicro, .most_pico = kMicro});
        if (one.answer == BudgetAnswer::kAdmitted && one.reservation.Settle(kMicro, RealClock().Now()))
          ++admitted;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(admitted.load(), 1'000);
  a.keeper.Stop();
  EXPECT_EQ(Engine().spent, 1'000);
  EXPECT_EQ(Engine().leased, 0);
}

}  // namespace
}  // namespace gpulens::proxy
