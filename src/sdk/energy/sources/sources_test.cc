#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>

#include <gtest/gtest.h>

#include "base/testing/temp_folder.h"
#include "sdk/energy/sources/system_sources.h"
#include "sdk/energy/sources/visible_devices.h"
#include "sources/amdsmi/simulated/fake_world.h"
#include "sources/nvml/simulated/fake_world.h"

namespace gpulens::sdk {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

TEST(VisibleDevices, ParsesListsLikeTheRuntimes) {
  const std::vector<VisibleName> four = {{"GPU-aaaa1111-0000", {}},
                                         {"GPU-aaaa2222-0000", {"MIG-1111-x", "MIG-2222-x"}},
                                         {"GPU-bbbb1111-0000", {}},
                                         {"GPU-cccc1111-0000", {"MIG-3333-x"}}};
  using List = std::vector<size_t>;
  auto of = [&](const char* text) {
    return VisibleDevices(text ? std::optional<std::string_view>(text) : std::nullopt, four);
  };
  EXPECT_EQ(of(nullptr), (List{0, 1, 2, 3}));
  EXPECT_EQ(of(""), List{});
  EXPECT_EQ(of("-1"), List{});
  EXPECT_EQ(of("2,0"), (List{2, 0}));
  EXPECT_EQ(of(" 1 , 1,3"), (List{1, 3}));
  EXPECT_EQ(of("0,4,1"), (List{0})) << "what names nothing ends the list";
  EXPECT_EQ(of("0,-1,1"), (List{0}));
  EXPECT_EQ(of("GPU-bbbb"), (List{2}));
  EXPECT_EQ(of("gpu-CCCC1111-0000"), (List{3}));
  EXPECT_EQ(of("GPU-aaaa"), List{}) << "two of them";
  EXPECT_EQ(of("GPU-"), List{});
  EXPECT_EQ(of("MIG-2222-x"), (List{1}));
  EXPECT_EQ(of("MIG-3333,MIG-1111"), (List{3, 1}));
  EXPECT_EQ(of("MIG-GPU-bbbb1111-0000/3/0"), (List{2}));
  EXPECT_EQ(of("NoDevFiles"), List{});
  EXPECT_EQ(of("99999999999999999999"), List{});
}

class NvmlEnergyTest : public ::testing::Test {
 protected:
  void SetUp() override { ::unsetenv("CUDA_VISIBLE_DEVICES"); }
  void TearDown() override { ::unsetenv("CUDA_VISIBLE_DEVICES"); }

  Result<std::vector<EnergyDevice>> Open(const std::string& profile) {
    Status status = nvml::FakeWorld::Get().Use(profile, &clock_);
    EXPECT_TRUE(status.ok()) << status.detail;
    source_ = std::make_unique<NvmlEnergy>(&nvml::FakeNvmlLookup, clock_);
    return source_->Open();
  }

