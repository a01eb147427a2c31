#include "sources/bpf/targets.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/files.h"
#include "base/testing/temp_folder.h"

namespace gpulens::bpf {
namespace {

constexpr std::string_view kMaps =
    "55d0c8400000-55d0c8402000 r--p 00000000 fd:01 1310 /usr/bin/python3.11\n"
    "55d0c8402000-55d0c8500000 r-xp 00002000 fd:01 1310 /usr/bin/python3.11\n"
    "7f1000000000-7f1000100000 r-xp 00400000 fd:01 77   /usr/lib/x86_64-linux-gnu/libcuda.so.550.54.15\n"
    "7f1000200000-7f1000300000 r-xp 00000000 00:2c 78   /opt/a b/libnccl.so.2 (deleted)\n"
    "7f1000400000-7f1000500000 r-xp 00000000 fd:01 77   /usr/lib/x86_64-linux-gnu/libcuda.so.550.54.15\n"
    "7f2000000000-7f2000001000 rw-p 00000000 00:00 0 \n"
    "7ffd00000000-7ffd00001000 r-xp 00000000 00:00 0    [vdso]\n";

TEST(MapsTest, FilesThatAreMappedForExecution) {
  std::vector<MappedFile> files;
  ASSERT_TRUE(ParseMaps(kMaps, 100, files));
  ASSERT_EQ(files.size(), 4u);
  EXPECT_EQ(files[0].path, "/usr/bin/python3.11");
  EXPECT_EQ(files[1].offset, 0x400000u);
  EXPECT_EQ(files[1].device, makedev(0xfd, 1));
  EXPECT_EQ(files[1].inode, 77u);
  EXPECT_EQ(files[1].begin, 0x7f1000000000u);
  EXPECT_FALSE(files[1].deleted);
  EXPECT_EQ(files[2].path, "/opt/a b/libnccl.so.2");
  EXPECT_TRUE(files[2].deleted);
  ASSERT_TRUE(ParseMaps(kMaps, 2, files));
  EXPECT_EQ(files.size(), 2u);
  ASSERT_TRUE(ParseMaps("", 2, files));
  EXPECT_TRUE(files.empty());
}

TEST(MapsTest, WrongRows) {
  for (const char* row :
       {"x", "7f-7e r-xp 0 fd:01 77 /a", "7f r-xp 0 fd:01 77 /a", "7e-7f r-x 0 fd:01 77 /a",
        "7e-7f r-xp g fd:01 77 /a", "7e-7f r-xp 0 fd 77 /a", "7e-7f r-xp 0 fd:01 -1 /a",
        "7e-7f r-xp 0 fffffffff:1 7 /a", "10000000000000000-10000000000000001 r-xp 0 fd:01 77 /a"}) {
    std::vector<MappedFile> files;
    EXPECT_EQ(ParseMaps(row, 100, files).code, Code::kDataLoss) << row;
  }
}

TEST(LibraryKindTest, ByName) {
  EXPECT_EQ(LibraryKindOf("/usr/lib/libcuda.so.1"), LibraryKind::kCuda);
  EXPECT_EQ(LibraryKindOf("/usr/lib/libcuda.so.550.54.15"), LibraryKind::kCuda);
  EXPECT_EQ(LibraryKindOf("libcudart.so.12"), LibraryKind::kCudaRuntime);
  EXPECT_EQ(LibraryKindOf("/x/libnccl.so.2"), LibraryKind::kNccl);
  EXPECT_EQ(LibraryKindOf("/x/libnccl-profiler.so"), LibraryKind::kNone);
  EXPECT_EQ(LibraryKindOf("/x/libcudadebugger.so.1"), LibraryKind::kNone);
  EXPECT_EQ(LibraryKindOf("/libcuda.so/python"), LibraryKind::kNone);
  EXPECT_EQ(LibraryKindOf("/x/libtorch_cuda.so"), LibraryKind::kTorchCuda);
}

// A process as files of a folder.
class FakeProcess {
 public:
  FakeProcess(const std::string& maps, const std::string& status) {
    ::mkdir((folder_.path() + "/42").c_str(), 0755);
    folder_.Write("42/maps", maps);
    folder_.Write("42/status", status);
    folder_.Write("42/stat", "42 (a) b) S 1 42 42 0 -1 4194304 1 2 3 4 5 6 7 8 20 0 3 0 98765 1 1 1\n");
    folder_.Write("stat", "cpu 1\n");
  }
  const std::string& proc() const { return folder_.path(); }
  const testing::TempFolder& folder() const { return folder_; }

