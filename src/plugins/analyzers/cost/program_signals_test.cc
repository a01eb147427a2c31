#include "plugins/analyzers/cost/program_signals.h"

#include <gtest/gtest.h>

#include "catalog/training.h"
#include "plugins/analyzers/cost/cost_testing.h"

namespace gpulens::cost {
namespace {

using ledger::Cause;
using std::chrono::seconds;

class ProgramSignalsTest : public ::testing::Test {
 protected:
  // The causes of the signals after that time; "at" of the last one.
  std::vector<Cause> After(Duration time) {
    clock_.Advance(time);
    programs_.Run(clock_.Now());
    Snapshot snapshot;
    snapshot.frames.push_back(programs_.entry());
    std::vector<Cause> out;
    for (const ledger::ProgramSignal& signal : signals_.Take(snapshot)) {
      EXPECT_EQ(signal.pid, 41);
      out.push_back(signal.waits);
      at_ns_ = signal.at_ns;
    }
    return out;
  }
  void Set(double steps, double wait_s) {
    programs_.Set(program_, kTrainingSteps, steps);
    programs_.Set(program_, kTrainingDataloaderWaitTime, wait_s);
  }

  ManualClock clock_{{.boot_ns = 1'000'000'000'000, .unix_ns = 1'700'000'000'000'000'000}};
  TestSource programs_{"programs"};
  EntityRef program_ = MakeRef<Entity>("process", AttributeSet({{"process.pid", int64_t{41}}}));
  ProgramSignals signals_;
  int64_t at_ns_ = 0;
};

using Causes = std::vector<Cause>;

TEST_F(ProgramSignalsTest, AProgramWithoutAStepStarts) {
  Set(0, 0);
  EXPECT_EQ(After(seconds(1)), Causes{Cause::kStartup});
  EXPECT_EQ(After(seconds(10)), Causes{}) << "nothing new";
  EXPECT_EQ(After(seconds(25)), Causes{Cause::kStartup}) << "before the ledger forgets it";
  Set(1, 0);
  EXPECT_EQ(After(seconds(10)), Causes{Cause::kNone});
}

TEST_F(ProgramSignalsTest, AProgramThatMostlyWaitsForBatches) {
  Set(10, 5);
  EXPECT_EQ(After(seconds(10)), Causes{});
  Set(11, 13);
  EXPECT_EQ(After(seconds(10)), Causes{Cause::kInputWait});
  Set(30, 14);
  EXPECT_EQ(After(seconds(10)), Causes{Cause::kNone});
  EXPECT_EQ(After(seconds(60)), Causes{}) << "it does nothing, and it is not known why";
}

TEST_F(ProgramSignalsTest, ACheckpointIsDatedBackToItsBegin) {
  Set(10, 5);
  programs_.Set(program_, kTrainingCheckpointSaveDuration, 7);
  After(seconds(10));
  Set(11, 5);
  programs_.Set(program_, kTrainingCheckpointSaveDuration, 40);
  clock_.Advance(seconds(50));
  programs_.Run(clock_.Now());
  Snapshot snapshot;
  snapshot.frames.push_back(programs_.entry());
  const auto signals = signals_.Take(snapshot);
  ASSERT_EQ(signals.size(), 2u);
  EXPECT_EQ(signals[0].waits, Cause::kCheckpoint);
  EXPECT_EQ(signals[0].at_ns, (clock_.Now() + -seconds(40)).boot_ns);
  EXPECT_EQ(signals[1].waits, Cause::kNone);
  EXPECT_EQ(signals[1].at_ns, clock_.Now().boot_ns);
}

TEST_F(ProgramSignalsTest, OtherSeriesAndProgramsWithoutAPidGiveNone) {
  EntityRef nameless = MakeRef<Entity>("process", AttributeSet());
  programs_.Set(nameless, kTrainingSteps, 0);
  programs_.Set(program_, kTrainingLoss, 3);
  EXPECT_EQ(After(seconds(10)), Causes{});
}

}  // namespace
}  // namespace gpulens::cost
