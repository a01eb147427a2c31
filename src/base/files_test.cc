#include "base/files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <filesystem>
#include <string>
#include <vector>

namespace gpulens {
namespace {

using testing::HasSubstr;

class FilesTest : public testing::Test {
 protected:
  FilesTest() {
    std::string pattern = testing::TempDir() + "gpulens-files-XXXXXX";
    folder_ = ::mkdtemp(pattern.data());
  }
  ~FilesTest() override { std::filesystem::remove_all(folder_); }
  std::string Path(const std::string& name) const { return folder_ + "/" + name; }
  std::vector<std::string> Names() const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(folder_))
      names.push_back(entry.path().filename());
    return names;
  }
  std::string folder_;
};

TEST_F(FilesTest, ReadsBackWrittenBytes) {
  for (size_t size : {size_t{0}, size_t{1}, size_t{4095}, size_t{4096}, size_t{4097}, size_t{100'000}}) {
    std::string bytes(size, 'x');
    if (size) bytes[size / 2] = '\0';
    ASSERT_TRUE(WriteFileAtomically(Path("f"), bytes).ok());
    auto read = ReadFile(Path("f"));
    ASSERT_TRUE(read.ok());
    EXPECT_EQ(*read, bytes);
  }
}

TEST_F(FilesTest, TheLimitIsExact) {
  ASSERT_TRUE(WriteFileAtomically(Path("f"), std::string(10'000, 'x')).ok());
  EXPECT_TRUE(ReadFile(Path("f"), 10'000).ok());
  auto longer = ReadFile(Path("f"), 9'999);
  ASSERT_FALSE(longer.ok());
  EXPECT_EQ(longer.error().code, Code::kExhausted);
  EXPECT_THAT(longer.error().detail, HasSubstr("9999"));
  std::string out = "old";
  EXPECT_EQ(ReadFile(Path("f").c_str(), out, 0).code, Code::kExhausted);
  EXPECT_EQ(out, "");
  EXPECT_EQ(ReadFile("/dev/zero", out, 100'000).code, Code::kExhausted) << "a file without an end";
}

TEST_F(FilesTest, ASteadyReaderKeepsItsBuffer) {
  ASSERT_TRUE(WriteFileAtomically(Path("f"), std::string(6'000, 'x')).ok());
  std::string out;
  ASSERT_TRUE(ReadFile(Path("f").c_str(), out).ok());
  const char* buffer = out.data();
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(ReadFile(Path("f").c_str(), out).ok());
    EXPECT_EQ(out.size(), 6'000u);
    EXPECT_EQ(out.data(), buffer);
  }
}

TEST_F(FilesTest, ReadsFilesOfTheKernel) {
  auto stat = ReadFile("/proc/self/stat");
  ASSERT_TRUE(stat.ok());
  EXPECT_THAT(*stat, HasSubstr(std::to_string(::getpid())));
}

TEST_F(FilesTest, ReportsFailures) {
  EXPECT_EQ(ReadFile(Path("missing")).error().code, Code::kUnavailable);
  EXPECT_THAT(ReadFile(Path("missing")).error().detail, HasSubstr("open " + Path("missing")));
  ASSERT_TRUE(WriteFileAtomically(Path("f"), "x").ok());
  EXPECT_EQ(ReadFile(Path("f/below")).error().code, Code::kUnavailable);
  auto folder = ReadFile(folder_);
  EXPECT_EQ(folder.error().code, Code::kIo);
  EXPECT_THAT(folder.error().detail, HasSubstr("read "));
}

TEST_F(FilesTest, WritingReplacesAndLeavesNothingBehind) {
  ASSERT_TRUE(WriteFileAtomically(Path("f"), "old and longer").ok());
  ASSERT_TRUE(WriteFileAtomically(Path("f"), "new").ok());
  EXPECT_EQ(*ReadFile(Path("f")), "new");
  EXPECT_THAT(Names(), ::testing::ElementsAre("f"));
  EXPECT_EQ(WriteFileAtomically(Path("no/such/folder/f"), "x").code, Code::kUnavailable);
}

TEST_F(FilesTest, AFailedRenameKeepsTheOldAndCleansUp) {
  ASSERT_EQ(::mkdir(Path("folder").c_str(), 0755), 0);
  Status status = WriteFileAtomically(Path("folder"), "x");
  EXPECT_FALSE(status.ok());
  EXPECT_THAT(status.detail, HasSubstr("rename"));
  EXPECT_THAT(Names(), ::testing::ElementsAre("folder"));
  EXPECT_TRUE(std::filesystem::is_directory(Path("folder")));
}

TEST_F(FilesTest, FoldersAboveAFileAreMade) {
  const std::string path = Path("a/b/c/file");
  ASSERT_TRUE(MakeFoldersAbove(path));
  ASSERT_TRUE(WriteFileAtomically(path, "x"));
  EXPECT_TRUE(MakeFoldersAbove(path)) << "they are there";
  EXPECT_FALSE(MakeFoldersAbove(path + "/d/file")) << "a file is in the way";
}

TEST_F(FilesTest, AFullDiskKeepsTheOldAndCleansUp) {
  ASSERT_TRUE(WriteFileAtomically(Path("f"), "old").ok());
  // A file size limit simulates a full disk: the first write is cut, the next fails.
  rlimit before{}, small{100, 100};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  small.rlim_max = before.rlim_max;
  auto handler = std::signal(SIGXFSZ, SIG_IGN);
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  Status status = WriteFileAtomically(Path("f"), std::string(1000, 'x'));
  ::setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  EXPECT_EQ(status.code, Code::kIo);
  EXPECT_EQ(*ReadFile(Path("f")), "old");
  EXPECT_THAT(Names(), ::testing::ElementsAre("f"));
}

// Other users of the folder may prepare links there: where our file goes, and where others wrote
// before.
TEST_F(FilesTest, LinksAreReplacedAndNeverFollowed) {
  ASSERT_TRUE(WriteFileAtomically(Path("victim"), "precious").ok());
  for (const char* name : {"f", "f.new"}) ASSERT_EQ(::symlink(Path("victim").c_str(), Path(name).c_str()), 0);
  ASSERT_TRUE(WriteFileAtomically(Path("f"), "ours").ok());
  EXPECT_EQ(*ReadFile(Path("victim")), "precious");
  EXPECT_EQ(*ReadFile(Path("f")), "ours");
  EXPECT_TRUE(std::filesystem::is_regular_file(std::filesystem::symlink_status(Path("f"))));
}

TEST_F(FilesTest, ModesAreTheRequestedOrThePreviousOnes) {
  const auto mode = [&](const char* name) {
    struct stat found{};
    EXPECT_EQ(::stat(Path(name).c_str(), &found), 0);
    return found.st_mode & 0777;
  };
  const mode_t mask = ::umask(022);
  ASSERT_TRUE(WriteFileAtomically(Path("f"), "x").ok());
  ASSERT_TRUE(WriteFileAtomically(Path("secret"), "x", {.mode = 0600}).ok());
  EXPECT_EQ(mode("f"), 0644u);
  EXPECT_EQ(mode("secret"), 0600u);
  ASSERT_TRUE(WriteFileAtomically(Path("secret"), "y").ok());
  EXPECT_EQ(mode("secret"), 0600u);
  ::umask(mask);
}

TEST_F(FilesTest, ALongNameNeedsNoLongerOne) {
  EXPECT_TRUE(WriteFileAtomically(Path(std::string(255, 'n')), "x").ok());
}

TEST(CodeOfErrno, MapsErrorsToCodes) {
  EXPECT_EQ(CodeOfErrno(0), Code::kOk);
  for (int error : {ENOENT, ENODEV, ENXIO, ENOTDIR, EOPNOTSUPP, ENOSYS}) {
    EXPECT_EQ(CodeOfErrno(error), Code::kUnavailable);
  }
  for (int error : {EACCES, EPERM}) EXPECT_EQ(CodeOfErrno(error), Code::kPermissionDenied);
  for (int error : {ENOSPC, EDQUOT, EMFILE, ENFILE, ENOMEM}) EXPECT_EQ(CodeOfErrno(error), Code::kExhausted);
  EXPECT_EQ(CodeOfErrno(EINVAL), Code::kInvalidArgument);
  EXPECT_EQ(CodeOfErrno(ETIMEDOUT), Code::kTimeout);
  EXPECT_EQ(CodeOfErrno(EIO), Code::kIo);
  EXPECT_EQ(CodeOfErrno(123456), Code::kIo);
  EXPECT_THAT(ErrnoStatus("open x", EACCES).detail, HasSubstr("open x: permission denied"));
}

}  // namespace
}  // namespace gpulens
