// Fields of DCGM about PCIe and NVLink of a whole GPU.
#pragma once

#include "catalog/gpu.h"
#include "names/dcgm_field.h"

namespace gpulens {

inline constexpr DcgmField kDcgmLinks[] = {
    DcgmField(kGpuPcieReplayCount, "DCGM_FI_DEV_PCIE_REPLAY_COUNTER", "PCIe replays.")
        .Since46("DCGM_FI_DEV_PCIE_REPLAY_TOTAL")
        .Counter(),
    DcgmField(kGpuPcieErrors, "DCGM_FI_DEV_PCIE_COUNT_CORRECTABLE_ERRORS", "Correctable PCIe errors.")
        .Since46("DCGM_FI_DEV_PCIE_CORRECTABLE_ERROR_TOTAL")
        .Counter()
        .Where("gpu.pcie.error_type", "correctable"),
    DcgmField(kGpuPcieLinkGenMax, "DCGM_FI_DEV_PCIE_MAX_LINK_GEN",
              "Highest PCIe generation of GPU and slot."),
    DcgmField(kGpuPcieLinkWidthMax, "DCGM_FI_DEV_PCIE_MAX_LINK_WIDTH", "Most PCIe lanes of GPU and slot."),
    DcgmField(kGpuPcieLinkGenCurrent, "DCGM_FI_DEV_PCIE_LINK_GEN", "PCIe generation in use."),
    DcgmField(kGpuPcieLinkWidthCurrent, "DCGM_FI_DEV_PCIE_LINK_WIDTH", "PCIe lanes in use."),
    DcgmField(kGpuInterconnectBandwidth, "DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL",
              "NVLink traffic in both directions now, in MB/s: a rate, despite its type.")
        .Since46("DCGM_FI_DEV_NVLINK_THROUGHPUT_TOTAL")
        .Counter()
        .Whole("MB/s", kPerMega)
        .Where("gpu.interconnect.type", "nvlink"),
    DcgmField(kGpuInterconnectThroughput, "DCGM_FI_DEV_NVLINK_TX_BANDWIDTH_TOTAL",
              "NVLink transmit rate in MB/s.")
        .Since46("DCGM_FI_DEV_NVLINK_TX_THROUGHPUT_TOTAL")
        .Whole("MB/s", kPerMega)
        .Where("gpu.interconnect.direction", "transmit")
        .Where("gpu.interconnect.type", "nvlink")
        .Where("gpu.interconnect.source", ""),
    DcgmField(kGpuInterconnectThroughput, "DCGM_FI_DEV_NVLINK_RX_BANDWIDTH_TOTAL",
              "NVLink receive rate in MB/s.")
        .Since46("DCGM_FI_DEV_NVLINK_RX_THROUGHPUT_TOTAL")
        .Whole("MB/s", kPerMega)
        .Where("gpu.interconnect.direction", "receive")
        .Where("gpu.interconnect.type", "nvlink")
        .Where("gpu.interconnect.source", ""),
    DcgmField(kGpuInterconnectLinks, "DCGM_FI_DEV_C2C_LINK_COUNT", "C2C links that are up.")
        .Since46("DCGM_FI_DEV_C2C_LINK_QUANTITY")
        .Where("gpu.interconnect.type", "c2c")
        .Where("gpu.interconnect.state", "active"),
    DcgmField(kGpuInterconnectErrors, "DCGM_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL",
              "NVLink flow control CRC errors.")
        .Since46("DCGM_FI_DEV_NVLINK_CRC_FLIT_ERROR_TOTAL")
        .Counter()
        .Where("gpu.interconnect.type", "nvlink")
        .Where("gpu.interconnect.error_type", "crc_flit"),
    DcgmField(kGpuInterconnectErrors, "DCGM_FI_DEV_NVLINK_CRC_DATA_ERROR_COUNT_TOTAL",
              "NVLink data CRC errors.")
        .Since46("DCGM_FI_DEV_NVLINK_CRC_DATA_ERROR_TOTAL")
        .Counter()
        .Where("gpu.interconnect.type", "nvlink")
        .Where("gpu.interconnect.error_type", "crc_data"),
    DcgmField(kGpuInterconnectErrors, "DCGM_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL", "NVLink replays.")
        .Since46("DCGM_FI_DEV_NVLINK_REPLAY_ERROR_TOTAL")
        .Counter()
        .Where("gpu.interconnect.type", "nvlink")
        .Where("gpu.interconnect.error_type", "replay"),
    DcgmField(kGpuInterconnectErrors, "DCGM_FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_TOTAL", "NVLink recoveries.")
        .Since46("DCGM_FI_DEV_NVLINK_RECOVERY_ERROR_TOTAL")
        .Counter()
        .Where("gpu.interconnect.type", "nvlink")
        .Where("gpu.interconnect.error_type", "recovery"),
    DcgmField(kGpuInterconnectErrors, "DCGM_FI_DEV_NVLINK_ECC_DATA_ERROR_COUNT_TOTAL",
              "NVLink data ECC errors.")
        .Since46("DCGM_FI_DEV_NVLINK_ECC_ERROR_TOTAL")
        .Counter()
        .Where("gpu.interconnect.type", "nvlink")
        .Where("gpu.interconnect.error_type", "ecc_data"),
};

inline constexpr DcgmField kDcgmPerLink[] = {
    DcgmField(kGpuInterconnectIo, "DCGM_FI_DEV_NVLINK_COUNT_TX_BYTES", "Bytes over one NVLink, transmit.")
        .Since46("DCGM_FI_DEV_NVLINK_TX_BYTES_TOTAL")
        .Counter()
        .In("B")
        .Where("gpu.interconnect.direction", "transmit")
        .Where("gpu.interconnect.type", "nvlink"),
    DcgmField(kGpuInterconnectPackets, "DCGM_FI_DEV_NVLINK_COUNT_TX_PACKETS",
              "Packets over one NVLink, transmit.")
        .Since46("DCGM_FI_DEV_NVLINK_TX_PACKET_TOTAL")
        .Counter()
        .Where("gpu.interconnect.direction", "transmit")
        .Where("gpu.interconnect.type", "nvlink"),
    DcgmField(kGpuInterconnectIo, "DCGM_FI_DEV_NVLINK_COUNT_RX_BYTES", "Bytes over one NVLink, receive.")
        .Since46("DCGM_FI_DEV_NVLINK_RX_BYTES_TOTAL")
        .Counter()
        .In("B")
        .Where("gpu.interconnect.direction", "receive")
        .Where("gpu.interconnect.type", "nvlink"),
    DcgmField(kGpuInterconnectPackets, "DCGM_FI_DEV_NVLINK_COUNT_RX_PACKETS",
              "Packets over one NVLink, receive.")
        .Since46("DCGM_FI_DEV_NVLINK_RX_PACKET_TOTAL")
        .Counter()
        .Where("gpu.interconnect.direction", "receive")
        .Where("gpu.interconnect.type", "nvlink"),
    DcgmField(kGpuInterconnectLinkErrors, "DCGM_FI_DEV_NVLINK_COUNT_RX_MALFORMED_PACKET_ERRORS",
              "Malformed packets received.")
        .Since46("DCGM_FI_DEV_NVLINK_RX_PACKET_MALFORMED_TOTAL")
        .Counter()
        .Where("gpu.interconnect.type", "nvlink")
        .Where("gpu.interconnect.error_type", "malformed"),
    DcgmField(kGpuInterconnectLinkErrors, "DCGM_FI_DEV_NVLINK_COUNT_RX_BUFFER_OVERRUN_ERRORS",
              "Packets dropped since a buffer was full.")
        .Since46("DCGM_FI_DEV_NVLINK_RX_PACKET_DROPPED_TOTAL")
        .Counter()
        .Where("gpu.interconnect.type", "nvlink")
        .Where("gpu.interconnect.error_type", "overrun"),
    DcgmField(kGpuInterconnectLinkErrors, "DCGM_FI_DEV_NVLINK_COUNT_RX_ERRORS",
              "Packets received with errors.")
        .Since46("DCGM_FI_DEV_NVLINK_RX_ERROR_TOTAL")
        .Counter()
        .Where("gpu.interconnect.type", "nvlink")
        .Where("gpu.interconnect.error_type", "receive"),
    DcgmField(kGpuInterconnectLinkErrors, "DCGM_FI_DEV_NVLINK_COUNT_RX_REMOTE_ERRORS",
              "Packets that the other end marked bad.")
        .Since46("DCGM_FI_DEV_NVLINK_RX_REMOTE_ERROR_TOTAL")
        .Counter()
        .Where("gpu.interconnect.type", "nvlink")
        .Where("gpu.interconnect.error_type", "remote"),
    DcgmField(kGpuInterconnectLinkErrors, "DCGM_FI_DEV_NVLINK_COUNT_RX_GENERAL_ERRORS",
              "Packets received with other errors.")
        .Since46("DCGM_FI_DEV_NVLINK_RX_GENERAL_ERROR_TOTAL")
        .Counter()
        .Where("gpu.interconnect.type", "nvlink")
        .Where("gpu.interconnect.error_type", "general"),
    DcgmField(kGpuInterconnectLinkErrors, "DCGM_FI_DEV_NVLINK_COUNT_LOCAL_LINK_INTEGRITY_ERRORS",
              "Times that link errors passed their threshold.")
        .Since46("DCGM_FI_DEV_NVLINK_INTEGRITY_ERROR_TOTAL")
        .Counter()
        .Where("gpu.interconnect.type", "nvlink")
        .Where("gpu.interconnect.error_type", "integrity"),
    DcgmField(kGpuInterconnectLinkErrors, "DCGM_FI_DEV_NVLINK_COUNT_TX_DISCARDS",
              "Packets discarded without being sent.")
        .Counter()
        .Where("gpu.interconnect.type", "nvlink")
        .Where("gpu.interconnect.error_type", "discard"),
    DcgmField(kGpuInterconnectLinkErrors, "DCGM_FI_DEV_NVLINK_COUNT_RX_SYMBOL_ERRORS",
              "Symbols received with errors.")
        .Since46("DCGM_FI_DEV_NVLINK_RX_SYMBOL_ERROR_TOTAL")
        .Counter()
        .Where("gpu.interconnect.type", "nvlink")
        .Where("gpu.interconnect.error_type", "symbol"),
    DcgmField(kGpuInterconnectLinkErrors, "DCGM_FI_DEV_NVLINK_COUNT_EFFECTIVE_ERRORS",
              "Errors left after correction.")
        .Since46("DCGM_FI_DEV_NVLINK_EFFECTIVE_ERROR_TOTAL")
        .Counter()
        .Where("gpu.interconnect.type", "nvlink")
        .Where("gpu.interconnect.error_type", "effective"),
    DcgmField(kGpuInterconnectLinkRecoveries, "DCGM_FI_DEV_NVLINK_COUNT_LINK_RECOVERY_SUCCESSFUL_EVENTS",
              "Link recoveries that succeeded.")
        .Since46("DCGM_FI_DEV_NVLINK_RECOVERY_SUCCESSFUL_TOTAL")
        .Counter()
        .Where("gpu.interconnect.type", "nvlink")
        .Where("gpu.interconnect.result", "success"),
    DcgmField(kGpuInterconnectLinkRecoveries, "DCGM_FI_DEV_NVLINK_COUNT_LINK_RECOVERY_FAILED_EVENTS",
              "Link recoveries that failed.")
        .Since46("DCGM_FI_DEV_NVLINK_RECOVERY_FAILED_TOTAL")
        .Counter()
        .Where("gpu.interconnect.type", "nvlink")
        .Where("gpu.interconnect.result", "failure"),
    DcgmField(kGpuInterconnectLinkBitErrorRate, "DCGM_FI_DEV_NVLINK_COUNT_EFFECTIVE_BER_FLOAT",
              "Bit error rate after correction.")
        .Since46("DCGM_FI_DEV_NVLINK_EFFECTIVE_BER_RATIO")
        .Where("gpu.interconnect.type", "nvlink")
        .Where("gpu.interconnect.ber_type", "effective"),
    DcgmField(kGpuInterconnectLinkBitErrorRate, "DCGM_FI_DEV_NVLINK_COUNT_SYMBOL_BER_FLOAT",
              "Bit error rate of symbols.")
        .Since46("DCGM_FI_DEV_NVLINK_SYMBOL_BER_RATIO")
        .Where("gpu.interconnect.type", "nvlink")
        .Where("gpu.interconnect.ber_type", "symbol"),
};

}  // namespace gpulens
