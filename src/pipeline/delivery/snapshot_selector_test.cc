#include "pipeline/delivery/snapshot_selector.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "base/testing/allocations.h"

namespace gpulens {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::ElementsAre;

// Collectors that read at their own times, and ticks that show their latest frames.
class SnapshotSelectorTest : public ::testing::Test {
 protected:
  struct Source {
    std::string name;
    Duration period{};
    uint64_t runs = 0;
    Ref<const Frame> latest = {};
  };

  Instant At(double second) const { return zero_ + Duration(static_cast<int64_t>(second * 1e9)); }
  void Read(Source& source, double second) {
    auto frame = MakeRef<Frame>();
    frame->source = source.name;
    frame->run = ++source.runs;
    frame->read_at = At(second);
    source.latest = frame;
  }
  Ref<const Snapshot> Tick(std::vector<const Source*> sources, double second) {
    auto snapshot = MakeRef<Snapshot>();
    snapshot->closed_at = At(second);
    snapshot->tick = ++ticks_;
    for (const Source* source : sources) {
      if (!source->latest) continue;
      snapshot->frames.push_back(
          {source->latest, source->latest->source, Precedence::kNative, false, source->period});
    }
    return snapshot;
  }
  // "name run" of each frame.
  static std::vector<std::string> Shown(const Ref<const Snapshot>& snapshot) {
    std::vector<std::string> shown;
    if (!snapshot) return shown;
    for (const SnapshotEntry& entry : snapshot->frames) {
      EXPECT_EQ(entry.source, entry.frame->source);
      shown.push_back(std::string(entry.source) + " " + std::to_string(entry.frame->run));
    }
    return shown;
  }

