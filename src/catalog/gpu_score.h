// How a GPU fares: what the fleet health analyzer concludes.
#pragma once

#include "catalog/row.h"

namespace gpulens {

inline constexpr MetricDesc kGpuXidLastErrorCode = row::Standard(
    row::Gauge("gpu.xid.last_error_code", "{code}", "Code of the last XID.", {}, &row::kXidCode));
inline constexpr MetricDesc kGpuXidRecent =
    row::UpDown("gpu.xid.recent", "{error}",
                "XID errors of the last hours that were not cleared, by the action they need; \"none\" "
                "exists from the start.",
                row::kKeys<"gpu.xid.action">);
inline constexpr MetricDesc kGpuXidErrorRate =
    row::Gauge("gpu.xid.error_rate", "{error}/h", "XID errors per hour over the window.");
inline constexpr MetricDesc kGpuEccSbeRate =
    row::Gauge("gpu.ecc.sbe_rate", "{error}/h", "Corrected memory errors per hour over the window.");
inline constexpr MetricDesc kGpuEccDbeTotal = row::Essential(row::StrictCounter(
    "gpu.ecc.dbe_total", "{error}", "Uncorrected memory errors since the driver was loaded."));
inline constexpr MetricDesc kGpuRowRemapAvailable =
    row::Gauge("gpu.row_remap.available", "{bank}", "Memory banks that still have a spare row.");
inline constexpr MetricDesc kGpuPcieLinkDowntraining = row::Standard(
    row::Flag("gpu.pcie.link.downtraining", "1 while the PCIe link is slower than it should be."));
inline constexpr MetricDesc kGpuThermalRampRate =
    row::Gauge("gpu.thermal.ramp_rate", "Cel/min", "Heating rate over the window.", {}, &row::kRampRate);
inline constexpr MetricDesc kGpuHealthScore = row::Essential(
    row::Gauge("gpu.health.score", "1", "Health of the GPU: 1 is healthy.", {}, &row::kZeroToOne));
inline constexpr MetricDesc kGpuHealthConfidence = row::Standard(row::Gauge(
    "gpu.health.confidence", "1", "Share of the health inputs that are live.", {}, &row::kZeroToOne));
inline constexpr MetricDesc kGpuHealthPenalty =
    row::Gauge("gpu.health.penalty", "1", "How much this reason takes off the health score.",
               row::kKeys<"gpu.health.reason">, &row::kZeroToOne);
inline constexpr MetricDesc kGpuHealthCondition = row::Standard(
    row::Flag("gpu.health.condition",
              "1 while the GPU has this condition; the series exists from its first occurrence.",
              row::kKeys<"gpu.health.reason">));
inline constexpr MetricDesc kGpuHealthState = row::Essential(row::StateSet(
    "gpu.health.state", "Health of the GPU as one of four words.", row::kKeys<"gpu.health.state">));
inline constexpr MetricDesc kGpuHealthWindow =
    row::Gauge("gpu.health.window", "s", "Length of the sliding window.");

// All rows of this header, in the order in which people should read them.
inline constexpr const MetricDesc* kGpuScoreRows[] = {
    &kGpuXidRecent,       &kGpuHealthCondition, &kGpuXidLastErrorCode,  &kGpuXidErrorRate,
    &kGpuEccSbeRate,      &kGpuEccDbeTotal,     &kGpuRowRemapAvailable, &kGpuPcieLinkDowntraining,
    &kGpuThermalRampRate, &kGpuHealthScore,     &kGpuHealthConfidence,  &kGpuHealthPenalty,
    &kGpuHealthState,     &kGpuHealthWindow,
};

}  // namespace gpulens
