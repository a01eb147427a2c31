#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "catalog/nccl.h"
#include "plugins/collectors/nccl/diagnosis_feed.h"
#include "plugins/collectors/nccl/inspector_pages.h"
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

// As NCCL 2.30 writes it, and two lines that it does not.
constexpr std::string_view kPage =
    R"(nccl_bus_bandwidth_gbs{version="v5.1",slurm_job_id="unknown",node="n1",gpu="GPU0",comm_name="DP Group 0",n_nodes="1",nranks="4",collective="AllReduce",message_size="4-5GB",algo_proto="Ring_ll"} 678
nccl_collective_exec_time_microseconds{version="v5.1",slurm_job_id="unknown",node="n1",gpu="GPU0",comm_name="DP Group 0",n_nodes="1",nranks="4",collective="AllReduce",message_size="4-5GB",algo_proto="Ring_ll"} 9498.47
nccl_bus_bandwidth_gbs{version="v5.1",slurm_job_id="42",node="n1",gpu="GPU0",comm_name="unknown",n_nodes="2",nranks="16",collective="AlltoAll",message_size="1-2MB",algo_proto="unknown_unknown"} 0
nccl_collective_exec_time_microseconds{version="v5.1",slurm_job_id="42",node="n1",gpu="GPU0",comm_name="unknown",n_nodes="2",nranks="16",collective="AlltoAll",message_size="1-2MB",algo_proto="unknown_unknown"} 20
nccl_p2p_bus_bandwidth_gbs{version="v5.1",slurm_job_id="unknown",node="n1",gpu="GPU0",comm_name="DP Group 0",n_nodes="1",nranks="4",p2p_operation="Send",message_size="512-513MB"} 464.9
nccl_p2p_exec_time_microseconds{version="v5.1",slurm_job_id="unknown",node="n1",gpu="GPU0",comm_name="DP Group 0",n_nodes="1",nranks="4",p2p_operation="Send",message_size="512-513MB"} 1154.87
nccl_p2p_exec_time_microseconds{comm_name="a "b" c",p2p_operation="Recv"} 3
node_load1 3
)";

TEST(InspectorPage, HasMeansByKind) {
  const auto content = ParseInspectorPage(kPage);
  ASSERT_TRUE(content.ok()) << content.status().detail;
  EXPECT_EQ(content->invalid, 1u);
  ASSERT_EQ(content->means.size(), 3u);
  const InspectorMeans& reduced = content->means[0];
  EXPECT_EQ(reduced.operation, "AllReduce");
  EXPECT_EQ(reduced.communicator_name, "DP Group 0");
  EXPECT_EQ(reduced.message_size, "4-5GB");
  EXPECT_EQ(reduced.algorithm, "Ring");
  EXPECT_EQ(reduced.protocol, "ll");
  EXPECT_EQ(reduced.slurm_job, "");
  EXPECT_EQ(reduced.ranks, 4);
  EXPECT_EQ(reduced.rank, -1);
  EXPECT_DOUBLE_EQ(reduced.bus_bandwidth, 678e9);
  EXPECT_DOUBLE_EQ(reduced.bandwidth, 452e9);
  EXPECT_DOUBLE_EQ(reduced.duration_s, 9498.47e-6);
  const InspectorMeans& all_to_all = content->means[1];
  EXPECT_EQ(all_to_all.slurm_job, "42");
  EXPECT_EQ(all_to_all.communicator_name + all_to_all.algorithm + all_to_all.protocol, "");
  EXPECT_TRUE(std::isnan(all_to_all.bus_bandwidth) && std::isnan(all_to_all.bandwidth));
  EXPECT_DOUBLE_EQ(all_to_all.duration_s, 20e-6);
  EXPECT_EQ(content->means[2].operation, "Send");
  EXPECT_DOUBLE_EQ(content->means[2].bandwidth, 464.9e9);
}

TEST(InspectorPage, OfNccl2297NamesRankAndCommunicator) {
  const auto content = ParseInspectorPage(
      R"(nccl_algorithm_bandwidth_gbs{comm_id="0xab",collective="AllGather",hostname="n1",rank="3",n_ranks="8",n_nodes="1",pid="5",coll_sn="7"} 2
nccl_bus_bandwidth_gbs{comm_id="0xab",collective="AllGather",hostname="n1",rank="3",n_ranks="8",n_nodes="1",pid="5",coll_sn="7"} 1.75
)");
  ASSERT_TRUE(content.ok());
  ASSERT_EQ(content->means.size(), 1u);
  EXPECT_EQ(content->means[0].communicator, "0xab");
  EXPECT_EQ(content->means[0].rank, 3);
  EXPECT_EQ(content->means[0].host, "n1");
  EXPECT_DOUBLE_EQ(content->means[0].bandwidth, 2e9);
  EXPECT_DOUBLE_EQ(content->means[0].bus_bandwidth, 1.75e9);
}

