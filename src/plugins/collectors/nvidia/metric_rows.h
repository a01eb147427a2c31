// The tables that map fields of the NVML reader process to metrics. A new number of the library needs a row
// here; kNvidiaMetrics includes the metrics of these tables. Values that need more than a
// factor (rates, shares, masks) are computed in the *_series.cc files and listed in kComputedMetrics.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

#include "catalog/gpu.h"
#include "catalog/row.h"
#include "catalog/self.h"
#include "sources/nvml/nvml_fields.h"
#include "sources/nvml/nvml_slices.h"

namespace gpulens::nvidia {

// One metric from one number of the library: nvml::Field of a GPU, nvml::SliceField of a slice or of GPM.
template <class Field>
struct MetricRow {
  Field field;
  const MetricDesc* metric;
  double per = 1;  // of the library's unit in one of the metric's: exact as a divisor, not as a factor
  std::string_view key = {}, value = {};    // one attribute of the series
  std::string_view key2 = {}, value2 = {};  // and another
  bool detail = false;                      // only with the option `details`
};
using FieldRow = MetricRow<nvml::Field>;
using SliceRow = MetricRow<nvml::SliceField>;

// The series of a row: its attributes and those of the entity.
template <class Field>
Series DeclareRow(const MetricRow<Field>& row, const EntityRef& entity, SeriesTable& table) {
  AttributeSet::Attribute extra[] = {{row.key, row.value}, {row.key2, row.value2}};
  const size_t count = row.key.empty() ? 0 : row.key2.empty() ? 1 : 2;
  return table.Declare(*row.metric, entity,
                       AttributeSet(std::span<const AttributeSet::Attribute>(extra, count)));
}

using F = nvml::Field;
using S = nvml::SliceField;
using L = nvml::LinkField;
using T = nvml::FieldTier;
inline constexpr std::string_view kTask = "gpu.task.type", kSensor = "gpu.temperature.sensor",
                                  kLimit = "gpu.temperature.limit_type", kClock = "gpu.clock.type",
                                  kPolicy = "gpu.violation.policy", kCause = "gpu.throttle.cause",
                                  kPcie = "gpu.pcie.error_type", kEccType = "gpu.ecc.error_type",
                                  kEccCount = "gpu.ecc.count_type", kSource = "gpu.ecc.sram_source",
                                  kStat = "gpu.sampled.stat", kPowerLimit = "gpu.power.limit_type",
                                  kDirection = "gpu.interconnect.direction",
                                  kBanks = "gpu.row_remap.availability", kFan = "gpu.fan.index",
                                  kLinkType = "gpu.interconnect.type", kResult = "gpu.interconnect.result",
                                  kBer = "gpu.interconnect.ber_type";

// Numbers of the GPU as a whole: its common readings, then those of its board.
consteval FieldRow SramRow(F field, std::string_view source) {
  return {field, &kGpuEccSramErrors, 1, kEccCount, "aggregate", kSource, source, true};
}
inline constexpr FieldRow kFieldRows[] = {
    {F::kUtilizationGpu, &kGpuUtilization, 100, kTask, "compute"},
    {F::kUtilizationMemory, &kGpuMemoryUtilization, 100, kTask, "memory_controller"},
    {F::kUtilizationEncoder, &kGpuEncodeUtilization, 100, kTask, "encoder"},
    {F::kUtilizationDecoder, &kGpuDecodeUtilization, 100, kTask, "decoder"},
    {F::kMemoryTotal, &kGpuMemoryTotal},
    {F::kMemoryUsed, &kGpuMemoryUsed},
    {F::kMemoryFree, &kGpuMemoryFree},
    {F::kMemoryReserved, &kGpuMemoryReserved},
    {F::kUnifiedTotal, &kGpuMemoryUnifiedTotal},
    {F::kUnifiedUsed, &kGpuMemoryUnifiedUsed},
    {F::kTemperature, &kGpuTemperature, 1, kSensor, "edge"},
    {F::kTemperatureMemory, &kGpuTemperature, 1, kSensor, "memory"},
    {F::kPower, &kGpuPowerDraw, 1000},
    {F::kPowerInstant, &kGpuPowerInstant, 1000},
    {F::kPowerLimitEnforced, &kGpuPowerLimit, 1000, kPowerLimit, "enforced"},
    {F::kPowerLimitRequested, &kGpuPowerLimit, 1000, kPowerLimit, "requested"},
    {F::kPowerLimitDefault, &kGpuPowerLimit, 1000, kPowerLimit, "default"},
    {F::kPowerLimitMin, &kGpuPowerLimit, 1000, kPowerLimit, "min"},
    {F::kPowerLimitMax, &kGpuPowerLimit, 1000, kPowerLimit, "max"},
    {F::kEnergy, &kGpuEnergyConsumption, 1000},
    {F::kClockGraphics, &kGpuClockFrequency, 1, kClock, "graphics"},
    {F::kClockSm, &kGpuClockFrequency, 1, kClock, "sm"},
    {F::kClockMemory, &kGpuClockFrequency, 1, kClock, "memory"},
    {F::kClockVideo, &kGpuClockFrequency, 1, kClock, "video"},
    {F::kPerformanceState, &kGpuPowerState},
    {F::kFanSpeedMax, &kGpuFanSpeed, 100},
    {F::kEccCorrected, &kGpuEccErrors, 1, kEccCount, "volatile", kEccType, "correctable"},
    {F::kEccUncorrected, &kGpuEccErrors, 1, kEccCount, "volatile", kEccType, "uncorrectable"},
    {F::kEccMode, &kGpuEccMode, 1, "gpu.ecc.mode_type", "current"},
    {F::kRemapPending, &kGpuRowRemapResetPending},
    {F::kRemapFailure, &kGpuRowRemapFailed},
    {F::kRetiredSingleBit, &kGpuRetiredPages, 1, kEccType, "correctable"},
    {F::kRetiredDoubleBit, &kGpuRetiredPages, 1, kEccType, "uncorrectable"},
    {F::kRetiredPending, &kGpuRetiredPagesPending},
    {F::kPcieReplay, &kGpuPcieReplayCount},
    {F::kPcieTxBytes, &kGpuPcieIo, 1, kDirection, "transmit"},
    {F::kPcieRxBytes, &kGpuPcieIo, 1, kDirection, "receive"},
    {F::kPcieLinkGen, &kGpuPcieLinkGenCurrent},
    {F::kPcieLinkWidth, &kGpuPcieLinkWidthCurrent},
    {F::kPcieMaxLinkGen, &kGpuPcieLinkGenMax},
    {F::kPcieMaxLinkWidth, &kGpuPcieLinkWidthMax},
    {F::kMigMode, &kGpuMigMode, 1, "gpu.mig.mode_type", "current"},
    {F::kPersistenceMode, &kGpuPersistenceEnabled},
    {F::kUtilizationJpeg, &kGpuJpegUtilization, 100, kTask, "jpeg"},
    {F::kUtilizationOfa, &kGpuOfaUtilization, 100, kTask, "optical_flow"},
    {F::kBar1Total, &kGpuMemoryBar1Total},
    {F::kBar1Used, &kGpuMemoryBar1Used},
    {F::kTemperatureShutdown, &kGpuTemperatureLimit, 1, kSensor, "edge", kLimit, "shutdown"},
    {F::kTemperatureSlowdown, &kGpuTemperatureLimit, 1, kSensor, "edge", kLimit, "slowdown"},
    {F::kTemperatureMemoryMax, &kGpuTemperatureLimit, 1, kSensor, "memory", kLimit, "max_operating"},
    {F::kTemperatureGpuMax, &kGpuTemperatureLimit, 1, kSensor, "edge", kLimit, "max_operating"},
    {F::kTemperatureTarget, &kGpuTemperatureLimit, 1, kSensor, "edge", kLimit, "target"},
    {F::kTemperatureMargin, &kGpuTemperatureMargin},
    {F::kMarginShutdown, &kGpuTemperatureMarginLimit, 1, kSensor, "edge", kLimit, "shutdown"},
    {F::kMarginSlowdown, &kGpuTemperatureMarginLimit, 1, kSensor, "edge", kLimit, "slowdown"},
    {F::kMarginMemoryMax, &kGpuTemperatureMarginLimit, 1, kSensor, "memory", kLimit, "max_operating"},
    {F::kMarginGpuMax, &kGpuTemperatureMarginLimit, 1, kSensor, "edge", kLimit, "max_operating"},
    {F::kClockMaxGraphics, &kGpuClockMax, 1, kClock, "graphics"},
    {F::kClockMaxSm, &kGpuClockMax, 1, kClock, "sm"},
    {F::kClockMaxMemory, &kGpuClockMax, 1, kClock, "memory"},
    {F::kClockMaxVideo, &kGpuClockMax, 1, kClock, "video"},
    {F::kClockApplicationGraphics, &kGpuClockLimit, 1, kClock, "graphics", "gpu.clock.limit_type",
     "application"},
    {F::kClockApplicationMemory, &kGpuClockLimit, 1, kClock, "memory", "gpu.clock.limit_type", "application"},
    {F::kThrottleTimePower, &kGpuThrottleTime, 1e9, kCause, "power_software"},
    {F::kThrottleTimeSync, &kGpuThrottleTime, 1e9, kCause, "syncboost"},
    {F::kThrottleTimeSwThermal, &kGpuThrottleTime, 1e9, kCause, "temp_software"},
    {F::kThrottleTimeHwThermal, &kGpuThrottleTime, 1e9, kCause, "temp_hardware"},
    {F::kThrottleTimeBrake, &kGpuThrottleTime, 1e9, kCause, "power_brake"},
    {F::kThrottleTimePower, &kGpuViolationTime, 1e9, kPolicy, "power"},
    {F::kViolationThermal, &kGpuViolationTime, 1e9, kPolicy, "thermal"},
    {F::kThrottleTimeSync, &kGpuViolationTime, 1e9, kPolicy, "sync_boost"},
    {F::kViolationBoardLimit, &kGpuViolationTime, 1e9, kPolicy, "board_limit"},
    {F::kViolationLowUtilization, &kGpuViolationTime, 1e9, kPolicy, "low_utilization"},
    {F::kViolationReliability, &kGpuViolationTime, 1e9, kPolicy, "reliability"},
    {F::kViolationAppClocks, &kGpuViolationTime, 1e9, kPolicy, "application_clocks"},
    {F::kViolationBaseClocks, &kGpuViolationTime, 1e9, kPolicy, "base_clocks"},
    {F::kFanRotation0, &kGpuFanRotation, 1, kFan, "0"},
    {F::kFanRotation1, &kGpuFanRotation, 1, kFan, "1"},
    {F::kFanRotation2, &kGpuFanRotation, 1, kFan, "2"},
    {F::kFanRotation3, &kGpuFanRotation, 1, kFan, "3"},
    {F::kFanRotation4, &kGpuFanRotation, 1, kFan, "4"},
    {F::kFanRotation5, &kGpuFanRotation, 1, kFan, "5"},
    {F::kEncoderSessions, &kGpuEncoderSessions},
    {F::kEncoderFrameRate, &kGpuEncoderFrameRate},
    {F::kEncoderLatency, &kGpuEncoderLatency, 1e6},
    {F::kEncoderCapacityH264, &kGpuEncoderCapacity, 100, "gpu.codec", "h264"},
    {F::kEncoderCapacityHevc, &kGpuEncoderCapacity, 100, "gpu.codec", "hevc"},
    {F::kEncoderCapacityAv1, &kGpuEncoderCapacity, 100, "gpu.codec", "av1"},
    {F::kFbcSessions, &kGpuFbcSessions},
    {F::kMmaStall, &kNvidiaMmaStall, 100},
    {F::kEdppMultiplier, &kNvidiaEdppMultiplier, 100},
    {F::kMclkSwitchInterval, &kNvidiaMclkSwitchInterval, 1000},
    {F::kEccAggregateCorrected, &kGpuEccErrors, 1, kEccCount, "aggregate", kEccType, "correctable"},
    {F::kEccAggregateUncorrected, &kGpuEccErrors, 1, kEccCount, "aggregate", kEccType, "uncorrectable"},
    {F::kEccModePending, &kGpuEccMode, 1, "gpu.ecc.mode_type", "pending"},
    {F::kSramThresholdExceeded, &kGpuEccSramThresholdExceeded},
    {F::kRemapInactiveCorrectable, &kGpuRowRemapInactive, 1, kEccType, "correctable"},
    {F::kRemapInactiveUncorrectable, &kGpuRowRemapInactive, 1, kEccType, "uncorrectable"},
    {F::kRemapBanksMax, &kGpuRowRemapBanks, 1, kBanks, "max"},
    {F::kRemapBanksHigh, &kGpuRowRemapBanks, 1, kBanks, "high"},
    {F::kRemapBanksPartial, &kGpuRowRemapBanks, 1, kBanks, "partial"},
    {F::kRemapBanksLow, &kGpuRowRemapBanks, 1, kBanks, "low"},
    {F::kRemapBanksNone, &kGpuRowRemapBanks, 1, kBanks, "none"},
    {F::kMemoryUnrepairable, &kGpuMemoryUnrepairable},
    {F::kPcieCorrectable, &kGpuPcieErrors, 1, kPcie, "correctable"},
    {F::kPcieNakReceived, &kGpuPcieErrors, 1, kPcie, "nak_received"},
    {F::kPcieNakSent, &kGpuPcieErrors, 1, kPcie, "nak_sent"},
    {F::kPcieReceiverError, &kGpuPcieErrors, 1, kPcie, "receiver"},
    {F::kPcieBadTlp, &kGpuPcieErrors, 1, kPcie, "bad_tlp"},
    {F::kPcieBadDllp, &kGpuPcieErrors, 1, kPcie, "bad_dllp"},
    {F::kPcieLcrc, &kGpuPcieErrors, 1, kPcie, "lcrc"},
    {F::kPcieLane, &kGpuPcieErrors, 1, kPcie, "lane"},
    {F::kPcieUnsupportedRequest, &kGpuPcieErrors, 1, kPcie, "unsupported_request"},
    {F::kPcieNonFatal, &kGpuPcieErrors, 1, kPcie, "non_fatal"},
    {F::kPcieFatal, &kGpuPcieErrors, 1, kPcie, "fatal"},
    {F::kPcieRecovery, &kGpuPcieErrors, 1, kPcie, "recovery"},
    {F::kPcieReplayRollover, &kGpuPcieErrors, 1, kPcie, "replay_rollover"},
    {F::kFabricStatus, &kGpuFabricStatus},
    {F::kConfidentialEnabled, &kGpuConfidentialComputeEnabled},
    {F::kConfidentialReady, &kGpuConfidentialComputeReady},
    {F::kConfidentialDevMode, &kGpuConfidentialComputeDevMode},
    {F::kConfidentialProtected, &kGpuConfidentialComputeMemory, 1.0 / 1024, "gpu.memory.protection",
     "protected"},
    {F::kConfidentialUnprotected, &kGpuConfidentialComputeMemory, 1.0 / 1024, "gpu.memory.protection",
     "unprotected"},
    {F::kDisplayActive, &kGpuDisplayActive},
    {F::kInforomValid, &kGpuInforomValid},
    {F::kMigModePending, &kGpuMigMode, 1, "gpu.mig.mode_type", "pending"},
    {F::kSampledPowerMin, &kGpuSampledPower, 1000, kStat, "min"},
    {F::kSampledPowerMean, &kGpuSampledPower, 1000, kStat, "mean"},
    {F::kSampledPowerMax, &kGpuSampledPower, 1000, kStat, "max"},
    {F::kSampledGpuMin, &kGpuSampledUtilization, 1e5, kStat, "min", kTask, "compute"},
    {F::kSampledGpuMean, &kGpuSampledUtilization, 1e5, kStat, "mean", kTask, "compute"},
    {F::kSampledGpuMax, &kGpuSampledUtilization, 1e5, kStat, "max", kTask, "compute"},
    {F::kSampledMemoryMin, &kGpuSampledUtilization, 1e5, kStat, "min", kTask, "memory_controller"},
    {F::kSampledMemoryMean, &kGpuSampledUtilization, 1e5, kStat, "mean", kTask, "memory_controller"},
    {F::kSampledMemoryMax, &kGpuSampledUtilization, 1e5, kStat, "max", kTask, "memory_controller"},
    {F::kSampledClockMin, &kGpuSampledClockFrequency, 1, kStat, "min", kClock, "graphics"},
    {F::kSampledClockMean, &kGpuSampledClockFrequency, 1, kStat, "mean", kClock, "graphics"},
    {F::kSampledClockMax, &kGpuSampledClockFrequency, 1, kStat, "max", kClock, "graphics"},
    {F::kSampledMemoryClockMin, &kGpuSampledClockFrequency, 1, kStat, "min", kClock, "memory"},
    {F::kSampledMemoryClockMean, &kGpuSampledClockFrequency, 1, kStat, "mean", kClock, "memory"},
    {F::kSampledMemoryClockMax, &kGpuSampledClockFrequency, 1, kStat, "max", kClock, "memory"},
    SramRow(F::kSramL2, "l2"),
    SramRow(F::kSramSm, "sm"),
    SramRow(F::kSramMicrocontroller, "microcontroller"),
    SramRow(F::kSramPcie, "pcie"),
    SramRow(F::kSramOther, "other"),
};

inline constexpr double kPerMib = 1.0 / (1 << 20);

// Of a GPU without MIG, else of each GPU instance; not of both.
inline constexpr SliceRow kGpmRows[] = {
    {S::kGpmGraphics, &kGpuGrEngineActive, 100},   {S::kGpmSm, &kGpuSmActive, 100},
    {S::kGpmOccupancy, &kGpuSmOccupancy, 100},     {S::kGpmDram, &kGpuDramActive, 100},
    {S::kGpmTensor, &kGpuPipeTensorActive, 100},   {S::kGpmFp64, &kGpuPipeFp64Active, 100},
    {S::kGpmFp32, &kGpuPipeFp32Active, 100},       {S::kGpmFp16, &kGpuPipeFp16Active, 100},
    {S::kGpmInt, &kGpuPipeIntActive, 100},         {S::kGpmHmma, &kGpuPipeTensorHmmaActive, 100},
    {S::kGpmImma, &kGpuPipeTensorImmaActive, 100}, {S::kGpmDfma, &kGpuPipeTensorDfmaActive, 100},
    {S::kGpmDmma, &kGpuPipeTensorDmmaActive, 100},
};

// An engine, a unit, or a cache.
consteval SliceRow EngineRow(S field, std::string_view type, std::string_view index) {
  return {field, &kGpuEngineUtilization, 100, "gpu.engine.type", type, "gpu.engine.index", index, true};
}
consteval SliceRow CyclesRow(S field, std::string_view unit) {
  return {field, &kGpuCyclesActive, 1, "gpu.cycles.unit", unit, {}, {}, true};
}
consteval SliceRow CacheRow(S field, std::string_view type) {
  return {field, &kGpuCacheHit, 100, "gpu.cache.type", type, {}, {}, true};
}
// Of whole GPUs alone. PCIe and NVLink rates by GPM are in gpu_series.cc, since they are exported only where
// the driver has no byte counters.
inline constexpr SliceRow kWholeRows[] = {
    {S::kGpmC2cTx, &kGpuInterconnectThroughput, kPerMib, kDirection, "transmit", kLinkType, "c2c"},
    {S::kGpmC2cRx, &kGpuInterconnectThroughput, kPerMib, kDirection, "receive", kLinkType, "c2c"},
    {S::kGpmC2cDataTx, &kGpuC2cThroughput, kPerMib, kDirection, "transmit", "gpu.interconnect.payload",
     "data"},
    {S::kGpmC2cDataRx, &kGpuC2cThroughput, kPerMib, kDirection, "receive", "gpu.interconnect.payload",
     "data"},
    EngineRow(S::kGpmEncoder0, "nvenc", "0"),
    EngineRow(S::kGpmEncoder1, "nvenc", "1"),
    EngineRow(S::kGpmEncoder2, "nvenc", "2"),
    EngineRow(S::kGpmEncoder3, "nvenc", "3"),
    EngineRow(S::kGpmDecoder0, "nvdec", "0"),
    EngineRow(S::kGpmDecoder1, "nvdec", "1"),
    EngineRow(S::kGpmDecoder2, "nvdec", "2"),
    EngineRow(S::kGpmDecoder3, "nvdec", "3"),
    EngineRow(S::kGpmDecoder4, "nvdec", "4"),
    EngineRow(S::kGpmDecoder5, "nvdec", "5"),
    EngineRow(S::kGpmDecoder6, "nvdec", "6"),
    EngineRow(S::kGpmDecoder7, "nvdec", "7"),
    EngineRow(S::kGpmJpeg0, "nvjpg", "0"),
    EngineRow(S::kGpmJpeg1, "nvjpg", "1"),
    EngineRow(S::kGpmJpeg2, "nvjpg", "2"),
    EngineRow(S::kGpmJpeg3, "nvjpg", "3"),
    EngineRow(S::kGpmJpeg4, "nvjpg", "4"),
    EngineRow(S::kGpmJpeg5, "nvjpg", "5"),
    EngineRow(S::kGpmJpeg6, "nvjpg", "6"),
    EngineRow(S::kGpmJpeg7, "nvjpg", "7"),
    EngineRow(S::kGpmOpticalFlow0, "nvofa", "0"),
    EngineRow(S::kGpmOpticalFlow1, "nvofa", "1"),
    CacheRow(S::kGpmHitHost, "hostmem"),
    CacheRow(S::kGpmHitPeer, "peermem"),
    CacheRow(S::kGpmHitDram, "dram"),
    {S::kGpmCycles, &kGpuCyclesElapsed, 1, {}, {}, {}, {}, true},
    CyclesRow(S::kGpmCyclesSm, "sm"),
    CyclesRow(S::kGpmCyclesTensor, "tensor"),
    CyclesRow(S::kGpmCyclesDmma, "dmma"),
    CyclesRow(S::kGpmCyclesHmma, "hmma"),
    CyclesRow(S::kGpmCyclesImma, "imma"),
    CyclesRow(S::kGpmCyclesDfma, "dfma"),
    CyclesRow(S::kGpmCyclesInt, "int"),
    CyclesRow(S::kGpmCyclesFp64, "fp64"),
    CyclesRow(S::kGpmCyclesFp32, "fp32"),
    CyclesRow(S::kGpmCyclesFp16, "fp16"),
};

inline constexpr SliceRow kMigRows[] = {
    {S::kMemoryTotal, &kGpuMigMemoryTotal},
    {S::kMemoryUsed, &kGpuMigMemoryUsed},
    {S::kMemoryFree, &kGpuMigMemoryFree},
    {S::kMemoryReserved, &kGpuMigMemoryReserved},
    {S::kBar1Used, &kGpuMigBar1Used, 1, {}, {}, {}, {}, true},
};

inline constexpr SliceRow kVgpuRows[] = {
    {S::kVgpuMemoryUsed, &kGpuVgpuMemoryUsed},
    {S::kVgpuLicensed, &kGpuVgpuLicensed},
    {S::kVgpuSm, &kGpuVgpuUtilization, 100, kTask, "compute"},
    {S::kVgpuMemory, &kGpuVgpuUtilization, 100, kTask, "memory_controller"},
    {S::kVgpuEncoder, &kGpuVgpuUtilization, 100, kTask, "encoder"},
    {S::kVgpuDecoder, &kGpuVgpuUtilization, 100, kTask, "decoder"},
    {S::kVgpuJpeg, &kGpuVgpuUtilization, 100, kTask, "jpeg"},
    {S::kVgpuOfa, &kGpuVgpuUtilization, 100, kTask, "optical_flow"},
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
    {F::kPcieTxBytes, F::kPcieTxRate, 1024, &kGpuPcieThroughput, "transmit", "pcie"},
    {F::kPcieRxBytes, F::kPcieRxRate, 1024, &kGpuPcieThroughput, "receive", "pcie"},
    {F::kNvlinkTxBytes, F::kCount, 0, &kGpuInterconnectThroughput, "transmit", "nvlink"},
    {F::kNvlinkRxBytes, F::kCount, 0, &kGpuInterconnectThroughput, "receive", "nvlink"},
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

// A field that is the number of a state. A number without a name is rejected.
struct StateRow {
  nvml::Field field;
  const MetricDesc* metric;
  std::array<std::string_view, 5> states;  // By the library's number; empty after the last.
};
inline constexpr StateRow kStateRows[] = {
    {F::kRecoveryAction, &kGpuRecoveryAction, {"none", "reset", "reboot", "drain_p2p", "drain_and_reset"}},
    {F::kComputeMode, &kGpuComputeMode, {"default", "exclusive_thread", "prohibited", "exclusive_process"}},
    {F::kVirtualizationMode,
     &kGpuVirtualizationMode,
     {"none", "passthrough", "vgpu", "host_vgpu", "host_vsga"}},
    {F::kPowerSource, &kGpuPowerSource, {"ac", "battery", "undersized"}},
    {F::kFabricState, &kGpuFabricState, {"not_supported", "not_started", "in_progress", "completed"}},
};

// Conditions of the fabric's health mask: bits, and the number of a healthy one. 0: this board does not
// report it.
struct FabricCondition {
  std::string_view name;
  unsigned shift, mask, healthy;
};
inline constexpr FabricCondition kFabricConditions[] = {
    {"bandwidth", 0, 0x3, 2},      {"route_recovery", 2, 0x3, 2}, {"route_unhealthy", 4, 0x3, 2},
    {"access_timeout", 6, 0x3, 2}, {"configuration", 8, 0xF, 1},
};

// Locations of memory errors in the order of their fields, four counters each.
inline constexpr std::string_view kEccLocations[] = {"l1",      "l2",     "dram", "register",
                                                     "texture", "shared", "cbu",  "sram"};
inline constexpr size_t kEccLocationFields = 4 * std::size(kEccLocations);

// One link's number. Speed and bit error rates are not scaled by a divisor: see board_series.cc.
struct LinkRow {
  nvml::LinkField field;
  const MetricDesc* metric;
  nvml::FieldTier tier;
  std::string_view key = {}, value = {};
};
inline constexpr LinkRow kLinkRows[] = {
    {L::kActive, &kGpuInterconnectLinkActive, T::kMedium},
    {L::kTxBytes, &kGpuInterconnectIo, T::kMedium, kDirection, "transmit"},
    {L::kRxBytes, &kGpuInterconnectIo, T::kMedium, kDirection, "receive"},
    {L::kTxPackets, &kGpuInterconnectPackets, T::kSlow, kDirection, "transmit"},
    {L::kRxPackets, &kGpuInterconnectPackets, T::kSlow, kDirection, "receive"},
    {L::kSpeed, &kGpuInterconnectLinkSpeed, T::kSlow},
    {L::kLowPower, &kGpuInterconnectLinkLowPower, T::kSlow},
    {L::kRecoverySuccess, &kGpuInterconnectLinkRecoveries, T::kSlow, kResult, "success"},
    {L::kRecoveryFailure, &kGpuInterconnectLinkRecoveries, T::kSlow, kResult, "failure"},
    {L::kBerRaw, &kGpuInterconnectLinkBitErrorRate, T::kSlow, kBer, "raw"},
    {L::kBerEffective, &kGpuInterconnectLinkBitErrorRate, T::kSlow, kBer, "effective"},
    {L::kBerSymbol, &kGpuInterconnectLinkBitErrorRate, T::kSlow, kBer, "symbol"},
};

// Metrics that are not the number of one row.
inline constexpr const MetricDesc* kComputedMetrics[] = {
    &kGpuMemoryBar1Free,
    &kGpuMemoryBandwidthMax,
    &kGpuPowerAverage,
    &kGpuMemoryPower,
    &kGpuModulePower,
    &kGpuThrottleEvents,
    &kGpuPcieAerErrors,
    &kGpuEccLocationErrors,
    &kGpuDevicesExpected,
    &kGpuDriverMismatch,
    &kGpuTopologyLink,
    &kGpuTopologyAffinity,
    &kGpuFabricDegraded,
    &kGpuFabricInfo,
    &kGpuPlatformInfo,
    &kGpuFirmwareInfo,
    &kGpuInterconnectBandwidth,
    &kGpuInterconnectErrors,
    &kGpuInterconnectLinkInfo,
    &kGpuInterconnectLinkErrors,
    &kGpuInterconnectLinkFecCorrected,
    &kGpuEnergyEstimate,
    &kGpuEnergyEstimateError,
    &kGpuMemoryUsedPercent,
    &kGpuPowerUtilization,
    &kGpuClockIdle,
    &kGpuThrottleReason,
    &kGpuThrottleMask,
    &kGpuRowRemapCount,
    &kGpuInterconnectLinks,
    &kGpuProcesses,
    &kGpuProcessMemoryUsed,
    &kGpuProcessMemoryPeak,
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
    &kGpuProcessUtilization,
    &kGpuMigInstances,
    &kGpuMigInstancesMax,
    &kGpuMigInfo,
    &kGpuVgpuInstances,
    &kGpuVgpuInfo,
};

// All metrics that the collector may write.
inline constexpr auto kNvidiaMetrics = MetricsOf<kComputedMetrics, kFieldRows, kGpmRows, kWholeRows, kMigRows,
                                                 kVgpuRows, kRateRows, kStateRows, kLinkRows>();

}  // namespace gpulens::nvidia
