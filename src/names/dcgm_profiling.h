// The profiling fields of DCGM that GPM gives, too.
#pragma once

#include "catalog/gpu.h"
#include "names/dcgm_field.h"

namespace gpulens {

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
    DcgmField(kGpuPcieThroughput, "DCGM_FI_PROF_PCIE_TX_BYTES", "PCIe transmit rate in bytes per second.")
        .In("B/s")
        .Where("gpu.interconnect.direction", "transmit"),
    DcgmField(kGpuInterconnectThroughput, "DCGM_FI_PROF_NVLINK_TX_BYTES",
              "NVLink transmit rate in bytes per second.")
        .In("B/s")
        .Where("gpu.interconnect.direction", "transmit")
        .Where("gpu.interconnect.type", "nvlink"),
    DcgmField(kGpuInterconnectThroughput, "DCGM_FI_PROF_C2C_TX_ALL_BYTES",
              "C2C transmit rate with overhead in bytes per second.")
        .In("B/s")
        .Where("gpu.interconnect.direction", "transmit")
        .Where("gpu.interconnect.type", "c2c"),
    DcgmField(kGpuC2cThroughput, "DCGM_FI_PROF_C2C_TX_DATA_BYTES",
              "C2C transmit rate of data in bytes per second.")
        .In("B/s")
        .Where("gpu.interconnect.direction", "transmit"),
    DcgmField(kGpuPcieIo, "DCGM_FI_PROF_PCIE_TX_BYTES_TOTAL", "PCIe bytes, transmit.")
        .Counter()
        .In("B")
        .Where("gpu.interconnect.direction", "transmit"),
    DcgmField(kGpuPcieThroughput, "DCGM_FI_PROF_PCIE_RX_BYTES", "PCIe receive rate in bytes per second.")
        .In("B/s")
        .Where("gpu.interconnect.direction", "receive"),
    DcgmField(kGpuInterconnectThroughput, "DCGM_FI_PROF_NVLINK_RX_BYTES",
              "NVLink receive rate in bytes per second.")
        .In("B/s")
        .Where("gpu.interconnect.direction", "receive")
        .Where("gpu.interconnect.type", "nvlink"),
    DcgmField(kGpuInterconnectThroughput, "DCGM_FI_PROF_C2C_RX_ALL_BYTES",
              "C2C receive rate with overhead in bytes per second.")
        .In("B/s")
        .Where("gpu.interconnect.direction", "receive")
        .Where("gpu.interconnect.type", "c2c"),
    DcgmField(kGpuC2cThroughput, "DCGM_FI_PROF_C2C_RX_DATA_BYTES",
              "C2C receive rate of data in bytes per second.")
        .In("B/s")
        .Where("gpu.interconnect.direction", "receive"),
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
    DcgmField(kGpuEngineUtilization, "DCGM_FI_PROF_NVDEC0_ACTIVE",
              "Share of time decoder 0 was active, 0 to 1.")
        .Since46("DCGM_FI_PROF_NVDEC_UTIL_0_RATIO")
        .Where("gpu.engine.type", "nvdec")
        .Where("gpu.engine.index", "0"),
    DcgmField(kGpuEngineUtilization, "DCGM_FI_PROF_NVDEC1_ACTIVE",
              "Share of time decoder 1 was active, 0 to 1.")
        .Since46("DCGM_FI_PROF_NVDEC_UTIL_1_RATIO")
        .Where("gpu.engine.type", "nvdec")
        .Where("gpu.engine.index", "1"),
    DcgmField(kGpuEngineUtilization, "DCGM_FI_PROF_NVDEC2_ACTIVE",
              "Share of time decoder 2 was active, 0 to 1.")
        .Since46("DCGM_FI_PROF_NVDEC_UTIL_2_RATIO")
        .Where("gpu.engine.type", "nvdec")
        .Where("gpu.engine.index", "2"),
    DcgmField(kGpuEngineUtilization, "DCGM_FI_PROF_NVDEC3_ACTIVE",
              "Share of time decoder 3 was active, 0 to 1.")
        .Since46("DCGM_FI_PROF_NVDEC_UTIL_3_RATIO")
        .Where("gpu.engine.type", "nvdec")
        .Where("gpu.engine.index", "3"),
    DcgmField(kGpuEngineUtilization, "DCGM_FI_PROF_NVDEC4_ACTIVE",
              "Share of time decoder 4 was active, 0 to 1.")
        .Since46("DCGM_FI_PROF_NVDEC_UTIL_4_RATIO")
        .Where("gpu.engine.type", "nvdec")
        .Where("gpu.engine.index", "4"),
    DcgmField(kGpuEngineUtilization, "DCGM_FI_PROF_NVDEC5_ACTIVE",
              "Share of time decoder 5 was active, 0 to 1.")
        .Since46("DCGM_FI_PROF_NVDEC_UTIL_5_RATIO")
        .Where("gpu.engine.type", "nvdec")
        .Where("gpu.engine.index", "5"),
    DcgmField(kGpuEngineUtilization, "DCGM_FI_PROF_NVDEC6_ACTIVE",
              "Share of time decoder 6 was active, 0 to 1.")
        .Since46("DCGM_FI_PROF_NVDEC_UTIL_6_RATIO")
        .Where("gpu.engine.type", "nvdec")
        .Where("gpu.engine.index", "6"),
    DcgmField(kGpuEngineUtilization, "DCGM_FI_PROF_NVDEC7_ACTIVE",
              "Share of time decoder 7 was active, 0 to 1.")
        .Since46("DCGM_FI_PROF_NVDEC_UTIL_7_RATIO")
        .Where("gpu.engine.type", "nvdec")
        .Where("gpu.engine.index", "7"),
    DcgmField(kGpuEngineUtilization, "DCGM_FI_PROF_NVJPG0_ACTIVE",
              "Share of time JPEG engine 0 was active, 0 to 1.")
        .Since46("DCGM_FI_PROF_NVJPG_UTIL_0_RATIO")
        .Where("gpu.engine.type", "nvjpg")
        .Where("gpu.engine.index", "0"),
    DcgmField(kGpuEngineUtilization, "DCGM_FI_PROF_NVJPG1_ACTIVE",
              "Share of time JPEG engine 1 was active, 0 to 1.")
        .Since46("DCGM_FI_PROF_NVJPG_UTIL_1_RATIO")
        .Where("gpu.engine.type", "nvjpg")
        .Where("gpu.engine.index", "1"),
    DcgmField(kGpuEngineUtilization, "DCGM_FI_PROF_NVJPG2_ACTIVE",
              "Share of time JPEG engine 2 was active, 0 to 1.")
        .Since46("DCGM_FI_PROF_NVJPG_UTIL_2_RATIO")
        .Where("gpu.engine.type", "nvjpg")
        .Where("gpu.engine.index", "2"),
    DcgmField(kGpuEngineUtilization, "DCGM_FI_PROF_NVJPG3_ACTIVE",
              "Share of time JPEG engine 3 was active, 0 to 1.")
        .Since46("DCGM_FI_PROF_NVJPG_UTIL_3_RATIO")
        .Where("gpu.engine.type", "nvjpg")
        .Where("gpu.engine.index", "3"),
    DcgmField(kGpuEngineUtilization, "DCGM_FI_PROF_NVJPG4_ACTIVE",
              "Share of time JPEG engine 4 was active, 0 to 1.")
        .Since46("DCGM_FI_PROF_NVJPG_UTIL_4_RATIO")
        .Where("gpu.engine.type", "nvjpg")
        .Where("gpu.engine.index", "4"),
    DcgmField(kGpuEngineUtilization, "DCGM_FI_PROF_NVJPG5_ACTIVE",
              "Share of time JPEG engine 5 was active, 0 to 1.")
        .Since46("DCGM_FI_PROF_NVJPG_UTIL_5_RATIO")
        .Where("gpu.engine.type", "nvjpg")
        .Where("gpu.engine.index", "5"),
    DcgmField(kGpuEngineUtilization, "DCGM_FI_PROF_NVJPG6_ACTIVE",
              "Share of time JPEG engine 6 was active, 0 to 1.")
        .Since46("DCGM_FI_PROF_NVJPG_UTIL_6_RATIO")
        .Where("gpu.engine.type", "nvjpg")
        .Where("gpu.engine.index", "6"),
    DcgmField(kGpuEngineUtilization, "DCGM_FI_PROF_NVJPG7_ACTIVE",
              "Share of time JPEG engine 7 was active, 0 to 1.")
        .Since46("DCGM_FI_PROF_NVJPG_UTIL_7_RATIO")
        .Where("gpu.engine.type", "nvjpg")
        .Where("gpu.engine.index", "7"),
    DcgmField(kGpuEngineUtilization, "DCGM_FI_PROF_NVOFA0_ACTIVE",
              "Share of time optical flow engine 0 was active, 0 to 1.")
        .Since46("DCGM_FI_PROF_NVOFA_UTIL_0_RATIO")
        .Where("gpu.engine.type", "nvofa")
        .Where("gpu.engine.index", "0"),
    DcgmField(kGpuEngineUtilization, "DCGM_FI_PROF_NVOFA1_ACTIVE",
              "Share of time optical flow engine 1 was active, 0 to 1.")
        .Since46("DCGM_FI_PROF_NVOFA_UTIL_1_RATIO")
        .Where("gpu.engine.type", "nvofa")
        .Where("gpu.engine.index", "1"),
};

}  // namespace gpulens
