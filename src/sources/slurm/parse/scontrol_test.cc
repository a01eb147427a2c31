#include "sources/slurm/parse/scontrol.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "sources/slurm/parse/slurm_texts_testing.h"

namespace gpulens::slurm {
namespace {

std::string Value(const ScontrolFields& fields, std::string_view key) {
  auto found = std::ranges::find(fields, key, &std::pair<std::string, std::string>::first);
  return found == fields.end() ? "" : found->second;
}

TEST(ScontrolJobs, TextOfUsersIsNotParsedAsKeys) {
  std::vector<Job> jobs = ParseJobs(Bad("job_with_keys_in_texts.txt"));
  ASSERT_EQ(jobs.size(), 1u) << "two have no number";
  EXPECT_EQ(jobs[0].id, 12u);
  EXPECT_EQ(jobs[0].name, "a QOS=evil Account=of=name");
  EXPECT_EQ(jobs[0].qos, "normal");
  EXPECT_EQ(jobs[0].account, "lab");
  EXPECT_EQ(jobs[0].user, "ann");
  EXPECT_TRUE(jobs[0].running()) << jobs[0].state;
  EXPECT_EQ(GpusOn(jobs[0], "node1"), (std::vector<int>{1, 3}));
  EXPECT_FALSE(GpusOn(jobs[0], "node9"));
}

TEST(ScontrolJobs, ARepeatedKeyIsAmbiguous) {
  const std::string real = "   UserId=ann(1) GroupId=x(1)\n   Account=lab QOS=normal\n   JobState=RUNNING\n";
  EXPECT_FALSE(ParseJobs("JobId=5 JobName=j\n" + real).front().ambiguous);
  for (const char* forged : {"j\n   UserId=root(0)\n", "j\nAccount=evil\n", "j\n JobState=FAILED\n"})
    EXPECT_TRUE(ParseJobs("JobId=5 JobName=" + std::string(forged) + real).front().ambiguous) << forged;
  EXPECT_TRUE(
      ParseJobs("JobId=5 JobName=j\n" + real + "   Comment=c\n   UserId=root(0)\n").front().ambiguous);
  EXPECT_TRUE(ParseJobs("JobId=5 JobName=j\n   UserId=ann(1)\n   Account=lab QOS=high QOS=normal\n")
                  .front()
                  .ambiguous)
      << "an account with a blank";
  auto jobs = ParseJobs("JobId=5 JobName=j\n" + real +
                        "     Nodes=node1 GRES=gpu:1(IDX:0)\n     Nodes=node[1-2] GRES=gpu:4(IDX:0-3)\n");
  EXPECT_FALSE(GpusOn(jobs.front(), "node1")) << "one of the two lines is the user's";
  EXPECT_TRUE(GpusOn(jobs.front(), "node2"));
  EXPECT_FALSE(ParseJobs("JobId=5 JobName=j\n" + real + "   ArrayJobId=9 ArrayTaskId=9\n").front().array_job)
      << "these come before the name";
}

TEST(ScontrolJobs, ANameOverSeveralLines) {
  auto jobs = ParseJobs(
      "JobId=5 JobName=first\nsecond = x\n\nlast\n   UserId=ann(1)\n   JobState=RUNNING\n"
      "JobId=6 JobName=next\n   UserId=bob(1)\n");
  ASSERT_EQ(jobs.size(), 2u);
  EXPECT_EQ(jobs[0].name, "first\nsecond = x\n\nlast");
  EXPECT_EQ(jobs[0].user, "ann");
  EXPECT_EQ(jobs[1].name, "next");
}

TEST(ScontrolJobs, ATruncatedListHasNoGpus) {
  std::vector<Job> jobs = ParseJobs(Bad("job_cut.txt"));
  ASSERT_EQ(jobs.size(), 1u);
  EXPECT_FALSE(GpusOn(jobs[0], "node1")) << "the count is 2, the list has 1";
}

TEST(ScontrolJobs, ADifferentListOnEachNode) {
  std::vector<Job> jobs = ParseJobs(
      "JobId=5 JobName=j\n  JobState=RUNNING\n"
      "    Nodes=node[1-2] CPU_IDs=0 Mem=0 GRES=gpu:a:2(IDX:0-1),nic:1(IDX:7)\n"
      "    Nodes=node3 CPU_IDs=0 Mem=0 GRES=gpu:a:1(IDX:3),gpu:b:1(IDX:5)\n"
      "    Nodes=node4 CPU_IDs=0 Mem=0 GRES=gpu:a(CNT:2)\n");
  ASSERT_EQ(jobs.size(), 1u);
  EXPECT_EQ(GpusOn(jobs[0], "node2"), (std::vector<int>{0, 1}));
  EXPECT_EQ(GpusOn(jobs[0], "node3"), (std::vector<int>{3, 5}));
  EXPECT_FALSE(GpusOn(jobs[0], "node4")) << "a number of them, but not which";
}

TEST(ScontrolCapture, Jobs) {
  NEED_CAPTURE(all, "gcm_scontrol_all_gpus.txt");
  std::vector<Job> jobs = ParseJobs(all);
  ASSERT_EQ(jobs.size(), 1u);
  EXPECT_EQ(jobs[0].id, 30214u);
  EXPECT_EQ(jobs[0].array_job, 30185u);
  EXPECT_EQ(jobs[0].array_task, "28");
  EXPECT_EQ(jobs[0].name, "demo_ods");
  EXPECT_EQ(jobs[0].partition, "learn");
  EXPECT_EQ(jobs[0].node_count, 1);
  EXPECT_EQ(GpusOn(jobs[0], "node1751").value().size(), 8u);
  NEED_CAPTURE(none, "gcm_scontrol_no_gpus.txt");
  EXPECT_FALSE(GpusOn(ParseJobs(none).at(0), "node1751"));
  NEED_CAPTURE(several, "gcm_scontrol_multi_node.txt");
  EXPECT_EQ(GpusOn(ParseJobs(several).at(0), "node1890").value().size(), 8u);
  EXPECT_FALSE(GpusOn(ParseJobs(several).at(0), "node1888"));
  NEED_CAPTURE(arrays, "gcm_scontrol_main_array_job.txt");
  jobs = ParseJobs(arrays);
  ASSERT_EQ(jobs.size(), 2u);
  EXPECT_EQ(jobs[0].array_task, "28-59%100");
  EXPECT_EQ(jobs[1].qos, "dev");
}

TEST(ScontrolCapture, PartitionsAndConfiguration) {
  NEED_CAPTURE(partitions, "gcm_scontrol-output.txt");
  std::vector<ScontrolFields> records = ParseOneLineRecords(partitions);
  ASSERT_EQ(records.size(), 3u);
  EXPECT_EQ(Value(records[0], "PartitionName"), "partition1");
  EXPECT_EQ(Value(records[0], "TRES"), "cpu=251200,mem=1770000000M,node=3140,billing=825408,gres/gpu=22384");
  NEED_CAPTURE(config, "gcm_scontrol-show-config-output.txt");
  ScontrolFields fields = ParseConfig(config);
  EXPECT_GT(fields.size(), 180u);
  EXPECT_EQ(Value(fields, "cluster_name"), "cluster_name");
  EXPECT_EQ(Value(fields, "accounting_storage_port"), "6819");
  EXPECT_EQ(Value(fields, "mpi_plugins.pm_ix_timeout"), "300") << "under its heading";
}

TEST(Sdiag, NonsenseIsNothing) {
  EXPECT_EQ(ParseSdiagText(Bad("sdiag_nonsense.txt")).error().code, Code::kDataLoss);
  EXPECT_EQ(ParseSdiagText("").error().code, Code::kDataLoss);
  EXPECT_FALSE(ParseSdiagJson(Bad("sdiag_nonsense.json")).ok());
  EXPECT_FALSE(ParseSdiagJson("[]").ok());
  auto some = ParseSdiagText(
      "Jobs running: 3\nJobs pending: x\nMain schedule statistics (microseconds):\n\tLast cycle: 7\n"
      "Backfilling stats\n\tLast cycle: 9\n");
  ASSERT_TRUE(some.ok());
  EXPECT_EQ(some->jobs_running, 3);
  EXPECT_FALSE(some->jobs_pending);
  EXPECT_EQ(some->cycle_last, 7);
  EXPECT_EQ(some->backfill_cycle_last, 9);
}

TEST(SdiagCapture, TextAndJson) {
  NEED_CAPTURE(text, "datadog_sdiag.txt");
  auto sdiag = ParseSdiagText(text);
  ASSERT_TRUE(sdiag.ok());
  EXPECT_EQ(sdiag->since_unix, 1726531870);
  EXPECT_EQ(sdiag->server_threads, 3);
  EXPECT_EQ(sdiag->cycle_max, 3605);
  EXPECT_EQ(sdiag->cycles, 88);
  EXPECT_EQ(sdiag->backfilled, 3);
  EXPECT_EQ(sdiag->backfill_cycle_max, 0);
  EXPECT_FALSE(sdiag->cycle_sum) << "only JSON has it";
  NEED_CAPTURE(json, "rivosinc_sdiag_2405.json");
  sdiag = ParseSdiagJson(json);
  ASSERT_TRUE(sdiag.ok()) << sdiag.error().detail;
  EXPECT_EQ(sdiag->since_unix, 1739822537);
  EXPECT_EQ(sdiag->cycle_max, 1666);
  EXPECT_EQ(sdiag->cycle_sum, 10791);
  EXPECT_EQ(sdiag->jobs_submitted, 1);
}

}  // namespace
}  // namespace gpulens::slurm
