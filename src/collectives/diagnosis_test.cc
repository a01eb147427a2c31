// The diagnosis of simulated worlds: culprits of each kind of fault, false alarms, and what is refused. A
// longer form with more seeds, and the tables of docs/performance/stragglers.md:
//   GPULENS_WORLDS=long build/release/collectives_test --gtest_filter='Worlds*'
#include "collectives/diagnosis.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <map>
#include <memory>

#include "base/sanitizers.h"
#include "collectives/world_testing.h"

namespace gpulens::collectives {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::SizeIs;
using FaultOf = WorldFault::Kind;

constexpr double kFaultAtS = 12;

bool LongWorlds() {
  const char* value = std::getenv("GPULENS_WORLDS");
  return value && std::string_view(value) == "long";
}

struct Seen {
  double at_s = 0;
  FaultChange change;
};

struct WorldRun {
  std::unique_ptr<World> world;
  std::unique_ptr<Diagnosis> diagnosis = std::make_unique<Diagnosis>(Diagnosis::Options{});
  std::vector<Seen> seen;

  explicit WorldRun(const WorldOptions& options) : world(std::make_unique<World>(options)) {}
  void Until(double until_s) {
    world->Run(*diagnosis, until_s, [&](const FaultChange& change) {
      seen.push_back({world->now_s(), change});
      if (change.fault.kind == FaultKind::kSlowCommunication) world->MeasureLinks();
    });
  }
  size_t Raised(FaultKind kind) const {
    return static_cast<size_t>(std::ranges::count_if(seen, [&](const Seen& one) {
      return one.change.kind == FaultChange::Kind::kRaised && one.change.fault.kind == kind;
    }));
  }
  const Fault* Find(FaultKind kind) const {
    for (const Fault& fault : diagnosis->faults()) {
      if (fault.kind == kind) return &fault;
    }
    return nullptr;
  }
  double RaisedAt(FaultKind kind) const {
    for (const Seen& one : seen) {
      if (one.change.kind == FaultChange::Kind::kRaised && one.change.fault.kind == kind) return one.at_s;
    }
    return std::nan("");
  }
};

WorldOptions Ranks(int ranks, uint64_t seed = 1) {
  WorldOptions options;
  options.hosts = ranks / options.gpus;
  options.seed = seed;
  return options;
}
WorldOptions WithFault(WorldOptions options, FaultOf kind, double share = 0, double probability = 1,
                       int rank = 13) {
  options.faults.push_back({kind, rank, share, probability, kFaultAtS});
  return options;
}

// A sentence about the outcome of a single fault; empty: the culprit is right.
std::string Wrong(const WorldRun& run, FaultKind kind, int rank, FaultScope scope) {
  const Fault* fault = run.Find(kind);
  if (!fault) return "no fault of this kind was raised";
  if (run.diagnosis->faults().size() > 1)
    return "more than one fault: " + run.diagnosis->faults()[1].evidence;
  if (fault->scope != scope) return "its scope is " + std::string(NameOf(fault->scope));
  if (fault->culprits.empty() || fault->culprits.front().rank != rank)
    return "the first culprit is " +
           std::to_string(fault->culprits.empty() ? -1 : fault->culprits.front().rank);
  return "";
}

// A sanitizer looks for other faults, and takes ten times as long: without the large worlds.
std::vector<int> SizesOf(std::vector<int> ranks) {
  if (kAddressSanitizer || kThreadSanitizer) std::erase_if(ranks, [](int count) { return count > 64; });
  return ranks;
}

TEST(Worlds, NamesASlowRank) {
  for (const int ranks : SizesOf({8, 64, 4096})) {
    WorldRun run(WithFault(Ranks(ranks), FaultOf::kSlowRank, 0.1, 1, 5));
    run.Until(20);
    EXPECT_EQ(Wrong(run, FaultKind::kSlowRank, 5, FaultScope::kRank), "") << ranks;
    ASSERT_TRUE(run.Find(FaultKind::kSlowRank));
    const Fault& fault = *run.Find(FaultKind::kSlowRank);
    EXPECT_EQ(fault.rule, LatenessRule::kFast);
    EXPECT_EQ(fault.culprits.front().process.host, "node-0");
    EXPECT_EQ(fault.culprits.front().process.gpu, "GPU-0-5");
    EXPECT_EQ(fault.affected_ranks, static_cast<uint32_t>(ranks));
    EXPECT_EQ(fault.pods, static_cast<uint32_t>(ranks / 8));
    EXPECT_EQ(fault.jobs, 1u);
    EXPECT_NEAR(fault.lateness_s, 0.025, 0.005);
    EXPECT_GT(fault.confidence, 0.9);
    EXPECT_THAT(fault.evidence, HasSubstr("(rule fast)"));
  }
}

TEST(Worlds, TheCulpritHasTheShortestDurationAndNoVictimIsBlamed) {
  WorldRun run(WithFault(Ranks(64), FaultOf::kSlowRank, 0.5));
  run.Until(60);
  EXPECT_EQ(Wrong(run, FaultKind::kSlowRank, 13, FaultScope::kRank), "");
  EXPECT_EQ(run.Raised(FaultKind::kSlowRank), 1u);
  double lost = 0, others = 0;
  run.diagnosis->ForEachRank([&](const RankState& rank) {
    (rank.rank == 13 ? lost : others) += rank.lost_time_s;
    EXPECT_EQ(rank.slow, rank.rank == 13);
  });
  EXPECT_GT(lost, 10) << "a third of 48 s";
  EXPECT_LT(others, lost / 2);
}

TEST(Worlds, NamesASlowHostAsOne) {
  for (const int ranks : SizesOf({64, 4096})) {
    WorldRun run(WithFault(Ranks(ranks), FaultOf::kSlowHost, 0.1));
    run.Until(24);
    EXPECT_EQ(Wrong(run, FaultKind::kSlowRank, 8, FaultScope::kHost), "") << ranks;
    ASSERT_TRUE(run.Find(FaultKind::kSlowRank));
    EXPECT_EQ(run.Find(FaultKind::kSlowRank)->culprit_count, 8u);
  }
}

TEST(Worlds, NamesASlowLinkOnceStepsAreMeasured) {
  for (const int ranks : SizesOf({64, 4096})) {
    WorldRun run(WithFault(Ranks(ranks), FaultOf::kSlowLink, 0.1));
    run.Until(24);
    EXPECT_EQ(Wrong(run, FaultKind::kSlowCommunication, 13, FaultScope::kLink), "") << ranks;
    ASSERT_TRUE(run.Find(FaultKind::kSlowCommunication));
    EXPECT_EQ(run.Find(FaultKind::kSlowCommunication)->culprits.back().rank, 14);
    EXPECT_TRUE(run.diagnosis->wants_links(run.world->options().hash));
    EXPECT_EQ(run.seen.front().change.fault.scope, FaultScope::kCommunicator) << "before that";
  }
}

TEST(Worlds, NamesARankThatIsLateNowAndThen) {
  WorldRun run(WithFault(Ranks(64), FaultOf::kSlowRank, 0.1, 0.3));
  run.Until(60);
  EXPECT_EQ(Wrong(run, FaultKind::kSlowRank, 13, FaultScope::kRank), "");
}

TEST(Worlds, NamesTwoFaults) {
  WorldOptions options = WithFault(Ranks(64), FaultOf::kSlowRank, 0.1, 1, 13);
  WorldRun run(WithFault(options, FaultOf::kSlowRank, 0.2, 1, 40));
  run.Until(20);
  ASSERT_THAT(run.diagnosis->faults(), SizeIs(2));
  std::vector<int> ranks;
  for (const Fault& fault : run.diagnosis->faults()) ranks.push_back(fault.culprits.at(0).rank);
  EXPECT_THAT(ranks, ::testing::UnorderedElementsAre(13, 40));
}

// All ranks of its group are late in the communicator of all, as they wait for it.
TEST(Worlds, BlamesTheRankForWhichAGroupWaits) {
  WorldOptions options = WithFault(Ranks(64), FaultOf::kSlowRank, 0.1);
  options.groups = true;
  WorldRun run(options);
  run.Until(60);
  const Fault* fault = run.Find(FaultKind::kSlowRank);
  ASSERT_TRUE(fault);
  EXPECT_THAT(run.diagnosis->faults(), SizeIs(1));
  EXPECT_EQ(fault->culprits.at(0).process.gpu, "GPU-1-5");
  EXPECT_EQ(fault->communicator_name, "group");
  EXPECT_EQ(fault->communicators, 2u);
  run.diagnosis->ForEachRank([&](const RankState& rank) {
    EXPECT_EQ(rank.slow, rank.process->gpu == "GPU-1-5") << rank.process->gpu;
  });
  EXPECT_EQ(fault->affected_ranks, 64u);
  EXPECT_EQ(run.Raised(FaultKind::kSlowRank), 1u);
}

// A rank that was late and now comes first has a negative share while its rule still holds.
TEST(Worlds, ARankThatBecomesEarlyIsNotNamedForLong) {
  WorldOptions late = WithFault(Ranks(16), FaultOf::kSlowRank, 0.3), early = Ranks(16);
  Diagnosis diagnosis({});
  World first(late);
  const auto report = [&](const Batch& batch, Instant now) { diagnosis.Add(batch, now); };
  while (first.now_s() < 20) {
    first.Step(report);
    diagnosis.Advance(first.now());
  }
  ASSERT_THAT(diagnosis.faults(), SizeIs(1));
  // All but that rank become late: it is earlier than the median.
  Instant now = first.now();
  std::vector<uint64_t> total(16, 1'000'000'000'000'000), count(16, 1'000'000);
  for (uint64_t step = 0; step < 60; ++step) {
    for (int32_t rank = 0; rank < 16; ++rank) {
      Batch batch;
      batch.processes.push_back({first.HostName(rank / 8),
                                 "GPU-" + std::to_string(rank / 8) + "-" + std::to_string(rank % 8),
                                 "job-1",
                                 "",
                                 1000 + rank % 8,
                                 ProcessState::kRuns,
                                 {}});
      Member member;
      member.hash = late.hash;
      member.ranks = 16;
      member.rank = rank;
      const uint64_t duration = rank == 13 ? 200'000'000 : 8'000'000;
      total[static_cast<size_t>(rank)] += duration;
      member.samples.push_back({Function::kAllReduce, Algorithm::kRing, Protocol::kSimple, 1'000'000 + step,
                                64 << 20, duration, total[static_cast<size_t>(rank)],
                                ++count[static_cast<size_t>(rank)],
                                static_cast<int64_t>(2'000'000'000'000'000 + step * 250'000'000)});
      batch.members.push_back(member);
      diagnosis.Add(batch, now);
    }
    now = now + std::chrono::milliseconds(250);
    diagnosis.Advance(now);
  }
  EXPECT_THAT(diagnosis.faults(), SizeIs(0));
}

TEST(Worlds, ClearsWhatIsOver) {
  // Faults of a world do not end; another job of the same ranks follows.
  WorldRun run(WithFault(Ranks(64), FaultOf::kSlowRank, 0.2));
  run.Until(20);
  ASSERT_THAT(run.diagnosis->faults(), SizeIs(1));
  for (int second = 0; second < 60; ++second)
    run.diagnosis->Advance(run.world->now() + std::chrono::seconds(second));
  EXPECT_THAT(run.diagnosis->faults(), SizeIs(0)) << "no collective is joined any more";
  EXPECT_EQ(run.diagnosis->TakeChanges().back().kind, FaultChange::Kind::kCleared);
}

TEST(Worlds, NamesWhoHangs) {
  struct Case {
    FaultOf fault;
    HangKind kind;
    FaultScope scope;
    int first;
    size_t culprits;
  };
  const Case cases[] = {
      {FaultOf::kNotArrived, HangKind::kNotArrived, FaultScope::kRank, 13, 1},
      {FaultOf::kGpuQueue, HangKind::kGpuQueue, FaultScope::kRank, 13, 1},
      {FaultOf::kLinkStops, HangKind::kLink, FaultScope::kLink, 13, 2},
      {FaultOf::kCrash, HangKind::kProcess, FaultScope::kRank, 13, 1},
      {FaultOf::kHostDown, HangKind::kProcess, FaultScope::kHost, 8, 8},
      {FaultOf::kOtherCollective, HangKind::kProgram, FaultScope::kRank, 13, 1},
  };
  for (const int ranks : SizesOf({16, 64, 4096})) {
    for (const Case& one : cases) {
      if (ranks > 64 && one.kind != HangKind::kNotArrived && !LongWorlds()) continue;
      WorldRun run(WithFault(Ranks(ranks), one.fault));
      run.Until(kFaultAtS - 1);
      EXPECT_THAT(run.diagnosis->faults(), SizeIs(0));
      run.Until(kFaultAtS + 36);
      const std::string where = std::to_string(ranks) + " " + std::string(NameOf(one.kind));
      EXPECT_EQ(Wrong(run, FaultKind::kHang, one.first, one.scope), "") << where;
      const Fault* fault = run.Find(FaultKind::kHang);
      ASSERT_TRUE(fault) << where;
      EXPECT_EQ(fault->hang, one.kind) << where;
      EXPECT_EQ(fault->culprit_count, one.culprits) << where;
      EXPECT_EQ(fault->affected_ranks, static_cast<uint32_t>(ranks));
      EXPECT_LT(run.RaisedAt(FaultKind::kHang), kFaultAtS + 35) << where;
      EXPECT_GE(fault->confidence, 0.8) << where;
      run.diagnosis->ForEachCommunicator([&](const CommunicatorState& state) { EXPECT_TRUE(state.hung); });
    }
  }
}

TEST(Worlds, NoFalseAlarms) {
  struct Case {
    const char* name;
    WorldOptions options;
    double hours;
  };
  std::vector<Case> cases;
  const double day = LongWorlds() ? 24 : 1;
  cases.push_back({"64 ranks", Ranks(64, 7), day});
  cases.push_back({"64 ranks, groups", Ranks(64, 8), day / 4});
  cases.back().options.groups = true;
  cases.push_back({"64 ranks, short steps", Ranks(64, 9), day / 8});
  cases.back().options.step_s = 0.02;
  cases.back().options.jitter_s = 0.0003;
  cases.back().options.communication_s = 0.003;
  cases.push_back({"64 ranks, loss", Ranks(64, 10), day / 4});
  cases.back().options.record_loss = 0.05;
  cases.back().options.batch_loss = 0.02;
  cases.back().options.duplicates = 0.02;
  cases.push_back({"8 ranks", Ranks(8, 11), day});
  cases.push_back({"4,096 ranks", Ranks(4096, 12), LongWorlds() ? 2 : 0.03});
  cases.push_back({"4,096 ranks, 8 hosts of twice the jitter", Ranks(4096, 13), LongWorlds() ? 2 : 0.03});
  cases.back().options.jittery_hosts = 8;
  for (const Case& one : cases) {
    WorldRun run(one.options);
    run.Until(one.hours * 3600);
    std::printf("  %-42s %5.2f h: %zu false alarms, %llu collectives joined\n", one.name, one.hours,
                run.seen.size(), static_cast<unsigned long long>(run.diagnosis->counts().collectives));
    EXPECT_THAT(run.seen, SizeIs(0)) << one.name << ": " << run.seen.front().change.fault.evidence;
  }
}

// What docs/performance/stragglers.md has: who is found, how fast, with which confidence.
TEST(Worlds, SingleFaults) {
  struct Case {
    const char* name;
    FaultOf fault;
    double share, probability;
    FaultKind kind;
    int first;
    bool must;  // the requirement: each of 10 % or more, within 5 s
  };
  const Case cases[] = {
      {"slow rank 3 %", FaultOf::kSlowRank, 0.03, 1, FaultKind::kSlowRank, 13, false},
      {"slow rank 10 %", FaultOf::kSlowRank, 0.1, 1, FaultKind::kSlowRank, 13, true},
      {"slow rank 30 %", FaultOf::kSlowRank, 0.3, 1, FaultKind::kSlowRank, 13, true},
      {"slow rank 100 %", FaultOf::kSlowRank, 1, 1, FaultKind::kSlowRank, 13, true},
      {"slow rank 10 % of 30 % of steps", FaultOf::kSlowRank, 0.1, 0.3, FaultKind::kSlowRank, 13, false},
      {"slow host 3 %", FaultOf::kSlowHost, 0.03, 1, FaultKind::kSlowRank, 8, false},
      {"slow host 10 %", FaultOf::kSlowHost, 0.1, 1, FaultKind::kSlowRank, 8, true},
      {"slow link 3 %", FaultOf::kSlowLink, 0.03, 1, FaultKind::kSlowCommunication, 13, false},
      {"slow link 10 %", FaultOf::kSlowLink, 0.1, 1, FaultKind::kSlowCommunication, 13, true},
      {"slow link 30 %", FaultOf::kSlowLink, 0.3, 1, FaultKind::kSlowCommunication, 13, true},
  };
  for (const int ranks : SizesOf({64, 4096})) {
    const uint64_t seeds = ranks == 64 ? (LongWorlds() ? 100 : 5) : (LongWorlds() ? 10 : 1);
    for (const Case& one : cases) {
      if (ranks > 64 && !one.must && !LongWorlds()) continue;
      size_t right = 0, wrong = 0;
      double confidence = 0;
      std::vector<double> after;
      for (uint64_t seed = 1; seed <= seeds; ++seed) {
        WorldRun run(WithFault(Ranks(ranks, seed), one.fault, one.share, one.probability));
        run.Until(kFaultAtS + (one.must ? 10 : 40));
        const Fault* fault = run.Find(one.kind);
        if (!fault) continue;
        const bool alone = run.diagnosis->faults().size() == 1;
        ++(alone && !fault->culprits.empty() && fault->culprits.front().rank == one.first ? right : wrong);
        confidence += fault->confidence;
        after.push_back(run.RaisedAt(one.kind) - kFaultAtS);
      }
      std::ranges::sort(after);
      const double found = static_cast<double>(std::max<size_t>(after.size(), 1));
      std::printf("  | %d | %s | %zu of %llu | %zu | %.2f | %.1f | %.1f |\n", ranks, one.name, right,
                  static_cast<unsigned long long>(seeds), wrong, confidence / found,
                  after.empty() ? 0.0 : after[after.size() / 2], after.empty() ? 0.0 : after.back());
      if (!one.must) continue;
      EXPECT_EQ(right, seeds) << ranks << " " << one.name;
      // Among 4,096 ranks one or two pause in most steps, which makes steps half as long again.
      EXPECT_LE(after.empty() ? 1e9 : after.back(), ranks == 64 ? 5.0 : 6.0) << ranks << " " << one.name;
    }
  }
}

TEST(Worlds, LossDoesNotHideOrMakeAFault) {
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    WorldOptions options = WithFault(Ranks(64, seed), FaultOf::kSlowRank, 0.1);
    options.record_loss = 0.05;
    options.batch_loss = 0.02;
    options.duplicates = 0.05;
    WorldRun run(options);
    run.Until(24);
    EXPECT_EQ(Wrong(run, FaultKind::kSlowRank, 13, FaultScope::kRank), "") << seed;
    EXPECT_GT(run.diagnosis->counts().duplicate, 0u);
  }
}

TEST(Worlds, ManyCollectivesOfAStepAreSampled) {
  WorldOptions options = WithFault(Ranks(64), FaultOf::kSlowRank, 0.1);
  options.collectives = 20;
  options.communication_s = 0.002;
  options.jitter_s = 0.0002;
  WorldRun run(options);
  run.Until(20);
  EXPECT_EQ(Wrong(run, FaultKind::kSlowRank, 13, FaultScope::kRank), "");
  EXPECT_LT(run.diagnosis->counts().samples, run.world->records() / 4);
}

// Two jobs in one namespace with equal identities of communicators.
TEST(Worlds, JobsWithOneHashAreTwo) {
  WorldOptions first = WithFault(Ranks(16), FaultOf::kSlowRank, 0.2), second = Ranks(16, 5);
  second.job = "job-2";
  second.prefix = "other-";
  second.step_s = 0.31;
  World a(first), b(second);
  Diagnosis diagnosis({});
  const auto report = [&](const Batch& batch, Instant now) { diagnosis.Add(batch, now); };
  while (a.now_s() < 40) {
    a.Step(report);
    b.Step(report);
    diagnosis.Advance(a.now());
  }
  ASSERT_THAT(diagnosis.faults(), SizeIs(1));
  EXPECT_EQ(diagnosis.faults()[0].culprits.at(0).process.host, "node-1");
  EXPECT_EQ(diagnosis.counts().ambiguous, 0u);
}

// Without names of jobs it is not known which rank is of which job: no rank is blamed.
TEST(Worlds, JobsThatCannotBeSeparatedHaveNoFaults) {
  WorldOptions first = WithFault(Ranks(16), FaultOf::kSlowRank, 0.5), second = Ranks(16, 5);
  first.job = second.job = "";
  second.prefix = "other-";
  World a(first), b(second);
  Diagnosis diagnosis({});
  const auto report = [&](const Batch& batch, Instant now) { diagnosis.Add(batch, now); };
  while (a.now_s() < 60) {
    a.Step(report);
    b.Step(report);
    diagnosis.Advance(a.now());
  }
  EXPECT_THAT(diagnosis.faults(), SizeIs(0));
  EXPECT_GT(diagnosis.counts().ambiguous, 0u);
}

TEST(Worlds, TheRanksOfOneHostAloneShowLessSurely) {
  // The agent of node-1 sees 8 of 64 ranks.
  World world(WithFault(Ranks(64), FaultOf::kSlowRank, 0.2));
  Diagnosis diagnosis({});
  while (world.now_s() < 35) {
    world.Step([&](const Batch& batch, Instant now) {
      if (batch.processes[0].host == "node-1") diagnosis.Add(batch, now);
    });
    diagnosis.Advance(world.now());
  }
  ASSERT_THAT(diagnosis.faults(), SizeIs(1));
  EXPECT_EQ(diagnosis.faults()[0].culprits.at(0).rank, 13);
  EXPECT_LT(diagnosis.faults()[0].confidence, 0.6);
}

TEST(Worlds, AHangElsewhereIsNotBlamedOnThisHost) {
  World world(WithFault(Ranks(64), FaultOf::kNotArrived, 0, 1, 40));
  Diagnosis diagnosis({});
  while (world.now_s() < 60) {
    world.Step([&](const Batch& batch, Instant now) {
      if (batch.processes[0].host == "node-1") diagnosis.Add(batch, now);
    });
    diagnosis.Advance(world.now());
  }
  ASSERT_THAT(diagnosis.faults(), SizeIs(1));
  const Fault& fault = diagnosis.faults()[0];
  EXPECT_EQ(fault.kind, FaultKind::kHang);
  EXPECT_EQ(fault.scope, FaultScope::kCommunicator);
  EXPECT_THAT(fault.culprits, SizeIs(0));
  EXPECT_EQ(fault.culprit_count, 56u) << "one of those that do not report";
  EXPECT_LT(fault.confidence, 0.2);
}

TEST(Worlds, TwoRanksShowWhoIsLaterWithHalfTheConfidence) {
  WorldOptions options = WithFault(Ranks(8), FaultOf::kSlowRank, 0.3, 1, 1);
  options.hosts = 2;
  options.gpus = 1;
  WorldRun run(options);
  run.Until(24);
  EXPECT_EQ(Wrong(run, FaultKind::kSlowRank, 1, FaultScope::kRank), "");
  ASSERT_TRUE(run.Find(FaultKind::kSlowRank));
  EXPECT_LE(run.Find(FaultKind::kSlowRank)->confidence, 0.5);
}

TEST(Worlds, HintsNameTheCause) {
  WorldRun run(WithFault(Ranks(64), FaultOf::kSlowRank, 0.2));
  run.Until(24);
  ASSERT_TRUE(run.Find(FaultKind::kSlowRank));
  EXPECT_EQ(run.Find(FaultKind::kSlowRank)->cause, Cause::kUnknown);
  const auto add = [&](const char* gpu, Cause cause, const char* what) {
    run.diagnosis->AddHint({"node-1", gpu, cause, true, 0, what}, run.world->now());
  };
  add("GPU-1-4", Cause::kGpuEcc, "of another GPU");
  run.diagnosis->AddHint({"node-2", "GPU-1-5", Cause::kGpuEcc, true, 0, "of another host"}, run.world->now());
  run.Until(26);
  EXPECT_EQ(run.Find(FaultKind::kSlowRank)->cause, Cause::kUnknown) << "a hint of another GPU";
  add("GPU-1-5", Cause::kGpuClock, "its clock is held down by heat");
  add("GPU-1-5", Cause::kNvlink, "less likely");
  add("", Cause::kNic, "of the host");
  run.Until(28);
  const Fault* fault = run.Find(FaultKind::kSlowRank);
  EXPECT_EQ(fault->cause, Cause::kGpuClock);
  EXPECT_THAT(fault->evidence, EndsWith("; its GPU: its clock is held down by heat"));
  ASSERT_FALSE(run.seen.empty());
  EXPECT_EQ(run.seen.back().change.kind, FaultChange::Kind::kChanged) << "the cause became known later";
  EXPECT_EQ(run.seen.back().change.fault.cause, Cause::kGpuClock);
  const size_t changes = run.seen.size();
  run.Until(95);
  EXPECT_EQ(run.Find(FaultKind::kSlowRank)->cause, Cause::kUnknown) << "a hint counts for a minute";
  EXPECT_EQ(run.seen.size(), changes) << "that nothing shows the cause any more is no event";
}

TEST(Worlds, BusyProcessorsExplainAHostAndNotOneOfItsRanks) {
  for (const FaultOf kind : {FaultOf::kSlowRank, FaultOf::kSlowHost}) {
    WorldRun run(WithFault(Ranks(64), kind, 0.2));
    run.Until(22);
    run.diagnosis->AddHint({"node-1", "", Cause::kHostCpu, true, 0, "programs wait for a processor"},
                           run.world->now());
    run.Until(24);
    ASSERT_TRUE(run.Find(FaultKind::kSlowRank));
    EXPECT_EQ(run.Find(FaultKind::kSlowRank)->cause,
              kind == FaultOf::kSlowHost ? Cause::kHostCpu : Cause::kUnknown);
  }
}

// A hang of rank 13 (its GPU: GPU-1-5) with a hint that came `before_s` before it.
std::unique_ptr<WorldRun> HangWithHint(FaultOf kind, double before_s, Hint hint) {
  auto run = std::make_unique<WorldRun>(WithFault(Ranks(64), kind));
  run->Until(kFaultAtS - 1);
  hint.age_ns = static_cast<int64_t>((before_s - 1) * 1e9);
  run->diagnosis->AddHint(hint, run->world->now());
  run->Until(kFaultAtS + 40);
  EXPECT_TRUE(run->Find(FaultKind::kHang));
  return run;
}

TEST(Worlds, AnXidNamesTheCauseOfAHang) {
  const Hint xid{"node-1", "GPU-1-5", Cause::kPcie, false, 0, "XID 79: GPU no longer answers on PCIe"};
  for (const FaultOf kind : {FaultOf::kNotArrived, FaultOf::kCrash, FaultOf::kLinkStops}) {
    const auto run = HangWithHint(kind, 8, xid);
    const Fault& fault = *run->Find(FaultKind::kHang);
    EXPECT_EQ(fault.cause, Cause::kPcie);
    EXPECT_THAT(fault.evidence, HasSubstr(" reported XID 79: GPU no longer answers on PCIe, "));
    EXPECT_THAT(fault.evidence, EndsWith(" s before the wait began"));
    if (kind == FaultOf::kLinkStops) {
      EXPECT_THAT(fault.evidence, HasSubstr("the GPU of rank 13 reported"));
    }
    EXPECT_EQ(run->seen.back().change.kind, FaultChange::Kind::kRaised) << "the event has the cause";
  }
}

TEST(Worlds, AProcessThatEndsMayHaveLackedMemory) {
  const Hint oom{"node-1", "", Cause::kHostMemory, false, 0, "the end of a program for lack of memory"};
  EXPECT_EQ(HangWithHint(FaultOf::kNotArrived, 8, oom)->Find(FaultKind::kHang)->cause, Cause::kUnknown);
  const auto run = HangWithHint(FaultOf::kCrash, 8, oom);
  EXPECT_EQ(run->Find(FaultKind::kHang)->cause, Cause::kHostMemory);
  EXPECT_THAT(run->Find(FaultKind::kHang)->evidence,
              HasSubstr("; its host reported the end of a program for lack of memory, "));
}

TEST(Worlds, AHintThatDoesNotExplainAHangChangesNothing) {
  const Hint xid{"node-1", "GPU-1-5", Cause::kPcie, false, 0, "XID 79"};
  Hint clock = xid, other = xid, narrow = xid;
  narrow.lasts = true;
  clock.cause = Cause::kGpuClock;
  other.gpu = "GPU-1-4";
  EXPECT_EQ(HangWithHint(FaultOf::kNotArrived, 63, xid)->Find(FaultKind::kHang)->cause, Cause::kUnknown)
      << "more than a minute before";
  EXPECT_EQ(HangWithHint(FaultOf::kNotArrived, 1, narrow)->Find(FaultKind::kHang)->cause, Cause::kUnknown)
      << "it worked with a narrow bus";
  EXPECT_EQ(HangWithHint(FaultOf::kNotArrived, 8, clock)->Find(FaultKind::kHang)->cause, Cause::kUnknown)
      << "a slow GPU does not stop";
  // What lasts does not hide what happened.
  WorldRun both(WithFault(Ranks(64), FaultOf::kNotArrived));
  both.Until(kFaultAtS);
  both.diagnosis->AddHint(xid, both.world->now());
  both.Until(kFaultAtS + 38);
  both.diagnosis->AddHint(narrow, both.world->now());
  both.Until(kFaultAtS + 40);
  ASSERT_TRUE(both.Find(FaultKind::kHang));
  EXPECT_EQ(both.Find(FaultKind::kHang)->cause, Cause::kPcie);
  const auto run = HangWithHint(FaultOf::kNotArrived, 8, other);
  EXPECT_EQ(run->Find(FaultKind::kHang)->cause, Cause::kUnknown);
  EXPECT_THAT(run->Find(FaultKind::kHang)->evidence, Not(HasSubstr("XID")));
}

TEST(Worlds, AHintOfOneRankExplainsACommunicatorThatIsSlow) {
  WorldRun run(WithFault(Ranks(64), FaultOf::kSlowLink, 0.3));
  run.Until(kFaultAtS + 1);
  run.diagnosis->AddHint({"node-1", "", Cause::kNic, false, 0, "port 1 of mlx5_0 down"}, run.world->now());
  run.Until(20);
  ASSERT_TRUE(run.Find(FaultKind::kSlowCommunication));
  EXPECT_EQ(run.Find(FaultKind::kSlowCommunication)->cause, Cause::kNic);
  EXPECT_THAT(run.Find(FaultKind::kSlowCommunication)->evidence,
              HasSubstr("; the host of rank 13 reported port 1 of mlx5_0 down, "));
}

TEST(Worlds, MemoryOf4096RanksIsBounded) {
  WorldOptions options = Ranks(4096);
  options.groups = true;
  WorldRun run(options);
  run.Until(20);
  std::printf("  %.1f MB\n", static_cast<double>(run.diagnosis->memory()) / 1e6);
  EXPECT_LT(run.diagnosis->memory(), 64u << 20);
  EXPECT_GT(run.diagnosis->memory(), 1u << 20);
}

Batch OneMember(int32_t rank, int32_t ranks = 4) {
  Batch batch;
  batch.processes.push_back({"h" + std::to_string(rank), "g", "j", "", rank + 1, ProcessState::kRuns, {}});
  Member member;
  member.hash = 9;
  member.rank = rank;
  member.ranks = ranks;
  batch.members.push_back(member);
  return batch;
}

TEST(Diagnosis, RefusesWhatCannotBeTrue) {
  Diagnosis::Options options;
  options.members = 3;
  options.communicators = 1;
  Diagnosis diagnosis(options);
  const Instant now{1'000'000'000'000, 0};
  diagnosis.Add(OneMember(4), now);
  diagnosis.Add(OneMember(-1), now);
  diagnosis.Add(OneMember(0, 0), now);
  Batch no_process = OneMember(0);
  no_process.members[0].process = 7;
  diagnosis.Add(no_process, now);
  Batch long_host = OneMember(0);
  long_host.processes[0].host.assign(1000, 'x');
  diagnosis.Add(long_host, now);
  EXPECT_EQ(diagnosis.counts().invalid, 6u);
  for (int rank = 0; rank < 4; ++rank) diagnosis.Add(OneMember(rank), now);
  Batch other = OneMember(0);
  other.members[0].hash = 10;
  diagnosis.Add(other, now);
  EXPECT_EQ(diagnosis.counts().refused, 2u);
  Batch sample = OneMember(0);
  sample.members[0].samples.push_back({Function::kAllReduce, {}, {}, 1, 1, 100, 50, 1, 0});
  diagnosis.Add(sample, now);
  EXPECT_EQ(diagnosis.counts().samples, 0u) << "the total is less than the duration";
}

TEST(Diagnosis, ForgetsCommunicatorsThatEnded) {
  Diagnosis diagnosis({});
  Instant now{1'000'000'000'000, 0};
  for (int rank = 0; rank < 4; ++rank) diagnosis.Add(OneMember(rank), now);
  const auto count = [&] {
    int communicators = 0;
    diagnosis.ForEachCommunicator([&](const CommunicatorState&) { ++communicators; });
    return communicators;
  };
  EXPECT_EQ(count(), 1);
  for (int rank = 0; rank < 4; ++rank) {
    Batch batch = OneMember(rank);
    batch.members[0].closed = true;
    diagnosis.Add(batch, now);
  }
  diagnosis.Advance(now);
  for (int second = 0; second < 60; ++second) diagnosis.Advance(now = now + std::chrono::seconds(1));
  EXPECT_EQ(count(), 0);
}

// The first collectives of a job wait for compilers and file systems.
TEST(Diagnosis, WaitsLongerForTheFirstCollective) {
  Diagnosis diagnosis({});
  Instant now{1'000'000'000'000, 0};
  double raised_s = 0;
  for (int second = 0; second < 400; ++second, now = now + std::chrono::seconds(1)) {
    for (int rank = 0; rank < 4; ++rank) {
      Batch batch = OneMember(rank);
      Progress progress;
      progress.function = Function::kAllReduce;
      progress.enqueued = progress.started = rank != 2;
      progress.idle_ns = second * 1'000'000'000LL;
      batch.members[0].progress.push_back(progress);
      diagnosis.Add(batch, now);
    }
    diagnosis.Advance(now);
    if (raised_s == 0 && !diagnosis.faults().empty()) raised_s = second;
  }
  EXPECT_NEAR(raised_s, 300, 2);
  ASSERT_THAT(diagnosis.faults(), SizeIs(1));
  EXPECT_EQ(diagnosis.faults()[0].culprits.at(0).rank, 2);
}

}  // namespace
}  // namespace gpulens::collectives