  ManualClock clock_{{.boot_ns = 1'000'000'000'000, .unix_ns = 1'700'000'000'000'000'000}};
  std::unique_ptr<NvmlEnergy> source_;
};

TEST_F(NvmlEnergyTest, ReadsCounterAndPower) {
  auto devices =
      Open("model: H100\ngpus: 2\nload: {kind: constant, level: 0.5}\nprocesses: [{pid: 7, memory: 1GiB}]\n");
  ASSERT_TRUE(devices.ok()) << devices.error().detail;
  ASSERT_EQ(devices->size(), 2u);
  EXPECT_TRUE((*devices)[0].id.starts_with("GPU-"));
  EXPECT_NE((*devices)[0].id, (*devices)[1].id);
  EXPECT_NE((*devices)[0].name.find("H100"), std::string::npos);
  EXPECT_NEAR((*devices)[0].most_watts, 1050, 1);
  EXPECT_LT((*devices)[0].counter_lag.count(), 0) << "nobody knows how old its value is";
  EnergyReading first, second;
  ASSERT_TRUE(source_->Read(1, first).ok());
  clock_.Advance(seconds(10));
  ASSERT_TRUE(source_->Read(1, second).ok());
  EXPECT_GT(first.watts, 300);
  EXPECT_NEAR(second.joules - first.joules, 10 * first.watts, 1);
  EXPECT_NEAR(second.utilization_ratio, 0.5, 0.02);
  EXPECT_GE(second.memory_used_bytes, 1 << 30);
  EXPECT_EQ(second.processes, 1);
  EXPECT_GT(second.temperature_celsius, 20);
  EXPECT_EQ(source_->Doing(), "");
}

TEST_F(NvmlEnergyTest, QueriesSlowValuesRarely) {
  ASSERT_TRUE(Open("gpus: 1\n").ok());
  EnergyReading reading;
  ASSERT_TRUE(source_->Read(0, reading).ok());
  nvml::FakeWorld::Get().ForgetCalls();
  for (int i = 0; i < 20; ++i) {
    clock_.Advance(milliseconds(50));
    reading = {};
    ASSERT_TRUE(source_->Read(0, reading).ok());
    EXPECT_FALSE(std::isnan(reading.temperature_celsius));
  }
  EXPECT_EQ(nvml::FakeWorld::Get().Calls("nvmlDeviceGetTotalEnergyConsumption", 0), 20u);
  EXPECT_EQ(nvml::FakeWorld::Get().Calls("nvmlDeviceGetTemperature", 0), 10u);
}

TEST_F(NvmlEnergyTest, ReadsOnlyPowerBeforeVolta) {
  ASSERT_TRUE(
      Open("gpus: 1\nmissing: [nvmlDeviceGetTotalEnergyConsumption, nvmlDeviceGetFieldValues]\n").ok());
  EnergyReading reading;
  ASSERT_TRUE(source_->Read(0, reading).ok());
  EXPECT_TRUE(std::isnan(reading.joules));
  EXPECT_GT(reading.watts, 50);
  ASSERT_TRUE(Open("gpus: 1\nmissing: [nvmlDeviceGetTotalEnergyConsumption, nvmlDeviceGetFieldValues, "
                   "nvmlDeviceGetPowerUsage]\n")
                  .ok());
  EXPECT_FALSE(source_->Read(0, reading).ok());
}

TEST_F(NvmlEnergyTest, UsesOnlyVisibleDevices) {
  ::setenv("CUDA_VISIBLE_DEVICES", "2", 1);
  auto devices = Open("gpus: 4\n");
  ASSERT_TRUE(devices.ok());
  for (size_t i = 0; i < 4; ++i) EXPECT_EQ((*devices)[i].usable, i == 2);
  ::setenv("CUDA_VISIBLE_DEVICES", (*devices)[3].id.c_str(), 1);
  devices = Open("gpus: 4\n");
  for (size_t i = 0; i < 4; ++i) EXPECT_EQ((*devices)[i].usable, i == 3);
}

TEST_F(NvmlEnergyTest, ErrorsAreNotZeros) {
  ASSERT_TRUE(
      Open("gpus: 2\nerrors: [{gpu: 0, call: nvmlDeviceGetTotalEnergyConsumption, code: 15, from: 5}, "
           "{gpu: 0, call: nvmlDeviceGetFieldValues, code: 15, from: 5}]\n")
          .ok());
  EnergyReading reading;
  ASSERT_TRUE(source_->Read(0, reading).ok());
  clock_.Advance(seconds(10));
  reading = {};
  const Status lost = source_->Read(0, reading);
  EXPECT_FALSE(lost.ok());
  EXPECT_NE(lost.detail.find("nvmlDeviceGetTotalEnergyConsumption"), std::string::npos) << lost.detail;
  EXPECT_TRUE(std::isnan(reading.joules));
  EXPECT_TRUE(source_->Read(1, reading).ok());
}

TEST_F(NvmlEnergyTest, ReportsADriverThatDoesNotComeBack) {
  ASSERT_TRUE(Open("gpus: 1\n").ok());
  ASSERT_TRUE(nvml::FakeWorld::Get().Use("gpus: 1\nerrors: [{call: nvmlInit_v2, code: 9}]\n", &clock_).ok());
  ASSERT_FALSE(source_->Open().ok());
  EnergyReading reading;
  EnergyProcesses processes;
  EXPECT_EQ(source_->Read(0, reading).code, Code::kUnavailable);
  EXPECT_EQ(source_->Processes(0, processes).code, Code::kUnavailable);
}

TEST_F(NvmlEnergyTest, ReportsALostDriverAndAgent) {
  struct Agent final : EnergySource {
    std::string_view name() const noexcept override { return "agent"; }
    EnergyVendor vendor() const noexcept override { return EnergyVendor::kNvidia; }
    Result<std::vector<EnergyDevice>> Open() override {
      if (gone) return Status{Code::kUnavailable, "gone"};
      std::vector<EnergyDevice> one(1);
      one[0].id = "GPU-1";
      return one;
    }
    Status Read(size_t, EnergyReading&) override { return {}; }
    bool gone = false;
  };
  ASSERT_TRUE(nvml::FakeWorld::Get().Use("gpus: 1\nerrors: [{call: nvmlInit_v2, code: 9}]\n", &clock_).ok());
  const auto agent = std::make_shared<Agent>();
  OwnOrAgent source(std::make_shared<NvmlEnergy>(&nvml::FakeNvmlLookup, clock_), agent);
  EnergyReading reading;
  EnergyProcesses processes;
  ASSERT_TRUE(source.Open().ok());
  ASSERT_TRUE(source.Read(0, reading).ok());
  agent->gone = true;
  ASSERT_FALSE(source.Open().ok());
  EXPECT_EQ(source.Read(0, reading).code, Code::kUnavailable);
  EXPECT_EQ(source.Processes(0, processes).code, Code::kUnavailable);
}

TEST_F(NvmlEnergyTest, DistinguishesMissingLibraryAndPermission) {
  auto denied = Open("gpus: 1\nerrors: [{call: nvmlDeviceGetHandleByIndex_v2, code: 4}]\n");
  if (denied.ok()) {
    EXPECT_FALSE((*denied)[0].usable);
  } else {
    EXPECT_EQ(denied.error().code, Code::kPermissionDenied);
  }
}

class AmdEnergyTest : public ::testing::Test {
 protected:
  void SetUp() override { TearDown(); }
  void TearDown() override {
    for (const char* name : {"ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES"})
      ::unsetenv(name);
  }
  std::vector<EnergyDevice> Open(const std::string& profile) {
    Status status = amdsmi::FakeWorld::Get().Use(profile, &clock_);
    EXPECT_TRUE(status.ok()) << status.detail;
    source_ = std::make_unique<AmdEnergy>(&amdsmi::FakeAmdsmiLookup, clock_);
    auto devices = source_->Open();
    EXPECT_TRUE(devices.ok()) << devices.error().detail;
    return devices ? *devices : std::vector<EnergyDevice>();
  }
  static std::string Usable(const std::vector<EnergyDevice>& devices) {
    std::string out;
    for (const EnergyDevice& device : devices) out += device.usable ? 'x' : '.';
    return out;
  }

