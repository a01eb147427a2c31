#include <gtest/gtest.h>

#include "cli/common/output.h"
#include "cli/probe/probe_command.h"

namespace gpulens {
namespace {

// The widest line, in columns.
size_t WidestLine(std::string_view text) {
  size_t widest = 0;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    widest = std::max(widest, WidthOf(text.substr(0, end)));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return widest;
}

probes::ProbeReply ListedReply() {
  probes::ProbeReply reply;
  probes::ListedTarget& good = reply.targets.emplace_back();
  good.pid = 4242;
  good.name = "python3";
  good.library = "libcuda.so.535.104.05";
  good.build_id = "0123456789abcdef0123";
  good.attached = true;
  good.points = {
      {.function = "cuLaunchKernel", .cost_ns = 718, .reason = {}, .sentence = {}, .row = {}},
      {.function = "cuGraphLaunch",
       .cost_ns = 0,
       .reason = "single_step",
       .sentence = "the kernel would single-step its first instruction, which costs 14 times as much",
       .row = "https://example.org/row"}};
  probes::ListedTarget& bad = reply.targets.emplace_back();
  bad.pid = 17;
  bad.name = "sleep\x1b[31m";
  bad.reason = "no_library";
  bad.sentence = "it has not loaded libcuda";
  return reply;
}

TEST(ProbeTextTest, AListFitsIntoEightyColumnsAndHasReasons) {
  const std::string text = ProbeListText(ListedReply(), 80);
  EXPECT_LE(WidestLine(text), 80u) << text;
  EXPECT_NE(text.find("1 of 2, attached"), std::string::npos) << text;
  EXPECT_NE(text.find("single_step:"), std::string::npos) << text;
  EXPECT_NE(text.find("no_library"), std::string::npos) << text;
  EXPECT_NE(text.find("718 ns"), std::string::npos) << text;
  EXPECT_EQ(text.find('\x1b'), std::string::npos);
}

TEST(ProbeTextTest, AStatusFitsIntoEightyColumns) {
  probes::HostStatus status;
  status.pid = 17;
  status.mechanism = "session";
  status.links = 7;
  status.entry_cost_ns = 718;
  status.pair_cost_ns = 1333;
  status.thread_budget_ppm = 2000;
  status.host_budget_ppm = 10'000;
  status.agent_age_ns = 400'000'000;
  status.refused = {{.probe = {}, .reason = "single_step", .count = 2}};
  probes::AttachedTarget& target = status.targets.emplace_back();
  target.pid = 4242;
  target.probes = probes::kAllProbes;
  target.measuring = probes::Measuring::kSampled;
  target.timed_one_in = 64;
  target.left_ns = 298'000'000'000;
  probes::ProcessCounts& process = status.processes.emplace_back();
  process.pid = process.root = 4242;
  process.launches[0] = 1'204'003;
  process.enqueue[0].buckets[20] = process.enqueue[0].count = 100;
  const std::string text = ProbeStatusText(status, 80);
  EXPECT_LE(WidestLine(text), 80u) << text;
  for (const char* part :
       {"0.2 %", "718 ns", "1.33 us", "1,204,003", "1 of 64 timed", "4m 58s", "single_step 2"})
    EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
}

TEST(ProbeTextTest, QuantilesAreInsideTheBucket) {
  job_page::HistogramCopy histogram;
  EXPECT_EQ(ProbeQuantile(histogram, 0.5), 0);
  histogram.buckets[20] = 99;
  histogram.buckets[60] = 1;
  histogram.count = 100;
  EXPECT_GT(ProbeQuantile(histogram, 0.5), job_page::BucketBound(19) * 1e-9);
  EXPECT_LE(ProbeQuantile(histogram, 0.5), job_page::BucketBound(20) * 1e-9);
  EXPECT_LE(ProbeQuantile(histogram, 0.99), job_page::BucketBound(20) * 1e-9);
  EXPECT_GT(ProbeQuantile(histogram, 0.999), job_page::BucketBound(59) * 1e-9);
}

TEST(ProbeTextTest, JsonIsOneObject) {
  const std::string list = ProbeListJson(ListedReply());
  EXPECT_NE(list.find("\"schema\":\"gpulens.probe_list/1\""), std::string::npos);
  EXPECT_NE(list.find("\"can\":false"), std::string::npos);
  EXPECT_NE(ProbeStatusJson({}).find("\"schema\":\"gpulens.probe_status/1\""), std::string::npos);
}

}  // namespace
}  // namespace gpulens
