// The host's disks, file systems, network interfaces and RDMA ports.
#pragma once

#include "catalog/row.h"

namespace gpulens {

inline constexpr MetricDesc kSystemDiskIo =
    row::Standard(row::StrictCounter("system.disk.io", "By", "Bytes moved by a block device.",
                                     row::kKeys<"system.device", "disk.io.direction">));
inline constexpr MetricDesc kSystemDiskOperations =
    row::StrictCounter("system.disk.operations", "{operation}", "Operations of a block device.",
                       row::kKeys<"system.device", "disk.io.direction">);
inline constexpr MetricDesc kSystemDiskIoTime =
    row::Standard(row::Counter("system.disk.io_time", "s", "Time a block device was busy.",
                               row::kKeys<"system.device">, &row::kDiskBusy));
inline constexpr MetricDesc kSystemDiskOperationTime =
    row::Counter("system.disk.operation_time", "s", "Time of all operations added up.",
                 row::kKeys<"system.device", "disk.io.direction">);
inline constexpr MetricDesc kSystemDiskMerged =
    row::StrictCounter("system.disk.merged", "{operation}", "Operations merged.",
                       row::kKeys<"system.device", "disk.io.direction">);
inline constexpr MetricDesc kSystemDiskLimit =
    row::UpDown("system.disk.limit", "By", "Size of a block device.", row::kKeys<"system.device">);
inline constexpr MetricDesc kHostDiskPendingOperations =
    row::UpDown("host.disk.pending_operations", "{operation}", "Operations in flight.",
                row::kKeys<"system.device">, &row::kPendingOperations);

inline constexpr MetricDesc kSystemFilesystemUsage =
    row::UpDown("system.filesystem.usage", "By", "Space of a file system by state.",
                row::kKeys<"system.device", "system.filesystem.mountpoint", "system.filesystem.type",
                           "system.filesystem.mode", "system.filesystem.state">);
inline constexpr MetricDesc kSystemFilesystemUtilization =
    row::Essential(row::Gauge("system.filesystem.utilization", "1", "Share of a file system in use.",
                              row::kKeys<"system.device", "system.filesystem.mountpoint",
                                         "system.filesystem.type", "system.filesystem.mode">,
                              &row::kZeroToOne));
inline constexpr MetricDesc kSystemFilesystemLimit =
    row::UpDown("system.filesystem.limit", "By", "Size of a file system.",
                row::kKeys<"system.device", "system.filesystem.mountpoint", "system.filesystem.type",
                           "system.filesystem.mode">);
inline constexpr MetricDesc kHostFilesystemInodes =
    row::UpDown("host.filesystem.inodes", "{inode}", "Inodes of a file system by state.",
                row::kKeys<"system.device", "system.filesystem.mountpoint", "system.filesystem.type",
                           "system.filesystem.mode", "system.filesystem.state">);
inline constexpr MetricDesc kHostFilesystemUnreachable =
    row::Essential(row::Flag("host.filesystem.unreachable", "1 while a file system does not answer.",
                             row::kKeys<"system.filesystem.mountpoint", "system.filesystem.type">));

inline constexpr MetricDesc kSystemNetworkIo =
    row::Standard(row::StrictCounter("system.network.io", "By", "Bytes of a network interface.",
                                     row::kKeys<"network.interface.name", "network.io.direction">));
inline constexpr MetricDesc kSystemNetworkPacketCount =
    row::StrictCounter("system.network.packet.count", "{packet}", "Packets of a network interface.",
                       row::kKeys<"network.interface.name", "network.io.direction">);
inline constexpr MetricDesc kSystemNetworkPacketDropped =
    row::StrictCounter("system.network.packet.dropped", "{packet}", "Packets dropped by an interface.",
                       row::kKeys<"network.interface.name", "network.io.direction">);
inline constexpr MetricDesc kSystemNetworkErrors =
    row::Standard(row::StrictCounter("system.network.errors", "{error}", "Errors of a network interface.",
                                     row::kKeys<"network.interface.name", "network.io.direction">));
inline constexpr MetricDesc kSystemNetworkConnectionCount =
    row::UpDown("system.network.connection.count", "{connection}", "Connections by state.",
                row::kKeys<"network.transport", "network.connection.state">);
inline constexpr MetricDesc kHostNetworkUp = row::Standard(
    row::Flag("host.network.up", "1 while the interface is up.", row::kKeys<"network.interface.name">));
inline constexpr MetricDesc kHostNetworkSpeed =
    row::Gauge("host.network.speed", "By/s", "Speed of a network interface.",
               row::kKeys<"network.interface.name">, &row::kNetworkSpeed);
inline constexpr MetricDesc kHostNetworkTcpRetransmits =
    row::StrictCounter("host.network.tcp.retransmits", "{segment}", "TCP segments sent again.");

inline constexpr MetricDesc kHostRdmaIo = row::Standard(
    row::StrictCounter("host.rdma.io", "By", "Bytes over an RDMA port.",
                       row::kKeys<"host.rdma.device", "host.rdma.port", "network.io.direction">));
inline constexpr MetricDesc kHostRdmaPackets =
    row::StrictCounter("host.rdma.packets", "{packet}", "Packets over an RDMA port.",
                       row::kKeys<"host.rdma.device", "host.rdma.port", "network.io.direction">);
inline constexpr MetricDesc kHostRdmaErrors = row::Standard(
    row::StrictCounter("host.rdma.errors", "{error}", "Errors and congestion marks of an RDMA port by type.",
                       row::kKeys<"host.rdma.device", "host.rdma.port", "host.rdma.error_type">));
inline constexpr MetricDesc kHostRdmaWait =
    row::StrictCounter("host.rdma.wait", "{tick}", "Ticks in which data waited for credits.",
                       row::kKeys<"host.rdma.device", "host.rdma.port">);
inline constexpr MetricDesc kHostRdmaPortActive =
    row::Standard(row::Flag("host.rdma.port.active", "1 while an RDMA port is active.",
                            row::kKeys<"host.rdma.device", "host.rdma.port">));
inline constexpr MetricDesc kHostRdmaPortSpeed =
    row::Gauge("host.rdma.port.speed", "By/s", "Speed of an RDMA port.",
               row::kKeys<"host.rdma.device", "host.rdma.port">);
inline constexpr MetricDesc kHostRdmaPortInfo =
    row::Info("host.rdma.port.info", "1 per RDMA port, with what is fixed about it.",
              row::kKeys<"host.rdma.device", "host.rdma.port", "host.rdma.link_layer",
                         "host.rdma.firmware.version", "host.rdma.guid", "gpu.numa_node">);

// All rows of this header, in the order in which people should read them.
inline constexpr const MetricDesc* kHostIoRows[] = {
    &kSystemDiskIo,
    &kSystemDiskOperations,
    &kSystemDiskIoTime,
    &kSystemDiskOperationTime,
    &kSystemDiskMerged,
    &kSystemDiskLimit,
    &kHostDiskPendingOperations,
    &kSystemFilesystemUsage,
    &kSystemFilesystemUtilization,
    &kSystemFilesystemLimit,
    &kHostFilesystemInodes,
    &kHostFilesystemUnreachable,
    &kSystemNetworkIo,
    &kSystemNetworkPacketCount,
    &kSystemNetworkPacketDropped,
    &kSystemNetworkErrors,
    &kSystemNetworkConnectionCount,
    &kHostNetworkUp,
    &kHostNetworkSpeed,
    &kHostNetworkTcpRetransmits,
    &kHostRdmaIo,
    &kHostRdmaPackets,
    &kHostRdmaErrors,
    &kHostRdmaWait,
    &kHostRdmaPortActive,
    &kHostRdmaPortSpeed,
    &kHostRdmaPortInfo,
};

}  // namespace gpulens
