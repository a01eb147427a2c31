#include "plugins/collectors/nvidia/gpu_series.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

namespace gpulens::nvidia {
namespace {

using nvml::Field;
using nvml::ReadStatus;
using std::chrono::milliseconds;
using std::chrono::seconds;

class GpuSeriesTest : public ::testing::Test {
 protected:
  GpuSeriesTest() {
    gpu_.index = 3;
    gpu_.state = nvml::GpuState::kOk;
    gpu_.facts = {
        {"uuid", "GPU-1"}, {"name", "NVIDIA H100 80GB HBM3"}, {"architecture", "hopper"}, {"serial", "42"}};
    gpu_.identity_version = 1;
    max_age_.ns = {Duration(seconds(2)).count(), Duration(seconds(12)).count(),
                   Duration(seconds(62)).count()};
  }

  void Read(Field field, int64_t raw, ReadStatus status = ReadStatus::kOk) {
    auto& reading = gpu_.fields[static_cast<size_t>(field)];
    reading.status = status;
    if (status != ReadStatus::kOk) return;
    reading.raw = raw;
    reading.boot_ns = clock_.Now().boot_ns;
    gpu_.last_read_boot_ns = reading.boot_ns;
  }
  void Run() {
    writer_.Begin(clock_.Now());
    series_.Update(gpu_, max_age_, clock_.Now(), writer_);
    frame_ = writer_.Finish();
  }
  // The value of the series with this attribute; NaN when it has none now, or when it is stale.
  double Value(const MetricDesc& desc, std::string_view key = {}, std::string_view value = {}) const {
    for (uint32_t slot = 0; slot < frame_->layout->slots(); ++slot) {
      const SeriesInfo& info = (*frame_->layout)[slot];
      if (info.desc != &desc || frame_->quality[slot] != Quality::kOk) continue;
      if (!key.empty() && info.attributes.Text(key) != value) continue;
      Cell cell = frame_->cells[info.first_cell];
      return desc.number == Number::kInt ? static_cast<double>(cell.i) : cell.d;
    }
    return std::nan("");
  }
  bool Has(const MetricDesc& desc) const { return !std::isnan(Value(desc)); }

