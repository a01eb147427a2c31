// Fields of DCGM that say what a GPU is doing: load, memory, power, heat, clocks and modes.
#pragma once

#include "catalog/gpu.h"
#include "names/dcgm_field.h"

namespace gpulens {

inline constexpr DcgmField kDcgmReadings[] = {
    DcgmField(kGpuUtilization, "DCGM_FI_DEV_GPU_UTIL", "Share of time in which a kernel ran, 0 to 100.")
        .Since46("DCGM_FI_DEV_GPU_UTIL_RATIO")
        .Whole("%", 100),
    DcgmField(kGpuMemoryUtilization, "DCGM_FI_DEV_MEM_COPY_UTIL",
              "Share of time in which device memory was read or written, 0 to 100.")
        .Whole("%", 100),
    DcgmField(kGpuEncodeUtilization, "DCGM_FI_DEV_ENC_UTIL",
              "Share of time the video encoder was busy, 0 to 100.")
        .Whole("%", 100),
    DcgmField(kGpuDecodeUtilization, "DCGM_FI_DEV_DEC_UTIL",
              "Share of time the video decoder was busy, 0 to 100.")
        .Whole("%", 100),
    DcgmField(kGpuMemoryTotal, "DCGM_FI_DEV_FB_TOTAL", "Size of device memory in MiB.").Whole("MiB", kPerMiB),
    DcgmField(kGpuMigMemoryTotal, "DCGM_FI_DEV_FB_TOTAL", "Size of device memory in MiB.")
        .Whole("MiB", kPerMiB),
    DcgmField(kGpuMemoryUsed, "DCGM_FI_DEV_FB_USED", "Device memory in use in MiB.").Whole("MiB", kPerMiB),
    DcgmField(kGpuMigMemoryUsed, "DCGM_FI_DEV_FB_USED", "Device memory in use in MiB.").Whole("MiB", kPerMiB),
    DcgmField(kGpuMemoryFree, "DCGM_FI_DEV_FB_FREE", "Device memory free in MiB.").Whole("MiB", kPerMiB),
    DcgmField(kGpuMigMemoryFree, "DCGM_FI_DEV_FB_FREE", "Device memory free in MiB.").Whole("MiB", kPerMiB),
    DcgmField(kGpuMemoryReserved, "DCGM_FI_DEV_FB_RESERVED",
              "Device memory that the driver holds back in MiB.")
        .Whole("MiB", kPerMiB),
    DcgmField(kGpuMigMemoryReserved, "DCGM_FI_DEV_FB_RESERVED",
              "Device memory that the driver holds back in MiB.")
        .Whole("MiB", kPerMiB),
    DcgmField(kGpuMemoryUsedPercent, "DCGM_FI_DEV_FB_USED_PERCENT", "Share of device memory in use, 0 to 1.")
        .Since46("DCGM_FI_DEV_FB_USED_RATIO")
        .In("", 0.01),
    DcgmField(kGpuMemoryBar1Total, "DCGM_FI_DEV_BAR1_TOTAL", "Size of the BAR1 window in MiB.")
        .Whole("MiB", kPerMiB),
    DcgmField(kGpuMemoryBar1Used, "DCGM_FI_DEV_BAR1_USED", "BAR1 window in use in MiB.")
        .Whole("MiB", kPerMiB),
    DcgmField(kGpuMemoryBar1Free, "DCGM_FI_DEV_BAR1_FREE", "BAR1 window free in MiB.").Whole("MiB", kPerMiB),
    DcgmField(kGpuPowerDraw, "DCGM_FI_DEV_POWER_USAGE", "Power drawn by the board in W.")
        .Since46("DCGM_FI_DEV_BOARD_POWER_WATTS")
        .In("W"),
    DcgmField(kGpuPowerInstant, "DCGM_FI_DEV_POWER_USAGE_INSTANT",
              "Power drawn at the moment of reading in W.")
        .Since46("DCGM_FI_DEV_BOARD_POWER_RAW_WATTS")
        .In("W"),
    DcgmField(kGpuPowerLimit, "DCGM_FI_DEV_ENFORCED_POWER_LIMIT", "Power limit in force in W.")
        .Since46("DCGM_FI_DEV_BOARD_POWER_LIMIT_ENFORCED_WATTS")
        .In("W")
        .Where("gpu.power.limit_type", "enforced"),
    DcgmField(kGpuPowerLimit, "DCGM_FI_DEV_POWER_MGMT_LIMIT", "Requested power limit in W.")
        .Since46("DCGM_FI_DEV_BOARD_POWER_LIMIT_REQUESTED_WATTS")
        .In("W")
        .Where("gpu.power.limit_type", "requested"),
    DcgmField(kGpuPowerLimit, "DCGM_FI_DEV_POWER_MGMT_LIMIT_DEF", "Power limit at delivery in W.")
        .Since46("DCGM_FI_DEV_BOARD_POWER_LIMIT_DEFAULT_WATTS")
        .In("W")
        .Where("gpu.power.limit_type", "default"),
    DcgmField(kGpuPowerLimit, "DCGM_FI_DEV_POWER_MGMT_LIMIT_MIN", "Least power limit that can be set in W.")
        .Since46("DCGM_FI_DEV_BOARD_POWER_LIMIT_MIN_WATTS")
        .In("W")
        .Where("gpu.power.limit_type", "min"),
    DcgmField(kGpuPowerLimit, "DCGM_FI_DEV_POWER_MGMT_LIMIT_MAX",
              "Greatest power limit that can be set in W.")
        .Since46("DCGM_FI_DEV_BOARD_POWER_LIMIT_MAX_WATTS")
        .In("W")
        .Where("gpu.power.limit_type", "max"),
    DcgmField(kGpuEnergyConsumption, "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION",
              "Energy used since the driver was loaded in mJ.")
        .Counter()
        .Whole("mJ", 1000),
    DcgmField(kGpuTemperature, "DCGM_FI_DEV_GPU_TEMP", "Temperature of the GPU in C.")
        .Since46("DCGM_FI_DEV_GPU_TEMP_CELSIUS")
        .In("C")
        .Where("gpu.temperature.sensor", "edge"),
    DcgmField(kGpuTemperature, "DCGM_FI_DEV_MEMORY_TEMP", "Temperature of device memory in C.")
        .Since46("DCGM_FI_DEV_MEMORY_TEMP_CELSIUS")
        .In("C")
        .Where("gpu.temperature.sensor", "memory"),
    DcgmField(kGpuTemperatureLimit, "DCGM_FI_DEV_SLOWDOWN_TEMP",
              "Temperature at which the GPU slows down in C.")
        .Since46("DCGM_FI_DEV_GPU_TEMP_SLOWDOWN_CELSIUS")
        .In("C")
        .Where("gpu.temperature.sensor", "edge")
        .Where("gpu.temperature.limit_type", "slowdown"),
    DcgmField(kGpuTemperatureLimit, "DCGM_FI_DEV_SHUTDOWN_TEMP",
              "Temperature at which the GPU turns itself off in C.")
        .Since46("DCGM_FI_DEV_GPU_TEMP_SHUTDOWN_CELSIUS")
        .In("C")
        .Where("gpu.temperature.sensor", "edge")
        .Where("gpu.temperature.limit_type", "shutdown"),
    DcgmField(kGpuTemperatureLimit, "DCGM_FI_DEV_GPU_MAX_OP_TEMP",
              "Highest temperature of normal operation in C.")
        .Since46("DCGM_FI_DEV_GPU_MAX_OP_TEMP_CELSIUS")
        .In("C")
        .Where("gpu.temperature.sensor", "edge")
        .Where("gpu.temperature.limit_type", "max_operating"),
    DcgmField(kGpuTemperatureLimit, "DCGM_FI_DEV_MEM_MAX_OP_TEMP",
              "Highest temperature of device memory in normal operation in C.")
        .Since46("DCGM_FI_DEV_MEMORY_MAX_OP_TEMP_CELSIUS")
        .In("C")
        .Where("gpu.temperature.sensor", "memory")
        .Where("gpu.temperature.limit_type", "max_operating"),
    DcgmField(kGpuTemperatureMargin, "DCGM_FI_DEV_GPU_TEMP_LIMIT",
              "Distance to the temperature at which the GPU slows down in C.")
        .Since46("DCGM_FI_DEV_GPU_TEMP_MARGIN_CELSIUS")
        .In("C"),
    DcgmField(kGpuClockFrequency, "DCGM_FI_DEV_SM_CLOCK", "SM clock in MHz.")
        .In("MHz")
        .Where("gpu.clock.type", "sm"),
    DcgmField(kGpuClockFrequency, "DCGM_FI_DEV_MEM_CLOCK", "Memory clock in MHz.")
        .In("MHz")
        .Where("gpu.clock.type", "memory"),
    DcgmField(kGpuClockFrequency, "DCGM_FI_DEV_VIDEO_CLOCK", "Video clock in MHz.")
        .In("MHz")
        .Where("gpu.clock.type", "video"),
    DcgmField(kGpuClockMax, "DCGM_FI_DEV_MAX_SM_CLOCK", "Highest SM clock in MHz.")
        .In("MHz")
        .Where("gpu.clock.type", "sm"),
    DcgmField(kGpuClockMax, "DCGM_FI_DEV_MAX_MEM_CLOCK", "Highest memory clock in MHz.")
        .In("MHz")
        .Where("gpu.clock.type", "memory"),
    DcgmField(kGpuClockMax, "DCGM_FI_DEV_MAX_VIDEO_CLOCK", "Highest video clock in MHz.")
        .In("MHz")
        .Where("gpu.clock.type", "video"),
    DcgmField(kGpuClockLimit, "DCGM_FI_DEV_APP_SM_CLOCK", "SM clock requested by applications in MHz.")
        .In("MHz")
        .Where("gpu.clock.type", "sm")
        .Where("gpu.clock.limit_type", "application"),
    DcgmField(kGpuClockLimit, "DCGM_FI_DEV_APP_MEM_CLOCK", "Memory clock requested by applications in MHz.")
        .In("MHz")
        .Where("gpu.clock.type", "memory")
        .Where("gpu.clock.limit_type", "application"),
    DcgmField(kGpuPowerState, "DCGM_FI_DEV_PSTATE", "Performance state, 0 fastest to 15 slowest.")
        .Since46("DCGM_FI_DEV_GPU_PSTATE"),
    DcgmField(kGpuFanSpeed, "DCGM_FI_DEV_FAN_SPEED", "Intended fan speed, 0 to 100.").Whole("%", 100),
    DcgmField(kGpuPcieThroughput, "DCGM_FI_DEV_PCIE_TX_THROUGHPUT", "PCIe transmit rate in KB/s.")
        .Whole("KB/s", kPerKiB)
        .Where("gpu.interconnect.direction", "transmit")
        .Where("gpu.interconnect.source", ""),
    DcgmField(kGpuPcieThroughput, "DCGM_FI_DEV_PCIE_RX_THROUGHPUT", "PCIe receive rate in KB/s.")
        .Whole("KB/s", kPerKiB)
        .Where("gpu.interconnect.direction", "receive")
        .Where("gpu.interconnect.source", ""),
    DcgmField(kGpuPersistenceEnabled, "DCGM_FI_DEV_PERSISTENCE_MODE",
              "1 when the driver stays loaded without clients.")
        .Since46("DCGM_FI_DEV_GPU_PERSISTENCE_MODE"),
    DcgmField(kGpuMigMode, "DCGM_FI_DEV_MIG_MODE", "1 when the GPU is split into MIG instances.")
        .Where("gpu.mig.mode_type", "current"),
    DcgmField(kGpuMigInstancesMax, "DCGM_FI_DEV_MIG_MAX_SLICES", "Most MIG devices that the GPU can hold."),
    DcgmField(kGpuConfidentialComputeEnabled, "DCGM_FI_DEV_CC_MODE", "1 when confidential computing is on."),
    DcgmField(kGpuVgpuLicensed, "DCGM_FI_DEV_VGPU_LICENSE_STATUS", "1 when the vGPU licence is valid."),
};

}  // namespace gpulens
