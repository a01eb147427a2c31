// Links between GPUs, one by one, and the switches between them.
#pragma once

#include "catalog/row.h"

namespace gpulens {

inline constexpr MetricDesc kGpuInterconnectBandwidth = row::Standard(
    row::Gauge("gpu.interconnect.bandwidth", "By/s", "NVLink bytes per second, both directions together.",
               row::kKeys<"gpu.interconnect.type">));
inline constexpr MetricDesc kGpuInterconnectErrors = row::Standard(
    row::StrictCounter("gpu.interconnect.errors", "{error}", "Errors over all links of the GPU by type.",
                       row::kKeys<"gpu.interconnect.type", "gpu.interconnect.error_type">));
inline constexpr MetricDesc kGpuC2cThroughput = row::Gauge(
    "gpu.c2c.throughput", "By/s", "Data bytes per second between GPU and CPU over C2C, without overhead.",
    row::kKeys<"gpu.interconnect.direction", "gpu.interconnect.payload">);
inline constexpr MetricDesc kGpuInterconnectIo = row::StrictCounter(
    "gpu.interconnect.io", "By", "Data bytes over one link since the driver was loaded.",
    row::kKeys<"gpu.interconnect.direction", "gpu.interconnect.type", "gpu.interconnect.link_index">);
inline constexpr MetricDesc kGpuInterconnectPackets = row::StrictCounter(
    "gpu.interconnect.packets", "{packet}", "Packets over one link.",
    row::kKeys<"gpu.interconnect.direction", "gpu.interconnect.type", "gpu.interconnect.link_index">);
inline constexpr MetricDesc kGpuInterconnectLinkActive =
    row::Flag("gpu.interconnect.link.active", "1 while the link is up.",
              row::kKeys<"gpu.interconnect.type", "gpu.interconnect.link_index">);
inline constexpr MetricDesc kGpuInterconnectLinkSpeed =
    row::Gauge("gpu.interconnect.link.speed", "By/s", "Raw speed of one link in one direction.",
               row::kKeys<"gpu.interconnect.type", "gpu.interconnect.link_index">);
inline constexpr MetricDesc kGpuInterconnectLinkInfo =
    row::Info("gpu.interconnect.link.info", "1 per link, with what is on its other end.",
              row::kKeys<"gpu.interconnect.type", "gpu.interconnect.link_index", "gpu.interconnect.version",
                         "gpu.interconnect.remote.type", "gpu.interconnect.remote.pci_bus_id",
                         "gpu.interconnect.remote.link_index">);
inline constexpr MetricDesc kGpuInterconnectLinkLowPower =
    row::Flag("gpu.interconnect.link.low_power", "1 while the link is in its low-power state.",
              row::kKeys<"gpu.interconnect.type", "gpu.interconnect.link_index">);
inline constexpr MetricDesc kGpuInterconnectLinkErrors = row::StrictCounter(
    "gpu.interconnect.link.errors", "{error}", "Errors of one link by type.",
    row::kKeys<"gpu.interconnect.type", "gpu.interconnect.link_index", "gpu.interconnect.error_type">);
inline constexpr MetricDesc kGpuInterconnectLinkRecoveries = row::StrictCounter(
    "gpu.interconnect.link.recoveries", "{event}", "Times an NVLink5 link went into recovery, by result.",
    row::kKeys<"gpu.interconnect.type", "gpu.interconnect.link_index", "gpu.interconnect.result">);
inline constexpr MetricDesc kGpuInterconnectLinkBitErrorRate = row::Gauge(
    "gpu.interconnect.link.bit_error_rate", "1", "Bit error rate of one link.",
    row::kKeys<"gpu.interconnect.type", "gpu.interconnect.link_index", "gpu.interconnect.ber_type">,
    &row::kZeroToOne);
inline constexpr MetricDesc kGpuInterconnectLinkFecCorrected =
    row::Histogram("gpu.interconnect.link.fec.corrected", "{symbol}",
                   "Blocks of one link by number of symbols that FEC corrected.",
                   row::kKeys<"gpu.interconnect.type", "gpu.interconnect.link_index">);
inline constexpr MetricDesc kNvswitchTemperature = row::Standard(
    row::Gauge("nvswitch.temperature", "Cel", "Temperature of an NVSwitch, from a DCGM exporter page.",
               row::kKeys<"nvswitch.id">, &row::kSensorTemperature));
inline constexpr MetricDesc kNvswitchLinkErrors = row::Standard(row::StrictCounter(
    "nvswitch.link.errors", "{error}", "Errors of an NVSwitch port by type.",
    row::kKeys<"nvswitch.id", "gpu.interconnect.link_index", "gpu.interconnect.error_type">));
inline constexpr MetricDesc kNvswitchSxidErrors =
    row::Essential(row::Counter("nvswitch.sxid.errors", "{error}", "SXid errors of an NVSwitch.",
                                row::kKeys<"nvswitch.id", "nvswitch.sxid.severity">));
inline constexpr MetricDesc kGpuInterconnectLinkBandwidth = row::Gauge(
    "gpu.interconnect.link.bandwidth", "By/s", "Bytes per second over one NVLink, both directions together.",
    row::kKeys<"gpu.interconnect.type", "gpu.interconnect.link_index">);
inline constexpr MetricDesc kGpuInterconnectLinkWidth =
    row::Gauge("gpu.interconnect.link.width", "{lanes}", "Lanes of one link in use.",
               row::kKeys<"gpu.interconnect.type", "gpu.interconnect.link_index">);

// All rows of this header, in the order in which people should read them.
inline constexpr const MetricDesc* kGpuLinksRows[] = {
    &kGpuInterconnectBandwidth,
    &kGpuInterconnectErrors,
    &kGpuC2cThroughput,
    &kGpuInterconnectIo,
    &kGpuInterconnectPackets,
    &kGpuInterconnectLinkActive,
    &kGpuInterconnectLinkSpeed,
    &kGpuInterconnectLinkInfo,
    &kGpuInterconnectLinkLowPower,
    &kGpuInterconnectLinkErrors,
    &kGpuInterconnectLinkRecoveries,
    &kGpuInterconnectLinkBitErrorRate,
    &kGpuInterconnectLinkFecCorrected,
    &kNvswitchTemperature,
    &kNvswitchLinkErrors,
    &kNvswitchSxidErrors,
    &kGpuInterconnectLinkBandwidth,
    &kGpuInterconnectLinkWidth,
};

}  // namespace gpulens
