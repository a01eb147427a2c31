// NvmlSource against real reader processes: slices of GPUs, events, GPUs that come and go, release.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <functional>

#include "base/files.h"
#include "base/testing/allocations.h"
#include "sources/nvml/nvml_source.h"
#include "sources/nvml/timeout_testing.h"

namespace gpulens::nvml {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

class PartsOfSource : public testing::Test {
 protected:
  PartsOfSource()
      : profile_(testing::TempDir() + "parts_" + std::to_string(::getpid()) + "_" +
                 testing::UnitTest::GetInstance()->current_test_info()->name() + ".yaml") {
    options_.program = GPULENS_NVML_READER;
    options_.arguments = {"--simulated"};
    options_.environment = {"GPULENS_FAKE_NVML=" + profile_};
    options_.interval = milliseconds(100);
    options_.medium = options_.slow = milliseconds(300);
    options_.deadline = seconds(5);
    options_.backoff_first = milliseconds(20);
    options_.device_folder = testing::TempDir() + "no_such_folder";
  }
  ~PartsOfSource() override { ::unlink(profile_.c_str()); }

  void Profile(const std::string& text) { ASSERT_TRUE(WriteFileAtomically(profile_, text)); }
  static Instant Now() { return RealClock().Now(); }
  static uint64_t Starts(const NvmlSource& source, StartReason reason) {
    return source.state().starts[static_cast<size_t>(reason)];
  }
  static bool Ok(const NvmlSource& source, size_t count) {
    return source.gpus().size() == count &&
           std::all_of(source.gpus().begin(), source.gpus().end(), [](const Gpu& gpu) {
             return gpu.state == GpuState::kOk && gpu.last_read_boot_ns != 0;
           });
  }
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
  static size_t Instances(const NvmlSource& source, uint32_t index) {
    return index < source.gpus().size() ? source.gpus()[index].slices.list.size() : 0;
  }

