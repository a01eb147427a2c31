#include "plugins/collectors/probes/probe_protocol.h"

#include <gtest/gtest.h>

namespace gpulens::probes {
namespace {

ProbeReply FullReply() {
  ProbeReply reply;
  reply.refusal = "single_step";
  reply.sentence = "why \"so\"";
  reply.row = "row";
  reply.took_s = 0.25;
  HostStatus& status = reply.status;
  status.pid = 17;
  status.mechanism = "session";
  status.switched_off = true;
  status.switch_file = "/run/gpulens/probes.off";
  status.switch_reason = "maintenance";
  status.links = 3;
  status.thread_budget_ppm = 2000;
  status.host_budget_ppm = 10'000;
  status.agent_age_ns = 5;
  status.entry_cost_ns = 718;
  status.events = {{.probe = "cuda", .reason = {}, .count = 9}};
  status.lost = {{.probe = "cuda", .reason = "map_full", .count = 1}};
  AttachedTarget& target = status.targets.emplace_back();
  target.pid = 42;
  target.user = 1000;
  target.probes = kAllProbes;
  target.measuring = Measuring::kWindows;
  target.timed_one_in = 64;
  target.left_ns = 7;
  ProcessCounts& process = status.processes.emplace_back();
  process.pid = 43;
  process.root = 42;
  process.exact = false;
  process.has_cuda = true;
  process.launches = {1, 2, 3};
  process.enqueue[1].buckets[5] = 2;
  process.enqueue[1].buckets[123] = 1;
  process.enqueue[1].count = 3;
  process.enqueue[1].sum_ns = 4000;
  process.data_wait.buckets[0] = process.data_wait.count = 1;
  status.notes.push_back(
      {.number = 8, .change = "detached", .reason = "budget", .pid = 42, .user = 0, .sentence = "2 M/s"});
  ListedTarget& listed = reply.targets.emplace_back();
  listed.pid = 42;
  listed.library = "libcuda.so.1";
  listed.build_id = "ab01";
  listed.points.push_back(
      {.function = "cuLaunchKernel", .cost_ns = 718, .reason = {}, .sentence = {}, .row = {}});
  return reply;
}

TEST(ProbeProtocolTest, RepliesArriveAsTheyWereSent) {
  const std::string line = EncodeReply(FullReply());
  EXPECT_EQ(line.find('\n'), line.size() - 1);
  const Result<ProbeReply> read = DecodeReply(line);
  ASSERT_TRUE(read) << read.error().detail;
  EXPECT_EQ(EncodeReply(*read), line);
  EXPECT_EQ(read->status.processes.at(0).enqueue[1].count, 3u);
  EXPECT_EQ(read->status.processes.at(0).enqueue[1].buckets[123], 1u);
  EXPECT_EQ(read->status.targets.at(0).measuring, Measuring::kWindows);
  EXPECT_EQ(read->targets.at(0).points.at(0).cost_ns, 718);
}

TEST(ProbeProtocolTest, RequestsArriveAsTheyWereSent) {
  for (size_t verb = 0; verb < static_cast<size_t>(RequestVerb::kCount); ++verb) {
    ProbeRequest request;
    request.verb = static_cast<RequestVerb>(verb);
    request.pid = 42;
    request.probes = kCudaProbe;
    request.for_ns = 1000;
    request.budget_ppm = 500;
    request.switch_off = true;
    request.reason = "because";
    request.seen_notes = 3;
    const std::string line = EncodeRequest(request);
    const Result<ProbeRequest> read = DecodeRequest(line);
    ASSERT_TRUE(read) << read.error().detail;
    EXPECT_EQ(EncodeRequest(*read), line);
  }
}

TEST(ProbeProtocolTest, BadRepliesAreRefusedByName) {
  const std::string many(300, 'x');
  const std::pair<const char*, std::string> bad[] = {
      {"no JSON", "hello"},
      {"two documents", "{}{}"},
      {"a negative number", R"({"status":{"links":-1}})"},
      {"a fraction", R"({"status":{"links":1.5}})"},
      {"a number that is too large", R"({"status":{"links":18446744073709551615}})"},
      {"a number that is a text", R"({"status":{"links":"1"}})"},
      {"a text that is too long", R"({"sentence":")" + many + "\"}"},
      {"a word with a blank", R"({"refusal":"single step"})"},
      {"a target without a process", R"({"status":{"targets":[{"user":1}]}})"},
      {"a process beyond all", R"({"status":{"targets":[{"pid":4194305}]}})"},
      {"a process twice", R"({"status":{"processes":[{"pid":1},{"pid":1}]}})"},
      {"a bucket beyond the last",
       R"({"status":{"processes":[{"pid":1,"data":[{"sum":1,"buckets":[124,1]}]}]}})"},
      {"buckets out of order",
       R"({"status":{"processes":[{"pid":1,"data":[{"sum":1,"buckets":[5,1,4,1]}]}]}})"},
      {"a bucket without a count",
       R"({"status":{"processes":[{"pid":1,"data":[{"sum":1,"buckets":[5]}]}]}})"},
      {"four launch types", R"({"status":{"processes":[{"pid":1,"launches":[1,2,3,4]}]}})"},
      {"an unknown way to measure", R"({"status":{"targets":[{"pid":1,"measuring":"guessed"}]}})"},
      {"a status that is a list", R"({"status":[]})"},
      {"a share above one", R"({"status":{"thread_budget":1000001}})"},
  };
  for (const auto& [name, line] : bad) EXPECT_FALSE(DecodeReply(line)) << name;
  EXPECT_TRUE(DecodeReply("{}")) << "an empty reply is good";
}

TEST(ProbeProtocolTest, AKeyThatComesTwiceCountsOnce) {
  const Result<ProbeReply> read = DecodeReply(
      R"({"status":{"processes":[{"pid":1,"data":[{"buckets":[5,1],"buckets":[6,2],"sum":9}]}]}})");
  ASSERT_TRUE(read);
  EXPECT_EQ(read->status.processes.at(0).data_wait.count, 2u);
  EXPECT_EQ(read->status.processes.at(0).data_wait.buckets[5], 0u);
}

TEST(ProbeProtocolTest, BadRequestsAreRefusedByName) {
  const std::pair<const char*, std::string> bad[] = {
      {"no verb", "{}"},
      {"an unknown verb", R"({"verb":"explode"})"},
      {"attach without a process", R"({"verb":"attach","probes":1})"},
      {"attach without probes", R"({"verb":"attach","pid":1})"},
      {"probes that are not known", R"({"verb":"attach","pid":1,"probes":4})"},
      {"more than a day", R"({"verb":"attach","pid":1,"probes":1,"for":86400000000001})"},
      {"too long", R"({"verb":"status","reason":")" + std::string(2000, 'x') + "\"}"},
  };
  for (const auto& [name, line] : bad) EXPECT_FALSE(DecodeRequest(line)) << name;
}

TEST(ProbeProtocolTest, ProbesHaveNames) {
  EXPECT_EQ(ProbeNames(kAllProbes), "cuda,dataload");
  EXPECT_EQ(ParseProbes("dataload, cuda").value_or(0), kAllProbes);
  EXPECT_FALSE(ParseProbes(""));
  EXPECT_FALSE(ParseProbes("cuda,nccl"));
}

}  // namespace
}  // namespace gpulens::probes
