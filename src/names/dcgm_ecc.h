// Fields of DCGM about memory errors that ECC found.
#pragma once

#include "catalog/gpu.h"
#include "names/dcgm_field.h"

namespace gpulens {

// Errors of one kind, where they happened; an empty place is the whole GPU.
constexpr DcgmField DcgmEcc(std::string_view count, std::string_view type, std::string_view place,
                            std::string_view field, std::string_view meaning) {
  return DcgmField(place.empty() ? kGpuEccErrors : kGpuEccLocationErrors, field, meaning)
      .Counter()
      .Where("gpu.ecc.count_type", count)
      .Where("gpu.ecc.error_type", type)
      .Where("gpu.ecc.memory_block", place);
}

inline constexpr DcgmField kDcgmEcc[] = {
    DcgmEcc("volatile", "correctable", "", "DCGM_FI_DEV_ECC_SBE_VOL_TOTAL",
            "Corrected memory errors since the driver was loaded."),
    DcgmEcc("volatile", "uncorrectable", "", "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL",
            "Uncorrected memory errors since the driver was loaded."),
    DcgmEcc("aggregate", "correctable", "", "DCGM_FI_DEV_ECC_SBE_AGG_TOTAL",
            "Corrected memory errors in the life of the board."),
    DcgmEcc("aggregate", "uncorrectable", "", "DCGM_FI_DEV_ECC_DBE_AGG_TOTAL",
            "Uncorrected memory errors in the life of the board."),
    DcgmEcc("volatile", "correctable", "l1", "DCGM_FI_DEV_ECC_SBE_VOL_L1",
            "Corrected errors in the L1 cache."),
    DcgmEcc("volatile", "uncorrectable", "l1", "DCGM_FI_DEV_ECC_DBE_VOL_L1",
            "Uncorrected errors in the L1 cache."),
    DcgmEcc("volatile", "correctable", "l2", "DCGM_FI_DEV_ECC_SBE_VOL_L2",
            "Corrected errors in the L2 cache."),
    DcgmEcc("volatile", "uncorrectable", "l2", "DCGM_FI_DEV_ECC_DBE_VOL_L2",
            "Uncorrected errors in the L2 cache."),
    DcgmEcc("volatile", "correctable", "dram", "DCGM_FI_DEV_ECC_SBE_VOL_DEV",
            "Corrected errors in device memory."),
    DcgmEcc("volatile", "uncorrectable", "dram", "DCGM_FI_DEV_ECC_DBE_VOL_DEV",
            "Uncorrected errors in device memory."),
    DcgmEcc("volatile", "correctable", "register", "DCGM_FI_DEV_ECC_SBE_VOL_REG",
            "Corrected errors in registers."),
    DcgmEcc("volatile", "uncorrectable", "register", "DCGM_FI_DEV_ECC_DBE_VOL_REG",
            "Uncorrected errors in registers."),
    DcgmEcc("volatile", "correctable", "texture", "DCGM_FI_DEV_ECC_SBE_VOL_TEX",
            "Corrected errors in texture memory."),
    DcgmEcc("volatile", "uncorrectable", "texture", "DCGM_FI_DEV_ECC_DBE_VOL_TEX",
            "Uncorrected errors in texture memory."),
    DcgmEcc("volatile", "correctable", "shared", "DCGM_FI_DEV_ECC_SBE_VOL_SHM",
            "Corrected errors in shared memory."),
    DcgmEcc("volatile", "uncorrectable", "shared", "DCGM_FI_DEV_ECC_DBE_VOL_SHM",
            "Uncorrected errors in shared memory."),
    DcgmEcc("volatile", "uncorrectable", "cbu", "DCGM_FI_DEV_ECC_DBE_VOL_CBU",
            "Uncorrected errors in the CBU."),
    DcgmEcc("volatile", "correctable", "sram", "DCGM_FI_DEV_ECC_SBE_VOL_SRM", "Corrected errors in SRAM."),
    DcgmEcc("volatile", "uncorrectable", "sram", "DCGM_FI_DEV_ECC_DBE_VOL_SRM",
            "Uncorrected errors in SRAM."),
    DcgmEcc("aggregate", "correctable", "l1", "DCGM_FI_DEV_ECC_SBE_AGG_L1",
            "Corrected errors in the L1 cache."),
    DcgmEcc("aggregate", "uncorrectable", "l1", "DCGM_FI_DEV_ECC_DBE_AGG_L1",
            "Uncorrected errors in the L1 cache."),
    DcgmEcc("aggregate", "correctable", "l2", "DCGM_FI_DEV_ECC_SBE_AGG_L2",
            "Corrected errors in the L2 cache."),
    DcgmEcc("aggregate", "uncorrectable", "l2", "DCGM_FI_DEV_ECC_DBE_AGG_L2",
            "Uncorrected errors in the L2 cache."),
    DcgmEcc("aggregate", "correctable", "dram", "DCGM_FI_DEV_ECC_SBE_AGG_DEV",
            "Corrected errors in device memory."),
    DcgmEcc("aggregate", "uncorrectable", "dram", "DCGM_FI_DEV_ECC_DBE_AGG_DEV",
            "Uncorrected errors in device memory."),
    DcgmEcc("aggregate", "correctable", "register", "DCGM_FI_DEV_ECC_SBE_AGG_REG",
            "Corrected errors in registers."),
    DcgmEcc("aggregate", "uncorrectable", "register", "DCGM_FI_DEV_ECC_DBE_AGG_REG",
            "Uncorrected errors in registers."),
    DcgmEcc("aggregate", "correctable", "texture", "DCGM_FI_DEV_ECC_SBE_AGG_TEX",
            "Corrected errors in texture memory."),
    DcgmEcc("aggregate", "uncorrectable", "texture", "DCGM_FI_DEV_ECC_DBE_AGG_TEX",
            "Uncorrected errors in texture memory."),
    DcgmEcc("aggregate", "correctable", "shared", "DCGM_FI_DEV_ECC_SBE_AGG_SHM",
            "Corrected errors in shared memory."),
    DcgmEcc("aggregate", "uncorrectable", "shared", "DCGM_FI_DEV_ECC_DBE_AGG_SHM",
            "Uncorrected errors in shared memory."),
    DcgmEcc("aggregate", "uncorrectable", "cbu", "DCGM_FI_DEV_ECC_DBE_AGG_CBU",
            "Uncorrected errors in the CBU."),
    DcgmEcc("aggregate", "correctable", "sram", "DCGM_FI_DEV_ECC_SBE_AGG_SRM", "Corrected errors in SRAM."),
    DcgmEcc("aggregate", "uncorrectable", "sram", "DCGM_FI_DEV_ECC_DBE_AGG_SRM",
            "Uncorrected errors in SRAM."),
    DcgmField(kGpuEccSramThresholdExceeded, "DCGM_FI_DEV_THRESHOLD_SRM",
              "1 when SRAM errors exceed their threshold.")
        .Since46("DCGM_FI_DEV_SRAM_EXCEEDED"),
    DcgmField(kGpuEccMode, "DCGM_FI_DEV_ECC_CURRENT", "1 when ECC is on.")
        .Since46("DCGM_FI_DEV_ECC_MODE")
        .Where("gpu.ecc.mode_type", "current"),
    DcgmField(kGpuEccMode, "DCGM_FI_DEV_ECC_PENDING", "1 when ECC will be on after the next reset.")
        .Where("gpu.ecc.mode_type", "pending"),
};

}  // namespace gpulens
