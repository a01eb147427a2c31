// What a GPU is and belongs to: modes, fabric, topology, confidential computing, firmware.
#pragma once

#include "catalog/row.h"

namespace gpulens {

inline constexpr MetricDesc kGpuDevicesExpected = row::Essential(row::UpDown(
    "gpu.devices.expected", "{gpu}", "GPUs that the host should have.", row::kKeys<"gpu.vendor">));
inline constexpr MetricDesc kGpuRecoveryAction = row::Essential(row::StateSet(
    "gpu.recovery.action", "What the driver asks the operator to do.", row::kKeys<"gpu.recovery.action">));
inline constexpr MetricDesc kGpuComputeMode =
    row::StateSet("gpu.compute_mode", "Who may open compute contexts.", row::kKeys<"gpu.compute_mode">);
inline constexpr MetricDesc kGpuDisplayActive =
    row::Flag("gpu.display.active", "1 when a display is initialised on the GPU.");
inline constexpr MetricDesc kGpuInforomValid =
    row::Flag("gpu.inforom.valid", "1 when the board's InfoROM checksums agree.");
inline constexpr MetricDesc kGpuTopologyLink =
    row::Info("gpu.topology.link", "1 per pair of GPUs, with the closest path between them.",
              row::kKeys<"gpu.peer.uuid", "gpu.topology.level">);
inline constexpr MetricDesc kGpuTopologyAffinity =
    row::Info("gpu.topology.affinity", "1, with the CPUs and NUMA nodes near the GPU as lists.",
              row::kKeys<"gpu.cpu.affinity", "gpu.memory.affinity">);
inline constexpr MetricDesc kGpuConfidentialComputeEnabled =
    row::Flag("gpu.confidential_compute.enabled", "1 when confidential computing is on.");
inline constexpr MetricDesc kGpuConfidentialComputeReady =
    row::Flag("gpu.confidential_compute.ready", "1 when GPUs accept confidential work.");
inline constexpr MetricDesc kGpuConfidentialComputeDevMode =
    row::Flag("gpu.confidential_compute.dev_mode", "1 when developer tools weaken the protection.");
inline constexpr MetricDesc kGpuConfidentialComputeMemory =
    row::UpDown("gpu.confidential_compute.memory", "By", "Device memory by protection.",
                row::kKeys<"gpu.memory.protection">);
inline constexpr MetricDesc kGpuFabricState = row::Standard(row::StateSet(
    "gpu.fabric.state", "Registration of the GPU with the NVLink fabric.", row::kKeys<"gpu.fabric.state">));
inline constexpr MetricDesc kGpuFabricStatus =
    row::Gauge("gpu.fabric.status", "{code}", "Result code of the last fabric registration.");
inline constexpr MetricDesc kGpuFabricDegraded = row::Flag(
    "gpu.fabric.degraded", "1 while the fabric reports this condition.", row::kKeys<"gpu.fabric.condition">);
inline constexpr MetricDesc kGpuFabricInfo =
    row::Info("gpu.fabric.info", "1, with the NVLink domain and clique of the GPU.",
              row::kKeys<"gpu.fabric.clique_id", "gpu.fabric.cluster_uuid">);
inline constexpr MetricDesc kGpuPlatformInfo =
    row::Info("gpu.platform.info", "1, with the place of the GPU in its rack.",
              row::kKeys<"gpu.platform.chassis_serial", "gpu.platform.slot", "gpu.platform.tray",
                         "gpu.platform.host", "gpu.platform.module">);
inline constexpr MetricDesc kGpuFirmwareInfo =
    row::Info("gpu.firmware.info", "1 per firmware of the GPU, with its version.",
              row::kKeys<"gpu.firmware.block", "gpu.firmware.version">);
inline constexpr MetricDesc kGpuVirtualizationMode = row::StateSet(
    "gpu.virtualization.mode", "How the GPU is virtualised.", row::kKeys<"gpu.virtualization.mode">);

// All rows of this header, in the order in which people should read them.
inline constexpr const MetricDesc* kGpuIdentityRows[] = {
    &kGpuDevicesExpected,
    &kGpuRecoveryAction,
    &kGpuComputeMode,
    &kGpuDisplayActive,
    &kGpuInforomValid,
    &kGpuTopologyLink,
    &kGpuTopologyAffinity,
    &kGpuConfidentialComputeEnabled,
    &kGpuConfidentialComputeReady,
    &kGpuConfidentialComputeDevMode,
    &kGpuConfidentialComputeMemory,
    &kGpuFabricState,
    &kGpuFabricStatus,
    &kGpuFabricDegraded,
    &kGpuFabricInfo,
    &kGpuPlatformInfo,
    &kGpuFirmwareInfo,
    &kGpuVirtualizationMode,
};

}  // namespace gpulens
