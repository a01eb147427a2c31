// What a GPU is and how it fares: identity, state, throttling, memory errors, XIDs, and its processes.
#pragma once

#include "catalog/row.h"

namespace gpulens {

inline constexpr MetricDesc kGpuInfo = row::Essential(row::Info(
    "gpu.info", "1, with what is fixed about a GPU as attributes.",
    row::kKeys<"gpu.vendor", "gpu.architecture", "gpu.pci.bus_id", "gpu.minor", "gpu.numa_node",
               "gpu.vbios.version", "gpu.inforom.version", "gpu.compute_capability", "gpu.serial">));
inline constexpr MetricDesc kGpuDriverInfo = row::Essential(row::Info(
    "gpu.driver.info", "1, with driver and library versions as attributes; one per host and vendor.",
    row::kKeys<"gpu.vendor", "gpu.driver.version", "gpu.library.version", "gpu.runtime.version">));
inline constexpr MetricDesc kGpuDriverMismatch = row::Essential(row::Flag(
    "gpu.driver.mismatch",
    "1 when the vendor's library on disk is of another version than the loaded driver: programs that "
    "start now cannot use the GPUs.",
    row::kKeys<"gpu.vendor">));
inline constexpr MetricDesc kGpuDevices = row::Essential(
    row::UpDown("gpu.devices", "{gpu}", "GPUs of the host that answer.", row::kKeys<"gpu.vendor">));
inline constexpr MetricDesc kGpuState =
    row::Essential(row::StateSet("gpu.state", "Whether the GPU answers.", row::kKeys<"gpu.state">));
inline constexpr MetricDesc kGpuSampleAge = row::Essential(row::Gauge(
    "gpu.sample.age", "s", "Age of the newest complete reading of this GPU when the page was made."));
inline constexpr MetricDesc kGpuPersistenceEnabled =
    row::Flag("gpu.persistence.enabled", "1 when the driver stays loaded without clients.");
inline constexpr MetricDesc kGpuMigMode =
    row::Flag("gpu.mig.mode", "1 when the GPU is split into MIG instances, now or after the next reset.",
              row::kKeys<"gpu.mig.mode_type">);

inline constexpr MetricDesc kGpuThrottleReason =
    row::Flag("gpu.throttle.reason", "1 while the clock is held down for this cause.",
              row::kKeys<"gpu.throttle.cause">);
inline constexpr MetricDesc kGpuThrottleMask =
    row::Standard(row::Gauge("gpu.throttle.mask", "{mask}", "Clock event reasons as the driver's bit mask."));

inline constexpr MetricDesc kGpuEccMode = row::Flag(
    "gpu.ecc.mode", "1 when ECC is on, now or after the next reset.", row::kKeys<"gpu.ecc.mode_type">);
inline constexpr MetricDesc kGpuEccErrors = row::Standard(row::StrictCounter(
    "gpu.ecc.errors", "{error}", "Memory errors of the GPU: NVIDIA as one sum, AMD by block.",
    row::kKeys<"gpu.ecc.count_type", "gpu.ecc.error_type", "gpu.ecc.memory_block">));
inline constexpr MetricDesc kGpuRetiredPages = row::Standard(row::UpDown(
    "gpu.retired_pages", "{page}", "Memory pages taken out of use.", row::kKeys<"gpu.ecc.error_type">));
inline constexpr MetricDesc kGpuRetiredPagesPending =
    row::Essential(row::Flag("gpu.retired_pages.pending", "1 when pages wait for a reboot to be retired."));
inline constexpr MetricDesc kGpuRowRemapCount =
    row::Standard(row::UpDown("gpu.row_remap.count", "{row}", "Memory rows replaced.",
                              row::kKeys<"gpu.ecc.error_type", "gpu.row_remap.state">));
inline constexpr MetricDesc kGpuRowRemapPending = row::Standard(row::Gauge(
    "gpu.row_remap.pending", "{row}", "Memory rows of a Gaudi card that wait for a reset to be replaced.",
    row::kKeys<"gpu.row_remap.state">));
inline constexpr MetricDesc kGpuRowRemapFailed =
    row::Essential(row::Flag("gpu.row_remap.failed", "1 when a row could not be replaced."));
inline constexpr MetricDesc kGpuRowRemapResetPending = row::Essential(
    row::Flag("gpu.row_remap.reset_pending", "1 when a row replacement waits for a GPU reset."));

inline constexpr MetricDesc kGpuXidErrors = row::Essential(
    row::Counter("gpu.xid.errors", "{error}", "XID errors of the GPU since the agent first saw it."));
inline constexpr MetricDesc kGpuPcieReplayCount =
    row::Standard(row::StrictCounter("gpu.pcie.replay.count", "{event}", "PCIe replays."));

inline constexpr MetricDesc kGpuProcesses =
    row::UpDown("gpu.processes", "{process}", "Processes that hold a context on the GPU.",
                row::kKeys<"gpu.process.type">);
inline constexpr MetricDesc kGpuProcessMemoryUsed = row::Standard(
    row::UpDown("gpu.process.memory.used", "By", "Device memory used by a process.",
                row::kKeys<"process.pid", "process.executable.name", "process.owner", "gpu.process.type">,
                &row::kUsedMemory));
inline constexpr MetricDesc kGpuProcessMemoryPeak = row::Gauge(
    "gpu.process.memory.peak", "By", "Most device memory a process has used since it was first seen.",
    row::kKeys<"process.pid", "process.executable.name", "process.owner">);

// All rows of this header, in the order in which people should read them.
inline constexpr const MetricDesc* kGpuHealthRows[] = {
    &kGpuInfo,
    &kGpuDriverInfo,
    &kGpuDriverMismatch,
    &kGpuDevices,
    &kGpuState,
    &kGpuSampleAge,
    &kGpuPersistenceEnabled,
    &kGpuMigMode,
    &kGpuThrottleReason,
    &kGpuThrottleMask,
    &kGpuEccMode,
    &kGpuEccErrors,
    &kGpuRetiredPages,
    &kGpuRetiredPagesPending,
    &kGpuRowRemapCount,
    &kGpuRowRemapPending,
    &kGpuRowRemapFailed,
    &kGpuRowRemapResetPending,
    &kGpuXidErrors,
    &kGpuPcieReplayCount,
    &kGpuProcesses,
    &kGpuProcessMemoryUsed,
    &kGpuProcessMemoryPeak,
};

}  // namespace gpulens