  ManualClock clock_{{.boot_ns = 1'000'000'000'000, .unix_ns = 1'700'000'000'000'000'000}};
  std::unique_ptr<AmdEnergy> source_;
};

TEST_F(AmdEnergyTest, ReadsAccumulatorAndPower) {
  const auto devices = Open("model: MI300X\ngpus: 2\nload: {level: 0.5}\n");
  ASSERT_EQ(devices.size(), 2u);
  EXPECT_NE(devices[0].id, devices[1].id);
  EXPECT_NEAR(devices[0].most_watts, 1125, 1);
  EnergyReading first, second;
  ASSERT_TRUE(source_->Read(1, first).ok());
  clock_.Advance(seconds(10));
  ASSERT_TRUE(source_->Read(1, second).ok());
  EXPECT_NEAR(second.joules - first.joules, 10 * first.watts, 10) << "the power is told in whole watts";
  EXPECT_GT(first.watts, 300);
  EXPECT_NEAR(second.utilization_ratio, 0.5, 0.02);
  EXPECT_GT(second.temperature_celsius, 20);
  EXPECT_EQ(source_->Doing(), "");
}

TEST_F(AmdEnergyTest, VisibleListsIndexTheRemainingDevices) {
  ::setenv("ROCR_VISIBLE_DEVICES", "3,1", 1);
  EXPECT_EQ(Usable(Open("model: MI300X\ngpus: 4\n")), ".x.x");
  ::setenv("HIP_VISIBLE_DEVICES", "1", 1);
  EXPECT_EQ(Usable(Open("model: MI300X\ngpus: 4\n")), ".x..");
  ::unsetenv("HIP_VISIBLE_DEVICES");
  ::setenv("CUDA_VISIBLE_DEVICES", "0", 1);
  EXPECT_EQ(Usable(Open("model: MI300X\ngpus: 4\n")), "...x");
}

class HwmonEnergyTest : public ::testing::Test {
 protected:
  void Write(const std::string& path, const std::string& text) {
    const std::string file = "sys/class/hwmon/" + path;
    std::filesystem::create_directories(std::filesystem::path(root_.path() + "/" + file).parent_path());
    root_.Write(file, text + "\n");
  }
  testing::TempFolder root_;
};

TEST_F(HwmonEnergyTest, ReadsPowerMetersOfGrace) {
  const char* labels[] = {"Module Power Socket 0", "Grace Power Socket 0", "CPU Power Socket 0",
                          "SysIO Power Socket 0"};
  for (int i = 0; i < 4; ++i) {
    const std::string chip = "hwmon" + std::to_string(i);
    Write(chip + "/name", "power_meter");
    Write(chip + "/device/power1_oem_info", labels[i]);
    Write(chip + "/device/power1_average", std::to_string((i + 1) * 100'000'000));
  }
  HwmonEnergy source(root_.path());
  auto devices = source.Open();
  ASSERT_TRUE(devices.ok()) << devices.error().detail;
  ASSERT_EQ(devices->size(), 1u) << "nothing twice";
  EXPECT_EQ((*devices)[0].part, EnergyPart::kCpu);
  EXPECT_EQ((*devices)[0].name, "Grace Power Socket 0");
  EnergyReading reading;
  ASSERT_TRUE(source.Read(0, reading).ok());
  EXPECT_NEAR(reading.watts, 200, 1e-9);
  EXPECT_TRUE(std::isnan(reading.joules));
  Write("hwmon1/device/power1_average", "-5");
  EXPECT_FALSE(source.Read(0, reading).ok());
}

TEST_F(HwmonEnergyTest, ReadsRailsOfJetson) {
  Write("hwmon3/name", "ina3221");
  const char* rails[] = {"VDD_GPU_SOC", "VDD_CPU_CV", "VIN_SYS_5V0"};
  for (int i = 1; i <= 3; ++i) {
    Write("hwmon3/in" + std::to_string(i) + "_label", rails[i - 1]);
    Write("hwmon3/in" + std::to_string(i) + "_input", "5000");
    Write("hwmon3/curr" + std::to_string(i) + "_input", std::to_string(i * 1000));
  }
  Write("hwmon4/name", "coretemp");
  HwmonEnergy source(root_.path());
  auto devices = source.Open();
  ASSERT_TRUE(devices.ok()) << devices.error().detail;
  ASSERT_EQ(devices->size(), 2u);
  EXPECT_EQ((*devices)[0].part, EnergyPart::kGpu);
  EXPECT_EQ((*devices)[1].part, EnergyPart::kCpu);
  EnergyReading reading;
  ASSERT_TRUE(source.Read(1, reading).ok());
  EXPECT_NEAR(reading.watts, 10, 1e-9);
  EXPECT_FALSE(PartOfRail("VDD_IN"));
  EXPECT_EQ(PartOfRail("VDD_SYS_DDR"), EnergyPart::kDram);
}

TEST_F(HwmonEnergyTest, IsUnavailableWithoutMeters) {
  HwmonEnergy source(root_.path());
  EXPECT_EQ(source.Open().status().code, Code::kUnavailable);
  Write("hwmon0/name", "power_meter");  // of a server: the whole machine
  EXPECT_EQ(source.Open().status().code, Code::kUnavailable);
}

// A machine where /proc numbers processes as the host does: pid 70 and its child 71 are others, 80 is ours.
struct ProcessWorld {
  explicit ProcessWorld(const char* space = "pid:[4026531836]") {
    const std::string proc = root.path() + "/proc";
    std::filesystem::create_directories(proc + "/self/ns");
    std::filesystem::create_symlink(space, proc + "/self/ns/pid");
    Add(70, 1);
    Add(80, static_cast<uint32_t>(::getpid()));
    Add(81, 80);
    Add(static_cast<uint32_t>(::getpid()), 1);
  }
  void Add(uint32_t pid, uint32_t parent) {
    std::string line = std::to_string(pid) + " (a) b) S " + std::to_string(parent);
    for (int i = 0; i < 40; ++i) line += " 7";
    std::filesystem::create_directories(root.path() + "/proc/" + std::to_string(pid));
    root.Write("proc/" + std::to_string(pid) + "/stat", line + "\n");
  }
  gpulens::testing::TempFolder root;
};

TEST(NvmlProcesses, ListsOurAndOtherProcesses) {
  ManualClock clock{{.boot_ns = 1'000'000'000'000, .unix_ns = 1'700'000'000'000'000'000}};
  const ProcessWorld world;
  ASSERT_TRUE(
      nvml::FakeWorld::Get()
          .Use("model: H100\ngpus: 2\nprocesses:\n"
               "  - {gpu: 0, pid: 70, memory: 3GiB, sm: 10}\n  - {gpu: 0, pid: 81, memory: 2GiB, sm: 30}\n"
               "  - {gpu: 0, pid: 99, memory: 1GiB, sm: 0, memory_use: 0}\n"
               "  - {gpu: 1, pid: 80, memory: 1GiB, type: graphics}\n",
               &clock)
          .ok());
  NvmlEnergy source(&nvml::FakeNvmlLookup, clock, world.root.path());
  ASSERT_TRUE(source.Open().ok());
  EnergyProcesses found;
  Status status = source.Processes(0, found);
  ASSERT_TRUE(status.ok()) << status.detail;
  ASSERT_EQ(found.list.size(), 3u);
  EXPECT_FALSE(found.since_last);
  EXPECT_EQ(found.list[0].pid, 70u);
  EXPECT_FALSE(found.list[0].own);
  EXPECT_DOUBLE_EQ(found.list[0].utilization_ratio, 0.1);
  EXPECT_TRUE(found.list[1].own) << "a child of a child";
  EXPECT_DOUBLE_EQ(found.list[1].utilization_ratio, 0.3);
  EXPECT_EQ(found.list[1].memory_used_bytes, 2.0 * (1 << 30));
  EXPECT_FALSE(found.list[2].own) << "it has ended";
  EXPECT_EQ(found.list[2].utilization_ratio, 0) << "idle, which the library tells by leaving it out";
  found = {};
  ASSERT_TRUE(source.Processes(1, found).ok());
  ASSERT_EQ(found.list.size(), 1u);
  EXPECT_TRUE(found.list[0].own);
}

TEST(NvmlProcesses, IsUnavailableInAnotherNamespace) {
  ManualClock clock{{.boot_ns = 1'000'000'000'000, .unix_ns = 1'700'000'000'000'000'000}};
  const ProcessWorld world("pid:[4026532999]");
  ASSERT_TRUE(nvml::FakeWorld::Get().Use("gpus: 1\nprocesses: [{pid: 80, memory: 1GiB}]\n", &clock).ok());
  NvmlEnergy source(&nvml::FakeNvmlLookup, clock, world.root.path());
  ASSERT_TRUE(source.Open().ok());
  EnergyProcesses found;
  EXPECT_EQ(source.Processes(0, found).code, gpulens::Code::kUnavailable);
}

TEST(NvmlProcesses, MembersRemainWhenTheirParentEnds) {
  ProcessWorld world;
  RunFamily family(world.root.path());
  const auto self = static_cast<uint32_t>(::getpid());
  EXPECT_TRUE(family.Has(81, self, ""));
  world.Add(81, 1);
  EXPECT_TRUE(family.Has(81, self, ""));
  EXPECT_FALSE(RunFamily(world.root.path()).Has(81, self, ""));
  EXPECT_FALSE(family.Has(70, self, "exp-1"));
  world.Add(72, 1);
  world.root.Write("proc/72/environ", std::string("A=b\0GPULENS_RUN_ID=exp-1\0C=d", 28));
  EXPECT_TRUE(family.Has(72, self, "exp-1"));
  EXPECT_FALSE(family.Has(72, self, "exp-12"));
  EXPECT_FALSE(family.Has(72, self, ""));
}

class RaplEnergyTest : public ::testing::Test {
 protected:
  void Zone(const std::string& zone, const std::string& name, uint64_t energy, uint64_t range = 1'000'000) {
    const std::string folder = "sys/class/powercap/" + zone + "/";
    std::filesystem::create_directories(root_.path() + "/" + folder);
    root_.Write(folder + "name", name + "\n");
    root_.Write(folder + "max_energy_range_uj", std::to_string(range) + "\n");
    Energy(zone, energy);
  }
  void Energy(const std::string& zone, uint64_t energy) {
    root_.Write("sys/class/powercap/" + zone + "/energy_uj", std::to_string(energy) + "\n");
  }
  double Joules(RaplEnergy& source, size_t device) {
    EnergyReading reading;
    const Status status = source.Read(device, reading);
    EXPECT_TRUE(status.ok()) << status.detail;
    return reading.joules;
  }

