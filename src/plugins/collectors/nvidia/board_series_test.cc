// The series of whole simulated boards, of every generation.
#include "plugins/collectors/nvidia/board_series.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

#include "base/files.h"
#include "base/testing/allocations.h"
#include "plugins/collectors/nvidia/gpu_fixture_for_test.h"

namespace gpulens::nvidia {
namespace {

using nvml::Field;
using std::chrono::seconds;

const std::string kGoldenPages = GPULENS_SOURCE_DIR "/src/plugins/collectors/nvidia/testdata/golden/";

std::string Busy(const std::string& model, unsigned gpus = 1) {
  return "model: " + model + "\ngpus: " + std::to_string(gpus) +
         "\nload: {kind: constant, level: 0.5}\nprocesses: [{pid: 7, memory: 2GiB}]\n";
}

class GoldenPage : public testing::TestWithParam<const char*> {};

// With GPULENS_WRITE_GOLDEN set the pages are written; read the difference before it is committed.
TEST_P(GoldenPage, IsAsItWas) {
  std::string name = GetParam(), model = name.substr(0, name.find('-'));
  bool whole = name.ends_with("-whole");
  GpuSeries::Options options;
  options.links = options.details = options.serial = whole;
  GpuFixture fixture(Busy(model, whole ? 2 : 1), options, whole ? nvml::kDetailsAll : nvml::kDetailSamples);
  for (int i = 0; i < 62; ++i) fixture.Run();
  std::string page = fixture.Page(0), path = kGoldenPages + name + ".txt";
  if (std::getenv("GPULENS_WRITE_GOLDEN")) std::ofstream(path) << page;
  EXPECT_EQ(page, ReadFile(path).value_or("missing"));
  EXPECT_EQ(fixture.writer().counts().rejected, decltype(fixture.writer().counts().rejected){})
      << "all is believable";
  EXPECT_EQ(fixture.writer().counts().invalid, 0U);
}

INSTANTIATE_TEST_SUITE_P(Models, GoldenPage,
                         testing::Values("V100", "T4", "A100", "L4", "RTX4090", "H100", "H200", "B200",
                                         "GB200", "H100-whole", "B200-whole", "GB200-whole", "L4-whole"),
                         [](const auto& test) {
                           std::string text = test.param;
                           std::replace(text.begin(), text.end(), '-', '_');
                           return text;
                         });

TEST(BoardSeries, BusyH100HasAboutTwoHundredSeries) {
  GpuFixture fixture(Busy("H100"), {});
  for (int i = 0; i < 62; ++i) fixture.Run();
  std::string page = fixture.Page(0);
  auto lines = std::count(page.begin(), page.end(), '\n');
  EXPECT_GT(lines, 150);
  EXPECT_LT(lines, 260);
}

TEST(BoardSeries, FixedValuesStayFreshWhileTheGpuAnswers) {
  GpuFixture fixture(Busy("H100"), {});
  for (int i = 0; i < 300; ++i) fixture.Run();
  EXPECT_EQ(fixture.Value("gpu.clock.max{gpu.clock.type=sm}"), 1980);
  fixture.clock().Advance(seconds(3));
  fixture.Collect();
  EXPECT_FALSE(fixture.Has("gpu.clock.max{gpu.clock.type=sm}")) << "it is silent: nobody knows any more";
}

TEST(BoardSeries, ThrottlingHasItsTimeAndItsCount) {
  GpuFixture fixture(
      Busy("H100") + "throttle: [{mask: 0x40, from: 5, for: 8}, {mask: 0x40, from: 20, for: 2}]\n", {});
  fixture.Run();
  EXPECT_EQ(fixture.Value("gpu.throttle.events{gpu.throttle.cause=temp_hardware}"), 0) << "declared at 0";
  for (int i = 0; i < 39; ++i) fixture.Run();
  EXPECT_EQ(fixture.Value("gpu.throttle.events{gpu.throttle.cause=temp_hardware}"), 2);
  EXPECT_EQ(fixture.Value("gpu.throttle.events{gpu.throttle.cause=temp_software}"), 0);
  EXPECT_FALSE(fixture.Has("gpu.throttle.events{gpu.throttle.cause=clock_setting}"));
  EXPECT_EQ(fixture.Value("gpu.throttle.time{gpu.throttle.cause=temp_hardware}"), 10);
  EXPECT_EQ(fixture.Value("gpu.violation.time{gpu.violation.policy=thermal}"), 10);
}

TEST(BoardSeries, ExportsFaultsOfTheBoard) {
  GpuFixture fixture(Busy("GB200") +
                         "faults:\n"
                         "  - {counter: ecc_corrected, amount: 7, from: 30}\n"
                         "  - {counter: sram_uncorrected, amount: 2}\n"
                         "  - {counter: banks_used, amount: 5}\n"
                         "  - {counter: inforom_corrupt}\n"
                         "  - {counter: fabric_degraded}\n"
                         "  - {counter: encoder_sessions, amount: 3}\n"
                         "  - {counter: link_replay, amount: 4}\n",
                     {});
  for (int i = 0; i < 125; ++i) fixture.Run();
  EXPECT_EQ(
      fixture.Value("gpu.ecc.location.errors{gpu.ecc.count_type=volatile,gpu.ecc.error_type=correctable,"
                    "gpu.ecc.memory_block=dram}"),
      7);
  EXPECT_EQ(fixture.Value("gpu.ecc.errors{gpu.ecc.count_type=aggregate,gpu.ecc.error_type=correctable}"), 7);
  EXPECT_EQ(fixture.Value("gpu.ecc.sram.threshold_exceeded"), 1);
  EXPECT_FALSE(fixture.Has("gpu.ecc.sram.errors{gpu.ecc.count_type=aggregate,gpu.ecc.sram_source=sm}"));
  EXPECT_EQ(fixture.Value("gpu.row_remap.banks{gpu.row_remap.availability=low}"), 5);
  EXPECT_EQ(fixture.Value("gpu.inforom.valid"), 0);
  EXPECT_EQ(fixture.Value("gpu.fabric.degraded{gpu.fabric.condition=bandwidth}"), 1);
  EXPECT_EQ(fixture.Value("gpu.fabric.degraded{gpu.fabric.condition=configuration}"), 0);
  EXPECT_EQ(fixture.Value("gpu.encoder.latency"), 0.0042);
  EXPECT_EQ(fixture.Value(
                "gpu.interconnect.errors{gpu.interconnect.error_type=symbol,gpu.interconnect.type=nvlink}"),
            4);
  // The link with errors is shown, with all its kinds; the others are not.
  EXPECT_EQ(fixture.Value("gpu.interconnect.link.errors{gpu.interconnect.error_type=symbol,"
                          "gpu.interconnect.link_index=0,gpu.interconnect.type=nvlink}"),
            4);
  EXPECT_EQ(fixture.Value("gpu.interconnect.link.errors{gpu.interconnect.error_type=overrun,"
                          "gpu.interconnect.link_index=0,gpu.interconnect.type=nvlink}"),
            0);
  EXPECT_FALSE(
      fixture.Has("gpu.interconnect.link.errors{gpu.interconnect.error_type=symbol,"
                  "gpu.interconnect.link_index=1,gpu.interconnect.type=nvlink}"));
}

TEST(BoardSeries, IgnoresDisplayAndAdministratorLimitsAndAbsentBits) {
  GpuFixture fixture(Busy("RTX4090"), {});
  fixture.Run();
  EXPECT_FALSE(fixture.Has("gpu.throttle.reason{gpu.throttle.cause=syncboost}"))
      << "this board has no such bit";
  EXPECT_TRUE(fixture.Has("gpu.throttle.reason{gpu.throttle.cause=display}"));
  EXPECT_FALSE(fixture.Has("gpu.throttle.events{gpu.throttle.cause=syncboost}"));
}

// Sets single readings by hand instead of reading a library.
class OneReading : public testing::Test {
 protected:
  OneReading() {
    gpu_.state = nvml::GpuState::kOk;
    gpu_.facts = {{"uuid", "GPU-1"}, {"compute_capability", "7.5"}};
    gpu_.identity_version = 1;
    max_age_.ns = {Duration(seconds(2)).count(), Duration(seconds(12)).count(),
                   Duration(seconds(62)).count()};
  }
  void Read(Field field, int64_t raw) {
    gpu_.fields[static_cast<size_t>(field)] = {nvml::ReadStatus::kOk, clock_.Now().boot_ns, raw};
    gpu_.last_read_boot_ns = clock_.Now().boot_ns;
  }
  void Run() {
    writer_.Begin(clock_.Now());
    series_.Update(gpu_, max_age_, clock_.Now(), writer_);
    frame_ = writer_.Finish();
  }
  double Value(const MetricDesc& desc) const {
    for (uint32_t slot = 0; slot < frame_->layout->slots(); ++slot) {
      const SeriesInfo& info = (*frame_->layout)[slot];
      if (info.desc != &desc || frame_->quality[slot] != Quality::kOk) continue;
      Cell cell = frame_->cells[info.first_cell];
      return desc.number == Number::kInt ? static_cast<double>(cell.i) : cell.d;
    }
    return std::nan("");
  }
  uint64_t Rejected(Validation why) const { return writer_.counts().rejected[static_cast<size_t>(why)]; }

