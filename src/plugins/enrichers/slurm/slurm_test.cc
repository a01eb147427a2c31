// The enricher against a root of our own and a scontrol that is a shell script.

#include "plugins/enrichers/slurm/slurm.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <condition_variable>
#include <filesystem>
#include <fstream>

#include "base/files.h"

namespace gpulens::slurm {
namespace {

using std::chrono::seconds;

ProcessJob Process(uint64_t job, const char* step, bool by_cgroup = true) {
  ProcessJob out;
  out.job = job;
  out.step = step;
  out.by_cgroup = by_cgroup;
  return out;
}
JobFacts Facts(const char* user, const char* account, std::vector<int> gpus) {
  JobFacts out;
  out.user = user;
  out.account = account;
  out.gpus = std::move(gpus);
  return out;
}

TEST(JobAnswers, NamesJobsOfIdleAndBusyGpus) {
  JobEvidence evidence;
  evidence.jobs[12] = Facts("ann", "lab", {0, 1});
  evidence.processes[100] = {0, Process(12, "0")};
  JobAnswers answers = Answer(evidence);
  EXPECT_EQ(answers.processes.at(100).Text("slurm.job.id"), "12");
  EXPECT_EQ(answers.processes.at(100).Text("slurm.job.step"), "0");
  EXPECT_EQ(answers.processes.at(100).Text("slurm.job.user"), "ann");
  EXPECT_EQ(answers.gpus.at(0).Text("slurm.job.id"), "12");
  EXPECT_EQ(answers.gpus.at(1).Text("slurm.job.id"), "12") << "it has it, though it does nothing there";
  EXPECT_FALSE(answers.gpus.at(0).Has("slurm.job.step")) << "a GPU is of no step";
  EXPECT_FALSE(answers.gpus.contains(2));
  EXPECT_FALSE(answers.used.contains(1));
}

TEST(JobAnswers, GpuOfTwoJobsIsShared) {
  JobEvidence evidence;
  evidence.jobs[12] = Facts("ann", "lab", {0});
  evidence.jobs[15] = Facts("bob", "lab", {0});
  evidence.processes[100] = {0, Process(12, "0")};
  JobAnswers answers = Answer(evidence);
  const AttributeSet& gpu = answers.gpus.at(0);
  EXPECT_EQ(gpu.Text("gpu.allocation"), "shared");
  EXPECT_EQ(gpu.Text("slurm.job.ids"), "12,15");
  EXPECT_FALSE(gpu.Has("slurm.job.id"));
  EXPECT_FALSE(gpu.Has("slurm.job.user"));
  EXPECT_EQ(gpu.Text("slurm.job.account"), "lab") << "what both have";
  EXPECT_EQ(answers.processes.at(100).Text("slurm.job.id"), "12");
  EXPECT_FALSE(answers.processes.at(100).Has("gpu.allocation"));
}

TEST(JobAnswers, RejectsAListOfAnotherLength) {
  JobEvidence evidence;
  evidence.jobs[12] = Facts("ann", "lab", {0});
  evidence.jobs[15] = Facts("bob", "bio", {1});
  evidence.processes[100] = {1, Process(12, "0")};
  JobAnswers answers = Answer(evidence);
  EXPECT_EQ(answers.gpus.at(1).Text("slurm.job.id"), "12") << "a process of it is there";
  // Any user can set an environment.
  evidence.processes[100].job.by_cgroup = false;
  EXPECT_EQ(Answer(evidence).gpus.at(1).Text("slurm.job.id"), "15");
  evidence.jobs[15].gpus.reset();
  EXPECT_EQ(Answer(evidence).gpus.at(1).Text("slurm.job.id"), "12") << "better than nothing";
}

TEST(JobAnswers, SlurmCountsDeviceFiles) {
  JobEvidence evidence;
  evidence.jobs[12] = Facts("ann", "lab", {0});
  evidence.jobs[15] = Facts("bob", "bio", {2});
  evidence.files = {{0, 3}, {3, 0}};
  JobAnswers answers = Answer(evidence);
  EXPECT_EQ(answers.gpus.at(3).Text("slurm.job.id"), "12") << "the GPU whose file is nvidia0";
  EXPECT_FALSE(answers.gpus.contains(0));
  EXPECT_EQ(answers.gpus.at(2).Text("slurm.job.id"), "15");
  evidence.files = {{0, 3}};
  EXPECT_TRUE(Answer(evidence).gpus.size() == 1) << "nobody knows which one has file 0";
}

TEST(JobAnswers, MappingTakesPrecedence) {
  JobEvidence evidence;
  evidence.jobs[12] = Facts("ann", "lab", {0});
  evidence.jobs[15] = Facts("bob", "bio", {});
  evidence.mapping[0] = {"15"};
  EXPECT_EQ(Answer(evidence).gpus.at(0).Text("slurm.job.id"), "15");
  EXPECT_EQ(Answer(evidence).gpus.at(0).Text("slurm.job.user"), "bob");
  evidence.mapping[0] = {"other"};
  EXPECT_EQ(Answer(evidence).gpus.at(0), AttributeSet({{"slurm.job.id", "other"}}));
}

class JobEnricherTest : public ::testing::Test {
 protected:
  void SetUp() override {
    char folder[] = "/tmp/gpulens-slurm-XXXXXX";
    ASSERT_NE(::mkdtemp(folder), nullptr);
    folder_ = folder;
    Scontrol("echo \"$*\" >> " + folder_ + "/asked\ncase $4 in 12) cat " + folder_ +
             "/job12;; *) exit 1;; esac");
    Write("/job12",
          "JobId=12 ArrayJobId=10 ArrayTaskId=2 JobName=train me\n   UserId=ann(1000) GroupId=x(1)\n"
          "   Account=lab QOS=high\n   JobState=RUNNING\n   Partition=batch AllocNode:Sid=a:1\n   NumNodes=1 "
          "NumCPUs=1\n"
          "     Nodes=node1 CPU_IDs=0 Mem=0 GRES=gpu:a100:2(IDX:0-1)\n");
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  void Write(const std::string& path, std::string_view text) {
    std::filesystem::create_directories(std::filesystem::path(folder_ + path).parent_path());
    std::ofstream(folder_ + path) << text;
  }
  void Scontrol(const std::string& script) {
    Write("/bin/scontrol", "#!/bin/sh\n" + script + "\n");
    ASSERT_EQ(::chmod((folder_ + "/bin/scontrol").c_str(), 0755), 0);
  }
  void Process(int pid, std::string_view cgroup, std::string_view environment) {
    const std::string at = "/root/proc/" + std::to_string(pid);
    Write(at + "/cgroup", cgroup);
    Write(at + "/environ", environment);
  }
  JobEnricher& enricher() {
    if (!enricher_) {
      options_.root = folder_ + "/root";
      options_.programs = folder_ + "/bin";
      options_.host_name = "node1.example.org";
      options_.call_timeout = seconds(60);
      enricher_ = std::make_unique<JobEnricher>(options_, RealClock());
    }
    return *enricher_;
  }
  Status Look() {
    std::mutex mutex;
    std::condition_variable came;
    std::optional<Status> result;
    enricher().Fetch(RealClock().Now() + seconds(60), [&](Status status) {
      std::lock_guard lock(mutex);
      result = std::move(status);
      came.notify_all();
    });
    std::unique_lock lock(mutex);
    EXPECT_TRUE(came.wait_for(lock, seconds(120), [&] { return result.has_value(); }));
    return result.value_or(Status{Code::kTimeout, "no answer"});
  }
  static EntityRef Gpu(int64_t index, bool mig = false) {
    return MakeRef<Entity>("gpu", AttributeSet({{"gpu.index", index}, {"gpu.mig.enabled", mig}}));
  }
  static EntityRef WithFile(int64_t index, std::string_view file) {
    return MakeRef<Entity>("gpu", AttributeSet({{"gpu.index", index}}), EntityRef{},
                           AttributeSet({{"gpu.minor", file}}));
  }
  static EntityRef On(const EntityRef& gpu, int64_t pid) {
    return MakeRef<Entity>("process", AttributeSet({{"process.pid", pid}}), gpu);
  }

  std::string folder_;
  JobEnricher::Options options_;
  std::unique_ptr<JobEnricher> enricher_;
};

constexpr std::string_view kCgroup = "0::/system.slice/slurmstepd.scope/job_12/step_0/user/task_0\n";

TEST_F(JobEnricherTest, DescribesAJobFromStartToEnd) {
  EntityRef first = Gpu(0), second = Gpu(1), third = Gpu(2), process = On(first, 100), other = On(first, 200);
  Process(100, kCgroup, "");
  Process(200, "0::/user.slice\n", "");
  EXPECT_TRUE(enricher().Describe(*process).empty()) << "not looked at yet";
  EXPECT_TRUE(enricher().Describe(*other).empty());
  ASSERT_TRUE(Look().ok());
  EXPECT_EQ(enricher().generation(), 1u);
  const AttributeSet set = enricher().Describe(*process);
  EXPECT_EQ(set, AttributeSet({{"slurm.job.id", "12"},
                               {"slurm.job.step", "0"},
                               {"slurm.job.name", "train me"},
                               {"slurm.job.user", "ann"},
                               {"slurm.job.account", "lab"},
                               {"slurm.job.partition", "batch"},
                               {"slurm.job.qos", "high"},
                               {"slurm.job.nodes", "1"},
                               {"slurm.array.job.id", "10"},
                               {"slurm.array.task.id", "2"}}));
  EXPECT_EQ(enricher().Describe(*second).Text("slurm.job.id"), "12");
  EntityRef link = MakeRef<Entity>("link", AttributeSet({{"link", int64_t{0}}}), second);
  EntityRef slice = MakeRef<Entity>("mig", AttributeSet({{"gpu.mig.instance_id", int64_t{0}}}), second);
  EXPECT_EQ(enricher().Describe(*link).Text("slurm.job.id"), "12") << "a part that goes with the whole";
  EXPECT_TRUE(enricher().Describe(*slice).empty());
  EXPECT_TRUE(enricher().Describe(*third).empty());
  EXPECT_TRUE(enricher().Describe(*other).empty()) << "of no job, whoever has the GPU";
  ASSERT_TRUE(Look().ok());
  EXPECT_EQ(enricher().generation(), 1u) << "nothing changed";
  EXPECT_EQ(*ReadFile(folder_ + "/asked"), "show job -d 12\n") << "asked once";
  std::filesystem::remove_all(folder_ + "/root/proc/100");
  ASSERT_TRUE(Look().ok());
  EXPECT_EQ(enricher().generation(), 2u);
  EXPECT_TRUE(enricher().Describe(*first).empty());
  EXPECT_TRUE(enricher().Describe(*process).empty());
}

// A job name that imitates lines of scontrol, to claim a user, an account and all GPUs.
constexpr std::string_view kForged =
    "JobId=12 JobName=x\n   UserId=root(0) GroupId=root(0)\n   Account=evil QOS=top\n   JobState=RUNNING\n"
    "     Nodes=node1 CPU_IDs=0 Mem=0 GRES=gpu:a100:4(IDX:0-3)\n";
constexpr std::string_view kReal =
    "   UserId=ann(1000) GroupId=x(1)\n   Account=lab QOS=high\n   JobState=RUNNING\n"
    "   Partition=batch AllocNode:Sid=a:1\n     Nodes=node1 CPU_IDs=0 Mem=0 GRES=gpu:a100:1(IDX:1)\n";

TEST_F(JobEnricherTest, NameWithLinesOfScontrolTakesNoGpu) {
  Process(100, kCgroup, "");
  EntityRef process = On(Gpu(1), 100);
  static_cast<void>(enricher().Describe(*process));
  const std::string another = "JobId=15 JobName=y\n";
  for (const std::string& text :
       {std::string(kForged) + std::string(kReal), std::string(kForged) + another + std::string(kReal),
        "JobId=12 JobName=x\n" + another + std::string(kReal)}) {
    enricher_.reset();
    Write("/job12", text);
    static_cast<void>(enricher().Describe(*process));
    ASSERT_TRUE(Look().ok());
    EXPECT_EQ(enricher().Describe(*process).Text("slurm.job.id"), "12") << "by its control group";
    EXPECT_FALSE(enricher().Describe(*process).Has("slurm.job.user")) << text;
    EXPECT_TRUE(enricher().Describe(*Gpu(0)).empty()) << "no GPU by the words of its name";
    EXPECT_EQ(enricher().Describe(*Gpu(1)).Text("slurm.job.id"), "12") << "its process is there";
    EXPECT_EQ(enricher().missing(), 1u);
    // squeue prints between delimiters that no user can write.
    Write("/bin/squeue",
          "#!/bin/sh\nfor last; do :; done\nend=${last##*:}\nfor value in 12 'bad\nname' ann lab batch high "
          "RUNNING "
          "1 12 N/A; do printf '%s%s' \"$value\" \"$end\"; done; echo\n");
    ASSERT_EQ(::chmod((folder_ + "/bin/squeue").c_str(), 0755), 0);
    enricher_.reset();
    static_cast<void>(enricher().Describe(*process));
    ASSERT_TRUE(Look().ok());
    EXPECT_EQ(enricher().Describe(*process).Text("slurm.job.user"), "ann");
    EXPECT_EQ(enricher().Describe(*process).Text("slurm.job.name"), "bad\nname");
    EXPECT_FALSE(enricher().Describe(*process).Has("slurm.array.job.id"));
    EXPECT_TRUE(enricher().Describe(*Gpu(0)).empty());
    EXPECT_EQ(enricher().missing(), 1u) << "which GPUs it has is still its word";
    std::filesystem::remove(folder_ + "/bin/squeue");
  }
  Write("/job12", "JobId=12 JobName=plain\nover two lines\n" + std::string(kReal));
  enricher_.reset();
  static_cast<void>(enricher().Describe(*process));
  ASSERT_TRUE(Look().ok());
  EXPECT_EQ(enricher().Describe(*process).Text("slurm.job.name"), "plain\nover two lines");
  EXPECT_EQ(enricher().Describe(*process).Text("slurm.job.user"), "ann");
  EXPECT_EQ(enricher().missing(), 0u);
}

TEST_F(JobEnricherTest, QueriesTheFirstJobOfAnArrayByItsTask) {
  Process(100, kCgroup, "");
  EntityRef process = On(Gpu(1), 100);
  const std::string one = "JobId=12 ArrayJobId=12 ArrayTaskId=3 JobName=a\n" + std::string(kReal);
  Write("/one", one);
  Write("/all", "JobId=15 ArrayJobId=12 ArrayTaskId=1 JobName=a\n" + std::string(kReal) + "\n" + one);
  Scontrol("case $4 in 12) cat " + folder_ + "/all;; 12_3) cat " + folder_ + "/one;; *) exit 1;; esac");
  Write("/bin/squeue",
        "#!/bin/sh\nfor last; do :; done\nend=${last##*:}\nfor id in 15:1 12:3; do for value in ${id%:*} a "
        "ann lab "
        "batch high RUNNING 1 12 ${id#*:}; do printf '%s%s' \"$value\" \"$end\"; done; echo; done\n");
  ASSERT_EQ(::chmod((folder_ + "/bin/squeue").c_str(), 0755), 0);
  static_cast<void>(enricher().Describe(*process));
  ASSERT_TRUE(Look().ok());
  EXPECT_EQ(enricher().Describe(*process).Text("slurm.array.task.id"), "3");
  EXPECT_EQ(enricher().Describe(*Gpu(1)).Text("slurm.job.user"), "ann");
  EXPECT_EQ(enricher().missing(), 0u);
}

TEST_F(JobEnricherTest, BoardOfAUsedSliceIsShared) {
  Process(100, kCgroup, "");
  EntityRef board = Gpu(1, true);
  EntityRef slice = MakeRef<Entity>("mig", AttributeSet({{"gpu.mig.instance_id", int64_t{0}}}), board);
  static_cast<void>(enricher().Describe(*On(slice, 100)));
  ASSERT_TRUE(Look().ok());
  EXPECT_EQ(enricher().Describe(*On(slice, 100)).Text("slurm.job.id"), "12");
  EXPECT_EQ(enricher().Describe(*board),
            AttributeSet({{"gpu.allocation", "shared"}, {"slurm.job.ids", "12"}}));
}

TEST_F(JobEnricherTest, DescribesAJobWithoutAProcess) {
  std::filesystem::create_directories(folder_ +
                                      "/root/sys/fs/cgroup/system.slice/slurmstepd.scope/job_12/step_extern");
  ASSERT_TRUE(Look().ok());
  EXPECT_EQ(enricher().Describe(*Gpu(1)).Text("slurm.job.user"), "ann");
  EXPECT_TRUE(enricher().Describe(*Gpu(1, true)).empty()) << "of slices Slurm counts otherwise";
}

TEST_F(JobEnricherTest, IndexesAreThoseOfDeviceFiles) {
  std::filesystem::create_directories(folder_ + "/root/sys/fs/cgroup/system.slice/slurmstepd.scope/job_12");
  for (int64_t index = 0; index < 4; ++index)
    static_cast<void>(enricher().Describe(*WithFile(index, std::to_string(3 - index))));
  ASSERT_TRUE(Look().ok());
  for (int64_t index = 0; index < 4; ++index)
    EXPECT_EQ(enricher().Describe(*WithFile(index, std::to_string(3 - index))).empty(), index < 2) << index;
}

TEST_F(JobEnricherTest, UsesTheEnvironmentWithoutAController) {
  Scontrol("echo 'slurm_load_jobs error: Unable to contact slurm controller' >&2; exit 1");
  using namespace std::string_view_literals;
  Process(100, kCgroup,
          "SLURM_JOB_ID=12\0SLURM_JOB_USER=ann\0SLURM_JOB_GPUS=3\0SLURMD_NODENAME=node1\0X=1\0"sv);
  Process(101, kCgroup, "SLURM_JOB_ID=77\0SLURM_JOB_USER=eve\0"sv);
  EntityRef gpu = Gpu(0);
  static_cast<void>(enricher().Describe(*On(gpu, 100)));
  static_cast<void>(enricher().Describe(*On(gpu, 101)));
  EXPECT_EQ(Look().code, Code::kIo);
  EXPECT_EQ(enricher().Describe(*On(gpu, 100)).Text("slurm.job.user"), "ann");
  EXPECT_EQ(enricher().Describe(*On(gpu, 101)).Text("slurm.job.id"), "12")
      << "its control group is not its to choose";
  EXPECT_EQ(enricher().Describe(*Gpu(3)).Text("slurm.job.id"), "12");
  options_.scontrol = false;
  enricher_.reset();
  EXPECT_TRUE(Look().ok());
}

TEST_F(JobEnricherTest, ReadsAFolderOfMappings) {
  Write("/mapping/0", "12\n");
  Write("/mapping/1", "12\n15\n\n12\n");
  Write("/mapping/x", "9\n");
  Write("/mapping/2", "");
  options_.mapping = folder_ + "/mapping";
  options_.scontrol = false;
  ASSERT_TRUE(Look().ok());
  EXPECT_EQ(enricher().Describe(*Gpu(0)), AttributeSet({{"slurm.job.id", "12"}}));
  EXPECT_EQ(enricher().Describe(*Gpu(1)).Text("slurm.job.ids"), "12,15");
  EXPECT_TRUE(enricher().Describe(*Gpu(2)).empty());
}

TEST_F(JobEnricherTest, SimulatedGpusHaveNoJob) {
  Write("/mapping/0", "12\n");
  options_.mapping = folder_ + "/mapping";
  options_.scontrol = false;
  ASSERT_TRUE(Look().ok());
  EntityRef fake = MakeRef<Entity>("gpu", AttributeSet({{"gpu.index", int64_t{0}}, {"simulated", true}}));
  EXPECT_TRUE(enricher().Describe(*fake).empty());
}

TEST_F(JobEnricherTest, EndsAtOnceWhileScontrolHangs) {
  Scontrol("exec sleep 600");
  std::filesystem::create_directories(folder_ + "/root/sys/fs/cgroup/system.slice/slurmstepd.scope/job_12");
  bool called = false;
  enricher().Fetch(RealClock().Now() + seconds(600), [&](Status) { called = true; });
  enricher_.reset();
  EXPECT_FALSE(called);
}

}  // namespace
}  // namespace gpulens::slurm
