// Runs commands with shell scripts that print the files of testdata.
#include "cli/slurm/record_commands.h"

#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <filesystem>

#include "base/fd.h"
#include "base/files.h"
#include "base/testing/temp_folder.h"
#include "sources/slurm/fake_table_testing.h"

namespace gpulens {
namespace {

const std::string kData = GPULENS_SOURCE_DIR "/src/cli/slurm/testdata/";

class KeepingSink final : public Sink {
 public:
  Status Write(const Snapshot&) override { return Ok(); }
  Status Write(const Events& events) override {
    if (fail) return {Code::kExhausted, "the disk is full"};
    ++writes;
    for (const Event& event : events.list) kept.push_back(event);
    return Ok();
  }
  std::vector<Event> kept;
  int writes = 0;
  bool fail = false;
};

class RecordCommandsTest : public ::testing::Test {
 protected:
  void Fake(const std::string& program, const std::string& script) {
    slurm::WriteTableProgram(folder_, program, script);
  }
  void Prints(const std::string& program, const std::string& file) {
    Fake(program, "echo \"$@\" >> " + folder_.path() + "/arguments\nexec cat " +
                      std::filesystem::absolute(kData + file).string());
  }
  std::string Arguments() { return *ReadFile(folder_.path() + "/arguments"); }

  Status Run(RecordCommand command) {
    slurm::SlurmPrograms programs({folder_.path(), std::chrono::seconds(60), 1u << 20, stop_.get()},
                                  RealClock());
    RecordSender sender(sink_, AttributeSet({{"host.name", "h"}}));
    RecordRun run{programs, sender, clock_, context_, options_, stop_.get()};
    Status status = command(run);
    Status sent = sender.Send();
    bad_lines_ = run.bad_lines;
    return status ? sent : status;
  }
  const AttributeSet& At(size_t i) const { return sink_.kept.at(i).attributes; }

