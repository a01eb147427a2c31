// The names of the zernel telemetry API: GPU memory of processes; its other families have HELP and TYPE only.
// Label order and help texts are part of that contract.
#pragma once

#include "catalog/gpu.h"
#include "names/naming.h"

namespace gpulens {

// With the labels of MIG instances, as a process may use several of a GPU.
inline constexpr NamingLabel kZernelGpuMemoryLabels[] = {
    {"pid", "process.pid"},
    {"gpu_id", "gpu.index"},
    {"gpu_instance_id", "gpu.mig.instance_id"},
    {"compute_instance_id", "gpu.mig.compute_instance_id"},
    {"simulated", "simulated"}};

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
