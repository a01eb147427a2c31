// What a GPU is doing: load, memory, power, heat, clocks and traffic, and the host's view over its GPUs.
#pragma once

#include "catalog/row.h"

namespace gpulens {

inline constexpr MetricDesc kGpuUtilization = row::Essential(
    row::Gauge("gpu.utilization", "1", "Share of the last sample period in which at least one kernel ran.",
               row::kKeys<"gpu.task.type">, &row::kUtilization));
inline constexpr MetricDesc kGpuMemoryUtilization =
    row::Gauge("gpu.memory.utilization", "1",
               "Share of the last sample period in which device memory was being read or written.",
               row::kKeys<"gpu.task.type">, &row::kUtilization);
inline constexpr MetricDesc kGpuEncodeUtilization =
    row::Standard(row::Gauge("gpu.encode.utilization", "1", "Share of time the video encoder was busy.",
                             row::kKeys<"gpu.task.type">, &row::kZeroToOne));
inline constexpr MetricDesc kGpuDecodeUtilization =
    row::Standard(row::Gauge("gpu.decode.utilization", "1", "Share of time the video decoder was busy.",
                             row::kKeys<"gpu.task.type">, &row::kZeroToOne));
inline constexpr MetricDesc kGpuPowerUtilization = row::Standard(row::Gauge(
    "gpu.power.utilization", "1", "Power drawn as a share of the enforced limit.", {}, &row::kPowerShare));

inline constexpr MetricDesc kGpuMemoryTotal =
    row::Essential(row::UpDown("gpu.memory.total", "By", "Size of device memory.", {}, &row::kPositive));
inline constexpr MetricDesc kGpuMemoryUsed = row::Essential(
    row::UpDown("gpu.memory.used", "By", "Device memory allocated, without what the driver reserves.", {},
                &row::kUsedMemory));
inline constexpr MetricDesc kGpuMemoryFree =
    row::Standard(row::UpDown("gpu.memory.free", "By", "Device memory free to allocate."));
inline constexpr MetricDesc kGpuMemoryReserved =
    row::UpDown("gpu.memory.reserved", "By", "Device memory held back by driver and firmware.");
inline constexpr MetricDesc kGpuMemoryUsedPercent = row::Real(row::Gauge(
    "gpu.memory.used.percent", "{percent}", "Share of device memory in use, 0 to 100.", {}, &row::kPercent));
inline constexpr MetricDesc kGpuMemoryUnifiedUsed = row::Standard(
    row::UpDown("gpu.memory.unified.used", "By", "Memory of a pool shared by CPU and GPU that is in use."));
inline constexpr MetricDesc kGpuMemoryUnifiedTotal = row::Standard(row::UpDown(
    "gpu.memory.unified.total", "By", "Size of a memory pool shared by CPU and GPU.", {}, &row::kPositive));

inline constexpr MetricDesc kGpuPowerDraw = row::Essential(
    row::Gauge("gpu.power.draw", "W",
               "Power drawn by the board as the driver reports it first: a mean over 1 s on Ampere and "
               "later, else instant.",
               {}, &row::kPower));
inline constexpr MetricDesc kGpuPowerInstant = row::Gauge(
    "gpu.power.instant", "W", "Power drawn by the board at the moment of reading.", {}, &row::kPower);
inline constexpr MetricDesc kGpuPowerLimit =
    row::Gauge("gpu.power.limit", "W", "Power limit of the given type.", row::kKeys<"gpu.power.limit_type">,
               &row::kPositive);
inline constexpr MetricDesc kGpuEnergyConsumption = row::Essential(
    row::StrictCounter("gpu.energy.consumption", "J",
                       "Energy used by the board since the driver was loaded, from the board's own counter.",
                       {}, &row::kBoardEnergy));
inline constexpr MetricDesc kGpuTemperature =
    row::Essential(row::Gauge("gpu.temperature", "Cel", "Temperature at a sensor.",
                              row::kKeys<"gpu.temperature.sensor">, &row::kDieTemperature));
inline constexpr MetricDesc kGpuFanSpeed = row::Standard(
    row::Gauge("gpu.fan.speed", "1", "Intended fan speed as a share of the maximum.", {}, &row::kFanSpeed));

inline constexpr MetricDesc kGpuClockFrequency = row::Standard(row::Gauge(
    "gpu.clock.frequency", "MHz", "Current clock of a domain.", row::kKeys<"gpu.clock.type">, &row::kClock));
inline constexpr MetricDesc kGpuClockIdle =
    row::Flag("gpu.clock.idle", "1 while clocks are low because nothing runs.");
inline constexpr MetricDesc kGpuPowerState = row::Gauge(
    "gpu.power.state", "{state}", "Performance state, 0 fastest to 15 slowest.", {}, &row::kPowerState);

inline constexpr MetricDesc kGpuPcieThroughput = row::Gauge(
    "gpu.pcie.throughput", "By/s", "PCIe bytes per second, seen from the GPU: transmit is device to host.",
    row::kKeys<"gpu.interconnect.direction", "gpu.interconnect.type", "gpu.interconnect.source">,
    &row::kPcieRate);
inline constexpr MetricDesc kGpuPcieIo = row::Essential(
    row::Counter("gpu.pcie.io", "By", "PCIe bytes since the driver was loaded, seen from the GPU.",
                 row::kKeys<"gpu.interconnect.direction">));
inline constexpr MetricDesc kGpuPcieLinkGenCurrent = row::Standard(row::Gauge(
    "gpu.pcie.link.gen.current", "{gen}", "PCIe generation in use now.", {}, &row::kPcieGeneration));
inline constexpr MetricDesc kGpuPcieLinkGenMax =
    row::Gauge("gpu.pcie.link.gen.max", "{gen}",
               "Highest PCIe generation that GPU and slot can use together.", {}, &row::kPcieGeneration);
inline constexpr MetricDesc kGpuPcieLinkWidthCurrent = row::Standard(
    row::Gauge("gpu.pcie.link.width.current", "{lanes}", "PCIe lanes in use now.", {}, &row::kPcieWidth));
inline constexpr MetricDesc kGpuPcieLinkWidthMax =
    row::Gauge("gpu.pcie.link.width.max", "{lanes}", "Most PCIe lanes that GPU and slot can use together.",
               {}, &row::kPcieWidth);
inline constexpr MetricDesc kGpuInterconnectThroughput =
    row::Standard(row::Gauge("gpu.interconnect.throughput", "By/s",
                             "Bytes per second over the links of a GPU: NVIDIA as one sum, others per link.",
                             row::kKeys<"gpu.interconnect.direction", "gpu.interconnect.type",
                                        "gpu.interconnect.source", "gpu.interconnect.link_index">,
                             &row::kLinkRate));
inline constexpr MetricDesc kGpuInterconnectLinks =
    row::UpDown("gpu.interconnect.links", "{link}", "Links of the GPU by state.",
                row::kKeys<"gpu.interconnect.type", "gpu.interconnect.state">);

inline constexpr MetricDesc kGpuUtilizationMax = row::Gauge(
    "gpu.utilization.max", "1", "Utilisation of the busiest GPU of the host.", {}, &row::kZeroToOne);
inline constexpr MetricDesc kGpuUtilizationMin = row::Gauge(
    "gpu.utilization.min", "1", "Utilisation of the least busy GPU of the host.", {}, &row::kZeroToOne);
inline constexpr MetricDesc kGpuUtilizationAvg =
    row::Gauge("gpu.utilization.avg", "1", "Mean utilisation of the GPUs of the host.", {}, &row::kZeroToOne);

// All rows of this header, in the order in which people should read them.
inline constexpr const MetricDesc* kGpuReadingsRows[] = {
    &kGpuUtilization,
    &kGpuMemoryUtilization,
    &kGpuEncodeUtilization,
    &kGpuDecodeUtilization,
    &kGpuPowerUtilization,
    &kGpuMemoryTotal,
    &kGpuMemoryUsed,
    &kGpuMemoryFree,
    &kGpuMemoryReserved,
    &kGpuMemoryUsedPercent,
    &kGpuMemoryUnifiedUsed,
    &kGpuMemoryUnifiedTotal,
    &kGpuPowerDraw,
    &kGpuPowerInstant,
    &kGpuPowerLimit,
    &kGpuEnergyConsumption,
    &kGpuTemperature,
    &kGpuFanSpeed,
    &kGpuClockFrequency,
    &kGpuClockIdle,
    &kGpuPowerState,
    &kGpuPcieThroughput,
    &kGpuPcieIo,
    &kGpuPcieLinkGenCurrent,
    &kGpuPcieLinkGenMax,
    &kGpuPcieLinkWidthCurrent,
    &kGpuPcieLinkWidthMax,
    &kGpuInterconnectThroughput,
    &kGpuInterconnectLinks,
    &kGpuUtilizationMax,
    &kGpuUtilizationMin,
    &kGpuUtilizationAvg,
};

}  // namespace gpulens
