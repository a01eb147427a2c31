#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "catalog/nccl.h"
#include "plugins/collectors/nccl/rank_table.h"
#include "plugins/collectors/nccl/ras_feed.h"
#include "plugins/collectors/nccl/slowest_rule.h"

namespace gpulens {
namespace {

using job_page::Function;
using nccl_files::InspectorRecord;

InspectorRecord Took(uint64_t communicator, int32_t rank, int64_t sequence, double duration_us) {
  InspectorRecord record;
  record.communicator = communicator;
  record.rank = rank;
  record.ranks = 4;
  record.operation = "AllReduce";
  record.function = Function::kAllReduce;
  record.sequence = sequence;
  record.bytes = 1 << 20;
  record.duration_us = duration_us;
  record.bandwidth = 1e9;
  record.bus_bandwidth = 1.5e9;
  return record;
}

class SlowestRuleTest : public ::testing::Test {
 protected:
  std::map<int32_t, bool> Evaluate() {
    std::map<int32_t, bool> flags;
    rule_.Evaluate(now_,
                   [&](uint64_t, int32_t rank, const std::string&, bool slowest) { flags[rank] |= slowest; });
    return flags;
  }
  SlowestRule rule_{{}};
  Instant now_{1'000'000'000, 0};
};

TEST_F(SlowestRuleTest, TwentyTimesSlower) {
  for (int32_t rank = 0; rank < 4; ++rank) rule_.Add(Took(1, rank, 7, rank == 2 ? 200'000 : 10'000), now_);
  EXPECT_EQ(Evaluate(), (std::map<int32_t, bool>{{0, false}, {1, false}, {2, true}, {3, false}}));
  EXPECT_TRUE(Evaluate().empty());
}

TEST_F(SlowestRuleTest, OtherSizesCommunicatorsAndSequencesDoNotCount) {
  for (int32_t rank = 0; rank < 4; ++rank) {
    rule_.Add(Took(1, rank, 7, 10'000), now_);
    rule_.Add(Took(1, rank, 8, 400'000), now_);
    rule_.Add(Took(2, rank, 7, 900'000), now_);
  }
  for (const auto& [rank, slowest] : Evaluate()) EXPECT_FALSE(slowest) << rank;
}

TEST_F(SlowestRuleTest, RanksMayComeLaterAndTwoSuffice) {
  rule_.Add(Took(1, 0, 7, 100'000), now_);
  EXPECT_EQ(Evaluate(), (std::map<int32_t, bool>{{0, false}}));
  rule_.Add(Took(1, 1, 7, 5'000), now_);
  EXPECT_EQ(Evaluate(), (std::map<int32_t, bool>{{0, true}, {1, false}}));
  now_ = now_ + std::chrono::minutes(2);
  EXPECT_TRUE(Evaluate().empty());
  // Those that waited too long are gone.
  rule_.Add(Took(1, 2, 7, 100'000), now_);
  EXPECT_EQ(Evaluate(), (std::map<int32_t, bool>{{2, false}}));
}

TEST(BusBandwidth, HasNcclsRules) {
  EXPECT_EQ(BusFactor(Function::kAllReduce, 8), 1.75);
  EXPECT_EQ(BusFactor(Function::kAllGather, 4), 0.75);
  EXPECT_EQ(BusFactor(Function::kBroadcast, 4), 1);
  EXPECT_TRUE(std::isnan(BusFactor(Function::kAllToAll, 4)));
  EXPECT_EQ(AlgorithmBytes(Function::kAllGather, 10, 4), 40);
  EXPECT_EQ(AlgorithmBytes(Function::kAllReduce, 10, 4), 10);
}

class RankTableTest : public ::testing::Test {
 protected:
  RankTableTest() { Begin(); }
  void Begin() {
    now_ = now_ + std::chrono::seconds(1);
    writer_.Begin(now_);
  }
  void Write() {
    table_.Write(writer_);
    frame_ = writer_.Finish();
    Begin();
  }
  // The value of the series whose attributes, as text, contain all of `texts`. NaN: there is none.
  double Value(const MetricDesc& desc, std::initializer_list<const char*> texts, bool count = false) {
    for (uint32_t slot = 0; slot < frame_->layout->slots(); ++slot) {
      const SeriesInfo& info = (*frame_->layout)[slot];
      if (info.desc != &desc || frame_->quality[slot] != Quality::kOk) continue;
      std::string all = ";";
      for (const auto& [key, value] : info.attributes) {
        all += std::string(key) + "=";
        AppendValue(all, value);
        all += ";";
      }
      bool matches = true;
      for (const char* text : texts) matches = matches && all.find(std::string(";") + text + ";") != all.npos;
      if (!matches) continue;
      const Cell& cell = frame_->cells[info.first_cell + (count ? info.shape->count_cell() : 0)];
      return info.desc->number == Number::kInt ? static_cast<double>(cell.i) : cell.d;
    }
    return kNotMeasured;
  }

  Instant now_{1'000'000'000, 0};
  SeriesTable series_;
  FrameWriter writer_{series_, std::chrono::minutes(1)};
  RankTable table_{RankTable::Options{.communicators = 2}};
  Ref<const Frame> frame_;
};

TEST_F(RankTableTest, WritesWhatAFileHas) {
  EXPECT_TRUE(table_.TakeRecord(Took(0xAB, 1, 1, 2000), now_));
  Write();
  const auto who = {"nccl.communicator=0xab", "nccl.rank=1", "nccl.collective.type=AllReduce"};
  EXPECT_EQ(Value(kNcclCollectiveMessageSize, who), 1 << 20);
  EXPECT_EQ(Value(kNcclCollectiveBandwidth, who), 1e9);
  EXPECT_EQ(Value(kNcclCollectiveBusBandwidth, who), 1.5e9);
  EXPECT_EQ(Value(kNcclCollectiveLastDuration, who), 0.002);
  EXPECT_EQ(Value(kNcclCollectiveDuration, who, true), 1);
  EXPECT_EQ(Value(kNcclCollectives, {"nccl.stage=done", "nccl.rank=1"}), 1);
  EXPECT_TRUE(std::isnan(Value(kNcclCollectives, {"nccl.stage=enqueued"})));
  // Without new ones the means are old, and the totals stay.
  table_.TakeRecord(Took(0xAB, 1, 2, 1000), now_);
  table_.TakeRecord(Took(0xAB, 1, 3, 3000), now_);
  Write();
  EXPECT_EQ(Value(kNcclCollectiveLastDuration, who), 0.002);
  EXPECT_EQ(Value(kNcclCollectiveDuration, who, true), 3);
}

TEST_F(RankTableTest, APageTakesPrecedenceOverAFile) {
  auto identity = std::make_shared<job_page::CommunicatorIdentity>();
  identity->hash = 0xAB;
  identity->rank = 1;
  identity->ranks = 4;
  job_page::RecordCopy record;
  record.communicator = identity;
  record.function = Function::kAllReduce;
  record.timing = job_page::Timing::kDevice;
  record.bytes = 4'000'000;
  record.start_ns = 5;
  record.end_ns = 5 + 1'000'000;
  table_.TakeRecord(record, {}, now_);
  EXPECT_FALSE(table_.TakeRecord(Took(0xAB, 1, 1, 2000), now_));
  EXPECT_TRUE(table_.TakeRecord(Took(0xAB, 2, 1, 2000), now_));
  job_page::CommunicatorCopy copy{.identity = identity, .closed = false, .functions = {}};
  copy.functions[static_cast<size_t>(Function::kAllReduce)] = {
      .enqueued = 3, .started = 2, .done = 1, .changed_boot_ns = 0, .operations = 3, .bytes = 12'000'000};
  table_.TakeProgress(
      {.communicator = 0xAB, .rank = 1, .ranks = 4, .name = {}, .device_id = {}, .process = {}}, copy, now_);
  Write();
  EXPECT_EQ(Value(kNcclCollectiveDuration, {"nccl.rank=1"}, true), 1);
  EXPECT_DOUBLE_EQ(Value(kNcclCollectiveBandwidth, {"nccl.rank=1"}), 4e9);
  EXPECT_DOUBLE_EQ(Value(kNcclCollectiveBusBandwidth, {"nccl.rank=1"}), 6e9);
  EXPECT_EQ(Value(kNcclCollectives, {"nccl.rank=1", "nccl.stage=enqueued"}), 3);
  EXPECT_EQ(Value(kNcclCollectives, {"nccl.rank=1", "nccl.stage=started"}), 2);
  EXPECT_EQ(Value(kNcclCollectives, {"nccl.rank=1", "nccl.stage=done"}), 1);
  EXPECT_EQ(Value(kNcclCollectiveBytes, {"nccl.rank=1"}), 12'000'000);
}

TEST_F(RankTableTest, MoreCommunicatorsShareOneSeries) {
  for (uint64_t communicator = 1; communicator <= 5; ++communicator)
    table_.TakeRecord(Took(communicator, 0, 1, 2000), now_);
  Write();
  EXPECT_EQ(Value(kNcclCollectives, {"nccl.communicator=0x2", "nccl.stage=done"}), 1);
  EXPECT_TRUE(std::isnan(Value(kNcclCollectives, {"nccl.communicator=0x3", "nccl.stage=done"})));
  EXPECT_EQ(Value(kNcclCollectives, {"nccl.communicator=other", "nccl.stage=done"}), 3);
  now_ = now_ + std::chrono::minutes(11);
  Begin();
  Write();
  Write();
  EXPECT_EQ(series_.size(), 1u);
  // There is room again.
  table_.TakeRecord(Took(9, 0, 1, 2000), now_);
  Write();
  EXPECT_EQ(Value(kNcclCollectives, {"nccl.communicator=0x9", "nccl.stage=done"}), 1);
}

nccl_ras::RasReport Called(uint64_t first, uint64_t second) {
  nccl_ras::RasReport report;
  nccl_ras::RasCommunicator& communicator = report.communicators.emplace_back();
  communicator.hash = 0xAB;
  communicator.size = 3;
  for (const uint64_t count : {first, second}) {
    nccl_ras::RasRank& rank = communicator.ranks.emplace_back();
    rank.rank = count == first && communicator.ranks.size() == 1 ? 0 : 1;
    rank.host = "node";
    rank.has_counts = true;
    rank.counts[static_cast<size_t>(Function::kAllReduce)] = count;
  }
  return report;
}

TEST(RasFeed, ARankThatHasCalledMoreWaits) {
  RasFeed ras;
  Instant now{1'000'000'000, 0};
  ras.Take(Called(5, 5), now);
  EXPECT_FALSE(ras.suspicious());
  now = now + std::chrono::seconds(60);
  ras.Take(Called(9, 8), now);
  EXPECT_TRUE(ras.suspicious());
  now = now + std::chrono::seconds(10);
  ras.Take(Called(9, 8), now);
  DiagnosisFeed feed(1);
  ras.Feed(feed, now, std::chrono::minutes(2));
  const collectives::Batch batch = feed.Make(now);
  ASSERT_EQ(batch.members.size(), 2u);
  ASSERT_EQ(batch.members[0].progress.size(), 1u);
  EXPECT_EQ(batch.members[0].progress[0].enqueued, 9u);
  EXPECT_EQ(batch.members[0].progress[0].done, 8u);
  EXPECT_EQ(batch.members[0].progress[0].idle_ns, 10'000'000'000);
  EXPECT_EQ(batch.members[1].progress[0].enqueued, 8u);
  EXPECT_EQ(batch.members[1].progress[0].done, 8u);
  EXPECT_EQ(batch.processes.size(), 1u);
  // An old state is no state.
  ras.Feed(feed, now + std::chrono::minutes(3), std::chrono::minutes(2));
  EXPECT_TRUE(feed.Make(now).members.empty());
}

TEST(RasFeed, ReportsWhatHappensToPeers) {
  EventQueue queue;
  RasFeed::Report({.group = "lifecycle", .name = "PEER_DEAD", .host = "node2", .pid = 7, .details = "x"}, {},
                  &queue);
  RasFeed::Report({.group = "trace", .name = "COLLECTION", .host = {}, .pid = 0, .details = {}}, {}, &queue);
  const std::vector<Event> events = queue.Take();
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].name, "nccl.peer");
  EXPECT_EQ(events[0].attributes.Text("nccl.change"), "DEAD");
  EXPECT_EQ(events[0].attributes.Text("nccl.host"), "node2");
}

TEST(RasAddress, IsOfTheEnvironmentOrTheDefault) {
  ::unsetenv("NCCL_RAS_ADDR");
  EXPECT_EQ(RasAddress("auto")->ToString(), "127.0.0.1:28028");
  ::setenv("NCCL_RAS_ADDR", "127.0.0.1:3", 1);
  EXPECT_EQ(RasAddress("auto")->ToString(), "127.0.0.1:3");
  ::unsetenv("NCCL_RAS_ADDR");
  EXPECT_FALSE(RasAddress("nonsense").ok());
}

}  // namespace
}  // namespace gpulens
