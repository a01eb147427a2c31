#include "base/sandbox/launcher.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/landlock.h>
#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/files.h"
#include "base/process.h"
#include "base/process_files.h"
#include "base/sanitizers.h"
#include "base/testing/temp_folder.h"

namespace gpulens {
namespace {

// Runs `what` in a process of its own that has started a launcher; its exit code, 100 without one.
int WithLauncher(const LauncherOptions& options, const std::function<int()>& what) {
  const pid_t pid = ::fork();
  if (pid == 0) {
    ::setenv("SECRET_TOKEN", "hunter2", 1);
    ::setenv("SHOWN_A", "1", 1);
    if (!StartLauncher(options)) ::_exit(100);
    ::_exit(what());
  }
  int status = 0;
  if (pid < 0 || ::waitpid(pid, &status, 0) != pid || !WIFEXITED(status)) return -1;
  return WEXITSTATUS(status);
}

LauncherOptions Shell() {
  LauncherOptions options;
  options.programs.push_back(
      {.path = "/bin/sh",
       .arguments = {"-c", "echo hello", "env", "exit 7", "sleep 30", "kill -9 $$", "echo $TZ >&5"},
       .prefixes = {"--n="},
       .variables = {"SHOWN_"},
       .devices = {},
       .network = false,
       .confines_itself = false,
       .reads_processes = false});
  return options;
}

RunResult RunShell(const std::string& text, Duration timeout = std::chrono::seconds(10)) {
  RunOptions run;
  run.program = "/bin/sh";
  run.arguments = {"-c", text};
  run.timeout = timeout;
  return RunBounded(run, RealClock());
}

TEST(Launcher, RunsWhatIsInItsList) {
  EXPECT_EQ(WithLauncher(Shell(),
                         [] {
                           const RunResult run = RunShell("echo hello");
                           if (!run.status || run.output != "hello\n") return 1;
                           const RunResult fails = RunShell("exit 7");
                           return fails.status.detail.starts_with("exited with 7") ? 0 : 2;
                         }),
            0);
}

TEST(Launcher, RefusesEverythingElseAndNamesIt) {
  EXPECT_EQ(WithLauncher(Shell(),
                         [] {
                           const RunResult other = RunShell("echo other");
                           if (other.status.code != Code::kPermissionDenied) return 1;
                           if (other.status.detail.find("/bin/sh with the argument \"echo other\"") ==
                               std::string::npos)
                             return 2;
                           RunOptions run;
                           run.program = "/bin/cat";
                           if (RunBounded(run, RealClock()).status.code != Code::kPermissionDenied) return 3;
                           // Behind a prefix there is no path and no option.
                           run.program = "/bin/sh";
                           for (const char* bad : {"--n=/etc/passwd", "--n=-x", "--n=$(x)", "--n=a b"}) {
                             run.arguments = {"-c", "echo hello", bad};
                             if (RunBounded(run, RealClock()).status.code != Code::kPermissionDenied)
                               return 4;
                           }
                           run.arguments = {"-c", "echo hello", "--n=12,a.b:c"};
                           return RunBounded(run, RealClock()).status ? 0 : 5;
                         }),
            0);
}

TEST(Launcher, PassesListedVariablesOnly) {
  EXPECT_EQ(WithLauncher(
                Shell(),
                [] {
                  const RunResult run = RunShell("env");
                  if (!run.status) return 1;
                  if (run.output.find("hunter2") != std::string::npos) return 2;
                  if (run.output.find("SHOWN_A=1\n") == std::string::npos) return 3;
                  if (run.output.find("PATH=") == std::string::npos) return 4;
                  // What the agent sets is one of few, and no path.
                  RunOptions set;
                  set.program = "/bin/sh";
                  set.arguments = {"-c", "env"};
                  set.environment = {"TZ=UTC", "SHOWN_B=2", "LD_LIBRARY_PATH=/tmp",
                                     "SLURM_TIME_FORMAT=/tmp/x", "GPULENS_FAKE_NVML=/proc/self/fd/7"};
                  const RunResult more = RunBounded(set, RealClock());
                  for (const char* absent : {"SHOWN_B", "LD_LIBRARY_PATH", "SLURM_TIME_FORMAT"}) {
                    if (more.output.find(absent) != std::string::npos) return 5;
                  }
                  if (more.output.find("TZ=UTC\n") == std::string::npos) return 6;
                  return more.output.find("GPULENS_FAKE_NVML=/proc/self/fd/7\n") == std::string::npos ? 7 : 0;
                }),
            0);
}

// SECURITY.md: programs that the launcher starts read all files but devices, write none, have no capability,
// and have no network without the right to it.
TEST(Launcher, AProgramReadsAndDoesNothingElse) {
  if (kSanitized) GTEST_SKIP() << "a build with a sanitizer confines nothing";
  if (::access("/bin/bash", X_OK) != 0) GTEST_SKIP() << "no /bin/bash, which opens sockets by a path";
  const testing::TempFolder folder;
  const std::string file = folder.path() + "/tried";
  const std::string reads = "read -r line </etc/passwd && echo \"$line\"", writes = "echo x >" + file,
                    status_of_it =
                        "while read -r name set; do case $name in CapEff:|NoNewPrivs:) "
                        "echo \"$set\";; esac; done </proc/self/status",
                    // A port of 127.0.0.1 at which nothing listens: refused by whom?
      connects = "exec 3<>/dev/tcp/127.0.0.1/1";
  LauncherOptions options;
  for (const bool network : {false, true}) {
    ProgramRule rule;
    rule.path = "/bin/bash";
    rule.arguments = {"-c", reads, writes, status_of_it, connects};
    rule.network = network;
    options.programs = {rule};
    EXPECT_EQ(WithLauncher(options,
                           [&] {
                             const auto run = [](const std::string& text) {
                               RunOptions one;
                               one.program = "/bin/bash";
                               one.arguments = {"-c", text};
                               one.timeout = std::chrono::seconds(10);
                               return RunBounded(one, RealClock());
                             };
                             if (run(reads).output.find("root:") != 0) return 1;
                             if (run(status_of_it).output != "0000000000000000\n1\n") return 2;
                             const RunResult connected = run(connects);
                             if (connected.status) return 4;
                             const bool refused_by_us =
                                 connected.status.detail.find("not permitted") != std::string::npos;
                             if (refused_by_us == network) return 5;
                             // Landlock is version 1 or later, else files are not limited, which doctor
                             // reports.
                             if (::syscall(SYS_landlock_create_ruleset, nullptr, 0, 1) < 1) return 0;
                             return run(writes).status || ::access(file.c_str(), F_OK) == 0 ? 6 : 0;
                           }),
              0)
        << network;
  }
}

TEST(Launcher, EndsAProgramThatTakesTooLongAndOneThatIsKilled) {
  EXPECT_EQ(
      WithLauncher(Shell(),
                   [] {
                     if (RunShell("sleep 30", std::chrono::milliseconds(100)).status.code != Code::kTimeout)
                       return 1;
                     return RunShell("kill -9 $$").status.detail.starts_with("killed by signal 9") ? 0 : 2;
                   }),
      0);
}

TEST(Launcher, HandsDescriptorsOverUnderTheirNumbers) {
  EXPECT_EQ(WithLauncher(Shell(),
                         [] {
                           int ends[2];
                           if (::pipe2(ends, O_CLOEXEC) != 0) return 1;
                           ChildProcess::Options options;
                           options.program = "/bin/sh";
                           options.arguments = {"-c", "echo $TZ >&5"};
                           options.environment = {"TZ=42"};
                           options.pass_fds = {{ends[1], 5}};
                           auto child = ChildProcess::Start(options);
                           if (!child) return 2;
                           ::close(ends[1]);
                           char text[8] = {};
                           if (::read(ends[0], text, sizeof text) != 3 || std::string(text) != "42\n")
                             return 3;
                           pollfd end{child->end_fd(), POLLIN, 0};
                           if (::poll(&end, 1, 10'000) != 1) return 4;
                           return child->TryWait() == 0 ? 0 : 5;
                         }),
            0);
}

TEST(Launcher, ServesSeveralThreads) {
  EXPECT_EQ(
      WithLauncher(Shell(),
                   [] {
                     std::atomic<int> good{0};
                     std::vector<std::thread> threads;
                     for (int i = 0; i < 8; ++i)
                       threads.emplace_back([&] { good += RunShell("echo hello").output == "hello\n"; });
                     for (std::thread& thread : threads) thread.join();
                     return good == 8 ? 0 : 1;
                   }),
      0);
}

TEST(Launcher, ItsEndIsNoticed) {
  EXPECT_EQ(WithLauncher(Shell(),
                         [] {
                           ChildProcess::Options options;
                           options.program = "/bin/sh";
                           options.arguments = {"-c", "sleep 30"};
                           auto child = ChildProcess::Start(options);
                           if (!child || LauncherPid() <= 0) return 1;
                           ::kill(LauncherPid(), SIGKILL);
                           pollfd ends[] = {{LauncherEndFd(), POLLIN, 0}, {child->end_fd(), POLLIN, 0}};
                           if (::poll(ends, 1, 10'000) != 1 || ::poll(ends + 1, 1, 10'000) != 1) return 2;
                           if (child->TryWait() != SIGKILL) return 3;
                           return RunShell("echo hello").status.code == Code::kUnavailable ? 0 : 4;
                         }),
            0);
}

TEST(Launcher, OpensFilesOfProcesses) {
  EXPECT_EQ(WithLauncher({},
                         [] {
                           const std::string folder = "/proc/" + std::to_string(::getpid()) + "/";
                           auto* text = new std::string;
                           if (!ReadProcessFile(folder + "environ", *text, 1 << 20)) return 1;
                           return ReadProcessLink(folder + "ns/net")->starts_with("net:[") ? 0 : 2;
                         }),
            0);
}

}  // namespace
}  // namespace gpulens
