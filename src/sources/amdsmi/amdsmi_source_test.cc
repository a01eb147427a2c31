// ReaderSource against real AMD SMI reader processes over the simulated library.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>

#include "base/files.h"
#include "base/testing/allocations.h"
#include "reader/source.h"
#include "sources/amdsmi/amdsmi_calls.h"
#include "sources/amdsmi/amdsmi_fields.h"

namespace gpulens::amdsmi {
namespace {

using reader::DeviceEntry;
using reader::DeviceState;
using reader::ReaderFault;
using reader::ReaderSource;
using reader::ReadStatus;
using reader::StartReason;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr Duration kTimeout = seconds(20);

class AmdsmiSourceTest : public testing::Test {
 protected:
  AmdsmiSourceTest()
      : profile_(testing::TempDir() + "amdsmi_" + std::to_string(::getpid()) + "_" +
                 testing::UnitTest::GetInstance()->current_test_info()->name() + ".yaml") {
    options_.program = GPULENS_AMDSMI_READER;
    options_.arguments = {"--simulated"};
    options_.environment = {"GPULENS_FAKE_AMDSMI=" + profile_};
    options_.interval = milliseconds(100);
    options_.deadline = milliseconds(500);
    options_.backoff_first = milliseconds(20);
    options_.device_folder = testing::TempDir() + "no_such_folder";
    Profile(kEight);
  }
  ~AmdsmiSourceTest() override { ::unlink(profile_.c_str()); }

