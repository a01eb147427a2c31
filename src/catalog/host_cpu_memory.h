// The host's processors, memory, pressure and kernel counts. OTel system.* names; what OTel lacks is host.*.
#pragma once

#include "catalog/row.h"

namespace gpulens {

inline constexpr MetricDesc kSystemCpuTime =
    row::Counter("system.cpu.time", "s", "CPU time by mode.", row::kKeys<"cpu.mode", "cpu.logical_number">);
inline constexpr MetricDesc kSystemCpuUtilization =
    row::Essential(row::Gauge("system.cpu.utilization", "1", "Share of CPU time by mode, all CPUs.",
                              row::kKeys<"cpu.mode">, &row::kZeroToOne));
inline constexpr MetricDesc kSystemCpuLogicalCount =
    row::Essential(row::UpDown("system.cpu.logical.count", "{cpu}", "Logical CPUs online."));
inline constexpr MetricDesc kSystemCpuPhysicalCount =
    row::Standard(row::UpDown("system.cpu.physical.count", "{cpu}", "Physical cores online."));
inline constexpr MetricDesc kSystemCpuFrequency =
    row::Gauge("system.cpu.frequency", "Hz", "Frequency of a CPU.", row::kKeys<"cpu.logical_number">);
inline constexpr MetricDesc kSystemCpuLoadAverage1m = row::Essential(
    row::Real(row::Gauge("system.cpu.load_average.1m", "{thread}", "Load average over 1 minute.")));
inline constexpr MetricDesc kSystemCpuLoadAverage5m = row::Standard(
    row::Real(row::Gauge("system.cpu.load_average.5m", "{thread}", "Load average over 5 minutes.")));
inline constexpr MetricDesc kSystemCpuLoadAverage15m =
    row::Real(row::Gauge("system.cpu.load_average.15m", "{thread}", "Load average over 15 minutes."));
inline constexpr MetricDesc kHostCpuEnergy = row::Standard(
    row::Counter("host.cpu.energy", "J", "Energy of a CPU package.", row::kKeys<"host.cpu.package">));

inline constexpr MetricDesc kHostMemoryUtilization = row::Essential(row::Gauge(
    "host.memory.utilization", "1", "Share of host memory that is not available.", {}, &row::kZeroToOne));
inline constexpr MetricDesc kSystemMemoryUsage = row::Standard(
    row::UpDown("system.memory.usage", "By", "Memory by state.", row::kKeys<"system.memory.state">));
inline constexpr MetricDesc kSystemMemoryUtilization =
    row::Gauge("system.memory.utilization", "1", "Share of memory by state.",
               row::kKeys<"system.memory.state">, &row::kZeroToOne);
inline constexpr MetricDesc kSystemMemoryLimit =
    row::Essential(row::UpDown("system.memory.limit", "By", "Size of host memory."));
inline constexpr MetricDesc kSystemMemoryLinuxAvailable = row::Standard(row::UpDown(
    "system.memory.linux.available", "By", "Memory that programs can still get without swapping."));
inline constexpr MetricDesc kSystemMemoryLinuxShared =
    row::UpDown("system.memory.linux.shared", "By", "Shared memory (tmpfs, IPC).");
inline constexpr MetricDesc kSystemMemoryLinuxSlabUsage = row::UpDown(
    "system.memory.linux.slab.usage", "By", "Kernel slab memory.", row::kKeys<"linux.memory.slab.state">);
inline constexpr MetricDesc kHostMemoryOomKills = row::Essential(
    row::Counter("host.memory.oom_kills", "{kill}", "Processes killed because memory ran out."));
inline constexpr MetricDesc kHostMemoryHugepages =
    row::UpDown("host.memory.hugepages", "{page}", "Huge pages by size and state.",
                row::kKeys<"host.hugepage.size", "host.hugepage.state">);
inline constexpr MetricDesc kHostMemoryCommitted =
    row::UpDown("host.memory.committed", "By", "Memory promised to programs.");
inline constexpr MetricDesc kHostMemoryDirty =
    row::UpDown("host.memory.dirty", "By", "Page cache that waits to be written.",
                row::kKeys<"host.memory.writeback_state">);
inline constexpr MetricDesc kHostMemoryHardwareErrors = row::Standard(
    row::StrictCounter("host.memory.hardware_errors", "{error}", "Errors of host memory (EDAC).",
                       row::kKeys<"gpu.ecc.error_type", "host.memory.controller">));
inline constexpr MetricDesc kHostMemoryEnergy = row::Standard(row::Counter(
    "host.memory.energy", "J", "Energy of the memory of a CPU package.", row::kKeys<"host.cpu.package">));

inline constexpr MetricDesc kSystemPagingUsage = row::Standard(
    row::UpDown("system.paging.usage", "By", "Swap by state.", row::kKeys<"system.paging.state">));
inline constexpr MetricDesc kSystemPagingUtilization =
    row::Gauge("system.paging.utilization", "1", "Share of swap by state.", row::kKeys<"system.paging.state">,
               &row::kZeroToOne);
inline constexpr MetricDesc kSystemPagingOperations =
    row::StrictCounter("system.paging.operations", "{operation}", "Pages swapped.",
                       row::kKeys<"system.paging.direction", "system.paging.fault.type">);
inline constexpr MetricDesc kSystemPagingFaults =
    row::Counter("system.paging.faults", "{fault}", "Page faults.", row::kKeys<"system.paging.fault.type">);

inline constexpr MetricDesc kHostNumaMemoryUsage =
    row::UpDown("host.numa.memory.usage", "By", "Memory of a NUMA node by state.",
                row::kKeys<"host.numa.node", "system.memory.state">);
inline constexpr MetricDesc kHostNumaMemoryAllocations =
    row::StrictCounter("host.numa.memory.allocations", "{page}", "Pages allocated by a NUMA node.",
                       row::kKeys<"host.numa.node", "host.numa.result">);

inline constexpr MetricDesc kHostPressureTime = row::Standard(
    row::StrictCounter("host.pressure.time", "s", "Time in which tasks waited for the resource.",
                       row::kKeys<"host.pressure.resource", "host.pressure.level">, &row::kPressureTime));
inline constexpr MetricDesc kHostPressureShare = row::Gauge(
    "host.pressure.share", "1", "Share of time in which tasks waited, as the kernel averages it.",
    row::kKeys<"host.pressure.resource", "host.pressure.level", "host.pressure.window">, &row::kZeroToOne);

inline constexpr MetricDesc kSystemProcessCount =
    row::UpDown("system.process.count", "{process}", "Processes by state.", row::kKeys<"process.state">);
inline constexpr MetricDesc kSystemProcessCreated =
    row::StrictCounter("system.process.created", "{process}", "Processes created since boot.");
inline constexpr MetricDesc kSystemUptime =
    row::Essential(row::Gauge("system.uptime", "s", "Time since boot."));
inline constexpr MetricDesc kHostContextSwitches =
    row::StrictCounter("host.context_switches", "{switch}", "Context switches.");
inline constexpr MetricDesc kHostInterrupts =
    row::StrictCounter("host.interrupts", "{interrupt}", "Interrupts.");
inline constexpr MetricDesc kHostFileDescriptors =
    row::UpDown("host.file_descriptors", "{fd}", "File descriptors in use and allowed.",
                row::kKeys<"host.file_descriptor.state">);
inline constexpr MetricDesc kHostEntropy = row::Gauge("host.entropy", "{bit}", "Entropy in the kernel pool.");
inline constexpr MetricDesc kHostTimeOffset = row::Standard(
    row::Gauge("host.time.offset", "s", "Offset of the clock from its reference.", {}, &row::kTimeOffset));
inline constexpr MetricDesc kHostTimeSynchronized =
    row::Essential(row::Flag("host.time.synchronized", "1 while the clock is synchronised."));
inline constexpr MetricDesc kHostTemperature =
    row::Gauge("host.temperature", "Cel", "Temperature of a host sensor.", row::kKeys<"host.sensor">,
               &row::kSensorTemperature);
inline constexpr MetricDesc kHostInfo =
    row::Essential(row::Info("host.info", "1, with what is fixed about the host.",
                             row::kKeys<"host.arch", "os.type", "os.version", "host.kernel.version",
                                        "host.cpu.model", "host.machine">));

// All rows of this header, in the order in which people should read them.
inline constexpr const MetricDesc* kHostCpuMemoryRows[] = {
    &kSystemCpuTime,
    &kSystemCpuUtilization,
    &kSystemCpuLogicalCount,
    &kSystemCpuPhysicalCount,
    &kSystemCpuFrequency,
    &kSystemCpuLoadAverage1m,
    &kSystemCpuLoadAverage5m,
    &kSystemCpuLoadAverage15m,
    &kHostCpuEnergy,
    &kHostMemoryUtilization,
    &kSystemMemoryUsage,
    &kSystemMemoryUtilization,
    &kSystemMemoryLimit,
    &kSystemMemoryLinuxAvailable,
    &kSystemMemoryLinuxShared,
    &kSystemMemoryLinuxSlabUsage,
    &kHostMemoryOomKills,
    &kHostMemoryHugepages,
    &kHostMemoryCommitted,
    &kHostMemoryDirty,
    &kHostMemoryHardwareErrors,
    &kHostMemoryEnergy,
    &kSystemPagingUsage,
    &kSystemPagingUtilization,
    &kSystemPagingOperations,
    &kSystemPagingFaults,
    &kHostNumaMemoryUsage,
    &kHostNumaMemoryAllocations,
    &kHostPressureTime,
    &kHostPressureShare,
    &kSystemProcessCount,
    &kSystemProcessCreated,
    &kSystemUptime,
    &kHostContextSwitches,
    &kHostInterrupts,
    &kHostFileDescriptors,
    &kHostEntropy,
    &kHostTimeOffset,
    &kHostTimeSynchronized,
    &kHostTemperature,
    &kHostInfo,
};

}  // namespace gpulens
