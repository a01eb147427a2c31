// The DCGM exporter's page, traffic: PCIe, NVLink, C2C and NVSwitch.
//
// What the profiling module counts stands before what the driver guesses: the first row of a series wins.
#pragma once

#include "catalog/gpu.h"
#include "scrape/gpu/page_row.h"

namespace gpulens::gpu_page {

inline constexpr double kKiBps = 1024, kMBps = 1e6;

// clang-format off
inline constexpr PageRow kDcgmLinks[] = {
    {"DCGM_FI_PROF_PCIE_TX_BYTES", "dcgm_fi_prof_pcie_tx_bytes", &kGpuPcieThroughput, 1, 1, "gpu.interconnect.direction=transmit,gpu.interconnect.source=dcgm_profiling,gpu.interconnect.type=pcie"},
    {"DCGM_FI_DEV_PCIE_TX_THROUGHPUT", "", &kGpuPcieThroughput, kKiBps, 1, "gpu.interconnect.direction=transmit,gpu.interconnect.type=pcie"},
    {"DCGM_FI_PROF_PCIE_TX_BYTES_TOTAL", "", &kGpuPcieIo, 1, 1, "gpu.interconnect.direction=transmit"},
    {"DCGM_FI_PROF_NVLINK_TX_BYTES", "", &kGpuInterconnectThroughput, 1, 1, "gpu.interconnect.direction=transmit,gpu.interconnect.source=dcgm_profiling,gpu.interconnect.type=nvlink"},
    {"DCGM_FI_DEV_NVLINK_TX_BANDWIDTH_TOTAL", "DCGM_FI_DEV_NVLINK_TX_THROUGHPUT_TOTAL", &kGpuInterconnectThroughput, kMBps, 1, "gpu.interconnect.direction=transmit,gpu.interconnect.type=nvlink"},
    {"DCGM_FI_PROF_C2C_TX_ALL_BYTES", "", &kGpuInterconnectThroughput, 1, 1, "gpu.interconnect.direction=transmit,gpu.interconnect.source=dcgm_profiling,gpu.interconnect.type=c2c"},
    {"DCGM_FI_PROF_C2C_TX_DATA_BYTES", "", &kGpuC2cThroughput, 1, 1, "gpu.interconnect.direction=transmit,gpu.interconnect.payload=data"},
    {.family = "DCGM_FI_DEV_NVLINK_COUNT_TX_BYTES", .renamed = "DCGM_FI_DEV_NVLINK_TX_BYTES_TOTAL", .metric = &kGpuInterconnectIo, .attributes = "gpu.interconnect.direction=transmit,gpu.interconnect.type=nvlink", .label = "nvlink", .label_key = "gpu.interconnect.link_index"},
    {.family = "DCGM_FI_DEV_NVLINK_COUNT_TX_PACKETS", .renamed = "DCGM_FI_DEV_NVLINK_TX_PACKET_TOTAL", .metric = &kGpuInterconnectPackets, .attributes = "gpu.interconnect.direction=transmit,gpu.interconnect.type=nvlink", .label = "nvlink", .label_key = "gpu.interconnect.link_index"},
    {"DCGM_FI_PROF_PCIE_RX_BYTES", "dcgm_fi_prof_pcie_rx_bytes", &kGpuPcieThroughput, 1, 1, "gpu.interconnect.direction=receive,gpu.interconnect.source=dcgm_profiling,gpu.interconnect.type=pcie"},
    {"DCGM_FI_DEV_PCIE_RX_THROUGHPUT", "", &kGpuPcieThroughput, kKiBps, 1, "gpu.interconnect.direction=receive,gpu.interconnect.type=pcie"},
    {"DCGM_FI_PROF_PCIE_RX_BYTES_TOTAL", "", &kGpuPcieIo, 1, 1, "gpu.interconnect.direction=receive"},
    {"DCGM_FI_PROF_NVLINK_RX_BYTES", "", &kGpuInterconnectThroughput, 1, 1, "gpu.interconnect.direction=receive,gpu.interconnect.source=dcgm_profiling,gpu.interconnect.type=nvlink"},
    {"DCGM_FI_DEV_NVLINK_RX_BANDWIDTH_TOTAL", "DCGM_FI_DEV_NVLINK_RX_THROUGHPUT_TOTAL", &kGpuInterconnectThroughput, kMBps, 1, "gpu.interconnect.direction=receive,gpu.interconnect.type=nvlink"},
    {"DCGM_FI_PROF_C2C_RX_ALL_BYTES", "", &kGpuInterconnectThroughput, 1, 1, "gpu.interconnect.direction=receive,gpu.interconnect.source=dcgm_profiling,gpu.interconnect.type=c2c"},
    {"DCGM_FI_PROF_C2C_RX_DATA_BYTES", "", &kGpuC2cThroughput, 1, 1, "gpu.interconnect.direction=receive,gpu.interconnect.payload=data"},
    {.family = "DCGM_FI_DEV_NVLINK_COUNT_RX_BYTES", .renamed = "DCGM_FI_DEV_NVLINK_RX_BYTES_TOTAL", .metric = &kGpuInterconnectIo, .attributes = "gpu.interconnect.direction=receive,gpu.interconnect.type=nvlink", .label = "nvlink", .label_key = "gpu.interconnect.link_index"},
    {.family = "DCGM_FI_DEV_NVLINK_COUNT_RX_PACKETS", .renamed = "DCGM_FI_DEV_NVLINK_RX_PACKET_TOTAL", .metric = &kGpuInterconnectPackets, .attributes = "gpu.interconnect.direction=receive,gpu.interconnect.type=nvlink", .label = "nvlink", .label_key = "gpu.interconnect.link_index"},
    {"DCGM_FI_DEV_PCIE_REPLAY_COUNTER", "DCGM_FI_DEV_PCIE_REPLAY_TOTAL", &kGpuPcieReplayCount},
    {"dcgm_pcie_replay_counter", "", &kGpuPcieReplayCount},
    {"DCGM_FI_DEV_PCIE_COUNT_CORRECTABLE_ERRORS", "DCGM_FI_DEV_PCIE_CORRECTABLE_ERROR_TOTAL", &kGpuPcieErrors, 1, 1, "gpu.pcie.error_type=correctable"},
    {"DCGM_FI_DEV_PCIE_LINK_GEN", "", &kGpuPcieLinkGenCurrent},
    {"DCGM_FI_DEV_PCIE_LINK_WIDTH", "", &kGpuPcieLinkWidthCurrent},
    {"DCGM_FI_DEV_PCIE_MAX_LINK_GEN", "", &kGpuPcieLinkGenMax},
    {"DCGM_FI_DEV_PCIE_MAX_LINK_WIDTH", "", &kGpuPcieLinkWidthMax},

    {"DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL", "DCGM_FI_DEV_NVLINK_THROUGHPUT_TOTAL", &kGpuInterconnectBandwidth, kMBps, 1, "gpu.interconnect.type=nvlink"},
    {"dcgm_nvlink_bandwidth_total", "", &kGpuInterconnectBandwidth, kMBps, 1, "gpu.interconnect.type=nvlink"},
    {"DCGM_FI_DEV_NVLINK_BANDWIDTH_L#", "DCGM_FI_DEV_NVLINK_THROUGHPUT_L#", &kGpuInterconnectLinkBandwidth, kMBps, 1, "gpu.interconnect.type=nvlink", "gpu.interconnect.link_index"},
    {.family = "DCGM_FI_DEV_NVLINK_THROUGHPUT_PER_LINK", .metric = &kGpuInterconnectLinkBandwidth, .times = kMBps, .attributes = "gpu.interconnect.type=nvlink", .label = "nvlink", .label_key = "gpu.interconnect.link_index"},
    {"DCGM_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL", "DCGM_FI_DEV_NVLINK_CRC_FLIT_ERROR_TOTAL", &kGpuInterconnectErrors, 1, 1, "gpu.interconnect.type=nvlink,gpu.interconnect.error_type=crc_flit"},
    {"DCGM_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_L#", "DCGM_FI_DEV_NVLINK_CRC_FLIT_ERROR_L#_TOTAL", &kGpuInterconnectLinkErrors, 1, 1, "gpu.interconnect.type=nvlink,gpu.interconnect.error_type=crc_flit", "gpu.interconnect.link_index"},
    {.family = "DCGM_FI_DEV_NVLINK_CRC_FLIT_ERROR_PER_LINK_TOTAL", .metric = &kGpuInterconnectLinkErrors, .attributes = "gpu.interconnect.type=nvlink,gpu.interconnect.error_type=crc_flit", .label = "nvlink", .label_key = "gpu.interconnect.link_index"},
    {"DCGM_FI_DEV_NVLINK_CRC_DATA_ERROR_COUNT_TOTAL", "DCGM_FI_DEV_NVLINK_CRC_DATA_ERROR_TOTAL", &kGpuInterconnectErrors, 1, 1, "gpu.interconnect.type=nvlink,gpu.interconnect.error_type=crc_data"},
    {"DCGM_FI_DEV_NVLINK_CRC_DATA_ERROR_COUNT_L#", "DCGM_FI_DEV_NVLINK_CRC_DATA_ERROR_L#_TOTAL", &kGpuInterconnectLinkErrors, 1, 1, "gpu.interconnect.type=nvlink,gpu.interconnect.error_type=crc_data", "gpu.interconnect.link_index"},
    {.family = "DCGM_FI_DEV_NVLINK_CRC_DATA_ERROR_PER_LINK_TOTAL", .metric = &kGpuInterconnectLinkErrors, .attributes = "gpu.interconnect.type=nvlink,gpu.interconnect.error_type=crc_data", .label = "nvlink", .label_key = "gpu.interconnect.link_index"},
    {"DCGM_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL", "DCGM_FI_DEV_NVLINK_REPLAY_ERROR_TOTAL", &kGpuInterconnectErrors, 1, 1, "gpu.interconnect.type=nvlink,gpu.interconnect.error_type=replay"},
    {"DCGM_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_L#", "DCGM_FI_DEV_NVLINK_REPLAY_ERROR_L#_TOTAL", &kGpuInterconnectLinkErrors, 1, 1, "gpu.interconnect.type=nvlink,gpu.interconnect.error_type=replay", "gpu.interconnect.link_index"},
    {.family = "DCGM_FI_DEV_NVLINK_REPLAY_ERROR_PER_LINK_TOTAL", .metric = &kGpuInterconnectLinkErrors, .attributes = "gpu.interconnect.type=nvlink,gpu.interconnect.error_type=replay", .label = "nvlink", .label_key = "gpu.interconnect.link_index"},
    {"DCGM_FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_TOTAL", "DCGM_FI_DEV_NVLINK_RECOVERY_ERROR_TOTAL", &kGpuInterconnectErrors, 1, 1, "gpu.interconnect.type=nvlink,gpu.interconnect.error_type=recovery"},
    {"DCGM_FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_L#", "DCGM_FI_DEV_NVLINK_RECOVERY_ERROR_L#_TOTAL", &kGpuInterconnectLinkErrors, 1, 1, "gpu.interconnect.type=nvlink,gpu.interconnect.error_type=recovery", "gpu.interconnect.link_index"},
    {.family = "DCGM_FI_DEV_NVLINK_RECOVERY_ERROR_PER_LINK_TOTAL", .metric = &kGpuInterconnectLinkErrors, .attributes = "gpu.interconnect.type=nvlink,gpu.interconnect.error_type=recovery", .label = "nvlink", .label_key = "gpu.interconnect.link_index"},
    {.family = "DCGM_FI_DEV_NVLINK_ECC_DATA_ERROR_COUNT_TOTAL", .renamed = "DCGM_FI_DEV_NVLINK_ECC_ERROR_TOTAL", .metric = &kGpuInterconnectLinkErrors, .attributes = "gpu.interconnect.type=nvlink,gpu.interconnect.error_type=ecc_data", .label = "nvlink", .label_key = "gpu.interconnect.link_index"},
    {.family = "DCGM_FI_DEV_NVLINK_ECC_DATA_ERROR_COUNT_TOTAL", .renamed = "DCGM_FI_DEV_NVLINK_ECC_ERROR_TOTAL", .metric = &kGpuInterconnectErrors, .attributes = "gpu.interconnect.type=nvlink,gpu.interconnect.error_type=ecc_data", .without = "nvlink"},
    {.family = "DCGM_FI_DEV_NVLINK_COUNT_RX_MALFORMED_PACKET_ERRORS", .renamed = "DCGM_FI_DEV_NVLINK_RX_PACKET_MALFORMED_TOTAL", .metric = &kGpuInterconnectLinkErrors, .attributes = "gpu.interconnect.type=nvlink,gpu.interconnect.error_type=malformed", .label = "nvlink", .label_key = "gpu.interconnect.link_index"},
    {.family = "DCGM_FI_DEV_NVLINK_COUNT_RX_MALFORMED_PACKET_ERRORS", .renamed = "DCGM_FI_DEV_NVLINK_RX_PACKET_MALFORMED_TOTAL", .metric = &kGpuInterconnectErrors, .attributes = "gpu.interconnect.type=nvlink,gpu.interconnect.error_type=malformed", .without = "nvlink"},
    {.family = "DCGM_FI_DEV_NVLINK_COUNT_RX_BUFFER_OVERRUN_ERRORS", .renamed = "DCGM_FI_DEV_NVLINK_RX_PACKET_DROPPED_TOTAL", .metric = &kGpuInterconnectLinkErrors, .attributes = "gpu.interconnect.type=nvlink,gpu.interconnect.error_type=overrun", .label = "nvlink", .label_key = "gpu.interconnect.link_index"},
    {.family = "DCGM_FI_DEV_NVLINK_COUNT_RX_BUFFER_OVERRUN_ERRORS", .renamed = "DCGM_FI_DEV_NVLINK_RX_PACKET_DROPPED_TOTAL", .metric = &kGpuInterconnectErrors, .attributes = "gpu.interconnect.type=nvlink,gpu.interconnect.error_type=overrun", .without = "nvlink"},
    {.family = "DCGM_FI_DEV_NVLINK_COUNT_RX_ERRORS", .renamed = "DCGM_FI_DEV_NVLINK_RX_ERROR_TOTAL", .metric = &kGpuInterconnectLinkErrors, .attributes = "gpu.interconnect.type=nvlink,gpu.interconnect.error_type=receive", .label = "nvlink", .label_key = "gpu.interconnect.link_index"},
    {.family = "DCGM_FI_DEV_NVLINK_COUNT_RX_ERRORS", .renamed = "DCGM_FI_DEV_NVLINK_RX_ERROR_TOTAL", .metric = &kGpuInterconnectErrors, .attributes = "gpu.interconnect.type=nvlink,gpu.interconnect.error_type=receive", .without = "nvlink"},
    {.family = "DCGM_FI_DEV_NVLINK_COUNT_RX_REMOTE_ERRORS", .renamed = "DCGM_FI_DEV_NVLINK_RX_REMOTE_ERROR_TOTAL", .metric = &kGpuInterconnectLinkErrors, .attributes = "gpu.interconnect.type=nvlink,gpu.interconnect.error_type=remote", .label = "nvlink", .label_key = "gpu.interconnect.link_index"},
    {.family = "DCGM_FI_DEV_NVLINK_COUNT_RX_REMOTE_ERRORS", .renamed = "DCGM_FI_DEV_NVLINK_RX_REMOTE_ERROR_TOTAL", .metric = &kGpuInterconnectErrors, .attributes = "gpu.interconnect.type=nvlink,gpu.interconnect.error_type=remote", .without = "nvlink"},
    {.family = "DCGM_FI_DEV_NVLINK_COUNT_RX_GENERAL_ERRORS", .renamed = "DCGM_FI_DEV_NVLINK_RX_GENERAL_ERROR_TOTAL", .metric = &kGpuInterconnectLinkErrors, .attributes = "gpu.interconnect.type=nvlink,gpu.interconnect.error_type=general", .label = "nvlink", .label_key = "gpu.interconnect.link_index"},
    {.family = "DCGM_FI_DEV_NVLINK_COUNT_RX_GENERAL_ERRORS", .renamed = "DCGM_FI_DEV_NVLINK_RX_GENERAL_ERROR_TOTAL", .metric = &kGpuInterconnectErrors, .attributes = "gpu.interconnect.type=nvlink,gpu.interconnect.error_type=general", .without = "nvlink"},
    {.family = "DCGM_FI_DEV_NVLINK_COUNT_LOCAL_LINK_INTEGRITY_ERRORS", .renamed = "DCGM_FI_DEV_NVLINK_INTEGRITY_ERROR_TOTAL", .metric = &kGpuInterconnectLinkErrors, .attributes = "gpu.interconnect.type=nvlink,gpu.interconnect.error_type=integrity", .label = "nvlink", .label_key = "gpu.interconnect.link_index"},
    {.family = "DCGM_FI_DEV_NVLINK_COUNT_LOCAL_LINK_INTEGRITY_ERRORS", .renamed = "DCGM_FI_DEV_NVLINK_INTEGRITY_ERROR_TOTAL", .metric = &kGpuInterconnectErrors, .attributes = "gpu.interconnect.type=nvlink,gpu.interconnect.error_type=integrity", .without = "nvlink"},
    {.family = "DCGM_FI_DEV_NVLINK_COUNT_TX_DISCARDS", .renamed = "", .metric = &kGpuInterconnectLinkErrors, .attributes = "gpu.interconnect.type=nvlink,gpu.interconnect.error_type=discard", .label = "nvlink", .label_key = "gpu.interconnect.link_index"},
    {.family = "DCGM_FI_DEV_NVLINK_COUNT_TX_DISCARDS", .renamed = "", .metric = &kGpuInterconnectErrors, .attributes = "gpu.interconnect.type=nvlink,gpu.interconnect.error_type=discard", .without = "nvlink"},
    {.family = "DCGM_FI_DEV_NVLINK_COUNT_RX_SYMBOL_ERRORS", .renamed = "DCGM_FI_DEV_NVLINK_RX_SYMBOL_ERROR_TOTAL", .metric = &kGpuInterconnectLinkErrors, .attributes = "gpu.interconnect.type=nvlink,gpu.interconnect.error_type=symbol", .label = "nvlink", .label_key = "gpu.interconnect.link_index"},
    {.family = "DCGM_FI_DEV_NVLINK_COUNT_RX_SYMBOL_ERRORS", .renamed = "DCGM_FI_DEV_NVLINK_RX_SYMBOL_ERROR_TOTAL", .metric = &kGpuInterconnectErrors, .attributes = "gpu.interconnect.type=nvlink,gpu.interconnect.error_type=symbol", .without = "nvlink"},
    {.family = "DCGM_FI_DEV_NVLINK_COUNT_EFFECTIVE_ERRORS", .renamed = "DCGM_FI_DEV_NVLINK_EFFECTIVE_ERROR_TOTAL", .metric = &kGpuInterconnectLinkErrors, .attributes = "gpu.interconnect.type=nvlink,gpu.interconnect.error_type=effective", .label = "nvlink", .label_key = "gpu.interconnect.link_index"},
    {.family = "DCGM_FI_DEV_NVLINK_COUNT_EFFECTIVE_ERRORS", .renamed = "DCGM_FI_DEV_NVLINK_EFFECTIVE_ERROR_TOTAL", .metric = &kGpuInterconnectErrors, .attributes = "gpu.interconnect.type=nvlink,gpu.interconnect.error_type=effective", .without = "nvlink"},
    {.family = "DCGM_FI_DEV_NVLINK_COUNT_LINK_RECOVERY_SUCCESSFUL_EVENTS", .renamed = "DCGM_FI_DEV_NVLINK_RECOVERY_SUCCESSFUL_TOTAL", .metric = &kGpuInterconnectLinkRecoveries, .attributes = "gpu.interconnect.type=nvlink,gpu.interconnect.result=success", .label = "nvlink", .label_key = "gpu.interconnect.link_index"},
    {.family = "DCGM_FI_DEV_NVLINK_COUNT_LINK_RECOVERY_FAILED_EVENTS", .renamed = "DCGM_FI_DEV_NVLINK_RECOVERY_FAILED_TOTAL", .metric = &kGpuInterconnectLinkRecoveries, .attributes = "gpu.interconnect.type=nvlink,gpu.interconnect.result=failure", .label = "nvlink", .label_key = "gpu.interconnect.link_index"},
    {.family = "DCGM_FI_DEV_NVLINK_COUNT_EFFECTIVE_BER_FLOAT", .renamed = "DCGM_FI_DEV_NVLINK_EFFECTIVE_BER_RATIO", .metric = &kGpuInterconnectLinkBitErrorRate, .attributes = "gpu.interconnect.type=nvlink,gpu.interconnect.ber_type=effective", .label = "nvlink", .label_key = "gpu.interconnect.link_index"},
    {.family = "DCGM_FI_DEV_NVLINK_COUNT_SYMBOL_BER_FLOAT", .renamed = "DCGM_FI_DEV_NVLINK_SYMBOL_BER_RATIO", .metric = &kGpuInterconnectLinkBitErrorRate, .attributes = "gpu.interconnect.type=nvlink,gpu.interconnect.ber_type=symbol", .label = "nvlink", .label_key = "gpu.interconnect.link_index"},
    {.family = "DCGM_FI_DEV_NVLINK_GET_STATE", .metric = &kGpuInterconnectLinkActive, .attributes = "gpu.interconnect.type=nvlink", .label = "nvlink", .label_key = "gpu.interconnect.link_index"},

    {"DCGM_FI_DEV_C2C_LINK_COUNT", "DCGM_FI_DEV_C2C_LINK_QUANTITY", &kGpuInterconnectLinks, 1, 1, "gpu.interconnect.type=c2c"},
    {"DCGM_FI_DEV_C2C_LINK_STATUS", "", &kGpuInterconnectLinkActive, 1, 1, "gpu.interconnect.type=c2c"},
    {"DCGM_FI_DEV_C2C_MAX_BANDWIDTH", "", &kGpuInterconnectLinkSpeed, kMBps, 1, "gpu.interconnect.type=c2c"},
    {"DCGM_FI_DEV_C2C_LINK_POWER_STATE", "", &kGpuInterconnectLinkLowPower, 1, 1, "gpu.interconnect.type=c2c"},
    {"DCGM_FI_DEV_C2C_LINK_ERROR_INTR", "", &kGpuInterconnectErrors, 1, 1, "gpu.interconnect.type=c2c,gpu.interconnect.error_type=interrupt"},
    {"DCGM_FI_DEV_C2C_LINK_ERROR_REPLAY", "", &kGpuInterconnectErrors, 1, 1, "gpu.interconnect.type=c2c,gpu.interconnect.error_type=replay"},
    {"DCGM_FI_DEV_C2C_LINK_ERROR_REPLAY_B2B", "", &kGpuInterconnectErrors, 1, 1, "gpu.interconnect.type=c2c,gpu.interconnect.error_type=replay_back_to_back"},

    {.family = "DCGM_FI_DEV_NVSWITCH_TEMPERATURE_CURRENT", .renamed = "DCGM_FI_DEV_NVSWITCH_TEMP_CELSIUS", .metric = &kNvswitchTemperature, .scope = Scope::kSwitch},
    {.family = "DCGM_FI_DEV_NVSWITCH_LINK_FATAL_ERRORS", .renamed = "", .metric = &kNvswitchLinkErrors, .attributes = "gpu.interconnect.error_type=fatal", .label = "nvlink", .label_key = "gpu.interconnect.link_index", .scope = Scope::kSwitch},
    {.family = "DCGM_FI_DEV_NVSWITCH_LINK_NON_FATAL_ERRORS", .renamed = "", .metric = &kNvswitchLinkErrors, .attributes = "gpu.interconnect.error_type=non_fatal", .label = "nvlink", .label_key = "gpu.interconnect.link_index", .scope = Scope::kSwitch},
    {.family = "DCGM_FI_DEV_NVSWITCH_LINK_REPLAY_ERRORS", .renamed = "DCGM_FI_DEV_NVSWITCH_LINK_REPLAY_ERROR_TOTAL", .metric = &kNvswitchLinkErrors, .attributes = "gpu.interconnect.error_type=replay", .label = "nvlink", .label_key = "gpu.interconnect.link_index", .scope = Scope::kSwitch},
    {.family = "DCGM_FI_DEV_NVSWITCH_LINK_RECOVERY_ERRORS", .renamed = "DCGM_FI_DEV_NVSWITCH_LINK_RECOVERY_ERROR_TOTAL", .metric = &kNvswitchLinkErrors, .attributes = "gpu.interconnect.error_type=recovery", .label = "nvlink", .label_key = "gpu.interconnect.link_index", .scope = Scope::kSwitch},
    {.family = "DCGM_FI_DEV_NVSWITCH_LINK_FLIT_ERRORS", .renamed = "DCGM_FI_DEV_NVSWITCH_LINK_FLIT_ERROR_TOTAL", .metric = &kNvswitchLinkErrors, .attributes = "gpu.interconnect.error_type=flit", .label = "nvlink", .label_key = "gpu.interconnect.link_index", .scope = Scope::kSwitch},
    {.family = "DCGM_FI_DEV_NVSWITCH_LINK_CRC_ERRORS", .renamed = "DCGM_FI_DEV_NVSWITCH_LINK_CRC_ERROR_TOTAL", .metric = &kNvswitchLinkErrors, .attributes = "gpu.interconnect.error_type=crc", .label = "nvlink", .label_key = "gpu.interconnect.link_index", .scope = Scope::kSwitch},
    {.family = "DCGM_FI_DEV_NVSWITCH_LINK_ECC_ERRORS", .renamed = "DCGM_FI_DEV_NVSWITCH_LINK_ECC_ERROR_TOTAL", .metric = &kNvswitchLinkErrors, .attributes = "gpu.interconnect.error_type=ecc", .label = "nvlink", .label_key = "gpu.interconnect.link_index", .scope = Scope::kSwitch},
};
// clang-format on

}  // namespace gpulens::gpu_page
