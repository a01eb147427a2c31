// Items of a board that are not common readings, its links and its samples: GpuReader against the
// simulated library of every generation.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "sources/nvml/reader/reader_for_test.h"

namespace gpulens::nvml {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using F = Field;

constexpr const char* kBusy = "gpus: 2\nload: {kind: constant, level: 0.5}\n";

std::string Of(const std::string& model) { return "model: " + model + "\n" + kBusy; }

using ItemsTest = ReaderTest;

TEST_F(ItemsTest, ABusyH100ReportsAllItems) {
  Use(Of("H100"));
  ASSERT_TRUE(Round());
  EXPECT_EQ(Value(F::kUtilizationJpeg), 0);
  EXPECT_EQ(Value(F::kUtilizationOfa), 0);
  EXPECT_EQ(Value(F::kPowerAverage), Value(F::kPower));
  EXPECT_GT(Value(F::kPowerMemory), 0);
  EXPECT_LT(Value(F::kPowerMemory), Value(F::kPower));
  EXPECT_EQ(StatusOf(F::kPowerModule), ReadStatus::kNotSupported);
  EXPECT_EQ(StatusOf(F::kTemperatureShutdown), ReadStatus::kNotSupported);
  EXPECT_EQ(Value(F::kTemperatureMargin), 87 - Value(F::kTemperature));
  EXPECT_EQ(Value(F::kMarginShutdown), -8) << "below zero, and signed";
  EXPECT_EQ(Value(F::kMarginSlowdown), -2);
  EXPECT_EQ(Value(F::kMarginGpuMax), 0);
  EXPECT_EQ(Value(F::kClockMaxSm), 1980);
  EXPECT_EQ(Value(F::kClockApplicationMemory), 2619);
  EXPECT_EQ(Value(F::kClockReasonsSupported), 0x1FF);
  EXPECT_EQ(Value(F::kViolationThermal), 0);
  EXPECT_EQ(Value(F::kViolationBaseClocks), 0);
  EXPECT_EQ(Value(F::kEccAggregateUncorrected), 0);
  EXPECT_EQ(Value(F::kEccModePending), 1);
  EXPECT_EQ(Value(F::kEccVolatileCorrectedDram), 0);
  EXPECT_EQ(Value(F::kEccAggregateUncorrectedSram), 0);
  EXPECT_EQ(StatusOf(F::kEccVolatileCorrectedL1), ReadStatus::kNotSupported);
  EXPECT_EQ(Value(F::kSramThresholdExceeded), 0);
  EXPECT_EQ(Value(F::kRemapBanksMax), 2560);
  EXPECT_EQ(Value(F::kRemapInactiveCorrectable), 0);
  EXPECT_EQ(Value(F::kMemoryUnrepairable), 0);
  EXPECT_EQ(Value(F::kPcieCorrectable), 0);
  EXPECT_EQ(Value(F::kPcieRecovery), 3);
  EXPECT_EQ(Value(F::kNvlinkReplay), 0);
  EXPECT_EQ(Value(F::kFabricState), 3);
  EXPECT_EQ(Value(F::kFabricStatus), 0);
  EXPECT_EQ(Value(F::kConfidentialEnabled), 0);
  EXPECT_EQ(Value(F::kConfidentialUnprotected), int64_t{81559} * 1024);
  EXPECT_EQ(Value(F::kComputeMode), 0);
  EXPECT_EQ(Value(F::kDisplayActive), 0);
  EXPECT_EQ(Value(F::kInforomValid), 1);
  EXPECT_EQ(Value(F::kVirtualizationMode), 0);
  EXPECT_EQ(Value(F::kPowerSource), 0);
  EXPECT_EQ(Value(F::kMigModePending), 0);
  EXPECT_EQ(Value(F::kEncoderSessions), 0);
  EXPECT_EQ(StatusOf(F::kEncoderLatency), ReadStatus::kNotFound) << "a mean over nothing";
  EXPECT_EQ(StatusOf(F::kFanRotation0), ReadStatus::kNotSupported);
  EXPECT_EQ(Fact("gsp_firmware"), "580.95.05");
  EXPECT_EQ(Fact("cpu_affinity"), "0-31");
  EXPECT_EQ(Fact("memory_affinity"), "0");
  EXPECT_EQ(Fact("platform_slot"), "");
  EXPECT_EQ(Fact("topology"), "") << "only when asked for";
  for (F field : {F::kEncoderCapacityH264, F::kFbcSessions, F::kMmaStall, F::kEdppMultiplier})
    EXPECT_FALSE(Has(field)) << "only when asked for";
}

struct Generation {
  const char* model;
  std::set<F> has, lacks;
};

class EveryGeneration : public ItemsTest, public testing::WithParamInterface<Generation> {};

TEST_P(EveryGeneration, HasAndLacksWhatItShould) {
  Use(Of(GetParam().model));
  ASSERT_TRUE(Round());
  for (F field : GetParam().has) EXPECT_EQ(StatusOf(field), ReadStatus::kOk) << InfoOf(field).name;
  for (F field : GetParam().lacks)
    EXPECT_EQ(StatusOf(field), ReadStatus::kNotSupported) << InfoOf(field).name;
  // Neither missing nor fixed items are queried again.
  uint64_t margins = Calls("nvmlDeviceGetMarginTemperature");
  uint64_t places = Calls("nvmlDeviceGetMemoryErrorCounter");
  for (int second = 0; second < 61; ++second) {
    clock_.Advance(seconds(1));
    ASSERT_TRUE(Round());
  }
  bool hopper = !GetParam().lacks.contains(F::kTemperatureMargin);
  EXPECT_EQ(Calls("nvmlDeviceGetMarginTemperature") - margins, hopper ? 61U : 0U);
  EXPECT_LE(Calls("nvmlDeviceGetMemoryErrorCounter") - places, 18U);
  EXPECT_EQ(Calls("nvmlDeviceGetMaxClockInfo"), 4U);
  EXPECT_EQ(Calls("nvmlDeviceValidateInforom"), 1U);
}

INSTANTIATE_TEST_SUITE_P(
    Models, EveryGeneration,
    testing::Values(
        Generation{"V100",
                   {F::kTemperatureShutdown, F::kTemperatureMemoryMax, F::kEccVolatileCorrectedL2,
                    F::kEccVolatileUncorrectedCbu, F::kRetiredDoubleBit, F::kNvlinkReplay,
                    F::kClockApplicationGraphics},
                   {F::kTemperatureMargin, F::kPowerAverage, F::kUtilizationJpeg, F::kUtilizationOfa,
                    F::kEccVolatileCorrectedSram, F::kEccVolatileCorrectedCbu, F::kRemapBanksMax, F::kSramL2,
                    F::kFabricState, F::kPcieBadTlp}},
        Generation{
            "T4",
            {F::kUtilizationOfa, F::kTemperatureGpuMax, F::kRetiredSingleBit, F::kEccVolatileCorrectedDram},
            {F::kTemperatureMargin, F::kTemperatureMemoryMax, F::kUtilizationJpeg, F::kPowerAverage,
             F::kRemapBanksMax, F::kNvlinkReplay, F::kConfidentialReady}},
        Generation{"A100",
                   {F::kRemapBanksMax, F::kSramSm, F::kEccAggregateUncorrectedSram, F::kTemperatureSlowdown,
                    F::kUtilizationJpeg, F::kPcieBadTlp},
                   {F::kTemperatureMargin, F::kMarginShutdown, F::kPowerAverage, F::kPowerMemory,
                    F::kRetiredSingleBit, F::kFabricState, F::kMemoryUnrepairable}},
        Generation{
            "L4",
            {F::kPowerAverage, F::kTemperatureShutdown, F::kEncoderSessions, F::kSramSm},
            {F::kRemapBanksMax, F::kTemperatureMargin, F::kNvlinkReplay, F::kFabricState, F::kFanRotation0}},
        Generation{"RTX4090",
                   {F::kFanRotation0, F::kFanRotation2, F::kTemperatureTarget, F::kDisplayActive},
                   {F::kEccMode, F::kEccModePending, F::kEccAggregateCorrected, F::kRemappedCorrectable,
                    F::kRetiredSingleBit, F::kInforomValid, F::kClockApplicationGraphics, F::kSramSm,
                    F::kTemperatureMargin}},
        Generation{
            "B200",
            {F::kMarginGpuMax, F::kTemperatureMargin, F::kFabricHealth, F::kPowerMemory},
            {F::kTemperatureShutdown, F::kClockApplicationGraphics, F::kPowerModule, F::kNvlinkReplay}},
        Generation{
            "GB200",
            {F::kPowerModule, F::kFabricClusterHigh, F::kMarginSlowdown, F::kRemapInactiveUncorrectable},
            {F::kTemperatureShutdown, F::kFanRotation0}}),
    [](const auto& test) { return test.param.model; });

TEST_F(ItemsTest, FixedItemsAreReadOnceAndReportedAgain) {
  Use(Of("H100"));
  Round();
  int64_t first = latest_.at(F::kClockMaxSm).boot_ns;
  EXPECT_EQ(Value(F::kMarginShutdown), -8);
  for (int second = 0; second < 59; ++second) {
    clock_.Advance(seconds(1));
    Round();
    EXPECT_FALSE(Has(F::kClockMaxSm));
    EXPECT_FALSE(Has(F::kMarginShutdown));
  }
  clock_.Advance(seconds(1));
  Round();
  EXPECT_EQ(Value(F::kClockMaxSm), 1980);
  EXPECT_EQ(latest_.at(F::kClockMaxSm).boot_ns, first) << "with the time at which it was asked";
  EXPECT_EQ(Value(F::kMarginShutdown), -8);
  EXPECT_EQ(Calls("nvmlDeviceGetMaxClockInfo"), 4U);
}

TEST_F(ItemsTest, ItemsThatWereNotDeliveredAreReadAgain) {
  Use(Of("H100"));
  Round();
  clock_.Advance(seconds(1));
  reader_->ReadAgain();
  Round();
  EXPECT_TRUE(Has(F::kEccAggregateCorrected));
  EXPECT_EQ(Value(F::kClockMaxSm), 1980);
  EXPECT_EQ(Calls("nvmlDeviceGetMaxClockInfo"), 4U);
}

TEST_F(ItemsTest, GpusTakeTurnsWithTheirLongRounds) {
  std::set<int> seconds_of_gpus;
  for (unsigned gpu : {0U, 1U, 4U, 7U}) {
    Use("gpus: 8\n", gpu);
    Round();
    for (int second = 1; second <= 60; ++second) {
      clock_.Advance(seconds(1));
      Round();
      if (Has(F::kComputeMode)) seconds_of_gpus.insert(second);
    }
    EXPECT_TRUE(Has(F::kComputeMode) == (gpu == 0));
  }
  EXPECT_THAT(seconds_of_gpus, testing::ElementsAre(7, 30, 52, 60));
}

TEST_F(ItemsTest, AFixedThingThatFailedIsTriedAgain) {
  Use(Of("H100") + "errors: [{call: nvmlDeviceValidateInforom, code: 999, nth: 1}]\n");
  Round();
  EXPECT_EQ(StatusOf(F::kInforomValid), ReadStatus::kError);
  clock_.Advance(seconds(60));
  Round();
  EXPECT_EQ(Value(F::kInforomValid), 1);
}

TEST_F(ItemsTest, FaultsShow) {
  Use(Of("GB200") +
      "faults:\n"
      "  - {counter: ecc_corrected, amount: 7}\n"
      "  - {counter: sram_uncorrected, amount: 2}\n"
      "  - {counter: banks_used, amount: 5}\n"
      "  - {counter: remap_failure}\n"
      "  - {counter: inforom_corrupt}\n"
      "  - {counter: fabric_degraded}\n"
      "  - {counter: confidential}\n"
      "  - {counter: encoder_sessions, amount: 3}\n"
      "  - {counter: pcie_correctable, amount: 11}\n"
      "throttle: [{mask: 0x40, from: 0, for: 8}]\n");
  clock_.Advance(seconds(10));
  Round();
  EXPECT_EQ(Value(F::kEccVolatileCorrectedDram), 7);
  EXPECT_EQ(Value(F::kEccAggregateCorrected), 7);
  EXPECT_EQ(Value(F::kEccVolatileUncorrectedSram), 2);
  EXPECT_EQ(Value(F::kSramSm), 2);
  EXPECT_EQ(Value(F::kSramThresholdExceeded), 1);
  EXPECT_EQ(Value(F::kRemapBanksLow), 5);
  EXPECT_EQ(Value(F::kRemapBanksMax), 4096 - 5);
  EXPECT_EQ(Value(F::kMemoryUnrepairable), 1);
  EXPECT_EQ(Value(F::kInforomValid), 0);
  EXPECT_EQ(Value(F::kFabricHealth), 0x1A9);
  EXPECT_EQ(Value(F::kFabricClique), 32766);
  EXPECT_EQ(static_cast<uint64_t>(Value(F::kFabricClusterHigh)), 0xABABABABABABABAB);
  EXPECT_EQ(Value(F::kConfidentialEnabled), 1);
  EXPECT_EQ(Value(F::kConfidentialReady), 1);
  EXPECT_EQ(Value(F::kEncoderSessions), 3);
  EXPECT_EQ(Value(F::kEncoderLatency), 4200);
  EXPECT_EQ(Value(F::kPcieCorrectable), 11);
  EXPECT_EQ(Value(F::kViolationThermal), 8'000'000'000);
  EXPECT_EQ(Fact("platform_module"), "1");
  EXPECT_EQ(Fact("platform_chassis_serial"), "1820225190126");
}

TEST_F(ItemsTest, AFabricThatIsNotReadyReportsOnlyItsState) {
  Use(Of("H100") + "faults: [{counter: fabric_pending}]\n");
  Round();
  EXPECT_EQ(Value(F::kFabricState), 2);
  EXPECT_EQ(StatusOf(F::kFabricStatus), ReadStatus::kNotFound);
  EXPECT_EQ(StatusOf(F::kFabricClique), ReadStatus::kNotFound);
}

TEST_F(ItemsTest, ReportsDetailsWhenRequested) {
  options_.details = kDetailsAll;
  Use("model: L4\ngpus: 4\n", 1);
  Round();
  EXPECT_EQ(Value(F::kEncoderCapacityAv1), 100);
  EXPECT_EQ(Value(F::kFbcSessions), 0);
  EXPECT_EQ(Value(F::kMclkSwitchInterval), 500);
  EXPECT_EQ(Fact("topology"), "u-yy");
  Use("model: H100\ngpus: 4\n", 3);
  Round();
  EXPECT_EQ(StatusOf(F::kEncoderCapacityH264), ReadStatus::kNotSupported);
  EXPECT_EQ(Value(F::kEdppMultiplier), 100);
  EXPECT_EQ(Fact("topology"), "nnn-");
}

TEST_F(ItemsTest, SamplesSinceTheRoundBefore) {
  Use("gpus: 1\nload: {kind: steps, steps: [[0.5, 0.2], [0.5, 0.8]]}\n");
  Round();
  EXPECT_EQ(StatusOf(F::kSampledPowerMin), ReadStatus::kNotFound) << "nobody had asked before";
  clock_.Advance(seconds(1));
  Round();
  EXPECT_EQ(Value(F::kSampledGpuMin), 20'000);
  EXPECT_EQ(Value(F::kSampledGpuMax), 80'000);
  EXPECT_NEAR(static_cast<double>(Value(F::kSampledGpuMean)), 50'000, 3'001);
  EXPECT_LT(Value(F::kSampledPowerMin), Value(F::kSampledPowerMean));
  EXPECT_LT(Value(F::kSampledPowerMean), Value(F::kSampledPowerMax));
  EXPECT_LT(Value(F::kSampledPowerMax), 700'000);
  EXPECT_GT(Value(F::kSampledClockMax), Value(F::kSampledClockMin));
  EXPECT_EQ(Value(F::kSampledMemoryClockMean), 2619);
  // Two new samples are needed: 50 ms apart, none or one comes in 40 ms.
  clock_.Advance(milliseconds(40));
  reader_->Read(clock_.Now().boot_ns + Duration(seconds(1)).count());
  for (const DeviceReading& reading : reader_->readings()) {
    if (reading.field == static_cast<uint16_t>(F::kSampledPowerMean) && reading.link == 0) {
      EXPECT_EQ(reading.status, ReadStatus::kNotFound);
    }
  }
}

TEST_F(ItemsTest, SamplesCanBeLeft) {
  options_.details = 0;
  Use(kBusy);
  Round();
  EXPECT_FALSE(Has(F::kSampledPowerMin));
  EXPECT_EQ(Calls("nvmlDeviceGetSamples"), 0U);
}

TEST_F(ItemsTest, WithMigThereAreNoSamples) {
  Use("gpus: 1\nmig: true\n");
  Round();
  EXPECT_EQ(StatusOf(F::kSampledPowerMin), ReadStatus::kNotSupported);
  clock_.Advance(seconds(1));
  Round();
  EXPECT_EQ(Calls("nvmlDeviceGetSamples"), 5U);
}

TEST_F(ItemsTest, ErrorsOfEachLinkComeEachMinute) {
  for (const char* model : {"V100", "A100", "H100", "B200"}) {
    Use(Of(model) + "faults: [{counter: link_replay, amount: 4}, {counter: links_down, amount: 1}]\n");
    Round();
    clock_.Advance(seconds(60));
    Round();  // Where newer ids do not exist, the older ones are queried now.
    LinkField field = std::string_view(model) == "B200" ? LinkField::kSymbol : LinkField::kReplay;
    EXPECT_EQ(LinkValue(LinkOfNvlink(0), field), 4) << model;
    EXPECT_EQ(LinkValue(LinkOfNvlink(1), field), 0) << model;
    EXPECT_EQ(LinkStatus(LinkOfNvlink(0), LinkField::kTxBytes), ReadStatus::kNever);
    EXPECT_EQ(LinkValue(LinkOfNvlink(0), LinkField::kActive), 1);
    EXPECT_EQ(LinkValue(LinkOfNvlink(reader_->identity().nvlink_count - 1), LinkField::kActive), 0);
    clock_.Advance(seconds(1));
    Round();
    EXPECT_EQ(links_.size(), 0U);
  }
}

TEST_F(ItemsTest, ReportsEachLinkWhenRequested) {
  options_.details = kDetailLinks;
  Use("model: B200\ngpus: 1\nload: {kind: constant, level: 1}\nfaults: [{counter: link_replay, amount: "
      "4}]\n");
  Round();
  uint8_t first = LinkOfNvlink(0);
  EXPECT_GT(LinkValue(first, LinkField::kTxBytes), 0);
  EXPECT_GT(LinkValue(first, LinkField::kRxPackets), 0);
  EXPECT_EQ(LinkValue(first, LinkField::kSpeed), 53125);
  EXPECT_EQ(LinkValue(first, LinkField::kVersion), 5);
  EXPECT_EQ(LinkValue(first, LinkField::kRemoteType), 2);
  EXPECT_EQ(LinkValue(first, LinkField::kRemotePci), 0x500);
  EXPECT_EQ(LinkValue(first, LinkField::kRemoteLink), 2);
  EXPECT_EQ(LinkValue(first, LinkField::kRecoverySuccess), 4);
  EXPECT_DOUBLE_EQ(BitErrorRate(static_cast<uint64_t>(LinkValue(first, LinkField::kBerRaw))), 3e-11);
  EXPECT_EQ(LinkValue(first, LinkField::kFec1), 12);
  EXPECT_EQ(LinkValue(LinkOfNvlink(17), LinkField::kFec15), 0);
  Use("model: H100\ngpus: 1\nload: {kind: constant, level: 1}\n");
  Round();
  int64_t before = LinkValue(first, LinkField::kTxBytes);
  clock_.Advance(seconds(10));
  Round();
  EXPECT_NEAR(static_cast<double>(LinkValue(first, LinkField::kTxBytes) - before), 0.5 * 26562e7, 1e6);
}

TEST_F(ItemsTest, ChipToChipLinksOfASuperchip) {
  Use(Of("GB200"));
  Round();
  EXPECT_EQ(LinkValue(LinkOfC2c(0), LinkField::kActive), 1);
  EXPECT_EQ(LinkValue(LinkOfC2c(1), LinkField::kReplayBackToBack), 0);
  EXPECT_EQ(LinkStatus(LinkOfC2c(2), LinkField::kActive), ReadStatus::kNever);
}

TEST_F(ItemsTest, ASteadyRoundQueriesOneBatch) {
  options_.details = kDetailLinks;
  Use(Of("H100"));
  Round();
  for (int second = 1; second < 60; ++second) {
    clock_.Advance(seconds(1));
    FakeWorld::Get().ForgetCalls();
    Round();
    EXPECT_EQ(Calls("nvmlDeviceGetFieldValues"), 1U);
  }
}

// The size and version in a structure must be known to the library.
TEST_F(ItemsTest, AnOldLibraryKnowsOlderStructs) {
  Use(Of("GB200") +
      "errors:\n"
      "  - {call: nvmlDeviceGetSramEccErrorStatus, code: 25}\n"
      "  - {call: nvmlDeviceGetMarginTemperature, code: 25}\n"
      "  - {call: nvmlDeviceGetPlatformInfo, code: 25}\n"
      "  - {call: nvmlDeviceGetGpuFabricInfoV, code: 25}\n");
  Round();
  EXPECT_EQ(StatusOf(F::kSramSm), ReadStatus::kNotSupported);
  EXPECT_EQ(StatusOf(F::kTemperatureMargin), ReadStatus::kNotSupported);
  EXPECT_EQ(Fact("platform_slot"), "");
  EXPECT_EQ(Value(F::kFabricState), 3) << "by the function before";
  EXPECT_EQ(Value(F::kFabricHealth), 0) << "which knows no conditions: each reads as not supported";
  EXPECT_EQ(Calls("nvmlDeviceGetGpuFabricInfoV"), 2U) << "third version, then second";
}

}  // namespace
}  // namespace gpulens::nvml
