#include "sources/nvml/processes/process_table.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "base/testing/allocations.h"

namespace gpulens::nvml {
namespace {

namespace fs = std::filesystem;

const std::string kId = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
const std::string kPod = "8a1f3f0a-1c2d-4e5f-8a9b-0c1d2e3f4a5b";

TEST(ProcessText, StatIsReadBehindAnyName) {
  auto plain = ReadStatLine("42 (python3) S 1 1 1 0 -1 4194560 0 0 0 0 1 2 3 4 20 0 1 0 987654 0 0\n");
  ASSERT_TRUE(plain);
  EXPECT_EQ(plain->start_ticks, 987654u);
  EXPECT_EQ(plain->flags, 4194560u);
  auto odd = ReadStatLine("42 (a) b (c)) S 1 1 1 0 -1 7 0 0 0 0 1 2 3 4 20 0 1 0 11 0 0\n");
  ASSERT_TRUE(odd);
  EXPECT_EQ(odd->start_ticks, 11u);
  for (const char* bad : {"", "42 (x", "42 (x) S 1", "42 (x) S 1 1 1 0 -1 seven 0 0 0 0 1 2 3 4 20 0 1 0 11"})
    EXPECT_FALSE(ReadStatLine(bad)) << bad;
}

TEST(ProcessText, UidIsTheRealOne) {
  EXPECT_EQ(ReadUid("Name:\tx\nUid:\t1000\t0\t0\t0\n"), 1000u);
  EXPECT_FALSE(ReadUid("Name:\tx\n"));
  EXPECT_FALSE(ReadUid("Uid:\tmany\n"));
}

TEST(ProcessText, ContainersAreFoundAsEachRuntimeNamesThem) {
  std::string under = kPod;
  std::replace(under.begin(), under.end(), '-', '_');
  struct Case {
    std::string cgroup;
    bool container, pod;
  };
  for (const Case& expected :
       {Case{"0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod" + under +
                 ".slice/cri-containerd-" + kId + ".scope\n",
             true, true},
        Case{"0::/kubepods.slice/kubepods-pod" + under + ".slice/crio-" + kId + ".scope", true, true},
        Case{"11:cpu:/kubepods/besteffort/pod" + kPod + "/" + kId + "\n", true, true},
        Case{"12:pids:/docker/" + kId + "\n0::/\n", true, false},
        Case{"0::/system.slice/docker-" + kId + ".scope\n", true, false},
        Case{"0::/machine.slice/libpod-" + kId + ".scope/container\n", true, false},
        Case{"0::/system.slice:cri-containerd:" + kId + "\n", true, false},
        Case{"0::/user.slice/user-1000.slice/session-3.scope\n", false, false},
        Case{"0::/podium/x" + kId + "\n", false, false}, Case{"", false, false}}) {
    CgroupNames names = ReadCgroupNames(expected.cgroup);
    EXPECT_EQ(names.container_id, expected.container ? kId : "") << expected.cgroup;
    EXPECT_EQ(PodUid(names.pod_uid), expected.pod ? kPod : "") << expected.cgroup;
  }
}

TEST(ProcessText, UsersComeFromTheirLine) {
  constexpr std::string_view kPasswd =
      "root:x:0:0::/root:/bin/sh\n#ada:x:7:7::/:\nada:x:1000:1000::/home/ada:\n+::::::\nbroken\n";
  EXPECT_EQ(FindUserName(kPasswd, 0), "root");
  EXPECT_EQ(FindUserName(kPasswd, 1000), "ada");
  EXPECT_EQ(FindUserName(kPasswd, 7), "");
  EXPECT_EQ(FindUserName("", 0), "");
}

// A machine in a folder.
class ProcessTableTest : public testing::Test {
 protected:
  ProcessTableTest()
      : root_(testing::TempDir() + "processes_" + std::to_string(::getpid()) + "_" +
              testing::UnitTest::GetInstance()->current_test_info()->name()) {
    fs::remove_all(root_);
    Put("proc/2/stat", "2 (kthreadd) S 0 0 0 0 -1 2129984 0 0 0 0 0 0 0 0 20 0 1 0 9 0 0\n");
    Put("proc/1/root/etc/passwd", "root:x:0:0::/:\nada:x:1000:1000::/:\n");
  }
  ~ProcessTableTest() override { fs::remove_all(root_); }

  void Put(const std::string& file, const std::string& text) {
    fs::create_directories(fs::path(root_ + "/" + file).parent_path());
    std::ofstream(root_ + "/" + file) << text;
  }
  void Process(int pid, const std::string& name, int start, int uid) {
    std::string folder = "proc/" + std::to_string(pid) + "/";
    Put(folder + "stat", std::to_string(pid) + " (" + name +
                             ") S 1 1 1 0 -1 4194560 0 0 0 0 1 2 3 4 20 0 1 0 " + std::to_string(start) +
                             " 0 0\n");
    Put(folder + "comm", name + "\n");
    Put(folder + "status", "Name:\t" + name + "\nUid:\t" + std::to_string(uid) + "\t0\t0\t0\n");
    Put(folder + "cgroup", "0::/kubepods.slice/kubepods-pod" + kPod + ".slice/crio-" + kId + ".scope\n");
  }

