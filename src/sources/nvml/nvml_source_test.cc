// NvmlSource against real reader processes over the simulated library.
#include "sources/nvml/nvml_source.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <functional>

#include "base/files.h"
#include "base/testing/allocations.h"
#include "sources/nvml/timeout_testing.h"

namespace gpulens::nvml {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

class SourceTest : public testing::Test {
 protected:
  SourceTest() : profile_(testing::TempDir() + "nvml_" + std::to_string(::getpid()) + ".yaml") {
    options_.program = GPULENS_NVML_READER;
    options_.arguments = {"--simulated"};
    options_.environment = {"GPULENS_FAKE_NVML=" + profile_};
    options_.interval = milliseconds(100);
    options_.deadline = milliseconds(500);
    options_.backoff_first = milliseconds(20);
    Profile(
        "model: H100\ngpus: 8\nload: {kind: sine, level: 0.6, amplitude: 0.3, period: 5}\n"
        "processes:\n  - {pid: 4000, memory: 20GiB}\n");
  }
  ~SourceTest() override { ::unlink(profile_.c_str()); }

  void Profile(const std::string& text) { ASSERT_TRUE(WriteFileAtomically(profile_, text)); }
  static Instant Now() { return RealClock().Now(); }
  static uint64_t Starts(const NvmlSource& source, StartReason reason) {
    return source.state().starts[static_cast<size_t>(reason)];
  }
  static bool AllOk(const NvmlSource& source, size_t count) {
    if (source.gpus().size() != count) return false;
    for (const Gpu& gpu : source.gpus()) {
      if (gpu.state != GpuState::kOk || gpu.last_read_boot_ns == 0) return false;
    }
    return true;
  }
  // Each GPU is read by its own thread, so each must have reported its processes. Their shares come last.
  static bool AllHaveProcesses(const NvmlSource& source, size_t count) {
    if (!AllOk(source, count)) return false;
    for (const Gpu& gpu : source.gpus()) {
      if (gpu.processes.empty() || gpu.slices.shares.empty()) return false;
    }
    return true;
  }
  // Polls as an event loop would until `done`; false after kTimeout.
  static bool Until(NvmlSource& source, const std::function<bool()>& done) {
    int64_t end = (Now() + kTimeout).boot_ns;
    while (true) {
      source.Poll(Now());
      if (done()) return true;
      if (Now().boot_ns > end) {
        ADD_FAILURE() << "not in time; fault: " << source.state().last_error;
        return false;
      }
      pollfd wait{.fd = source.fd(), .events = POLLIN, .revents = 0};
      ::poll(&wait, 1, 5);
    }
  }

