// More rows for nvml_fields.h: what a board tells beside its common readings. Same columns; included
// by that header alone.
#pragma once

// The places of memory errors, each with four counters in this order: ECC_LOCATION(X, Id, "name").
#define GPULENS_NVML_ECC_LOCATION(X, Id, name)                               \
  X(EccVolatileCorrected##Id, "ecc_volatile_corrected_" name, "", kSlow)     \
  X(EccVolatileUncorrected##Id, "ecc_volatile_uncorrected_" name, "", kSlow) \
  X(EccAggregateCorrected##Id, "ecc_aggregate_corrected_" name, "", kSlow)   \
  X(EccAggregateUncorrected##Id, "ecc_aggregate_uncorrected_" name, "", kSlow)

#define GPULENS_NVML_BOARD_FIELDS(X)                                      \
  X(UtilizationJpeg, "utilization_jpeg", "%", kMedium)                    \
  X(UtilizationOfa, "utilization_ofa", "%", kMedium)                      \
  X(PowerAverage, "power_average", "mW", kFast)                           \
  X(PowerMemory, "power_memory", "mW", kMedium)                           \
  X(PowerMemoryInstant, "power_memory_instant", "mW", kMedium)            \
  X(PowerModule, "power_module", "mW", kMedium)                           \
  X(PowerModuleInstant, "power_module_instant", "mW", kMedium)            \
  X(TemperatureShutdown, "temperature_shutdown", "Cel", kStatic)          \
  X(TemperatureSlowdown, "temperature_slowdown", "Cel", kStatic)          \
  X(TemperatureMemoryMax, "temperature_memory_max", "Cel", kStatic)       \
  X(TemperatureGpuMax, "temperature_gpu_max", "Cel", kStatic)             \
  X(TemperatureTarget, "temperature_target", "Cel", kStatic)              \
  X(TemperatureMargin, "temperature_margin", "Cel", kFast)                \
  X(MarginShutdown, "margin_shutdown", "Cel", kStatic)                    \
  X(MarginSlowdown, "margin_slowdown", "Cel", kStatic)                    \
  X(MarginMemoryMax, "margin_memory_max", "Cel", kStatic)                 \
  X(MarginGpuMax, "margin_gpu_max", "Cel", kStatic)                       \
  X(ClockApplicationGraphics, "clock_application_graphics", "MHz", kSlow) \
  X(ClockApplicationMemory, "clock_application_memory", "MHz", kSlow)     \
  X(ClockReasonsSupported, "clock_reasons_supported", "", kStatic)        \
  X(ViolationThermal, "violation_thermal", "ns", kMedium)                 \
  X(ViolationBoardLimit, "violation_board_limit", "ns", kMedium)          \
  X(ViolationLowUtilization, "violation_low_utilization", "ns", kMedium)  \
  X(ViolationReliability, "violation_reliability", "ns", kMedium)         \
  X(ViolationAppClocks, "violation_app_clocks", "ns", kMedium)            \
  X(ViolationBaseClocks, "violation_base_clocks", "ns", kMedium)          \
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
  X(MmaStall, "mma_stall", "%", kMedium)                                  \
  X(EdppMultiplier, "edpp_multiplier", "%", kSlow)                        \
  X(MclkSwitchInterval, "mclk_switch_interval", "ms", kStatic)

#define GPULENS_NVML_ERROR_FIELDS(X)                                       \
  X(EccAggregateCorrected, "ecc_aggregate_corrected", "", kMedium)         \
  X(EccAggregateUncorrected, "ecc_aggregate_uncorrected", "", kMedium)     \
  X(EccModePending, "ecc_mode_pending", "", kSlow)                         \
  GPULENS_NVML_ECC_LOCATION(X, L1, "l1")                                   \
  GPULENS_NVML_ECC_LOCATION(X, L2, "l2")                                   \
  GPULENS_NVML_ECC_LOCATION(X, Dram, "dram")                               \
  GPULENS_NVML_ECC_LOCATION(X, Register, "register")                       \
  GPULENS_NVML_ECC_LOCATION(X, Texture, "texture")                         \
  GPULENS_NVML_ECC_LOCATION(X, Shared, "shared")                           \
  GPULENS_NVML_ECC_LOCATION(X, Cbu, "cbu")                                 \
  GPULENS_NVML_ECC_LOCATION(X, Sram, "sram")                               \
  X(SramThresholdExceeded, "sram_threshold_exceeded", "", kSlow)           \
  X(SramL2, "sram_l2", "", kSlow)                                          \
  X(SramSm, "sram_sm", "", kSlow)                                          \
  X(SramMicrocontroller, "sram_microcontroller", "", kSlow)                \
  X(SramPcie, "sram_pcie", "", kSlow)                                      \
  X(SramOther, "sram_other", "", kSlow)                                    \
  X(RemapInactiveCorrectable, "remap_inactive_correctable", "", kSlow)     \
  X(RemapInactiveUncorrectable, "remap_inactive_uncorrectable", "", kSlow) \
  X(RemapBanksMax, "remap_banks_max", "", kSlow)                           \
  X(RemapBanksHigh, "remap_banks_high", "", kSlow)                         \
  X(RemapBanksPartial, "remap_banks_partial", "", kSlow)                   \
  X(RemapBanksLow, "remap_banks_low", "", kSlow)                           \
  X(RemapBanksNone, "remap_banks_none", "", kSlow)                         \
  X(MemoryUnrepairable, "memory_unrepairable", "", kSlow)                  \
  X(PcieCorrectable, "pcie_correctable", "", kSlow)                        \
  X(PcieNakReceived, "pcie_nak_received", "", kSlow)                       \
  X(PcieReceiverError, "pcie_receiver_error", "", kSlow)                   \
  X(PcieBadTlp, "pcie_bad_tlp", "", kSlow)                                 \
  X(PcieNakSent, "pcie_nak_sent", "", kSlow)                               \
  X(PcieBadDllp, "pcie_bad_dllp", "", kSlow)                               \
  X(PcieNonFatal, "pcie_non_fatal", "", kSlow)                             \
  X(PcieFatal, "pcie_fatal", "", kSlow)                                    \
  X(PcieUnsupportedRequest, "pcie_unsupported_request", "", kSlow)         \
  X(PcieLcrc, "pcie_lcrc", "", kSlow)                                      \
  X(PcieLane, "pcie_lane", "", kSlow)                                      \
  X(PcieRecovery, "pcie_recovery", "", kSlow)                              \
  X(PcieReplayRollover, "pcie_replay_rollover", "", kSlow)                 \
  X(NvlinkCrcFlit, "nvlink_crc_flit", "", kMedium)                         \
  X(NvlinkCrcData, "nvlink_crc_data", "", kMedium)                         \
  X(NvlinkReplay, "nvlink_replay", "", kMedium)                            \
  X(NvlinkRecovery, "nvlink_recovery", "", kMedium)                        \
  X(NvlinkEccData, "nvlink_ecc_data", "", kMedium)

#define GPULENS_NVML_STATE_FIELDS(X)                                   \
  X(FabricState, "fabric_state", "", kMedium)                          \
  X(FabricStatus, "fabric_status", "", kMedium)                        \
  X(FabricHealth, "fabric_health", "", kMedium)                        \
  X(FabricClique, "fabric_clique", "", kMedium)                        \
  X(FabricClusterHigh, "fabric_cluster_high", "", kMedium)             \
  X(FabricClusterLow, "fabric_cluster_low", "", kMedium)               \
  X(ConfidentialEnabled, "confidential_enabled", "", kSlow)            \
  X(ConfidentialDevMode, "confidential_dev_mode", "", kSlow)           \
  X(ConfidentialReady, "confidential_ready", "", kSlow)                \
  X(ConfidentialProtected, "confidential_protected", "KiB", kSlow)     \
  X(ConfidentialUnprotected, "confidential_unprotected", "KiB", kSlow) \
  X(ComputeMode, "compute_mode", "", kSlow)                            \
  X(DisplayActive, "display_active", "", kSlow)                        \
  X(InforomValid, "inforom_valid", "", kStatic)                        \
  X(VirtualizationMode, "virtualization_mode", "", kStatic)            \
  X(PowerSource, "power_source", "", kSlow)                            \
  X(MigModePending, "mig_mode_pending", "", kSlow)

// Least, mean and greatest of the driver's own samples since the round before. Shares are in
// thousandths of a per cent, since a mean has fractions.
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