  const Instant zero_{1'000'000'000'000, 1'700'000'000'000'000'000};
  uint64_t ticks_ = 0;
};

TEST_F(SnapshotSelectorTest, WithoutAnIntervalEveryTickIsPassedOn) {
  SnapshotSelector selector({}, true);
  Source fast{"host", milliseconds(100)};
  for (int i = 0; i < 3; ++i) {
    Read(fast, i);
    auto tick = Tick({&fast}, i);
    EXPECT_EQ(selector.Select(tick).get(), tick.get());
  }
}

TEST_F(SnapshotSelectorTest, BetweenWholeSnapshotsOnlySlowCollectorsMoveOn) {
  SnapshotSelector selector(seconds(15), true);
  Source fast{"host", seconds(1)}, slow{"scrape/node", seconds(15)};
  Read(fast, 0);
  EXPECT_THAT(Shown(selector.Select(Tick({&fast, &slow}, 0))), ElementsAre("host 1"));
  for (int second = 1; second < 7; ++second) {
    Read(fast, second);
    EXPECT_FALSE(selector.Select(Tick({&fast, &slow}, second)));
  }
  Read(slow, 6.9);
  Read(fast, 7);
  EXPECT_THAT(Shown(selector.Select(Tick({&fast, &slow}, 7))), ElementsAre("host 1", "scrape/node 1"));
  EXPECT_FALSE(selector.Select(Tick({&fast, &slow}, 8))) << "there is nothing new";
  Read(fast, 15);
  EXPECT_THAT(Shown(selector.Select(Tick({&fast, &slow}, 15))), ElementsAre("host 9", "scrape/node 1"));
}

TEST_F(SnapshotSelectorTest, OtherSinksGetOnlyWholeSnapshots) {
  SnapshotSelector selector(seconds(15), false);
  Source slow{"scrape/node", seconds(15)};
  EXPECT_TRUE(selector.Select(Tick({&slow}, 0)));
  Read(slow, 7);
  EXPECT_FALSE(selector.Select(Tick({&slow}, 7)));
  EXPECT_TRUE(selector.Select(Tick({&slow}, 15)));
}

TEST_F(SnapshotSelectorTest, ACollectorThatEndsIsLeftOutAndANewFastOneWaits) {
  SnapshotSelector selector(seconds(15), true);
  Source fast{"host", seconds(1)}, gone{"slurm", seconds(1)}, late{"kernel_log", seconds(1)};
  Source slow{"scrape/node", seconds(60)};
  Read(fast, 0), Read(gone, 0);
  selector.Select(Tick({&fast, &gone}, 0));
  Read(slow, 1), Read(late, 1);
  EXPECT_THAT(Shown(selector.Select(Tick({&fast, &late, &slow}, 1))), ElementsAre("host 1", "scrape/node 1"));
  Read(slow, 2);
  EXPECT_THAT(Shown(selector.Select(Tick({&gone, &slow}, 2))), ElementsAre("scrape/node 2"))
      << "it ended, and is none that the sink knows";
}

// A reload makes another collector of the same name, whose runs are counted from 1 again.
TEST_F(SnapshotSelectorTest, AnotherCollectorOfTheSameNameHasNewReadings) {
  SnapshotSelector selector(seconds(15), true);
  Source before{"scrape/node", seconds(15)}, after{"scrape/node", seconds(15)};
  Read(before, 0);
  EXPECT_TRUE(selector.Select(Tick({&before}, 0)));
  Read(after, 3);
  EXPECT_THAT(Shown(selector.Select(Tick({&after}, 3))), ElementsAre("scrape/node 1"));
}

TEST_F(SnapshotSelectorTest, TheLastTickIsWholeUnlessItWasPassedOn) {
  SnapshotSelector selector(seconds(15), true);
  Source fast{"host", seconds(1)}, slow{"scrape/node", seconds(15)};
  Read(fast, 0);
  auto first = Tick({&fast}, 0);
  EXPECT_TRUE(selector.Select(first));
  EXPECT_FALSE(selector.SelectLast(first));
  EXPECT_FALSE(selector.SelectLast({}));
  Read(fast, 1), Read(slow, 1);
  auto second = Tick({&fast, &slow}, 1);
  EXPECT_THAT(Shown(selector.Select(second)), ElementsAre("host 1", "scrape/node 1"));
  EXPECT_THAT(Shown(selector.SelectLast(second)), ElementsAre("host 2", "scrape/node 1"));
  EXPECT_FALSE(selector.SelectLast(second));
}

TEST_F(SnapshotSelectorTest, WholeSnapshotsKeepTheirPaceWhileTicksJitter) {
  SnapshotSelector selector(seconds(1), false);
  Source fast{"host", milliseconds(200)};
  std::mt19937 random(7);
  int whole = 0;
  for (int i = 0; i < 500; ++i) {
    const double jitter = static_cast<double>(random() % 100) / 1000;
    whole += static_cast<bool>(selector.Select(Tick({&fast}, 0.2 * i + jitter)));
  }
  EXPECT_GE(whole, 99);
  EXPECT_LE(whole, 102);
}

TEST_F(SnapshotSelectorTest, AfterAPauseNothingIsMadeUpFor) {
  SnapshotSelector selector(seconds(10), false);
  EXPECT_TRUE(selector.Select(Tick({}, 0)));
  EXPECT_TRUE(selector.Select(Tick({}, 1000)));
  EXPECT_FALSE(selector.Select(Tick({}, 1001)));
  EXPECT_TRUE(selector.Select(Tick({}, 1010)));
}

// With random periods, phases and jitter: each reading of a slow collector reaches the sink with the tick
// that shows it first, and readings of a fast one at most once an interval.
TEST_F(SnapshotSelectorTest, EveryReadingOfASlowCollectorIsPassedOnWithItsTick) {
  for (uint32_t seed = 0; seed < 60; ++seed) {
    std::mt19937 random(seed);
    const double interval = 1 + static_cast<double>(random() % 20);
    SnapshotSelector selector(seconds(static_cast<int64_t>(interval)), true);
    struct Planned {
      Source source;
      double next, period;
      uint64_t sent = 0, changes = 0;
    };
    std::vector<Planned> all;
    for (int i = 0; i < 4; ++i) {
      const double period = i < 2 ? interval * (1 + i) : interval / (2 + i);
      const double phase = period * static_cast<double>(random() % 100) / 100;
      all.push_back({{"s" + std::to_string(i), Duration(static_cast<int64_t>(period * 1e9))}, phase, period});
    }
    const double tick_s = interval * 0.07, end = interval * 20;
    for (double now = 0; now < end; now += tick_s) {
      std::vector<const Source*> sources;
      for (Planned& one : all) {
        const double jitter = one.period * 0.3 * static_cast<double>(random() % 100) / 100;
        if (now >= one.next + jitter) {
          Read(one.source, now);
          one.next += one.period;
        }
        sources.push_back(&one.source);
      }
      const auto selected = selector.Select(Tick(sources, now));
      for (Planned& one : all) {
        uint64_t run = 0;
        if (selected) {
          for (const SnapshotEntry& entry : selected->frames)
            if (entry.source == one.source.name) run = entry.frame->run;
        }
        const bool slow = one.period >= interval;
        if (run != 0) {
          EXPECT_GE(run, one.sent);
          one.changes += run != one.sent;
          one.sent = run;
        }
        if (slow) {
          EXPECT_EQ(one.sent, one.source.runs) << seed << " " << one.source.name;
        }
      }
    }
    for (const Planned& one : all) {
      if (one.period < interval) {
        EXPECT_LE(one.changes, 22u) << seed << " " << one.source.name;
      }
    }
  }
}

TEST_F(SnapshotSelectorTest, ASteadySelectionAllocatesNothing) {
  if (!AllocationsAreCounted()) GTEST_SKIP() << "a sanitizer brings its own operator new";
  SnapshotSelector selector(seconds(15), true);
  Source fast{"host", seconds(1)}, slow{"a collector whose name is long enough to be allocated", seconds(15)};
  for (int second = 0; second < 100; ++second) {
    Read(fast, second);
    if (second % 15 == 7) Read(slow, second);
    auto tick = Tick({&fast, &slow}, second);
    const uint64_t before = ThreadAllocations();
    const auto selected = selector.Select(tick);
    if (second >= 40) {
      EXPECT_EQ(ThreadAllocations(), before) << second;
    }
    EXPECT_EQ(static_cast<bool>(selected), second % 15 == 0 || second % 15 == 7) << second;
  }
}

}  // namespace
}  // namespace gpulens