 private:
  testing::TempFolder folder_;
};

TEST(ProcessFactsTest, OfItsFiles) {
  const FakeProcess process(
      std::string(kMaps) +
          "7f3000000000-7f3000001000 r-xp 00000000 fd:01 90 /opt/nsys/libToolsInjection64.so\n",
      "Name:\tpython\nTracerPid:\t7\nUid:\t1000\t1000\t1000\t1000\nNSpid:\t42\t3\nSeccomp:\t2\n"
      "x86_Thread_features:\tshstk wrss\n");
  const auto facts = ReadProcess(process.proc(), 42);
  ASSERT_TRUE(facts) << facts.error().detail;
  EXPECT_EQ(facts->start_ticks, 98765u);
  ASSERT_EQ(facts->libraries.size(), 2u);
  EXPECT_EQ(facts->libraries[0].kind, LibraryKind::kCuda);
  EXPECT_EQ(facts->libraries[1].kind, LibraryKind::kNccl);
  EXPECT_TRUE(facts->seccomp);
  EXPECT_TRUE(facts->shadow_stack);
  EXPECT_EQ(facts->tracer, 7);
  EXPECT_EQ(facts->tool, "nsys");
  EXPECT_EQ(facts->container_pid, 3);
  EXPECT_EQ(facts->user, 1000u);
  const auto found = FindProcesses(process.proc(), 10);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].pid, 42);
  // Processes of this program are left out, also in another container and after an update.
  const auto link = [&](const std::string& name, const char* target) {
    ASSERT_EQ(::symlink(target, (process.proc() + "/" + name).c_str()), 0);
  };
  ::mkdir((process.proc() + "/self").c_str(), 0755);
  link("self/exe", "/usr/bin/gpulens");
  EXPECT_EQ(FindProcesses(process.proc(), 10).size(), 1u);
  link("42/exe", "/opt/other/gpulens (deleted)");
  EXPECT_TRUE(FindProcesses(process.proc(), 10).empty());
  EXPECT_TRUE(ReadProcess(process.proc(), 42)) << "who names it finds it";
  EXPECT_EQ(ReadProcess(process.proc(), 43).error().code, Code::kUnavailable);
}

TEST(ProcessFactsTest, PlainProcess) {
  const FakeProcess process("", "Name:\tx\nTracerPid:\t0\nUid:\t0\t0\t0\t0\nNSpid:\t42\nSeccomp:\t0\n");
  const auto facts = ReadProcess(process.proc(), 42);
  ASSERT_TRUE(facts);
  EXPECT_FALSE(facts->seccomp || facts->shadow_stack);
  EXPECT_EQ(facts->tracer, 0);
  EXPECT_EQ(facts->container_pid, 42);
  EXPECT_TRUE(FindProcesses(process.proc(), 10).empty());
}

TEST(OpenMappedTest, RecognisesAnotherFile) {
  const FakeProcess process("", "");
  ::mkdir((process.proc() + "/42/root").c_str(), 0755);
  const std::string path = process.folder().Write("42/root/libcuda.so.1", "x");
  MappedFile file;
  file.path = "/libcuda.so.1", file.inode = MarkOf(path).inode, file.begin = 1, file.end = 2;
  EXPECT_TRUE(OpenMapped(process.proc(), 42, file));
  ++file.inode;
  EXPECT_TRUE(OpenMapped(process.proc(), 42, file).error().detail.starts_with("replaced: "));
  file.path = "/absent";
  EXPECT_TRUE(OpenMapped(process.proc(), 42, file).error().detail.starts_with("not_readable: "));
  file.deleted = true;
  EXPECT_TRUE(OpenMapped(process.proc(), 42, file).error().detail.starts_with("not_readable: "));
}

Refusal RefusalOf(const DenyFacts& facts) {
  const DenyRow* row = FindDenyRow(facts);
  return row ? row->refusal : Refusal::kNone;
}

TEST(DenyTest, EachRow) {
  const DenyFacts good{.architecture = "x86_64", .kernel = {6, 18}, .gpu = "NVIDIA GB300"};
  EXPECT_EQ(RefusalOf(good), Refusal::kNone);
  DenyFacts facts = good;
  facts.kernel = {5, 14};
  EXPECT_EQ(RefusalOf(facts), Refusal::kKernel);
  facts = good, facts.architecture = "aarch64";
  EXPECT_EQ(RefusalOf(facts), Refusal::kGpu);
  facts.gpu = "NVIDIA GH200 480GB";
  EXPECT_EQ(RefusalOf(facts), Refusal::kNone);
  facts = good, facts.traced = true;
  EXPECT_EQ(RefusalOf(facts), Refusal::kTool);
  facts = good, facts.tool = true;
  EXPECT_EQ(RefusalOf(facts), Refusal::kTool);
  facts = good, facts.instruction = FirstInstruction::kLongNop, facts.emulated = false;
  EXPECT_EQ(RefusalOf(facts), Refusal::kSyscall);
  facts = good, facts.instruction = FirstInstruction::kOther, facts.emulated = false;
  EXPECT_EQ(RefusalOf(facts), Refusal::kSingleStep);
  facts = good, facts.seccomp = true;
  EXPECT_EQ(RefusalOf(facts), Refusal::kNone);  // counting is safe
  facts.timed = true;
  EXPECT_EQ(RefusalOf(facts), Refusal::kSeccomp);
  facts = good, facts.shadow_stack = facts.timed = true;
  EXPECT_EQ(RefusalOf(facts), Refusal::kShadowStack);
}

TEST(DenyTest, RowsHaveSentencesAndNames) {
  EXPECT_GE(DenyRows().size(), 7u);
  for (const DenyRow& row : DenyRows()) {
    EXPECT_FALSE(row.sentence.empty());
    EXPECT_FALSE(row.source.empty());
  }
  for (int i = 0; i < static_cast<int>(Refusal::kCount); ++i)
    EXPECT_NE(RefusalName(static_cast<Refusal>(i)), "unknown") << i;
}

}  // namespace
}  // namespace gpulens::bpf