  nvml::Gpu gpu_;
  FieldMaxAge max_age_;
  ManualClock clock_;
  SeriesTable table_;
  FrameWriter writer_{table_, seconds(10)};
  GpuSeries series_{GpuSeries::Options{}};
  Ref<const Frame> frame_;
};

TEST_F(GpuSeriesTest, SlowReadingsTurnStaleWithTheirGpu) {
  Read(Field::kPower, 300'000);
  Read(Field::kPowerLimitEnforced, 700'000);  // Read each minute.
  Run();
  EXPECT_TRUE(Has(kGpuPowerDraw) && Has(kGpuPowerLimit));
  for (int second = 0; second < 5; ++second) {
    clock_.Advance(seconds(1));
    Read(Field::kPower, 300'000);
    Run();
  }
  EXPECT_TRUE(Has(kGpuPowerLimit)) << "it holds as long as the GPU answers";
  gpu_.state = nvml::GpuState::kHung;
  clock_.Advance(seconds(3));
  Run();
  EXPECT_FALSE(Has(kGpuPowerDraw));
  EXPECT_FALSE(Has(kGpuPowerLimit)) << "nobody knows whether it still holds";
  EXPECT_EQ(Value(kGpuState, "gpu.state", "hung"), 1);
}

TEST_F(GpuSeriesTest, UnreadableGpuHasItsIndexAndState) {
  gpu_.facts.clear();
  gpu_.identity_version = 0;
  gpu_.state = nvml::GpuState::kStarting;
  Run();
  EXPECT_FALSE(Has(kGpuState)) << "nobody knows yet";
  for (auto [state, name] : {std::pair{nvml::GpuState::kUnread, "unread"},
                             {nvml::GpuState::kLeftOut, "left_out"},
                             {nvml::GpuState::kFailed, "failed"}}) {
    gpu_.state = state;
    Run();
    EXPECT_EQ(Value(kGpuState, "gpu.state", name), 1) << name;
    EXPECT_EQ(Value(kGpuState, "gpu.state", "ok"), 0) << name;
  }
  gpu_.state = nvml::GpuState::kOk;
  gpu_.facts = {{"uuid", "GPU-1"}};
  gpu_.identity_version = 1;
  Read(Field::kPower, 300'000);
  Run();
  EXPECT_EQ(Value(kGpuState, "gpu.state", "ok"), 1);
  for (uint32_t slot = 0; slot < frame_->layout->slots(); ++slot) {
    const SeriesInfo& info = (*frame_->layout)[slot];
    if (info.desc) {
      EXPECT_EQ(info.attributes.Text("gpu.uuid"), "GPU-1") << "what had only a number is gone";
    }
  }
}

// Between two reader processes an index may pass to another GPU, whose series begin when it is opened.
TEST_F(GpuSeriesTest, ReusedIndexHasNoSeriesUntilItsGpuIsOpen) {
  Read(Field::kPower, 300'000);
  Run();
  ASSERT_TRUE(Has(kGpuPowerDraw));
  gpu_.facts[0] = {"uuid", "GPU-2"};
  ++gpu_.identity_version;
  gpu_.state = nvml::GpuState::kStarting;
  Run();
  EXPECT_FALSE(Has(kGpuInfo));
  gpu_.state = nvml::GpuState::kOk;
  Read(Field::kPower, 300'000);
  Run();
  EXPECT_EQ(Value(kGpuInfo, "gpu.uuid", "GPU-2"), 1);
}

TEST_F(GpuSeriesTest, DeclaresNothingBeforeTheGpuIsKnown) {
  gpu_.facts.clear();
  Run();
  EXPECT_EQ(table_.size(), 0u);
}

TEST_F(GpuSeriesTest, UsesTheUnitsOfTheCatalogue) {
  Read(Field::kPower, 612'340);
  Read(Field::kPowerLimitEnforced, 700'000);
  Read(Field::kEnergy, 1'234'567);
  Read(Field::kUtilizationGpu, 57);
  Read(Field::kFanSpeedMax, 40);
  Read(Field::kMemoryTotal, 1000);
  Read(Field::kMemoryUsed, 250);
  Run();
  EXPECT_EQ(Value(kGpuPowerDraw), 612.34);
  EXPECT_EQ(Value(kGpuEnergyConsumption), 1234.567);
  EXPECT_EQ(Value(kGpuUtilization), 0.57);
  EXPECT_EQ(Value(kGpuFanSpeed), 0.4);
  EXPECT_NEAR(Value(kGpuPowerUtilization), 0.87477, 1e-5);
  EXPECT_EQ(Value(kGpuMemoryUsedPercent), 25);
  EXPECT_EQ((*frame_->layout)[0].attributes.Text("gpu.index"), "3");
  EXPECT_EQ((*frame_->layout)[0].attributes.Text("gpu.serial"), "")
      << "serial numbers are told only when asked for";
}

TEST_F(GpuSeriesTest, OmitsWhatTheDriverDoesNotSupport) {
  Read(Field::kFanSpeedMax, 0, ReadStatus::kNotSupported);
  Read(Field::kEccCorrected, 0, ReadStatus::kNotSupported);
  Run();
  EXPECT_FALSE(Has(kGpuFanSpeed));
  EXPECT_FALSE(Has(kGpuEccErrors));
  EXPECT_FALSE(Has(kGpuRowRemapCount));
}

TEST_F(GpuSeriesTest, SentinelsAreRejected) {
  Read(Field::kUtilizationGpu, 0xFFFF);
  Read(Field::kPower, 0xFFFF);
  Run();
  EXPECT_FALSE(Has(kGpuUtilization));
  EXPECT_FALSE(Has(kGpuPowerDraw)) << "65535 mW would be a believable 65.5 W";
  EXPECT_EQ(writer_.counts().rejected[static_cast<size_t>(Validation::kSentinel)], 2u);
}

TEST_F(GpuSeriesTest, DerivesNothingFromSentinels) {
  Read(Field::kPower, 4294967295);
  Read(Field::kPowerLimitEnforced, 700'000);
  Read(Field::kMemoryTotal, -1);
  Read(Field::kMemoryUsed, 1 << 30);
  Read(Field::kRemappedUncorrectable, 4294967295);
  Read(Field::kClockEventReasons, -1);
  Read(Field::kPcieTxBytes, 100);
  Run();
  for (const MetricDesc* metric :
       {&kGpuPowerDraw, &kGpuPowerUtilization, &kGpuMemoryTotal, &kGpuMemoryUsedPercent, &kGpuRowRemapCount,
        &kGpuThrottleMask, &kGpuThrottleReason})
    EXPECT_FALSE(Has(*metric)) << metric->name;
  EXPECT_TRUE(Has(kGpuMemoryUsed));
  EXPECT_EQ(writer_.counts().rejected[static_cast<size_t>(Validation::kSentinel)], 4u) << "each once";
  clock_.Advance(seconds(1));
  Read(Field::kPcieTxBytes, -1);
  Run();
  EXPECT_FALSE(Has(kGpuPcieThroughput)) << "no rate to nowhere";
}

TEST_F(GpuSeriesTest, RatesUseTwoReadingsAndTheirTimes) {
  constexpr int64_t kGiB = 1 << 30;
  Read(Field::kNvlinkTxBytes, 100 * kGiB);
  Run();
  EXPECT_FALSE(Has(kGpuInterconnectThroughput)) << "never a lifetime total";
  clock_.Advance(seconds(2));
  Read(Field::kNvlinkTxBytes, 101 * kGiB);
  Run();
  EXPECT_DOUBLE_EQ(Value(kGpuInterconnectThroughput, "gpu.interconnect.direction", "transmit"), 0.5 * kGiB);
  // No newer reading: the rate stays, and is not computed from a span of zero.
  Run();
  EXPECT_DOUBLE_EQ(Value(kGpuInterconnectThroughput), 0.5 * kGiB);
  clock_.Advance(seconds(1));
  Read(Field::kNvlinkTxBytes, 5);
  Run();
  EXPECT_FALSE(Has(kGpuInterconnectThroughput)) << "the driver was loaded anew";
  clock_.Advance(seconds(1));
  Read(Field::kNvlinkTxBytes, 5);
  Run();
  EXPECT_EQ(Value(kGpuInterconnectThroughput), 0);
}

TEST_F(GpuSeriesTest, UsesTheDriversRateWithoutPcieCounters) {
  Read(Field::kPcieTxRate, 2048);
  Run();
  EXPECT_EQ(Value(kGpuPcieThroughput, "gpu.interconnect.direction", "transmit"), 2048.0 * 1024);
}

TEST_F(GpuSeriesTest, ThrottleBitsSetExactlyTheirCause) {
  const std::pair<int64_t, std::string_view> kCases[] = {
      {0x4, "power_software"}, {0x40, "temp_hardware"}, {0x20, "temp_software"}, {0x10, "syncboost"}};
  for (auto [mask, cause] : kCases) {
    Read(Field::kClockEventReasons, mask);
    Run();
    for (const ThrottleBit& bit : kThrottleBits) {
      EXPECT_EQ(Value(kGpuThrottleReason, "gpu.throttle.cause", bit.cause), bit.cause == cause ? 1 : 0)
          << bit.cause;
    }
    EXPECT_EQ(Value(kGpuClockIdle), 0);
  }
  Read(Field::kClockEventReasons, 0x1);
  Run();
  for (const ThrottleBit& bit : kThrottleBits)
    EXPECT_EQ(Value(kGpuThrottleReason, "gpu.throttle.cause", bit.cause), 0);
  EXPECT_EQ(Value(kGpuClockIdle), 1);
}

TEST_F(GpuSeriesTest, RetiredPagesCountWhereRowsAreNotRemapped) {
  Read(Field::kRetiredSingleBit, 3);
  Read(Field::kRetiredDoubleBit, 1);
  Run();
  EXPECT_EQ(Value(kGpuRowRemapCount, "gpu.ecc.error_type", "correctable"), 3);
  EXPECT_EQ(Value(kGpuRowRemapCount, "gpu.ecc.error_type", "uncorrectable"), 1);
  clock_.Advance(seconds(1));
  Read(Field::kRemappedCorrectable, 7);
  Run();
  EXPECT_EQ(Value(kGpuRowRemapCount, "gpu.ecc.error_type", "correctable"), 7);
}

TEST_F(GpuSeriesTest, OldReadingsTurnStaleThenAbsent) {
  Read(Field::kPower, 500'000);
  Run();
  clock_.Advance(seconds(5));
  gpu_.state = nvml::GpuState::kHung;
  Run();
  EXPECT_FALSE(Has(kGpuPowerDraw));
  EXPECT_EQ(Value(kGpuState, "gpu.state", "hung"), 1);
  EXPECT_EQ(Value(kGpuState, "gpu.state", "ok"), 0);
  EXPECT_EQ(Value(kGpuSampleAge), 5);
  uint32_t age = 0;
  for (uint32_t slot = 0; slot < frame_->layout->slots(); ++slot) age = std::max(age, frame_->AgeMs(slot));
  EXPECT_EQ(age, 5000u) << "the age counts from the reading";
}

TEST_F(GpuSeriesTest, OmitsTheStateWhileItIsUnknown) {
  Read(Field::kPower, 500'000);
  Run();
  EXPECT_EQ(Value(kGpuState, "gpu.state", "ok"), 1);
  gpu_.state = nvml::GpuState::kStarting;
  Run();
  EXPECT_FALSE(Has(kGpuState)) << "between two reader processes: neither well nor ill";
  gpu_.state = nvml::GpuState::kOk;
  Run();
  EXPECT_EQ(Value(kGpuState, "gpu.state", "ok"), 1);
  clock_.Advance(seconds(3));
  Run();
  EXPECT_FALSE(Has(kGpuState)) << "no call has brought a reading";
}

TEST_F(GpuSeriesTest, ProcessesComeAndGoWithTheirPeak) {
  auto list = [&](std::initializer_list<nvml::GpuProcess> processes) {
    gpu_.processes = processes;
    gpu_.processes_boot_ns = clock_.Now().boot_ns;
    Read(Field::kProcessCount, static_cast<int64_t>(processes.size()));
    Run();
  };
  constexpr uint64_t kGiB = 1 << 30;
  list({{.pid = 7, .memory_used = kGiB},
        {.pid = 7, .type = nvml::ProcessType::kGraphics, .memory_used = kGiB}});
  EXPECT_EQ(Value(kGpuProcessMemoryUsed, "process.pid", "7"), static_cast<double>(kGiB))
      << "two contexts, one memory";
  EXPECT_EQ(Value(kGpuProcesses, "gpu.process.type", "compute"), 1);
  list({{.pid = 7, .memory_used = 2 * kGiB}});
  list({{.pid = 7, .memory_used = kGiB}, {.pid = 8}});
  EXPECT_EQ(Value(kGpuProcessMemoryUsed, "process.pid", "7"), static_cast<double>(kGiB));
  EXPECT_EQ(Value(kGpuProcessMemoryPeak, "process.pid", "7"), 2.0 * kGiB);
  EXPECT_TRUE(std::isnan(Value(kGpuProcessMemoryUsed, "process.pid", "8"))) << "its memory is not known";
  list({});
  EXPECT_FALSE(Has(kGpuProcessMemoryUsed)) << "gone with the process";
  EXPECT_EQ(Value(kGpuProcesses, "gpu.process.type", "compute"), 0);
}

TEST_F(GpuSeriesTest, ReplacedBoardChangesTheIdentity) {
  Read(Field::kEnergy, 5'000'000);
  Run();
  gpu_.facts[0].second = "GPU-2";
  gpu_.identity_version = 2;
  Read(Field::kEnergy, 1'000);
  Run();
  EXPECT_EQ(Value(kGpuEnergyConsumption, "gpu.uuid", "GPU-2"), 1);
  EXPECT_TRUE(std::isnan(Value(kGpuEnergyConsumption, "gpu.uuid", "GPU-1")));
}

}  // namespace
}  // namespace gpulens::nvidia
