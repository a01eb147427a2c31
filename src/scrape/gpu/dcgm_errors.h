// The DCGM exporter's page, memory errors: totals, by place, retired pages and replaced rows.
#pragma once

#include "catalog/gpu.h"
#include "scrape/gpu/page_row.h"

namespace gpulens::gpu_page {

// clang-format off
inline constexpr PageRow kDcgmErrors[] = {
    {"DCGM_FI_DEV_ECC_SBE_VOL_TOTAL", "", &kGpuEccErrors, 1, 1, "gpu.ecc.count_type=volatile,gpu.ecc.error_type=correctable"},
    {"DCGM_FI_DEV_ECC_DBE_VOL_TOTAL", "", &kGpuEccErrors, 1, 1, "gpu.ecc.count_type=volatile,gpu.ecc.error_type=uncorrectable"},
    {"DCGM_FI_DEV_ECC_SBE_AGG_TOTAL", "", &kGpuEccErrors, 1, 1, "gpu.ecc.count_type=aggregate,gpu.ecc.error_type=correctable"},
    {"DCGM_FI_DEV_ECC_DBE_AGG_TOTAL", "", &kGpuEccErrors, 1, 1, "gpu.ecc.count_type=aggregate,gpu.ecc.error_type=uncorrectable"},
    {"DCGM_FI_DEV_ECC_SBE_VOL_L1", "", &kGpuEccLocationErrors, 1, 1, "gpu.ecc.count_type=volatile,gpu.ecc.error_type=correctable,gpu.ecc.memory_block=l1"},
    {"DCGM_FI_DEV_ECC_DBE_VOL_L1", "", &kGpuEccLocationErrors, 1, 1, "gpu.ecc.count_type=volatile,gpu.ecc.error_type=uncorrectable,gpu.ecc.memory_block=l1"},
    {"DCGM_FI_DEV_ECC_SBE_VOL_L2", "", &kGpuEccLocationErrors, 1, 1, "gpu.ecc.count_type=volatile,gpu.ecc.error_type=correctable,gpu.ecc.memory_block=l2"},
    {"DCGM_FI_DEV_ECC_DBE_VOL_L2", "", &kGpuEccLocationErrors, 1, 1, "gpu.ecc.count_type=volatile,gpu.ecc.error_type=uncorrectable,gpu.ecc.memory_block=l2"},
    {"DCGM_FI_DEV_ECC_SBE_VOL_DEV", "", &kGpuEccLocationErrors, 1, 1, "gpu.ecc.count_type=volatile,gpu.ecc.error_type=correctable,gpu.ecc.memory_block=dram"},
    {"DCGM_FI_DEV_ECC_DBE_VOL_DEV", "", &kGpuEccLocationErrors, 1, 1, "gpu.ecc.count_type=volatile,gpu.ecc.error_type=uncorrectable,gpu.ecc.memory_block=dram"},
    {"DCGM_FI_DEV_ECC_SBE_VOL_REG", "", &kGpuEccLocationErrors, 1, 1, "gpu.ecc.count_type=volatile,gpu.ecc.error_type=correctable,gpu.ecc.memory_block=register"},
    {"DCGM_FI_DEV_ECC_DBE_VOL_REG", "", &kGpuEccLocationErrors, 1, 1, "gpu.ecc.count_type=volatile,gpu.ecc.error_type=uncorrectable,gpu.ecc.memory_block=register"},
    {"DCGM_FI_DEV_ECC_SBE_VOL_TEX", "", &kGpuEccLocationErrors, 1, 1, "gpu.ecc.count_type=volatile,gpu.ecc.error_type=correctable,gpu.ecc.memory_block=texture"},
    {"DCGM_FI_DEV_ECC_DBE_VOL_TEX", "", &kGpuEccLocationErrors, 1, 1, "gpu.ecc.count_type=volatile,gpu.ecc.error_type=uncorrectable,gpu.ecc.memory_block=texture"},
    {"DCGM_FI_DEV_ECC_SBE_VOL_SHM", "", &kGpuEccLocationErrors, 1, 1, "gpu.ecc.count_type=volatile,gpu.ecc.error_type=correctable,gpu.ecc.memory_block=shared"},
    {"DCGM_FI_DEV_ECC_DBE_VOL_SHM", "", &kGpuEccLocationErrors, 1, 1, "gpu.ecc.count_type=volatile,gpu.ecc.error_type=uncorrectable,gpu.ecc.memory_block=shared"},
    {"DCGM_FI_DEV_ECC_SBE_VOL_CBU", "", &kGpuEccLocationErrors, 1, 1, "gpu.ecc.count_type=volatile,gpu.ecc.error_type=correctable,gpu.ecc.memory_block=cbu"},
    {"DCGM_FI_DEV_ECC_DBE_VOL_CBU", "", &kGpuEccLocationErrors, 1, 1, "gpu.ecc.count_type=volatile,gpu.ecc.error_type=uncorrectable,gpu.ecc.memory_block=cbu"},
    {"DCGM_FI_DEV_ECC_SBE_VOL_SRM", "", &kGpuEccLocationErrors, 1, 1, "gpu.ecc.count_type=volatile,gpu.ecc.error_type=correctable,gpu.ecc.memory_block=sram"},
    {"DCGM_FI_DEV_ECC_DBE_VOL_SRM", "", &kGpuEccLocationErrors, 1, 1, "gpu.ecc.count_type=volatile,gpu.ecc.error_type=uncorrectable,gpu.ecc.memory_block=sram"},
    {"DCGM_FI_DEV_ECC_SBE_AGG_L1", "", &kGpuEccLocationErrors, 1, 1, "gpu.ecc.count_type=aggregate,gpu.ecc.error_type=correctable,gpu.ecc.memory_block=l1"},
    {"DCGM_FI_DEV_ECC_DBE_AGG_L1", "", &kGpuEccLocationErrors, 1, 1, "gpu.ecc.count_type=aggregate,gpu.ecc.error_type=uncorrectable,gpu.ecc.memory_block=l1"},
    {"DCGM_FI_DEV_ECC_SBE_AGG_L2", "", &kGpuEccLocationErrors, 1, 1, "gpu.ecc.count_type=aggregate,gpu.ecc.error_type=correctable,gpu.ecc.memory_block=l2"},
    {"DCGM_FI_DEV_ECC_DBE_AGG_L2", "", &kGpuEccLocationErrors, 1, 1, "gpu.ecc.count_type=aggregate,gpu.ecc.error_type=uncorrectable,gpu.ecc.memory_block=l2"},
    {"DCGM_FI_DEV_ECC_SBE_AGG_DEV", "", &kGpuEccLocationErrors, 1, 1, "gpu.ecc.count_type=aggregate,gpu.ecc.error_type=correctable,gpu.ecc.memory_block=dram"},
    {"DCGM_FI_DEV_ECC_DBE_AGG_DEV", "", &kGpuEccLocationErrors, 1, 1, "gpu.ecc.count_type=aggregate,gpu.ecc.error_type=uncorrectable,gpu.ecc.memory_block=dram"},
    {"DCGM_FI_DEV_ECC_SBE_AGG_REG", "", &kGpuEccLocationErrors, 1, 1, "gpu.ecc.count_type=aggregate,gpu.ecc.error_type=correctable,gpu.ecc.memory_block=register"},
    {"DCGM_FI_DEV_ECC_DBE_AGG_REG", "", &kGpuEccLocationErrors, 1, 1, "gpu.ecc.count_type=aggregate,gpu.ecc.error_type=uncorrectable,gpu.ecc.memory_block=register"},
    {"DCGM_FI_DEV_ECC_SBE_AGG_TEX", "", &kGpuEccLocationErrors, 1, 1, "gpu.ecc.count_type=aggregate,gpu.ecc.error_type=correctable,gpu.ecc.memory_block=texture"},
    {"DCGM_FI_DEV_ECC_DBE_AGG_TEX", "", &kGpuEccLocationErrors, 1, 1, "gpu.ecc.count_type=aggregate,gpu.ecc.error_type=uncorrectable,gpu.ecc.memory_block=texture"},
    {"DCGM_FI_DEV_ECC_SBE_AGG_SHM", "", &kGpuEccLocationErrors, 1, 1, "gpu.ecc.count_type=aggregate,gpu.ecc.error_type=correctable,gpu.ecc.memory_block=shared"},
    {"DCGM_FI_DEV_ECC_DBE_AGG_SHM", "", &kGpuEccLocationErrors, 1, 1, "gpu.ecc.count_type=aggregate,gpu.ecc.error_type=uncorrectable,gpu.ecc.memory_block=shared"},
    {"DCGM_FI_DEV_ECC_SBE_AGG_CBU", "", &kGpuEccLocationErrors, 1, 1, "gpu.ecc.count_type=aggregate,gpu.ecc.error_type=correctable,gpu.ecc.memory_block=cbu"},
    {"DCGM_FI_DEV_ECC_DBE_AGG_CBU", "", &kGpuEccLocationErrors, 1, 1, "gpu.ecc.count_type=aggregate,gpu.ecc.error_type=uncorrectable,gpu.ecc.memory_block=cbu"},
    {"DCGM_FI_DEV_ECC_SBE_AGG_SRM", "", &kGpuEccLocationErrors, 1, 1, "gpu.ecc.count_type=aggregate,gpu.ecc.error_type=correctable,gpu.ecc.memory_block=sram"},
    {"DCGM_FI_DEV_ECC_DBE_AGG_SRM", "", &kGpuEccLocationErrors, 1, 1, "gpu.ecc.count_type=aggregate,gpu.ecc.error_type=uncorrectable,gpu.ecc.memory_block=sram"},
    {"DCGM_FI_DEV_ECC_CURRENT", "DCGM_FI_DEV_ECC_MODE", &kGpuEccMode, 1, 1, "gpu.ecc.mode_type=current"},
    {"DCGM_FI_DEV_ECC_PENDING", "", &kGpuEccMode, 1, 1, "gpu.ecc.mode_type=pending"},
    {"DCGM_FI_DEV_THRESHOLD_SRM", "DCGM_FI_DEV_SRAM_EXCEEDED", &kGpuEccSramThresholdExceeded},
    {"DCGM_FI_DEV_RETIRED_SBE", "DCGM_FI_DEV_PAGE_RETIRED_SBE_TOTAL", &kGpuRetiredPages, 1, 1, "gpu.ecc.error_type=correctable"},
    {"DCGM_FI_DEV_RETIRED_DBE", "DCGM_FI_DEV_PAGE_RETIRED_DBE_TOTAL", &kGpuRetiredPages, 1, 1, "gpu.ecc.error_type=uncorrectable"},
    {"DCGM_FI_DEV_RETIRED_PENDING", "DCGM_FI_DEV_PAGE_RETIRED_PENDING", &kGpuRetiredPagesPending},
    {"DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS", "DCGM_FI_DEV_ROW_REMAP_CORRECTABLE_TOTAL", &kGpuRowRemapCount, 1, 1, "gpu.ecc.error_type=correctable"},
    {"DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS", "DCGM_FI_DEV_ROW_REMAP_UNCORRECTABLE_TOTAL", &kGpuRowRemapCount, 1, 1, "gpu.ecc.error_type=uncorrectable"},
    {"DCGM_FI_DEV_ROW_REMAP_FAILURE", "DCGM_FI_DEV_ROW_REMAP_FAILED", &kGpuRowRemapFailed},
    {"DCGM_FI_DEV_ROW_REMAP_PENDING", "", &kGpuRowRemapResetPending},
    {"DCGM_FI_DEV_BANKS_REMAP_ROWS_AVAIL_MAX", "DCGM_FI_DEV_BANK_REMAP_AVAIL_MAX", &kGpuRowRemapBanks, 1, 1, "gpu.row_remap.availability=max"},
    {"DCGM_FI_DEV_BANKS_REMAP_ROWS_AVAIL_HIGH", "DCGM_FI_DEV_BANK_REMAP_AVAIL_HIGH", &kGpuRowRemapBanks, 1, 1, "gpu.row_remap.availability=high"},
    {"DCGM_FI_DEV_BANKS_REMAP_ROWS_AVAIL_PARTIAL", "DCGM_FI_DEV_BANK_REMAP_AVAIL_PARTIAL", &kGpuRowRemapBanks, 1, 1, "gpu.row_remap.availability=partial"},
    {"DCGM_FI_DEV_BANKS_REMAP_ROWS_AVAIL_LOW", "DCGM_FI_DEV_BANK_REMAP_AVAIL_LOW", &kGpuRowRemapBanks, 1, 1, "gpu.row_remap.availability=low"},
    {"DCGM_FI_DEV_BANKS_REMAP_ROWS_AVAIL_NONE", "DCGM_FI_DEV_BANK_REMAP_AVAIL_NONE", &kGpuRowRemapBanks, 1, 1, "gpu.row_remap.availability=none"},
    {"DCGM_FI_DEV_MEMORY_UNREPAIRABLE_FLAG", "DCGM_FI_DEV_MEMORY_UNREPAIRABLE", &kGpuMemoryUnrepairable},
};
// clang-format on

}  // namespace gpulens::gpu_page
