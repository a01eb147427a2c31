#include "base/process.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <string>
#include <thread>

#include "base/files.h"
#include "base/testing/temp_folder.h"

namespace gpulens {
namespace {

constexpr int kDeadlineMs = 10'000;

ChildProcess Start(ChildProcess::Options options) {
  auto child = ChildProcess::Start(options);
  EXPECT_TRUE(child.ok());
  return std::move(*child);
}
ChildProcess Shell(std::string script, ChildProcess::Options options = {}) {
  options.program = "/bin/sh";
  options.arguments = {"-c", std::move(script)};
  return Start(std::move(options));
}
// The wait status of a child that is about to end.
int Wait(ChildProcess& child) {
  pollfd ended{child.end_fd(), POLLIN, 0};
  EXPECT_EQ(::poll(&ended, 1, kDeadlineMs), 1);
  return child.TryWait().value_or(-1);
}
bool Exists(pid_t pid) { return ::kill(pid, 0) == 0 || errno != ESRCH; }

TEST(ChildProcess, RunsToItsEnd) {
  ChildProcess child = Start({.program = "/bin/true", .arguments = {}, .environment = {}, .pass_fds = {}});
  EXPECT_TRUE(child.running());
  EXPECT_GT(child.pid(), 0);
  EXPECT_GE(child.end_fd(), 0);
  EXPECT_EQ(DescribeWaitStatus(Wait(child)), "exited with 0");
  EXPECT_FALSE(child.running());
  EXPECT_EQ(child.TryWait(), std::nullopt) << "returned once";
  child.Signal(SIGKILL);
}

TEST(ChildProcess, AMissingProgramEndsWith127) {
  ChildProcess child =
      Start({.program = "/no/such/program", .arguments = {}, .environment = {}, .pass_fds = {}});
  EXPECT_EQ(DescribeWaitStatus(Wait(child)), "exited with 127");
}

TEST(ChildProcess, TakesArgumentsAndEnvironment) {
  ChildProcess child = Shell("test \"$GPULENS_TEST\" = 'a b' && test -n \"$PATH\" && exit 3",
                             {.arguments = {}, .environment = {"GPULENS_TEST=a b"}, .pass_fds = {}});
  EXPECT_EQ(DescribeWaitStatus(Wait(child)), "exited with 3");
}

TEST(ChildProcess, PassesDescriptorsUnderNewNumbers) {
  auto pair = MakeSocketPair();
  ASSERT_TRUE(pair.ok());
  ChildProcess child = Shell("echo hello >&7; exec 7>&-; read -r _ <&3",
                             {.arguments = {}, .environment = {}, .pass_fds = {{pair->theirs.get(), 7}}});
  pollfd readable{pair->ours.get(), POLLIN, 0};
  ASSERT_EQ(::poll(&readable, 1, kDeadlineMs), 1);
  char text[16];
  ASSERT_EQ(::recv(pair->ours.get(), text, sizeof text, 0), 6);
  EXPECT_EQ(std::string_view(text, 6), "hello\n");
  EXPECT_NE(DescribeWaitStatus(Wait(child)), "exited with 0") << "fd 3 was not passed";
}

TEST(ChildProcess, PassesADescriptorUnderItsOwnNumber) {
  auto pair = MakeSocketPair();
  ASSERT_TRUE(pair.ok());
  int theirs = pair->theirs.get();
  ChildProcess child = Shell("test -e /proc/self/fd/" + std::to_string(theirs),
                             {.arguments = {}, .environment = {}, .pass_fds = {{theirs, theirs}}});
  EXPECT_EQ(DescribeWaitStatus(Wait(child)), "exited with 0");
}

TEST(ChildProcess, ABadDescriptorEndsTheChild) {
  ChildProcess child = Shell("exit 0", {.arguments = {}, .environment = {}, .pass_fds = {{99'999, 7}}});
  EXPECT_EQ(DescribeWaitStatus(Wait(child)), "exited with 127");
}

TEST(ChildProcess, TryWaitNeverWaits) {
  ChildProcess child = Shell("exec sleep 1000");
  EXPECT_EQ(child.TryWait(), std::nullopt);
  EXPECT_TRUE(child.running());
  child.Signal(SIGTERM);
  EXPECT_EQ(DescribeWaitStatus(Wait(child)), "killed by signal 15 (Terminated)");
}

TEST(ChildProcess, DestructionKillsAndReaps) {
  pid_t pid = -1;
  {
    ChildProcess child = Shell("trap '' TERM; exec sleep 1000");
    pid = child.pid();
    EXPECT_TRUE(Exists(pid));
  }
  EXPECT_FALSE(Exists(pid));
}

TEST(ChildProcess, DestructionKillsAStoppedChild) {
  pid_t pid = -1;
  {
    ChildProcess child = Shell("exec sleep 1000");
    pid = child.pid();
    child.Signal(SIGSTOP);
  }
  EXPECT_FALSE(Exists(pid));
}

TEST(ChildProcess, MovesWithItsChild) {
  ChildProcess a = Shell("exec sleep 1000");
  pid_t pid = a.pid();
  ChildProcess b = std::move(a);
  EXPECT_EQ(b.pid(), pid);
  ChildProcess c = Shell("exec sleep 1000");
  pid_t other = c.pid();
  c = std::move(b);
  EXPECT_EQ(c.pid(), pid);
  EXPECT_FALSE(Exists(other)) << "the child that was assigned over is gone";
  c = ChildProcess{};
  EXPECT_FALSE(Exists(pid));
  EXPECT_FALSE(c.running());
}

TEST(ChildProcess, DiesWithTheThreadThatStartedIt) {
  auto pair = MakeSocketPair();
  ASSERT_TRUE(pair.ok());
  ChildProcess child;
  std::thread([&] {
    child = Shell("echo ready >&7; exec sleep 1000",
                  {.arguments = {}, .environment = {}, .pass_fds = {{pair->theirs.get(), 7}}});
    // A thread that ends before its child has requested the signal is not noticed.
    pollfd ready{pair->ours.get(), POLLIN, 0};
    EXPECT_EQ(::poll(&ready, 1, kDeadlineMs), 1);
  }).join();
  EXPECT_EQ(DescribeWaitStatus(Wait(child)), "killed by signal 9 (Killed)");
}

TEST(ResolveProgram, NamesTheFileItself) {
  testing::TempFolder folder;
  const std::string program = folder.WriteProgram("real", ""), link = folder.path() + "/link";
  ASSERT_EQ(::symlink("real", link.c_str()), 0);
  const auto found = ResolveProgram(link);
  ASSERT_TRUE(found.ok()) << found.error().detail;
  EXPECT_TRUE(found->starts_with('/') && found->ends_with("/real")) << *found;
  EXPECT_EQ(ResolveProgram(folder.path() + "/none").status().code, Code::kUnavailable);
}

TEST(SocketPair, KeepsMessagesApartAndDoesNotBlock) {
  auto pair = MakeSocketPair();
  ASSERT_TRUE(pair.ok());
  char text[8];
  EXPECT_EQ(::recv(pair->ours.get(), text, sizeof text, 0), -1);
  EXPECT_EQ(errno, EAGAIN);
  ASSERT_EQ(::send(pair->theirs.get(), "ab", 2, 0), 2);
  ASSERT_EQ(::send(pair->theirs.get(), "c", 1, 0), 1);
  EXPECT_EQ(::recv(pair->ours.get(), text, sizeof text, 0), 2);
  EXPECT_EQ(::recv(pair->ours.get(), text, sizeof text, 0), 1);
  pair->theirs.reset();
  EXPECT_EQ(::recv(pair->ours.get(), text, sizeof text, 0), 0);
}

TEST(DescribeWaitStatus, NamesExitsAndSignals) {
  EXPECT_EQ(DescribeWaitStatus(W_EXITCODE(3, 0)), "exited with 3");
  EXPECT_EQ(DescribeWaitStatus(W_EXITCODE(0, SIGSEGV)), "killed by signal 11 (Segmentation fault)");
  EXPECT_EQ(DescribeWaitStatus(W_STOPCODE(SIGSTOP)), "ended");
  EXPECT_EQ(DescribeWaitStatus(W_EXITCODE(0, 126)), "killed by signal 126 (unknown)");
}

}  // namespace
}  // namespace gpulens
