// The DCGM exporter's page, fields of the device itself: names up to DCGM 4.5 and, renamed, those of 4.6.
//
// Utilisation is 0-100, memory MiB, energy mJ, violations ns whatever the help text of older lists says.
// DCGM_FI_DEV_FB_USED_PERCENT is 0-1 in spite of its name. Numbers kept their scale when they were renamed.
#pragma once

#include "catalog/gpu.h"
#include "scrape/gpu/page_row.h"

namespace gpulens::gpu_page {

inline constexpr double kMiB = 1048576;

// clang-format off
inline constexpr PageRow kDcgmDevice[] = {
    {"DCGM_FI_DEV_SM_CLOCK", "dcgm_sm_clock", &kGpuClockFrequency, 1, 1, "gpu.clock.type=sm"},
    {"DCGM_FI_DEV_MEM_CLOCK", "dcgm_memory_clock", &kGpuClockFrequency, 1, 1, "gpu.clock.type=memory"},
    {"DCGM_FI_DEV_VIDEO_CLOCK", "", &kGpuClockFrequency, 1, 1, "gpu.clock.type=video"},
    {"DCGM_FI_DEV_MAX_SM_CLOCK", "", &kGpuClockMax, 1, 1, "gpu.clock.type=sm"},
    {"DCGM_FI_DEV_MAX_MEM_CLOCK", "", &kGpuClockMax, 1, 1, "gpu.clock.type=memory"},
    {"DCGM_FI_DEV_MAX_VIDEO_CLOCK", "", &kGpuClockMax, 1, 1, "gpu.clock.type=video"},
    {"DCGM_FI_DEV_APP_SM_CLOCK", "", &kGpuClockLimit, 1, 1, "gpu.clock.type=sm,gpu.clock.limit_type=application"},
    {"DCGM_FI_DEV_APP_MEM_CLOCK", "", &kGpuClockLimit, 1, 1, "gpu.clock.type=memory,gpu.clock.limit_type=application"},

    {"DCGM_FI_DEV_GPU_TEMP", "DCGM_FI_DEV_GPU_TEMP_CELSIUS", &kGpuTemperature, 1, 1, "gpu.temperature.sensor=edge"},
    {"dcgm_gpu_temp", "", &kGpuTemperature, 1, 1, "gpu.temperature.sensor=edge"},
    {"DCGM_FI_DEV_MEMORY_TEMP", "DCGM_FI_DEV_MEMORY_TEMP_CELSIUS", &kGpuTemperature, 1, 1, "gpu.temperature.sensor=memory"},
    {"dcgm_memory_temp", "", &kGpuTemperature, 1, 1, "gpu.temperature.sensor=memory"},
    {"DCGM_FI_DEV_SLOWDOWN_TEMP", "DCGM_FI_DEV_GPU_TEMP_SLOWDOWN_CELSIUS", &kGpuTemperatureLimit, 1, 1, "gpu.temperature.sensor=edge,gpu.temperature.limit_type=slowdown"},
    {"DCGM_FI_DEV_SHUTDOWN_TEMP", "DCGM_FI_DEV_GPU_TEMP_SHUTDOWN_CELSIUS", &kGpuTemperatureLimit, 1, 1, "gpu.temperature.sensor=edge,gpu.temperature.limit_type=shutdown"},
    {"DCGM_FI_DEV_GPU_MAX_OP_TEMP", "DCGM_FI_DEV_GPU_MAX_OP_TEMP_CELSIUS", &kGpuTemperatureLimit, 1, 1, "gpu.temperature.sensor=edge,gpu.temperature.limit_type=max_operating"},
    {"DCGM_FI_DEV_MEM_MAX_OP_TEMP", "DCGM_FI_DEV_MEMORY_MAX_OP_TEMP_CELSIUS", &kGpuTemperatureLimit, 1, 1, "gpu.temperature.sensor=memory,gpu.temperature.limit_type=max_operating"},
    {"DCGM_FI_DEV_GPU_TEMP_LIMIT", "DCGM_FI_DEV_GPU_TEMP_MARGIN_CELSIUS", &kGpuTemperatureMargin},
    {"DCGM_FI_DEV_FAN_SPEED", "", &kGpuFanSpeed, 1, 100},

    {"DCGM_FI_DEV_POWER_USAGE", "DCGM_FI_DEV_BOARD_POWER_WATTS", &kGpuPowerDraw},
    {"dcgm_power_usage", "", &kGpuPowerDraw},
    {"DCGM_FI_DEV_POWER_USAGE_INSTANT", "DCGM_FI_DEV_BOARD_POWER_RAW_WATTS", &kGpuPowerInstant},
    {"DCGM_FI_DEV_ENFORCED_POWER_LIMIT", "DCGM_FI_DEV_BOARD_POWER_LIMIT_ENFORCED_WATTS", &kGpuPowerLimit, 1, 1, "gpu.power.limit_type=enforced"},
    {"DCGM_FI_DEV_POWER_MGMT_LIMIT", "DCGM_FI_DEV_BOARD_POWER_LIMIT_REQUESTED_WATTS", &kGpuPowerLimit, 1, 1, "gpu.power.limit_type=requested"},
    {"DCGM_FI_DEV_POWER_MGMT_LIMIT_DEF", "DCGM_FI_DEV_BOARD_POWER_LIMIT_DEFAULT_WATTS", &kGpuPowerLimit, 1, 1, "gpu.power.limit_type=default"},
    {"DCGM_FI_DEV_POWER_MGMT_LIMIT_MIN", "DCGM_FI_DEV_BOARD_POWER_LIMIT_MIN_WATTS", &kGpuPowerLimit, 1, 1, "gpu.power.limit_type=min"},
    {"DCGM_FI_DEV_POWER_MGMT_LIMIT_MAX", "DCGM_FI_DEV_BOARD_POWER_LIMIT_MAX_WATTS", &kGpuPowerLimit, 1, 1, "gpu.power.limit_type=max"},
    {"DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", "dcgm_total_energy_consumption", &kGpuEnergyConsumption, 1, 1000},
    {"DCGM_FI_DEV_PSTATE", "DCGM_FI_DEV_GPU_PSTATE", &kGpuPowerState},

    {"DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_DEV_GPU_UTIL_RATIO", &kGpuUtilization, 1, 100, "gpu.task.type=compute"},
    {"dcgm_gpu_utilization", "", &kGpuUtilization, 1, 100, "gpu.task.type=compute"},
    {"DCGM_FI_DEV_MEM_COPY_UTIL", "dcgm_mem_copy_utilization", &kGpuMemoryUtilization, 1, 100, "gpu.task.type=memory_controller"},
    {"DCGM_FI_DEV_ENC_UTIL", "dcgm_enc_utilization", &kGpuEncodeUtilization, 1, 100, "gpu.task.type=encoder"},
    {"DCGM_FI_DEV_DEC_UTIL", "dcgm_dec_utilization", &kGpuDecodeUtilization, 1, 100, "gpu.task.type=decoder"},

    {.family = "DCGM_FI_DEV_FB_TOTAL", .metric = &kGpuMemoryTotal, .times = kMiB, .scope = Scope::kPart, .part_metric = &kGpuMigMemoryTotal},
    {.family = "DCGM_FI_DEV_FB_USED", .renamed = "dcgm_fb_used", .metric = &kGpuMemoryUsed, .times = kMiB, .scope = Scope::kPart, .part_metric = &kGpuMigMemoryUsed},
    {.family = "DCGM_FI_DEV_FB_FREE", .renamed = "dcgm_fb_free", .metric = &kGpuMemoryFree, .times = kMiB, .scope = Scope::kPart, .part_metric = &kGpuMigMemoryFree},
    {.family = "DCGM_FI_DEV_FB_RESERVED", .metric = &kGpuMemoryReserved, .times = kMiB, .scope = Scope::kPart, .part_metric = &kGpuMigMemoryReserved},
    {.family = "DCGM_FI_DEV_FB_USED_PERCENT", .renamed = "DCGM_FI_DEV_FB_USED_RATIO", .metric = &kGpuMemoryUsedPercent, .times = 100, .scope = Scope::kPart},
    {"DCGM_FI_DEV_BAR1_TOTAL", "", &kGpuMemoryBar1Total, kMiB},
    {"DCGM_FI_DEV_BAR1_USED", "", &kGpuMemoryBar1Used, kMiB},
    {"DCGM_FI_DEV_BAR1_FREE", "", &kGpuMemoryBar1Free, kMiB},

    {.family = "DCGM_FI_DEV_XID_ERRORS", .renamed = "DCGM_FI_DEV_XID_ERROR", .metric = &kGpuXidLastErrorCode, .take = Take::kNotZero},
    {.family = "dcgm_xid_errors", .metric = &kGpuXidLastErrorCode, .take = Take::kNotZero},

    {"DCGM_FI_DEV_CLOCKS_EVENT_REASONS", "DCGM_FI_DEV_CLOCK_THROTTLE_REASONS", &kGpuThrottleMask},
    {.family = "DCGM_FI_DEV_CLOCKS_EVENT_REASONS", .renamed = "DCGM_FI_DEV_CLOCK_THROTTLE_REASONS", .metric = &kGpuClockIdle, .take = Take::kBit, .bit = 0x1},
    {.family = "DCGM_FI_DEV_CLOCKS_EVENT_REASONS", .renamed = "DCGM_FI_DEV_CLOCK_THROTTLE_REASONS", .metric = &kGpuThrottleReason, .attributes = "gpu.throttle.cause=clock_setting", .take = Take::kBit, .bit = 0x2},
    {.family = "DCGM_FI_DEV_CLOCKS_EVENT_REASONS", .renamed = "DCGM_FI_DEV_CLOCK_THROTTLE_REASONS", .metric = &kGpuThrottleReason, .attributes = "gpu.throttle.cause=power_software", .take = Take::kBit, .bit = 0x4},
    {.family = "DCGM_FI_DEV_CLOCKS_EVENT_REASONS", .renamed = "DCGM_FI_DEV_CLOCK_THROTTLE_REASONS", .metric = &kGpuThrottleReason, .attributes = "gpu.throttle.cause=slowdown_hardware", .take = Take::kBit, .bit = 0x8},
    {.family = "DCGM_FI_DEV_CLOCKS_EVENT_REASONS", .renamed = "DCGM_FI_DEV_CLOCK_THROTTLE_REASONS", .metric = &kGpuThrottleReason, .attributes = "gpu.throttle.cause=syncboost", .take = Take::kBit, .bit = 0x10},
    {.family = "DCGM_FI_DEV_CLOCKS_EVENT_REASONS", .renamed = "DCGM_FI_DEV_CLOCK_THROTTLE_REASONS", .metric = &kGpuThrottleReason, .attributes = "gpu.throttle.cause=temp_software", .take = Take::kBit, .bit = 0x20},
    {.family = "DCGM_FI_DEV_CLOCKS_EVENT_REASONS", .renamed = "DCGM_FI_DEV_CLOCK_THROTTLE_REASONS", .metric = &kGpuThrottleReason, .attributes = "gpu.throttle.cause=temp_hardware", .take = Take::kBit, .bit = 0x40},
    {.family = "DCGM_FI_DEV_CLOCKS_EVENT_REASONS", .renamed = "DCGM_FI_DEV_CLOCK_THROTTLE_REASONS", .metric = &kGpuThrottleReason, .attributes = "gpu.throttle.cause=power_brake", .take = Take::kBit, .bit = 0x80},
    {.family = "DCGM_FI_DEV_CLOCKS_EVENT_REASONS", .renamed = "DCGM_FI_DEV_CLOCK_THROTTLE_REASONS", .metric = &kGpuThrottleReason, .attributes = "gpu.throttle.cause=display", .take = Take::kBit, .bit = 0x100},
    {"DCGM_FI_DEV_CLOCKS_EVENT_REASON_SW_POWER_CAP_NS", "", &kGpuThrottleTime, 1, 1e9, "gpu.throttle.cause=power_software"},
    {"DCGM_FI_DEV_CLOCKS_EVENT_REASON_SYNC_BOOST_NS", "", &kGpuThrottleTime, 1, 1e9, "gpu.throttle.cause=syncboost"},
    {"DCGM_FI_DEV_CLOCKS_EVENT_REASON_SW_THERM_SLOWDOWN_NS", "", &kGpuThrottleTime, 1, 1e9, "gpu.throttle.cause=temp_software"},
    {"DCGM_FI_DEV_CLOCKS_EVENT_REASON_HW_THERM_SLOWDOWN_NS", "", &kGpuThrottleTime, 1, 1e9, "gpu.throttle.cause=temp_hardware"},
    {"DCGM_FI_DEV_CLOCKS_EVENT_REASON_HW_POWER_BRAKE_SLOWDOWN_NS", "", &kGpuThrottleTime, 1, 1e9, "gpu.throttle.cause=power_brake"},
    {"DCGM_FI_DEV_POWER_VIOLATION", "", &kGpuViolationTime, 1, 1e9, "gpu.violation.policy=power"},
    {"DCGM_FI_DEV_THERMAL_VIOLATION", "", &kGpuViolationTime, 1, 1e9, "gpu.violation.policy=thermal"},
    {"DCGM_FI_DEV_SYNC_BOOST_VIOLATION", "", &kGpuViolationTime, 1, 1e9, "gpu.violation.policy=sync_boost"},
    {"DCGM_FI_DEV_BOARD_LIMIT_VIOLATION", "", &kGpuViolationTime, 1, 1e9, "gpu.violation.policy=board_limit"},
    {"DCGM_FI_DEV_LOW_UTIL_VIOLATION", "", &kGpuViolationTime, 1, 1e9, "gpu.violation.policy=low_utilization"},
    {"DCGM_FI_DEV_RELIABILITY_VIOLATION", "", &kGpuViolationTime, 1, 1e9, "gpu.violation.policy=reliability"},
    {"DCGM_FI_DEV_TOTAL_APP_CLOCKS_VIOLATION", "", &kGpuViolationTime, 1, 1e9, "gpu.violation.policy=application_clocks"},
    {"DCGM_FI_DEV_TOTAL_BASE_CLOCKS_VIOLATION", "", &kGpuViolationTime, 1, 1e9, "gpu.violation.policy=base_clocks"},

    {.family = "DCGM_FI_DEV_COUNT", .renamed = "DCGM_FI_SYSTEM_GPU_QUANTITY", .metric = &kGpuDevices, .attributes = "gpu.vendor=nvidia", .scope = Scope::kHost},
    {"DCGM_FI_DEV_PERSISTENCE_MODE", "DCGM_FI_DEV_GPU_PERSISTENCE_MODE", &kGpuPersistenceEnabled},
    {"DCGM_FI_DEV_INFOROM_CONFIG_VALID", "DCGM_FI_DEV_INFOROM_VALID", &kGpuInforomValid},
    {"DCGM_FI_DEV_CC_MODE", "", &kGpuConfidentialComputeEnabled},
    {"DCGM_FI_DEV_FABRIC_MANAGER_ERROR_CODE", "DCGM_FI_DEV_FABRIC_MANAGER_ERROR", &kGpuFabricStatus},
    {"DCGM_FI_DEV_MIG_MODE", "", &kGpuMigMode, 1, 1, "gpu.mig.mode_type=current"},
    {"DCGM_FI_DEV_MIG_MAX_SLICES", "", &kGpuMigInstancesMax},
    {"DCGM_FI_DEV_VGPU_LICENSE_STATUS", "", &kGpuVgpuLicensed},
    {"DCGM_FI_DEV_PWR_SMOOTHING_ENABLED", "", &kNvidiaPowerSmoothingEnabled},
    {.family = "DCGM_FI_DEV_GET_GPU_RECOVERY_ACTION", .renamed = "DCGM_FI_DEV_GPU_RECOVERY_ACTION", .metric = &kGpuRecoveryAction, .take = Take::kStates, .states = "none,reset,reboot,drain_p2p,drain_and_reset"},
    {.family = "DCGM_FI_DEV_COMPUTE_MODE", .renamed = "DCGM_FI_DEV_GPU_COMPUTE_MODE", .metric = &kGpuComputeMode, .take = Take::kStates, .states = "default,exclusive_thread,prohibited,exclusive_process"},
    {.family = "DCGM_FI_DEV_FABRIC_MANAGER_STATUS", .metric = &kGpuFabricState, .take = Take::kStates, .states = "not_supported,not_started,in_progress,completed"},
    {.family = "DCGM_FI_DEV_VIRTUAL_MODE", .renamed = "DCGM_FI_DEV_GPU_VIRTUAL_MODE", .metric = &kGpuVirtualizationMode, .take = Take::kStates, .states = "none,passthrough,vgpu,host_vgpu,host_vsga"},
};
// clang-format on

}  // namespace gpulens::gpu_page
