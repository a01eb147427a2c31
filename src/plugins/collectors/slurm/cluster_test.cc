#include "plugins/collectors/slurm/cluster.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

#include "base/files.h"
#include "base/testing/allocations.h"
#include "base/testing/temp_folder.h"
#include "catalog/slurm.h"
#include "sources/slurm/fake_table_testing.h"
#include "sources/slurm/parse/words.h"

namespace gpulens {
namespace {

slurm::SlurmTable Nodes(std::string_view text) { return *slurm::ParseRows(text, "|#", kNodeColumns); }
slurm::SlurmTable Queue(std::string_view text) { return *slurm::ParseRows(text, "|#", kQueueColumns); }

constexpr std::string_view kNodes =
    "n1|#gpu:a100:8(S:0-1)|#gpu:a100:3(IDX:0,4-5)|#36/92/0/128|#mixed|#batch*|#\n"
    "n1|#gpu:a100:8(S:0-1)|#gpu:a100:3(IDX:0,4-5)|#36/92/0/128|#mixed|#short|#\n"
    "n2|#gpu:a100:8|#gpu:a100:0(IDX:N/A)|#0/0/128/128|#drained*|#batch*|#\n"
    "n3|#(null)|#(null)|#0/64/0/64|#idle|#short|#\n"
    "n4|#gpu:8|#gpu:1|#broken|#levitating|#short|#\n";
constexpr std::string_view kQueue =
    "1|#RUNNING|#ann|#lab|#batch|#64|#2|#cpu=64,mem=1G,node=2,gres/gpu=16|#gres:gpu:8|#\n"
    "2|#RUNNING|#ann|#lab|#batch|#1|#1|#cpu=1,node=1|#gres/gpu:1|#\n"
    "3|#RUNNING|#bob|#bio|#short|#1|#1|#cpu=1,node=1|#N/A|#\n"
    "4|#PENDING|#eve|#(null)|#batch,short|#4|#1|#cpu=4,node=1|#gres:gpu:2|#\n"
    "5|#COMPLETING|#(null)|#bio|#short|#1|#1|##|#N/A|#\n";

TEST(ClusterNumbers, NodeOfTwoPartitionsCountsOnce) {
  PartitionTable partitions;
  NodeNumbers all = AddUpNodes(Nodes(kNodes), partitions);
  EXPECT_EQ(all.nodes, (StateAmounts{{"mixed", 1}, {"drained", 1}, {"idle", 1}, {"unknown", 1}}));
  EXPECT_EQ(all.cpus, (StateAmounts{{"allocated", 36}, {"idle", 156}, {"other", 128}}));
  EXPECT_EQ(all.gpus, (StateAmounts{{"allocated", 4}, {"idle", 5}, {"down", 8}}))
      << "of a state that nobody knows only what is in use is known";
  EXPECT_EQ(all.down, 1);
  EXPECT_EQ(all.silent, 1);
  EXPECT_EQ(partitions.at("batch").nodes, (StateAmounts{{"mixed", 1}, {"drained", 1}}));
  EXPECT_EQ(partitions.at("short").gpus.at("allocated"), 4);
}

TEST(ClusterNumbers, JobsUsersAccounts) {
  PartitionTable partitions;
  QueueNumbers all = AddUpQueue(Queue(kQueue), partitions);
  EXPECT_EQ(all.jobs, (StateAmounts{{"running", 3}, {"pending", 1}, {"completing", 1}}));
  EXPECT_EQ(all.gpus.at("running"), 17) << "told by what it has, else by what it asked for";
  EXPECT_EQ(all.gpus.at("pending"), 2);
  EXPECT_EQ(all.without_user, 1);
  EXPECT_DOUBLE_EQ(all.distributed.value_or(0), 1.0 / 3);
  EXPECT_EQ(all.active_users, 2);
  EXPECT_EQ(all.queued_users, 3);
  EXPECT_EQ(all.jobs_per_user.mean, 1.5);
  EXPECT_DOUBLE_EQ(all.jobs_per_user.deviation.value_or(0), std::sqrt(0.5));
  EXPECT_EQ(all.accounts.at("lab").gpus, 17);
  EXPECT_EQ(all.accounts.at("bio").cpus, 1);
  EXPECT_EQ(all.accounts.size(), 2u);
  EXPECT_EQ(partitions.at("batch").jobs, (StateAmounts{{"running", 2}, {"pending", 1}}));
  EXPECT_FALSE(AddUpQueue(Queue(""), partitions).distributed) << "a share of nothing";
}

TEST(ClusterNumbers, CountsEndedJobs) {
  auto table = slurm::ParseTable(
      "JobIDRaw|State|Submit|Start|End|ElapsedRaw|Suspended|AllocTRES\n"
      "1|COMPLETED|2026-11-22T09:00:00|2026-11-22T09:10:00|2026-11-22T10:10:00|3600|00:00:00|cpu=2,gres/"
      "gpu=8\n"
      "2|CANCELLED by 1000|2026-11-22T10:00:00|2026-11-22T10:00:00|2026-11-22T10:20:00|1200|00:01:00|cpu=6\n"
      "3|RUNNING|2026-11-22T10:00:00|2026-11-22T10:00:00|Unknown|1200|00:00:00|cpu=6\n"
      "4|FAILED|2026-11-22T10:00:00|None|2026-11-22T08:00:00|0|00:00:00|\n",
      "|");
  ASSERT_TRUE(table.ok());
  const int64_t from = *slurm::ParseTime("2026-11-22T10:00:00");
  EndedNumbers all = AddUpEnded(*table, from, from + 3600);
  EXPECT_EQ(all.jobs, (StateAmounts{{"completed", 1}, {"cancelled", 1}}));
  EXPECT_EQ(all.mean_cpus, (3600.0 * 2 + 1200.0 * 6) / 4800);
  EXPECT_EQ(all.mean_gpus, 3600.0 * 8 / 4800);
  EXPECT_EQ(all.runtime.mean, 2400);
  EXPECT_EQ(all.wait.mean, 300);
  EXPECT_EQ(all.suspended.mean, 30);
  EndedNumbers none = AddUpEnded(*table, from - 10, from);
  EXPECT_FALSE(none.mean_cpus || none.runtime.mean || none.wait.deviation);
}

class ClusterSeriesTest : public ::testing::Test {
 protected:
  double Value(const Frame& frame, const MetricDesc& desc, std::string_view key = {},
               std::string_view value = {}) {
    for (uint32_t slot = 0; slot < frame.layout->slots(); ++slot) {
      const SeriesInfo& info = (*frame.layout)[slot];
      if (info.desc != &desc || frame.quality[slot] == Quality::kAbsent) continue;
      if (!key.empty() && info.attributes.Text(key) != value) continue;
      const Cell cell = frame.cells[info.first_cell];
      return desc.number == Number::kInt ? static_cast<double>(cell.i) : cell.d;
    }
    return -1;
  }
  ClusterReading Reading(std::string_view nodes, std::string_view queue) {
    ClusterReading out;
    out.at = clock_.Now();
    out.nodes = AddUpNodes(Nodes(nodes), out.partitions);
    out.queue = AddUpQueue(Queue(queue), out.partitions);
    return out;
  }
  ManualClock clock_;
  SeriesTable table_;
  FrameWriter writer_{table_, std::chrono::seconds(900), "slurm"};
  ClusterSeries series_{"alps"};
};

TEST_F(ClusterSeriesTest, OmitsStatesWithoutNodes) {
  ClusterReading reading = Reading(kNodes, kQueue);
  reading.diagnosis = slurm::Sdiag{};
  reading.diagnosis->cycle_max = 3605;
  reading.diagnosis->jobs_failed = 4;
  writer_.Begin(clock_.Now());
  series_.Write(reading, writer_);
  Ref<const Frame> frame = writer_.Finish();
  EXPECT_EQ(Value(*frame, kSlurmNodes, "slurm.node.state", "mixed"), 1);
  EXPECT_DOUBLE_EQ(Value(*frame, kSlurmSchedulerCycleLongest), 3605e-6);
  EXPECT_EQ(Value(*frame, kSlurmSchedulerTime), -1) << "it was not told";
  EXPECT_EQ(Value(*frame, kSlurmControllerJobs, "slurm.job.event", "failed"), 4);
  EXPECT_EQ(Value(*frame, kSlurmAccountGpus, "slurm.account.name", "lab"), 17);
  EXPECT_EQ(Value(*frame, kSlurmPartitionJobs, "slurm.partition.name", "batch"), 1) << "pending comes first";
  clock_.Advance(std::chrono::seconds(300));
  writer_.Begin(clock_.Now());
  series_.Write(Reading("n1|#(null)|#(null)|#0/64/0/64|#idle|#short|#\n", ""), writer_);
  frame = writer_.Finish();
  EXPECT_EQ(Value(*frame, kSlurmNodes, "slurm.node.state", "mixed"), 0);
  EXPECT_EQ(Value(*frame, kSlurmNodes, "slurm.node.state", "idle"), 1);
  EXPECT_EQ(Value(*frame, kSlurmAccountGpus), -1) << "an account without jobs is gone";
  EXPECT_EQ(Value(*frame, kSlurmPartitionNodes, "slurm.partition.name", "batch"), -1);
  EXPECT_EQ(Value(*frame, kSlurmJobsDistributed), -1);
}

TEST_F(ClusterSeriesTest, SteadyRunDoesNotAllocate) {
  const ClusterReading reading = Reading(kNodes, kQueue);
  Ref<const Frame> frame;
  for (int i = 0; i < 8; ++i) {
    clock_.Advance(std::chrono::seconds(300));
    const uint64_t before = ThreadAllocations();
    writer_.Begin(clock_.Now());
    series_.Write(reading, writer_);
    frame = writer_.Finish();
    if (i > 3) {
      EXPECT_EQ(ThreadAllocations() - before, 0u) << i;
    }
  }
}

class ClusterReaderTest : public ::testing::Test {
 protected:
  void Fake(const std::string& program, const std::string& script) {
    slurm::WriteTableProgram(folder_, program, script);
  }
  ClusterReading Read(Duration timeout = std::chrono::seconds(60)) {
    return reader().Read(RealClock().Now() + timeout);
  }
  ClusterReader& reader() {
    if (!reader_)
      reader_.emplace(slurm::SlurmPrograms::Options{folder_.path(), std::chrono::seconds(60), 1u << 20, -1},
                      std::chrono::seconds(300), RealClock());
    return *reader_;
  }
  testing::TempFolder folder_;
  std::optional<ClusterReader> reader_;
};

TEST_F(ClusterReaderTest, RequestsJsonOfAnOldSdiagOnce) {
  Fake("sinfo", "echo 'n1|#gpu:4|#gpu:1|#1/3/0/4|#mixed|#batch|#'");
  Fake("squeue", "exit 0");
  Fake("sdiag", "echo \"$*\" >> " + folder_.path() +
                    "/asked\ncase \"$*\" in *json*) echo \"sdiag: unrecognized option '--json'\" >&2; exit "
                    "1;; esac\necho 'Jobs running: 7'");
  Fake("sacct", "echo 'Slurm accounting storage is disabled' >&2; exit 1");
  for (int i = 0; i < 2; ++i) {
    ClusterReading reading = Read();
    EXPECT_TRUE(reading.status.ok()) << reading.status.detail;
    ASSERT_TRUE(reading.diagnosis && reading.nodes && reading.queue);
    EXPECT_EQ(reading.diagnosis->jobs_running, 7);
    EXPECT_EQ(reading.nodes->gpus.at("idle"), 3);
    EXPECT_FALSE(reading.ended);
  }
  EXPECT_EQ(*ReadFile(folder_.path() + "/asked"), "--all --json\n--all\n--all\n");
}

TEST_F(ClusterReaderTest, CountsEveryTaskOfAWaitingArray) {
  Fake("sinfo", "exit 0");
  // Without --array squeue has one line for all tasks of an array that wait.
  Fake("squeue",
       "case \"$*\" in *--array*) tasks='1 2 3' ;; *) tasks=1 ;; esac\n"
       "for i in $tasks; do echo '7|#PENDING|#ann|#lab|#batch|#1|#1|#N/A|#gres/gpu:2|#'; done");
  Fake("sdiag", "echo '{\"statistics\":{}}'");
  Fake("sacct", "echo 'JobIDRaw|#State|#End'");
  const ClusterReading reading = Read();
  ASSERT_TRUE(reading.queue);
  EXPECT_EQ(reading.queue->jobs.at("pending"), 3);
}

TEST_F(ClusterReaderTest, FailureRemovesOnlyItsOwnSeries) {
  Fake("sinfo", "echo 'slurm_load_partitions: Unable to contact slurm controller' >&2; exit 1");
  Fake("squeue", "echo '1|#RUNNING|#ann|#lab|#batch|#1|#1|#cpu=1|#N/A|#'");
  Fake("sdiag", "echo '{\"statistics\":{\"jobs_running\":3}}'");
  Fake("sacct", "echo 'JobIDRaw|#State|#End'");
  ClusterReading reading = Read();
  EXPECT_EQ(reading.status.code, Code::kIo);
  EXPECT_FALSE(reading.nodes);
  EXPECT_EQ(reading.queue->jobs.at("running"), 1);
  EXPECT_EQ(reading.diagnosis->jobs_running, 3);
  EXPECT_TRUE(reading.ended);
}

TEST_F(ClusterReaderTest, LeavesAHangingController) {
  for (const char* program : {"sinfo", "squeue", "sdiag", "sacct"}) Fake(program, "exec sleep 600");
  ClusterReading reading = Read(std::chrono::milliseconds(300));
  EXPECT_EQ(reading.status.code, Code::kTimeout);
  EXPECT_FALSE(reading.nodes || reading.queue || reading.diagnosis || reading.ended);
}

}  // namespace
}  // namespace gpulens
