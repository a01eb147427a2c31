// What the NVML source reads of a GPU, under the source's own names and in the library's own units.
// No metric name is born here: a collector maps fields to metrics.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "reader/vendor.h"
#include "sources/nvml/nvml_fields_more.h"

// X(Id, "name", "unit", Tier)
#define GPULENS_NVML_FIELDS(X)                                        \
  X(UtilizationGpu, "utilization_gpu", "%", kFast)                    \
  X(UtilizationMemory, "utilization_memory", "%", kFast)              \
  X(UtilizationEncoder, "utilization_encoder", "%", kFast)            \
  X(UtilizationDecoder, "utilization_decoder", "%", kFast)            \
  X(MemoryTotal, "memory_total", "B", kFast)                          \
  X(MemoryUsed, "memory_used", "B", kFast)                            \
  X(MemoryFree, "memory_free", "B", kFast)                            \
  X(MemoryReserved, "memory_reserved", "B", kFast)                    \
  X(UnifiedTotal, "unified_total", "B", kFast)                        \
  X(UnifiedUsed, "unified_used", "B", kFast)                          \
  X(Bar1Total, "bar1_total", "B", kSlow)                              \
  X(Bar1Used, "bar1_used", "B", kSlow)                                \
  X(Temperature, "temperature", "Cel", kFast)                         \
  X(TemperatureMemory, "temperature_memory", "Cel", kFast)            \
  X(Power, "power", "mW", kFast)                                      \
  X(PowerInstant, "power_instant", "mW", kFast)                       \
  X(PowerLimitEnforced, "power_limit_enforced", "mW", kSlow)          \
  X(PowerLimitRequested, "power_limit_requested", "mW", kSlow)        \
  X(PowerLimitDefault, "power_limit_default", "mW", kSlow)            \
  X(PowerLimitMin, "power_limit_min", "mW", kSlow)                    \
  X(PowerLimitMax, "power_limit_max", "mW", kSlow)                    \
  X(Energy, "energy", "mJ", kFast)                                    \
  X(ClockGraphics, "clock_graphics", "MHz", kFast)                    \
  X(ClockSm, "clock_sm", "MHz", kFast)                                \
  X(ClockMemory, "clock_memory", "MHz", kFast)                        \
  X(ClockVideo, "clock_video", "MHz", kFast)                          \
  X(ClockMaxGraphics, "clock_max_graphics", "MHz", kStatic)           \
  X(ClockMaxSm, "clock_max_sm", "MHz", kStatic)                       \
  X(ClockMaxMemory, "clock_max_memory", "MHz", kStatic)               \
  X(ClockMaxVideo, "clock_max_video", "MHz", kStatic)                 \
  X(PerformanceState, "performance_state", "", kFast)                 \
  X(ClockEventReasons, "clock_event_reasons", "", kFast)              \
  X(ThrottleTimePower, "throttle_time_power", "ns", kMedium)          \
  X(ThrottleTimeSync, "throttle_time_sync", "ns", kMedium)            \
  X(ThrottleTimeSwThermal, "throttle_time_sw_thermal", "ns", kMedium) \
  X(ThrottleTimeHwThermal, "throttle_time_hw_thermal", "ns", kMedium) \
  X(ThrottleTimeBrake, "throttle_time_brake", "ns", kMedium)          \
  X(FanSpeedMean, "fan_speed_mean", "%", kMedium)                     \
  X(FanSpeedMax, "fan_speed_max", "%", kMedium)                       \
  X(EccCorrected, "ecc_corrected", "", kMedium)                       \
  X(EccUncorrected, "ecc_uncorrected", "", kMedium)                   \
  X(EccMode, "ecc_mode", "", kSlow)                                   \
  X(RemappedCorrectable, "remapped_correctable", "", kSlow)           \
  X(RemappedUncorrectable, "remapped_uncorrectable", "", kSlow)       \
  X(RemapPending, "remap_pending", "", kSlow)                         \
  X(RemapFailure, "remap_failure", "", kSlow)                         \
  X(RetiredSingleBit, "retired_single_bit", "", kSlow)                \
  X(RetiredDoubleBit, "retired_double_bit", "", kSlow)                \
  X(RetiredPending, "retired_pending", "", kSlow)                     \
  X(PcieReplay, "pcie_replay", "", kMedium)                           \
  X(PcieTxBytes, "pcie_tx_bytes", "B", kFast)                         \
  X(PcieRxBytes, "pcie_rx_bytes", "B", kFast)                         \
  X(PcieTxRate, "pcie_tx_rate", "KiB/s", kMedium)                     \
  X(PcieRxRate, "pcie_rx_rate", "KiB/s", kMedium)                     \
  X(PcieLinkGen, "pcie_link_gen", "", kMedium)                        \
  X(PcieLinkWidth, "pcie_link_width", "", kMedium)                    \
  X(PcieMaxLinkGen, "pcie_max_link_gen", "", kStatic)                 \
  X(PcieMaxLinkWidth, "pcie_max_link_width", "", kStatic)             \
  X(NvlinkTxBytes, "nvlink_tx_bytes", "B", kFast)                     \
  X(NvlinkRxBytes, "nvlink_rx_bytes", "B", kFast)                     \
  X(NvlinkTotal, "nvlink_total", "", kMedium)                         \
  X(NvlinkActive, "nvlink_active", "", kMedium)                       \
  X(ProcessCount, "process_count", "", kFast)                         \
  X(MigMode, "mig_mode", "", kSlow)                                   \
  X(PersistenceMode, "persistence_mode", "", kSlow)                   \
  X(RecoveryAction, "recovery_action", "", kMedium)                   \
  GPULENS_NVML_BOARD_FIELDS(X)                                        \
  GPULENS_NVML_ERROR_FIELDS(X)                                        \
  GPULENS_NVML_STATE_FIELDS(X)                                        \
  GPULENS_NVML_SAMPLE_FIELDS(X)

namespace gpulens::nvml {

using driver::FieldInfo;
using driver::kReadStatusCount;
using driver::kTierCount;
using driver::ReadStatus;
using driver::StatusName;
using driver::Tier;

enum class Field : uint16_t {
#define GPULENS_NVML_FIELD_ID(id, name, unit, tier) k##id,
  GPULENS_NVML_FIELDS(GPULENS_NVML_FIELD_ID)
#undef GPULENS_NVML_FIELD_ID
      kCount,
};
inline constexpr size_t kFieldCount = static_cast<size_t>(Field::kCount);

// Static storage. `field` must be less than Field::kCount.
const FieldInfo& InfoOf(Field field) noexcept;
// The tables of this library for driver::DriverSource.
const driver::Vendor& NvmlVendor() noexcept;

// The library's own words for its return codes: "Driver/library version mismatch".
std::string_view ReturnText(int code) noexcept;

}  // namespace gpulens::nvml