  const std::string profile_;
  SourceOptions options_;
};

TEST_F(PartsOfSource, MigInstancesArriveChangeAndGo) {
  Profile(
      "gpus: 2\nload: {kind: constant, level: 0.6}\nmig:\n  - {gpu: 0, profile: 3g.40gb, instance: 1}\n"
      "  - {gpu: 0, profile: 4g.40gb, instance: 2}\nprocesses:\n  - {gpu: 0, pid: 7, memory: 1GiB, "
      "mig_instance: 1}\n");
  NvmlSource source(options_);
  ASSERT_TRUE(Until(source, [&] {
    return Instances(source, 0) == 2 && source.gpus()[0].slices.list[0][SliceField::kGpmSm].boot_ns != 0 &&
           source.gpus()[0].processes.size() == 1;
  }));
  EXPECT_EQ(source.gpus()[0].slices.list[1].Fact("profile"), "4g.40gb");
  EXPECT_EQ(source.gpus()[0].processes[0].gpu_instance, 1U) << "listed by MIG device";
  int pid = source.state().pid;
  Profile("gpus: 2\nmig:\n  - {gpu: 0, profile: 4g.40gb, instance: 2}\n");
  ASSERT_TRUE(Until(source, [&] { return Instances(source, 0) == 1; }));
  EXPECT_EQ(source.gpus()[0].slices.list[0].key.id, 2U);
  EXPECT_EQ(source.state().pid, pid) << "without a restart";
}

TEST_F(PartsOfSource, EventsArriveAndAreTakenOnce) {
  Profile("gpus: 2\nxids:\n  - {gpu: 1, code: 79, at: 0}\n  - {gpu: 0, code: 31, at: 0, instance: 2}\n");
  NvmlSource source(options_);
  ASSERT_TRUE(Until(source, [&] { return source.events() == 2; }));
  std::vector<DeviceEvent> events;
  source.TakeEvents(events);
  ASSERT_EQ(events.size(), 2U);
  std::sort(events.begin(), events.end(), [](auto& a, auto& b) { return a.entity < b.entity; });
  EXPECT_EQ(events[0].data, 31U);
  EXPECT_EQ(events[0].gpu_instance, 2U);
  EXPECT_EQ(events[1].data, 79U);
  source.TakeEvents(events);
  EXPECT_TRUE(events.empty());
}

// The GPUs are read all the same; the hang of the event thread is reported until it ends.
TEST_F(PartsOfSource, AThreadThatDoesNotComeBackFromWaitingIsNamed) {
  options_.deadline = seconds(1);
  Profile("gpus: 2\n");
  NvmlSource source(options_);
  ASSERT_TRUE(Until(source, [&] { return Ok(source, 2) && source.state().watched == 2; }));
  EXPECT_EQ(source.Trouble(Now()), "");
  int pid = source.state().pid;
  Profile("gpus: 2\nhangs:\n  - {call: nvmlEventSetWait_v2}\n");
  ASSERT_TRUE(Until(source, [&] { return source.state().waiting_call != reader::kNoCall; }));
  EXPECT_EQ(CallName(source.state().waiting_call), "nvmlEventSetWait_v2");
  EXPECT_EQ(source.state().watched, 0U) << "that no event comes means nothing";
  EXPECT_EQ(source.state().hung_calls, 1U);
  EXPECT_THAT(source.Trouble(Now()), testing::HasSubstr("nvmlEventSetWait_v2 has not returned for"));
  int64_t then = Now().boot_ns;
  ASSERT_TRUE(Until(source, [&] {
    return source.gpus()[0].last_read_boot_ns > then && source.gpus()[1].last_read_boot_ns > then;
  }));
  EXPECT_TRUE(source.state().up);
  EXPECT_EQ(source.state().pid, pid) << "it is no reason to kill it";
  Profile("gpus: 2\n");
  ASSERT_TRUE(Until(source, [&] { return source.state().watched == 2; }));
  EXPECT_EQ(source.state().waiting_call, reader::kNoCall);
}

TEST_F(PartsOfSource, AHotAddedGpuIsFoundByANewProcess) {
  Profile("gpus: 2\n");
  NvmlSource source(options_);
  ASSERT_TRUE(Until(source, [&] { return Ok(source, 2); }));
  std::string uuid(source.gpus()[1].Fact("uuid"));
  Profile("gpus: 3\n");
  ASSERT_TRUE(Until(source, [&] { return Ok(source, 3); }));
  EXPECT_EQ(source.gpus()[1].Fact("uuid"), uuid);
  EXPECT_GE(Starts(source, StartReason::kReload), 1U);
  Profile("gpus: 2\n");
  ASSERT_TRUE(
      Until(source, [&] { return source.gpus()[2].state == GpuState::kLost && !source.gpus()[2].counted; }));
  ASSERT_TRUE(Until(source, [&] {
    return source.gpus()[0].state == GpuState::kOk && source.gpus()[1].state == GpuState::kOk;
  }));
}

TEST_F(PartsOfSource, RenumberedGpusKeepTheirIdentity) {
  Profile("gpus: 2\nboards: [4, 7]\n");
  options_.device_folder = testing::TempDir() + "gpus_" + std::to_string(::getpid());
  std::filesystem::create_directories(options_.device_folder + "/0000:5e:00.0");
  NvmlSource source(options_);
  ASSERT_TRUE(Until(source, [&] { return Ok(source, 2); }));
  std::string first(source.gpus()[0].Fact("uuid")), second(source.gpus()[1].Fact("uuid"));
  ASSERT_NE(first, second);
  uint32_t identity = source.gpus()[0].identity_version;
  // The count stays, the kernel's list does not: another board took the first number.
  Profile("gpus: 2\nboards: [7, 4]\n");
  std::filesystem::create_directories(options_.device_folder + "/0000:6f:00.0");
  ASSERT_TRUE(Until(source, [&] {
    return source.gpus()[0].Fact("uuid") == second && source.gpus()[1].Fact("uuid") == first;
  }));
  EXPECT_GT(source.gpus()[0].identity_version, identity);
  std::filesystem::remove_all(options_.device_folder);
}

TEST_F(PartsOfSource, ALostGpuIsLookedForByANewProcess) {
  options_.retry_lost = milliseconds(300);
  Profile("gpus: 2\n");
  NvmlSource source(options_);
  ASSERT_TRUE(Until(source, [&] { return Ok(source, 2); }));
  Profile("gpus: 2\nerrors:\n  - {gpu: 1, call: '*', code: 15}\n");
  ASSERT_TRUE(Until(source, [&] { return source.gpus()[1].state == GpuState::kLost; }));
  ASSERT_TRUE(Until(source, [&] { return Starts(source, StartReason::kReload) >= 1 && source.state().up; }));
  Profile("gpus: 2\n");
  ASSERT_TRUE(Until(source, [&] { return Ok(source, 2); }));
  EXPECT_GE(source.gpus()[1].opened, 2U);
}

TEST_F(PartsOfSource, ReleasedMeansThatNoProcessIsLeft) {
  Profile("gpus: 2\n");
  NvmlSource source(options_);
  ASSERT_TRUE(Until(source, [&] { return Ok(source, 2); }));
  EXPECT_FALSE(source.quiet());
  int pid = source.state().pid;
  source.Suspend("released for a test");
  ASSERT_TRUE(Until(source, [&] { return source.quiet(); }));
  EXPECT_NE(::kill(pid, 0), 0) << "it has ended and was reaped";
  EXPECT_EQ(source.state().fault, ReaderFault::kReleased);
  EXPECT_EQ(source.state().last_error, "released for a test");
  EXPECT_FALSE(source.state().up);
  std::vector<ReaderChange> changes;
  source.TakeChanges(changes);
  ASSERT_EQ(changes.size(), 2U);
  EXPECT_EQ(changes[0].kind, ReaderChange::kStarted);
  EXPECT_EQ(changes[1].kind, ReaderChange::kReleased);
  source.Resume();
  ASSERT_TRUE(Until(source, [&] { return source.state().up && Ok(source, 2); }));
  EXPECT_EQ(source.state().last_error, "");
}

TEST_F(PartsOfSource, ASteadyPollWithPartsDoesNotAllocate) {
  if (!AllocationsAreCounted()) GTEST_SKIP() << "allocations are not counted under this sanitizer";
  Profile(
      "gpus: 2\nload: {kind: constant, level: 0.6}\nmig:\n  - {gpu: 0, profile: 3g.40gb, instance: 1}\n"
      "processes:\n  - {gpu: 1, pid: 8, memory: 1GiB}\n");
  NvmlSource source(options_);
  ASSERT_TRUE(Until(source, [&] {
    return Instances(source, 0) == 1 && source.gpus()[0].slices.list[0][SliceField::kGpmSm].boot_ns != 0 &&
           source.gpus().size() == 2 && source.gpus()[1].slices.shares.size() == 1;
  }));
  uint64_t more = source.state().messages + 100, counted = 0;
  ASSERT_TRUE(Until(source, [&] {
    uint64_t before = AllAllocations();
    source.Poll(Now());
    counted += AllAllocations() - before;
    return source.state().messages >= more;
  }));
  EXPECT_EQ(counted, 0U);
}

}  // namespace
}  // namespace gpulens::nvml