  void Profile(const std::string& text) { ASSERT_TRUE(WriteFileAtomically(profile_, text)); }
  static Instant Now() { return RealClock().Now(); }
  static uint64_t Starts(const ReaderSource& source, StartReason reason) {
    return source.state().starts[static_cast<size_t>(reason)];
  }
  static bool AllOk(const ReaderSource& source, size_t count) {
    if (source.devices().size() != count) return false;
    for (const DeviceEntry& device : source.devices()) {
      if (device.state != DeviceState::kOk || device.last_read_boot_ns == 0) return false;
    }
    return true;
  }
  // Polls as an event loop would until `done`; false after kTimeout.
  static bool Until(ReaderSource& source, const std::function<bool()>& done) {
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

  static constexpr const char* kEight =
      "model: MI300X\ngpus: 8\nload: {level: 0.5}\nprocesses:\n  - {pid: 4000, memory: 20GiB}\n";
  std::string profile_;
  reader::SourceOptions options_;
};

TEST_F(AmdsmiSourceTest, ReadsEveryGpu) {
  ReaderSource source(AmdsmiVendor(), options_);
  auto processes_reported = [&] {
    if (!AllOk(source, 8)) return false;
    for (const DeviceEntry& device : source.devices()) {
      if (device.uses.empty()) return false;
    }
    return true;
  };
  ASSERT_TRUE(Until(source, processes_reported));
  EXPECT_TRUE(source.state().up);
  EXPECT_EQ(source.state().driver_version, "6.14.14");
  EXPECT_EQ(source.state().library_version, "26.2.1");
  EXPECT_EQ(source.state().used, 8U);
  EXPECT_EQ(Starts(source, StartReason::kFirst), 1U);
  const DeviceEntry& gpu = source.devices()[5];
  EXPECT_EQ(gpu.Fact("name"), "AMD Instinct MI300X");
  EXPECT_EQ(gpu.Fact("no such"), "");
  EXPECT_EQ(gpu.uses[0].pid, 4005U);
  EXPECT_EQ(gpu.fields[SlotOf(Field::kActivityGfx)].raw, 50);
  EXPECT_EQ(gpu.fields[SlotOf(Field::kFanSpeed)].status, ReadStatus::kNotSupported);
  EXPECT_EQ(source.state().dropped_messages, 0U);
}

TEST_F(AmdsmiSourceTest, TheLibraryIsOpenedFromTheDisk) {
  options_.arguments.clear();
  options_.library_path = GPULENS_FAKE_AMDSMI_LIBRARY;
  ReaderSource source(AmdsmiVendor(), options_);
  ASSERT_TRUE(Until(source, [&] { return AllOk(source, 8); }));
  EXPECT_EQ(source.state().library_path, GPULENS_FAKE_AMDSMI_LIBRARY);
}

TEST_F(AmdsmiSourceTest, AMissingLibraryIsReportedAndTriedAgain) {
  options_.arguments.clear();
  options_.library_path = "/nonexistent/libamd_smi.so";
  ReaderSource source(AmdsmiVendor(), options_);
  ASSERT_TRUE(Until(source, [&] { return Starts(source, StartReason::kExited) >= 1; }));
  EXPECT_EQ(source.state().fault, ReaderFault::kLibraryNotFound);
  EXPECT_THAT(source.state().last_error, testing::HasSubstr("/nonexistent"));
  EXPECT_FALSE(source.state().up);
}

TEST_F(AmdsmiSourceTest, NoGpusIsAReason) {
  Profile("gpus: 0\n");
  ReaderSource source(AmdsmiVendor(), options_);
  ASSERT_TRUE(Until(source, [&] { return source.state().up; }));
  EXPECT_EQ(source.state().fault, ReaderFault::kNoDevices);
  EXPECT_THAT(source.state().last_error, testing::HasSubstr("no GPU"));
}

TEST_F(AmdsmiSourceTest, ASteadyPollDoesNotAllocate) {
  if (!AllocationsAreCounted()) GTEST_SKIP() << "allocations are not counted under this sanitizer";
  ReaderSource source(AmdsmiVendor(), options_);
  ASSERT_TRUE(Until(source, [&] {
    if (!AllOk(source, 8)) return false;
    for (const DeviceEntry& device : source.devices()) {
      if (device.uses.empty()) return false;
    }
    return true;
  }));
  uint64_t more = source.state().messages + 200, before = 0;
  ASSERT_TRUE(Until(source, [&] {
    if (before == 0) before = AllAllocations();
    return source.state().messages >= more;
  }));
  EXPECT_EQ(AllAllocations(), before);
}

TEST_F(AmdsmiSourceTest, KilledIsStartedAgain) {
  ReaderSource source(AmdsmiVendor(), options_);
  ASSERT_TRUE(Until(source, [&] { return AllOk(source, 8); }));
  int pid = source.state().pid;
  ::kill(pid, SIGKILL);
  ASSERT_TRUE(Until(source, [&] { return source.state().pid != pid; }));
  EXPECT_EQ(source.devices().size(), 8U) << "what was known stays, and grows old";
  EXPECT_THAT(source.state().last_error, testing::HasSubstr("killed by signal 9"));
  ASSERT_TRUE(Until(source, [&] { return source.state().up && AllOk(source, 8); }));
  EXPECT_EQ(Starts(source, StartReason::kKilled), 1U);
  EXPECT_EQ(source.state().last_error, "");
}

TEST_F(AmdsmiSourceTest, ACrashIsReported) {
  ReaderSource source(AmdsmiVendor(), options_);
  ASSERT_TRUE(Until(source, [&] { return AllOk(source, 8); }));
  ::kill(source.state().pid, SIGABRT);
  ASSERT_TRUE(Until(source, [&] { return Starts(source, StartReason::kCrash) == 1; }));
}

TEST_F(AmdsmiSourceTest, AStoppedProcessIsKilledAndStartedAgain) {
  ReaderSource source(AmdsmiVendor(), options_);
  ASSERT_TRUE(Until(source, [&] { return AllOk(source, 8); }));
  int pid = source.state().pid;
  ::kill(pid, SIGSTOP);
  ASSERT_TRUE(Until(source, [&] { return source.state().pid != pid; }));
  EXPECT_EQ(source.state().fault, ReaderFault::kHung);
  EXPECT_THAT(source.state().last_error, testing::HasSubstr("silent"));
  ASSERT_TRUE(Until(source, [&] { return AllOk(source, 8); }));
}

TEST_F(AmdsmiSourceTest, OneHangingGpuIsNamedAndTheOthersAreRead) {
  ReaderSource source(AmdsmiVendor(), options_);
  ASSERT_TRUE(Until(source, [&] { return AllOk(source, 8); }));
  Profile(std::string(kEight) + "hangs:\n  - {gpu: 3, call: amdsmi_get_power_info}\n");
  ASSERT_TRUE(Until(source, [&] { return source.devices()[3].state == DeviceState::kHung; }));
  EXPECT_EQ(CallName(source.devices()[3].hung_call), "amdsmi_get_power_info");
  int64_t then = Now().boot_ns;
  ASSERT_TRUE(Until(source, [&] {
    for (const DeviceEntry& device : source.devices()) {
      if (device.index != 3 && device.last_read_boot_ns <= then) return false;
    }
    return true;
  }));
  EXPECT_TRUE(source.state().up);
  Profile(kEight);
  ASSERT_TRUE(Until(source, [&] { return AllOk(source, 8); }));
  EXPECT_EQ(source.devices()[3].hangs, 1U);
}

TEST_F(AmdsmiSourceTest, WhenAllHangTheProcessIsReplaced) {
  ReaderSource source(AmdsmiVendor(), options_);
  ASSERT_TRUE(Until(source, [&] { return AllOk(source, 8); }));
  Profile(std::string(kEight) + "hangs:\n  - {call: amdsmi_get_energy_count}\n");
  ASSERT_TRUE(Until(source, [&] { return Starts(source, StartReason::kHang) >= 1; }));
  EXPECT_EQ(source.state().fault == ReaderFault::kHung || source.state().up, true);
  Profile(kEight);
  ASSERT_TRUE(Until(source, [&] { return source.state().up; }));
}

TEST_F(AmdsmiSourceTest, AHangInInitIsNamed) {
  Profile("gpus: 1\nhangs:\n  - {call: amdsmi_init}\n");
  options_.slow_deadline = milliseconds(600);
  ReaderSource source(AmdsmiVendor(), options_);
  ASSERT_TRUE(Until(source, [&] { return source.state().fault == ReaderFault::kHung; }));
  EXPECT_THAT(source.state().last_error, testing::HasSubstr("amdsmi_init"));
}

TEST_F(AmdsmiSourceTest, ALostGpuIsLostAlone) {
  ReaderSource source(AmdsmiVendor(), options_);
  ASSERT_TRUE(Until(source, [&] { return AllOk(source, 8); }));
  Profile(std::string(kEight) + "lost:\n  - {gpu: 6}\n");
  ASSERT_TRUE(Until(source, [&] { return source.devices()[6].state == DeviceState::kLost; }));
  EXPECT_EQ(source.devices()[5].state, DeviceState::kOk);
  Profile(kEight);
  ASSERT_TRUE(Until(source, [&] { return AllOk(source, 8); }));
}

TEST_F(AmdsmiSourceTest, ALostGpuIsListedByANewProcess) {
  options_.retry_lost = milliseconds(300);
  ReaderSource source(AmdsmiVendor(), options_);
  ASSERT_TRUE(Until(source, [&] { return AllOk(source, 8); }));
  Profile(std::string(kEight) + "lost:\n  - {gpu: 6}\n");
  ASSERT_TRUE(Until(source, [&] { return Starts(source, StartReason::kReload) >= 1 && source.state().up; }));
  Profile(kEight);
  ASSERT_TRUE(Until(source, [&] { return AllOk(source, 8); }));
  EXPECT_GE(source.devices()[6].opened, 2U);
}

// The library counts GPUs only at its start; a change of the kernel's list restarts it.
TEST_F(AmdsmiSourceTest, GpusAreListedAgainWhenTheirNumberChanges) {
  options_.slow = milliseconds(300);
  options_.deadline = seconds(20);  // A process that takes its time to end on a busy machine does not hang.
  options_.device_folder = testing::TempDir() + "amdgpu_" + std::to_string(::getpid());
  std::filesystem::create_directories(options_.device_folder + "/0000:0c:00.0");
  Profile("model: MI300X\ngpus: 2\n");
  ReaderSource source(AmdsmiVendor(), options_);
  ASSERT_TRUE(Until(source, [&] { return AllOk(source, 2); }));
  Profile("model: MI300X\ngpus: 1\n");
  std::filesystem::create_directories(options_.device_folder + "/0000:22:00.0");
  // Lost as soon as the other one has been identified.
  ASSERT_TRUE(Until(source, [&] {
    return !source.devices()[1].counted && source.devices()[1].state == DeviceState::kLost;
  }));
  EXPECT_EQ(source.devices()[0].state, DeviceState::kOk);
  Profile("model: MI300X\ngpus: 2\n");
  std::filesystem::remove_all(options_.device_folder + "/0000:22:00.0");
  ASSERT_TRUE(Until(source, [&] { return AllOk(source, 2); }));
  EXPECT_TRUE(source.devices()[1].counted);
  EXPECT_GE(Starts(source, StartReason::kReload), 2U);
  std::filesystem::remove_all(options_.device_folder);
}

TEST_F(AmdsmiSourceTest, GarbageAndSilenceAreNotBelieved) {
  options_.arguments = {"--garbage"};
  ReaderSource garbage(AmdsmiVendor(), options_);
  ASSERT_TRUE(Until(garbage, [&] { return garbage.state().fault == ReaderFault::kBadMessage; }));
  options_.arguments = {"--silent"};
  options_.slow_deadline = milliseconds(600);
  ReaderSource silent(AmdsmiVendor(), options_);
  ASSERT_TRUE(Until(silent, [&] { return silent.state().fault == ReaderFault::kHung; }));
}

TEST_F(AmdsmiSourceTest, SuspendFreesTheDevicesAndResumeTakesThemAgain) {
  ReaderSource source(AmdsmiVendor(), options_);
  ASSERT_TRUE(Until(source, [&] { return AllOk(source, 8); }));
  source.Suspend("for a test");
  source.Poll(Now());
  EXPECT_EQ(source.state().pid, -1);
  source.Resume();
  ASSERT_TRUE(Until(source, [&] { return AllOk(source, 8) && source.state().up; }));
  EXPECT_EQ(Starts(source, StartReason::kReload), 1U);
}

}  // namespace
}  // namespace gpulens::amdsmi
