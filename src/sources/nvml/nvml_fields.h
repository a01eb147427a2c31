// The numbers that the NVML source reads of a GPU and of its links, under the source's own names and in the
// library's own units. A collector maps these fields to metrics.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "reader/vendor.h"

// Numbers that are the one result of a call: X(Id, "name", "unit", Tier, Call). The row is all that the
// reader needs.
#define GPULENS_NVML_NUMBERS(X)                                                  \
  X(Power, "power", "mW", kFast, PowerUsage)                                     \
  X(PowerLimitEnforced, "power_limit_enforced", "mW", kSlow, EnforcedPowerLimit) \
  X(PerformanceState, "performance_state", "", kFast, PerformanceState)          \
  X(RetiredPending, "retired_pending", "", kSlow, RetiredPagesPending)           \
  X(PcieReplay, "pcie_replay", "", kMedium, PcieReplayCounter)                   \
  X(PersistenceMode, "persistence_mode", "", kSlow, PersistenceMode)             \
  X(ComputeMode, "compute_mode", "", kSlow, ComputeMode)                         \
  X(DisplayActive, "display_active", "", kSlow, DisplayActive)                   \
  X(VirtualizationMode, "virtualization_mode", "", kStatic, VirtualizationMode)  \
  X(PowerSource, "power_source", "", kSlow, PowerSource)

