// The tables that map fields of the AMD SMI reader process to metrics. Values that need more than a factor
// (rates, shares, states) are computed in amd_series.cc and listed in kComputedMetrics.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "catalog/gpu.h"
#include "catalog/row.h"
#include "catalog/self.h"
#include "sources/amdsmi/amdsmi_fields.h"

namespace gpulens::amd {

using amdsmi::Field;

// Where a field is measured when the GPU is divided: on the board as a whole, or in each partition.
enum class FieldScope : uint8_t { kBoard, kPartition };

struct MetricRow {
  Field field;
  const MetricDesc* metric;
  double per = 1;  // of the library's unit in one of the metric's: exact as a divisor, not as a factor
  std::string_view key = {}, value = {};    // one attribute of the series
  std::string_view key2 = {}, value2 = {};  // and another
  std::string_view copy_key = {};           // receives the number of the copy
  FieldScope scope = FieldScope::kBoard;
  bool detail = false;  // only with the option `engines`
};
consteval MetricRow OnPartition(MetricRow row) {
  row.scope = FieldScope::kPartition;
  return row;
}
// One series for each copy of the field.
consteval MetricRow ForCopies(MetricRow row, std::string_view key, bool detail = false) {
  row.copy_key = key;
  row.detail = detail;
  return row;
}

// Shorthands of the attributes that many rows have.
inline constexpr std::string_view kTask = "gpu.task.type", kSensor = "gpu.temperature.sensor",
                                  kLimit = "gpu.temperature.limit_type", kClock = "gpu.clock.type",
                                  kPowerType = "gpu.power.limit_type", kRail = "gpu.voltage.rail",
                                  kLinkType = "gpu.interconnect.type",
                                  kLinkIndex = "gpu.interconnect.link_index",
                                  kDirection = "gpu.interconnect.direction",
                                  kPcieError = "gpu.pcie.error_type", kEngine = "gpu.engine.type",
                                  kEngineIndex = "gpu.engine.index", kErrorType = "gpu.ecc.error_type";

inline constexpr MetricRow kRows[] = {
    OnPartition({Field::kActivityGfx, &kGpuUtilization, 100, kTask, "compute"}),
    OnPartition({Field::kActivityMemory, &kGpuMemoryUtilization, 100, kTask, "memory_controller"}),
    {Field::kActivityMultimedia, &kGpuMultimediaUtilization, 100, kTask, "multimedia"},
    OnPartition({Field::kVramTotal, &kGpuMemoryTotal}),
    {Field::kVisibleTotal, &kGpuMemoryVisibleTotal},
    {Field::kVisibleUsed, &kGpuMemoryVisibleUsed},
    {Field::kGttTotal, &kGpuMemoryGttTotal},
    {Field::kGttUsed, &kGpuMemoryGttUsed},
    {Field::kPowerCurrent, &kGpuPowerInstant},
    {Field::kPowerCap, &kGpuPowerLimit, 1e6, kPowerType, "enforced"},
    {Field::kPowerCapDefault, &kGpuPowerLimit, 1e6, kPowerType, "default"},
    {Field::kPowerCapMin, &kGpuPowerLimit, 1e6, kPowerType, "min"},
    {Field::kPowerCapMax, &kGpuPowerLimit, 1e6, kPowerType, "max"},
    {Field::kEnergy, &kGpuEnergyConsumption, 1e6},
    {Field::kTemperatureEdge, &kGpuTemperature, 1000, kSensor, "edge"},
    {Field::kTemperatureHotspot, &kGpuTemperature, 1000, kSensor, "hotspot"},
    {Field::kTemperatureMemory, &kGpuTemperature, 1000, kSensor, "memory"},
    {Field::kTemperatureVrGfx, &kGpuTemperature, 1, kSensor, "vr_gfx"},
    {Field::kTemperatureVrSoc, &kGpuTemperature, 1, kSensor, "vr_soc"},
    {Field::kTemperatureVrMemory, &kGpuTemperature, 1, kSensor, "vr_memory"},
    {Field::kCriticalEdge, &kGpuTemperatureLimit, 1000, kSensor, "edge", kLimit, "slowdown"},
    {Field::kCriticalHotspot, &kGpuTemperatureLimit, 1000, kSensor, "hotspot", kLimit, "slowdown"},
    {Field::kCriticalMemory, &kGpuTemperatureLimit, 1000, kSensor, "memory", kLimit, "slowdown"},
    {Field::kEmergencyEdge, &kGpuTemperatureLimit, 1000, kSensor, "edge", kLimit, "shutdown"},
    {Field::kEmergencyHotspot, &kGpuTemperatureLimit, 1000, kSensor, "hotspot", kLimit, "shutdown"},
    {Field::kEmergencyMemory, &kGpuTemperatureLimit, 1000, kSensor, "memory", kLimit, "shutdown"},
    ForCopies({Field::kTemperatureStack, &kGpuTemperatureStack}, "gpu.memory.stack", true),
    {Field::kClockGfx, &kGpuClockFrequency, 1, kClock, "graphics"},
    {Field::kClockMemory, &kGpuClockFrequency, 1, kClock, "memory"},
    {Field::kClockSoc, &kGpuClockFrequency, 1, kClock, "soc"},
    {Field::kClockFabric, &kGpuClockFrequency, 1, kClock, "fabric"},
    {Field::kClockVclk0, &kGpuClockFrequency, 1, kClock, "vclk0"},
    {Field::kClockDclk0, &kGpuClockFrequency, 1, kClock, "dclk0"},
    {Field::kClockGfxMax, &kGpuClockMax, 1, kClock, "graphics"},
    {Field::kClockMemoryMax, &kGpuClockMax, 1, kClock, "memory"},
    {Field::kClockSocMax, &kGpuClockMax, 1, kClock, "soc"},
    {Field::kClockFabricMax, &kGpuClockMax, 1, kClock, "fabric"},
    {Field::kClockVclk0Max, &kGpuClockMax, 1, kClock, "vclk0"},
    {Field::kClockDclk0Max, &kGpuClockMax, 1, kClock, "dclk0"},
    {Field::kVoltageGfx, &kGpuVoltage, 1000, kRail, "gfx"},
    {Field::kVoltageSoc, &kGpuVoltage, 1000, kRail, "soc"},
    {Field::kVoltageMemory, &kGpuVoltage, 1000, kRail, "memory"},
    {Field::kThrottleMask, &kGpuThrottleMask},
    ForCopies({Field::kVcnActivity, &kGpuEngineUtilization, 100, kEngine, "vcn"}, kEngineIndex, true),
    ForCopies({Field::kJpegActivity, &kGpuEngineUtilization, 100, kEngine, "jpeg"}, kEngineIndex, true),
    {Field::kPcieGeneration, &kGpuPcieLinkGenCurrent},
    {Field::kPcieWidth, &kGpuPcieLinkWidthCurrent},
    {Field::kPcieGenerationMax, &kGpuPcieLinkGenMax},
    {Field::kPcieWidthMax, &kGpuPcieLinkWidthMax},
    {Field::kPcieReplay, &kGpuPcieReplayCount},
    {Field::kPcieRecovery, &kGpuPcieErrors, 1, kPcieError, "recovery"},
    {Field::kPcieRollover, &kGpuPcieErrors, 1, kPcieError, "replay_rollover"},
    {Field::kPcieNakSent, &kGpuPcieErrors, 1, kPcieError, "nak_sent"},
    {Field::kPcieNakReceived, &kGpuPcieErrors, 1, kPcieError, "nak_received"},
    ForCopies({Field::kXgmiLink, &kGpuInterconnectLinkActive, 1, kLinkType, "xgmi"}, kLinkIndex),
    {Field::kXgmiWidth, &kGpuInterconnectLinkWidth, 1, kLinkType, "xgmi"},
    ForCopies({Field::kXgmiRead, &kGpuInterconnectIo, 1, kLinkType, "xgmi", kDirection, "receive"},
              kLinkIndex),
    ForCopies({Field::kXgmiWrite, &kGpuInterconnectIo, 1, kLinkType, "xgmi", kDirection, "transmit"},
              kLinkIndex),
    ForCopies({Field::kFanRpm, &kGpuFanRotation}, "gpu.fan.index"),
    ForCopies({Field::kEccCorrectable, &kGpuEccErrors, 1, "gpu.ecc.count_type", "volatile", kErrorType,
               "correctable"},
              "gpu.ecc.memory_block"),
    ForCopies({Field::kEccUncorrectable, &kGpuEccErrors, 1, "gpu.ecc.count_type", "volatile", kErrorType,
               "uncorrectable"},
              "gpu.ecc.memory_block"),
    ForCopies(
        {Field::kEccDeferred, &kGpuEccErrors, 1, "gpu.ecc.count_type", "volatile", kErrorType, "deferred"},
        "gpu.ecc.memory_block"),
    {Field::kRetiredPages, &kGpuRetiredPages, 1, kErrorType, "uncorrectable"},
    {Field::kRetiredPages, &kGpuRowRemapCount, 1, kErrorType, "uncorrectable"},
};

// Series of all rows, one for each copy of a field.
inline constexpr size_t kRowSeries = [] {
  size_t sum = 0;
  for (const MetricRow& row : kRows) sum += amdsmi::CopiesOf(row.field);
  return sum;
}();

// A cause of throttling: its bits of the mask, or its counter of cycles.
struct ThrottleRow {
  std::string_view cause;
  uint64_t bits;
  Field residency;
};
constexpr uint64_t Bits(unsigned first, unsigned last) noexcept {
  return (~uint64_t{0} >> (63 - last)) & (~uint64_t{0} << first);
}
// The bits are those of the kernel's mask that is the same for all boards: power limits from 0, temperatures
// from 32. Limits of current (16 to 23) have no cause of their own and are visible in the mask only.
inline constexpr ThrottleRow kThrottles[] = {
    {"power_software", Bits(0, 7), Field::kResidencyPower},
    {"temp_software", Bits(32, 33) | Bits(35, 37), Field::kResidencySocket},
    {"temp_hardware", Bits(46, 47), Field::kResidencyProchot},
    {"temp_memory", Bits(34, 34), Field::kResidencyMemory},
    {"temp_vr", Bits(38, 41) | Bits(44, 45), Field::kResidencyVr},
};

// Metrics that are not the number of one row.
inline constexpr const MetricDesc* kComputedMetrics[] = {
    &kGpuEnergyEstimate,
    &kGpuEnergyEstimateError,
    &kGpuMemoryUsed,
    &kGpuMemoryFree,
    &kGpuMemoryUsedPercent,
    &kGpuPowerDraw,
    &kGpuPowerAverage,
    &kGpuPowerUtilization,
    &kGpuPerformanceLevel,
    &kGpuThrottleReason,
    &kGpuThrottleShare,
    &kGpuFanSpeed,
    &kGpuEccMode,
    &kGpuRetiredPagesPending,
    &kGpuInterconnectThroughput,
    &kGpuInterconnectLinks,
    &kGpuPartitionInfo,
    &kGpuProcesses,
    &kGpuProcessMemoryUsed,
    &kGpuProcessMemoryPeak,
    &kGpuProcessMemoryGtt,
    &kGpuProcessEngineTime,
    &kGpuProcessCuOccupancy,
    &kGpuInfo,
    &kGpuDriverInfo,
    &kGpuDevices,
    &kGpuState,
    &kGpuSampleAge,
    &kSelfDriverUp,
    &kSelfDriverStarts,
    &kSelfDriverHeartbeatAge,
    &kSelfDriverCallsHung,
    &kSelfDriverDevices,
    &kSelfDriverFiles,
    &kSelfDriverFields,
};
// All metrics that the collector may write.
inline constexpr auto kAmdMetrics = MetricsOf<kComputedMetrics, kRows>();

}  // namespace gpulens::amd
