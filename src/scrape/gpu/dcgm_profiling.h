// The DCGM exporter's page, the profiling module: shares of cycles, 0-1. In MIG mode they belong to
// instances.
#pragma once

#include "catalog/gpu.h"
#include "scrape/gpu/page_row.h"

namespace gpulens::gpu_page {

// clang-format off
inline constexpr PageRow kDcgmProfiling[] = {
    {.family = "DCGM_FI_PROF_GR_ENGINE_ACTIVE", .renamed = "DCGM_FI_PROF_GR_ENGINE_UTIL_RATIO", .metric = &kGpuGrEngineActive, .scope = Scope::kPart},
    {.family = "DCGM_FI_PROF_SM_ACTIVE", .renamed = "DCGM_FI_PROF_SM_UTIL_RATIO", .metric = &kGpuSmActive, .scope = Scope::kPart},
    {.family = "DCGM_FI_PROF_SM_OCCUPANCY", .renamed = "DCGM_FI_PROF_SM_OCCUPANCY_RATIO", .metric = &kGpuSmOccupancy, .scope = Scope::kPart},
    {.family = "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", .renamed = "DCGM_FI_PROF_TENSOR_UTIL_RATIO", .metric = &kGpuPipeTensorActive, .scope = Scope::kPart},
    {.family = "DCGM_FI_PROF_DRAM_ACTIVE", .renamed = "DCGM_FI_PROF_DRAM_UTIL_RATIO", .metric = &kGpuDramActive, .scope = Scope::kPart},
    {.family = "DCGM_FI_PROF_PIPE_FP64_ACTIVE", .renamed = "DCGM_FI_PROF_FP64_UTIL_RATIO", .metric = &kGpuPipeFp64Active, .scope = Scope::kPart},
    {.family = "DCGM_FI_PROF_PIPE_FP32_ACTIVE", .renamed = "DCGM_FI_PROF_FP32_UTIL_RATIO", .metric = &kGpuPipeFp32Active, .scope = Scope::kPart},
    {.family = "DCGM_FI_PROF_PIPE_FP16_ACTIVE", .renamed = "DCGM_FI_PROF_FP16_UTIL_RATIO", .metric = &kGpuPipeFp16Active, .scope = Scope::kPart},
    {.family = "DCGM_FI_PROF_PIPE_INT_ACTIVE", .renamed = "DCGM_FI_PROF_INT_UTIL_RATIO", .metric = &kGpuPipeIntActive, .scope = Scope::kPart},
    {.family = "DCGM_FI_PROF_PIPE_TENSOR_HMMA_ACTIVE", .renamed = "DCGM_FI_PROF_HMMA_UTIL_RATIO", .metric = &kGpuPipeTensorHmmaActive, .scope = Scope::kPart},
    {.family = "DCGM_FI_PROF_PIPE_TENSOR_IMMA_ACTIVE", .renamed = "DCGM_FI_PROF_IMMA_UTIL_RATIO", .metric = &kGpuPipeTensorImmaActive, .scope = Scope::kPart},
    {.family = "DCGM_FI_PROF_PIPE_TENSOR_DFMA_ACTIVE", .renamed = "DCGM_FI_PROF_DFMA_UTIL_RATIO", .metric = &kGpuPipeTensorDfmaActive, .scope = Scope::kPart},
    {.family = "dcgm_fi_prof_gr_engine_active", .metric = &kGpuGrEngineActive, .scope = Scope::kPart},
    {.family = "dcgm_fi_prof_pipe_tensor_active", .metric = &kGpuPipeTensorActive, .scope = Scope::kPart},
    {.family = "dcgm_fi_prof_dram_active", .metric = &kGpuDramActive, .scope = Scope::kPart},
    {.family = "DCGM_FI_PROF_NVDEC#_ACTIVE", .renamed = "DCGM_FI_PROF_NVDEC_UTIL_#_RATIO", .metric = &kGpuEngineUtilization, .attributes = "gpu.engine.type=nvdec", .number = "gpu.engine.index", .scope = Scope::kPart},
    {.family = "DCGM_FI_PROF_NVJPG#_ACTIVE", .renamed = "DCGM_FI_PROF_NVJPG_UTIL_#_RATIO", .metric = &kGpuEngineUtilization, .attributes = "gpu.engine.type=nvjpg", .number = "gpu.engine.index", .scope = Scope::kPart},
    {.family = "DCGM_FI_PROF_NVOFA#_ACTIVE", .renamed = "DCGM_FI_PROF_NVOFA_UTIL_#_RATIO", .metric = &kGpuEngineUtilization, .attributes = "gpu.engine.type=nvofa", .number = "gpu.engine.index", .scope = Scope::kPart},
    {.family = "DCGM_FI_PROF_HOSTMEM_CACHE_HIT", .metric = &kGpuCacheHit, .per = 100, .attributes = "gpu.cache.type=hostmem", .scope = Scope::kPart},
    {.family = "DCGM_FI_PROF_PEERMEM_CACHE_HIT", .metric = &kGpuCacheHit, .per = 100, .attributes = "gpu.cache.type=peermem", .scope = Scope::kPart},
    {.family = "DCGM_FI_PROF_SM_CYCLES_ELAPSED_TOTAL", .metric = &kGpuCyclesElapsed, .scope = Scope::kPart},
    {.family = "DCGM_FI_PROF_SM_CYCLES_ACTIVE_TOTAL", .metric = &kGpuCyclesActive, .attributes = "gpu.cycles.unit=sm", .scope = Scope::kPart},
    {.family = "DCGM_FI_PROF_MMA_CYCLES_ACTIVE_TOTAL", .metric = &kGpuCyclesActive, .attributes = "gpu.cycles.unit=tensor", .scope = Scope::kPart},
    {.family = "DCGM_FI_PROF_DMMA_CYCLES_ACTIVE_TOTAL", .metric = &kGpuCyclesActive, .attributes = "gpu.cycles.unit=dmma", .scope = Scope::kPart},
    {.family = "DCGM_FI_PROF_HMMA_CYCLES_ACTIVE_TOTAL", .metric = &kGpuCyclesActive, .attributes = "gpu.cycles.unit=hmma", .scope = Scope::kPart},
    {.family = "DCGM_FI_PROF_IMMA_CYCLES_ACTIVE_TOTAL", .metric = &kGpuCyclesActive, .attributes = "gpu.cycles.unit=imma", .scope = Scope::kPart},
    {.family = "DCGM_FI_PROF_DFMA_CYCLES_ACTIVE_TOTAL", .metric = &kGpuCyclesActive, .attributes = "gpu.cycles.unit=dfma", .scope = Scope::kPart},
    {.family = "DCGM_FI_PROF_INT_CYCLES_ACTIVE_TOTAL", .metric = &kGpuCyclesActive, .attributes = "gpu.cycles.unit=int", .scope = Scope::kPart},
    {.family = "DCGM_FI_PROF_FP64_CYCLES_ACTIVE_TOTAL", .metric = &kGpuCyclesActive, .attributes = "gpu.cycles.unit=fp64", .scope = Scope::kPart},
    {.family = "DCGM_FI_PROF_FP32_CYCLES_ACTIVE_TOTAL", .metric = &kGpuCyclesActive, .attributes = "gpu.cycles.unit=fp32", .scope = Scope::kPart},
    {.family = "DCGM_FI_PROF_FP16_CYCLES_ACTIVE_TOTAL", .metric = &kGpuCyclesActive, .attributes = "gpu.cycles.unit=fp16", .scope = Scope::kPart},
};
// clang-format on

}  // namespace gpulens::gpu_page
