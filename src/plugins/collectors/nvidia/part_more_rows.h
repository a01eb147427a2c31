// What GPM tells of single engines, caches and cycles: rows of whole GPUs that are off by default.
#pragma once

#include "plugins/collectors/nvidia/part_rows.h"

namespace gpulens {

// One instance of an engine.
consteval PartRow EngineRow(nvml::PartField field, std::string_view type, std::string_view index) {
  return {field, &kGpuEngineUtilization, 100, "gpu.engine.type", type, "gpu.engine.index", index, true};
}
consteval PartRow CyclesRow(nvml::PartField field, std::string_view unit) {
  return {field, &kGpuCyclesActive, 1, "gpu.cycles.unit", unit, {}, {}, true};
}
consteval PartRow CacheRow(nvml::PartField field, std::string_view type) {
  return {field, &kGpuCacheHit, 100, "gpu.cache.type", type, {}, {}, true};
}

inline constexpr PartRow kGpmMoreRows[] = {
    EngineRow(nvml::PartField::kGpmEncoder0, "nvenc", "0"),
    EngineRow(nvml::PartField::kGpmEncoder1, "nvenc", "1"),
    EngineRow(nvml::PartField::kGpmEncoder2, "nvenc", "2"),
    EngineRow(nvml::PartField::kGpmEncoder3, "nvenc", "3"),
    EngineRow(nvml::PartField::kGpmDecoder0, "nvdec", "0"),
    EngineRow(nvml::PartField::kGpmDecoder1, "nvdec", "1"),
    EngineRow(nvml::PartField::kGpmDecoder2, "nvdec", "2"),
    EngineRow(nvml::PartField::kGpmDecoder3, "nvdec", "3"),
    EngineRow(nvml::PartField::kGpmDecoder4, "nvdec", "4"),
    EngineRow(nvml::PartField::kGpmDecoder5, "nvdec", "5"),
    EngineRow(nvml::PartField::kGpmDecoder6, "nvdec", "6"),
    EngineRow(nvml::PartField::kGpmDecoder7, "nvdec", "7"),
    EngineRow(nvml::PartField::kGpmJpeg0, "nvjpg", "0"),
    EngineRow(nvml::PartField::kGpmJpeg1, "nvjpg", "1"),
    EngineRow(nvml::PartField::kGpmJpeg2, "nvjpg", "2"),
    EngineRow(nvml::PartField::kGpmJpeg3, "nvjpg", "3"),
    EngineRow(nvml::PartField::kGpmJpeg4, "nvjpg", "4"),
    EngineRow(nvml::PartField::kGpmJpeg5, "nvjpg", "5"),
    EngineRow(nvml::PartField::kGpmJpeg6, "nvjpg", "6"),
    EngineRow(nvml::PartField::kGpmJpeg7, "nvjpg", "7"),
    EngineRow(nvml::PartField::kGpmOpticalFlow0, "nvofa", "0"),
    EngineRow(nvml::PartField::kGpmOpticalFlow1, "nvofa", "1"),
    CacheRow(nvml::PartField::kGpmHitHost, "hostmem"),
    CacheRow(nvml::PartField::kGpmHitPeer, "peermem"),
    CacheRow(nvml::PartField::kGpmHitDram, "dram"),
    {nvml::PartField::kGpmCycles, &kGpuCyclesElapsed, 1, {}, {}, {}, {}, true},
    CyclesRow(nvml::PartField::kGpmCyclesSm, "sm"),
    CyclesRow(nvml::PartField::kGpmCyclesTensor, "tensor"),
    CyclesRow(nvml::PartField::kGpmCyclesDmma, "dmma"),
    CyclesRow(nvml::PartField::kGpmCyclesHmma, "hmma"),
    CyclesRow(nvml::PartField::kGpmCyclesImma, "imma"),
    CyclesRow(nvml::PartField::kGpmCyclesDfma, "dfma"),
    CyclesRow(nvml::PartField::kGpmCyclesInt, "int"),
    CyclesRow(nvml::PartField::kGpmCyclesFp64, "fp64"),
    CyclesRow(nvml::PartField::kGpmCyclesFp32, "fp32"),
    CyclesRow(nvml::PartField::kGpmCyclesFp16, "fp16"),
};

}  // namespace gpulens