  std::string profile_;
  SourceOptions options_;
};

TEST_F(SourceTest, ReadsEveryGpu) {
  NvmlSource source(options_);
  ASSERT_TRUE(Until(source, [&] { return AllHaveProcesses(source, 8); }));
  EXPECT_TRUE(source.state().up);
  EXPECT_EQ(source.state().driver_version, "580.95.05");
  EXPECT_EQ(source.state().runtime_version, "13.0");
  EXPECT_EQ(source.state().used, 8U);
  EXPECT_EQ(Starts(source, StartReason::kFirst), 1U);
  const Gpu& gpu = source.gpus()[5];
  EXPECT_EQ(gpu.Fact("name"), "NVIDIA H100 80GB HBM3");
  EXPECT_EQ(gpu.Fact("index"), "5");
  EXPECT_EQ(gpu.Fact("pci_bus_id"), "0000:6f:00.0");
  EXPECT_EQ(gpu.Fact("no such"), "");
  EXPECT_EQ(gpu.processes[0].pid, 4005U);
  EXPECT_EQ(gpu[Field::kPower].status, ReadStatus::kOk);
  EXPECT_GT(gpu[Field::kPower].raw, 100'000);
  EXPECT_EQ(gpu[Field::kFanSpeedMean].status, ReadStatus::kNotSupported);
  ASSERT_EQ(gpu.links.size(), 18U);
  EXPECT_EQ(gpu.links[17][static_cast<size_t>(LinkField::kReplay)].status, ReadStatus::kOk);
  EXPECT_EQ(gpu[Field::kMarginShutdown].raw, -8);
  EXPECT_GT(source.FieldsByStatus()[static_cast<size_t>(ReadStatus::kOk)], 8U * 40);
  ASSERT_TRUE(Until(source, [&] { return source.state().library_calls > 0; }));
  EXPECT_EQ(source.state().dropped_messages, 0U);
}

TEST_F(SourceTest, ASteadyPollDoesNotAllocate) {
  if (!AllocationsAreCounted()) GTEST_SKIP() << "allocations are not counted under this sanitizer";
  NvmlSource source(options_);
  ASSERT_TRUE(Until(source, [&] { return AllHaveProcesses(source, 8); }));
  uint64_t more = source.state().messages + 200, before = 0;
  ASSERT_TRUE(Until(source, [&] {
    if (before == 0) before = AllAllocations();
    return source.state().messages >= more;
  }));
  EXPECT_EQ(AllAllocations(), before);
}

TEST_F(SourceTest, KilledIsStartedAgain) {
  NvmlSource source(options_);
  ASSERT_TRUE(Until(source, [&] { return AllOk(source, 8); }));
  int pid = source.state().pid;
  int64_t power = source.gpus()[0][Field::kPower].raw;
  ::kill(pid, SIGKILL);
  ASSERT_TRUE(Until(source, [&] { return source.state().pid != pid; }));
  // What was known stays, and grows old.
  EXPECT_EQ(source.gpus().size(), 8U);
  EXPECT_GT(source.gpus()[0][Field::kPower].raw + power, 0);
  EXPECT_THAT(source.state().last_error, testing::HasSubstr("killed by signal 9"));
  ASSERT_TRUE(Until(source, [&] { return source.state().up && AllOk(source, 8); }));
  EXPECT_EQ(Starts(source, StartReason::kKilled), 1U);
  EXPECT_EQ(source.state().last_error, "");
}

TEST_F(SourceTest, ACrashIsReported) {
  NvmlSource source(options_);
  ASSERT_TRUE(Until(source, [&] { return AllOk(source, 8); }));
  ::kill(source.state().pid, SIGABRT);
  ASSERT_TRUE(Until(source, [&] { return Starts(source, StartReason::kCrash) == 1; }));
  EXPECT_EQ(source.state().fault, ReaderFault::kCrashed);
}

TEST_F(SourceTest, AStoppedProcessIsKilledAndStartedAgain) {
  NvmlSource source(options_);
  ASSERT_TRUE(Until(source, [&] { return AllOk(source, 8); }));
  int pid = source.state().pid;
  int64_t stopped = Now().boot_ns;
  ::kill(pid, SIGSTOP);
  ASSERT_TRUE(Until(source, [&] { return source.state().pid != pid; }));
  EXPECT_EQ(source.state().fault, ReaderFault::kHung);
  EXPECT_THAT(source.state().last_error, testing::HasSubstr("silent"));
  EXPECT_LT(Now().boot_ns - stopped, Duration(seconds(5)).count());
  ASSERT_TRUE(Until(source, [&] { return source.state().up && AllOk(source, 8); }));
  EXPECT_EQ(Starts(source, StartReason::kHang), 1U);
  ASSERT_TRUE(Until(source, [&] { return ::kill(pid, 0) != 0; }));  // The old one is gone and reaped.
  EXPECT_TRUE(source.state().stuck_pids.empty());
}

TEST_F(SourceTest, OneHangingGpuLeavesTheOthersFresh) {
  options_.interval = milliseconds(500);  // Longer than a busy machine takes to run a thread.
  options_.deadline = seconds(1);
  NvmlSource source(options_);
  ASSERT_TRUE(Until(source, [&] { return AllOk(source, 8); }));
  Profile("gpus: 8\nhangs:\n  - {gpu: 3, call: nvmlDeviceGetPowerUsage}\n");
  ASSERT_TRUE(Until(source, [&] { return source.gpus()[3].state == GpuState::kHung; }));
  EXPECT_EQ(CallName(source.gpus()[3].hung_call), "nvmlDeviceGetPowerUsage");
  int pid = source.state().pid;
  int64_t oldest = 0, end = Now().boot_ns + Duration(seconds(3)).count();
  ASSERT_TRUE(Until(source, [&] {
    int64_t now = Now().boot_ns;
    for (const Gpu& gpu : source.gpus()) {
      if (gpu.index != 3) oldest = std::max(oldest, now - gpu.last_read_boot_ns);
    }
    return now > end;
  }));
  EXPECT_LE(oldest, 2 * options_.interval.count());
  RecordProperty("oldest_ms", static_cast<int>(oldest / 1'000'000));
  EXPECT_EQ(source.gpus()[3].state, GpuState::kHung);
  EXPECT_EQ(source.gpus()[3].hangs, 1U);
  EXPECT_GT(Now().boot_ns - source.gpus()[3].last_read_boot_ns, Duration(seconds(2)).count());
  EXPECT_EQ(source.state().pid, pid);
  EXPECT_EQ(source.state().hung_calls, 1U);
  // The call returns: the same process goes on with it.
  Profile("gpus: 8\n");
  ASSERT_TRUE(Until(source, [&] { return AllOk(source, 8); }));
  EXPECT_EQ(source.state().pid, pid);
}

TEST_F(SourceTest, AGpuThatHangsTwiceIsLeftOutAndTriedAgainLater) {
  options_.retry_left_out = seconds(2);
  Profile("gpus: 1\nhangs:\n  - {gpu: 0, call: nvmlDeviceGetPowerUsage}\n");
  NvmlSource source(options_);
  ASSERT_TRUE(Until(source, [&] { return source.state().left_out == 1; }));
  EXPECT_EQ(source.gpus()[0].state, GpuState::kLeftOut);
  EXPECT_EQ(source.gpus()[0].hangs, 2U);
  EXPECT_EQ(Starts(source, StartReason::kHang), 2U);
  int pid = source.state().pid;
  Profile("gpus: 1\n");
  ASSERT_TRUE(Until(source, [&] { return AllOk(source, 1); }));
  EXPECT_EQ(source.state().pid, pid);
  EXPECT_EQ(source.state().left_out, 0U);
}

// A call of GPU 3 that ends the process, or its way to the agent, each time: in the end GPU 3 alone is not
// read.
class CallThatEndsTheProcess : public SourceTest, public testing::WithParamInterface<const char*> {
 protected:
  CallThatEndsTheProcess() : faults_(profile_ + ".faults") {
    options_.environment.push_back("GPULENS_FAKE_NVML_FAULTS=" + faults_);
    Fail("");
  }
  ~CallThatEndsTheProcess() override { ::unlink(faults_.c_str()); }
  void Fail(const std::string& fault) {
    ASSERT_TRUE(WriteFileAtomically(faults_, "gpulens-faults 1\n" + fault));
  }
  // Changes of reader processes that were reported since the last call, one a line.
  static std::string TakeDetails(NvmlSource& source) {
    std::vector<ReaderChange> changes;
    source.TakeChanges(changes);
    std::string details;
    for (const ReaderChange& change : changes) details += change.detail + "\n";
    return details;
  }
  static bool OthersOk(const NvmlSource& source) {
    int64_t now = Now().boot_ns;
    for (const Gpu& gpu : source.gpus()) {
      bool fresh = gpu.state == GpuState::kOk && now - gpu.last_read_boot_ns < Duration(seconds(1)).count();
      if (gpu.index != 3 && !fresh) return false;
    }
    return true;
  }

  std::string faults_;
};

TEST_P(CallThatEndsTheProcess, LeavesOutItsGpuAlone) {
  const std::string how = GetParam();
  options_.retry_left_out = seconds(6);
  options_.retry_lost = seconds(600);
  NvmlSource source(options_);
  ASSERT_TRUE(Until(source, [&] { return AllOk(source, 8); }));
  Fail("id=1 gpu=3 mode=crash_loop call=nvmlDeviceGetPowerUsage how=" + how +
       " from=0 to=9223372036854775807\n");
  ASSERT_TRUE(Until(source, [&] { return source.state().left_out == 1 && OthersOk(source); }));
  EXPECT_EQ(source.gpus()[3].state, GpuState::kLeftOut);
  const std::string details = TakeDetails(source);
  bool named = how == "signal" || how == "abort" || how == "exit";
  EXPECT_THAT(details,
              testing::HasSubstr(named ? "nvmlDeviceGetPowerUsage on GPU 3, which is left out" : "GPU 3"))
      << details;
  if (named) {
    for (int other : {0, 1, 2, 4, 5, 6, 7})
      EXPECT_THAT(details, testing::Not(testing::HasSubstr("GPU " + std::to_string(other))));
  }
  // It is tried again, and stays when it is well.
  int pid = source.state().pid;
  Fail("");
  ASSERT_TRUE(Until(source, [&] { return AllOk(source, 8) && source.state().left_out == 0; }));
  EXPECT_EQ(source.state().pid, pid) << "the others are read all the while: " << TakeDetails(source);
}

// A leaking library is restarted before the machine runs out of memory or descriptors, with the reason.
class LibraryThatLeaks : public CallThatEndsTheProcess {};

TEST_P(LibraryThatLeaks, IsRestarted) {
  options_.medium = milliseconds(100);
  NvmlSource source(options_);
  ASSERT_TRUE(Until(source, [&] { return AllOk(source, 8) && source.state().threads >= 9; }));
  EXPECT_GT(source.state().memory, uint64_t{1} << 20);
  EXPECT_GE(source.state().files, 5U);
  Fail("id=1 gpu=3 mode=crash_loop call=nvmlDeviceGetPowerUsage how=" + std::string(GetParam()) +
       " from=0 to=9223372036854775807\n");
  ASSERT_TRUE(Until(source, [&] { return Starts(source, StartReason::kExited) > 0; }));
  Fail("");
  EXPECT_THAT(TakeDetails(source), testing::HasSubstr("more than allowed"));
  ASSERT_TRUE(Until(source, [&] { return AllOk(source, 8); }));
  EXPECT_EQ(source.state().left_out, 0U) << "no GPU is to blame";
}

INSTANTIATE_TEST_SUITE_P(Leaks, LibraryThatLeaks, testing::Values("memory", "files"),
                         [](const auto& test) { return std::string(test.param); });
INSTANTIATE_TEST_SUITE_P(Ends, CallThatEndsTheProcess,
                         testing::Values("signal", "abort", "exit", "close", "garbage", "stop"),
                         [](const auto& test) { return std::string(test.param); });

TEST_F(SourceTest, AHangInInitIsNamed) {
  options_.slow_deadline = milliseconds(600);
  Profile("gpus: 1\nhangs:\n  - {call: nvmlInit_v2}\n");
  NvmlSource source(options_);
  ASSERT_TRUE(Until(source, [&] { return source.state().fault == ReaderFault::kHung; }));
  EXPECT_THAT(source.state().last_error, testing::HasSubstr("nvmlInit_v2"));
  EXPECT_EQ(source.state().hung_calls, 1U);
}

TEST_F(SourceTest, AHangWhileOpeningAGpuConcernsItAlone) {
  options_.slow_deadline = milliseconds(600);
  Profile("gpus: 3\nhangs:\n  - {gpu: 1, call: nvmlDeviceGetHandleByIndex_v2}\n");
  NvmlSource source(options_);
  ASSERT_TRUE(Until(source, [&] {
    return source.gpus().size() == 3 && source.gpus()[1].state == GpuState::kHung &&
           source.gpus()[0].state == GpuState::kOk && source.gpus()[2].state == GpuState::kOk;
  }));
  EXPECT_EQ(CallName(source.gpus()[1].hung_call), "nvmlDeviceGetHandleByIndex_v2");
}

TEST_F(SourceTest, ALostGpuComesBack) {
  NvmlSource source(options_);
  ASSERT_TRUE(Until(source, [&] { return AllOk(source, 8); }));
  Profile("gpus: 8\nerrors:\n  - {gpu: 2, call: '*', code: 15}\n");
  ASSERT_TRUE(Until(source, [&] { return source.gpus()[2].state == GpuState::kLost; }));
  EXPECT_EQ(source.gpus()[2][Field::kTemperature].status, ReadStatus::kLost);
  EXPECT_GT(source.gpus()[2][Field::kTemperature].raw, 0);  // The last good one, with its time.
  EXPECT_EQ(source.gpus()[1].state, GpuState::kOk);
  Profile("gpus: 8\n");
  ASSERT_TRUE(Until(source, [&] { return AllOk(source, 8); }));
}

TEST_F(SourceTest, ReportsTheStatesOfTheLibrary) {
  Profile(
      "gpus: 4\nerrors:\n"
      "  - {gpu: 0, call: nvmlDeviceGetHandleByIndex_v2, code: 4}\n"
      "  - {gpu: 1, call: nvmlDeviceGetHandleByIndex_v2, code: 8}\n"
      "  - {gpu: 2, call: nvmlDeviceGetPowerUsage, code: 16}\n");
  NvmlSource source(options_);
  ASSERT_TRUE(Until(source, [&] {
    return source.gpus().size() == 4 && source.gpus()[3].last_read_boot_ns && source.gpus()[0].code &&
           source.gpus()[1].code && source.gpus()[2].state == GpuState::kResetRequired;
  }));
  EXPECT_EQ(source.gpus()[0].state, GpuState::kNoPermission);
  EXPECT_EQ(source.gpus()[1].state, GpuState::kFailed);
  EXPECT_EQ(source.gpus()[1].code, 8);
  EXPECT_EQ(source.gpus()[3].state, GpuState::kOk);
}

TEST_F(SourceTest, WhyTheLibraryDoesNotOpen) {
  struct Case {
    int code;
    ReaderFault fault;
    const char* words;
  };
  for (const Case& expected : {Case{18, ReaderFault::kVersionMismatch, "different versions"},
                               Case{9, ReaderFault::kDriverNotLoaded, "modprobe"},
                               Case{4, ReaderFault::kNoPermission, "/dev/nvidia"},
                               Case{999, ReaderFault::kLibraryError, "code 999"}}) {
    Profile("errors:\n  - {call: nvmlInit_v2, code: " + std::to_string(expected.code) + "}\n");
    NvmlSource source(options_);
    ASSERT_TRUE(Until(source, [&] { return Starts(source, StartReason::kExited) >= 2; }));
    EXPECT_EQ(source.state().fault, expected.fault);
    EXPECT_EQ(source.state().library_code, expected.code);
    EXPECT_THAT(source.state().last_error, testing::HasSubstr(expected.words));
  }
}

TEST_F(SourceTest, ALibraryThatIsNotThere) {
  options_.arguments.clear();
  options_.library_path = "/nonexistent/libnvidia-ml.so.1";
  NvmlSource source(options_);
  ASSERT_TRUE(Until(source, [&] { return Starts(source, StartReason::kExited) >= 1; }));
  EXPECT_EQ(source.state().fault, ReaderFault::kLibraryNotFound);
  EXPECT_THAT(source.state().last_error, testing::HasSubstr("/nonexistent/libnvidia-ml.so.1"));
  EXPECT_FALSE(source.state().up);
}

TEST_F(SourceTest, ALibraryFromAFile) {
  options_.arguments.clear();
  options_.library_path = GPULENS_FAKE_LIBRARY;
  NvmlSource source(options_);
  ASSERT_TRUE(Until(source, [&] { return AllOk(source, 8); }));
  EXPECT_EQ(source.state().library_path, GPULENS_FAKE_LIBRARY);
}

TEST_F(SourceTest, BackOffDoubles) {
  options_.arguments = {"--no-such-argument=1"};
  options_.backoff_first = milliseconds(100);
  options_.backoff_limit = milliseconds(400);
  options_.deadline = seconds(1000);
  options_.slow_deadline = seconds(2000);
  NvmlSource source(options_);
  ManualClock clock;
  std::vector<int64_t> waits;
  for (int i = 0; i < 5; ++i) {
    source.Poll(clock.Now());
    ASSERT_GT(source.state().pid, 0);
    int64_t end = (Now() + kTimeout).boot_ns;
    while (source.state().pid > 0 && Now().boot_ns < end) {
      ::poll(nullptr, 0, 1);
      source.Poll(clock.Now());
    }
    EXPECT_EQ(source.state().fault, ReaderFault::kCannotStart);
    int64_t wait = source.NextDueBootNs() - clock.Now().boot_ns;
    waits.push_back(wait / 1'000'000);
    clock.Advance(Duration(wait - 1));
    source.Poll(clock.Now());
    EXPECT_EQ(source.state().pid, -1);
    clock.Advance(Duration(1));
  }
  EXPECT_EQ(waits, (std::vector<int64_t>{100, 200, 400, 400, 400}));
  EXPECT_EQ(source.state().messages, 0U);
}

TEST_F(SourceTest, AProgramThatIsNotThere) {
  options_.program = "/nonexistent/gpulens";
  NvmlSource source(options_);
  ASSERT_TRUE(Until(source, [&] { return Starts(source, StartReason::kExited) >= 1; }));
  EXPECT_EQ(source.state().fault, ReaderFault::kCannotStart);
  EXPECT_THAT(source.state().last_error, testing::HasSubstr("127"));
}

TEST_F(SourceTest, GarbageEndsTheDriver) {
  options_.arguments = {"--garbage"};
  NvmlSource source(options_);
  ASSERT_TRUE(Until(source, [&] { return Starts(source, StartReason::kProtocol) >= 1; }));
  EXPECT_EQ(source.state().fault, ReaderFault::kBadMessage);
  EXPECT_THAT(source.state().last_error, testing::HasSubstr("driver message"));
}

TEST_F(SourceTest, OneThatNeverSpeaksIsKilled) {
  options_.arguments = {"--silent"};
  options_.slow_deadline = milliseconds(600);
  NvmlSource source(options_);
  ASSERT_TRUE(Until(source, [&] { return Starts(source, StartReason::kHang) >= 1; }));
  EXPECT_EQ(source.state().fault, ReaderFault::kHung);
}

TEST_F(SourceTest, ReloadSuspendResume) {
  NvmlSource source(options_);
  ASSERT_TRUE(Until(source, [&] { return AllOk(source, 8); }));
  int pid = source.state().pid;
  source.Reload();
  ASSERT_TRUE(Until(source, [&] { return source.state().up && source.state().pid != pid; }));
  EXPECT_EQ(Starts(source, StartReason::kReload), 1U);
  pid = source.state().pid;
  source.Suspend("for a test");
  source.Poll(Now());
  EXPECT_EQ(source.state().pid, -1);
  EXPECT_EQ(source.fd(), -1);
  EXPECT_EQ(source.NextDueBootNs(), INT64_MAX);
  ASSERT_TRUE(Until(source, [&] { return ::kill(pid, 0) != 0; }));
  source.Reload();
  source.Resume();
  ASSERT_TRUE(Until(source, [&] { return source.state().up; }));
}

TEST_F(SourceTest, FewerGpusThanBefore) {
  NvmlSource source(options_);
  ASSERT_TRUE(Until(source, [&] { return AllOk(source, 8); }));
  Profile("gpus: 6\n");
  source.Reload();
  ASSERT_TRUE(Until(source, [&] { return source.state().up && source.gpus()[7].state == GpuState::kLost; }));
  ASSERT_TRUE(Until(source, [&] { return source.gpus()[5].state == GpuState::kOk; }));
  EXPECT_EQ(source.gpus().size(), 8U);
}

}  // namespace
}  // namespace gpulens::nvml
