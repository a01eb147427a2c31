// The pages of Intel's exporters.
#pragma once

#include "scrape/gpu/exporters.h"

namespace gpulens::gpu_page {

// clang-format off
// The Gaudi exporter (habanalabs_*). All families are gauges; power is mW, utilisation 0-100.
inline constexpr PageRow kHabanaTable[] = {
    {"habanalabs_utilization", "", &kGpuUtilization, 1, 100, "gpu.task.type=compute"},
    {"habanalabs_memory_total_bytes", "", &kGpuMemoryTotal},
    {"habanalabs_memory_used_bytes", "", &kGpuMemoryUsed},
    {"habanalabs_memory_free_bytes", "", &kGpuMemoryFree},
    {"habanalabs_power_mW", "", &kGpuPowerDraw, 1, 1000},
    {"habanalabs_power_default_limit_mW", "", &kGpuPowerLimit, 1, 1000, "gpu.power.limit_type=default"},
    {"habanalabs_temperature_onchip", "", &kGpuTemperature, 1, 1, "gpu.temperature.sensor=edge"},
    {"habanalabs_temperature_onboard", "", &kGpuTemperature, 1, 1, "gpu.temperature.sensor=board"},
    {"habanalabs_temperature_threshold_gpu", "", &kGpuTemperatureLimit, 1, 1, "gpu.temperature.sensor=edge,gpu.temperature.limit_type=max_operating"},
    {"habanalabs_temperature_threshold_memory", "", &kGpuTemperatureLimit, 1, 1, "gpu.temperature.sensor=memory,gpu.temperature.limit_type=max_operating"},
    {"habanalabs_temperature_threshold_slowdown", "", &kGpuTemperatureLimit, 1, 1, "gpu.temperature.sensor=edge,gpu.temperature.limit_type=slowdown"},
    {"habanalabs_temperature_threshold_shutdown", "", &kGpuTemperatureLimit, 1, 1, "gpu.temperature.sensor=edge,gpu.temperature.limit_type=shutdown"},
    {"habanalabs_clock_soc_mhz", "", &kGpuClockFrequency, 1, 1, "gpu.clock.type=soc"},
    {"habanalabs_clock_soc_max_mhz", "", &kGpuClockMax, 1, 1, "gpu.clock.type=soc"},
    {"habanalabs_pcie_receive_throughput", "", &kGpuPcieThroughput, 1024, 1, "gpu.interconnect.direction=receive,gpu.interconnect.type=pcie"},
    {"habanalabs_pcie_transmit_throughput", "", &kGpuPcieThroughput, 1024, 1, "gpu.interconnect.direction=transmit,gpu.interconnect.type=pcie"},
    {"habanalabs_pcie_replay_count", "", &kGpuPcieReplayCount},
    {.family = "habanalabs_pci_link_speed", .metric = &kGpuPcieLinkGenCurrent, .convert = Convert::kPcieGeneration},
    {"habanalabs_pci_link_width", "", &kGpuPcieLinkWidthCurrent},
    {"habanalabs_ecc_feature_mode", "", &kGpuEccMode, 1, 1, "gpu.ecc.mode_type=current"},
    {"habanalabs_pending_rows_state", "", &kGpuRowRemapResetPending},
    {.family = "habanalabs_pending_rows_with_single_bit_ecc_errors", .metric = &kGpuRowRemapPending, .attributes = "gpu.row_remap.state=pending", .convert = Convert::kSum},
    {.family = "habanalabs_pending_rows_with_double_bit_ecc_errors", .metric = &kGpuRowRemapPending, .attributes = "gpu.row_remap.state=pending", .convert = Convert::kSum},
    {.family = "habanalabs_nic_port_status", .metric = &kGpuInterconnectLinkActive, .attributes = "gpu.interconnect.type=roce", .label = "port", .label_key = "gpu.interconnect.link_index"},
};

// XPU Manager: 1.x (xpum_*), and xpumd of 2.x, which has OpenTelemetry's hardware names in Prometheus' form (hw_*).
inline constexpr PageRow kXpumTable[] = {
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