// Numbers of nvmlDeviceGetFieldValues: X(Id, "name", "unit", Tier, id, scope, details, r570_id); see
// FieldIdRow. The row is all that the reader needs. Scopes of power: 0 GPU, 1 module, 2 memory.
#define GPULENS_NVML_FIELD_VALUES(X)                                                  \
  X(TemperatureMemory, "temperature_memory", "Cel", kFast, 82)                        \
  X(PowerInstant, "power_instant", "mW", kFast, 186)                                  \
  X(PowerLimitRequested, "power_limit_requested", "mW", kSlow, 192)                   \
  X(PowerLimitDefault, "power_limit_default", "mW", kSlow, 189)                       \
  X(PowerLimitMin, "power_limit_min", "mW", kSlow, 187)                               \
  X(PowerLimitMax, "power_limit_max", "mW", kSlow, 188)                               \
  X(ThrottleTimePower, "throttle_time_power", "ns", kMedium, 74)                      \
  X(ThrottleTimeSync, "throttle_time_sync", "ns", kMedium, 76)                        \
  X(ThrottleTimeSwThermal, "throttle_time_sw_thermal", "ns", kMedium, 269, 0, 0, 251) \
  X(ThrottleTimeHwThermal, "throttle_time_hw_thermal", "ns", kMedium, 270, 0, 0, 252) \
  X(ThrottleTimeBrake, "throttle_time_brake", "ns", kMedium, 271, 0, 0, 253)          \
  X(PcieTxBytes, "pcie_tx_bytes", "B", kFast, 197)                                    \
  X(PcieRxBytes, "pcie_rx_bytes", "B", kFast, 198)                                    \
  X(RecoveryAction, "recovery_action", "", kMedium, 230)                              \
  X(PowerAverage, "power_average", "mW", kFast, 185, kPowerOfGpu)                     \
  X(PowerMemory, "power_memory", "mW", kMedium, 185, kPowerOfMemory)                  \
  X(PowerMemoryInstant, "power_memory_instant", "mW", kMedium, 186, kPowerOfMemory)   \
  X(PowerModule, "power_module", "mW", kMedium, 185, kPowerOfModule)                  \
  X(PowerModuleInstant, "power_module_instant", "mW", kMedium, 186, kPowerOfModule)   \
  X(MarginShutdown, "margin_shutdown", "Cel", kStatic, 193)                           \
  X(MarginSlowdown, "margin_slowdown", "Cel", kStatic, 194)                           \
  X(MarginMemoryMax, "margin_memory_max", "Cel", kStatic, 195)                        \
  X(MarginGpuMax, "margin_gpu_max", "Cel", kStatic, 196)                              \
  X(ViolationThermal, "violation_thermal", "ns", kMedium, 75)                         \
  X(ViolationBoardLimit, "violation_board_limit", "ns", kMedium, 77)                  \
  X(ViolationLowUtilization, "violation_low_utilization", "ns", kMedium, 78)          \
  X(ViolationReliability, "violation_reliability", "ns", kMedium, 79)                 \
  X(ViolationAppClocks, "violation_app_clocks", "ns", kMedium, 80)                    \
  X(ViolationBaseClocks, "violation_base_clocks", "ns", kMedium, 81)                  \
  X(MmaStall, "mma_stall", "%", kMedium, 297, 0, kDetailMore)                         \
  X(EdppMultiplier, "edpp_multiplier", "%", kSlow, 274, 0, kDetailMore)               \
  X(MclkSwitchInterval, "mclk_switch_interval", "ms", kStatic, 299, 0, kDetailMore)   \
  X(RemapInactiveCorrectable, "remap_inactive_correctable", "", kSlow, 301)           \
  X(RemapInactiveUncorrectable, "remap_inactive_uncorrectable", "", kSlow, 302)       \
  X(PcieCorrectable, "pcie_correctable", "", kSlow, 173)                              \
  X(PcieNakReceived, "pcie_nak_received", "", kSlow, 174)                             \
  X(PcieReceiverError, "pcie_receiver_error", "", kSlow, 175)                         \
  X(PcieBadTlp, "pcie_bad_tlp", "", kSlow, 176)                                       \
  X(PcieNakSent, "pcie_nak_sent", "", kSlow, 177)                                     \
  X(PcieBadDllp, "pcie_bad_dllp", "", kSlow, 178)                                     \
  X(PcieNonFatal, "pcie_non_fatal", "", kSlow, 179)                                   \
  X(PcieFatal, "pcie_fatal", "", kSlow, 180)                                          \
  X(PcieUnsupportedRequest, "pcie_unsupported_request", "", kSlow, 181)               \
  X(PcieLcrc, "pcie_lcrc", "", kSlow, 182)                                            \
  X(PcieLane, "pcie_lane", "", kSlow, 183)                                            \
  X(PcieRecovery, "pcie_recovery", "", kSlow, 169)                                    \
  X(PcieReplayRollover, "pcie_replay_rollover", "", kSlow, 95)                        \
  X(NvlinkCrcFlit, "nvlink_crc_flit", "", kMedium, 38)                                \
  X(NvlinkCrcData, "nvlink_crc_data", "", kMedium, 45)                                \
  X(NvlinkReplay, "nvlink_replay", "", kMedium, 52)                                   \
  X(NvlinkRecovery, "nvlink_recovery", "", kMedium, 59)                               \
  X(NvlinkEccData, "nvlink_ecc_data", "", kMedium, 160)

