#include "names/hw.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "names/naming_testing.h"

namespace gpulens {
namespace {

using naming_testing::Label;
using naming_testing::MakeNames;
using naming_testing::Series;
using naming_testing::Tick;

TEST(Hw, GpuIsIdentifiedByUuid) {
  Tick tick;
  tick.Add(kGpuInfo, {{"gpu.index", int64_t{0}},
                      {"gpu.uuid", "u"},
                      {"gpu.vendor", "nvidia"},
                      {"gpu.vbios.version", "96.00"},
                      {"gpu.serial", "1654"}});
  tick.Add(kGpuDriverInfo, {{"gpu.vendor", "nvidia"}, {"gpu.driver.version", "580"}});
  std::vector<std::string> names = {"otel_hw"};
  SeriesNamer namer = MakeSeriesNamer(names);
  namer.Refresh(tick.Snap());
  std::vector<NamedSeries> out;
  namer(Series(kGpuUtilization, {{"gpu.index", int64_t{0}},
                                 {"gpu.uuid", "u"},
                                 {"gpu.model", "H100"},
                                 {"gpu.task.type", "compute"}}),
        out);
  ASSERT_EQ(out.size(), 1u);
  EXPECT_EQ(out[0].name, "hw_gpu_utilization_ratio");
  EXPECT_EQ(out[0].scale, 1);
  const std::pair<const char*, const char*> labels[] = {{"hw_id", "u"},
                                                        {"hw_type", "gpu"},
                                                        {"hw_model", "H100"},
                                                        {"hw_vendor", "nvidia"},
                                                        {"hw_serial_number", "1654"},
                                                        {"hw_driver_version", "580"},
                                                        {"hw_firmware_version", "96.00"},
                                                        {"hw_gpu_task", "general"}};
  for (auto [label, value] : labels) EXPECT_EQ(Label(out[0], label), value) << label;
}

TEST(Hw, SensorHasItsGpuAsParent) {
  auto named =
      MakeNames({"otel_hw"}, kGpuTemperature, {{"gpu.uuid", "u"}, {"gpu.temperature.sensor", "memory"}});
  ASSERT_EQ(named.size(), 1u);
  EXPECT_EQ(named[0].name, "hw_temperature_celsius");
  EXPECT_EQ(Label(named[0], "hw_id"), "u/memory");
  EXPECT_EQ(Label(named[0], "hw_parent"), "u");
  EXPECT_EQ(Label(named[0], "hw_type"), "temperature");
  EXPECT_EQ(Label(named[0], "hw_sensor_location"), "memory");

  auto fan = MakeNames({"otel_hw"}, kGpuFanRotation, {{"gpu.uuid", "u"}, {"gpu.fan.index", int64_t{1}}});
  ASSERT_EQ(fan.size(), 1u);
  EXPECT_EQ(Label(fan[0], "hw_id"), "u/fan/1");
  EXPECT_EQ(Label(MakeNames({"otel_hw"}, kGpuFanSpeed, {{"gpu.uuid", "u"}}).at(0), "hw_id"), "u/fan");
  EXPECT_EQ(Label(MakeNames({"otel_hw"}, kHostCpuEnergy, {{"host.cpu.package", int64_t{1}}}).at(0), "hw_id"),
            "cpu/1");
}

TEST(Hw, ErrorsHaveTheirType) {
  auto type = [](const MetricDesc& desc, AttributeSet attributes) {
    auto named = MakeNames({"otel_hw"}, desc, std::move(attributes));
    if (named.size() != 1) return std::to_string(named.size()) + " spellings";
    EXPECT_EQ(named[0].name, "hw_errors_total");
    EXPECT_EQ(named[0].kind, Kind::kCounter);
    return Label(named[0], "error_type");
  };
  auto ecc = [&](const char* count, const char* kind) {
    return type(kGpuEccErrors, {{"gpu.ecc.count_type", count}, {"gpu.ecc.error_type", kind}});
  };
  EXPECT_EQ(ecc("volatile", "correctable"), "corrected");
  EXPECT_EQ(ecc("volatile", "uncorrectable"), "uncorrected");
  EXPECT_EQ(ecc("volatile", "deferred"), "deferred");
  EXPECT_EQ(ecc("aggregate", "correctable"), "0 spellings") << "the same errors, counted longer";
  EXPECT_EQ(type(kGpuXidErrors, {}), "xid");
  EXPECT_EQ(type(kGpuPcieReplayCount, {}), "pcie_replay");
  EXPECT_EQ(type(kGpuInterconnectErrors,
                 {{"gpu.interconnect.type", "nvlink"}, {"gpu.interconnect.error_type", "crc_flit"}}),
            "nvlink_crc_flit");
  EXPECT_EQ(type(kGpuRasErrors, {{"gpu.ras.severity", "fatal"}}), "ras_fatal");
}

TEST(Hw, LimitsAreDegradedAndCritical) {
  auto limit = [](const char* type) {
    auto named = MakeNames({"otel_hw"}, kGpuTemperatureLimit,
                           {{"gpu.temperature.sensor", "edge"}, {"gpu.temperature.limit_type", type}});
    return named.empty() ? std::string() : Label(named[0], "hw_limit_type");
  };
  EXPECT_EQ(limit("slowdown"), "high.degraded");
  EXPECT_EQ(limit("shutdown"), "high.critical");
  EXPECT_EQ(limit("max_operating"), "");
}

TEST(Hw, OmitsMetricsWithoutConvention) {
  EXPECT_TRUE(MakeNames({"otel_hw"}, kGpuMemoryUtilization, {{"gpu.task.type", "memory_controller"}}).empty())
      << "their memory utilisation is how full it is";
  EXPECT_TRUE(MakeNames({"otel_hw"}, kGpuClockFrequency, {{"gpu.clock.type", "sm"}}).empty());
  EXPECT_TRUE(MakeNames({"otel_hw"}, kGpuMemoryUsed, {{"gpu.uuid", "u"}, {"gpu.mig.instance_id", int64_t{1}}})
                  .empty());
  EXPECT_TRUE(MakeNames({"otel_hw"}, kGpuState, {{"gpu.state", "lost"}}).empty());
  auto full = MakeNames({"otel_hw"}, kGpuMemoryUsedPercent, {{"gpu.uuid", "u"}});
  ASSERT_EQ(full.size(), 1u);
  EXPECT_EQ(full[0].name, "hw_gpu_memory_utilization_ratio");
  EXPECT_EQ(full[0].scale, 0.01);
}

TEST(Hw, OnlyHealthFeedsTheStatus) {
  std::set<const MetricDesc*> feeding;
  for (const NamingRow& row : kHw.rows) {
    if (row.name == "hw_status") feeding.insert(row.native);
  }
  EXPECT_EQ(feeding, std::set<const MetricDesc*>{&kGpuHealthState});
  auto named = MakeNames({"otel_hw"}, kGpuHealthState, {{"gpu.uuid", "u"}, {"gpu.health.state", "degraded"}});
  ASSERT_EQ(named.size(), 1u);
  EXPECT_EQ(Label(named[0], "hw_state"), "degraded");
}

}  // namespace
}  // namespace gpulens
