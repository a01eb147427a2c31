#include "plugins/collectors/amd/amd_series.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>

#include "base/files.h"
#include "base/testing/allocations.h"
#include "plugins/collectors/amd/amd_for_test.h"
#include "plugins/event_queue.h"

namespace gpulens {
extern const CollectorSpec amd_collector;
}  // namespace gpulens

namespace gpulens::amd {
namespace {

using std::chrono::seconds;

const std::string kGolden = GPULENS_SOURCE_DIR "/src/plugins/collectors/amd/testdata/golden.prom";

TEST(AmdSeriesTest, UsesTheUnitsOfTheCatalogue) {
  AmdRun run("gpus: 2\nload: {level: 0.5}\n");
  run.After(seconds(0));
  EXPECT_EQ(run.Value(kGpuUtilization, {{"gpu.index", "1"}, {"gpu.task.type", "compute"}}), 0.5);
  EXPECT_EQ(run.Value(kGpuMemoryUtilization), 0.25);
  EXPECT_EQ(run.Value(kGpuPowerDraw), 431);
  EXPECT_EQ(run.Value(kGpuPowerInstant), 431);
  EXPECT_FALSE(run.Has(kGpuPowerAverage)) << "the board has the power of the moment alone";
  EXPECT_EQ(run.Value(kGpuPowerLimit, {{"gpu.power.limit_type", "enforced"}}), 750);
  EXPECT_NEAR(run.Value(kGpuPowerUtilization), 431.0 / 750, 1e-9);
  EXPECT_NEAR(run.Value(kGpuEnergyConsumption), 431.25 * 1000, 1);
  EXPECT_EQ(run.Value(kGpuTemperature, {{"gpu.temperature.sensor", "hotspot"}}), 58);
  EXPECT_EQ(run.Value(kGpuTemperature, {{"gpu.temperature.sensor", "memory"}}), 53);
  EXPECT_FALSE(run.Has(kGpuTemperature, {{"gpu.temperature.sensor", "edge"}}));
  EXPECT_EQ(run.Value(kGpuClockFrequency, {{"gpu.clock.type", "graphics"}}), 2050);
  EXPECT_EQ(run.Value(kGpuPcieLinkGenCurrent), 5);
  EXPECT_EQ(run.Value(kGpuMemoryUsed), 0);
  EXPECT_EQ(run.Value(kGpuMemoryUsedPercent), 0);
  EXPECT_EQ(run.Value(kGpuMemoryTotal), 196592.0 * (1 << 20));
  EXPECT_FALSE(run.Has(kGpuFanSpeed)) << "cooled passively";
  EXPECT_EQ(run.Value(kGpuPerformanceLevel, {{"gpu.performance.level", "auto"}}), 1);
  EXPECT_EQ(run.Value(kGpuPerformanceLevel, {{"gpu.performance.level", "low"}}), 0);
  EXPECT_EQ(run.Value(kGpuInfo, {{"gpu.vendor", "amd"}, {"gpu.architecture", "gfx942"}}), 1);
  EXPECT_FALSE(run.Has(kGpuInfo, {{"gpu.serial", "6924000017"}}));
  EXPECT_FALSE(run.Has(kGpuTemperatureStack)) << "a detail that nobody asked for";
}

TEST(AmdSeriesTest, ReportsDetailsByOption) {
  AmdRun run("gpus: 1\nload: {level: 0.5}\n", {.simulated = true, .serial = true, .engines = true});
  run.After(seconds(0));
  EXPECT_EQ(run.Value(kGpuTemperatureStack, {{"gpu.memory.stack", "3"}}), 53);
  EXPECT_EQ(run.Value(kGpuEngineUtilization, {{"gpu.engine.type", "vcn"}, {"gpu.engine.index", "0"}}), 0.05);
  EXPECT_TRUE(run.Has(kGpuInfo, {{"gpu.serial", "6924000017"}}));
  EXPECT_TRUE(run.Has(kGpuPowerDraw, {{"simulated", "true"}}));
}

TEST(AmdSeriesTest, EveryLinkHasARateFromItsCounter) {
  AmdRun run("gpus: 1\nload: {level: 1}\nxgmi_share: 0.5\nlink_down: 2\n");
  run.After(seconds(0));
  EXPECT_EQ(run.Count(kGpuInterconnectThroughput), 0u) << "never a lifetime total";
  run.After(seconds(2));
  EXPECT_EQ(run.Count(kGpuInterconnectThroughput), 14u);
  // 62.5e6 KiB/s, half of it.
  EXPECT_NEAR(run.Value(kGpuInterconnectThroughput, {{"gpu.interconnect.link_index", "6"},
                                                     {"gpu.interconnect.direction", "transmit"},
                                                     {"gpu.interconnect.type", "xgmi"}}),
              31.25e6 * 1024, 1e4);
  EXPECT_NEAR(run.Value(kGpuInterconnectThroughput,
                        {{"gpu.interconnect.link_index", "0"}, {"gpu.interconnect.direction", "receive"}}),
              0.98 * 31.25e6 * 1024, 1e4);
  EXPECT_EQ(run.Value(kGpuInterconnectThroughput, {{"gpu.interconnect.link_index", "2"}}), 0);
  EXPECT_FALSE(run.Has(kGpuInterconnectThroughput, {{"gpu.interconnect.link_index", "7"}})) << "not there";
  EXPECT_EQ(run.Value(kGpuInterconnectLinkActive, {{"gpu.interconnect.link_index", "2"}}), 0);
  EXPECT_EQ(run.Value(kGpuInterconnectLinks, {{"gpu.interconnect.state", "active"}}), 6);
  EXPECT_EQ(run.Value(kGpuInterconnectLinks, {{"gpu.interconnect.state", "inactive"}}), 1);
  double before = run.Value(kGpuInterconnectThroughput, {{"gpu.interconnect.link_index", "6"}});
  run.Publish();
  EXPECT_EQ(run.Value(kGpuInterconnectThroughput, {{"gpu.interconnect.link_index", "6"}}), before)
      << "no newer reading: the rate stands";
}

TEST(AmdSeriesTest, ErrorsHaveTheBlockInLowerCase) {
  AmdRun run(
      "gpus: 1\necc:\n  - {block: umc, type: uncorrectable, amount: 2}\n  - {block: gfx, amount: 7}\n");
  run.After(seconds(0));
  EXPECT_EQ(
      run.Value(kGpuEccErrors, {{"gpu.ecc.memory_block", "umc"}, {"gpu.ecc.error_type", "uncorrectable"}}),
      2);
  EXPECT_EQ(
      run.Value(kGpuEccErrors, {{"gpu.ecc.memory_block", "gfx"}, {"gpu.ecc.error_type", "correctable"}}), 7);
  EXPECT_EQ(run.Value(kGpuEccErrors, {{"gpu.ecc.memory_block", "sdma"}, {"gpu.ecc.error_type", "deferred"}}),
            0)
      << "stands at 0 before the first";
  EXPECT_FALSE(run.Has(kGpuEccErrors, {{"gpu.ecc.memory_block", "df"}})) << "no RAS there";
  EXPECT_EQ(run.Value(kGpuEccMode), 1);
  EXPECT_EQ(run.Value(kGpuRetiredPages), 0);
}

TEST(AmdSeriesTest, CountsThrottlingSinceTheLastReading) {
  AmdRun run("gpus: 1\nload: {level: 1}\nthrottle:\n  - {cause: power, from: 4, to: 6}\n");
  run.After(seconds(0));
  EXPECT_FALSE(run.Has(kGpuThrottleReason)) << "nothing can be said from one reading";
  run.After(seconds(2));
  EXPECT_EQ(run.Value(kGpuThrottleReason, {{"gpu.throttle.cause", "power_software"}}), 0);
  run.After(seconds(4));
  EXPECT_EQ(run.Value(kGpuThrottleReason, {{"gpu.throttle.cause", "power_software"}}), 1);
  EXPECT_EQ(run.Value(kGpuThrottleReason, {{"gpu.throttle.cause", "temp_memory"}}), 0);
  EXPECT_EQ(run.Value(kGpuThrottleShare, {{"gpu.throttle.cause", "power_software"}}), 0.5);
  run.After(seconds(1));
  EXPECT_EQ(run.Value(kGpuThrottleReason, {{"gpu.throttle.cause", "power_software"}}), 0);
}

TEST(AmdSeriesTest, OlderBoardsReportThrottlingByMask) {
  const std::pair<const char*, std::string_view> kCauses[] = {{"power", "power_software"},
                                                              {"socket", "temp_software"},
                                                              {"prochot", "temp_hardware"},
                                                              {"memory", "temp_memory"},
                                                              {"vr", "temp_vr"}};
  for (auto [cause, name] : kCauses) {
    AmdRun run("model: RX7900\ngpus: 1\nthrottle:\n  - {cause: " + std::string(cause) + "}\n");
    run.After(seconds(0));
    for (const ThrottleRow& row : kThrottles) {
      EXPECT_EQ(run.Value(kGpuThrottleReason, {{"gpu.throttle.cause", row.cause}}), row.cause == name)
          << name;
    }
    EXPECT_GT(run.Value(kGpuThrottleMask), 0);
    EXPECT_FALSE(run.Has(kGpuThrottleShare));
  }
}

TEST(AmdSeriesTest, DesktopBoardHasFanEdgeAndMeanPower) {
  AmdRun run("model: RX7900\ngpus: 1\nload: {level: 1}\n");
  run.After(seconds(0));
  EXPECT_EQ(run.Value(kGpuTemperature, {{"gpu.temperature.sensor", "edge"}}), 75);
  EXPECT_EQ(run.Value(kGpuTemperature, {{"gpu.temperature.sensor", "vr_gfx"}}), 79);
  EXPECT_EQ(run.Value(kGpuFanSpeed), 0.6);
  EXPECT_EQ(run.Value(kGpuFanRotation, {{"gpu.fan.index", "0"}}), 2000);
  EXPECT_EQ(run.Value(kGpuPowerDraw), 329);
  EXPECT_FALSE(run.Has(kGpuPowerInstant));
  EXPECT_FALSE(run.Has(kGpuPowerAverage)) << "it is the draw";
  EXPECT_EQ(run.Value(kGpuVoltage, {{"gpu.voltage.rail", "gfx"}}), 0.85);
  EXPECT_FALSE(run.Has(kGpuEccErrors));
  EXPECT_FALSE(run.Has(kGpuInterconnectLinks));
  EXPECT_FALSE(run.Has(kGpuPartitionInfo));
  EXPECT_FALSE(run.Has(kGpuMultimediaUtilization));
}

TEST(AmdSeriesTest, EachDieOfABoardIsAGpu) {
  AmdRun run("model: MI250X\ngpus: 2\nload: {level: 0.5}\n");
  run.After(seconds(0));
  EXPECT_EQ(run.Count(kGpuPowerDraw), 2u);
  EXPECT_TRUE(run.Has(kGpuPowerDraw, {{"gpu.index", "0"}, {"gpu.model", "AMD Instinct MI250X"}}));
  EXPECT_TRUE(run.Has(kGpuPowerDraw, {{"gpu.index", "1"}}));
  EXPECT_TRUE(run.Has(kGpuTemperature, {{"gpu.temperature.sensor", "edge"}}));
}

TEST(AmdSeriesTest, PartitionsAreEntitiesBelowTheirGpu) {
  AmdRun run("gpus: 2\ncompute_partition: CPX\nmemory_partition: NPS4\nload: {level: 0.5}\n");
  run.After(seconds(0));
  EXPECT_EQ(run.Count(kGpuPowerDraw), 2u) << "the board's, once";
  EXPECT_EQ(run.Count(kGpuUtilization), 16u);
  EXPECT_TRUE(run.Has(kGpuUtilization, {{"gpu.index", "1"}, {"gpu.partition.id", "7"}}));
  EXPECT_TRUE(run.Has(kGpuUtilization, {{"gpu.index", "0"}, {"gpu.partition.id", "0"}}));
  EXPECT_EQ(run.Value(kGpuMemoryTotal, {{"gpu.partition.id", "3"}}), 196592.0 / 8 * (1 << 20));
  EXPECT_EQ(run.Value(kGpuPartitionInfo, {{"gpu.partition.id", "5"},
                                          {"gpu.partition.compute", "cpx"},
                                          {"gpu.partition.memory", "nps4"}}),
            1);
  EXPECT_EQ(run.Count(kGpuPartitionInfo), 16u);
  EXPECT_FALSE(run.Has(kGpuPowerDraw, {{"gpu.partition.id", "0"}}));
}

TEST(AmdSeriesTest, ProcessesComeAndGoWithTheirPeak) {
  AmdRun run(
      "gpus: 1\nprocesses:\n  - {gpu: 0, pid: 7, name: train, memory: 2GiB, host_memory: 1MiB, "
      "compute_units: 152, to: 3}\n  - {gpu: 0, pid: 8, memory: 1GiB}\n");
  run.After(seconds(1));
  constexpr double kGiB = 1 << 30;
  AmdRun::Pairs train = {{"process.pid", "7"}, {"process.executable.name", "train"}};
  EXPECT_EQ(run.Value(kGpuProcessMemoryUsed, train), 2 * kGiB);
  EXPECT_EQ(run.Value(kGpuProcessMemoryPeak, train), 2 * kGiB);
  EXPECT_EQ(run.Value(kGpuProcessMemoryGtt, train), 1 << 20);
  EXPECT_EQ(run.Value(kGpuProcessCuOccupancy, train), 0.5);
  EXPECT_EQ(run.Value(kGpuProcessEngineTime, {{"process.pid", "7"}, {"gpu.engine.type", "gfx"}}), 0.5);
  EXPECT_FALSE(run.Has(kGpuProcessEngineTime, {{"gpu.engine.type", "enc"}})) << "0 is what it cannot tell";
  EXPECT_EQ(run.Value(kGpuProcesses), 2);
  run.After(seconds(3));
  EXPECT_FALSE(run.Has(kGpuProcessMemoryUsed, {{"process.pid", "7"}})) << "gone with the process";
  EXPECT_TRUE(run.Has(kGpuProcessMemoryUsed, {{"process.pid", "8"}}));
  EXPECT_EQ(run.Value(kGpuProcesses), 1);
}

TEST(AmdSeriesTest, LostGpuKeepsOnlyItsState) {
  AmdRun run("gpus: 2\nload: {level: 0.5}\nlost:\n  - {gpu: 1, from: 5}\n");
  run.After(seconds(1));
  EXPECT_EQ(run.Value(kGpuState, {{"gpu.index", "1"}, {"gpu.state", "ok"}}), 1);
  run.After(seconds(5));
  EXPECT_EQ(run.Value(kGpuState, {{"gpu.index", "1"}, {"gpu.state", "lost"}}), 1);
  EXPECT_FALSE(run.Has(kGpuPowerDraw, {{"gpu.index", "1"}}));
  EXPECT_TRUE(run.Has(kGpuPowerDraw, {{"gpu.index", "0"}}));
  EXPECT_EQ(run.Value(kGpuSampleAge, {{"gpu.index", "1"}}), 5);
}

TEST(AmdSeriesTest, SteadyRunDoesNotAllocate) {
  if (!AllocationsAreCounted()) GTEST_SKIP() << "allocations are not counted under this sanitizer";
  AmdRun run("gpus: 8\nload: {level: 0.6, amplitude: 0.3}\nprocesses:\n  - {pid: 4000, memory: 2GiB}\n",
             {.simulated = true, .serial = false, .engines = true});
  for (int i = 0; i < 5; ++i) run.After(seconds(1));
  uint64_t counted = 0;
  for (int i = 0; i < 70; ++i) {  // Over all tiers.
    run.clock.Advance(seconds(1));
    run.Read();
    uint64_t before = ThreadAllocations();
    run.Publish();
    counted += ThreadAllocations() - before;
  }
  EXPECT_EQ(counted, 0U);
  EXPECT_EQ(run.writer.counts().invalid, 0U);
  for (size_t i = 0; i < kValidations; ++i) EXPECT_EQ(run.writer.counts().rejected[i], 0U) << i;
}

TEST(AmdSeriesTest, TwoSecondsOfEachModelMatchTheGolden) {
  std::string page;
  for (std::string profile :
       {"model: MI300X\ngpus: 1\nload: {level: 0.5}\nprocesses:\n  - {gpu: 0, pid: 7, memory: 100GiB}\n",
        "model: MI250X\ngpus: 2\nload: {level: 0.5}\n", "model: RX7900\ngpus: 1\nload: {level: 0.25}\n"}) {
    AmdRun run(profile);
    run.After(seconds(0));
    run.After(seconds(2));
    page += run.Page();
  }
  if (std::getenv("GPULENS_UPDATE_GOLDEN")) std::ofstream(kGolden) << page;
  EXPECT_EQ(page, ReadFile(kGolden).value_or("")) << "GPULENS_UPDATE_GOLDEN=1 writes it anew";
}

TEST(AmdSeriesTest, SeriesMatchTheSpecAndTheCatalogue) {
  for (std::string profile :
       {"model: MI300X\ngpus: 1\ncompute_partition: DPX\n", "model: RX7900\ngpus: 1\n"}) {
    AmdRun run(profile + "processes:\n  - {pid: 7, memory: 1GiB, compute_units: 3}\n",
               {.simulated = true, .serial = true, .engines = true});
    run.After(seconds(1));
    run.After(seconds(1));
    std::span<const MetricDesc* const> metrics = amd_collector.metrics;
    for (uint32_t slot = 0; slot < run.frame->layout->slots(); ++slot) {
      const SeriesInfo& info = (*run.frame->layout)[slot];
      if (!info.desc) continue;
      EXPECT_NE(std::find(metrics.begin(), metrics.end(), info.desc), metrics.end()) << info.desc->name;
      for (auto [key, value] : info.attributes) {
        std::span<const std::string_view> keys = info.desc->keys;
        bool known = std::find(keys.begin(), keys.end(), key) != keys.end();
        for (const Entity* entity = info.entity.get(); entity; entity = entity->parent.get()) {
          known = known || entity->attributes.Has(key);
        }
        EXPECT_TRUE(known) << info.desc->name << " has " << key;
      }
    }
  }
}

TEST(AmdEventsTest, ReportsEachChangeOnce) {
  EventQueue queue;
  Env env;
  env.events = &queue;
  AmdEvents events(env);
  ManualClock clock;
  reader::DeviceEntry device;
  reader::ReaderState state;
  auto names = [&] {
    std::vector<std::string> out;
    for (const Event& event : queue.Take()) out.emplace_back(event.name);
    return out;
  };
  using Names = std::vector<std::string>;
  state.up = true;
  state.starts[0] = 1;
  device.state = reader::DeviceState::kOk;
  for (int i = 0; i < 3; ++i) {
    events.OnReader(state, clock.Now());
    events.OnDevice(device, {}, clock.Now());
  }
  EXPECT_EQ(names(), (Names{"gpulens.reader", "gpu.found"}));
  device.state = reader::DeviceState::kHung;
  device.hangs = 1;
  device.hung_call = static_cast<reader::CallNumber>(amdsmi::Call::kEnergy);
  device.hung_since_boot_ns = clock.Now().boot_ns - 2'000'000'000;
  for (int i = 0; i < 3; ++i) events.OnDevice(device, {}, clock.Now());
  std::vector<Event> events_taken = queue.Take();
  ASSERT_EQ(events_taken.size(), 1u);
  EXPECT_EQ(events_taken[0].attributes.Text("gpu.call"), "amdsmi_get_energy_count");
  EXPECT_EQ(events_taken[0].attributes.Text("gpu.hang.duration"), "2");
  device.state = reader::DeviceState::kLost;
  events.OnDevice(device, {}, clock.Now());
  events.OnDevice(device, {}, clock.Now());
  EXPECT_EQ(names(), (Names{"gpu.lost"}));
  device.state = reader::DeviceState::kOk;
  events.OnDevice(device, {}, clock.Now());
  events_taken = queue.Take();
  ASSERT_EQ(events_taken.size(), 1u);
  EXPECT_EQ(events_taken[0].attributes.Text("gpu.found.reason"), "hotplug");
  state.up = false;
  state.fault = reader::ReaderFault::kCrashed;
  events.OnReader(state, clock.Now());
  events.OnReader(state, clock.Now());
  EXPECT_EQ(names(), (Names{"gpulens.reader"}));
}

}  // namespace
}  // namespace gpulens::amd
