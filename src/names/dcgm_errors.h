// Fields of DCGM that say what goes wrong on a GPU: XIDs, slowdowns, memory errors and their repair.
#pragma once

#include "catalog/gpu.h"
#include "names/dcgm_field.h"

namespace gpulens {

// Of a GPU that has had an XID, the code of the last one counts.
inline constexpr const MetricDesc* kLastXid[] = {&kGpuXidLastErrorCode};
inline constexpr std::string_view kSameGpu[] = {"gpu.uuid", "gpu.index"};
inline constexpr Rival kHadAnXid[] = {{.metrics = kLastXid, .same = kSameGpu}};

inline constexpr DcgmField kDcgmErrors[] = {
    DcgmField(kGpuXidLastErrorCode, "DCGM_FI_DEV_XID_ERRORS",
              "Code of the last XID; 0 while XIDs are watched and none has occurred.")
        .Since46("DCGM_FI_DEV_XID_ERROR"),
    // The count of XIDs is there from the start while somebody watches: of it, the row shows 0 and nothing
    // else.
    DcgmField(kGpuXidErrors, "DCGM_FI_DEV_XID_ERRORS",
              "Code of the last XID; 0 while XIDs are watched and none has occurred.")
        .Since46("DCGM_FI_DEV_XID_ERROR")
        .Whole("", 0)
        .Unless(kHadAnXid),
    DcgmField(kGpuThrottleMask, "DCGM_FI_DEV_CLOCKS_EVENT_REASONS",
              "Reasons that hold the clocks down, as the bit mask of the driver."),
    DcgmField(kGpuThrottleTime, "DCGM_FI_DEV_CLOCKS_EVENT_REASON_SW_POWER_CAP_NS",
              "Time for which clocks were held down by the power limit, in ns.")
        .Counter()
        .Whole("ns", 1e9)
        .Where("gpu.throttle.cause", "power_software"),
    DcgmField(kGpuThrottleTime, "DCGM_FI_DEV_CLOCKS_EVENT_REASON_SYNC_BOOST_NS",
              "Time for which clocks were held down by a sync boost group, in ns.")
        .Counter()
        .Whole("ns", 1e9)
        .Where("gpu.throttle.cause", "syncboost"),
    DcgmField(kGpuThrottleTime, "DCGM_FI_DEV_CLOCKS_EVENT_REASON_SW_THERM_SLOWDOWN_NS",
              "Time for which clocks were held down by heat, by the driver, in ns.")
        .Counter()
        .Whole("ns", 1e9)
        .Where("gpu.throttle.cause", "temp_software"),
    DcgmField(kGpuThrottleTime, "DCGM_FI_DEV_CLOCKS_EVENT_REASON_HW_THERM_SLOWDOWN_NS",
              "Time for which clocks were held down by heat, by the board, in ns.")
        .Counter()
        .Whole("ns", 1e9)
        .Where("gpu.throttle.cause", "temp_hardware"),
    DcgmField(kGpuThrottleTime, "DCGM_FI_DEV_CLOCKS_EVENT_REASON_HW_POWER_BRAKE_SLOWDOWN_NS",
              "Time for which clocks were held down by the power brake, in ns.")
        .Counter()
        .Whole("ns", 1e9)
        .Where("gpu.throttle.cause", "power_brake"),
    DcgmField(kGpuViolationTime, "DCGM_FI_DEV_POWER_VIOLATION",
              "Time for which the GPU was slowed by the power limit, in ns.")
        .Counter()
        .Whole("ns", 1e9)
        .Where("gpu.violation.policy", "power"),
    DcgmField(kGpuViolationTime, "DCGM_FI_DEV_THERMAL_VIOLATION",
              "Time for which the GPU was slowed by heat, in ns.")
        .Counter()
        .Whole("ns", 1e9)
        .Where("gpu.violation.policy", "thermal"),
    DcgmField(kGpuViolationTime, "DCGM_FI_DEV_SYNC_BOOST_VIOLATION",
              "Time for which the GPU was slowed by a sync boost group, in ns.")
        .Counter()
        .Whole("ns", 1e9)
        .Where("gpu.violation.policy", "sync_boost"),
    DcgmField(kGpuViolationTime, "DCGM_FI_DEV_BOARD_LIMIT_VIOLATION",
              "Time for which the GPU was slowed by a limit of the board, in ns.")
        .Counter()
        .Whole("ns", 1e9)
        .Where("gpu.violation.policy", "board_limit"),
    DcgmField(kGpuViolationTime, "DCGM_FI_DEV_LOW_UTIL_VIOLATION",
              "Time for which the GPU was slowed by low load, in ns.")
        .Counter()
        .Whole("ns", 1e9)
        .Where("gpu.violation.policy", "low_utilization"),
    DcgmField(kGpuViolationTime, "DCGM_FI_DEV_RELIABILITY_VIOLATION",
              "Time for which the GPU was slowed by the reliability limit, in ns.")
        .Counter()
        .Whole("ns", 1e9)
        .Where("gpu.violation.policy", "reliability"),
    DcgmField(kGpuViolationTime, "DCGM_FI_DEV_TOTAL_APP_CLOCKS_VIOLATION",
              "Time for which the GPU was slowed by anything, below the application clock, in ns.")
        .Counter()
        .Whole("ns", 1e9)
        .Where("gpu.violation.policy", "application_clocks"),
    DcgmField(kGpuViolationTime, "DCGM_FI_DEV_TOTAL_BASE_CLOCKS_VIOLATION",
              "Time for which the GPU was slowed by anything, below the base clock, in ns.")
        .Counter()
        .Whole("ns", 1e9)
        .Where("gpu.violation.policy", "base_clocks"),
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
    DcgmField(kGpuRowRemapBanks, "DCGM_FI_DEV_BANKS_REMAP_ROWS_AVAIL_MAX",
              "Memory banks with all their spare rows.")
        .Since46("DCGM_FI_DEV_BANK_REMAP_AVAIL_MAX")
        .Where("gpu.row_remap.availability", "max"),
    DcgmField(kGpuRowRemapBanks, "DCGM_FI_DEV_BANKS_REMAP_ROWS_AVAIL_HIGH",
              "Memory banks with high availability of spare rows.")
        .Since46("DCGM_FI_DEV_BANK_REMAP_AVAIL_HIGH")
        .Where("gpu.row_remap.availability", "high"),
    DcgmField(kGpuRowRemapBanks, "DCGM_FI_DEV_BANKS_REMAP_ROWS_AVAIL_PARTIAL",
              "Memory banks with partial availability of spare rows.")
        .Since46("DCGM_FI_DEV_BANK_REMAP_AVAIL_PARTIAL")
        .Where("gpu.row_remap.availability", "partial"),
    DcgmField(kGpuRowRemapBanks, "DCGM_FI_DEV_BANKS_REMAP_ROWS_AVAIL_LOW",
              "Memory banks with low availability of spare rows.")
        .Since46("DCGM_FI_DEV_BANK_REMAP_AVAIL_LOW")
        .Where("gpu.row_remap.availability", "low"),
    DcgmField(kGpuRowRemapBanks, "DCGM_FI_DEV_BANKS_REMAP_ROWS_AVAIL_NONE",
              "Memory banks without a spare row.")
        .Since46("DCGM_FI_DEV_BANK_REMAP_AVAIL_NONE")
        .Where("gpu.row_remap.availability", "none"),
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

}  // namespace gpulens