  testing::TempFolder root_;
};

TEST_F(RaplEnergyTest, ReadsAllPackagesAndMemoryOnce) {
  Zone("intel-rapl:0", "package-0", 500'000);
  Zone("intel-rapl:0:0", "core", 400'000);
  Zone("intel-rapl:0:1", "dram", 100'000);
  Zone("intel-rapl:1", "package-1", 1'000);
  Zone("intel-rapl:1:0", "uncore", 900);
  Zone("intel-rapl:1:1", "dram", 2'000);
  Zone("intel-rapl:2", "psys", 900'000);
  Zone("intel-rapl-mmio:0", "package-0", 500'000);
  RaplEnergy source(root_.path());
  auto devices = source.Open();
  ASSERT_TRUE(devices.ok()) << devices.error().detail;
  ASSERT_EQ(devices->size(), 4u);
  double before[4], gained[4] = {};
  for (size_t i = 0; i < 4; ++i) before[i] = Joules(source, i);
  Energy("intel-rapl:0", 600'000);
  Energy("intel-rapl:0:1", 120'000);
  Energy("intel-rapl:1", 5'000);
  Energy("intel-rapl:1:1", 3'000);
  double cpu = 0, dram = 0;
  for (size_t i = 0; i < 4; ++i) {
    gained[i] = Joules(source, i) - before[i];
    ((*devices)[i].part == EnergyPart::kCpu ? cpu : dram) += gained[i];
  }
  EXPECT_NEAR(cpu, 0.1 + 0.004, 1e-9);
  EXPECT_NEAR(dram, 0.02 + 0.001, 1e-9);
  EXPECT_NEAR(gained[0], 0.1, 1e-9);
}

TEST_F(RaplEnergyTest, WrapsAtItsRange) {
  Zone("intel-rapl:0", "package-0", 900'000);
  RaplEnergy source(root_.path());
  ASSERT_TRUE(source.Open().ok());
  const double before = Joules(source, 0);
  Energy("intel-rapl:0", 200'000);
  EXPECT_NEAR(Joules(source, 0) - before, 0.3, 1e-9);
}

TEST_F(RaplEnergyTest, ReportsAFailedReading) {
  Zone("intel-rapl:0", "package-0", 900'000);
  RaplEnergy source(root_.path());
  ASSERT_TRUE(source.Open().ok());
  root_.Write("sys/class/powercap/intel-rapl:0/energy_uj", "garbage\n");
  EnergyReading reading;
  EXPECT_EQ(source.Read(0, reading).code, Code::kDataLoss);
  EXPECT_TRUE(std::isnan(reading.joules));
}

TEST_F(RaplEnergyTest, DistinguishesAbsentAndForbidden) {
  RaplEnergy none(root_.path());
  auto absent = none.Open();
  ASSERT_FALSE(absent.ok());
  EXPECT_EQ(absent.error().code, Code::kUnavailable);
  Zone("intel-rapl:0", "psys", 5);
  absent = none.Open();
  ASSERT_FALSE(absent.ok());
  EXPECT_EQ(absent.error().code, Code::kUnavailable);
  Zone("intel-rapl:1", "package-0", 5);
  std::filesystem::permissions(root_.path() + "/sys/class/powercap/intel-rapl:1/energy_uj",
                               std::filesystem::perms::none);
  std::filesystem::permissions(root_.path(), std::filesystem::perms::all);
  // Root may read everything, so a child with another user reads.
  const pid_t child = ::fork();
  if (child == 0) {
    if (::geteuid() == 0 && ::setuid(65534) != 0) ::_exit(100);
    ::_exit(static_cast<int>(none.Open().status().code));
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), static_cast<int>(Code::kPermissionDenied));
}

}  // namespace
}  // namespace gpulens::sdk
