#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/testing/allocations.h"
#include "catalog/gpu.h"
#include "catalog/self.h"
#include "plugins/collectors/kernel_log/kernel_log.h"
#include "plugins/event_queue.h"
#include "plugins/plugin.h"
#include "sources/kernel_log/parse/notice.h"

namespace gpulens {

extern const CollectorSpec kernel_log_collector;

namespace {

using std::chrono::seconds;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
namespace fs = std::filesystem;

class KernelLogTest : public ::testing::Test {
 protected:
  KernelLogTest() {
    char name[] = "/tmp/gpulens-kernel-log-XXXXXX";
    root_ = ::mkdtemp(name);
    path_ = root_ + "/kern.log";
    env_.clock = &clock_;
    env_.root = root_;
    env_.events = &queue_;
  }
  ~KernelLogTest() override { fs::remove_all(root_); }

  Config ConfigOf(std::string source, std::string path = {}) {
    Config config;
    config.Set("source", std::move(source), {});
    config.Set("path", std::move(path), {});
    config.Set("since", std::string("now"), {});
    return config;
  }
  // A switch and a GPU behind a port, as sysfs shows them.
  void AddDevices() {
    auto add = [&](const std::string& place, std::string_view vendor, std::string_view klass) {
      std::string folder = root_ + "/sys/devices/" + place;
      fs::create_directories(folder);
      fs::create_directories(root_ + "/sys/bus/pci/devices");
      std::ofstream(folder + "/vendor") << vendor << "\n";
      std::ofstream(folder + "/class") << klass << "\n";
      fs::create_directory_symlink("../../../devices/" + place,
                                   root_ + "/sys/bus/pci/devices/" + fs::path(place).filename().string());
    };
    add("pci0000:00/0000:00:01.0", "0x8086", "0x060400");
    add("pci0000:00/0000:00:01.0/0000:3b:00.0", "0x10de", "0x030200");
    add("pci0000:00/0000:00:02.0", "0x144d", "0x010802");
    add("pci0000:80/0000:86:00.0", "0x10de", "0x068000");
  }
  void Append(std::string_view line) { std::ofstream(path_, std::ios::app) << "[ 5.0] " << line << "\n"; }
  std::unique_ptr<Collector> Make() {
    std::ofstream(path_, std::ios::app).flush();
    auto made = kernel_log_collector.create(ConfigOf("file", path_), env_);
    EXPECT_TRUE(made.ok()) << made.error().detail;
    return *std::move(made);
  }
  Status Collect(Collector& collector) {
    clock_.Advance(seconds(1));
    writer_.Begin(clock_.Now());
    Status status = collector.Collect(writer_);
    frame_ = writer_.Finish();
    return status;
  }
  int64_t Value(const MetricDesc& desc, std::string_view severity = {}) {
    for (uint32_t slot = 0; slot < frame_->layout->slots(); ++slot) {
      const SeriesInfo& info = (*frame_->layout)[slot];
      if (info.desc == &desc &&
          (severity.empty() || info.attributes.Text("nvswitch.sxid.severity") == severity))
        return frame_->cells[info.first_cell].i;
    }
    return -1;
  }

