// Bad data that was reported from the field, as readings: each must be flagged with the right reason, and
// nothing of it may be exported. The numbers are those of the reports; a report is named by its tracker.
#include <gtest/gtest.h>

#include "base/raw_sentinel.h"
#include "catalog/gpu.h"
#include "core/validate.h"
#include "quality/gpu_quality.h"

namespace gpulens {
namespace {

using std::chrono::seconds;

// One reading among good ones of the same series, once a second.
struct BadReading {
  const char* report;
  const MetricDesc* metric;
  double before, bad;
  Validation verdict;
};
const BadReading kBadReadings[] = {
    {"DCGM#199: 4294967295 % busy, as a ratio", &kGpuUtilization, 0.5, 42949672.95, Validation::kOutOfRange},
    {"DCGM#199: the raw value where nothing scales it", &kGpuUtilization, 0.5, 4294967295,
     Validation::kSentinel},
    {"DCGM#199: most are between 1 k and 200 k", &kGpuUtilization, 0, 1980, Validation::kOutOfRange},
    {"dcgm-exporter#418: 808,334,905 %", &kGpuUtilization, 0.9, 8083349.05, Validation::kOutOfRange},
    {"dcgm-exporter#418: 2,619 %", &kGpuUtilization, 0.9, 26.19, Validation::kOutOfRange},
    {"dcgm-exporter#312: 345 degrees", &kGpuTemperature, 60, 345, Validation::kOutOfRange},
    {"dcgm-exporter#312: 82505 degrees", &kGpuTemperature, 60, 82505, Validation::kOutOfRange},
    {"dcgm-exporter#312: 644245923 degrees", &kGpuTemperature, 60, 644245923, Validation::kOutOfRange},
    {"dcgm-exporter#312: 4278190080 degrees", &kGpuTemperature, 60, 4278190080.0, Validation::kOutOfRange},
    {"dcgm-exporter#312, had it been 100 degrees", &kGpuTemperature, 60, 100, Validation::kImpossibleJump},
    {"gpu-monitoring-tools#97: memory of a T4", &kGpuTemperature, 60, 9223372036854776000.0,
     Validation::kOutOfRange},
    {"slurm-job-exporter#30: blank profiling", &kGpuSmActive, 0.9, 140737488355328.0,
     Validation::kOutOfRange},
    {"slurm-job-exporter#30: blank link rates", &kGpuPcieThroughput, 6.7e7, 9223372036854775792.0,
     Validation::kOutOfRange},
    {"dcgm-exporter#417: 57, then 21", &kGpuInterconnectErrors, 57, 21, Validation::kCounterDecreased},
    {"dcgm-exporter#417, on an energy counter", &kGpuEnergyConsumption, 51'120'000, 51'119'000,
     Validation::kCounterDecreased},
    {"an energy counter that leaps by 2^32 mJ", &kGpuEnergyConsumption, 1e6, 1e6 + 4294967.296,
     Validation::kImpossibleJump},
    {"AMD: 65535 W", &kGpuPowerDraw, 300, 65535, Validation::kSentinel},
    {"l9gpu: milliwatts under watts", &kGpuPowerDraw, 350, 350'000, Validation::kOutOfRange},
    {"nvidia-smi: memory used -1", &kGpuMemoryUsed, 1e9, -1, Validation::kSentinel},
    {"performance state 32", &kGpuPowerState, 0, 32, Validation::kSentinel},
};

// Sentinels of raw readings, before they are scaled; the sources check these.
TEST(FieldRaw, SentinelsOfTheReports) {
  EXPECT_TRUE(IsSentinel(4294967295u, 32)) << "DCGM#199";
  EXPECT_TRUE(IsSentinel(9223372036854775792u, 64)) << "slurm-job-exporter#30";
  EXPECT_TRUE(IsSentinel(9223372036854775794u, 64)) << "gpu-monitoring-tools#97";
  EXPECT_TRUE(IsSentinel(140737488355328.0)) << "slurm-job-exporter#30";
}

// The same numbers as a collector meets them: with the row that they would enter.
TEST(FieldRaw, NoSeriesTakesThem) {
  struct {
    const char* report;
    const MetricDesc& metric;
    double raw;
  } const kRaw[] = {
      {"DCGM#199, go-dcgm#75", kGpuUtilization, 4294967295.0},
      {"gpu-monitoring-tools#97", kGpuTemperature, 9223372036854776000.0},
      {"gpu-monitoring-tools#97", kGpuInterconnectBandwidth, 9223372036854776000.0},
      {"slurm-job-exporter#30", kGpuSmActive, 140737488355328.0},
      {"slurm-job-exporter#30", kGpuPcieThroughput, 9223372036854775792.0},
      {"gpu-monitoring-tools#4", kGpuInterconnectErrors, 9223372036854775794.0},
  };
  for (const auto& [report, metric, raw] : kRaw) EXPECT_TRUE(IsSentinel(metric, raw)) << report;
}

class Corpus : public ::testing::TestWithParam<BadReading> {};

TEST_P(Corpus, IsFlaggedAndNotExported) {
  const BadReading& bad = GetParam();
  ManualClock clock;
  SeriesTable table;
  FrameWriter writer(table, seconds(10));
  Series series =
      table.Declare(*bad.metric, MakeRef<Entity>("gpu", AttributeSet({{"gpu.index", int64_t{0}}})));
  auto run = [&](double value) {
    clock.Advance(seconds(1));
    writer.Begin(clock.Now());
    writer.Set(series, value);
    return writer.Finish();
  };
  auto number = [&](const Frame& frame) {
    Cell cell = frame.cells[(*frame.layout)[series.slot].first_cell];
    return bad.metric->number == Number::kInt ? static_cast<double>(cell.i) : cell.d;
  };
  for (int i = 0; i < 5; ++i) run(bad.before);
  Ref<const Frame> frame = run(bad.bad);
  EXPECT_EQ(writer.counts().rejected[static_cast<size_t>(bad.verdict)], 1u) << bad.report;
  EXPECT_EQ(frame->quality[series.slot], Quality::kStale) << "the last good value, with its age";
  EXPECT_EQ(frame->AgeMs(series.slot), 1000u);
  EXPECT_EQ(number(*frame), bad.before);
  ASSERT_EQ(writer.rejections().size(), 1u);
  EXPECT_EQ(writer.rejections()[0].why, bad.verdict);
  frame = run(bad.before);
  EXPECT_EQ(frame->quality[series.slot], Quality::kOk) << "one bad reading costs nothing else";
}

INSTANTIATE_TEST_SUITE_P(Field, Corpus, ::testing::ValuesIn(kBadReadings));

// Two series of one GPU, by name.
class Node {
 public:
  Series Declare(const MetricDesc& desc, std::initializer_list<AttributeSet::Attribute> extra = {}) {
    return table_.Declare(desc, gpu_, AttributeSet(extra));
  }
  template <class Write>
  Ref<const Frame> Run(Write&& write) {
    clock_.Advance(seconds(1));
    writer_.Begin(clock_.Now());
    write(writer_);
    quality_.Validate(writer_);
    return writer_.Finish();
  }
  uint64_t Rejected(Validation why) const { return writer_.counts().rejected[static_cast<size_t>(why)]; }

 private:
  ManualClock clock_;
  SeriesTable table_;
  FrameWriter writer_{table_, seconds(10)};
  GpuQuality quality_{seconds(1)};
  EntityRef gpu_ = MakeRef<Entity>("gpu", AttributeSet({{"gpu.index", int64_t{0}}}));
};

// DCGM#303, dcgm-exporter#662, DCGM#16: after an Xid 31, or after days, every profiling counter is 0.
TEST(FieldCrossChecks, RejectsZeroProfilingOnABusyGpu) {
  Node node;
  Series busy = node.Declare(kGpuUtilization), sm = node.Declare(kGpuSmActive);
  Ref<const Frame> frame;
  for (int t = 0; t < 60; ++t) {
    frame = node.Run([&](FrameWriter& out) {
      out.Set(busy, 1.0);
      out.Set(sm, t < 10 ? 0.91 : 0.0);
    });
  }
  EXPECT_EQ(frame->quality[busy.slot], Quality::kOk);
  EXPECT_EQ(frame->quality[sm.slot], Quality::kAbsent);
  EXPECT_EQ(AbsenceName(frame->absence[sm.slot]), "inconsistent");
}

// DCGM#313, NVSentinel#1748: four samples of five are lost under load. The old value is exported with
// its age until it is too old.
TEST(FieldLoss, LostSamplesAgeAndAreNeverZero) {
  Node node;
  Series power = node.Declare(kGpuPowerDraw);
  for (int t = 0; t < 50; ++t) {
    Ref<const Frame> frame = node.Run([&](FrameWriter& out) {
      if (t % 5 == 0) out.Set(power, 600.0);
    });
    EXPECT_EQ(frame->quality[power.slot], t % 5 == 0 ? Quality::kOk : Quality::kStale);
    EXPECT_EQ(frame->cells[0].d, 600);
    EXPECT_EQ(frame->AgeMs(power.slot), static_cast<uint32_t>(t % 5) * 1000);
  }
}

// gpu-monitoring-tools#188: after its engine had restarted an exporter went on with the old values, and
// healthy. Here a reading whose time does not move is not set again, so it ends.
TEST(FieldLoss, ASourceThatRepeatsItselfIsNotFresh) {
  Node node;
  Series power = node.Declare(kGpuPowerDraw);
  Ref<const Frame> frame = node.Run([&](FrameWriter& out) { out.Set(power, 600.0); });
  for (int t = 0; t < 10; ++t) {
    frame = node.Run([](FrameWriter&) {});
    EXPECT_EQ(frame->quality[power.slot], Quality::kStale);
  }
  frame = node.Run([](FrameWriter&) {});
  EXPECT_EQ(frame->quality[power.slot], Quality::kAbsent);
  EXPECT_EQ(AbsenceName(frame->absence[power.slot]), "too_old");
}

// dcgm-exporter#700: older releases exported 0 for values that were never known.
TEST(FieldLoss, ASeriesThatWasNeverReadIsAbsent) {
  Node node;
  Series replays = node.Declare(kGpuPcieReplayCount);
  Ref<const Frame> frame = node.Run([](FrameWriter&) {});
  EXPECT_EQ(frame->quality[replays.slot], Quality::kAbsent);
  EXPECT_EQ(AbsenceName(frame->absence[replays.slot]), "not_read");
}

// A driver reload sets the counter back: three readings agree, and a new start is believed.
TEST(FieldCounters, AResetIsBelievedAGlitchIsNot) {
  Node node;
  Series energy = node.Declare(kGpuEnergyConsumption);
  auto set = [&](double joules) {
    return node.Run([&](FrameWriter& out) { out.Set(energy, joules); })->quality[energy.slot];
  };
  EXPECT_EQ(set(51'000), Quality::kOk);
  EXPECT_EQ(set(500), Quality::kStale) << "a glitch, or a reset";
  EXPECT_EQ(set(51'600), Quality::kOk) << "it was a glitch";
  EXPECT_EQ(set(300), Quality::kStale);
  EXPECT_EQ(set(900), Quality::kStale);
  EXPECT_EQ(set(1500), Quality::kOk) << "it was a reset";
  EXPECT_EQ(node.Rejected(Validation::kCounterDecreased), 3u);
}

// A level that jumped and stays is believed, a single odd reading is not.
TEST(FieldCounters, ALevelThatStaysIsBelieved) {
  Node node;
  Series edge = node.Declare(kGpuTemperature, {{"gpu.temperature.sensor", "edge"}});
  auto set = [&](double degrees) {
    return node.Run([&](FrameWriter& out) { out.Set(edge, degrees); })->quality[edge.slot];
  };
  set(30);
  EXPECT_EQ(set(90), Quality::kStale);
  EXPECT_EQ(set(31), Quality::kOk);
  EXPECT_EQ(set(100), Quality::kStale);
  EXPECT_EQ(set(101), Quality::kStale);
  EXPECT_EQ(set(102), Quality::kOk);
}

}  // namespace
}  // namespace gpulens
