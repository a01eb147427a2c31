#include "cli/run_probes.h"

#include <gtest/gtest.h>

#include <map>

#include "base/files.h"
#include "base/testing/temp_folder.h"

namespace gpulens {
namespace {

using Variables = std::map<std::string, std::string>;

class RunProbes : public ::testing::Test {
 protected:
  RunProbes() {
    for (const char* name : {"libgpulens-nccl-profiler.so", "libgpulens-cuda.so", "libgpulens-job.so"})
      folder_.Write(name, "");
    folder_.Write("sitecustomize.py", "");
    folders_ = {.libraries = {"/nowhere", folder_.path()}, .torch = {folder_.path()}};
  }
  Result<Variables> Environment(const std::string& text, const Variables& before = {}) {
    ASSIGN_OR_RETURN(JobProbes probes, JobProbes::Parse(text));
    ASSIGN_OR_RETURN(EnvironmentVariables set, JobProbeEnvironment(probes, folders_, [&](const char* name) {
                       auto found = before.find(name);
                       return found == before.end() ? std::string() : found->second;
                     }));
    return Variables(set.begin(), set.end());
  }
  testing::TempFolder folder_;
  JobProbeFolders folders_;
};

TEST_F(RunProbes, NamesLibraries) {
  const std::string at = folder_.path() + "/";
  EXPECT_EQ(*Environment("nccl"), (Variables{{"NCCL_PROFILER_PLUGIN", at + "libgpulens-nccl-profiler.so"},
                                             {"GPULENS_JOB_SOCKET", "/run/gpulens/job.sock"}}));
  const auto all =
      Environment("nccl:link,cuda:hes,torch", {{"PYTHONPATH", "/a:/b"}, {"GPULENS_JOB_SOCKET", "/s"}});
  EXPECT_EQ(*all, (Variables{{"NCCL_PROFILER_PLUGIN", at + "libgpulens-nccl-profiler.so"},
                             {"GPULENS_NCCL_LEVEL", "link"},
                             {"CUDA_INJECTION64_PATH", at + "libgpulens-cuda.so"},
                             {"GPULENS_CUDA", "time,hes"},
                             {"PYTHONPATH", folder_.path() + ":/a:/b"},
                             {"GPULENS_JOB_LIBRARY", at + "libgpulens-job.so"}}));
  EXPECT_EQ(*Environment("none"), (Variables{{"GPULENS_PROBES", "off"}}));
}

TEST_F(RunProbes, KeepsProfilersOfTheProgram) {
  const auto refused = Environment("nccl", {{"NCCL_PROFILER_PLUGIN", "/opt/other.so"}});
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().detail.find("/opt/other.so"), std::string::npos);
  const auto chained = *Environment("nccl:count:chain", {{"NCCL_PROFILER_PLUGIN", "/opt/other.so"}});
  EXPECT_EQ(chained.at("GPULENS_NCCL_CHAIN"), "/opt/other.so");
  EXPECT_EQ(chained.at("GPULENS_NCCL_LEVEL"), "count");
  EXPECT_EQ((*Environment("nccl:chain", {{"NCCL_PROFILER_PLUGIN", "inspector"}})).at("GPULENS_NCCL_CHAIN"),
            "libnccl-profiler-inspector.so");
  EXPECT_EQ((*Environment("nccl:chain")).count("GPULENS_NCCL_CHAIN"), 0u);
  EXPECT_TRUE(Environment("nccl", {{"NCCL_PROFILER_PLUGIN", "none"}}));
  const auto injected = Environment("cuda", {{"CUDA_INJECTION64_PATH", "/opt/nsys.so"}});
  ASSERT_FALSE(injected);
  EXPECT_NE(injected.error().detail.find("/opt/nsys.so"), std::string::npos);
}

TEST_F(RunProbes, RefusesOtherWords) {
  for (const char* text :
       {"", "nccl,", "ncl", "nccl:fast", "cuda:link", "torch:time", "none,nccl", "nccl:"}) {
    const auto refused = Environment(text);
    ASSERT_FALSE(refused) << text;
    EXPECT_EQ(refused.error().code, Code::kInvalidArgument) << text;
  }
}

TEST_F(RunProbes, CopiesWhatIsNamed) {
  const testing::TempFolder other;
  const std::string to = other.path() + "/new/gpulens";
  folder_.Write("gpulens_torch_hook.py", "hook");
  folder_.Write("libgpulens-cuda.so", "cuda");
  const auto copies = CopyJobLibraries(*JobProbes::Parse("cuda,torch"), folders_, to);
  ASSERT_TRUE(copies) << copies.error().detail;
  EXPECT_EQ(*ReadFile(to + "/libgpulens-cuda.so", 100), "cuda");
  EXPECT_EQ(*ReadFile(to + "/torch/gpulens_torch_hook.py", 100), "hook");
  EXPECT_FALSE(ReadFile(to + "/libgpulens-nccl-profiler.so", 100));
  folders_ = *copies;
  EXPECT_EQ(*Environment("cuda,torch"), (Variables{{"CUDA_INJECTION64_PATH", to + "/libgpulens-cuda.so"},
                                                   {"GPULENS_JOB_LIBRARY", to + "/libgpulens-job.so"},
                                                   {"PYTHONPATH", to + "/torch"},
                                                   {"GPULENS_JOB_SOCKET", "/run/gpulens/job.sock"}}));
  EXPECT_FALSE(CopyJobLibraries(*JobProbes::Parse("nccl"), folders_, to)) << "it is not where the copies are";
}

TEST_F(RunProbes, MissingLibraries) {
  folders_ = JobProbeFolders::Of("/opt/gpulens/bin/gpulens");
  const auto missing = Environment("nccl");
  ASSERT_FALSE(missing);
  EXPECT_NE(missing.error().detail.find("libgpulens-nccl-profiler.so in /opt/gpulens/bin/../lib/gpulens"),
            std::string::npos)
      << missing.error().detail;
}

}  // namespace
}  // namespace gpulens
