// The names of the zernel telemetry API: GPU memory of processes, quantiles of what they wait for, and
// phases. A family without a source has HELP and TYPE only. Label order and help texts are part of that
// contract.
#pragma once

#include "catalog/gpu.h"
#include "catalog/phases.h"
#include "names/naming.h"

namespace gpulens {

// With the labels of MIG instances, as a process may use several of a GPU.
inline constexpr NamingLabel kZernelGpuMemoryLabels[] = {
    {"pid", "process.pid"},
    {"gpu_id", "gpu.index"},
    {"gpu_instance_id", "gpu.mig.instance_id"},
    {"compute_instance_id", "gpu.mig.compute_instance_id"},
    {"simulated", "simulated"}};

inline constexpr NamingLabel kZernelPidLabels[] = {{"pid", "process.pid"}, {"simulated", "simulated"}};
inline constexpr NamingLabel kZernelOperationLabels[] = {{"op", "nccl.collective.type"}};
inline constexpr NamingLabel kZernelTypeLabels[] = {{"type", "task.type"}};
inline constexpr NamingLabel kZernelPhaseLabels[] = {{"phase", "process.phase"}};

inline constexpr NamingRow kZernelRows[] = {
    {.native = &kGpuProcessMemoryUsed,
     .name = "zernel_gpu_memory_used_bytes",
     .unit = "bytes",
     .help = "Current GPU memory usage",
     .labels = kZernelGpuMemoryLabels},
    {.native = &kGpuProcessMemoryPeak,
     .name = "zernel_gpu_memory_peak_bytes",
     .unit = "bytes",
     .help = "Peak GPU memory usage",
     .labels = kZernelGpuMemoryLabels},
    {.native = &kRecentLaunches,
     .name = "zernel_cuda_launch_latency_seconds",
     .unit = "seconds",
     .help = "CUDA kernel launch latency",
     .kind = Kind::kSummary,
     .labels = kZernelPidLabels},
    {.native = &kRecentCollectives,
     .name = "zernel_nccl_collective_duration_seconds",
     .unit = "seconds",
     .help = "NCCL collective duration",
     .kind = Kind::kSummary,
     .labels = kZernelOperationLabels},
    {.native = &kRecentDataWaits,
     .name = "zernel_dataloader_wait_seconds",
     .unit = "seconds",
     .help = "DataLoader wait time",
     .kind = Kind::kSummary,
     .labels = kZernelPidLabels},
    {.native = &kProcessPhasesTracked,
     .name = "zernel_scheduler_tasks",
     .unit = "",
     .help = "Total tracked tasks",
     .labels = kZernelTypeLabels},
    {.native = &kProcessPhasesDecisions,
     .name = "zernel_scheduler_decisions_total",
     .unit = "",
     .help = "Total scheduling decisions",
     .kind = Kind::kCounter},
    {.native = &kProcessPhasesTransitions,
     .name = "zernel_scheduler_phase_transitions_total",
     .unit = "",
     .help = "Phase transition count",
     .kind = Kind::kCounter},
    {.native = &kProcessPhasesCurrent,
     .name = "zernel_scheduler_phase_tasks",
     .unit = "",
     .help = "Current tasks per phase",
     .labels = kZernelPhaseLabels},
    {.native = &kProcessPhasesShare,
     .name = "zernel_scheduler_phase_time_pct",
     .unit = "",
     .help = "Aggregate phase time percentage",
     .scale = 100,
     .labels = kZernelPhaseLabels},
};

inline constexpr NamingFamily kZernelFamilies[] = {
    {"zernel_gpu_memory_used_bytes", "Current GPU memory usage", Kind::kGauge},
    {"zernel_gpu_memory_peak_bytes", "Peak GPU memory usage", Kind::kGauge},
    {"zernel_cuda_launch_latency_seconds", "CUDA kernel launch latency", Kind::kSummary},
    {"zernel_nccl_collective_duration_seconds", "NCCL collective duration", Kind::kSummary},
    {"zernel_dataloader_wait_seconds", "DataLoader wait time", Kind::kSummary},
    {"zernel_scheduler_tasks", "Total tracked tasks", Kind::kGauge},
    {"zernel_scheduler_decisions_total", "Total scheduling decisions", Kind::kCounter},
    {"zernel_scheduler_phase_transitions_total", "Phase transition count", Kind::kCounter},
    {"zernel_scheduler_phase_tasks", "Current tasks per phase", Kind::kGauge},
    {"zernel_scheduler_phase_time_pct", "Aggregate phase time percentage", Kind::kGauge},
};

inline constexpr MetricNaming kZernel{"zernel", "the zernel telemetry API", kZernelRows, kZernelFamilies};

}  // namespace gpulens
