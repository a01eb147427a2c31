// The names of dcgm-exporter: all fields of its default and profiling lists that NVML or GPM have, with its
// labels, units and types. One row per field:
//
//   DcgmField(kGpuFanSpeed, "DCGM_FI_DEV_FAN_SPEED", "Intended fan speed, 0 to 100.").Whole("%", 100)
//
// `dcgm` has dcgm-exporter's present names, `dcgm@4.6` those of DCGM 4.6's fields. Fields that are codes or
// texts (recovery action, compute mode, versions other than the driver's) and fields of NVSwitches and CPUs
// are left out.
#pragma once

#include "catalog/gpu.h"
#include "names/naming.h"

namespace gpulens {

struct DcgmField {
  // A row is a gauge in the unit of the native metric unless the builders below change it.
  constexpr DcgmField(const MetricDesc& from, std::string_view field, std::string_view meaning)
      : native(&from), name(field), name_4_6(field), help(meaning) {}

  // Sets the field's name since DCGM 4.6, where it differs.
  constexpr DcgmField Since46(std::string_view field) {
    name_4_6 = field;
    return *this;
  }
  // A counter in dcgm-exporter's list.
  constexpr DcgmField Counter() {
    kind = Kind::kCounter;
    return *this;
  }
  constexpr DcgmField In(std::string_view its_unit, double factor = 1) {
    unit = its_unit;
    scale = factor;
    return *this;
  }
  // As In, for an integer field.
  constexpr DcgmField Whole(std::string_view its_unit, double factor) {
    whole = true;
    return In(its_unit, factor);
  }
  // Selects series with this attribute; empty: those without it.
  constexpr DcgmField Where(std::string_view key, std::string_view value) {
    size_t at = 0;
    while (!where.at(at).key.empty()) ++at;
    where[at] = {key, value};
    return *this;
  }

  // Leaves out GPUs that have the better series.
  constexpr DcgmField Unless(std::span<const Rival> better) {
    unless = better;
    return *this;
  }