TEST(InspectorPage, HasLimits) {
  std::string many;
  for (size_t i = 0; i < 2 * InspectorPageContent::kMost; ++i)
    many += "nccl_bus_bandwidth_gbs{collective=\"AllReduce\",message_size=\"" + std::to_string(i) + "\"} 1\n";
  const auto content = ParseInspectorPage(many);
  ASSERT_TRUE(content.ok());
  EXPECT_EQ(content->means.size(), InspectorPageContent::kMost);
  EXPECT_EQ(content->not_taken, InspectorPageContent::kMost);
  EXPECT_FALSE(ParseInspectorPage(std::string(nccl_files::kLongestPage + 1, '#')).ok());
  for (const char* bad : {"nccl_bus_bandwidth_gbs 3\n", "nccl_bus_bandwidth_gbs{collective=\"\"} 3\n",
                          "nccl_bus_bandwidth_gbs{collective=\"unknown\"} 3\n"}) {
    const auto none = ParseInspectorPage(bad);
    EXPECT_TRUE(none.ok() && none->means.empty() && none->invalid == 1) << bad;
  }
  for (const char* odd : {"NaN", "-3", "+Inf", "1e300", "0"}) {
    const auto one = ParseInspectorPage("nccl_collective_exec_time_microseconds{collective=\"Reduce\"} " +
                                        std::string(odd) + "\n");
    EXPECT_TRUE(one.ok() && one->means.size() == 1 && std::isnan(one->means[0].duration_s)) << odd;
  }
}

