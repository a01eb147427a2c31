// Which field of the driver feeds which metric, and in which unit: one row each. What needs more than a
// factor (rates, shares, masks, states) is in gpu_series.cc.
#pragma once

#include <string_view>

#include "catalog/gpu.h"
#include "sources/nvml/nvml_fields.h"

namespace gpulens {

struct FieldRow {
  nvml::Field field;
  const MetricDesc* metric;
  double per = 1;  // of the driver's unit in one of the metric's: exact as a divisor, not as a factor
  std::string_view key = {}, value = {};    // one attribute of the series
  std::string_view key2 = {}, value2 = {};  // and another
};

inline constexpr FieldRow kFieldRows[] = {
    {nvml::Field::kUtilizationGpu, &kGpuUtilization, 100, "gpu.task.type", "compute"},
    {nvml::Field::kUtilizationMemory, &kGpuMemoryUtilization, 100, "gpu.task.type", "memory_controller"},
    {nvml::Field::kUtilizationEncoder, &kGpuEncodeUtilization, 100, "gpu.task.type", "encoder"},
    {nvml::Field::kUtilizationDecoder, &kGpuDecodeUtilization, 100, "gpu.task.type", "decoder"},
    {nvml::Field::kMemoryTotal, &kGpuMemoryTotal},
    {nvml::Field::kMemoryUsed, &kGpuMemoryUsed},
    {nvml::Field::kMemoryFree, &kGpuMemoryFree},
    {nvml::Field::kMemoryReserved, &kGpuMemoryReserved},
    {nvml::Field::kUnifiedTotal, &kGpuMemoryUnifiedTotal},
    {nvml::Field::kUnifiedUsed, &kGpuMemoryUnifiedUsed},
    {nvml::Field::kTemperature, &kGpuTemperature, 1, "gpu.temperature.sensor", "edge"},
    {nvml::Field::kTemperatureMemory, &kGpuTemperature, 1, "gpu.temperature.sensor", "memory"},
    {nvml::Field::kPower, &kGpuPowerDraw, 1000},
    {nvml::Field::kPowerInstant, &kGpuPowerInstant, 1000},
    {nvml::Field::kPowerLimitEnforced, &kGpuPowerLimit, 1000, "gpu.power.limit_type", "enforced"},
    {nvml::Field::kPowerLimitRequested, &kGpuPowerLimit, 1000, "gpu.power.limit_type", "requested"},
    {nvml::Field::kPowerLimitDefault, &kGpuPowerLimit, 1000, "gpu.power.limit_type", "default"},
    {nvml::Field::kPowerLimitMin, &kGpuPowerLimit, 1000, "gpu.power.limit_type", "min"},
    {nvml::Field::kPowerLimitMax, &kGpuPowerLimit, 1000, "gpu.power.limit_type", "max"},
    {nvml::Field::kEnergy, &kGpuEnergyConsumption, 1000},
    {nvml::Field::kClockGraphics, &kGpuClockFrequency, 1, "gpu.clock.type", "graphics"},
    {nvml::Field::kClockSm, &kGpuClockFrequency, 1, "gpu.clock.type", "sm"},
    {nvml::Field::kClockMemory, &kGpuClockFrequency, 1, "gpu.clock.type", "memory"},
    {nvml::Field::kClockVideo, &kGpuClockFrequency, 1, "gpu.clock.type", "video"},
    {nvml::Field::kPerformanceState, &kGpuPowerState},
    {nvml::Field::kFanSpeedMax, &kGpuFanSpeed, 100},
    {nvml::Field::kEccCorrected, &kGpuEccErrors, 1, "gpu.ecc.count_type", "volatile", "gpu.ecc.error_type",
     "correctable"},
    {nvml::Field::kEccUncorrected, &kGpuEccErrors, 1, "gpu.ecc.count_type", "volatile", "gpu.ecc.error_type",
     "uncorrectable"},
    {nvml::Field::kEccMode, &kGpuEccMode, 1, "gpu.ecc.mode_type", "current"},
    {nvml::Field::kRemapPending, &kGpuRowRemapResetPending},
    {nvml::Field::kRemapFailure, &kGpuRowRemapFailed},
    {nvml::Field::kRetiredSingleBit, &kGpuRetiredPages, 1, "gpu.ecc.error_type", "correctable"},
    {nvml::Field::kRetiredDoubleBit, &kGpuRetiredPages, 1, "gpu.ecc.error_type", "uncorrectable"},
    {nvml::Field::kRetiredPending, &kGpuRetiredPagesPending},
    {nvml::Field::kPcieReplay, &kGpuPcieReplayCount},
    {nvml::Field::kPcieTxBytes, &kGpuPcieIo, 1, "gpu.interconnect.direction", "transmit"},
    {nvml::Field::kPcieRxBytes, &kGpuPcieIo, 1, "gpu.interconnect.direction", "receive"},
    {nvml::Field::kPcieLinkGen, &kGpuPcieLinkGenCurrent},
    {nvml::Field::kPcieLinkWidth, &kGpuPcieLinkWidthCurrent},
    {nvml::Field::kPcieMaxLinkGen, &kGpuPcieLinkGenMax},
    {nvml::Field::kPcieMaxLinkWidth, &kGpuPcieLinkWidthMax},
    {nvml::Field::kMigMode, &kGpuMigMode, 1, "gpu.mig.mode_type", "current"},
    {nvml::Field::kPersistenceMode, &kGpuPersistenceEnabled},
};

// A rate from a byte counter; where the driver has none, the driver's own rate, which costs it 20 ms.
struct RateRow {
  nvml::Field counter;
  nvml::Field fallback;  // kCount: none
  double fallback_factor;
  const MetricDesc* metric;
  std::string_view direction, type;
};

inline constexpr RateRow kRateRows[] = {
    {nvml::Field::kPcieTxBytes, nvml::Field::kPcieTxRate, 1024, &kGpuPcieThroughput, "transmit", "pcie"},
    {nvml::Field::kPcieRxBytes, nvml::Field::kPcieRxRate, 1024, &kGpuPcieThroughput, "receive", "pcie"},
    {nvml::Field::kNvlinkTxBytes, nvml::Field::kCount, 0, &kGpuInterconnectThroughput, "transmit", "nvlink"},
    {nvml::Field::kNvlinkRxBytes, nvml::Field::kCount, 0, &kGpuInterconnectThroughput, "receive", "nvlink"},
};

// The bits of the clock event reasons. Idle is no cause of throttling: see gpu.clock.idle.
struct ThrottleBit {
  uint64_t bit;
  std::string_view cause;
};
inline constexpr uint64_t kClockIdleBit = 0x1;
inline constexpr ThrottleBit kThrottleBits[] = {
    {0x2, "clock_setting"},  {0x4, "power_software"}, {0x8, "slowdown_hardware"}, {0x10, "syncboost"},
    {0x20, "temp_software"}, {0x40, "temp_hardware"}, {0x80, "power_brake"},      {0x100, "display"},
};

}  // namespace gpulens
