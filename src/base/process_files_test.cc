#include "base/process_files.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "base/files.h"
#include "base/testing/temp_folder.h"

namespace gpulens {
namespace {

// Answers every question with one text, or refuses it.
class FakeOpener final : public ProcessFileOpener {
 public:
  explicit FakeOpener(std::string answer) : answer_(std::move(answer)) {}
  Result<UniqueFd> Open(std::string_view question) override {
    questions += std::string(question) + "\n";
    if (answer_.empty()) return Status{Code::kPermissionDenied, "not opened"};
    UniqueFd file(::memfd_create("answer", MFD_CLOEXEC));
    if (::pwrite(file.get(), answer_.data(), answer_.size(), 0) != static_cast<ssize_t>(answer_.size()))
      return Status{Code::kIo, "no file"};
    return file;
  }
  std::string questions;

 private:
  const std::string answer_;
};

class ProcessFilesTest : public ::testing::Test {
 protected:
  ~ProcessFilesTest() override { OpenProcessFilesBy(nullptr); }

  // Runs `check` in a process that may not look into the folder, as a confined one.
  template <class Check>
  static void Refused(const testing::TempFolder& folder, Check check) {
    ASSERT_EQ(::chmod(folder.path().c_str(), 0), 0);
    const auto run = [&] {
      if (::geteuid() == 0 && ::setresuid(65534, 65534, 65534) != 0) std::_Exit(2);
      std::_Exit(check() ? 0 : 1);
    };
    EXPECT_EXIT(run(), ::testing::ExitedWithCode(0), "");
    ASSERT_EQ(::chmod(folder.path().c_str(), 0700), 0);
  }
};

TEST_F(ProcessFilesTest, WhatMayBeReadNeedsNoOpener) {
  testing::TempFolder folder;
  const std::string path = folder.Write("environ", "A=1");
  FakeOpener opener("A=2");
  OpenProcessFilesBy(&opener);
  std::string text;
  EXPECT_TRUE(ReadProcessFile(path, text, 100).ok());
  EXPECT_EQ(text, "A=1");
  EXPECT_EQ(ReadProcessFile(folder.path() + "/none", text, 100).code, Code::kUnavailable);
  EXPECT_EQ(opener.questions, "");
}

TEST_F(ProcessFilesTest, TheOpenerIsQueriedWhereThisProcessIsRefused) {
  testing::TempFolder folder;
  const std::string path = folder.Write("environ", "A=1");
  Refused(folder, [&] {
    FakeOpener opener("A=2");
    OpenProcessFilesBy(&opener);
    std::string text;
    return ReadProcessFile(path, text, 100).ok() && text == "A=2" && opener.questions == "f" + path + "\n";
  });
  Refused(folder, [&] {
    FakeOpener opener("net:[4026531840]");
    OpenProcessFilesBy(&opener);
    const auto link = ReadProcessLink(path);
    return link && *link == "net:[4026531840]" && opener.questions == "l" + path + "\n";
  });
  Refused(folder, [&] {
    FakeOpener opener("17\n4711\nnonsense\n");
    OpenProcessFilesBy(&opener);
    const auto sockets = SocketsOfProcess(folder.path(), 100);
    return sockets && *sockets == std::vector<uint64_t>{17, 4711} &&
           opener.questions == "s" + folder.path() + "\n";
  });
}

TEST_F(ProcessFilesTest, WithoutAnOpenerTheRefusalIsReported) {
  testing::TempFolder folder;
  const std::string path = folder.Write("environ", "A=1");
  Refused(folder, [&] {
    std::string text;
    return ReadProcessFile(path, text, 100).code == Code::kPermissionDenied &&
           ReadProcessLink(path).status().code == Code::kPermissionDenied &&
           SocketsOfProcess(folder.path(), 100).status().code == Code::kPermissionDenied;
  });
  Refused(folder, [&] {
    FakeOpener refuses("");
    OpenProcessFilesBy(&refuses);
    std::string text;
    return ReadProcessFile(path, text, 100).code == Code::kPermissionDenied;
  });
}

TEST_F(ProcessFilesTest, SocketsOfThisProcess) {
  int ends[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
  const UniqueFd a(ends[0]), b(ends[1]);
  struct stat info{};
  ASSERT_EQ(::fstat(a.get(), &info), 0);
  const auto sockets = SocketsOfProcess("/proc/" + std::to_string(::getpid()) + "/fd", 10'000);
  ASSERT_TRUE(sockets.ok()) << sockets.error().detail;
  EXPECT_NE(std::ranges::find(*sockets, info.st_ino), sockets->end());
  const auto first = SocketsOfProcess("/proc/self/fd", 0);
  EXPECT_TRUE(first.ok() && first->size() <= 1);
}

}  // namespace
}  // namespace gpulens
