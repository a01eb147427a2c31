#include "sdk/experiment/run_context.h"

#include <filesystem>

#include <gtest/gtest.h>

#include "base/testing/temp_folder.h"

namespace gpulens::experiments {
namespace {

namespace fs = std::filesystem;

const std::string kOne(40, '1'), kTwo(40, '2');

struct GitTest : ::testing::Test {
  void Put(const std::string& name, const std::string& text) {
    fs::create_directories(fs::path(folder.path() + "/" + name).parent_path());
    folder.Write(name, text);
  }
  std::string Of(const std::string& below = "") { return GitCommit(folder.path() + below); }
  gpulens::testing::TempFolder folder;
};

TEST_F(GitTest, ReadsBranchDetachedHeadAndPackedRefs) {
  Put(".git/HEAD", "ref: refs/heads/main\n");
  EXPECT_EQ(Of(), "") << "no commit yet";
  Put(".git/packed-refs", "# pack-refs with: peeled\n" + kTwo + " refs/heads/other\n" + kOne +
                              " refs/heads/main\n^" + kTwo + "\n");
  EXPECT_EQ(Of(), kOne);
  Put(".git/refs/heads/main", kTwo + "\n");
  EXPECT_EQ(Of(), kTwo);
  EXPECT_EQ(Of("/deep/below"), kTwo);
  Put(".git/HEAD", kOne + "\n");
  EXPECT_EQ(Of(), kOne);
}

TEST_F(GitTest, ReadsBranchesOfAWorktree) {
  Put("main/.git/refs/heads/topic", kOne);
  Put("main/.git/worktrees/w/HEAD", "ref: refs/heads/topic");
  Put("main/.git/worktrees/w/commondir", "../..");
  Put("w/.git", "gitdir: " + folder.path() + "/main/.git/worktrees/w\n");
  EXPECT_EQ(Of("/w"), kOne);
  Put("sub/.git", "gitdir: ../main/.git/worktrees/w\n");
  EXPECT_EQ(Of("/sub"), kOne);
}

TEST_F(GitTest, HasNoCommitOutsideARepository) {
  Put("a/.git", "nonsense");
  EXPECT_EQ(Of("/a"), "");
  Put("b/.git/HEAD", "ref: refs/../../../../etc/passwd");
  EXPECT_EQ(Of("/b"), "");
  Put("c/.git/HEAD", std::string(5000, 'x'));
  EXPECT_EQ(Of("/c"), "");
  EXPECT_EQ(GitCommit(""), "");
}

TEST(RunContext, QuotesCommandsForAShell) {
  EXPECT_EQ(CommandText(std::vector<std::string>{"python3", "train.py", "--name", "it's a", ""}),
            "python3 train.py --name 'it'\\''s a' ''");
  EXPECT_LE(CommandText(std::vector<std::string>(10, std::string(60'000, ' '))).size(), 64u << 10);
}

TEST(RunContext, NamesAreStems) {
  EXPECT_EQ(NameOf("/a/train.py"), "train");
  EXPECT_EQ(NameOf("train.v2.py"), "train.v2");
  EXPECT_EQ(NameOf("bash"), "bash");
  EXPECT_EQ(NameOf(".hidden"), ".hidden");
  EXPECT_EQ(NameOf(""), "run");
}

TEST(RunContext, FindsTheFirstScript) {
  EXPECT_EQ(
      DescribeProgram(std::vector<std::string>{"/usr/bin/python3", "-u", "a/train.py", "x.sh"}, "").script,
      "a/train.py");
  EXPECT_EQ(DescribeProgram(std::vector<std::string>{"/usr/bin/torchrun"}, "").script, "torchrun");
}

}  // namespace
}  // namespace gpulens::experiments