TEST_F(RankTableTest, AnInspectorPageReplacesTheOneBeforeItAndHoldsUntilThen) {
  InspectorPages pages;
  const auto write = [&] {
    pages.Keep(writer_);
    frame_ = writer_.Finish();
    Begin();
  };
  pages.Take({.path = "/a", .gpu_uuid = "1-2", .text = kPage}, writer_);
  write();
  const auto who = {"gpu.uuid=GPU-1-2",
                    "nccl.communicator.name=DP Group 0",
                    "nccl.collective.type=AllReduce",
                    "nccl.message_size=4-5GB",
                    "nccl.algorithm=Ring",
                    "nccl.host=n1"};
  EXPECT_DOUBLE_EQ(Value(kNcclCollectiveBusBandwidth, who), 678e9);
  EXPECT_DOUBLE_EQ(Value(kNcclCollectiveLastDuration, who), 9498.47e-6);
  EXPECT_DOUBLE_EQ(Value(kNcclCollectiveLastDuration, {"slurm.job.id=42", "nccl.ranks=16", "nccl.nodes=2"}),
                   20e-6);
  EXPECT_TRUE(std::isnan(Value(kNcclCollectiveBusBandwidth, {"slurm.job.id=42"})));
  EXPECT_EQ(pages.invalid(), 1u);
  EXPECT_EQ(series_.size(), 7u);
  for (int i = 0; i < 100; ++i) write();
  EXPECT_DOUBLE_EQ(Value(kNcclCollectiveBusBandwidth, who), 678e9);
  // Of the same GPU by another process, whose folder is its own.
  pages.Take({.path = "/b", .gpu_uuid = "1-2", .text = kPage.substr(0, kPage.find('\n') + 1)}, writer_);
  pages.Take({.path = "/a", .gpu_uuid = "1-2", .text = "nccl_bus_bandwidth_gbs{collective=\"Reduce\"} 1\n"},
             writer_);
  write();
  write();
  EXPECT_DOUBLE_EQ(Value(kNcclCollectiveBusBandwidth, who), 678e9);
  EXPECT_EQ(series_.size(), 3u);
  for (const char* path : {"/a", "/b"}) pages.Take({.path = path, .gpu_uuid = "1-2", .text = {}}, writer_);
  write();
  write();
  EXPECT_EQ(series_.size(), 0u);
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

// A page with rank 0 of a communicator, for DiagnosisFeed.
struct FedPage {
  FedPage(uint64_t id, uint64_t hash) {
    owner.id = id;
    auto identity = std::make_shared<job_page::CommunicatorIdentity>();
    identity->hash = hash;
    identity->ranks = 3;
    copy.communicators.push_back({.identity = std::move(identity), .closed = false, .functions = {}});
  }
  JobPageView view() const {
    return {.owner = owner, .page = copy, .records = {}, .edges = {}, .read_at = {}};
  }
  JobPageOwner owner;
  job_page::PageCopy copy;
};

TEST(DiagnosisFeed, RanksWithoutAJobHaveThatOfTheirCommunicator) {
  const Instant now{1'000'000'000, 0};
  DiagnosisFeed feed(1);
  collectives::Process process;
  process.job = "77";
  feed.TakePage(FedPage(1, 0xAB).view(), process, now);
  feed.TakePage(FedPage(2, 0xCD).view(), process, now);
  const auto other = [&](uint64_t hash, int32_t rank) {
    collectives::Member member;
    member.hash = hash;
    member.ranks = 3;
    member.rank = rank;
    feed.TakeMember(std::move(member), {});
  };
  other(0xAB, 1), other(0xEF, 1);
  const collectives::Batch batch = feed.Make(now);
  std::map<std::pair<uint64_t, int32_t>, std::string> jobs;
  for (const collectives::Member& member : batch.members)
    jobs[{member.hash, member.rank}] = batch.processes[member.process].job;
  EXPECT_EQ(jobs, (std::map<std::pair<uint64_t, int32_t>, std::string>{
                      {{0xAB, 0}, "77"}, {{0xAB, 1}, "77"}, {{0xCD, 0}, "77"}, {{0xEF, 1}, ""}}));
}

// A change is an event of its own that cannot be taken for a second fault.
TEST(DiagnosisSeries, ReportsAChangeAsOne) {
  using Kind = collectives::FaultChange::Kind;
  collectives::Fault fault;
  fault.kind = collectives::FaultKind::kHang;
  fault.hang = collectives::HangKind::kProcess;
  fault.cause = collectives::Cause::kPcie;
  fault.culprits.push_back({2, {"node-1", "GPU-2", "", "", 7, {}, {}}});
  fault.evidence = "it waits";
  EventQueue queue;
  DiagnosisSeries series;
  series.Report({{Kind::kRaised, fault}, {Kind::kChanged, fault}, {Kind::kCleared, fault}}, {}, &queue);
  const std::vector<Event> events = queue.Take();
  ASSERT_EQ(events.size(), 3u);
  const std::pair<std::string, std::string> wanted[] = {
      {"raised", "it waits"}, {"changed", "More is known: it waits"}, {"cleared", "It is over: it waits"}};
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(events[i].name, "nccl.hang");
    EXPECT_EQ(events[i].attributes.Text("nccl.change"), wanted[i].first);
    EXPECT_EQ(events[i].body, wanted[i].second);
    EXPECT_EQ(events[i].attributes.Text("nccl.cause"), "pcie");
    EXPECT_EQ(events[i].severity, i == 2 ? EventSeverity::kInfo : EventSeverity::kUnset);
  }
}

TEST(DiagnosisFeed, StepsOfLinksAreMeansAndWaits) {
  const Instant now{1'000'000'000, 0};
  DiagnosisFeed feed(1);
  FedPage page(1, 0xAB);
  job_page::CommunicatorCopy& communicator = page.copy.communicators[0];
  communicator.functions[static_cast<size_t>(Function::kAllReduce)] = {
      .enqueued = 9, .started = 9, .done = 8};
  communicator.functions[static_cast<size_t>(Function::kBroadcast)] = {
      .enqueued = 2, .started = 2, .done = 2};
  // To ranks 1 and 2; what waits is by StepWait.
  page.copy.links = {{communicator.identity, 1, 100, 5'000, {0, 1, 0, 0}},
                     {communicator.identity, 2, 100, 5'000, {0, 0, 0, 0}}};
  const auto made = [&] {
    feed.TakePage(page.view(), {}, now);
    const collectives::Batch batch = feed.Make(now);
    EXPECT_EQ(batch.members.size(), 1u);
    return batch.members.at(0);
  };
  collectives::Member member = made();
  EXPECT_TRUE(member.links.empty()) << "what was before is not of this time";
  ASSERT_EQ(member.progress.size(), 2u);
  EXPECT_EQ(member.progress[0].wait, collectives::ProxyWait::kPeerCredit);
  EXPECT_EQ(member.progress[0].peer, 1);
  EXPECT_EQ(member.progress[1].wait, collectives::ProxyWait::kUnknown) << "it is done";
  page.copy.links[0].sent = 110, page.copy.links[0].send_ns = 9'000;
  page.copy.links[1].sent = 90, page.copy.links[1].send_ns = 400;  // another place
  page.copy.links[1].waiting = {5, 0, 1, 5};
  member = made();
  EXPECT_EQ(member.links, (std::vector<collectives::LinkDelay>{{1, 400}}));
  EXPECT_EQ(member.progress[0].wait, collectives::ProxyWait::kSend) << "it explains what the other waits for";
  EXPECT_EQ(member.progress[0].peer, 2);
  EXPECT_TRUE(made().links.empty());
  // Sends and receives wait for peers of their own.
  for (const Function function : {Function::kSend, Function::kReceive})
    communicator.functions[static_cast<size_t>(function)] = {.enqueued = 1, .started = 1, .done = 0};
  page.copy.links[0].waiting = {0, 0, 0, 1};
  page.copy.links[1].waiting = {1, 0, 1, 0};
  std::map<Function, std::pair<collectives::ProxyWait, int32_t>> waits;
  for (const collectives::Progress& progress : made().progress)
    waits[progress.function] = {progress.wait, progress.peer};
  using collectives::ProxyWait;
  EXPECT_EQ(waits[Function::kSend], std::pair(ProxyWait::kSend, 2));
  EXPECT_EQ(waits[Function::kReceive], std::pair(ProxyWait::kReceive, 1));
  EXPECT_EQ(waits[Function::kAllReduce], std::pair(ProxyWait::kSend, 2));
  page.copy.links[0].waiting = page.copy.links[1].waiting = {1, 0, 0, 0};
  for (const collectives::Progress& progress : made().progress) {
    EXPECT_EQ(progress.wait, progress.done < progress.enqueued ? ProxyWait::kGpu : ProxyWait::kUnknown);
    EXPECT_EQ(progress.peer, -1) << "a GPU is no peer";
  }
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