  const std::string root_;
};

TEST_F(ProcessTableTest, FindsNameUserAndContainer) {
  Process(4242, "python3", 100, 1000);
  Process(4243, "x", 100, 12345);
  ProcessTable table(root_);
  ASSERT_TRUE(table.sees_host());
  const ProcessDetails& details = table.Find(4242);
  EXPECT_TRUE(details.visible);
  EXPECT_EQ(details.name, "python3");
  EXPECT_EQ(details.owner, "ada");
  EXPECT_EQ(details.container_id, kId);
  EXPECT_EQ(details.pod_uid, kPod);
  EXPECT_EQ(table.Find(4243).owner, "12345") << "a user without a name";
  EXPECT_FALSE(table.Find(77).visible);
}

TEST_F(ProcessTableTest, AncestorsEndBelowTheFirstProcess) {
  auto parent = [&](int pid, int of) {
    Put("proc/" + std::to_string(pid) + "/stat", std::to_string(pid) + " (a) b) S " + std::to_string(of) +
                                                     " 1 1 0 -1 4194560 0 0 0 0 1 2 3 4 20 0 1 0 100 0 0\n");
  };
  parent(512, 1);
  parent(600, 512);
  parent(700, 600);
  EXPECT_EQ(AncestorsOf(root_, 700), "600,512");
  EXPECT_EQ(ProcessTable(root_).Find(700).parents, "600,512");
  EXPECT_EQ(AncestorsOf(root_, 512), "");
  EXPECT_EQ(AncestorsOf(root_, 4711), "") << "there is none";
  parent(600, 700);
  EXPECT_EQ(std::ranges::count(AncestorsOf(root_, 700), ','), kMostAncestors - 1) << "a circle ends, too";
}

// The kernel keeps 15 bytes of a name, and a process may give itself any.
TEST_F(ProcessTableTest, NamesAreTextWhateverBytesTheyHave) {
  Process(4242, "a训练模型\xe6\x8e", 100, 0);
  Process(4243, "\xff\xfe", 100, 0);
  ProcessTable table(root_);
  EXPECT_EQ(table.Find(4242).name, "a训练模型\uFFFD\uFFFD");
  EXPECT_EQ(table.Find(4243).name, "\uFFFD\uFFFD");
}

TEST_F(ProcessTableTest, ANumberThatIsUsedAgainIsAnotherProcess) {
  Process(4242, "first", 100, 0);
  ProcessTable table(root_);
  EXPECT_EQ(table.Find(4242).name, "first");
  Process(4242, "second", 200, 1000);
  EXPECT_EQ(table.Find(4242).name, "first") << "once a round";
  table.NextRound();
  EXPECT_EQ(table.Find(4242).name, "second");
  EXPECT_EQ(table.Find(4242).start_ticks, 200u);
  fs::remove_all(root_ + "/proc/4242");
  table.NextRound();
  EXPECT_FALSE(table.Find(4242).visible);
}

TEST_F(ProcessTableTest, AnotherPidNamespaceHasNoIdentities) {
  Process(4242, "somebody-else", 100, 0);
  for (const char* second : {"2 (bash) S 0 0 0 0 -1 4194560 0 0 0 0 0 0 0 0 20 0 1 0 9 0 0\n",
                             "2 (kthreadd) S 0 0 0 0 -1 4194560 0 0 0 0 0 0 0 0 20 0 1 0 9 0 0\n", ""}) {
    Put("proc/2/stat", second);
    ProcessTable table(root_);
    EXPECT_FALSE(table.sees_host()) << second;
    EXPECT_FALSE(table.Find(4242).visible);
    EXPECT_EQ(table.Find(4242).name, "");
  }
}

TEST_F(ProcessTableTest, UsersOfAContainerAreNotThoseOfTheHost) {
  Process(4242, "x", 100, 1000);
  fs::remove_all(root_ + "/proc/1");
  Put("etc/passwd", "mallory:x:1000:1000::/:\n");
  EXPECT_EQ(ProcessTable(root_).Find(4242).owner, "mallory") << "on the host itself";
  Put(".dockerenv", "");
  EXPECT_EQ(ProcessTable(root_).Find(4242).owner, "1000");
  Process(4243, "x", 100, 0);
  EXPECT_EQ(ProcessTable(root_).Find(4243).owner, "root")
      << "the one number that is the same user everywhere";
}

TEST_F(ProcessTableTest, ASteadyLookDoesNotAllocate) {
  if (!AllocationsAreCounted()) GTEST_SKIP() << "allocations are not counted under this sanitizer";
  for (int pid = 100; pid < 140; ++pid) Process(pid, "x", 7, 0);
  ProcessTable table(root_);
  auto round = [&] {
    table.NextRound();
    for (uint32_t pid = 100; pid < 140; ++pid) EXPECT_TRUE(table.Find(pid).visible);
  };
  round();
  round();
  uint64_t before = AllAllocations();
  round();
  EXPECT_EQ(AllAllocations() - before, 0u);
}

}  // namespace
}  // namespace gpulens::nvml
