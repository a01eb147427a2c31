// Functions in which a short duration means that a rank is late, and those in which not every rank
// waits for all others, so that it means nothing.
#include "collectives/lateness.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "collectives/diagnosis.h"
#include "collectives/sampler.h"

namespace gpulens::collectives {
namespace {

constexpr int64_t kStepNs = 100'000'000, kReportNs = 500'000'000;

// A job of `ranks` processes that calls one function every 0.1 s. `duration_ns` is that of a rank.
class FunctionWorld {
 public:
  template <class DurationOf>
  void Run(Function function, int ranks, double seconds, const DurationOf& duration_ns) {
    std::vector<Sampler> samplers(static_cast<size_t>(ranks), Sampler(kHash, 10));
    std::vector<std::vector<Sample>> samples(samplers.size());
    uint64_t number = 0;
    const auto end = static_cast<int64_t>(seconds * 1e9);
    for (int64_t at = kStepNs; at <= end; at += kStepNs) {
      const auto sequence = static_cast<uint64_t>(at / kStepNs);
      for (int rank = 0; rank < ranks; ++rank) {
        Measured measured;
        measured.function = function;
        measured.sequence = sequence;
        measured.bytes = 1 << 20;
        // Some microseconds of jitter.
        measured.duration_ns =
            duration_ns(rank) + (sequence * 7919 + static_cast<uint64_t>(rank) * 104'729) % 50'000;
        measured.ended_ns = at;
        samplers[static_cast<size_t>(rank)].Add(measured, samples[static_cast<size_t>(rank)]);
      }
      if (at % kReportNs != 0) continue;
      Batch batch;
      batch.sender = 1;
      batch.number = ++number;
      batch.made_boot_ns = at;
      batch.processes.push_back({});
      batch.processes.front().host = "node";
      for (int rank = 0; rank < ranks; ++rank) {
        Member member;
        member.hash = kHash;
        member.ranks = ranks;
        member.rank = rank;
        member.samples = std::exchange(samples[static_cast<size_t>(rank)], {});
        batch.members.push_back(std::move(member));
      }
      diagnosis_.Add(batch, {at, 0});
      diagnosis_.Advance({at, 0});
    }
  }
  // "3 5": those that are slow.
  std::string Slow() const {
    std::string out;
    diagnosis_.ForEachRank([&](const RankState& rank) {
      if (rank.slow) out += (out.empty() ? "" : " ") + std::to_string(rank.rank);
    });
    return out;
  }

 private:
  static constexpr uint64_t kHash = 0xab;
  Diagnosis diagnosis_{Diagnosis::Options{}};
};

constexpr uint64_t kShort = 1'000'000, kLong = 30'000'000;

TEST(Lateness, OfAFunctionInWhichAllWaitTheShortestIsLate) {
  for (const Function function : {Function::kAllReduce, Function::kAllGather, Function::kAllGatherV,
                                  Function::kReduceScatter, Function::kAllToAll, Function::kBarrier}) {
    for (const int ranks : {2, 8}) {
      FunctionWorld world;
      world.Run(function, ranks, 20, [](int rank) { return rank == 1 ? kShort : kLong; });
      EXPECT_EQ(world.Slow(), "1") << static_cast<int>(function) << " of " << ranks;
    }
  }
}

// The root of a reduce waits for the others, which send and are done. The root of a broadcast sends and is
// done. In a chain those before a late rank do not wait for it. Each send waits for its own receiver.
TEST(Lateness, WhereNotAllWaitTheShortestIsNotLate) {
  for (const Function function :
       {Function::kReduce, Function::kGather, Function::kBroadcast, Function::kScatter, Function::kSend,
        Function::kReceive, Function::kOther}) {
    for (const int ranks : {2, 3, 8}) {
      for (const bool root_waits : {true, false}) {
        FunctionWorld world;
        world.Run(function, ranks, 20, [&](int rank) { return (rank == 0) == root_waits ? kLong : kShort; });
        EXPECT_EQ(world.Slow(), "") << static_cast<int>(function) << " of " << ranks
                                    << (root_waits ? ", root waits" : "");
      }
      // A chain of which the first few are done early.
      FunctionWorld chain;
      chain.Run(function, ranks, 20, [&](int rank) { return 3 * rank < ranks ? kShort : kLong; });
      EXPECT_EQ(chain.Slow(), "") << static_cast<int>(function) << " of " << ranks << ", chain";
    }
  }
}

// As gradients are reduced: eight all-reduces in 0.1 s, and then none for 0.64 s.
TEST(Lateness, TheLostShareIsOneOfTheWholeTime) {
  LatenessWindows windows({});
  windows.Resize(8);
  constexpr double kStep = 740e6, kLate = 9e6;
  for (int i = 0; i < 400; ++i) {
    std::vector<float> mean(8, 10e6F);
    for (size_t member = 0; member < mean.size(); ++member) mean[member] += static_cast<float>(member) * 1e4F;
    mean[3] -= static_cast<float>(kLate);
    JoinedCollective collective{.function = Function::kAllReduce, .mean_ns = mean, .present = mean.size()};
    collective.interval_ns = i % 8 == 0 ? kStep - 7 * 14e6 : 14e6;
    windows.Add(collective);
  }
  const LatenessWindows::MemberState& late = windows.members()[3];
  ASSERT_TRUE(late.slow());
  EXPECT_NEAR(late.worst_lost_share(), 8 * kLate / kStep, 0.02);
  EXPECT_GT(late.worst_share(), 0.3) << "of the time of the all-reduces alone";
}

}  // namespace
}  // namespace gpulens::collectives
