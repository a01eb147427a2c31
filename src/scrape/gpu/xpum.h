// The pages of Intel's XPU Manager: 1.x (xpum_*), and xpumd of 2.x, whose names are those of OpenTelemetry's
// hardware conventions as its Prometheus exporter spells them (hw_*).
#pragma once

#include "catalog/gpu.h"
#include "scrape/gpu/page_row.h"

namespace gpulens::gpu_page {

// clang-format off
inline constexpr PageRow kXpumDevice[] = {
    {"xpum_power_watts", "", &kGpuPowerDraw},
    {"xpum_energy_joules_total", "", &kGpuEnergyConsumption},
    {.family = "xpum_temperature_celsius", .metric = &kGpuTemperature, .attributes = "gpu.temperature.sensor=edge", .has = "location", .is = "gpu"},
    {.family = "xpum_temperature_celsius", .metric = &kGpuTemperature, .attributes = "gpu.temperature.sensor=memory", .has = "location", .is = "mem"},
    {.family = "xpum_temperature_celsius", .metric = &kGpuTemperature, .attributes = "gpu.temperature.sensor=memory", .has = "location", .is = "memory"},
    {.family = "xpum_frequency_mhz", .metric = &kGpuClockFrequency, .attributes = "gpu.clock.type=graphics", .has = "location", .is = "gpu"},
    {.family = "xpum_frequency_mhz", .metric = &kGpuClockFrequency, .attributes = "gpu.clock.type=memory", .has = "location", .is = "mem"},
    {"xpum_engine_ratio", "", &kGpuUtilization, 1, 1, "gpu.task.type=compute"},
    {"xpum_memory_used_bytes", "", &kGpuMemoryUsed},
    {"xpum_memory_ratio", "", &kGpuMemoryUsedPercent, 100},
    {"xpum_memory_bandwidth_ratio", "", &kGpuMemoryUtilization, 1, 1, "gpu.task.type=memory_controller"},
    {"xpum_pcie_read_bytes_total", "", &kGpuPcieIo, 1, 1, "gpu.interconnect.direction=receive"},
    {"xpum_pcie_write_bytes_total", "", &kGpuPcieIo, 1, 1, "gpu.interconnect.direction=transmit"},

    {.family = "hw_power_watts", .metric = &kGpuPowerDraw},
    {.family = "hw_power_limit_watts", .metric = &kGpuPowerLimit, .attributes = "gpu.power.limit_type=enforced"},
    {.family = "hw_energy_joules_total", .metric = &kGpuEnergyConsumption},
    {.family = "hw_temperature_celsius", .metric = &kGpuTemperature, .attributes = "gpu.temperature.sensor=edge", .has = "hw_sensor_location", .is = "gpu"},
    {.family = "hw_temperature_celsius", .metric = &kGpuTemperature, .attributes = "gpu.temperature.sensor=memory", .has = "hw_sensor_location", .is = "memory"},
    {.family = "hw_frequency_hertz", .metric = &kGpuClockFrequency, .per = 1e6, .attributes = "gpu.clock.type=graphics", .has = "hw_frequency_domain", .is = "gpu"},
    {.family = "hw_frequency_hertz", .metric = &kGpuClockFrequency, .per = 1e6, .attributes = "gpu.clock.type=memory", .has = "hw_frequency_domain", .is = "memory"},
    {.family = "hw_gpu_io_bytes_total", .metric = &kGpuPcieIo, .attributes = "gpu.interconnect.direction=receive", .has = "network_io_direction", .is = "receive"},
    {.family = "hw_gpu_io_bytes_total", .metric = &kGpuPcieIo, .attributes = "gpu.interconnect.direction=transmit", .has = "network_io_direction", .is = "transmit"},
    {"hw_memory_size_bytes", "", &kGpuMemoryTotal},
    {"hw_memory_usage_bytes", "", &kGpuMemoryUsed},
    {"hw_memory_free_bytes", "", &kGpuMemoryFree},
    {"hw_memory_utilization_ratio", "", &kGpuMemoryUsedPercent, 100},
};
// clang-format on

}  // namespace gpulens::gpu_page
