// GpuReader against the simulated library, in this process.
#include "sources/nvml/reader/gpu_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "sources/nvml/reader/reader_for_test.h"

namespace gpulens::nvml {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

struct ModelCase {
  const char* key;
  const char* name;
  const char* architecture;
  int64_t memory_mib, limit_mw, links;
  bool hbm, mig;
};

class EveryModel : public ReaderTest, public testing::WithParamInterface<ModelCase> {};

TEST_P(EveryModel, IsReadWhole) {
  const ModelCase& model = GetParam();
  Use(std::string("model: ") + model.key +
          "\ngpus: 4\nload: {kind: constant, level: 0.5}\nprocesses: [{pid: 7, memory: 2GiB}]\n",
      2);
  EXPECT_EQ(Fact("name"), model.name);
  EXPECT_EQ(Fact("architecture"), model.architecture);
  EXPECT_EQ(Fact("index"), "2");
  EXPECT_EQ(Fact("minor"), "2");
  EXPECT_EQ(Fact("pci_bus_id"), "0000:3c:00.0");
  EXPECT_EQ(Fact("nvlink_links"), std::to_string(model.links));
  EXPECT_EQ(Fact("mig_mode"), model.mig ? "disabled" : "");
  EXPECT_THAT(Fact("uuid"), testing::StartsWith("GPU-"));
  ASSERT_TRUE(Round());
  clock_.Advance(seconds(1));
  ASSERT_TRUE(Round());  // NVLink 5 is queried per link from the second round on.
  EXPECT_EQ(Value(Field::kUtilizationGpu), 50);
  EXPECT_EQ(Value(Field::kUtilizationMemory), 30);
  EXPECT_EQ(Value(Field::kMemoryTotal), model.memory_mib << 20);
  EXPECT_EQ(Value(Field::kMemoryUsed), int64_t{2} << 30);
  EXPECT_EQ(Value(Field::kMemoryUsed) + Value(Field::kMemoryFree) + Value(Field::kMemoryReserved),
            Value(Field::kMemoryTotal));
  EXPECT_GT(Value(Field::kPower), 20'000);
  EXPECT_LE(Value(Field::kPower), model.limit_mw);
  EXPECT_EQ(Value(Field::kPower), Value(Field::kPowerInstant));
  EXPECT_GT(Value(Field::kTemperature), 30);
  EXPECT_EQ(StatusOf(Field::kTemperatureMemory), model.hbm ? ReadStatus::kOk : ReadStatus::kNever);
  EXPECT_GT(Value(Field::kClockGraphics), 500);
  EXPECT_EQ(Value(Field::kClockSm), Value(Field::kClockGraphics));
  EXPECT_GT(Value(Field::kClockMemory), 1000);
  EXPECT_EQ(Value(Field::kPerformanceState), 0);
  EXPECT_EQ(Value(Field::kClockEventReasons), 0);
  EXPECT_EQ(Value(Field::kProcessCount), 1);
  EXPECT_EQ(reader_->processes()[0].pid, 9U);
  EXPECT_EQ(reader_->processes()[0].memory_used, uint64_t{2} << 30);
  EXPECT_EQ(StatusOf(Field::kNvlinkTxBytes), model.links ? ReadStatus::kOk : ReadStatus::kNever);
  // What is slow comes in the first round only.
  EXPECT_FALSE(Has(Field::kPowerLimitEnforced));
  EXPECT_FALSE(Has(Field::kEccCorrected));
}

INSTANTIATE_TEST_SUITE_P(
    Models, EveryModel,
    testing::Values(ModelCase{"A100", "NVIDIA A100-SXM4-40GB", "ampere", 40960, 400'000, 12, true, true},
                    ModelCase{"H100", "NVIDIA H100 80GB HBM3", "hopper", 81559, 700'000, 18, true, true},
                    ModelCase{"H200", "NVIDIA H200", "hopper", 143771, 700'000, 18, true, true},
                    ModelCase{"B200", "NVIDIA B200", "blackwell", 183359, 1'000'000, 18, true, true},
                    ModelCase{"GB200", "NVIDIA GB200", "blackwell", 189471, 1'200'000, 18, true, true},
                    ModelCase{"L4", "NVIDIA L4", "ada-lovelace", 23034, 72'000, 0, false, false}),
    [](const auto& test) { return test.param.key; });

TEST_F(ReaderTest, TiersHaveTheirPeriods) {
  Use("gpus: 1\n");
  Round();
  EXPECT_TRUE(Has(Field::kEccCorrected));
  EXPECT_TRUE(Has(Field::kPowerLimitEnforced));
  EXPECT_EQ(Value(Field::kPowerLimitEnforced), 700'000);
  EXPECT_EQ(Value(Field::kPowerLimitMin), 200'000);
  EXPECT_EQ(Value(Field::kNvlinkTotal), 18);
  EXPECT_EQ(Value(Field::kNvlinkActive), 18);
  int fast = 0, medium = 0, slow = 0;
  for (int second = 1; second <= 60; ++second) {
    // As a real timer: never quite on the second.
    clock_.Advance(seconds(1) + milliseconds(second % 2 ? -3 : 3));
    Round();
    fast += Has(Field::kPower);
    medium += Has(Field::kEccCorrected);
    slow += Has(Field::kPowerLimitEnforced);
  }
  EXPECT_EQ(fast, 60);
  EXPECT_EQ(medium, 6);
  EXPECT_EQ(slow, 1);
}

TEST_F(ReaderTest, UnsupportedFieldsAreQueriedOnce) {
  Use("model: L4\ngpus: 1\n");
  for (int second = 0; second < 65; ++second) {
    Round();
    clock_.Advance(seconds(1));
  }
  EXPECT_EQ(Calls("nvmlDeviceGetMigMode"), 2U);  // Identity, and the reading.
  EXPECT_EQ(Calls("nvmlDeviceGetRetiredPages_v2"), 1U);
  EXPECT_EQ(Calls("nvmlDeviceGetRetiredPagesPendingStatus"), 1U);
  EXPECT_EQ(Calls("nvmlDeviceGetNvLinkState"), 0U);
  EXPECT_EQ(Calls("nvmlDeviceGetPowerUsage"), 65U);
  // Attached again, for whatever reason, it is queried again.
  ASSERT_EQ(reader_->Attach(), 0);
  Round();
  EXPECT_EQ(Calls("nvmlDeviceGetRetiredPages_v2"), 2U);
  EXPECT_EQ(StatusOf(Field::kRetiredSingleBit), ReadStatus::kNotSupported);
}

TEST_F(ReaderTest, ASteadyRoundQueriesOneBatchOfFields) {
  Use("gpus: 1\n");
  Round();
  FakeWorld::Get().ForgetCalls();
  clock_.Advance(seconds(1));
  Round();
  EXPECT_EQ(Calls("nvmlDeviceGetFieldValues"), 1U);
}

TEST_F(ReaderTest, EnergyIsTheIntegralOfPower) {
  Use("gpus: 1\nload: {kind: sine, level: 0.5, amplitude: 0.4, period: 7}\n");
  Round();
  int64_t before = Value(Field::kEnergy);
  double joules = 0;
  for (int step = 0; step < 100; ++step) {
    clock_.Advance(seconds(1));
    Round();
    joules += static_cast<double>(Value(Field::kPower)) / 1000;  // The mean of the last second.
  }
  EXPECT_NEAR(static_cast<double>(Value(Field::kEnergy) - before) / 1000, joules, 1);
}

TEST_F(ReaderTest, NvlinkCountersGrowWithTheLoad) {
  for (const char* model : {"H100", "B200"}) {
    Use(std::string("model: ") + model +
        "\ngpus: 1\nnvlink_share: 0.5\nload: {kind: constant, level: 0.8}\n");
    for (int i = 0; i < 3; ++i) {
      clock_.Advance(seconds(1));
      Round();
    }
    int64_t before = Value(Field::kNvlinkTxBytes);
    clock_.Advance(seconds(1));
    Round();
    double link = model[0] == 'H' ? 26562e6 : 53125e6;
    EXPECT_NEAR(static_cast<double>(Value(Field::kNvlinkTxBytes) - before), 0.4 * 18 * link, 1e6) << model;
    EXPECT_LT(Value(Field::kNvlinkRxBytes), Value(Field::kNvlinkTxBytes));
  }
}

TEST_F(ReaderTest, ALinkThatGoesDownDoesNotMakeTheSumFall) {
  Use("model: B200\ngpus: 1\nload: {kind: constant, level: 0.8}\nfaults: [{counter: links_down, amount: 2, "
      "from: 4}]\n");
  int64_t last = 0;
  for (int i = 0; i < 11; ++i) {
    clock_.Advance(seconds(1));
    Round();
    if (i > 0) {
      EXPECT_GT(Value(Field::kNvlinkTxBytes), last);
      last = Value(Field::kNvlinkTxBytes);
    }
  }
  EXPECT_EQ(Value(Field::kNvlinkActive), 16);
}

TEST_F(ReaderTest, PcieFromCountersWhereThereAreSome) {
  Use("gpus: 1\nload: {kind: constant, level: 1}\n");
  Round();
  EXPECT_EQ(StatusOf(Field::kPcieTxBytes), ReadStatus::kOk);
  EXPECT_TRUE(reader_->ReadBlocking());
  EXPECT_EQ(reader_->readings()[0].status, ReadStatus::kNotSupported);
  EXPECT_EQ(Calls("nvmlDeviceGetPcieThroughput"), 0U);
}

TEST_F(ReaderTest, PcieByTheBlockingCallElse) {
  Use("gpus: 1\npcie_counters: false\nload: {kind: constant, level: 1}\n");
  Round();
  EXPECT_EQ(StatusOf(Field::kPcieTxBytes), ReadStatus::kNotSupported);
  ASSERT_TRUE(reader_->ReadBlocking());
  ASSERT_EQ(reader_->readings().size(), 2U);
  EXPECT_EQ(reader_->readings()[1].status, ReadStatus::kOk);
  EXPECT_EQ(Calls("nvmlDeviceGetPcieThroughput"), 2U);
  clock_.Advance(seconds(1));
  Round();
  EXPECT_FALSE(reader_->ReadBlocking());  // Each 10 s only.
}

int NarrowFieldValues(Device device, int count, FieldValue* values) {
  int code = reinterpret_cast<int (*)(Device, int, FieldValue*)>(FakeNvmlLookup("nvmlDeviceGetFieldValues"))(
      device, count, values);
  for (int i = 0; i < count; ++i) {
    bool pcie = values[i].field_id == kFiPcieTxBytes || values[i].field_id == kFiPcieRxBytes;
    if (pcie) values[i].value.ull_value &= UINT32_MAX;
  }
  return code;
}

void* NarrowLookup(const char* name) {
  if (std::string_view(name) == "nvmlDeviceGetFieldValues")
    return reinterpret_cast<void*>(&NarrowFieldValues);
  return FakeNvmlLookup(name);
}

TEST_F(ReaderTest, APcieCounterThatGoesRoundIsGivenUp) {
  Use("gpus: 1\nload: {kind: constant, level: 1}\npcie_share: 0.05\n");
  library_ = std::make_unique<NvmlLibrary>(*NvmlLibrary::FromLookup(NarrowLookup, "narrow"));
  reader_ = std::make_unique<GpuReader>(*library_, 0, slot_, clock_, options_);
  ASSERT_EQ(reader_->Attach(), 0);
  for (int i = 0; i < 40 && StatusOf(Field::kPcieRxBytes) != ReadStatus::kNotSupported; ++i) {
    Round();
    EXPECT_TRUE(Has(Field::kPcieRxBytes));
    clock_.Advance(milliseconds(500));
  }
  EXPECT_EQ(StatusOf(Field::kPcieRxBytes), ReadStatus::kNotSupported);
  clock_.Advance(seconds(10));
  Round();
  EXPECT_FALSE(Has(Field::kPcieTxBytes));
  ASSERT_TRUE(reader_->ReadBlocking());
  EXPECT_EQ(reader_->readings()[0].status, ReadStatus::kOk);
}

TEST_F(ReaderTest, FaultsAreCounted) {
  Use("gpus: 2\nfaults:\n"
      "  - {gpu: 1, counter: ecc_corrected, amount: 5}\n"
      "  - {gpu: 1, counter: ecc_uncorrected, amount: 1, from: 30}\n"
      "  - {gpu: 1, counter: remapped_uncorrectable}\n"
      "  - {gpu: 1, counter: remapped_correctable, amount: 2}\n"
      "  - {gpu: 1, counter: remap_pending}\n"
      "  - {gpu: 0, counter: remap_failure}\n"
      "  - {gpu: 1, counter: pcie_replay, amount: 9}\n"
      "throttle: [{gpu: 1, mask: 0x60, from: 0, for: 8}]\n",
      1);
  Round();
  EXPECT_EQ(Value(Field::kEccCorrected), 5);
  EXPECT_EQ(Value(Field::kEccUncorrected), 0);
  EXPECT_EQ(Value(Field::kEccMode), 1);
  EXPECT_EQ(Value(Field::kRemappedCorrectable), 2);
  EXPECT_EQ(Value(Field::kRemappedUncorrectable), 1);
  EXPECT_EQ(Value(Field::kRemapPending), 1);
  EXPECT_EQ(Value(Field::kRemapFailure), 0);
  EXPECT_EQ(Value(Field::kPcieReplay), 9);
  EXPECT_EQ(Value(Field::kClockEventReasons) & 0x60, 0x60);
  EXPECT_EQ(Value(Field::kBar1Total), int64_t{131072} << 20);
  EXPECT_EQ(Value(Field::kPcieMaxLinkGen), 5);
  EXPECT_EQ(Value(Field::kPcieLinkWidth), 16);
  EXPECT_EQ(Value(Field::kPersistenceMode), 1);
  clock_.Advance(seconds(31));
  Round();
  EXPECT_EQ(Value(Field::kEccUncorrected), 1);
  EXPECT_EQ(Value(Field::kThrottleTimeSwThermal), 8'000'000'000);
  EXPECT_EQ(Value(Field::kThrottleTimeBrake), 0);
}

TEST_F(ReaderTest, ThrottleTimesHaveTheNumbersOfTheirDriver) {
  const std::string machine =
      "gpus: 1\nload: {kind: constant, level: 0.5}\n"
      "throttle: [{gpu: 0, mask: 0xA0, from: 0}]\n";
  auto read = [&](const char* version, unsigned major) {
    options_.driver_major = major;
    Use(machine + "driver_version: " + version + "\n");
    Round();
    clock_.Advance(seconds(10));
    Round();
  };
  for (auto [version, major] : {std::pair("580.95.05", 580U), std::pair("570.86.10", 570U)}) {
    read(version, major);
    EXPECT_EQ(Value(Field::kThrottleTimeSwThermal), 10'000'000'000) << version;
    EXPECT_EQ(Value(Field::kThrottleTimeHwThermal), 0) << version;
    EXPECT_EQ(Value(Field::kThrottleTimeBrake), 10'000'000'000) << version;
  }
  options_.driver_major = 550;
  Use(machine + "driver_version: 550.54.15\n");
  Round();
  EXPECT_EQ(StatusOf(Field::kThrottleTimeSwThermal), ReadStatus::kNotSupported) << "the driver has none";
}

TEST_F(ReaderTest, RetiredPagesBeforeRowRemapping) {
  Use("gpus: 1\nremapped_rows: false\nfaults: [{counter: retired_double_bit, amount: 3}]\n");
  Round();
  EXPECT_EQ(StatusOf(Field::kRemappedCorrectable), ReadStatus::kNotSupported);
  EXPECT_EQ(Value(Field::kRetiredSingleBit), 0);
  EXPECT_EQ(Value(Field::kRetiredDoubleBit), 3);
  EXPECT_EQ(Value(Field::kRetiredPending), 0);
}

TEST_F(ReaderTest, EccOffIsAbsentNotZero) {
  Use("gpus: 1\necc: false\n");
  Round();
  EXPECT_EQ(StatusOf(Field::kEccCorrected), ReadStatus::kNotSupported);
  EXPECT_EQ(Value(Field::kEccMode), 0);
}

TEST_F(ReaderTest, FansWhereThereAreSome) {
  Use("model: L4\ngpus: 1\nfans: 2\nload: {kind: constant, level: 0.2}\n");
  Round();
  EXPECT_EQ(Value(Field::kFanSpeedMean), 42);
  EXPECT_EQ(Value(Field::kFanSpeedMax), 44);
  Use("model: L4\ngpus: 1\nfans: 2\nmissing: [nvmlDeviceGetFanSpeed_v2]\nload: {kind: constant, level: "
      "0.2}\n");
  Round();
  EXPECT_EQ(Value(Field::kFanSpeedMax), 40);
}

TEST_F(ReaderTest, AnOldLibraryIsReadByItsOldFunctions) {
  Use("gpus: 1\nmemory_v2: false\nprocesses: [{pid: 5, memory: 1GiB}, {pid: 6, type: graphics, memory: "
      "1GiB}]\n"
      "missing: [nvmlInit_v2, nvmlDeviceGetCount_v2, nvmlDeviceGetHandleByIndex_v2, "
      "nvmlDeviceGetPciInfo_v3,\n"
      "  nvmlDeviceGetTemperatureV, nvmlDeviceGetCurrentClocksEventReasons, nvmlDeviceGetNumFans,\n"
      "  nvmlDeviceGetComputeRunningProcesses_v3, nvmlDeviceGetComputeRunningProcesses_v2,\n"
      "  nvmlDeviceGetGraphicsRunningProcesses_v3]\n");
  EXPECT_EQ(Fact("pci_bus_id"), "0000:1a:00.0");
  Round();
  EXPECT_EQ(Value(Field::kMemoryUsed), (int64_t{2} << 30) + (int64_t{479} << 20));  // With what is reserved.
  EXPECT_EQ(StatusOf(Field::kMemoryReserved), ReadStatus::kNotSupported);
  EXPECT_GT(Value(Field::kTemperature), 20);
  EXPECT_EQ(Value(Field::kClockEventReasons), 1);
  EXPECT_EQ(StatusOf(Field::kFanSpeedMax), ReadStatus::kNotSupported);
  ASSERT_EQ(reader_->processes().size(), 2U);
  EXPECT_EQ(reader_->processes()[0].gpu_instance, GpuProcess::kNoInstance);
  EXPECT_EQ(reader_->processes()[1].type, ProcessType::kGraphics);
  clock_.Advance(seconds(1));
  FakeWorld::Get().ForgetCalls();
  Round();
  EXPECT_EQ(Calls("nvmlDeviceGetMemoryInfo_v2"), 0U);
}

TEST_F(ReaderTest, DriverSeries535KeepsToTheSecondVersion) {
  options_.avoid_process_v3 = true;
  Use("gpus: 1\n");
  Round();
  EXPECT_EQ(Calls("nvmlDeviceGetComputeRunningProcesses_v3"), 0U);
  EXPECT_EQ(Calls("nvmlDeviceGetComputeRunningProcesses_v2"), 1U);
}

TEST_F(ReaderTest, AProcessInTwoListsCountsOnce) {
  Use("gpus: 1\nprocesses: [{gpu: 0, pid: 5, memory: 1GiB}, {gpu: 0, pid: 5, type: graphics, memory: 1GiB}, "
      "{gpu: 0, pid: 5, type: mps}]\n");
  Round();
  ASSERT_EQ(reader_->processes().size(), 1U);
  EXPECT_EQ(reader_->processes()[0].type, ProcessType::kCompute);
}

TEST_F(ReaderTest, ManyProcesses) {
  std::string yaml = "gpus: 1\nprocesses:\n";
  for (int i = 0; i < 100; ++i) yaml += "  - {gpu: 0, pid: " + std::to_string(100 + i) + ", memory: 1MiB}\n";
  Use(yaml);
  Round();
  EXPECT_EQ(reader_->processes().size(), 100U);
}

TEST_F(ReaderTest, MigTurnsUtilizationOff) {
  Use("gpus: 1\nmig: true\nprocesses: [{pid: 5, memory: 1GiB}]\n");
  EXPECT_EQ(Fact("mig_mode"), "enabled");
  Round();
  EXPECT_EQ(Value(Field::kMigMode), 1);
  EXPECT_EQ(StatusOf(Field::kUtilizationGpu), ReadStatus::kNotSupported);
  EXPECT_EQ(reader_->processes()[0].gpu_instance, 1U);
  // The mode changes: the reader requests to be attached again, and then finds the rest.
  ASSERT_TRUE(FakeWorld::Get().Use("gpus: 1\n", &clock_).ok());
  clock_.Advance(seconds(60));
  EXPECT_FALSE(Round());
  ASSERT_EQ(reader_->Attach(), 0);
  EXPECT_TRUE(Round());
  EXPECT_EQ(StatusOf(Field::kUtilizationGpu), ReadStatus::kOk);
}

TEST_F(ReaderTest, CoherentMemoryIsUnified) {
  Use("model: GB200\ngpus: 1\nprocesses: [{pid: 5, memory: 8GiB}]\n");
  EXPECT_EQ(Fact("addressing_mode"), "ats");
  Round();
  EXPECT_EQ(Value(Field::kUnifiedTotal), Value(Field::kMemoryTotal));
  EXPECT_EQ(Value(Field::kUnifiedUsed), int64_t{8} << 30);
  Use("model: H100\ngpus: 1\n");
  Round();
  EXPECT_EQ(StatusOf(Field::kUnifiedTotal), ReadStatus::kNotSupported);
}

TEST_F(ReaderTest, UnifiedMemoryOfANumaNode) {
  std::filesystem::path root = testing::TempDir() + "nvml_reader_sys";
  std::filesystem::create_directories(root / "devices/system/node/node16");
  options_.sysfs = root.string();
  std::string yaml = "model: GB200\ngpus: 1\nunified_only: true\nnuma_node: 16\n";
  Use(yaml);
  Round();
  EXPECT_EQ(StatusOf(Field::kUnifiedTotal), ReadStatus::kNotSupported);
  auto file = root / "devices/system/node/node16/meminfo";
  std::ofstream(file) << "Node 16 MemTotal:   1000 kB\nNode 16 MemFree:   400 kB\nNode 16 MemUsed: 600 kB\n";
  Use(yaml);
  EXPECT_EQ(Fact("numa_node"), "16");
  Round();
  EXPECT_EQ(Value(Field::kUnifiedTotal), 1000 * 1024);
  EXPECT_EQ(Value(Field::kUnifiedUsed), 600 * 1024);
  EXPECT_EQ(StatusOf(Field::kMemoryTotal), ReadStatus::kNotSupported);
  for (const char* bad :
       {"", "Node 16 MemTotal: 5 kB\nNode 16 MemFree: 9 kB\n", "MemTotal: x\nMemFree: -1 kB\n"}) {
    std::ofstream(file) << bad;
    Use(yaml);
    Round();
    EXPECT_EQ(StatusOf(Field::kUnifiedTotal), ReadStatus::kNotSupported) << bad;
  }
  std::filesystem::remove_all(root);
}

// DGX Spark, Jetson: whatever the library answers, the memory is the machine's, and nothing of it is the
// GPU's own.
TEST_F(ReaderTest, MemoryOfAGpuThatHasNoneIsTheMachines) {
  std::filesystem::path root = testing::TempDir() + "nvml_reader_proc";
  std::filesystem::create_directories(root);
  options_.procfs = root.string();
  for (const char* way : {"unified_only: true\n", ""}) {
    const std::string yaml = std::string("model: GB10\ngpus: 1\nprocesses: [{pid: 5, memory: 8GiB}]\n") + way;
    std::ofstream(root / "meminfo") << "MemTotal:       125512345 kB\nMemFree:         1000000 kB\n"
                                       "MemAvailable:   100512345 kB\nBuffers: 5 kB\n";
    Use(yaml);
    EXPECT_EQ(Fact("name"), "NVIDIA GB10");
    Round();
    EXPECT_EQ(Value(Field::kUnifiedTotal), int64_t{125512345} * 1024) << way;
    EXPECT_EQ(Value(Field::kUnifiedUsed), int64_t{25000000} * 1024) << way;
    for (Field field : {Field::kMemoryTotal, Field::kMemoryUsed, Field::kMemoryFree, Field::kMemoryReserved,
                        Field::kBar1Total, Field::kEccMode})
      EXPECT_EQ(StatusOf(field), ReadStatus::kNotSupported) << InfoOf(field).name << way;
    std::filesystem::remove(root / "meminfo");
    Use(yaml);
    Round();
    // Without the kernel's word the library's holds, if it has one.
    EXPECT_EQ(StatusOf(Field::kUnifiedTotal), *way ? ReadStatus::kNotSupported : ReadStatus::kOk);
    EXPECT_EQ(StatusOf(Field::kMemoryTotal), ReadStatus::kNotSupported);
  }
  std::filesystem::remove_all(root);
}

TEST_F(ReaderTest, ErrorsOfOneCallStayThere) {
  Use("gpus: 1\nerrors:\n"
      "  - {call: nvmlDeviceGetPowerUsage, code: 999, nth: 2}\n"
      "  - {call: nvmlDeviceGetTotalEnergyConsumption, code: 4}\n"
      "  - {call: nvmlDeviceGetPerformanceState, code: 6}\n"
      "  - {call: nvmlDeviceGetComputeRunningProcesses_v3, code: 4}\n");
  EXPECT_TRUE(Round());
  EXPECT_EQ(StatusOf(Field::kPower), ReadStatus::kOk);
  EXPECT_EQ(StatusOf(Field::kEnergy), ReadStatus::kNoPermission);
  EXPECT_EQ(StatusOf(Field::kPerformanceState), ReadStatus::kNotFound);
  EXPECT_EQ(StatusOf(Field::kProcessCount), ReadStatus::kNoPermission);
  EXPECT_FALSE(reader_->has_processes());
  clock_.Advance(seconds(1));
  EXPECT_TRUE(Round());
  EXPECT_EQ(StatusOf(Field::kPower), ReadStatus::kError);
  EXPECT_FALSE(Has(Field::kEnergy));  // A call without permission is made again each minute.
  clock_.Advance(seconds(60));
  Round();
  EXPECT_EQ(StatusOf(Field::kPower), ReadStatus::kOk);
  EXPECT_EQ(StatusOf(Field::kEnergy), ReadStatus::kNoPermission);
}

// What a driver answers for a moment while it recovers is not believed for ever.
TEST_F(ReaderTest, FieldsThatWorkedBeforeAreQueriedAgainSoon) {
  for (int code : {3, 2, 13, 25}) {
    Use("gpus: 1\nerrors: [{call: nvmlDeviceGetPowerUsage, code: " + std::to_string(code) +
        ", from: 2, to: 5}, {call: nvmlDeviceGetFieldValues, code: " + std::to_string(code) +
        ", from: 2, to: 5}, {call: nvmlDeviceGetMemoryInfo_v2, code: " + std::to_string(code) +
        ", from: 2, to: 5}, {call: nvmlDeviceGetProcessesUtilizationInfo, code: 3, from: 2, to: 5}]\n");
    std::map<Field, int> last;
    for (int second = 0; second < 12; ++second) {
      Round();
      for (const auto& [field, reading] : latest_) {
        if (reading.status == ReadStatus::kOk) last[field] = second;
      }
      if (second == 3) {
        EXPECT_NE(StatusOf(Field::kPower), ReadStatus::kOk) << code;
        EXPECT_NE(StatusOf(Field::kMemoryReserved), ReadStatus::kOk) << code;
      }
      clock_.Advance(seconds(1));
    }
    for (Field field : {Field::kPower, Field::kPowerInstant, Field::kMemoryReserved, Field::kNvlinkTxBytes})
      EXPECT_EQ(last[field], 11) << InfoOf(field).name << " after code " << code;
  }
}

TEST_F(ReaderTest, UnsupportedFieldsAreQueriedEachHour) {
  Use("gpus: 1\nerrors: [{call: nvmlDeviceGetPowerUsage, code: 3, to: 7000}]\n");
  for (int minute = 0; minute < 121; ++minute) {
    Round();
    EXPECT_EQ(Has(Field::kPower) && StatusOf(Field::kPower) == ReadStatus::kOk, minute == 120) << minute;
    clock_.Advance(seconds(60));
  }
  EXPECT_EQ(Calls("nvmlDeviceGetPowerUsage"), 3U);
}

// Three seconds of an error take no more than those seconds from what is read each minute.
TEST_F(ReaderTest, SlowReadingsThatFailedAreRetriedEarly) {
  Use("gpus: 1\nerrors: [{call: '*', code: 999, from: 58, to: 63}]\n");
  std::map<Field, int> last, before;
  std::map<std::pair<uint8_t, LinkField>, int> last_of_link, before_of_link;
  for (int second = 0; second < 72; ++second) {
    if (second == 58) before = last, before_of_link = last_of_link;
    Round();
    for (const auto& [field, reading] : latest_) {
      if (reading.status == ReadStatus::kOk) last[field] = second;
    }
    for (const auto& [link, reading] : links_) {
      if (reading.status == ReadStatus::kOk) last_of_link[link] = second;
    }
    clock_.Advance(seconds(1));
  }
  EXPECT_GT(before.size(), 60U);
  EXPECT_GT(before_of_link.size(), 60U);
  for (const auto& [field, second] : before) EXPECT_GE(last[field], 60) << InfoOf(field).name;
  for (const auto& [link, second] : before_of_link)
    EXPECT_GE(last_of_link[link], 60) << int{link.first} << " " << LinkFieldName(link.second);
}

TEST_F(ReaderTest, ALostGpuEndsTheRound) {
  Use("gpus: 1\nerrors: [{call: nvmlDeviceGetPowerUsage, code: 15, from: 1}]\n");
  EXPECT_TRUE(Round());
  clock_.Advance(seconds(1));
  FakeWorld::Get().ForgetCalls();
  EXPECT_FALSE(Round());
  EXPECT_EQ(StatusOf(Field::kPower), ReadStatus::kLost);
  EXPECT_EQ(StatusOf(Field::kClockGraphics), ReadStatus::kLost);
  EXPECT_EQ(StatusOf(Field::kNvlinkTxBytes), ReadStatus::kLost);
  EXPECT_EQ(StatusOf(Field::kProcessCount), ReadStatus::kLost);
  EXPECT_EQ(Calls("nvmlDeviceGetClockInfo"), 0U);
  EXPECT_FALSE(reader_->ReadBlocking());
}

TEST_F(ReaderTest, WithoutFieldValues) {
  Use("gpus: 1\nerrors: [{call: nvmlDeviceGetFieldValues, code: 3}]\n");
  EXPECT_EQ(Fact("nvlink_links"), "");
  Round();
  EXPECT_EQ(StatusOf(Field::kPowerInstant), ReadStatus::kNotSupported);
  clock_.Advance(seconds(1));
  Round();
  EXPECT_EQ(Calls("nvmlDeviceGetFieldValues"), 2U);
}

}  // namespace
}  // namespace gpulens::nvml