// Locations of memory errors, in the order of the library's numbers, each with four counters in this order.
#define GPULENS_NVML_ECC_LOCATION(X, Id, name)                               \
  X(EccVolatileCorrected##Id, "ecc_volatile_corrected_" name, "", kSlow)     \
  X(EccVolatileUncorrected##Id, "ecc_volatile_uncorrected_" name, "", kSlow) \
  X(EccAggregateCorrected##Id, "ecc_aggregate_corrected_" name, "", kSlow)   \
  X(EccAggregateUncorrected##Id, "ecc_aggregate_uncorrected_" name, "", kSlow)

// Numbers that functions of their own read: gpu_items.cc. X(Id, "name", "unit", Tier)
#define GPULENS_NVML_OTHER_FIELDS(X)                                      \
  X(UtilizationGpu, "utilization_gpu", "%", kFast)                        \
  X(UtilizationMemory, "utilization_memory", "%", kFast)                  \
  X(UtilizationEncoder, "utilization_encoder", "%", kFast)                \
  X(UtilizationDecoder, "utilization_decoder", "%", kFast)                \
  X(MemoryTotal, "memory_total", "B", kFast)                              \
  X(MemoryUsed, "memory_used", "B", kFast)                                \
  X(MemoryFree, "memory_free", "B", kFast)                                \
  X(MemoryReserved, "memory_reserved", "B", kFast)                        \
  X(UnifiedTotal, "unified_total", "B", kFast)                            \
  X(UnifiedUsed, "unified_used", "B", kFast)                              \
  X(Bar1Total, "bar1_total", "B", kSlow)                                  \
  X(Bar1Used, "bar1_used", "B", kSlow)                                    \
  X(Temperature, "temperature", "Cel", kFast)                             \
  X(Energy, "energy", "mJ", kFast)                                        \
  X(ClockGraphics, "clock_graphics", "MHz", kFast)                        \
  X(ClockSm, "clock_sm", "MHz", kFast)                                    \
  X(ClockMemory, "clock_memory", "MHz", kFast)                            \
  X(ClockVideo, "clock_video", "MHz", kFast)                              \
  X(ClockMaxGraphics, "clock_max_graphics", "MHz", kStatic)               \
  X(ClockMaxSm, "clock_max_sm", "MHz", kStatic)                           \
  X(ClockMaxMemory, "clock_max_memory", "MHz", kStatic)                   \
  X(ClockMaxVideo, "clock_max_video", "MHz", kStatic)                     \
  X(ClockEventReasons, "clock_event_reasons", "", kFast)                  \
  X(FanSpeedMean, "fan_speed_mean", "%", kMedium)                         \
  X(FanSpeedMax, "fan_speed_max", "%", kMedium)                           \
  X(EccCorrected, "ecc_corrected", "", kMedium)                           \
  X(EccUncorrected, "ecc_uncorrected", "", kMedium)                       \
  X(EccMode, "ecc_mode", "", kSlow)                                       \
  X(RemappedCorrectable, "remapped_correctable", "", kSlow)               \
  X(RemappedUncorrectable, "remapped_uncorrectable", "", kSlow)           \
  X(RemapPending, "remap_pending", "", kSlow)                             \
  X(RemapFailure, "remap_failure", "", kSlow)                             \
  X(RetiredSingleBit, "retired_single_bit", "", kSlow)                    \
  X(RetiredDoubleBit, "retired_double_bit", "", kSlow)                    \
  X(PcieTxRate, "pcie_tx_rate", "KiB/s", kMedium)                         \
  X(PcieRxRate, "pcie_rx_rate", "KiB/s", kMedium)                         \
  X(PcieLinkGen, "pcie_link_gen", "", kMedium)                            \
  X(PcieLinkWidth, "pcie_link_width", "", kMedium)                        \
  X(PcieMaxLinkGen, "pcie_max_link_gen", "", kStatic)                     \
  X(PcieMaxLinkWidth, "pcie_max_link_width", "", kStatic)                 \
  X(NvlinkTxBytes, "nvlink_tx_bytes", "B", kFast)                         \
  X(NvlinkRxBytes, "nvlink_rx_bytes", "B", kFast)                         \
  X(NvlinkTotal, "nvlink_total", "", kMedium)                             \
  X(NvlinkActive, "nvlink_active", "", kMedium)                           \
  X(ProcessCount, "process_count", "", kFast)                             \
  X(MigMode, "mig_mode", "", kSlow)                                       \
  X(UtilizationJpeg, "utilization_jpeg", "%", kMedium)                    \
  X(UtilizationOfa, "utilization_ofa", "%", kMedium)                      \
  X(TemperatureShutdown, "temperature_shutdown", "Cel", kStatic)          \
  X(TemperatureSlowdown, "temperature_slowdown", "Cel", kStatic)          \
  X(TemperatureMemoryMax, "temperature_memory_max", "Cel", kStatic)       \
  X(TemperatureGpuMax, "temperature_gpu_max", "Cel", kStatic)             \
  X(TemperatureTarget, "temperature_target", "Cel", kStatic)              \
  X(TemperatureMargin, "temperature_margin", "Cel", kFast)                \
  X(ClockApplicationGraphics, "clock_application_graphics", "MHz", kSlow) \
  X(ClockApplicationMemory, "clock_application_memory", "MHz", kSlow)     \
  X(ClockReasonsSupported, "clock_reasons_supported", "", kStatic)        \
  X(FanRotation0, "fan_rotation_0", "rpm", kMedium)                       \
  X(FanRotation1, "fan_rotation_1", "rpm", kMedium)                       \
  X(FanRotation2, "fan_rotation_2", "rpm", kMedium)                       \
  X(FanRotation3, "fan_rotation_3", "rpm", kMedium)                       \
  X(FanRotation4, "fan_rotation_4", "rpm", kMedium)                       \
  X(FanRotation5, "fan_rotation_5", "rpm", kMedium)                       \
  X(EncoderSessions, "encoder_sessions", "", kMedium)                     \
  X(EncoderFrameRate, "encoder_frame_rate", "1/s", kMedium)               \
  X(EncoderLatency, "encoder_latency", "us", kMedium)                     \
  X(EncoderCapacityH264, "encoder_capacity_h264", "%", kSlow)             \
  X(EncoderCapacityHevc, "encoder_capacity_hevc", "%", kSlow)             \
  X(EncoderCapacityAv1, "encoder_capacity_av1", "%", kSlow)               \
  X(FbcSessions, "fbc_sessions", "", kSlow)                               \
  X(EccAggregateCorrected, "ecc_aggregate_corrected", "", kMedium)        \
  X(EccAggregateUncorrected, "ecc_aggregate_uncorrected", "", kMedium)    \
  X(EccModePending, "ecc_mode_pending", "", kSlow)                        \
  GPULENS_NVML_ECC_LOCATION(X, L1, "l1")                                  \
  GPULENS_NVML_ECC_LOCATION(X, L2, "l2")                                  \
  GPULENS_NVML_ECC_LOCATION(X, Dram, "dram")                              \
  GPULENS_NVML_ECC_LOCATION(X, Register, "register")                      \
  GPULENS_NVML_ECC_LOCATION(X, Texture, "texture")                        \
  GPULENS_NVML_ECC_LOCATION(X, Shared, "shared")                          \
  GPULENS_NVML_ECC_LOCATION(X, Cbu, "cbu")                                \
  GPULENS_NVML_ECC_LOCATION(X, Sram, "sram")                              \
  X(SramThresholdExceeded, "sram_threshold_exceeded", "", kSlow)          \
  X(SramL2, "sram_l2", "", kSlow)                                         \
  X(SramSm, "sram_sm", "", kSlow)                                         \
  X(SramMicrocontroller, "sram_microcontroller", "", kSlow)               \
  X(SramPcie, "sram_pcie", "", kSlow)                                     \
  X(SramOther, "sram_other", "", kSlow)                                   \
  X(RemapBanksMax, "remap_banks_max", "", kSlow)                          \
  X(RemapBanksHigh, "remap_banks_high", "", kSlow)                        \
  X(RemapBanksPartial, "remap_banks_partial", "", kSlow)                  \
  X(RemapBanksLow, "remap_banks_low", "", kSlow)                          \
  X(RemapBanksNone, "remap_banks_none", "", kSlow)                        \
  X(MemoryUnrepairable, "memory_unrepairable", "", kSlow)                 \
  X(FabricState, "fabric_state", "", kMedium)                             \
  X(FabricStatus, "fabric_status", "", kMedium)                           \
  X(FabricHealth, "fabric_health", "", kMedium)                           \
  X(FabricClique, "fabric_clique", "", kMedium)                           \
  X(FabricClusterHigh, "fabric_cluster_high", "", kMedium)                \
  X(FabricClusterLow, "fabric_cluster_low", "", kMedium)                  \
  X(ConfidentialEnabled, "confidential_enabled", "", kSlow)               \
  X(ConfidentialDevMode, "confidential_dev_mode", "", kSlow)              \
  X(ConfidentialReady, "confidential_ready", "", kSlow)                   \
  X(ConfidentialProtected, "confidential_protected", "KiB", kSlow)        \
  X(ConfidentialUnprotected, "confidential_unprotected", "KiB", kSlow)    \
  X(InforomValid, "inforom_valid", "", kStatic)                           \
  X(MigModePending, "mig_mode_pending", "", kSlow)

// Least, mean and greatest of the driver's own samples since the round before. Shares are in thousandths of a
// per cent, since a mean has fractions.
#define GPULENS_NVML_SAMPLE_FIELDS(X)                                  \
  X(SampledPowerMin, "sampled_power_min", "mW", kFast)                 \
  X(SampledPowerMean, "sampled_power_mean", "mW", kFast)               \
  X(SampledPowerMax, "sampled_power_max", "mW", kFast)                 \
  X(SampledGpuMin, "sampled_gpu_min", "m%", kFast)                     \
  X(SampledGpuMean, "sampled_gpu_mean", "m%", kFast)                   \
  X(SampledGpuMax, "sampled_gpu_max", "m%", kFast)                     \
  X(SampledMemoryMin, "sampled_memory_min", "m%", kFast)               \
  X(SampledMemoryMean, "sampled_memory_mean", "m%", kFast)             \
  X(SampledMemoryMax, "sampled_memory_max", "m%", kFast)               \
  X(SampledClockMin, "sampled_clock_min", "MHz", kFast)                \
  X(SampledClockMean, "sampled_clock_mean", "MHz", kFast)              \
  X(SampledClockMax, "sampled_clock_max", "MHz", kFast)                \
  X(SampledMemoryClockMin, "sampled_memory_clock_min", "MHz", kFast)   \
  X(SampledMemoryClockMean, "sampled_memory_clock_mean", "MHz", kFast) \
  X(SampledMemoryClockMax, "sampled_memory_clock_max", "MHz", kFast)

#define GPULENS_NVML_FIELDS(X) \
  GPULENS_NVML_NUMBERS(X)      \
  GPULENS_NVML_FIELD_VALUES(X) \
  GPULENS_NVML_OTHER_FIELDS(X) \
  GPULENS_NVML_SAMPLE_FIELDS(X)

// Numbers of one link, NVLink or C2C: X(Id, "name"). The FEC history has one field per bin.
#define GPULENS_NVML_LINK_FIELDS(X)                                 \
  X(Active, "active")                                               \
  X(Speed, "speed") /* MB/s */                                      \
  X(Version, "version")                                             \
  X(TxBytes, "tx_bytes")                                            \
  X(RxBytes, "rx_bytes")                                            \
  X(TxPackets, "tx_packets")                                        \
  X(RxPackets, "rx_packets")                                        \
  X(LowPower, "low_power")                                          \
  X(CrcFlit, "crc_flit")                                            \
  X(CrcData, "crc_data")                                            \
  X(Replay, "replay")                                               \
  X(Recovery, "recovery")                                           \
  X(EccData, "ecc_data")                                            \
  X(Malformed, "malformed")                                         \
  X(Overrun, "overrun")                                             \
  X(Receive, "receive")                                             \
  X(Remote, "remote")                                               \
  X(General, "general")                                             \
  X(Integrity, "integrity")                                         \
  X(Discard, "discard")                                             \
  X(Effective, "effective")                                         \
  X(Symbol, "symbol")                                               \
  X(Interrupt, "interrupt")                                         \
  X(ReplayBackToBack, "replay_back_to_back")                        \
  X(RecoverySuccess, "recovery_success")                            \
  X(RecoveryFailure, "recovery_failure")                            \
  X(BerRaw, "ber_raw") /* packed: see BitErrorRate */               \
  X(BerEffective, "ber_effective")                                  \
  X(BerSymbol, "ber_symbol")                                        \
  X(RemoteType, "remote_type")                                      \
  X(RemotePci, "remote_pci") /* domain << 16 | bus << 8 | device */ \
  X(RemoteLink, "remote_link")                                      \
  X(Fec0, "fec_0")                                                  \
  X(Fec1, "fec_1")                                                  \
  X(Fec2, "fec_2")                                                  \
  X(Fec3, "fec_3")                                                  \
  X(Fec4, "fec_4")                                                  \
  X(Fec5, "fec_5")                                                  \
  X(Fec6, "fec_6")                                                  \
  X(Fec7, "fec_7")                                                  \
  X(Fec8, "fec_8")                                                  \
  X(Fec9, "fec_9")                                                  \
  X(Fec10, "fec_10")                                                \
  X(Fec11, "fec_11")                                                \
  X(Fec12, "fec_12")                                                \
  X(Fec13, "fec_13")                                                \
  X(Fec14, "fec_14")                                                \
  X(Fec15, "fec_15")

namespace gpulens::nvml {

using reader::FieldInfo;
using reader::FieldTier;
using reader::kReadStatusCount;
using reader::kTierCount;
using reader::ReadStatus;
using reader::StatusName;

enum class Field : uint16_t {
#define GPULENS_NVML_FIELD_ID(id, name, unit, tier, ...) k##id,
  GPULENS_NVML_FIELDS(GPULENS_NVML_FIELD_ID)
#undef GPULENS_NVML_FIELD_ID
      kCount,
};
inline constexpr size_t kFieldCount = static_cast<size_t>(Field::kCount);

// Static storage. `field` must be less than Field::kCount.
const FieldInfo& InfoOf(Field field) noexcept;
// The tables of this library for reader::ReaderSource.
const reader::VendorTables& NvmlVendor() noexcept;

// The library's own words for its return codes: "Driver/library version mismatch".
std::string_view ReturnText(int code) noexcept;

enum class LinkField : uint16_t {
#define GPULENS_NVML_LINK_FIELD_ID(id, name) k##id,
  GPULENS_NVML_LINK_FIELDS(GPULENS_NVML_LINK_FIELD_ID)
#undef GPULENS_NVML_LINK_FIELD_ID
      kCount,
};
inline constexpr size_t kLinkFieldCount = static_cast<size_t>(LinkField::kCount);
inline constexpr size_t kFecBins = 16;

// A reading's link: 0 is the GPU itself, then come its NVLinks, then its C2C links.
inline constexpr unsigned kMaxLinks = 36, kMaxC2cLinks = 16;
inline constexpr unsigned kLinkEnd = 1 + kMaxLinks + kMaxC2cLinks;
constexpr uint8_t LinkOfNvlink(unsigned link) noexcept { return static_cast<uint8_t>(1 + link); }
constexpr uint8_t LinkOfC2c(unsigned link) noexcept { return static_cast<uint8_t>(1 + kMaxLinks + link); }

// What is read beyond the usual; the bits of GpuReaderOptions::details.
enum Details : uint32_t {
  kDetailLinks = 1,     // Every link by itself.
  kDetailTopology = 2,  // The path to every other GPU.
  kDetailMore = 4,      // encoder capacity, capture sessions, stalls
  kDetailSamples = 8,   // The driver's samples between two rounds.
  kDetailsAll = 15,
};

// Mantissa in bits 8 to 11, the negative exponent of ten in bits 0 to 7.
double BitErrorRate(uint64_t packed) noexcept;
// "crc_flit". `field` must be less than LinkField::kCount. Static storage.
std::string_view LinkFieldName(LinkField field) noexcept;

}  // namespace gpulens::nvml
