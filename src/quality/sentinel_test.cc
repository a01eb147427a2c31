#include "core/validate.h"

#include <gtest/gtest.h>

#include "catalog/gpu.h"

namespace gpulens {
namespace {

constexpr int64_t kAllBits32 = 4294967295, kAllBits64 = -1;

TEST(IsSentinel, FindsPatternsOfUnknownReadings) {
  struct {
    const MetricDesc& metric;
    int64_t raw;
  } const kNothing[] = {
      {kGpuUtilization, kAllBits32},      {kGpuUtilization, 65535},
      {kGpuPowerDraw, kAllBits32},        {kGpuPowerDraw, 65535},
      {kGpuTemperature, kAllBits32},      {kGpuTemperature, INT32_MIN},
      {kGpuTemperature, 65535},           {kGpuMemoryUsed, kAllBits64},
      {kGpuMemoryTotal, INT64_MAX},       {kGpuEnergyConsumption, kAllBits64},
      {kGpuEnergyConsumption, INT64_MIN}, {kGpuPcieReplayCount, kAllBits32},
      {kGpuEccErrors, kAllBits64},        {kGpuThrottleTime, 9223372036854775794},
      {kGpuPcieThroughput, kAllBits32},
  };
  for (const auto& [metric, raw] : kNothing)
    EXPECT_TRUE(IsSentinel(metric, raw)) << metric.name << " " << raw;
}

TEST(IsSentinel, AcceptsNumbersThatLookAlike) {
  EXPECT_FALSE(IsSentinel(kGpuTemperature, int64_t{-1})) << "below freezing";
  EXPECT_FALSE(IsSentinel(kGpuTemperatureMargin, int64_t{-1}));
  EXPECT_FALSE(IsSentinel(kGpuMemoryUsed, kAllBits32)) << "4 GiB less a byte";
  EXPECT_FALSE(IsSentinel(kGpuEnergyConsumption, kAllBits32));
  EXPECT_FALSE(IsSentinel(kGpuPcieIo, int64_t{0x7FFFFFF0}));
  EXPECT_FALSE(IsSentinel(kGpuUtilization, int64_t{0}));
}

TEST(IsSentinel, FindsSentinelsOfPages) {
  EXPECT_TRUE(IsSentinel(kGpuMigMemoryUsed, 18446744073709551615.0));
  EXPECT_TRUE(IsSentinel(kGpuTemperature, 9223372036854775794.0));
  EXPECT_TRUE(IsSentinel(kGpuFanSpeed, 2147483632.0));
  EXPECT_TRUE(IsSentinel(kGpuPowerDraw, 140737488355328.0));
  EXPECT_TRUE(IsSentinel(kGpuUtilization, 4294967295.0));
  EXPECT_FALSE(IsSentinel(kGpuInterconnectIo, 4294967295.0));
  EXPECT_FALSE(IsSentinel(kGpuPowerDraw, 409.692));
}

}  // namespace
}  // namespace gpulens
