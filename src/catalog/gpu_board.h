// The board around the chip: memory windows, power, energy, voltage, temperature limits and clocks.
#pragma once

#include "catalog/row.h"

namespace gpulens {

inline constexpr MetricDesc kGpuMemoryBar1Total =
    row::UpDown("gpu.memory.bar1.total", "By", "Size of the BAR1 window.", {}, &row::kPositive);
inline constexpr MetricDesc kGpuMemoryBar1Used =
    row::UpDown("gpu.memory.bar1.used", "By", "BAR1 window in use.");
inline constexpr MetricDesc kGpuMemoryVisibleTotal =
    row::UpDown("gpu.memory.visible.total", "By", "Device memory that the CPU can map.", {}, &row::kPositive);
inline constexpr MetricDesc kGpuMemoryVisibleUsed =
    row::UpDown("gpu.memory.visible.used", "By", "CPU-mappable device memory in use.");
inline constexpr MetricDesc kGpuMemoryGttTotal =
    row::UpDown("gpu.memory.gtt.total", "By", "Host memory that the GPU may map.");
inline constexpr MetricDesc kGpuMemoryGttUsed =
    row::UpDown("gpu.memory.gtt.used", "By", "Host memory mapped by the GPU.");
inline constexpr MetricDesc kGpuMemoryBandwidthMax = row::Gauge(
    "gpu.memory.bandwidth.max", "By/s", "Greatest device memory bandwidth that the board can reach.");
inline constexpr MetricDesc kGpuPowerAverage = row::Standard(
    row::Gauge("gpu.power.average", "W", "Power drawn by the board as a mean over the driver's window."));
inline constexpr MetricDesc kGpuMemoryPower =
    row::Gauge("gpu.memory.power", "W", "Power drawn by device memory, contained in the board's power.");
inline constexpr MetricDesc kGpuModulePower = row::Standard(
    row::Gauge("gpu.module.power", "W", "Power drawn by the whole module that carries the GPU."));
inline constexpr MetricDesc kGpuEnergyEstimate = row::Standard(row::Counter(
    "gpu.energy.estimate", "J", "Energy by integrating power, only for a GPU without an energy counter."));
inline constexpr MetricDesc kGpuEnergyEstimateError =
    row::StrictCounter("gpu.energy.estimate.error", "J", "Upper bound of the error of the energy estimate.");
inline constexpr MetricDesc kGpuVoltage = row::Gauge("gpu.voltage", "V", "Voltage of a supply rail.",
                                                     row::kKeys<"gpu.voltage.rail">, &row::kVoltage);
inline constexpr MetricDesc kGpuTemperatureStack =
    row::Gauge("gpu.temperature.stack", "Cel", "Temperature of one HBM stack.",
               row::kKeys<"gpu.memory.stack">, &row::kSensorTemperature);
inline constexpr MetricDesc kGpuTemperatureLimit =
    row::Gauge("gpu.temperature.limit", "Cel", "Temperature at which the named action happens.",
               row::kKeys<"gpu.temperature.sensor", "gpu.temperature.limit_type">, &row::kTemperatureLimit);
inline constexpr MetricDesc kGpuTemperatureMargin =
    row::Gauge("gpu.temperature.margin", "Cel",
               "Distance to the temperature at which the GPU slows down; falls as it heats.", {},
               &row::kTemperatureMargin);
inline constexpr MetricDesc kGpuTemperatureMarginLimit =
    row::Gauge("gpu.temperature.margin.limit", "Cel", "Margin at which the named action happens.",
               row::kKeys<"gpu.temperature.sensor", "gpu.temperature.limit_type">, &row::kMarginLimit);
inline constexpr MetricDesc kGpuClockMax = row::Gauge("gpu.clock.max", "MHz", "Highest clock of a domain.",
                                                      row::kKeys<"gpu.clock.type">, &row::kPositive);
inline constexpr MetricDesc kGpuClockLimit =
    row::Gauge("gpu.clock.limit", "MHz", "Clock limit set by an administrator.",
               row::kKeys<"gpu.clock.type", "gpu.clock.limit_type">);
inline constexpr MetricDesc kGpuPerformanceLevel = row::StateSet(
    "gpu.performance.level", "Performance level set on an AMD GPU.", row::kKeys<"gpu.performance.level">);
inline constexpr MetricDesc kGpuFanRotation = row::Gauge("gpu.fan.rotation", "rpm", "Measured fan speed.",
                                                         row::kKeys<"gpu.fan.index">, &row::kFanRotation);
inline constexpr MetricDesc kGpuMemoryBar1Free =
    row::UpDown("gpu.memory.bar1.free", "By", "BAR1 window free.");
inline constexpr MetricDesc kGpuPowerSource =
    row::StateSet("gpu.power.source", "What the board is powered from.", row::kKeys<"gpu.power.source">);

// All rows of this header, in the order in which people should read them.
inline constexpr const MetricDesc* kGpuBoardRows[] = {
    &kGpuMemoryBar1Total,
    &kGpuMemoryBar1Used,
    &kGpuMemoryVisibleTotal,
    &kGpuMemoryVisibleUsed,
    &kGpuMemoryGttTotal,
    &kGpuMemoryGttUsed,
    &kGpuMemoryBandwidthMax,
    &kGpuPowerAverage,
    &kGpuMemoryPower,
    &kGpuModulePower,
    &kGpuEnergyEstimate,
    &kGpuEnergyEstimateError,
    &kGpuVoltage,
    &kGpuTemperatureStack,
    &kGpuTemperatureLimit,
    &kGpuTemperatureMargin,
    &kGpuTemperatureMarginLimit,
    &kGpuClockMax,
    &kGpuClockLimit,
    &kGpuPerformanceLevel,
    &kGpuFanRotation,
    &kGpuMemoryBar1Free,
    &kGpuPowerSource,
};

}  // namespace gpulens