  nvml::Gpu gpu_;
  FieldMaxAge max_age_;
  ManualClock clock_;
  SeriesTable table_;
  FrameWriter writer_{table_, seconds(10)};
  GpuSeries series_{GpuSeries::Options{}};
  Ref<const Frame> frame_;
};

TEST_F(OneReading, RejectsSentinelsBeforeScaling) {
  Read(Field::kFanRotation0, 65535);
  Run();
  EXPECT_TRUE(std::isnan(Value(kGpuFanRotation)));
  EXPECT_EQ(Rejected(Validation::kSentinel), 1U);
}

TEST_F(OneReading, IsValidatedOnce) {
  Read(Field::kPcieBadTlp, 9);
  Run();
  clock_.Advance(seconds(60));
  Read(Field::kPcieBadTlp, 2);
  for (int i = 0; i < 5; ++i) {
    Run();
    EXPECT_TRUE(std::isnan(Value(kGpuPcieErrors))) << "a counter that fell, said once, is a glitch";
    clock_.Advance(seconds(1));
  }
  EXPECT_EQ(Rejected(Validation::kCounterDecreased), 1U);
  for (int i = 0; i < 2; ++i) {
    clock_.Advance(seconds(60));
    Read(Field::kPcieBadTlp, 2);
    Run();
  }
  EXPECT_EQ(Value(kGpuPcieErrors), 2) << "said thrice it began anew";
}

TEST_F(OneReading, RejectsThrottledTimeAboveElapsedTime) {
  Read(Field::kThrottleTimeBrake, 0);
  Run();
  clock_.Advance(seconds(10));
  Read(Field::kThrottleTimeBrake, 10'000'000'000'000);  // As if it were microseconds.
  Run();
  EXPECT_TRUE(std::isnan(Value(kGpuThrottleTime)));
  EXPECT_EQ(Rejected(Validation::kImpossibleJump), 1U);
}

TEST_F(OneReading, RejectsMemoryPowerAboveTheBoards) {
  Read(Field::kPower, 100'000);
  Read(Field::kPowerMemory, 150'000);
  Read(Field::kPowerModule, 90'000);
  Run();
  EXPECT_TRUE(std::isnan(Value(kGpuMemoryPower)));
  EXPECT_TRUE(std::isnan(Value(kGpuModulePower)));
  EXPECT_EQ(Rejected(Validation::kInconsistent), 2U);
  clock_.Advance(seconds(1));
  Read(Field::kPower, 100'000);
  Read(Field::kPowerMemory, 50'000);
  Read(Field::kPowerModuleInstant, 290'000);
  gpu_.fields[static_cast<size_t>(Field::kPowerModule)].status = nvml::ReadStatus::kNotSupported;
  Run();
  EXPECT_EQ(Value(kGpuMemoryPower), 50);
  EXPECT_EQ(Value(kGpuModulePower), 290);
}

TEST_F(OneReading, ExportsAverageOnlyWhereTheDrawIsInstantaneous) {
  Read(Field::kPowerAverage, 90'000);
  Run();
  EXPECT_EQ(Value(kGpuPowerAverage), 90);
  gpu_.facts[1].second = "9.0";
  gpu_.identity_version = 2;
  Run();
  EXPECT_TRUE(std::isnan(Value(kGpuPowerAverage)));
}

TEST_F(OneReading, OmitsAnUnknownState) {
  Read(Field::kComputeMode, 17);
  Run();
  Run();
  EXPECT_TRUE(std::isnan(Value(kGpuComputeMode)));
  EXPECT_EQ(Rejected(Validation::kOutOfRange), 1U);
  Read(Field::kComputeMode, -1);
  clock_.Advance(seconds(1));
  Read(Field::kComputeMode, -1);
  Run();
  EXPECT_TRUE(std::isnan(Value(kGpuComputeMode)));
}

TEST(BoardSteady, SixteenGpusDoNotAllocate) {
  GpuSeries::Options options;
  options.links = options.details = true;
  GpuFixture fixture(Busy("H100", 16), options, nvml::kDetailsAll);
  for (int i = 0; i < 130; ++i) fixture.Run();
  if (!AllocationsAreCounted()) GTEST_SKIP() << "this sanitizer counts no allocations";
  for (int i = 0; i < 70; ++i) {
    fixture.clock().Advance(seconds(1));
    uint64_t before = ThreadAllocations();
    fixture.Collect();
    EXPECT_EQ(ThreadAllocations() - before, 0U);
    fixture.Run();
  }
}

}  // namespace
}  // namespace gpulens::nvidia
