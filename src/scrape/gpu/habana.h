// The page of Intel's Gaudi exporter (habanalabs_*). All families are gauges; power is mW, utilisation 0-100.
#pragma once

#include "catalog/gpu.h"
#include "scrape/gpu/page_row.h"

namespace gpulens::gpu_page {

// clang-format off
inline constexpr PageRow kHabanaDevice[] = {
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
    {.family = "habanalabs_pci_link_speed", .metric = &kGpuPcieLinkGenCurrent, .take = Take::kPcieGeneration},
    {"habanalabs_pci_link_width", "", &kGpuPcieLinkWidthCurrent},
    {"habanalabs_ecc_feature_mode", "", &kGpuEccMode, 1, 1, "gpu.ecc.mode_type=current"},
    {"habanalabs_pending_rows_state", "", &kGpuRowRemapResetPending},
    {.family = "habanalabs_pending_rows_with_single_bit_ecc_errors", .metric = &kGpuRowRemapPending, .attributes = "gpu.row_remap.state=pending", .take = Take::kSum},
    {.family = "habanalabs_pending_rows_with_double_bit_ecc_errors", .metric = &kGpuRowRemapPending, .attributes = "gpu.row_remap.state=pending", .take = Take::kSum},
    {.family = "habanalabs_nic_port_status", .metric = &kGpuInterconnectLinkActive, .attributes = "gpu.interconnect.type=roce", .label = "port", .label_key = "gpu.interconnect.link_index"},
};
// clang-format on

}  // namespace gpulens::gpu_page
