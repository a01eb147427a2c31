// The page of AMD's device metrics exporter. All families are gauges there, also sums since boot; the rows of
// the catalogue know which are counters. Memory is "MB" of 2^20 bytes, energy uJ, voltage mV.
#pragma once

#include "scrape/gpu/exporters.h"

namespace gpulens::gpu_page {

inline constexpr double kAmdMB = 1048576, kAmdKB = 1024;

// clang-format off
#define AMD_ECC(family, block)                                                                                                  \
    {"gpu_ecc_correct_" family, "", &kGpuEccErrors, 1, 1, "gpu.ecc.count_type=volatile,gpu.ecc.error_type=correctable,gpu.ecc.memory_block=" block}, \
    {"gpu_ecc_uncorrect_" family, "", &kGpuEccErrors, 1, 1, "gpu.ecc.count_type=volatile,gpu.ecc.error_type=uncorrectable,gpu.ecc.memory_block=" block}, \
    {"gpu_ecc_deferred_" family, "", &kGpuEccErrors, 1, 1, "gpu.ecc.count_type=volatile,gpu.ecc.error_type=deferred,gpu.ecc.memory_block=" block}
inline constexpr PageRow kAmdTable[] = {
    {.family = "gpu_nodes_total", .metric = &kGpuDevices, .attributes = "gpu.vendor=amd", .scope = Scope::kHost},
    {"gpu_package_power", "", &kGpuPowerDraw},
    {"gpu_average_package_power", "", &kGpuPowerDraw},
    {"gpu_power_usage", "", &kGpuPowerDraw},
    {"gpu_energy_consumed", "", &kGpuEnergyConsumption, 1, 1e6},
    {"gpu_edge_temperature", "", &kGpuTemperature, 1, 1, "gpu.temperature.sensor=edge"},
    {"gpu_junction_temperature", "", &kGpuTemperature, 1, 1, "gpu.temperature.sensor=hotspot"},
    {"gpu_memory_temperature", "", &kGpuTemperature, 1, 1, "gpu.temperature.sensor=memory"},
    {.family = "gpu_hbm_temperature", .metric = &kGpuTemperatureStack, .label = "hbm_index", .label_key = "gpu.memory.stack"},
    {"gpu_gfx_activity", "gpu_usage", &kGpuUtilization, 1, 100, "gpu.task.type=compute"},
    {"gpu_umc_activity", "", &kGpuMemoryUtilization, 1, 100, "gpu.task.type=memory_controller"},
    {"gpu_mma_activity", "", &kGpuMultimediaUtilization, 1, 100, "gpu.task.type=multimedia"},
    {.family = "gpu_vcn_activity", .metric = &kGpuEngineUtilization, .per = 100, .attributes = "gpu.engine.type=vcn", .label = "vcn_index", .label_key = "gpu.engine.index"},
    {.family = "gpu_jpeg_activity", .metric = &kGpuEngineUtilization, .per = 100, .attributes = "gpu.engine.type=jpeg", .label = "jpeg_index", .label_key = "gpu.engine.index"},
    {.family = "gpu_gfx_busy_instantaneous", .metric = &kGpuEngineUtilization, .per = 100, .attributes = "gpu.engine.type=xcc", .label = "xcc_index", .label_key = "gpu.engine.index", .scope = Scope::kPart},
    {"gpu_voltage", "", &kGpuVoltage, 1, 1000, "gpu.voltage.rail=soc"},
    {"gpu_gfx_voltage", "", &kGpuVoltage, 1, 1000, "gpu.voltage.rail=gfx"},
    {"gpu_memory_voltage", "", &kGpuVoltage, 1, 1000, "gpu.voltage.rail=memory"},
    {.family = "gpu_clock", .metric = &kGpuClockFrequency, .attributes = "gpu.clock.type=graphics", .has = "clock_type", .is = "GPU_CLOCK_TYPE_SYSTEM"},
    {.family = "gpu_clock", .metric = &kGpuClockFrequency, .attributes = "gpu.clock.type=memory", .has = "clock_type", .is = "GPU_CLOCK_TYPE_MEMORY"},
    {.family = "gpu_clock", .metric = &kGpuClockFrequency, .attributes = "gpu.clock.type=soc", .has = "clock_type", .is = "GPU_CLOCK_TYPE_SOC"},
    {.family = "gpu_clock", .metric = &kGpuClockFrequency, .attributes = "gpu.clock.type=fabric", .has = "clock_type", .is = "GPU_CLOCK_TYPE_FABRIC"},
    {.family = "gpu_clock", .metric = &kGpuClockFrequency, .attributes = "gpu.clock.type=vclk0", .has = "clock_type", .is = "GPU_CLOCK_TYPE_VIDEO"},
    {.family = "gpu_clock", .metric = &kGpuClockFrequency, .attributes = "gpu.clock.type=dclk0", .has = "clock_type", .is = "GPU_CLOCK_TYPE_DATA"},
    {.family = "gpu_max_clock", .metric = &kGpuClockMax, .attributes = "gpu.clock.type=graphics", .has = "clock_type", .is = "GPU_CLOCK_TYPE_SYSTEM"},
    {.family = "gpu_max_clock", .metric = &kGpuClockMax, .attributes = "gpu.clock.type=memory", .has = "clock_type", .is = "GPU_CLOCK_TYPE_MEMORY"},
    {.family = "gpu_max_clock", .metric = &kGpuClockMax, .attributes = "gpu.clock.type=soc", .has = "clock_type", .is = "GPU_CLOCK_TYPE_SOC"},
    {.family = "gpu_max_clock", .metric = &kGpuClockMax, .attributes = "gpu.clock.type=fabric", .has = "clock_type", .is = "GPU_CLOCK_TYPE_FABRIC"},
    {.family = "gpu_max_clock", .metric = &kGpuClockMax, .attributes = "gpu.clock.type=vclk0", .has = "clock_type", .is = "GPU_CLOCK_TYPE_VIDEO"},
    {.family = "gpu_max_clock", .metric = &kGpuClockMax, .attributes = "gpu.clock.type=dclk0", .has = "clock_type", .is = "GPU_CLOCK_TYPE_DATA"},
    {.family = "gpu_total_vram", .renamed = "gpu_total_memory", .metric = &kGpuMemoryTotal, .times = kAmdMB, .scope = Scope::kPart},
    {.family = "gpu_used_vram", .metric = &kGpuMemoryUsed, .times = kAmdMB, .scope = Scope::kPart},
    {.family = "gpu_free_vram", .metric = &kGpuMemoryFree, .times = kAmdMB, .scope = Scope::kPart},
    {"gpu_total_visible_vram", "", &kGpuMemoryVisibleTotal, kAmdMB},
    {"gpu_used_visible_vram", "", &kGpuMemoryVisibleUsed, kAmdMB},
    {"gpu_total_gtt", "", &kGpuMemoryGttTotal, kAmdMB},
    {"gpu_used_gtt", "", &kGpuMemoryGttUsed, kAmdMB},
    {"gpu_vram_max_bandwidth", "", &kGpuMemoryBandwidthMax, 1e9},
    {.family = "pcie_speed", .metric = &kGpuPcieLinkGenCurrent, .convert = Convert::kPcieSpeed},
    {.family = "pcie_max_speed", .metric = &kGpuPcieLinkGenMax, .convert = Convert::kPcieSpeed},
    {"pcie_rx", "", &kGpuPcieIo, 1, 1, "gpu.interconnect.direction=receive"},
    {"pcie_tx", "", &kGpuPcieIo, 1, 1, "gpu.interconnect.direction=transmit"},
    {"pcie_replay_count", "", &kGpuPcieReplayCount},
    {"pcie_recovery_count", "", &kGpuPcieErrors, 1, 1, "gpu.pcie.error_type=recovery"},
    {"pcie_replay_rollover_count", "", &kGpuPcieErrors, 1, 1, "gpu.pcie.error_type=replay_rollover"},
    {"pcie_nack_sent_count", "", &kGpuPcieErrors, 1, 1, "gpu.pcie.error_type=nak_sent"},
    {"pcie_nack_received_count", "", &kGpuPcieErrors, 1, 1, "gpu.pcie.error_type=nak_received"},
    {.family = "gpu_xgmi_link_rx", .metric = &kGpuInterconnectIo, .times = kAmdKB, .attributes = "gpu.interconnect.direction=receive,gpu.interconnect.type=xgmi", .label = "link_index", .label_key = "gpu.interconnect.link_index"},
    {.family = "gpu_xgmi_link_tx", .metric = &kGpuInterconnectIo, .times = kAmdKB, .attributes = "gpu.interconnect.direction=transmit,gpu.interconnect.type=xgmi", .label = "link_index", .label_key = "gpu.interconnect.link_index"},
    {"gpu_violation_processor_hot_residency_percentage", "", &kGpuThrottleShare, 1, 100, "gpu.throttle.cause=temp_hardware"},
    {"gpu_violation_ppt_residency_percentage", "", &kGpuThrottleShare, 1, 100, "gpu.throttle.cause=power_software"},
    {"gpu_violation_socket_thermal_residency_percentage", "", &kGpuThrottleShare, 1, 100, "gpu.throttle.cause=temp_software"},
    {"gpu_violation_vr_thermal_residency_percentage", "", &kGpuThrottleShare, 1, 100, "gpu.throttle.cause=temp_vr"},
    {"gpu_violation_hbm_thermal_residency_percentage", "", &kGpuThrottleShare, 1, 100, "gpu.throttle.cause=temp_memory"},
    {.family = "gpu_process_cu_occupancy", .metric = &kGpuProcessCuOccupancy, .per = 100, .label = "process_id", .label_key = "process.pid", .scope = Scope::kPart},
    {.family = "gpu_prof_gui_util_percent", .metric = &kGpuGrEngineActive, .per = 100, .scope = Scope::kPart},
    {.family = "gpu_prof_sm_active", .metric = &kGpuSmActive, .per = 100, .scope = Scope::kPart},
    {.family = "gpu_prof_occupancy_percent", .metric = &kGpuSmOccupancy, .per = 100, .scope = Scope::kPart},
    {.family = "gpu_prof_tensor_active_percent", .metric = &kGpuPipeTensorActive, .per = 100, .scope = Scope::kPart},

    AMD_ECC("sdma", "sdma"),
    AMD_ECC("gfx", "gfx"),
    AMD_ECC("mmhub", "mmhub"),
    AMD_ECC("athub", "athub"),
    AMD_ECC("bif", "pcie_bif"),
    AMD_ECC("hdp", "hdp"),
    AMD_ECC("xgmi_wafl", "xgmi_wafl"),
    AMD_ECC("df", "df"),
    AMD_ECC("smn", "smn"),
    AMD_ECC("sem", "sem"),
    AMD_ECC("mp0", "mp0"),
    AMD_ECC("mp1", "mp1"),
    AMD_ECC("fuse", "fuse"),
    AMD_ECC("umc", "umc"),
    AMD_ECC("mca", "mca"),
    AMD_ECC("vcn", "vcn"),
    AMD_ECC("jpeg", "jpeg"),
    AMD_ECC("ih", "ih"),
    AMD_ECC("mpio", "mpio"),
};
#undef AMD_ECC
// clang-format on

}  // namespace gpulens::gpu_page
