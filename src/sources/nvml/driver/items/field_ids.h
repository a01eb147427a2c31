// The ids that GpuReader asks of nvmlDeviceGetFieldValues for a GPU as a whole, in one batch per round.
#pragma once

#include <cstdint>
#include <iterator>

#include "sources/nvml/driver/nvml_abi.h"
#include "sources/nvml/nvml_fields.h"

namespace gpulens::nvml {

struct FieldIdRow {
  Field field;
  unsigned id;
  unsigned scope = 0;
  uint32_t details = 0;  // As MoreItem::details.
};

inline constexpr FieldIdRow kFieldIdRows[] = {
    {Field::kTemperatureMemory, kFiMemoryTemperature},
    {Field::kPowerInstant, kFiPowerInstant},
    {Field::kPcieTxBytes, kFiPcieTxBytes},
    {Field::kPcieRxBytes, kFiPcieRxBytes},
    {Field::kThrottleTimePower, kFiThrottlePower},
    {Field::kThrottleTimeSync, kFiThrottleSync},
    {Field::kThrottleTimeSwThermal, kFiSwThermal},
    {Field::kThrottleTimeHwThermal, kFiHwThermal},
    {Field::kThrottleTimeBrake, kFiPowerBrake},
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
