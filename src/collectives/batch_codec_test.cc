#include "collectives/batch_codec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "base/hash.h"
#include "collectives/world_testing.h"

namespace gpulens::collectives {
namespace {

using ::testing::HasSubstr;

Batch SomeBatch() {
  Batch batch;
  batch.sender = 0xfedcba9876543210;
  batch.number = 3;
  batch.made_boot_ns = 5'000'000'000;
  batch.processes.push_back(
      {"node-1", "GPU-1", "job", "pod-ä", 77, ProcessState::kRuns, Phase::kDataLoading});
  batch.processes.push_back({"node-1", "GPU-2", "job", "pod-ä", 78, ProcessState::kStopped, Phase::kUnknown});
  Member member;
  member.process = 1;
  member.hash = 0xabcdef0123456789;
  member.ranks = 64;
  member.rank = 9;
  member.name = "dp";
  member.progress.push_back({Function::kAllReduce, 12, 11, 10, 1 << 20, 250'000'000, ProxyWait::kReceive, 8});
  member.samples.push_back({Function::kAllReduce, Algorithm::kRing, Protocol::kSimple, 8, 1 << 20, 1'000'000,
                            9'000'000, 9, 4'900'000'000});
  member.samples.push_back(
      {Function::kBroadcast, Algorithm::kTree, Protocol::kLowLatency, 1, 4, 5000, 5000, 1, 4'950'000'000});
  member.samples.push_back({Function::kAllReduce, Algorithm::kRing, Protocol::kSimple, 9, 1 << 21, 2'000'000,
                            11'000'000, 10, 4'990'000'000});
  member.links.push_back({8, 90'000});
  batch.members.push_back(member);
  member.closed = true;
  member.process = 0;
  member.rank = 8;
  member.progress.clear();
  member.samples.clear();
  member.links.clear();
  batch.members.push_back(member);
  batch.hints.push_back(
      {"node-1", "GPU-2", Cause::kPcie, false, 12'000'000'000, "XID 79: GPU no longer answers on PCIe"});
  batch.hints.push_back({"node-1", "", Cause::kHostCpu, true, 0, "programs wait for a processor"});
  return batch;
}

std::string Encoded(const Batch& batch) {
  std::string bytes;
  EncodeBatch(batch, bytes);
  return bytes;
}

TEST(BatchCodec, ReadsWhatItWrites) {
  const Batch batch = SomeBatch();
  Batch again;
  const Status status = DecodeBatch(Encoded(batch), again);
  ASSERT_TRUE(status.ok()) << status.detail;
  EXPECT_EQ(again, batch);
  EXPECT_EQ(Encoded(batch)[4], 2);
}

TEST(BatchCodec, AnOlderGatewayTakesABatchWithoutHints) {
  Batch batch = SomeBatch();
  batch.hints.clear();
  std::string bytes = Encoded(batch);
  EXPECT_EQ(bytes[4], 1);
  Batch again;
  ASSERT_TRUE(DecodeBatch(bytes, again).ok());
  EXPECT_EQ(again, batch);
  // Without the count of hints it is cut.
  bytes[4] = 2;
  EXPECT_EQ(DecodeBatch(bytes, again).code, Code::kDataLoss);
}

TEST(BatchCodec, RefusesHintsThatCannotBeTrue) {
  const Batch batch = SomeBatch();
  Batch out;
  const std::string bytes = Encoded(batch);
  // Of the last hint: cause, whether it lasts, its age.
  for (const size_t from_end : {3u, 2u}) {
    std::string bad = bytes;
    bad[bad.size() - from_end] = '\x20';
    EXPECT_EQ(DecodeBatch(bad, out).code, Code::kDataLoss) << from_end;
  }
  Batch many = batch;
  many.hints.assign(kBatchHints + 5, batch.hints[0]);
  ASSERT_TRUE(DecodeBatch(Encoded(many), out).ok());
  EXPECT_EQ(out.hints.size(), kBatchHints);
}

TEST(BatchCodec, EveryCutIsRefused) {
  const std::string bytes = Encoded(SomeBatch());
  Batch out;
  for (size_t size = 0; size < bytes.size(); ++size)
    EXPECT_FALSE(DecodeBatch(std::string_view(bytes).substr(0, size), out).ok()) << size;
  EXPECT_FALSE(DecodeBatch(bytes + '\0', out).ok()) << "a byte too many";
}

TEST(BatchCodec, RefusesWhatIsNoBatch) {
  Batch out;
  std::string bytes = Encoded(SomeBatch());
  bytes[4] = 3;
  const Status version = DecodeBatch(bytes, out);
  EXPECT_EQ(version.code, Code::kInvalidArgument);
  EXPECT_THAT(version.detail, HasSubstr("version 1 or 2 here, not 3"));
  EXPECT_EQ(DecodeBatch("{}", out).code, Code::kInvalidArgument);
  EXPECT_EQ(DecodeBatch(std::string(5u << 20, 'x'), out).code, Code::kInvalidArgument);
  Batch control = SomeBatch();
  control.processes[0].host = "a\nb";
  EXPECT_EQ(DecodeBatch(Encoded(control), out).code, Code::kDataLoss);
  Batch no_text = SomeBatch();
  no_text.processes[0].host = "\xff";
  EXPECT_EQ(DecodeBatch(Encoded(no_text), out).code, Code::kDataLoss);
}

// A count that promises more than there is reserves nothing.
TEST(BatchCodec, CountsAreBoundedByWhatFollows) {
  std::string bytes = Encoded(Batch{});
  // Texts, processes, members: all none.
  ASSERT_EQ(bytes.substr(bytes.size() - 3), std::string(3, '\0'));
  Batch out;
  for (size_t at = bytes.size() - 3; at < bytes.size(); ++at) {
    std::string large = bytes.substr(0, at) + "\xff\xff\xff\xff\x0f" + bytes.substr(at + 1);
    EXPECT_EQ(DecodeBatch(large, out).code, Code::kDataLoss);
  }
}

TEST(BatchCodec, CutsLongTextsBetweenCharacters) {
  Batch batch = SomeBatch();
  batch.processes[0].host = "x";
  for (int i = 0; i < 100; ++i) batch.processes[0].host += "ä";
  Batch out;
  ASSERT_TRUE(DecodeBatch(Encoded(batch), out).ok());
  EXPECT_EQ(out.processes[0].host.size(), 127u);
}

// The requirement: 700 bytes a rank and second, with ten samples a second and the state of 16 communicators.
TEST(BatchCodec, ARankTakesLittle) {
  WorldOptions options;
  options.hosts = 2;
  options.report_s = 1;  // of the state; samples may come more often
  options.collectives = 20;
  options.communication_s = 0.002;
  options.jitter_s = 0.0002;
  World world(options);
  size_t bytes = 0, batches = 0, samples = 0;
  std::map<std::string, int> hint_at;
  while (world.now_s() < 60) {
    world.Step([&](const Batch& batch, Instant) {
      Batch more = batch;
      // One hint of each GPU in five seconds: of a host that is hot.
      for (const Process& process : batch.processes) {
        if (hint_at[process.gpu]++ % 5 == 0)
          more.hints.push_back({process.host, process.gpu, Cause::kGpuClock, true, 0,
                                "its clock is held down by heat: 1200 MHz, the others have 1980"});
      }
      for (const Member& member : batch.members) {
        samples += member.samples.size();
        for (uint64_t i = 1; i < 16; ++i) {
          Member idle = member;
          idle.hash += i * 77;
          idle.samples.clear();
          more.members.push_back(idle);
        }
      }
      bytes += Encoded(more).size();
      ++batches;
    });
  }
  const double per_rank = static_cast<double>(bytes) / 60 / 16;
  std::printf("  %.0f bytes a rank and second, %.1f samples a second\n", per_rank,
              static_cast<double>(samples) / 60 / 16);
  EXPECT_GT(samples, 5u * 60 * 16);
  EXPECT_LT(per_rank, 700);
  EXPECT_GT(batches, 100u);
}

TEST(BatchCodec, DividesByCommunicator) {
  const uint64_t urls[] = {StableHash("http://a"), StableHash("http://b"), StableHash("http://c")};
  std::vector<size_t> share(3);
  for (uint64_t hash = 1; hash <= 300; ++hash) {
    Batch batch = SomeBatch();
    for (Member& member : batch.members) member.hash = hash;
    const std::vector<Batch> parts = DivideBatch(batch, urls);
    ASSERT_EQ(parts.size(), 3u);
    size_t used = 3;
    for (size_t i = 0; i < 3; ++i) {
      if (parts[i].members.empty()) continue;
      EXPECT_EQ(used, 3u) << "one gateway has all of a communicator";
      used = i;
    }
    ++share[used];
    EXPECT_EQ(parts[used].members.size(), 2u);
    EXPECT_EQ(parts[used].processes[parts[used].members[0].process], batch.processes[1]);
    EXPECT_EQ(parts[used].hints, batch.hints);
    EXPECT_TRUE(parts[(used + 1) % 3].hints.empty()) << "it has no process of that host";
    // A gateway less moves its own share alone.
    const std::vector<Batch> fewer = DivideBatch(batch, std::span(urls).first(2));
    if (used < 2) {
      EXPECT_FALSE(fewer[used].members.empty());
    }
  }
  for (size_t count : share) EXPECT_GT(count, 60u);
}

TEST(BatchCodec, WantedLinks) {
  const std::vector<uint64_t> hashes = {1, ~uint64_t{0}};
  EXPECT_EQ(DecodeWantedLinks(EncodeWantedLinks(hashes)), hashes);
  EXPECT_EQ(EncodeWantedLinks({}), "");
  EXPECT_EQ(DecodeWantedLinks("x\n\n-1\n18446744073709551616\n7"), std::vector<uint64_t>{7});
  EXPECT_EQ(DecodeWantedLinks(EncodeWantedLinks(std::vector<uint64_t>(99, 5))).size(), kWantedLinks);
  EXPECT_EQ(DecodeWantedLinks(std::string(1 << 20, '\n')).size(), 0u);
}

}  // namespace
}  // namespace gpulens::collectives
