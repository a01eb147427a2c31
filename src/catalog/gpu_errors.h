// What goes wrong on a GPU: memory errors by place, row replacement, XIDs, RAS, PCIe errors, throttled time.
#pragma once

#include "catalog/row.h"

namespace gpulens {

inline constexpr MetricDesc kGpuThrottleTime = row::Standard(
    row::StrictCounter("gpu.throttle.time", "s", "Time for which the clock was held down for this cause.",
                       row::kKeys<"gpu.throttle.cause">, &row::kThrottledTime));
inline constexpr MetricDesc kGpuThrottleShare = row::Gauge(
    "gpu.throttle.share", "1", "Share of the last period for which the clock was held down for this cause.",
    row::kKeys<"gpu.throttle.cause">, &row::kZeroToOne);
inline constexpr MetricDesc kGpuViolationTime = row::StrictCounter(
    "gpu.violation.time", "s", "Time for which a performance policy kept the GPU below the requested clock.",
    row::kKeys<"gpu.violation.policy">, &row::kThrottledTime);
inline constexpr MetricDesc kGpuPcieErrors =
    row::StrictCounter("gpu.pcie.errors", "{error}", "PCIe errors by type as the device counts them.",
                       row::kKeys<"gpu.pcie.error_type">);
inline constexpr MetricDesc kGpuPcieAerErrors =
    row::StrictCounter("gpu.pcie.aer.errors", "{error}",
                       "PCIe advanced error reports of the GPU's port as the kernel counts them.",
                       row::kKeys<"gpu.pcie.aer.severity">);
inline constexpr MetricDesc kGpuEccLocationErrors =
    row::StrictCounter("gpu.ecc.location.errors", "{error}", "Memory errors of an NVIDIA GPU by place.",
                       row::kKeys<"gpu.ecc.count_type", "gpu.ecc.error_type", "gpu.ecc.memory_block">);
inline constexpr MetricDesc kGpuEccSramErrors =
    row::StrictCounter("gpu.ecc.sram.errors", "{error}", "Uncorrectable SRAM errors by unit.",
                       row::kKeys<"gpu.ecc.count_type", "gpu.ecc.sram_source">);
inline constexpr MetricDesc kGpuEccSramThresholdExceeded = row::Flag(
    "gpu.ecc.sram.threshold_exceeded", "1 when SRAM errors are so many that the board should be replaced.");
inline constexpr MetricDesc kGpuRowRemapInactive =
    row::UpDown("gpu.row_remap.inactive", "{row}", "Row replacements that are recorded but not in force.",
                row::kKeys<"gpu.ecc.error_type">);
inline constexpr MetricDesc kGpuRowRemapBanks =
    row::UpDown("gpu.row_remap.banks", "{bank}", "Memory banks by how many spare rows they have left.",
                row::kKeys<"gpu.row_remap.availability">);
inline constexpr MetricDesc kGpuMemoryUnrepairable =
    row::Flag("gpu.memory.unrepairable", "1 when memory errors can no longer be repaired.");
inline constexpr MetricDesc kGpuXidCodeErrors =
    row::Counter("gpu.xid.code.errors", "{error}", "XID errors by code.", row::kKeys<"gpu.xid.code">);
inline constexpr MetricDesc kGpuXidLastErrorTimestamp =
    row::Gauge("gpu.xid.last_error.timestamp", "s", "When the last XID happened.");
inline constexpr MetricDesc kGpuRasErrors = row::Standard(
    row::Counter("gpu.ras.errors", "{error}", "RAS events of an AMD or Gaudi device from the kernel log.",
                 row::kKeys<"gpu.ras.severity">));
inline constexpr MetricDesc kGpuThrottleEvents =
    row::StrictCounter("gpu.throttle.events", "{event}", "Times the cause began, as far as sampling saw it.",
                       row::kKeys<"gpu.throttle.cause">);

// All rows of this header, in the order in which people should read them.
inline constexpr const MetricDesc* kGpuErrorsRows[] = {
    &kGpuThrottleTime,          &kGpuThrottleShare,
    &kGpuViolationTime,         &kGpuPcieErrors,
    &kGpuPcieAerErrors,         &kGpuEccLocationErrors,
    &kGpuEccSramErrors,         &kGpuEccSramThresholdExceeded,
    &kGpuRowRemapInactive,      &kGpuRowRemapBanks,
    &kGpuMemoryUnrepairable,    &kGpuXidCodeErrors,
    &kGpuXidLastErrorTimestamp, &kGpuRasErrors,
    &kGpuThrottleEvents,
};

}  // namespace gpulens
