#include "base/sandbox/sandbox.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/capability.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <functional>
#include <string>
#include <thread>

#include "base/fd.h"
#include "base/files.h"
#include "base/testing/temp_folder.h"

namespace gpulens {
namespace {

using testing::TempFolder;

// Runs `what` in a process of its own that enters the sandbox first; returns its exit code, or -1 where there
// is no sandbox here.
int Inside(SandboxPlan plan, const std::function<int()>& what) {
  const pid_t pid = ::fork();
  if (pid == 0) {
    const std::vector<SandboxLayer> layers = EnterSandbox(plan);
    for (const SandboxLayer& layer : layers) {
      if (!layer.on && layer.name != "core dumps") ::_exit(255);
    }
    ::_exit(what());
  }
  int status = 0;
  if (pid < 0 || ::waitpid(pid, &status, 0) != pid || !WIFEXITED(status)) return -2;
  return WEXITSTATUS(status) == 255 ? -1 : WEXITSTATUS(status);
}

#define SKIP_WITHOUT_SANDBOX(code) \
  if ((code) == -1) GTEST_SKIP() << "no Landlock or no seccomp here, or a sanitizer"

int ErrnoOf(long result) { return result < 0 ? errno : 0; }

SandboxPlan AgentPlan(const std::string& folder) {
  SandboxPlan plan{
      .mode = SandboxMode::kEnforce, .filter = CallFilter::kAgent, .files = FileRights(), .capabilities = {}};
  static_cast<void>(AllowReadingAll(*plan.files));
  plan.files->write.push_back(folder);
  return plan;
}

TEST(Sandbox, WordsOfItsMode) {
  EXPECT_EQ(ParseSandboxMode("enforce"), SandboxMode::kEnforce);
  EXPECT_EQ(ParseSandboxMode("log"), SandboxMode::kLog);
  EXPECT_EQ(ParseSandboxMode("off"), SandboxMode::kOff);
  EXPECT_EQ(ParseSandboxMode("on"), std::nullopt);
}

TEST(Sandbox, OffLeavesAllAsItIsAndGivesTheReason) {
  const auto layers = EnterSandbox(
      {.mode = SandboxMode::kOff, .filter = CallFilter::kParser, .files = {}, .capabilities = {}});
  ASSERT_EQ(layers.size(), 4U);
  for (const SandboxLayer& layer : layers) {
    EXPECT_FALSE(layer.on);
    EXPECT_FALSE(layer.detail.empty());
  }
}

TEST(Sandbox, TheAgentWritesInItsFoldersOnly) {
  TempFolder allowed, other;
  const int code = Inside(AgentPlan(allowed.path()), [&] {
    if (!WriteFileAtomically(allowed.path() + "/a", "x")) return 1;
    if (::open((other.path() + "/b").c_str(), O_CREAT | O_WRONLY, 0600) >= 0) return 2;
    if (errno != EACCES) return 3;
    if (::open("/etc/passwd", O_RDONLY) < 0) return 4;
    if (ErrnoOf(::open("/etc/passwd", O_RDWR)) != EACCES) return 5;
    if (ErrnoOf(::open("/dev/kmsg", O_RDONLY)) != EACCES && ::access("/dev/kmsg", F_OK) == 0) return 6;
    if (::open("/dev/null", O_RDWR) < 0) return 7;
    if (ErrnoOf(::rename((allowed.path() + "/a").c_str(), (other.path() + "/a").c_str())) == 0) return 8;
    return 0;
  });
  SKIP_WITHOUT_SANDBOX(code);
  EXPECT_EQ(code, 0);
}

TEST(Sandbox, TheAgentStartsNoProgramAndHasTheNetwork) {
  TempFolder folder;
  const int code = Inside(AgentPlan(folder.path()), [] {
    if (::fork() >= 0) return 1;
    if (ErrnoOf(::execl("/bin/true", "true", nullptr)) != EPERM) return 2;
    if (ErrnoOf(::kill(::getppid(), 0)) != EPERM) return 3;
    if (ErrnoOf(::ptrace(PTRACE_ATTACH, ::getppid(), nullptr, nullptr)) != EPERM) return 4;
    for (int family : {AF_INET, AF_INET6, AF_UNIX}) {
      if (::socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0) < 0 && errno != EAFNOSUPPORT)
        return 5;
    }
    if (ErrnoOf(::socket(AF_INET, SOCK_RAW, IPPROTO_ICMP)) != EPERM) return 6;
    if (ErrnoOf(::socket(AF_PACKET, SOCK_DGRAM, 0)) != EPERM) return 7;
    bool ran = false;
    std::thread thread([&] { ran = true; });
    thread.join();
    if (!ran) return 8;
    if (::mmap(nullptr, 4096, PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != MAP_FAILED)
      return 9;
    void* page = ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED || ErrnoOf(::mprotect(page, 4096, PROT_READ | PROT_EXEC)) != EPERM) return 10;
    if (ErrnoOf(::prctl(PR_SET_DUMPABLE, 1)) != EPERM) return 11;
    return ::prctl(PR_GET_DUMPABLE) == 0 ? 0 : 12;
  });
  SKIP_WITHOUT_SANDBOX(code);
  EXPECT_EQ(code, 0);
}

TEST(Sandbox, AReaderHasNoNetworkAndStartsNothing) {
  SandboxPlan plan{.mode = SandboxMode::kEnforce,
                   .filter = CallFilter::kReader,
                   .files = FileRights(),
                   .capabilities = {}};
  plan.files->read = {"/usr", "/lib", "/proc"};
  plan.files->devices = {"/dev/null", "/dev/there-is-none"};
  const int code = Inside(plan, [] {
    for (int family : {AF_INET, AF_INET6, AF_NETLINK, AF_PACKET, AF_VSOCK}) {
      if (ErrnoOf(::socket(family, SOCK_DGRAM, 0)) != EPERM) return 1;
    }
    if (::socket(AF_UNIX, SOCK_STREAM, 0) < 0) return 2;
    if (::fork() >= 0) return 3;
    if (ErrnoOf(::execl("/bin/true", "true", nullptr)) != EPERM) return 4;
    if (ErrnoOf(::kill(::getppid(), SIGCONT)) != EPERM) return 5;
    if (::kill(::getppid(), 0) != 0) return 6;
    if (ErrnoOf(::open("/etc/passwd", O_RDONLY)) != EACCES) return 7;
    if (::open("/dev/null", O_RDWR) < 0) return 8;
    if (ErrnoOf(::open("/dev/zero", O_RDONLY)) != EACCES) return 9;
    std::thread([] {}).join();
    return 0;
  });
  SKIP_WITHOUT_SANDBOX(code);
  EXPECT_EQ(code, 0);
}

TEST(Sandbox, AParserHasItsMemoryAndItsDescriptors) {
  int ends[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
  UniqueFd ours(ends[0]), theirs(ends[1]);
  const SandboxPlan plan{.mode = SandboxMode::kEnforce,
                         .filter = CallFilter::kParser,
                         .files = FileRights(),
                         .capabilities = {}};
  const int code = Inside(plan, [&] {
    std::string much(4 << 20, 'x');
    if (::write(theirs.get(), much.data(), 3) != 3) return 1;
    if (ErrnoOf(::socket(AF_UNIX, SOCK_STREAM, 0)) != EPERM) return 2;
    if (ErrnoOf(::open("/dev/null", O_RDWR)) != EPERM) return 3;
    return ::fork() < 0 ? 0 : 4;
  });
  SKIP_WITHOUT_SANDBOX(code);
  EXPECT_EQ(code, 0);
}

TEST(Sandbox, KeepsTheCapabilitiesOfItsPlan) {
  if (::geteuid() != 0) GTEST_SKIP() << "an ordinary user has none";
  SandboxPlan plan = AgentPlan("/tmp");
  plan.capabilities = {CAP_SYSLOG};
  const int code = Inside(plan, [] {
    std::string status;
    if (!ReadFile("/proc/self/status", status)) return 1;
    if (status.find("CapEff:\t0000000400000000\n") == std::string::npos) return 2;
    if (status.find("CapBnd:\t0000000400000000\n") == std::string::npos) return 3;
    return status.find("NoNewPrivs:\t1\n") == std::string::npos ? 4 : 0;
  });
  SKIP_WITHOUT_SANDBOX(code);
  EXPECT_EQ(code, 0);
}

TEST(Sandbox, LogRefusesNothing) {
  const pid_t pid = ::fork();
  if (pid == 0) {
    static_cast<void>(EnterSandbox({.mode = SandboxMode::kLog,
                                    .filter = CallFilter::kAgent,
                                    .files = FileRights(),
                                    .capabilities = {}}));
    ::_exit(::kill(::getpid(), 0) == 0 && ::open("/dev/null", O_RDWR) >= 0 ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(pid, &status, 0), pid);
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace gpulens
