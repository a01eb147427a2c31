// What the parts of a GPU are doing: engines, pipes and caches, and the driver's own samples.
#pragma once

#include "catalog/row.h"

namespace gpulens {

inline constexpr MetricDesc kGpuJpegUtilization =
    row::Gauge("gpu.jpeg.utilization", "1", "Share of time the JPEG engines were busy.",
               row::kKeys<"gpu.task.type">, &row::kZeroToOne);
inline constexpr MetricDesc kGpuOfaUtilization =
    row::Gauge("gpu.ofa.utilization", "1", "Share of time the optical flow accelerator was busy.",
               row::kKeys<"gpu.task.type">, &row::kZeroToOne);
inline constexpr MetricDesc kGpuMultimediaUtilization = row::Gauge(
    "gpu.multimedia.utilization", "1", "Share of time the multimedia engines were busy, all together.",
    row::kKeys<"gpu.task.type">, &row::kZeroToOne);
inline constexpr MetricDesc kGpuEngineUtilization =
    row::Gauge("gpu.engine.utilization", "1", "Share of time one engine instance was busy.",
               row::kKeys<"gpu.engine.type", "gpu.engine.index">, &row::kZeroToOne);
inline constexpr MetricDesc kGpuSampledUtilization = row::Gauge(
    "gpu.sampled.utilization", "1", "Least, mean and greatest driver sample since the previous run.",
    row::kKeys<"gpu.sampled.stat", "gpu.task.type">, &row::kZeroToOne);
inline constexpr MetricDesc kGpuCacheHit =
    row::Gauge("gpu.cache.hit", "1", "Share of L2 lookups for that memory that hit.",
               row::kKeys<"gpu.cache.type">, &row::kZeroToOne);
inline constexpr MetricDesc kGpuSampledPower =
    row::Gauge("gpu.sampled.power", "W", "Least, mean and greatest power sample since the previous run.",
               row::kKeys<"gpu.sampled.stat">);
inline constexpr MetricDesc kGpuSampledClockFrequency = row::Gauge(
    "gpu.sampled.clock.frequency", "MHz", "Least, mean and greatest clock sample since the previous run.",
    row::kKeys<"gpu.sampled.stat", "gpu.clock.type">);
inline constexpr MetricDesc kGpuGrEngineActive = row::Standard(
    row::Gauge("gpu.gr_engine.active", "1", "Share of time the graphics or compute engine was active.", {},
               &row::kZeroToOne));
inline constexpr MetricDesc kGpuSmActive = row::Essential(row::Gauge(
    "gpu.sm.active", "1", "Share of cycles in which an SM had a warp, mean over SMs.", {}, &row::kZeroToOne));
inline constexpr MetricDesc kGpuSmOccupancy = row::Standard(row::Gauge(
    "gpu.sm.occupancy", "1", "Resident warps as a share of what fits, mean over SMs.", {}, &row::kZeroToOne));
inline constexpr MetricDesc kGpuDramActive = row::Essential(row::Gauge(
    "gpu.dram.active", "1", "Share of cycles in which device memory moved data.", {}, &row::kZeroToOne));
inline constexpr MetricDesc kGpuPipeTensorActive =
    row::Essential(row::Gauge("gpu.pipe.tensor.active", "1",
                              "Share of cycles in which a tensor pipe was active.", {}, &row::kZeroToOne));
inline constexpr MetricDesc kGpuPipeFp64Active = row::Gauge(
    "gpu.pipe.fp64.active", "1", "Share of cycles in which the FP64 pipe was active.", {}, &row::kZeroToOne);
inline constexpr MetricDesc kGpuPipeFp32Active = row::Gauge(
    "gpu.pipe.fp32.active", "1", "Share of cycles in which the FP32 pipe was active.", {}, &row::kZeroToOne);
inline constexpr MetricDesc kGpuPipeFp16Active = row::Gauge(
    "gpu.pipe.fp16.active", "1",
    "Share of cycles in which the FP16 pipe was active, tensor work not counted.", {}, &row::kZeroToOne);
inline constexpr MetricDesc kGpuPipeIntActive =
    row::Gauge("gpu.pipe.int.active", "1", "Share of cycles in which the integer pipe was active.", {},
               &row::kZeroToOne);
inline constexpr MetricDesc kGpuPipeTensorHmmaActive =
    row::Gauge("gpu.pipe.tensor.hmma.active", "1", "Share of cycles of half-precision tensor work.", {},
               &row::kZeroToOne);
inline constexpr MetricDesc kGpuPipeTensorImmaActive = row::Gauge(
    "gpu.pipe.tensor.imma.active", "1", "Share of cycles of integer tensor work.", {}, &row::kZeroToOne);
inline constexpr MetricDesc kGpuPipeTensorDfmaActive =
    row::Gauge("gpu.pipe.tensor.dfma.active", "1", "Share of cycles of double-precision FMA tensor work.", {},
               &row::kZeroToOne);
inline constexpr MetricDesc kGpuPipeTensorDmmaActive =
    row::Gauge("gpu.pipe.tensor.dmma.active", "1", "Share of cycles of double-precision MMA tensor work.", {},
               &row::kZeroToOne);
inline constexpr MetricDesc kGpuCyclesElapsed =
    row::StrictCounter("gpu.cycles.elapsed", "{cycle}", "SM cycles elapsed.");
inline constexpr MetricDesc kGpuCyclesActive = row::StrictCounter(
    "gpu.cycles.active", "{cycle}", "SM cycles in which the unit was active.", row::kKeys<"gpu.cycles.unit">);
inline constexpr MetricDesc kNvidiaMmaStall = row::Gauge(
    "nvidia.mma.stall", "1", "Share of cycles in which tensor pipes stalled.", {}, &row::kZeroToOne);
inline constexpr MetricDesc kNvidiaEdppMultiplier =
    row::Gauge("nvidia.edpp.multiplier", "1", "Peak-power multiplier in force.", {}, &row::kZeroToOne);
inline constexpr MetricDesc kNvidiaPowerSmoothingEnabled =
    row::Flag("nvidia.power_smoothing.enabled", "1 when power smoothing is on.");
inline constexpr MetricDesc kNvidiaMclkSwitchInterval =
    row::Gauge("nvidia.mclk_switch.interval", "s", "Shortest time between memory clock switches.");

// All rows of this header, in the order in which people should read them.
inline constexpr const MetricDesc* kGpuEnginesRows[] = {
    &kGpuJpegUtilization,       &kGpuOfaUtilization,
    &kGpuMultimediaUtilization, &kGpuEngineUtilization,
    &kGpuSampledUtilization,    &kGpuCacheHit,
    &kGpuSampledPower,          &kGpuSampledClockFrequency,
    &kGpuGrEngineActive,        &kGpuSmActive,
    &kGpuSmOccupancy,           &kGpuDramActive,
    &kGpuPipeTensorActive,      &kGpuPipeFp64Active,
    &kGpuPipeFp32Active,        &kGpuPipeFp16Active,
    &kGpuPipeIntActive,         &kGpuPipeTensorHmmaActive,
    &kGpuPipeTensorImmaActive,  &kGpuPipeTensorDfmaActive,
    &kGpuPipeTensorDmmaActive,  &kGpuCyclesElapsed,
    &kGpuCyclesActive,          &kNvidiaMmaStall,
    &kNvidiaEdppMultiplier,     &kNvidiaPowerSmoothingEnabled,
    &kNvidiaMclkSwitchInterval,
};

}  // namespace gpulens
