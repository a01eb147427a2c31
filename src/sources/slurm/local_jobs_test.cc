#include "sources/slurm/local_jobs.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>

namespace gpulens::slurm {
namespace {

using namespace std::string_view_literals;

TEST(JobOfCgroup, BothVersions) {
  auto job = JobOfCgroup("9:memory:/slurm/uid_1000/job_123/step_batch/task_0\n8:cpu:/\n");
  ASSERT_TRUE(job);
  EXPECT_EQ(job->job, 123u);
  EXPECT_EQ(job->step, "batch");
  EXPECT_TRUE(job->by_cgroup);
  EXPECT_EQ(JobOfCgroup("8:cpu:/\n9:memory:/slurm_node1/uid_1/job_7/step_0/task_1\n")->job, 7u);
  EXPECT_EQ(JobOfCgroup("0::/system.slice/slurmstepd.scope/job_123/step_0/user/task_0\n")->step, "0");
  EXPECT_EQ(JobOfCgroup("0::/system.slice/node1_slurmstepd.scope/job_5/step_extern/user\n")->step, "extern");
  EXPECT_EQ(JobOfCgroup("0::/system.slice/slurmstepd.scope/job_5\n")->step, "");
}

TEST(JobOfCgroup, PathsThatLookLikeAJobAreNone) {
  for (auto text :
       {"", "0::/\n", "0::/system.slice/slurmd.service\n", "0::/user.slice/job_12/step_0\n",
        "0::/system.slice/slurmstepd.scope/job_\n", "0::/system.slice/slurmstepd.scope/job_0/step_0\n",
        "0::/system.slice/slurmstepd.scope/job_12x\n", "0::/kubepods/job_12\n", "job_12"})
    EXPECT_FALSE(JobOfCgroup(text)) << text;
}

TEST(JobOfEnvironment, NamesAndIndices) {
  auto job = JobOfEnvironment(
      "PATH=/bin\0SLURM_JOB_ID=12\0SLURM_JOB_NAME=a=b c\0SLURM_JOB_USER=ann\0SLURM_JOB_ACCOUNT=lab\0"
      "SLURM_JOB_PARTITION=batch\0SLURM_JOB_QOS=high\0SLURM_ARRAY_JOB_ID=10\0SLURM_ARRAY_TASK_ID=2\0"
      "SLURM_STEP_ID=3\0SLURM_JOB_GPUS=0,2-3\0SLURMD_NODENAME=node1\0"sv);
  ASSERT_TRUE(job);
  EXPECT_EQ(job->job, 12u);
  EXPECT_EQ(job->step, "3");
  EXPECT_FALSE(job->by_cgroup);
  EXPECT_EQ(job->facts.name, "a=b c") << "a value may have equals signs";
  EXPECT_EQ(job->facts.gpus, (std::vector<int>{0, 2, 3}));
  EXPECT_EQ(job->facts.node_name, "node1");
  EXPECT_EQ(JobOfEnvironment("SLURM_JOBID=9"sv)->job, 9u);
  EXPECT_FALSE(JobOfEnvironment("SLURM_JOB_ID=x\0SLURM_JOB_USER=ann"sv));
  EXPECT_FALSE(JobOfEnvironment("XSLURM_JOB_ID=1\0"sv));
  EXPECT_FALSE(JobOfEnvironment(""));
}

class LocalJobsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    char folder[] = "/tmp/gpulens-slurm-XXXXXX";
    ASSERT_NE(::mkdtemp(folder), nullptr);
    root_ = folder;
  }
  void TearDown() override { std::filesystem::remove_all(root_); }
  void Write(const std::string& path, std::string_view text) {
    std::filesystem::create_directories(std::filesystem::path(root_ + path).parent_path());
    std::ofstream(root_ + path) << text;
  }
  std::string root_;
};

TEST_F(LocalJobsTest, OfControlGroups) {
  EXPECT_TRUE(LocalJobs(root_).empty());
  for (const char* path :
       {"/system.slice/slurmstepd.scope/job_12/step_0", "/system.slice/slurmstepd.scope/system",
        "/system.slice/slurmd.service", "/memory/slurm/uid_1000/job_7", "/memory/slurm/uid_0/job_12",
        "/freezer/slurm_node1/uid_5/job_9", "/memory/docker/uid_1/job_99"})
    std::filesystem::create_directories(root_ + "/sys/fs/cgroup" + path);
  EXPECT_EQ(LocalJobs(root_), (std::vector<uint64_t>{7, 9, 12}));
}

TEST_F(LocalJobsTest, TheControlGroupHasPrecedenceOverTheEnvironment) {
  Write("/proc/5/cgroup", "0::/system.slice/slurmstepd.scope/job_12/step_0\n");
  Write("/proc/5/environ", "SLURM_JOB_ID=99\0SLURM_JOB_USER=eve\0"sv);
  auto job = JobOfProcess(root_, 5);
  ASSERT_TRUE(job);
  EXPECT_EQ(job->job, 12u);
  EXPECT_EQ(job->facts, JobFacts()) << "it speaks of another job";
  Write("/proc/6/cgroup", "0::/\n");
  Write("/proc/6/environ", "SLURM_JOB_ID=99\0SLURM_JOB_USER=eve\0"sv);
  EXPECT_EQ(JobOfProcess(root_, 6)->facts.user, "eve");
  EXPECT_FALSE(JobOfProcess(root_, 7));
}

TEST_F(LocalJobsTest, AMappingOfGpusToJobs) {
  EXPECT_FALSE(ReadJobMapping(root_ + "/mapping"));
  Write("/mapping/0", "12\n\n 13 \n12\n");
  Write("/mapping/11", "14");
  Write("/mapping/empty", "1");
  Write("/mapping/-1", "1");
  Write("/mapping/99999", "1");
  Write("/mapping/3", "");
  std::filesystem::create_directories(root_ + "/mapping/4");
  auto mapping = ReadJobMapping(root_ + "/mapping");
  ASSERT_TRUE(mapping);
  EXPECT_EQ(*mapping, (std::map<int, std::vector<std::string>>{{0, {"12", "13"}}, {11, {"14"}}}));
}

}  // namespace
}  // namespace gpulens::slurm
