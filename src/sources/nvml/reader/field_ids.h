// The ids that GpuReader asks of nvmlDeviceGetFieldValues for a GPU as a whole, in one batch per round.
#pragma once

#include <cstdint>
#include <iterator>

#include "sources/nvml/nvml_fields.h"
#include "sources/nvml/reader/nvml_abi.h"

namespace gpulens::nvml {

struct FieldIdRow {
  Field field;
  unsigned id;
  unsigned scope = 0;
  uint32_t details = 0;  // As MoreItem::details.
  unsigned r570_id = 0;  // Its number in drivers 570 to 579, where NVIDIA gave it another one; before, none.
};

// The first driver of today's numbers.
inline constexpr unsigned kDriver580 = 580;

// The number of a row in a driver of this major version; 0: it has none. Numbers of r570 are those of the
// nvml.h of CUDA 12.8, today's those of CUDA 13: in between they were moved behind power smoothing.
constexpr unsigned FieldIdOf(const FieldIdRow& row, unsigned driver_major) noexcept {
  if (row.r570_id == 0 || driver_major >= kDriver580) return row.id;
  return driver_major >= 570 ? row.r570_id : 0;
}

inline constexpr FieldIdRow kFieldIdRows[] = {
    {Field::kTemperatureMemory, kFiMemoryTemperature},
    {Field::kPowerInstant, kFiPowerInstant},
    {Field::kPcieTxBytes, kFiPcieTxBytes},
    {Field::kPcieRxBytes, kFiPcieRxBytes},
    {Field::kThrottleTimePower, kFiThrottlePower},
    {Field::kThrottleTimeSync, kFiThrottleSync},
    {Field::kThrottleTimeSwThermal, kFiSwThermal, 0, 0, kFiSwThermalR570},
    {Field::kThrottleTimeHwThermal, kFiHwThermal, 0, 0, kFiHwThermalR570},
    {Field::kThrottleTimeBrake, kFiPowerBrake, 0, 0, kFiPowerBrakeR570},
    {Field::kRecoveryAction, kFiRecoveryAction},
    {Field::kPowerLimitMin, kFiPowerMinLimit},
    {Field::kPowerLimitMax, kFiPowerMaxLimit},
    {Field::kPowerLimitDefault, kFiPowerDefaultLimit},
    {Field::kPowerLimitRequested, kFiPowerRequestedLimit},
    {Field::kPowerAverage, kFiPowerAverage, kPowerOfGpu},
    {Field::kPowerMemory, kFiPowerAverage, kPowerOfMemory},
    {Field::kPowerMemoryInstant, kFiPowerInstant, kPowerOfMemory},
    {Field::kPowerModule, kFiPowerAverage, kPowerOfModule},
    {Field::kPowerModuleInstant, kFiPowerInstant, kPowerOfModule},
    {Field::kMarginShutdown, 193},
    {Field::kMarginSlowdown, 194},
    {Field::kMarginMemoryMax, 195},
    {Field::kMarginGpuMax, 196},
    {Field::kViolationThermal, 75},
    {Field::kViolationBoardLimit, 77},
    {Field::kViolationLowUtilization, 78},
    {Field::kViolationReliability, 79},
    {Field::kViolationAppClocks, 80},
    {Field::kViolationBaseClocks, 81},
    {Field::kRemapInactiveCorrectable, 301},
    {Field::kRemapInactiveUncorrectable, 302},
    {Field::kPcieCorrectable, 173},
    {Field::kPcieNakReceived, 174},
    {Field::kPcieReceiverError, 175},
    {Field::kPcieBadTlp, 176},
    {Field::kPcieNakSent, 177},
    {Field::kPcieBadDllp, 178},
    {Field::kPcieNonFatal, 179},
    {Field::kPcieFatal, 180},
    {Field::kPcieUnsupportedRequest, 181},
    {Field::kPcieLcrc, 182},
    {Field::kPcieLane, 183},
    {Field::kPcieRecovery, 169},
    {Field::kPcieReplayRollover, 95},
    {Field::kNvlinkCrcFlit, 38},
    {Field::kNvlinkCrcData, 45},
    {Field::kNvlinkReplay, 52},
    {Field::kNvlinkRecovery, 59},
    {Field::kNvlinkEccData, 160},
    {Field::kMmaStall, 297, 0, kDetailMore},
    {Field::kEdppMultiplier, 274, 0, kDetailMore},
    {Field::kMclkSwitchInterval, 299, 0, kDetailMore},
};
inline constexpr size_t kFieldIdRowCount = std::size(kFieldIdRows);

}  // namespace gpulens::nvml