  const MetricDesc* native;
  std::string_view name, name_4_6, unit = {}, help;
  Kind kind = Kind::kGauge;
  double scale = 1;
  bool whole = false;
  std::array<NamingWhere, 3> where = {};
  std::span<const Rival> unless = {};
};

inline constexpr double kPerKiB = 1.0 / 1024, kPerMiB = 1.0 / (1 << 20), kPerMega = 1e-6;

constexpr DcgmField DcgmMemory(const MetricDesc& from, std::string_view field, std::string_view meaning) {
  return DcgmField(from, field, meaning).Whole("MiB", kPerMiB);
}

// Clocks in MHz, and limits of power in W and of temperatures in C. `field_4_6`: the field's name since
// DCGM 4.6.
constexpr DcgmField DcgmClock(const MetricDesc& from, std::string_view type, std::string_view field,
                              std::string_view meaning) {
  return DcgmField(from, field, meaning).In("MHz").Where("gpu.clock.type", type);
}
constexpr DcgmField DcgmPowerLimit(std::string_view limit, std::string_view field, std::string_view field_4_6,
                                   std::string_view meaning) {
  return DcgmField(kGpuPowerLimit, field, meaning)
      .Since46(field_4_6)
      .In("W")
      .Where("gpu.power.limit_type", limit);
}
constexpr DcgmField DcgmTemperatureLimit(std::string_view sensor, std::string_view limit,
                                         std::string_view field, std::string_view field_4_6,
                                         std::string_view meaning) {
  return DcgmField(kGpuTemperatureLimit, field, meaning)
      .Since46(field_4_6)
      .In("C")
      .Where("gpu.temperature.sensor", sensor)
      .Where("gpu.temperature.limit_type", limit);
}

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
    DcgmMemory(kGpuMemoryTotal, "DCGM_FI_DEV_FB_TOTAL", "Size of device memory in MiB."),
    DcgmMemory(kGpuMigMemoryTotal, "DCGM_FI_DEV_FB_TOTAL", "Size of device memory in MiB."),
    DcgmMemory(kGpuMemoryUsed, "DCGM_FI_DEV_FB_USED", "Device memory in use in MiB."),
    DcgmMemory(kGpuMigMemoryUsed, "DCGM_FI_DEV_FB_USED", "Device memory in use in MiB."),
    DcgmMemory(kGpuMemoryFree, "DCGM_FI_DEV_FB_FREE", "Device memory free in MiB."),
    DcgmMemory(kGpuMigMemoryFree, "DCGM_FI_DEV_FB_FREE", "Device memory free in MiB."),
    DcgmMemory(kGpuMemoryReserved, "DCGM_FI_DEV_FB_RESERVED",
               "Device memory that the driver holds back in MiB."),
    DcgmMemory(kGpuMigMemoryReserved, "DCGM_FI_DEV_FB_RESERVED",
               "Device memory that the driver holds back in MiB."),
    DcgmField(kGpuMemoryUsedPercent, "DCGM_FI_DEV_FB_USED_PERCENT", "Share of device memory in use, 0 to 1.")
        .Since46("DCGM_FI_DEV_FB_USED_RATIO")
        .In("", 0.01),
    DcgmMemory(kGpuMemoryBar1Total, "DCGM_FI_DEV_BAR1_TOTAL", "Size of the BAR1 window in MiB."),
    DcgmMemory(kGpuMemoryBar1Used, "DCGM_FI_DEV_BAR1_USED", "BAR1 window in use in MiB."),
    DcgmMemory(kGpuMemoryBar1Free, "DCGM_FI_DEV_BAR1_FREE", "BAR1 window free in MiB."),
    DcgmField(kGpuPowerDraw, "DCGM_FI_DEV_POWER_USAGE", "Power drawn by the board in W.")
        .Since46("DCGM_FI_DEV_BOARD_POWER_WATTS")
        .In("W"),
    DcgmField(kGpuPowerInstant, "DCGM_FI_DEV_POWER_USAGE_INSTANT",
              "Power drawn at the moment of reading in W.")
        .Since46("DCGM_FI_DEV_BOARD_POWER_RAW_WATTS")
        .In("W"),
    DcgmPowerLimit("enforced", "DCGM_FI_DEV_ENFORCED_POWER_LIMIT",
                   "DCGM_FI_DEV_BOARD_POWER_LIMIT_ENFORCED_WATTS", "Power limit in force in W."),
    DcgmPowerLimit("requested", "DCGM_FI_DEV_POWER_MGMT_LIMIT",
                   "DCGM_FI_DEV_BOARD_POWER_LIMIT_REQUESTED_WATTS", "Requested power limit in W."),
    DcgmPowerLimit("default", "DCGM_FI_DEV_POWER_MGMT_LIMIT_DEF",
                   "DCGM_FI_DEV_BOARD_POWER_LIMIT_DEFAULT_WATTS", "Power limit at delivery in W."),
    DcgmPowerLimit("min", "DCGM_FI_DEV_POWER_MGMT_LIMIT_MIN", "DCGM_FI_DEV_BOARD_POWER_LIMIT_MIN_WATTS",
                   "Least power limit that can be set in W."),
    DcgmPowerLimit("max", "DCGM_FI_DEV_POWER_MGMT_LIMIT_MAX", "DCGM_FI_DEV_BOARD_POWER_LIMIT_MAX_WATTS",
                   "Greatest power limit that can be set in W."),
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
    DcgmTemperatureLimit("edge", "slowdown", "DCGM_FI_DEV_SLOWDOWN_TEMP",
                         "DCGM_FI_DEV_GPU_TEMP_SLOWDOWN_CELSIUS",
                         "Temperature at which the GPU slows down in C."),
    DcgmTemperatureLimit("edge", "shutdown", "DCGM_FI_DEV_SHUTDOWN_TEMP",
                         "DCGM_FI_DEV_GPU_TEMP_SHUTDOWN_CELSIUS",
                         "Temperature at which the GPU turns itself off in C."),
    DcgmTemperatureLimit("edge", "max_operating", "DCGM_FI_DEV_GPU_MAX_OP_TEMP",
                         "DCGM_FI_DEV_GPU_MAX_OP_TEMP_CELSIUS",
                         "Highest temperature of normal operation in C."),
    DcgmTemperatureLimit("memory", "max_operating", "DCGM_FI_DEV_MEM_MAX_OP_TEMP",
                         "DCGM_FI_DEV_MEMORY_MAX_OP_TEMP_CELSIUS",
                         "Highest temperature of device memory in normal operation in C."),
    DcgmField(kGpuTemperatureMargin, "DCGM_FI_DEV_GPU_TEMP_LIMIT",
              "Distance to the temperature at which the GPU slows down in C.")
        .Since46("DCGM_FI_DEV_GPU_TEMP_MARGIN_CELSIUS")
        .In("C"),
    DcgmClock(kGpuClockFrequency, "sm", "DCGM_FI_DEV_SM_CLOCK", "SM clock in MHz."),
    DcgmClock(kGpuClockFrequency, "memory", "DCGM_FI_DEV_MEM_CLOCK", "Memory clock in MHz."),
    DcgmClock(kGpuClockFrequency, "video", "DCGM_FI_DEV_VIDEO_CLOCK", "Video clock in MHz."),
    DcgmClock(kGpuClockMax, "sm", "DCGM_FI_DEV_MAX_SM_CLOCK", "Highest SM clock in MHz."),
    DcgmClock(kGpuClockMax, "memory", "DCGM_FI_DEV_MAX_MEM_CLOCK", "Highest memory clock in MHz."),
    DcgmClock(kGpuClockMax, "video", "DCGM_FI_DEV_MAX_VIDEO_CLOCK", "Highest video clock in MHz."),
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

// A GPU that had an XID has the code of the last one.
inline constexpr const MetricDesc* kLastXid[] = {&kGpuXidLastErrorCode};
inline constexpr std::string_view kSameGpu[] = {"gpu.uuid", "gpu.index"};
inline constexpr Rival kHadAnXid[] = {{.metrics = kLastXid, .same = kSameGpu}};

// Time in nanoseconds for which clocks were held down, by cause or policy.
constexpr DcgmField DcgmTime(const MetricDesc& from, std::string_view cause, std::string_view field,
                             std::string_view meaning) {
  return DcgmField(from, field, meaning)
      .Counter()
      .Whole("ns", 1e9)
      .Where(&from == &kGpuThrottleTime ? "gpu.throttle.cause" : "gpu.violation.policy", cause);
}

// Memory banks by availability of spare rows.
constexpr DcgmField DcgmRemapBanks(std::string_view availability, std::string_view field,
                                   std::string_view field_4_6, std::string_view meaning) {
  return DcgmField(kGpuRowRemapBanks, field, meaning)
      .Since46(field_4_6)
      .Where("gpu.row_remap.availability", availability);
}

inline constexpr DcgmField kDcgmErrors[] = {
    DcgmField(kGpuXidLastErrorCode, "DCGM_FI_DEV_XID_ERRORS",
              "Code of the last XID; 0 while XIDs are watched and none has occurred.")
        .Since46("DCGM_FI_DEV_XID_ERROR"),
    // The count of XIDs exists from the start; this row exports 0 for it and nothing else.
    DcgmField(kGpuXidErrors, "DCGM_FI_DEV_XID_ERRORS",
              "Code of the last XID; 0 while XIDs are watched and none has occurred.")
        .Since46("DCGM_FI_DEV_XID_ERROR")
        .Whole("", 0)
        .Unless(kHadAnXid),
    DcgmField(kGpuThrottleMask, "DCGM_FI_DEV_CLOCKS_EVENT_REASONS",
              "Reasons that hold the clocks down, as the bit mask of the driver."),
    DcgmTime(kGpuThrottleTime, "power_software", "DCGM_FI_DEV_CLOCKS_EVENT_REASON_SW_POWER_CAP_NS",
             "Time for which clocks were held down by the power limit, in ns."),
    DcgmTime(kGpuThrottleTime, "syncboost", "DCGM_FI_DEV_CLOCKS_EVENT_REASON_SYNC_BOOST_NS",
             "Time for which clocks were held down by a sync boost group, in ns."),
    DcgmTime(kGpuThrottleTime, "temp_software", "DCGM_FI_DEV_CLOCKS_EVENT_REASON_SW_THERM_SLOWDOWN_NS",
             "Time for which clocks were held down by heat, by the driver, in ns."),
    DcgmTime(kGpuThrottleTime, "temp_hardware", "DCGM_FI_DEV_CLOCKS_EVENT_REASON_HW_THERM_SLOWDOWN_NS",
             "Time for which clocks were held down by heat, by the board, in ns."),
    DcgmTime(kGpuThrottleTime, "power_brake", "DCGM_FI_DEV_CLOCKS_EVENT_REASON_HW_POWER_BRAKE_SLOWDOWN_NS",
             "Time for which clocks were held down by the power brake, in ns."),
    DcgmTime(kGpuViolationTime, "power", "DCGM_FI_DEV_POWER_VIOLATION",
             "Time for which the GPU was slowed by the power limit, in ns."),
    DcgmTime(kGpuViolationTime, "thermal", "DCGM_FI_DEV_THERMAL_VIOLATION",
             "Time for which the GPU was slowed by heat, in ns."),
    DcgmTime(kGpuViolationTime, "sync_boost", "DCGM_FI_DEV_SYNC_BOOST_VIOLATION",
             "Time for which the GPU was slowed by a sync boost group, in ns."),
    DcgmTime(kGpuViolationTime, "board_limit", "DCGM_FI_DEV_BOARD_LIMIT_VIOLATION",
             "Time for which the GPU was slowed by a limit of the board, in ns."),
    DcgmTime(kGpuViolationTime, "low_utilization", "DCGM_FI_DEV_LOW_UTIL_VIOLATION",
             "Time for which the GPU was slowed by low load, in ns."),
    DcgmTime(kGpuViolationTime, "reliability", "DCGM_FI_DEV_RELIABILITY_VIOLATION",
             "Time for which the GPU was slowed by the reliability limit, in ns."),
    DcgmTime(kGpuViolationTime, "application_clocks", "DCGM_FI_DEV_TOTAL_APP_CLOCKS_VIOLATION",
             "Time for which the GPU was slowed by anything, below the application clock, in ns."),
    DcgmTime(kGpuViolationTime, "base_clocks", "DCGM_FI_DEV_TOTAL_BASE_CLOCKS_VIOLATION",
             "Time for which the GPU was slowed by anything, below the base clock, in ns."),
    DcgmField(kGpuRetiredPages, "DCGM_FI_DEV_RETIRED_SBE", "Memory pages retired for single-bit errors.")
        .Since46("DCGM_FI_DEV_PAGE_RETIRED_SBE_TOTAL")
        .Counter()
        .Where("gpu.ecc.error_type", "correctable"),
    DcgmField(kGpuRetiredPages, "DCGM_FI_DEV_RETIRED_DBE", "Memory pages retired for double-bit errors.")
        .Since46("DCGM_FI_DEV_PAGE_RETIRED_DBE_TOTAL")
        .Counter()
        .Where("gpu.ecc.error_type", "uncorrectable"),
    DcgmField(kGpuRetiredPagesPending, "DCGM_FI_DEV_RETIRED_PENDING",
              "1 when pages wait for a reboot to be retired.")
        .Since46("DCGM_FI_DEV_PAGE_RETIRED_PENDING")
        .Counter(),
    DcgmField(kGpuRowRemapCount, "DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS",
              "Memory rows replaced for corrected errors.")
        .Since46("DCGM_FI_DEV_ROW_REMAP_CORRECTABLE_TOTAL")
        .Counter()
        .Where("gpu.ecc.error_type", "correctable"),
    DcgmField(kGpuRowRemapCount, "DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS",
              "Memory rows replaced for uncorrected errors.")
        .Since46("DCGM_FI_DEV_ROW_REMAP_UNCORRECTABLE_TOTAL")
        .Counter()
        .Where("gpu.ecc.error_type", "uncorrectable"),
    DcgmField(kGpuRowRemapFailed, "DCGM_FI_DEV_ROW_REMAP_FAILURE", "1 when a row could not be replaced.")
        .Since46("DCGM_FI_DEV_ROW_REMAP_FAILED"),
    DcgmField(kGpuRowRemapResetPending, "DCGM_FI_DEV_ROW_REMAP_PENDING",
              "1 when a row replacement waits for a reset."),
    DcgmRemapBanks("max", "DCGM_FI_DEV_BANKS_REMAP_ROWS_AVAIL_MAX", "DCGM_FI_DEV_BANK_REMAP_AVAIL_MAX",
                   "Memory banks with all their spare rows."),
    DcgmRemapBanks("high", "DCGM_FI_DEV_BANKS_REMAP_ROWS_AVAIL_HIGH", "DCGM_FI_DEV_BANK_REMAP_AVAIL_HIGH",
                   "Memory banks with high availability of spare rows."),
    DcgmRemapBanks("partial", "DCGM_FI_DEV_BANKS_REMAP_ROWS_AVAIL_PARTIAL",
                   "DCGM_FI_DEV_BANK_REMAP_AVAIL_PARTIAL",
                   "Memory banks with partial availability of spare rows."),
    DcgmRemapBanks("low", "DCGM_FI_DEV_BANKS_REMAP_ROWS_AVAIL_LOW", "DCGM_FI_DEV_BANK_REMAP_AVAIL_LOW",
                   "Memory banks with low availability of spare rows."),
    DcgmRemapBanks("none", "DCGM_FI_DEV_BANKS_REMAP_ROWS_AVAIL_NONE", "DCGM_FI_DEV_BANK_REMAP_AVAIL_NONE",
                   "Memory banks without a spare row."),
    DcgmField(kGpuMemoryUnrepairable, "DCGM_FI_DEV_MEMORY_UNREPAIRABLE_FLAG",
              "1 when memory errors can no longer be repaired.")
        .Since46("DCGM_FI_DEV_MEMORY_UNREPAIRABLE"),
    DcgmField(kGpuInforomValid, "DCGM_FI_DEV_INFOROM_CONFIG_VALID",
              "1 when the checksums of the InfoROM agree.")
        .Since46("DCGM_FI_DEV_INFOROM_VALID"),
    DcgmField(kGpuFabricStatus, "DCGM_FI_DEV_FABRIC_MANAGER_ERROR_CODE",
              "Result code of the last fabric registration.")
        .Since46("DCGM_FI_DEV_FABRIC_MANAGER_ERROR"),
};

// Errors of one kind by place; an empty place is the whole GPU.
constexpr DcgmField DcgmEcc(std::string_view count, std::string_view type, std::string_view place,
                            std::string_view field, std::string_view meaning) {
  return DcgmField(place.empty() ? kGpuEccErrors : kGpuEccLocationErrors, field, meaning)
      .Counter()
      .Where("gpu.ecc.count_type", count)
      .Where("gpu.ecc.error_type", type)
      .Where("gpu.ecc.memory_block", place);
}

#define DCGM_ECC(count, field_count, place, field_place, place_name)                             \
  DcgmEcc(count, "correctable", place, "DCGM_FI_DEV_ECC_SBE_" field_count "_" field_place,       \
          "Corrected errors in " place_name "."),                                                \
      DcgmEcc(count, "uncorrectable", place, "DCGM_FI_DEV_ECC_DBE_" field_count "_" field_place, \
              "Uncorrected errors in " place_name ".")
inline constexpr DcgmField kDcgmEcc[] = {
    DcgmEcc("volatile", "correctable", "", "DCGM_FI_DEV_ECC_SBE_VOL_TOTAL",
            "Corrected memory errors since the driver was loaded."),
    DcgmEcc("volatile", "uncorrectable", "", "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL",
            "Uncorrected memory errors since the driver was loaded."),
    DcgmEcc("aggregate", "correctable", "", "DCGM_FI_DEV_ECC_SBE_AGG_TOTAL",
            "Corrected memory errors in the life of the board."),
    DcgmEcc("aggregate", "uncorrectable", "", "DCGM_FI_DEV_ECC_DBE_AGG_TOTAL",
            "Uncorrected memory errors in the life of the board."),
    DCGM_ECC("volatile", "VOL", "l1", "L1", "the L1 cache"),
    DCGM_ECC("volatile", "VOL", "l2", "L2", "the L2 cache"),
    DCGM_ECC("volatile", "VOL", "dram", "DEV", "device memory"),
    DCGM_ECC("volatile", "VOL", "register", "REG", "registers"),
    DCGM_ECC("volatile", "VOL", "texture", "TEX", "texture memory"),
    DCGM_ECC("volatile", "VOL", "shared", "SHM", "shared memory"),
    DcgmEcc("volatile", "uncorrectable", "cbu", "DCGM_FI_DEV_ECC_DBE_VOL_CBU",
            "Uncorrected errors in the CBU."),
    DCGM_ECC("volatile", "VOL", "sram", "SRM", "SRAM"),
    DCGM_ECC("aggregate", "AGG", "l1", "L1", "the L1 cache"),
    DCGM_ECC("aggregate", "AGG", "l2", "L2", "the L2 cache"),
    DCGM_ECC("aggregate", "AGG", "dram", "DEV", "device memory"),
    DCGM_ECC("aggregate", "AGG", "register", "REG", "registers"),
    DCGM_ECC("aggregate", "AGG", "texture", "TEX", "texture memory"),
    DCGM_ECC("aggregate", "AGG", "shared", "SHM", "shared memory"),
    DcgmEcc("aggregate", "uncorrectable", "cbu", "DCGM_FI_DEV_ECC_DBE_AGG_CBU",
            "Uncorrected errors in the CBU."),
    DCGM_ECC("aggregate", "AGG", "sram", "SRM", "SRAM"),
    DcgmField(kGpuEccSramThresholdExceeded, "DCGM_FI_DEV_THRESHOLD_SRM",
              "1 when SRAM errors exceed their threshold.")
        .Since46("DCGM_FI_DEV_SRAM_EXCEEDED"),
    DcgmField(kGpuEccMode, "DCGM_FI_DEV_ECC_CURRENT", "1 when ECC is on.")
        .Since46("DCGM_FI_DEV_ECC_MODE")
        .Where("gpu.ecc.mode_type", "current"),
    DcgmField(kGpuEccMode, "DCGM_FI_DEV_ECC_PENDING", "1 when ECC will be on after the next reset.")
        .Where("gpu.ecc.mode_type", "pending"),
};
#undef DCGM_ECC

// Errors of NVLinks by type, and recoveries by result.
constexpr DcgmField DcgmNvlinkCount(const MetricDesc& from, std::string_view type_or_result,
                                    std::string_view field, std::string_view field_4_6,
                                    std::string_view meaning) {
  const bool recoveries = &from == &kGpuInterconnectLinkRecoveries;
  return DcgmField(from, field, meaning)
      .Since46(field_4_6)
      .Counter()
      .Where("gpu.interconnect.type", "nvlink")
      .Where(recoveries ? "gpu.interconnect.result" : "gpu.interconnect.error_type", type_or_result);
}

inline constexpr DcgmField kDcgmLinks[] = {
    DcgmField(kGpuPcieReplayCount, "DCGM_FI_DEV_PCIE_REPLAY_COUNTER", "PCIe replays.")
        .Since46("DCGM_FI_DEV_PCIE_REPLAY_TOTAL")
        .Counter(),
    DcgmField(kGpuPcieErrors, "DCGM_FI_DEV_PCIE_COUNT_CORRECTABLE_ERRORS", "Correctable PCIe errors.")
        .Since46("DCGM_FI_DEV_PCIE_CORRECTABLE_ERROR_TOTAL")
        .Counter()
        .Where("gpu.pcie.error_type", "correctable"),
    DcgmField(kGpuPcieLinkGenMax, "DCGM_FI_DEV_PCIE_MAX_LINK_GEN",
              "Highest PCIe generation of GPU and slot."),
    DcgmField(kGpuPcieLinkWidthMax, "DCGM_FI_DEV_PCIE_MAX_LINK_WIDTH", "Most PCIe lanes of GPU and slot."),
    DcgmField(kGpuPcieLinkGenCurrent, "DCGM_FI_DEV_PCIE_LINK_GEN", "PCIe generation in use."),
    DcgmField(kGpuPcieLinkWidthCurrent, "DCGM_FI_DEV_PCIE_LINK_WIDTH", "PCIe lanes in use."),
    DcgmField(kGpuInterconnectBandwidth, "DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL",
              "NVLink traffic in both directions now, in MB/s: a rate, despite its type.")
        .Since46("DCGM_FI_DEV_NVLINK_THROUGHPUT_TOTAL")
        .Counter()
        .Whole("MB/s", kPerMega)
        .Where("gpu.interconnect.type", "nvlink"),
    DcgmField(kGpuInterconnectThroughput, "DCGM_FI_DEV_NVLINK_TX_BANDWIDTH_TOTAL",
              "NVLink transmit rate in MB/s.")
        .Since46("DCGM_FI_DEV_NVLINK_TX_THROUGHPUT_TOTAL")
        .Whole("MB/s", kPerMega)
        .Where("gpu.interconnect.direction", "transmit")
        .Where("gpu.interconnect.type", "nvlink")
        .Where("gpu.interconnect.source", ""),
    DcgmField(kGpuInterconnectThroughput, "DCGM_FI_DEV_NVLINK_RX_BANDWIDTH_TOTAL",
              "NVLink receive rate in MB/s.")
        .Since46("DCGM_FI_DEV_NVLINK_RX_THROUGHPUT_TOTAL")
        .Whole("MB/s", kPerMega)
        .Where("gpu.interconnect.direction", "receive")
        .Where("gpu.interconnect.type", "nvlink")
        .Where("gpu.interconnect.source", ""),
    DcgmField(kGpuInterconnectLinks, "DCGM_FI_DEV_C2C_LINK_COUNT", "C2C links that are up.")
        .Since46("DCGM_FI_DEV_C2C_LINK_QUANTITY")
        .Where("gpu.interconnect.type", "c2c")
        .Where("gpu.interconnect.state", "active"),
    DcgmNvlinkCount(kGpuInterconnectErrors, "crc_flit", "DCGM_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL",
                    "DCGM_FI_DEV_NVLINK_CRC_FLIT_ERROR_TOTAL", "NVLink flow control CRC errors."),
    DcgmNvlinkCount(kGpuInterconnectErrors, "crc_data", "DCGM_FI_DEV_NVLINK_CRC_DATA_ERROR_COUNT_TOTAL",
                    "DCGM_FI_DEV_NVLINK_CRC_DATA_ERROR_TOTAL", "NVLink data CRC errors."),
    DcgmNvlinkCount(kGpuInterconnectErrors, "replay", "DCGM_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL",
                    "DCGM_FI_DEV_NVLINK_REPLAY_ERROR_TOTAL", "NVLink replays."),
    DcgmNvlinkCount(kGpuInterconnectErrors, "recovery", "DCGM_FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_TOTAL",
                    "DCGM_FI_DEV_NVLINK_RECOVERY_ERROR_TOTAL", "NVLink recoveries."),
    DcgmNvlinkCount(kGpuInterconnectErrors, "ecc_data", "DCGM_FI_DEV_NVLINK_ECC_DATA_ERROR_COUNT_TOTAL",
                    "DCGM_FI_DEV_NVLINK_ECC_ERROR_TOTAL", "NVLink data ECC errors."),
};

inline constexpr DcgmField kDcgmPerLink[] = {
    DcgmField(kGpuInterconnectIo, "DCGM_FI_DEV_NVLINK_COUNT_TX_BYTES", "Bytes over one NVLink, transmit.")
        .Since46("DCGM_FI_DEV_NVLINK_TX_BYTES_TOTAL")
        .Counter()
        .In("B")
        .Where("gpu.interconnect.direction", "transmit")
        .Where("gpu.interconnect.type", "nvlink"),
    DcgmField(kGpuInterconnectPackets, "DCGM_FI_DEV_NVLINK_COUNT_TX_PACKETS",
              "Packets over one NVLink, transmit.")
        .Since46("DCGM_FI_DEV_NVLINK_TX_PACKET_TOTAL")
        .Counter()
        .Where("gpu.interconnect.direction", "transmit")
        .Where("gpu.interconnect.type", "nvlink"),
    DcgmField(kGpuInterconnectIo, "DCGM_FI_DEV_NVLINK_COUNT_RX_BYTES", "Bytes over one NVLink, receive.")
        .Since46("DCGM_FI_DEV_NVLINK_RX_BYTES_TOTAL")
        .Counter()
        .In("B")
        .Where("gpu.interconnect.direction", "receive")
        .Where("gpu.interconnect.type", "nvlink"),
    DcgmField(kGpuInterconnectPackets, "DCGM_FI_DEV_NVLINK_COUNT_RX_PACKETS",
              "Packets over one NVLink, receive.")
        .Since46("DCGM_FI_DEV_NVLINK_RX_PACKET_TOTAL")
        .Counter()
        .Where("gpu.interconnect.direction", "receive")
        .Where("gpu.interconnect.type", "nvlink"),
    DcgmNvlinkCount(kGpuInterconnectLinkErrors, "malformed",
                    "DCGM_FI_DEV_NVLINK_COUNT_RX_MALFORMED_PACKET_ERRORS",
                    "DCGM_FI_DEV_NVLINK_RX_PACKET_MALFORMED_TOTAL", "Malformed packets received."),
    DcgmNvlinkCount(kGpuInterconnectLinkErrors, "overrun",
                    "DCGM_FI_DEV_NVLINK_COUNT_RX_BUFFER_OVERRUN_ERRORS",
                    "DCGM_FI_DEV_NVLINK_RX_PACKET_DROPPED_TOTAL", "Packets dropped since a buffer was full."),
    DcgmNvlinkCount(kGpuInterconnectLinkErrors, "receive", "DCGM_FI_DEV_NVLINK_COUNT_RX_ERRORS",
                    "DCGM_FI_DEV_NVLINK_RX_ERROR_TOTAL", "Packets received with errors."),
    DcgmNvlinkCount(kGpuInterconnectLinkErrors, "remote", "DCGM_FI_DEV_NVLINK_COUNT_RX_REMOTE_ERRORS",
                    "DCGM_FI_DEV_NVLINK_RX_REMOTE_ERROR_TOTAL", "Packets that the other end marked bad."),
    DcgmNvlinkCount(kGpuInterconnectLinkErrors, "general", "DCGM_FI_DEV_NVLINK_COUNT_RX_GENERAL_ERRORS",
                    "DCGM_FI_DEV_NVLINK_RX_GENERAL_ERROR_TOTAL", "Packets received with other errors."),
    DcgmNvlinkCount(
        kGpuInterconnectLinkErrors, "integrity", "DCGM_FI_DEV_NVLINK_COUNT_LOCAL_LINK_INTEGRITY_ERRORS",
        "DCGM_FI_DEV_NVLINK_INTEGRITY_ERROR_TOTAL", "Times that link errors passed their threshold."),
    DcgmNvlinkCount(kGpuInterconnectLinkErrors, "discard", "DCGM_FI_DEV_NVLINK_COUNT_TX_DISCARDS",
                    "DCGM_FI_DEV_NVLINK_COUNT_TX_DISCARDS", "Packets discarded without being sent."),
    DcgmNvlinkCount(kGpuInterconnectLinkErrors, "symbol", "DCGM_FI_DEV_NVLINK_COUNT_RX_SYMBOL_ERRORS",
                    "DCGM_FI_DEV_NVLINK_RX_SYMBOL_ERROR_TOTAL", "Symbols received with errors."),
    DcgmNvlinkCount(kGpuInterconnectLinkErrors, "effective", "DCGM_FI_DEV_NVLINK_COUNT_EFFECTIVE_ERRORS",
                    "DCGM_FI_DEV_NVLINK_EFFECTIVE_ERROR_TOTAL", "Errors left after correction."),
    DcgmNvlinkCount(kGpuInterconnectLinkRecoveries, "success",
                    "DCGM_FI_DEV_NVLINK_COUNT_LINK_RECOVERY_SUCCESSFUL_EVENTS",
                    "DCGM_FI_DEV_NVLINK_RECOVERY_SUCCESSFUL_TOTAL", "Link recoveries that succeeded."),
    DcgmNvlinkCount(kGpuInterconnectLinkRecoveries, "failure",
                    "DCGM_FI_DEV_NVLINK_COUNT_LINK_RECOVERY_FAILED_EVENTS",
                    "DCGM_FI_DEV_NVLINK_RECOVERY_FAILED_TOTAL", "Link recoveries that failed."),
    DcgmField(kGpuInterconnectLinkBitErrorRate, "DCGM_FI_DEV_NVLINK_COUNT_EFFECTIVE_BER_FLOAT",
              "Bit error rate after correction.")
        .Since46("DCGM_FI_DEV_NVLINK_EFFECTIVE_BER_RATIO")
        .Where("gpu.interconnect.type", "nvlink")
        .Where("gpu.interconnect.ber_type", "effective"),
    DcgmField(kGpuInterconnectLinkBitErrorRate, "DCGM_FI_DEV_NVLINK_COUNT_SYMBOL_BER_FLOAT",
              "Bit error rate of symbols.")
        .Since46("DCGM_FI_DEV_NVLINK_SYMBOL_BER_RATIO")
        .Where("gpu.interconnect.type", "nvlink")
        .Where("gpu.interconnect.ber_type", "symbol"),
};

// Bytes per second over a link in one direction; an empty type is any.
constexpr DcgmField DcgmRate(const MetricDesc& from, std::string_view direction, std::string_view type,
                             std::string_view field, std::string_view meaning) {
  DcgmField row = DcgmField(from, field, meaning).In("B/s").Where("gpu.interconnect.direction", direction);
  return type.empty() ? row : row.Where("gpu.interconnect.type", type);
}

#define DCGM_ENGINE(field, type, index, engine)                           \
  DcgmField(kGpuEngineUtilization, "DCGM_FI_PROF_" field index "_ACTIVE", \
            "Share of time " engine " " index " was active, 0 to 1.")     \
      .Since46("DCGM_FI_PROF_" field "_UTIL_" index "_RATIO")             \
      .Where("gpu.engine.type", type)                                     \
      .Where("gpu.engine.index", index)
inline constexpr DcgmField kDcgmProfiling[] = {
    DcgmField(kGpuGrEngineActive, "DCGM_FI_PROF_GR_ENGINE_ACTIVE",
              "Share of time the graphics or compute engine was active, 0 to 1.")
        .Since46("DCGM_FI_PROF_GR_ENGINE_UTIL_RATIO"),
    DcgmField(kGpuSmActive, "DCGM_FI_PROF_SM_ACTIVE", "Share of cycles in which an SM had a warp, 0 to 1.")
        .Since46("DCGM_FI_PROF_SM_UTIL_RATIO"),
    DcgmField(kGpuSmOccupancy, "DCGM_FI_PROF_SM_OCCUPANCY", "Resident warps as a share of what fits, 0 to 1.")
        .Since46("DCGM_FI_PROF_SM_OCCUPANCY_RATIO"),
    DcgmField(kGpuPipeTensorActive, "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE",
              "Share of cycles in which a tensor pipe was active, 0 to 1.")
        .Since46("DCGM_FI_PROF_TENSOR_UTIL_RATIO"),
    DcgmField(kGpuDramActive, "DCGM_FI_PROF_DRAM_ACTIVE",
              "Share of cycles in which device memory moved data, 0 to 1.")
        .Since46("DCGM_FI_PROF_DRAM_UTIL_RATIO"),
    DcgmField(kGpuPipeFp64Active, "DCGM_FI_PROF_PIPE_FP64_ACTIVE",
              "Share of cycles in which the FP64 pipe was active, 0 to 1.")
        .Since46("DCGM_FI_PROF_FP64_UTIL_RATIO"),
    DcgmField(kGpuPipeFp32Active, "DCGM_FI_PROF_PIPE_FP32_ACTIVE",
              "Share of cycles in which the FP32 pipe was active, 0 to 1.")
        .Since46("DCGM_FI_PROF_FP32_UTIL_RATIO"),
    DcgmField(kGpuPipeFp16Active, "DCGM_FI_PROF_PIPE_FP16_ACTIVE",
              "Share of cycles in which the FP16 pipe was active, 0 to 1.")
        .Since46("DCGM_FI_PROF_FP16_UTIL_RATIO"),
    DcgmField(kGpuPipeIntActive, "DCGM_FI_PROF_PIPE_INT_ACTIVE",
              "Share of cycles in which the integer pipe was active, 0 to 1.")
        .Since46("DCGM_FI_PROF_INT_UTIL_RATIO"),
    DcgmField(kGpuPipeTensorImmaActive, "DCGM_FI_PROF_PIPE_TENSOR_IMMA_ACTIVE",
              "Share of cycles of integer tensor work, 0 to 1.")
        .Since46("DCGM_FI_PROF_IMMA_UTIL_RATIO"),
    DcgmField(kGpuPipeTensorHmmaActive, "DCGM_FI_PROF_PIPE_TENSOR_HMMA_ACTIVE",
              "Share of cycles of half-precision tensor work, 0 to 1.")
        .Since46("DCGM_FI_PROF_HMMA_UTIL_RATIO"),
    DcgmField(kGpuPipeTensorDfmaActive, "DCGM_FI_PROF_PIPE_TENSOR_DFMA_ACTIVE",
              "Share of cycles of double-precision tensor work, 0 to 1.")
        .Since46("DCGM_FI_PROF_DFMA_UTIL_RATIO"),
    DcgmRate(kGpuPcieThroughput, "transmit", "", "DCGM_FI_PROF_PCIE_TX_BYTES",
             "PCIe transmit rate in bytes per second."),
    DcgmRate(kGpuInterconnectThroughput, "transmit", "nvlink", "DCGM_FI_PROF_NVLINK_TX_BYTES",
             "NVLink transmit rate in bytes per second."),
    DcgmRate(kGpuInterconnectThroughput, "transmit", "c2c", "DCGM_FI_PROF_C2C_TX_ALL_BYTES",
             "C2C transmit rate with overhead in bytes per second."),
    DcgmRate(kGpuC2cThroughput, "transmit", "", "DCGM_FI_PROF_C2C_TX_DATA_BYTES",
             "C2C transmit rate of data in bytes per second."),
    DcgmField(kGpuPcieIo, "DCGM_FI_PROF_PCIE_TX_BYTES_TOTAL", "PCIe bytes, transmit.")
        .Counter()
        .In("B")
        .Where("gpu.interconnect.direction", "transmit"),
    DcgmRate(kGpuPcieThroughput, "receive", "", "DCGM_FI_PROF_PCIE_RX_BYTES",
             "PCIe receive rate in bytes per second."),
    DcgmRate(kGpuInterconnectThroughput, "receive", "nvlink", "DCGM_FI_PROF_NVLINK_RX_BYTES",
             "NVLink receive rate in bytes per second."),
    DcgmRate(kGpuInterconnectThroughput, "receive", "c2c", "DCGM_FI_PROF_C2C_RX_ALL_BYTES",
             "C2C receive rate with overhead in bytes per second."),
    DcgmRate(kGpuC2cThroughput, "receive", "", "DCGM_FI_PROF_C2C_RX_DATA_BYTES",
             "C2C receive rate of data in bytes per second."),
    DcgmField(kGpuPcieIo, "DCGM_FI_PROF_PCIE_RX_BYTES_TOTAL", "PCIe bytes, receive.")
        .Counter()
        .In("B")
        .Where("gpu.interconnect.direction", "receive"),
    DcgmField(kGpuCacheHit, "DCGM_FI_PROF_HOSTMEM_CACHE_HIT",
              "Share of L2 lookups for host memory that hit, 0 to 100.")
        .In("%", 100)
        .Where("gpu.cache.type", "hostmem"),
    DcgmField(kGpuCacheHit, "DCGM_FI_PROF_PEERMEM_CACHE_HIT",
              "Share of L2 lookups for peer memory that hit, 0 to 100.")
        .In("%", 100)
        .Where("gpu.cache.type", "peermem"),
    DCGM_ENGINE("NVDEC", "nvdec", "0", "decoder"),
    DCGM_ENGINE("NVDEC", "nvdec", "1", "decoder"),
    DCGM_ENGINE("NVDEC", "nvdec", "2", "decoder"),
    DCGM_ENGINE("NVDEC", "nvdec", "3", "decoder"),
    DCGM_ENGINE("NVDEC", "nvdec", "4", "decoder"),
    DCGM_ENGINE("NVDEC", "nvdec", "5", "decoder"),
    DCGM_ENGINE("NVDEC", "nvdec", "6", "decoder"),
    DCGM_ENGINE("NVDEC", "nvdec", "7", "decoder"),
    DCGM_ENGINE("NVJPG", "nvjpg", "0", "JPEG engine"),
    DCGM_ENGINE("NVJPG", "nvjpg", "1", "JPEG engine"),
    DCGM_ENGINE("NVJPG", "nvjpg", "2", "JPEG engine"),
    DCGM_ENGINE("NVJPG", "nvjpg", "3", "JPEG engine"),
    DCGM_ENGINE("NVJPG", "nvjpg", "4", "JPEG engine"),
    DCGM_ENGINE("NVJPG", "nvjpg", "5", "JPEG engine"),
    DCGM_ENGINE("NVJPG", "nvjpg", "6", "JPEG engine"),
    DCGM_ENGINE("NVJPG", "nvjpg", "7", "JPEG engine"),
    DCGM_ENGINE("NVOFA", "nvofa", "0", "optical flow engine"),
    DCGM_ENGINE("NVOFA", "nvofa", "1", "optical flow engine"),
};
#undef DCGM_ENGINE

#define GPULENS_DCGM_HOST                                                                                \
  {"Hostname", "host.name"}, {"DCGM_FI_DRIVER_VERSION", "gpu.driver.version"},                           \
      {"container", "k8s.container.name"}, {"namespace", "k8s.namespace.name"}, {"pod", "k8s.pod.name"}, \
      {"simulated", "simulated"}
inline constexpr NamingLabel kDcgmLabels[] = {
    {"gpu", "gpu.index"},
    {"UUID", "gpu.uuid"},
    {.label = "pci_bus_id", .attribute = "gpu.pci.bus_id", .as = NamingLabel::kNvmlBusId},
    {.label = "device", .attribute = "gpu.index", .text = "nvidia"},
    {"modelName", "gpu.model"},
    {"GPU_I_PROFILE", "gpu.mig.profile"},
    {"GPU_I_ID", "gpu.mig.instance_id"},
    GPULENS_DCGM_HOST,
};
// Series of a link have other labels.
inline constexpr NamingLabel kDcgmLinkLabels[] = {
    {"nvlink", "gpu.interconnect.link_index"},
    {"gpu", "gpu.index"},
    {"gpu_uuid", "gpu.uuid"},
    {.label = "pci_bus_id", .attribute = "gpu.pci.bus_id", .as = NamingLabel::kNvmlBusId},
    {.label = "device", .attribute = "gpu.index", .text = "nvidia"},
    {"model_name", "gpu.model"},
    GPULENS_DCGM_HOST,
};

#undef GPULENS_DCGM_HOST

// The traffic of a link has its index in the name.
struct DcgmLinkName {
  std::string_view link, name, name_4_6;
};
#define GPULENS_DCGM_LINK(n) {#n, "DCGM_FI_DEV_NVLINK_BANDWIDTH_L" #n, "DCGM_FI_DEV_NVLINK_THROUGHPUT_L" #n}
inline constexpr DcgmLinkName kDcgmLinkNames[] = {
    GPULENS_DCGM_LINK(0),  GPULENS_DCGM_LINK(1),  GPULENS_DCGM_LINK(2),  GPULENS_DCGM_LINK(3),
    GPULENS_DCGM_LINK(4),  GPULENS_DCGM_LINK(5),  GPULENS_DCGM_LINK(6),  GPULENS_DCGM_LINK(7),
    GPULENS_DCGM_LINK(8),  GPULENS_DCGM_LINK(9),  GPULENS_DCGM_LINK(10), GPULENS_DCGM_LINK(11),
    GPULENS_DCGM_LINK(12), GPULENS_DCGM_LINK(13), GPULENS_DCGM_LINK(14), GPULENS_DCGM_LINK(15),
    GPULENS_DCGM_LINK(16), GPULENS_DCGM_LINK(17),
};
#undef GPULENS_DCGM_LINK

constexpr NamingRow DcgmRow(const DcgmField& field, bool since_4_6, std::span<const NamingLabel> labels) {
  return {.native = field.native,
          .name = since_4_6 ? field.name_4_6 : field.name,
          .unit = field.unit,
          .help = field.help,
          .kind = field.kind,
          .scale = field.scale,
          .labels = labels,
          .where = field.where,
          .whole = field.whole,
          .unless = field.unless};
}

constexpr auto DcgmRows(bool since_4_6) {
  std::array<NamingRow, std::size(kDcgmReadings) + std::size(kDcgmErrors) + std::size(kDcgmEcc) +
                            std::size(kDcgmLinks) + std::size(kDcgmProfiling) + std::size(kDcgmPerLink) +
                            std::size(kDcgmLinkNames)>
      rows{};
  auto at = rows.begin();
  for (std::span<const DcgmField> table :
       {std::span<const DcgmField>(kDcgmReadings), std::span<const DcgmField>(kDcgmErrors),
        std::span<const DcgmField>(kDcgmEcc), std::span<const DcgmField>(kDcgmLinks),
        std::span<const DcgmField>(kDcgmProfiling)}) {
    for (const DcgmField& field : table) *at++ = DcgmRow(field, since_4_6, kDcgmLabels);
  }
  for (const DcgmField& field : kDcgmPerLink) *at++ = DcgmRow(field, since_4_6, kDcgmLinkLabels);
  for (const DcgmLinkName& link : kDcgmLinkNames) {
    *at++ = {.native = &kGpuInterconnectLinkBandwidth,
             .name = since_4_6 ? link.name_4_6 : link.name,
             .unit = "MB/s",
             .help = "Traffic of one NVLink in both directions now, in MB/s: a rate, despite its type.",
             .kind = Kind::kCounter,
             .scale = kPerMega,
             .labels = kDcgmLabels,
             .where = {{{"gpu.interconnect.link_index", link.link}}},
             .whole = true};
  }
  return rows;
}

inline constexpr auto kDcgmRows = DcgmRows(false);
inline constexpr auto kDcgm46Rows = DcgmRows(true);

inline constexpr MetricNaming kDcgm{.name = "dcgm",
                                    .help = "dcgm-exporter, field names up to DCGM 4.5",
                                    .rows = kDcgmRows,
                                    .vendor = "nvidia",
                                    .looks = true};
inline constexpr MetricNaming kDcgm46{.name = "dcgm@4.6",
                                      .help = "dcgm-exporter, field names since DCGM 4.6",
                                      .rows = kDcgm46Rows,
                                      .vendor = "nvidia",
                                      .looks = true,
                                      .renames = "dcgm"};

}  // namespace gpulens