  testing::TempFolder folder_;
  UniqueFd stop_{::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
  ManualClock clock_;
  KeepingSink sink_;
  RecordContext context_;
  RecordOptions options_;
  uint64_t bad_lines_ = 0;
};

TEST_F(RecordCommandsTest, NodesAndJobs) {
  Prints("sinfo", "sinfo_all.txt");
  Prints("squeue", "squeue.txt");
  context_.cluster = "alps";
  context_.derive_cluster = true;
  ASSERT_TRUE(Run(&SendNodesAndJobs).ok());
  ASSERT_EQ(sink_.kept.size(), 4u);
  EXPECT_EQ(sink_.kept[0].name, "slurm.node");
  EXPECT_EQ(At(0).Text("slurm.node.state"), "mixed") << "the long form";
  EXPECT_EQ(At(0).Text("slurm.node.gres.gpu"), "4");
  EXPECT_EQ(At(0).Text("slurm.node.memory"), "268435456") << "bytes";
  EXPECT_EQ(At(0).Text("slurm.node.nodelist"), "node1");
  EXPECT_FALSE(At(0).Has("slurm.node.reason")) << "none is no reason";
  EXPECT_EQ(At(0).Text("slurm.cluster.name"), "alps");
  EXPECT_EQ(At(0).Text("slurm.cluster.derived"), "alps.batch");
  EXPECT_EQ(sink_.kept[2].name, "slurm.job");
  EXPECT_EQ(At(2).Text("slurm.job.name"), "two|gpus");
  EXPECT_EQ(At(2).Find("slurm.job.time_limit", false), AttributeSet::Value(3600.0));
  EXPECT_EQ(At(2).Find("slurm.job.tres_alloc.gres_gpu", false), AttributeSet::Value(int64_t{2}));
  EXPECT_EQ(At(2).Text("slurm.job.start_time"), "2026-11-22T10:40:39Z");
  EXPECT_FALSE(At(3).Has("slurm.job.start_time")) << "it waits";
  EXPECT_FALSE(At(2).Has("slurm.job.account"));
  EXPECT_EQ(bad_lines_, 0u);
}

TEST_F(RecordCommandsTest, SendsJobsWhenNodesFail) {
  Fake("sinfo", "echo 'slurm_load_node: Unable to contact slurm controller' >&2; exit 1");
  Prints("squeue", "squeue.txt");
  Status status = Run(&SendNodesAndJobs);
  EXPECT_EQ(status.code, Code::kIo);
  EXPECT_NE(status.detail.find("Unable to contact"), std::string::npos) << status.detail;
  EXPECT_EQ(sink_.kept.size(), 2u);
}

TEST_F(RecordCommandsTest, RunningJobs) {
  Prints("sacct", "sacct.txt");
  ASSERT_TRUE(Run(&SendRunningJobs).ok());
  EXPECT_NE(Arguments().find("-s RUNNING"), std::string::npos);
  ASSERT_EQ(sink_.kept.size(), 4u);
  EXPECT_EQ(At(0).Find("slurm.accounting.elapsed", false), AttributeSet::Value(88877.0));
  EXPECT_EQ(At(1).Text("slurm.accounting.job_name"), "first\nsecond") << "one row over two lines";
  EXPECT_EQ(At(2).Text("slurm.accounting.job_name"),
            "bad\xEF\xBF\xBD"
            "bytes");
  EXPECT_EQ(sink_.kept[0].at.unix_ns, clock_.Now().unix_ns);
}

TEST_F(RecordCommandsTest, BackfillSendsEachJobOnce) {
  Prints("sacct", "sacct.txt");
  options_.start = "2026-11-22T08:00:00";
  options_.end = "2026-11-22T11:00:00";
  options_.pause = "0s";
  ASSERT_TRUE(Run(&BackfillNew).ok());
  // Three parts, each with the same four rows: one job ended before, one is running.
  ASSERT_EQ(sink_.kept.size(), 2u);
  EXPECT_EQ(At(0).Text("slurm.accounting.job_id"), "103");
  EXPECT_EQ(At(1).Text("slurm.accounting.job_id"), "102") << "at an edge it belongs to what begins there";
  EXPECT_EQ(sink_.kept[1].at.unix_ns, 1795341600'000'000'000) << "the record's time is that of the end";
  EXPECT_NE(Arguments().find("-S 2026-11-22T09:00:00 -E 2026-11-22T10:00:00"), std::string::npos)
      << Arguments();
}

TEST_F(RecordCommandsTest, BackfillRetriesFailedParts) {
  Fake("sacct", "if [ ! -e " + folder_.path() + "/once ]; then touch " + folder_.path() +
                    "/once; echo busy >&2; exit 1; fi\nexec cat " +
                    std::filesystem::absolute(kData + "sacct.txt").string());
  options_.file = folder_.path() + "/parts";
  options_.pause = "0s";
  ASSERT_TRUE(WriteFileAtomically(options_.file, "# parts\n2026-11-22T09:00:00,2026-11-22T11:00:00\n"));
  EXPECT_TRUE(Run(&BackfillFromFile).ok());
  EXPECT_EQ(sink_.kept.size(), 2u);
  Fake("sacct", "echo 'Slurm accounting storage is disabled' >&2; exit 1");
  Status status = Run(&BackfillFromFile);
  EXPECT_EQ(status.code, Code::kIo);
  EXPECT_NE(status.detail.find("1 of 1 parts failed"), std::string::npos) << status.detail;
  ASSERT_TRUE(WriteFileAtomically(options_.file, "2026-11-22T09:00:00\n"));
  EXPECT_EQ(Run(&BackfillFromFile).code, Code::kInvalidArgument);
}

TEST_F(RecordCommandsTest, FullSinkEndsBackfill) {
  Prints("sacct", "sacct.txt");
  options_.start = "2026-11-22T08:00:00";
  options_.end = "2026-11-22T11:00:00";
  options_.pause = "0s";
  sink_.fail = true;
  EXPECT_EQ(Run(&BackfillNew).code, Code::kExhausted);
}

TEST_F(RecordCommandsTest, PublishReadsAFile) {
  options_.file = kData + "sacct.txt";
  ASSERT_TRUE(Run(&PublishAccounting).ok());
  ASSERT_EQ(sink_.kept.size(), 4u);
  EXPECT_EQ(At(0).Text("slurm.accounting.end"), "2026-11-22T07:30:00") << "nobody knows its zone";
  options_.file = "/nowhere";
  EXPECT_EQ(Run(&PublishAccounting).code, Code::kUnavailable);
  options_.file = folder_.path() + "/empty";
  ASSERT_TRUE(WriteFileAtomically(options_.file, ""));
  EXPECT_EQ(Run(&PublishAccounting).code, Code::kDataLoss);
}

TEST_F(RecordCommandsTest, SendsInBatches) {
  std::string text = "JobID|End\n";
  for (int i = 0; i < 1201; ++i) text += std::to_string(i) + "|Unknown\n";
  options_.file = folder_.path() + "/many";
  ASSERT_TRUE(WriteFileAtomically(options_.file, text));
  ASSERT_TRUE(Run(&PublishAccounting).ok());
  EXPECT_EQ(sink_.kept.size(), 1201u);
  EXPECT_EQ(sink_.writes, 3);
}

TEST_F(RecordCommandsTest, TablesOfTheManager) {
  Fake("sacctmgr",
       "case \"$*\" in *qos*) printf "
       "'Name|Priority|GraceTime|GrpTRES|MaxWall\\nnormal|10|00:05:00|cpu=4,gres/"
       "gpu=8192,mem=2T|3-00:00:00\\n';;"
       " *) printf 'User|DefaultAccount|Account|DefaultQOS|QOS\\nann|lab|lab||normal,high\\n';; esac");
  ASSERT_TRUE(Run(&SendQos).ok());
  ASSERT_TRUE(Run(&SendUsers).ok());
  EXPECT_EQ(At(0).Find("slurm.qos.grace_time", false), AttributeSet::Value(300.0));
  EXPECT_EQ(At(0).Find("slurm.qos.grp_tres.gres_gpu", false), AttributeSet::Value(int64_t{8192}));
  EXPECT_EQ(At(0).Find("slurm.qos.max_wall", false), AttributeSet::Value(3 * 86400.0));
  EXPECT_EQ(At(1).Text("slurm.user.default_account"), "lab");
  EXPECT_FALSE(At(1).Has("slurm.user.default_qos"));
}

TEST_F(RecordCommandsTest, PartitionsConfigurationPrioritiesShares) {
  Fake("scontrol",
       "case \"$*\" in *config*) printf 'Configuration data as of now\\nClusterName = alps\\nMaxJobCount = "
       "10000\\n\\nCgroup Support Configuration:\\nAllowedRAMSpace = 100.0%%\\n';;"
       " *) printf 'PartitionName=batch Default=YES MaxTime=1-00:00:00 MaxNodes=UNLIMITED TotalNodes=3 "
       "TRES=cpu=2,gres/gpu=16\\n';; esac");
  Fake("sprio",
       "printf 'JOBID|#PARTITION|#USER|#PRIORITY|#AGE|#PARTITION|#TRES\\n2|#batch|#ann|#575|#75|#500|#\\n'");
  Fake("sshare",
       "printf 'Account|User|RawShares|NormShares|FairShare\\nroot||||\\n "
       "lab|ann|parent|0.250000|0.500000\\n'");
  for (RecordCommand command : {&SendPartitions, &SendConfiguration, &SendPriorities, &SendShares}) {
    Status status = Run(command);
    EXPECT_TRUE(status.ok()) << status.detail;
  }
  ASSERT_EQ(sink_.kept.size(), 5u);
  EXPECT_EQ(At(0).Find("slurm.partition.max_time", false), AttributeSet::Value(86400.0));
  EXPECT_FALSE(At(0).Has("slurm.partition.max_nodes")) << "no limit is no number";
  EXPECT_EQ(At(0).Find("slurm.partition.tres.gres_gpu", false), AttributeSet::Value(int64_t{16}));
  EXPECT_EQ(At(1).Text("slurm.config.cluster_name"), "alps");
  EXPECT_EQ(At(1).Text("slurm.config.cgroup_support.allowed_ram_space"), "100.0%");
  EXPECT_EQ(At(2).Text("slurm.priority.partition"), "batch");
  EXPECT_EQ(At(2).Find("slurm.priority.partition_factor", false), AttributeSet::Value(500.0));
  EXPECT_EQ(At(3).Text("slurm.share.account"), "root");
  EXPECT_EQ(At(4).Find("slurm.share.norm_shares", false), AttributeSet::Value(0.25));
  EXPECT_FALSE(At(4).Has("slurm.share.raw_shares")) << "parent is no number";
}

// A squeue that prints texts of users unescaped between the requested delimiters.
TEST_F(RecordCommandsTest, TextsOfUsersDoNotBreakRows) {
  folder_.WriteProgram("sinfo", "echo 'NODELIST|STATE'");
  const std::string hostile = R"(a|#\nb|#|#\n2|#x\nJobId=1 JobName=y\n\001\033[31m\377\376|)";
  // Each value is the name of its column, except the name and the comment of job 7, which its user wrote.
  folder_.WriteProgram("squeue", R"(
for last; do :; done
row() {
  IFS=,
  for field in $last; do
    name=${field%%:*}
    end=${field#*:}
    case $name in
      JobID) printf '%s' "$1" ;;
      Name|Comment|Account) printf "$2" ;;
      State) printf PENDING ;;
    esac
    printf '%s' "$end"
  done
  echo
}
row 6 plain
row 7 ')" + hostile + R"('
row 8 plain
)");
  Status status = Run(&SendNodesAndJobs);
  ASSERT_TRUE(status.ok()) << status.detail;
  EXPECT_EQ(bad_lines_, 0u);
  ASSERT_EQ(sink_.kept.size(), 3u);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(At(i).Text("slurm.job.id"), std::to_string(6 + i));
    EXPECT_EQ(At(i).Text("slurm.job.state"), "PENDING");
    EXPECT_EQ(At(i).Text("slurm.job.name"), At(i).Text("slurm.job.comment"));
  }
  EXPECT_EQ(At(0).Text("slurm.job.name"), "plain");
  EXPECT_EQ(At(2).Text("slurm.job.name"), "plain");
  EXPECT_EQ(At(1).Text("slurm.job.name"),
            "a|#\nb|#|#\n2|#x\nJobId=1 JobName=y\n  [31m\xEF\xBF\xBD\xEF\xBF\xBD|");
}

TEST_F(RecordCommandsTest, MissingProgramsAndBadOutput) {
  for (RecordCommand command : {&SendQos, &SendPartitions, &SendShares, &SendRunningJobs})
    EXPECT_EQ(Run(command).code, Code::kUnavailable);
  Fake("scontrol", "echo nonsense");
  EXPECT_EQ(Run(&SendPartitions).code, Code::kDataLoss);
  EXPECT_EQ(Run(&SendConfiguration).code, Code::kDataLoss);
  Fake("sshare", "exit 0");
  EXPECT_EQ(Run(&SendShares).code, Code::kDataLoss);
  EXPECT_TRUE(sink_.kept.empty());
}

TEST_F(RecordCommandsTest, StorageOfMountsAndUsers) {
  options_.mounts = {"alps=^/proc.*$", "none=/no/such/mount"};
  EXPECT_EQ(Run(&SendStorage).code, Code::kUnavailable) << "what has no size is no file system";
  options_.mounts = {"alps=/"};
  ASSERT_TRUE(Run(&SendStorage).ok());
  ASSERT_EQ(sink_.kept.size(), 1u);
  EXPECT_EQ(At(0).Text("storage.mount"), "/");
  EXPECT_EQ(At(0).Text("slurm.cluster.name"), "alps");
  EXPECT_GT(std::get<int64_t>(At(0).Find("storage.size", int64_t{0})), 0);
  sink_.kept.clear();
  options_.pure_file = folder_.path() + "/usage";
  options_.mounts = {"/no/such/mount"};
  ASSERT_TRUE(WriteFileAtomically(
      options_.pure_file,
      "{\"user\":\"ann\",\"used\":4096,\"sample_time\":\"2026-11-22\",\"directory\":\"/home/ann\"}\n"
      "{\"user\":\"bob\",\"used\":-1}\nno json\n"));
  ASSERT_TRUE(Run(&SendStorage).ok());
  ASSERT_EQ(sink_.kept.size(), 1u);
  EXPECT_EQ(At(0).Find("storage.used", false), AttributeSet::Value(int64_t{4096}));
  EXPECT_EQ(At(0).Text("storage.directory"), "/home/ann");
  EXPECT_EQ(bad_lines_, 2u);
}

}  // namespace
}  // namespace gpulens