  ManualClock clock_;
  std::string root_, path_;
  EventQueue queue_;
  Env env_;
  SeriesTable table_;
  FrameWriter writer_{table_, seconds(10)};
  Ref<const Frame> frame_;
};

TEST_F(KernelLogTest, ReportsAnXid) {
  auto collector = Make();
  EXPECT_TRUE(queue_.Watched("kernel_log"));
  ASSERT_TRUE(Collect(*collector));
  EXPECT_EQ(Value(kSelfKernelLogLost), 0);
  Append("NVRM: Xid (PCI:0000:3b:00): 79, pid=1234, name=py\x1b[31m, GPU has fallen off the bus.");
  ASSERT_TRUE(Collect(*collector));
  auto events = queue_.Take();
  ASSERT_THAT(events, SizeIs(1));
  EXPECT_EQ(events[0].name, "gpu.xid");
  EXPECT_EQ(events[0].at, clock_.Now());
  EXPECT_EQ(events[0].attributes.Text("gpu.xid.code"), "79");
  EXPECT_EQ(events[0].attributes.Text("gpu.pci.bus_id"), "0000:3b:00.0");
  EXPECT_EQ(events[0].attributes.Text("process.pid"), "1234");
  EXPECT_EQ(events[0].attributes.Text("process.executable.name"), "py\\x1b[31m")
      << "no escape reaches a terminal";
  EXPECT_EQ(events[0].attributes.Text("event.source"), "file");
  EXPECT_THAT(events[0].body, HasSubstr("fallen off the bus"));
  collector.reset();
  EXPECT_FALSE(queue_.Watched()) << "who is gone watches no longer";
}

TEST_F(KernelLogTest, JoinsThreeLinesOfAGpuThatFellOffTheBus) {
  auto collector = Make();
  Append("NVRM: The NVIDIA GPU 0000:3b:00.0");
  Append("NVRM: (PCI ID: 10de:2330) installed in this system has");
  Append("NVRM: fallen off the bus and is not responding to commands.");
  ASSERT_TRUE(Collect(*collector));
  auto events = queue_.Take();
  ASSERT_THAT(events, SizeIs(1));
  EXPECT_EQ(events[0].name, "gpu.lost");
  EXPECT_EQ(events[0].attributes.Text("gpu.pci.bus_id"), "0000:3b:00.0");
}

TEST_F(KernelLogTest, ReportsFaultsWithoutACodeOnceAMinute) {
  auto collector = Make();
  for (int i = 0; i < 3; ++i)
    Append("nvidia-peermem nv_get_p2p_free_callback:127 ERROR detected invalid context, skipping");
  Append("rank 0[77]: segfault at 0 ip 0 sp 0 error 4 in libnccl.so.2[7f+1]");
  Append("amdgpu: 3 uncorrectable hardware errors detected in UMC block");
  ASSERT_TRUE(Collect(*collector));
  auto events = queue_.Take();
  ASSERT_THAT(events, SizeIs(3));
  EXPECT_EQ(events[0].name, "gpu.driver.fault");
  EXPECT_EQ(events[0].attributes.Text("gpu.driver.fault"), "nvidia.peermem_context");
  EXPECT_EQ(events[1].attributes.Text("process.executable.name"), "rank 0");
  EXPECT_EQ(events[1].attributes.Text("process.pid"), "77");
  EXPECT_EQ(events[2].name, "gpu.ras");
  EXPECT_EQ(events[2].attributes.Text("gpu.ras.block"), "umc");
  EXPECT_FALSE(events[2].attributes.Has("gpu.pci.bus_id"));
}

TEST_F(KernelLogTest, SwitchErrorsCountFromZero) {
  AddDevices();
  auto collector = Make();
  ASSERT_TRUE(Collect(*collector));
  EXPECT_EQ(Value(kNvswitchSxidErrors, "fatal"), 0);
  Append("nvidia-nvswitch3: SXid (PCI:0000:86:00.0): 20034, Fatal, Link 30 LTSSM Fault Up");
  Append("nvidia-nvswitch3: SXid (PCI:0000:86:00.0): 20034, Severity 1 Engine instance 30");
  ASSERT_TRUE(Collect(*collector));
  EXPECT_EQ(Value(kNvswitchSxidErrors, "fatal"), 1);
  EXPECT_EQ(Value(kNvswitchSxidErrors, "non_fatal"), 0);
  auto events = queue_.Take();
  ASSERT_THAT(events, SizeIs(1));
  EXPECT_EQ(events[0].attributes.Text("gpu.interconnect.link_index"), "30");
  EXPECT_EQ(events[0].attributes.Text("nvswitch.id"), "0000:86:00.0");
}

TEST_F(KernelLogTest, MapsOtherFunctionsToTheirGpu) {
  AddDevices();
  auto collector = Make();
  constexpr std::string_view kFatal =
      ": PCIe Bus Error: severity=Uncorrected (Fatal), type=Transaction Layer, ()";
  Append("snd_hda_intel 0000:3b:00.1" + std::string(kFatal));  // the audio device of the board
  Append("snd_hda_intel 0000:00:02.1" + std::string(kFatal));  // of no GPU
  ASSERT_TRUE(Collect(*collector));
  auto events = queue_.Take();
  ASSERT_THAT(events, SizeIs(1));
  EXPECT_EQ(events[0].attributes.Text("gpu.pci.bus_id"), "0000:3b:00.0");
}

TEST_F(KernelLogTest, ReportsPcieErrorsOfGpusAndTheirPorts) {
  AddDevices();
  auto collector = Make();
  constexpr std::string_view kFatal =
      ": PCIe Bus Error: severity=Uncorrected (Fatal), type=Transaction Layer, ()";
  Append("pcieport 0000:00:01.0: AER" + std::string(kFatal));
  Append("nvme 0000:00:02.0" + std::string(kFatal));    // no GPU
  Append("nvidia 0000:ff:00.0" + std::string(kFatal));  // gone from the bus, but its driver speaks
  constexpr std::string_view kMild =
      "nvidia 0000:3b:00.0: PCIe Bus Error: severity=Corrected, type=Physical Layer, ()";
  for (int i = 0; i < 5; ++i) Append(kMild);
  ASSERT_TRUE(Collect(*collector));
  auto events = queue_.Take();
  ASSERT_THAT(events, SizeIs(3)) << "corrected ones at most once a minute";
  EXPECT_EQ(events[0].attributes.Text("gpu.pci.bus_id"), "0000:3b:00.0") << "the only GPU below the port";
  EXPECT_EQ(events[0].attributes.Text("gpu.pcie.aer.severity"), "fatal");
  EXPECT_EQ(events[1].attributes.Text("gpu.pci.bus_id"), "0000:ff:00.0");
  EXPECT_EQ(events[2].attributes.Text("gpu.pcie.aer.layer"), "physical");
  EXPECT_EQ(queue_.suppressed(), 4u);
  clock_.Advance(seconds(60));
  Append(kMild);
  ASSERT_TRUE(Collect(*collector));
  EXPECT_THAT(queue_.Take(), SizeIs(1));
}

TEST_F(KernelLogTest, OomKillHasItsCgroup) {
  auto collector = Make();
  Append(
      "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=c,mems_allowed=0,oom_memcg=/pods,"
      "task_memcg=/pods/a,task=python3,pid=42,uid=0");
  Append("Memory cgroup out of memory: Killed process 42 (python3) total-vm:1kB");
  Append("Out of memory: Killed process 43 (other) total-vm:1kB");
  ASSERT_TRUE(Collect(*collector));
  auto events = queue_.Take();
  ASSERT_THAT(events, SizeIs(2));
  EXPECT_EQ(events[0].attributes.Text("host.oom.cgroup"), "/pods/a");
  EXPECT_FALSE(events[1].attributes.Has("host.oom.cgroup")) << "that was another process";
}

TEST_F(KernelLogTest, ReportsOtherKinds) {
  auto collector = Make();
  Append(
      "amdgpu 0000:c1:00.0: amdgpu: 3 correctable hardware errors detected in umc block, no user action is "
      "needed.");
  Append("amdgpu 0000:c1:00.0: amdgpu: GPU reset begin!");
  Append("NVRM: GPU 0000:3b:00.0: GPU has fallen off the bus.");
  Append("NVRM: GPU 0000:3b:00.0: NVLink: fatal error detected on link 3(0x0)");
  Append("EDAC MC0: 1 UE memory read error on CPU");
  Append("thermal thermal_zone0: critical temperature reached, shutting down");
  Append("usb 1-1: nothing to do with us");
  ASSERT_TRUE(Collect(*collector));
  std::vector<std::string> names;
  for (const Event& event : queue_.Take()) names.emplace_back(event.name);
  EXPECT_THAT(names, ::testing::ElementsAre("gpu.ras", "gpu.reset", "gpu.lost", "gpu.interconnect.failure",
                                            "host.hardware_error", "host.hardware_error"));
}

TEST_F(KernelLogTest, ReportsAHotGpuOnceAMinute) {
  auto collector = Make();
  ASSERT_TRUE(Collect(*collector));
  const char* line = "amdgpu 0000:3b:00.0: amdgpu: ERROR: GPU over temperature range(SW CTF) detected!";
  for (int i = 0; i < 3; ++i) Append(line);
  ASSERT_TRUE(Collect(*collector));
  auto events = queue_.Take();
  ASSERT_THAT(events, SizeIs(1));
  EXPECT_EQ(events[0].name, "gpu.thermal");
  EXPECT_EQ(events[0].attributes.Text("gpu.thermal.action"), "trip");
  EXPECT_EQ(events[0].attributes.Text("gpu.pci.bus_id"), "0000:3b:00.0");
  clock_.Advance(seconds(61));
  Append(line);
  ASSERT_TRUE(Collect(*collector));
  EXPECT_THAT(queue_.Take(), SizeIs(1));
}

TEST_F(KernelLogTest, UnavailableLogNamesWhatStillWorks) {
  for (std::string_view source : {"auto", "kmsg", "journald"}) {
    auto made = kernel_log_collector.create(ConfigOf(std::string(source)), env_);
    ASSERT_FALSE(made.ok()) << source;
    EXPECT_EQ(made.error().code, Code::kUnavailable) << source;
    EXPECT_THAT(made.error().detail, HasSubstr("NVML")) << source;
  }
  EXPECT_EQ(kernel_log_collector.create(ConfigOf("file"), env_).error().code, Code::kInvalidArgument);
  EXPECT_FALSE(queue_.Watched());
  auto findings = kernel_log_collector.probe(ConfigOf("auto"), env_);
  ASSERT_THAT(findings, SizeIs(1));
  EXPECT_EQ(findings[0].kind, Finding::kNotHere);
}

TEST_F(KernelLogTest, AutoUsesASyslogFileWithoutADevice) {
  fs::create_directories(root_ + "/var/log");
  path_ = root_ + "/var/log/kern.log";
  std::ofstream(path_).flush();
  auto made = kernel_log_collector.create(ConfigOf("auto"), env_);
  ASSERT_TRUE(made.ok()) << made.error().detail;
  Append("NVRM: Xid (PCI:0000:3b:00): 13, Graphics SM Warp Exception");
  ASSERT_TRUE(Collect(**made));
  EXPECT_THAT(queue_.Take(), SizeIs(1));
  EXPECT_EQ(kernel_log_collector.probe(ConfigOf("auto"), env_)[0].kind, Finding::kFound);
}

TEST(SystemJournal, ChecksThatItsFileIsReadable) {
  namespace fs = std::filesystem;
  const fs::path root = fs::path(::testing::TempDir()) / "system_journal_root";
  fs::remove_all(root);
  EXPECT_FALSE(SystemJournalReadable(root));
  fs::create_directories(root / "var/log/journal/0123456789abcdef");
  EXPECT_FALSE(SystemJournalReadable(root)) << "a folder that everybody may list";
  std::ofstream(root / "var/log/journal/0123456789abcdef/user-1000.journal") << "x";
  EXPECT_FALSE(SystemJournalReadable(root)) << "the messages of a user";
  std::ofstream(root / "var/log/journal/0123456789abcdef/system.journal") << "x";
  EXPECT_TRUE(SystemJournalReadable(root));
  fs::remove_all(root);
}

TEST_F(KernelLogTest, VanishedFileIsAFailure) {
  auto collector = Make();
  ASSERT_TRUE(Collect(*collector));
  fs::remove(path_);
  std::ofstream(path_).flush();
  ASSERT_TRUE(Collect(*collector)) << "a new file";
  EXPECT_TRUE(queue_.Watched());
}

TEST_F(KernelLogTest, BoundsAFloodOfCorrectedErrors) {
  EventMaker maker(&queue_, "kmsg", root_);
  for (int i = 0; i < 5000; ++i) {
    auto notice = kernel_log::ParseMessage("EDAC MC0: 1 CE memory read error on CPU");
    maker.Take(*notice, "EDAC", clock_.Now());
  }
  EXPECT_THAT(queue_.Take(), SizeIs(1));
  EXPECT_EQ(queue_.suppressed(), 4999u);
}

TEST_F(KernelLogTest, SteadyRunDoesNotAllocate) {
  AddDevices();
  auto collector = Make();
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(Collect(*collector));
  if (!AllocationsAreCounted()) GTEST_SKIP() << "a sanitizer has its own operator new";
  writer_.Begin(clock_.Now());
  uint64_t before = ThreadAllocations();
  EXPECT_TRUE(collector->Collect(writer_));
  EXPECT_EQ(ThreadAllocations() - before, 0u);
}

TEST_F(KernelLogTest, OnlyCountsWithoutAnEventQueue) {
  env_.events = nullptr;
  auto collector = Make();
  Append("nvidia-nvswitch3: SXid (PCI:0000:86:00.0): 20034, Non-fatal, Link 30 x");
  ASSERT_TRUE(Collect(*collector));
  EXPECT_EQ(Value(kNvswitchSxidErrors, "non_fatal"), 1);
  EXPECT_THAT(queue_.Take(), IsEmpty());
}

}  // namespace
}  // namespace gpulens
