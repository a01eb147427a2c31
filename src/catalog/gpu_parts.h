// What a GPU is divided into: MIG instances, vGPUs, processes and sessions.
#pragma once

#include "catalog/row.h"

namespace gpulens {

inline constexpr MetricDesc kGpuPartitionInfo =
    row::Standard(row::Info("gpu.partition.info", "1, with the partition mode of an AMD GPU.",
                            row::kKeys<"gpu.partition.id", "gpu.partition.compute", "gpu.partition.memory">));
inline constexpr MetricDesc kGpuEncoderSessions =
    row::UpDown("gpu.encoder.sessions", "{session}", "Video encoder sessions open.");
inline constexpr MetricDesc kGpuEncoderFrameRate =
    row::Gauge("gpu.encoder.frame_rate", "{frame}/s", "Mean frames per second over encoder sessions.");
inline constexpr MetricDesc kGpuEncoderLatency =
    row::Gauge("gpu.encoder.latency", "s", "Mean encoding time of a frame.");
inline constexpr MetricDesc kGpuEncoderCapacity =
    row::Gauge("gpu.encoder.capacity", "1", "Encoder capacity left for this codec.", row::kKeys<"gpu.codec">,
               &row::kZeroToOne);
inline constexpr MetricDesc kGpuFbcSessions =
    row::UpDown("gpu.fbc.sessions", "{session}", "Frame buffer capture sessions open.");
inline constexpr MetricDesc kGpuVgpuInstances =
    row::UpDown("gpu.vgpu.instances", "{vgpu}", "vGPUs active on the GPU.");
inline constexpr MetricDesc kGpuVgpuInfo = row::Standard(row::Info(
    "gpu.vgpu.info", "1 per vGPU, with what identifies it.",
    row::kKeys<"gpu.vgpu.id", "gpu.vgpu.uuid", "gpu.vgpu.type", "gpu.vgpu.vm", "gpu.vgpu.driver.version">));
inline constexpr MetricDesc kGpuVgpuMemoryUsed = row::Standard(
    row::UpDown("gpu.vgpu.memory.used", "By", "Device memory used by a vGPU.", row::kKeys<"gpu.vgpu.id">));
inline constexpr MetricDesc kGpuVgpuUtilization =
    row::Standard(row::Gauge("gpu.vgpu.utilization", "1", "Share of the GPU used by a vGPU.",
                             row::kKeys<"gpu.vgpu.id", "gpu.task.type">, &row::kZeroToOne));
inline constexpr MetricDesc kGpuVgpuLicensed =
    row::Flag("gpu.vgpu.licensed", "1 when the vGPU licence is valid.");
inline constexpr MetricDesc kGpuMigInstances = row::UpDown(
    "gpu.mig.instances", "{instance}", "MIG instances that exist.", row::kKeys<"gpu.mig.instance_type">);
inline constexpr MetricDesc kGpuMigInstancesMax =
    row::Gauge("gpu.mig.instances.max", "{instance}", "Most MIG devices that the GPU can hold.");
inline constexpr MetricDesc kGpuMigInfo =
    row::Standard(row::Info("gpu.mig.info", "1 per MIG device, with its profile and UUID.",
                            row::kKeys<"gpu.mig.instance_id", "gpu.mig.compute_instance_id",
                                       "gpu.mig.profile", "gpu.mig.uuid", "gpu.mig.slices">));
inline constexpr MetricDesc kGpuMigMemoryTotal = row::Standard(
    row::UpDown("gpu.mig.memory.total", "By", "Memory of a MIG instance.",
                row::kKeys<"gpu.mig.instance_id", "gpu.mig.compute_instance_id">, &row::kPositive));
inline constexpr MetricDesc kGpuMigMemoryUsed =
    row::Standard(row::UpDown("gpu.mig.memory.used", "By", "Memory of a MIG instance in use.",
                              row::kKeys<"gpu.mig.instance_id", "gpu.mig.compute_instance_id">));
inline constexpr MetricDesc kGpuMigMemoryFree =
    row::UpDown("gpu.mig.memory.free", "By", "Memory of a MIG instance free to allocate.",
                row::kKeys<"gpu.mig.instance_id", "gpu.mig.compute_instance_id">);
inline constexpr MetricDesc kGpuMigMemoryReserved =
    row::UpDown("gpu.mig.memory.reserved", "By", "Memory of a MIG instance held back by the driver.",
                row::kKeys<"gpu.mig.instance_id", "gpu.mig.compute_instance_id">);
inline constexpr MetricDesc kGpuMigBar1Used =
    row::UpDown("gpu.mig.bar1.used", "By", "BAR1 window of a MIG instance in use.",
                row::kKeys<"gpu.mig.instance_id", "gpu.mig.compute_instance_id">);
inline constexpr MetricDesc kGpuProcessMemoryGtt =
    row::UpDown("gpu.process.memory.gtt", "By", "Host memory that a process has mapped into an AMD GPU.",
                row::kKeys<"process.pid", "process.executable.name", "process.owner">);
inline constexpr MetricDesc kGpuProcessUtilization = row::Gauge(
    "gpu.process.utilization", "1", "Share of the GPU used by a process.",
    row::kKeys<"process.pid", "process.executable.name", "process.owner", "gpu.task.type">, &row::kZeroToOne);
inline constexpr MetricDesc kGpuProcessEngineTime = row::StrictCounter(
    "gpu.process.engine.time", "s", "Engine time used by a process.",
    row::kKeys<"process.pid", "process.executable.name", "process.owner", "gpu.engine.type">);
inline constexpr MetricDesc kGpuProcessCuOccupancy =
    row::Gauge("gpu.process.cu.occupancy", "1", "Share of the compute units held by a process.",
               row::kKeys<"process.pid", "process.executable.name", "process.owner">, &row::kZeroToOne);

// All rows of this header, in the order in which people should read them.
inline constexpr const MetricDesc* kGpuPartsRows[] = {
    &kGpuPartitionInfo,      &kGpuEncoderSessions,   &kGpuEncoderFrameRate,   &kGpuEncoderLatency,
    &kGpuEncoderCapacity,    &kGpuFbcSessions,       &kGpuVgpuInstances,      &kGpuVgpuInfo,
    &kGpuVgpuMemoryUsed,     &kGpuVgpuUtilization,   &kGpuVgpuLicensed,       &kGpuMigInstances,
    &kGpuMigInstancesMax,    &kGpuMigInfo,           &kGpuMigMemoryTotal,     &kGpuMigMemoryUsed,
    &kGpuMigMemoryFree,      &kGpuMigMemoryReserved, &kGpuMigBar1Used,        &kGpuProcessMemoryGtt,
    &kGpuProcessUtilization, &kGpuProcessEngineTime, &kGpuProcessCuOccupancy,
};

}  // namespace gpulens
