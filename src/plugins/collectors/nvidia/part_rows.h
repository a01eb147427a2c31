// Which value of a GPU's parts feeds which metric, and in which unit: one row each.
#pragma once

#include <string_view>

#include "catalog/gpu.h"
#include "sources/nvml/nvml_parts.h"

namespace gpulens {

struct PartRow {
  nvml::PartField field;
  const MetricDesc* metric;
  double per = 1;  // of the source's unit in one of the metric's
  std::string_view key = {}, value = {};
  std::string_view key2 = {}, value2 = {};
  bool detail = false;  // only when details are asked for
};

inline constexpr double kPerMib = 1.0 / (1 << 20);

// Of a GPU that is not split, else of each GPU instance: never of both.
inline constexpr PartRow kGpmRows[] = {
    {nvml::PartField::kGpmGraphics, &kGpuGrEngineActive, 100},
    {nvml::PartField::kGpmSm, &kGpuSmActive, 100},
    {nvml::PartField::kGpmOccupancy, &kGpuSmOccupancy, 100},
    {nvml::PartField::kGpmDram, &kGpuDramActive, 100},
    {nvml::PartField::kGpmTensor, &kGpuPipeTensorActive, 100},
    {nvml::PartField::kGpmFp64, &kGpuPipeFp64Active, 100},
    {nvml::PartField::kGpmFp32, &kGpuPipeFp32Active, 100},
    {nvml::PartField::kGpmFp16, &kGpuPipeFp16Active, 100},
    {nvml::PartField::kGpmInt, &kGpuPipeIntActive, 100},
    {nvml::PartField::kGpmHmma, &kGpuPipeTensorHmmaActive, 100},
    {nvml::PartField::kGpmImma, &kGpuPipeTensorImmaActive, 100},
    {nvml::PartField::kGpmDfma, &kGpuPipeTensorDfmaActive, 100},
    {nvml::PartField::kGpmDmma, &kGpuPipeTensorDmmaActive, 100},
};

// Of whole GPUs alone. PCIe and NVLink rates by GPM stand in gpu_series.cc: they are there only where the
// driver has no byte counters, so that no series is told twice.
inline constexpr PartRow kWholeRows[] = {
    {nvml::PartField::kGpmC2cTx, &kGpuInterconnectThroughput, kPerMib, "gpu.interconnect.direction",
     "transmit", "gpu.interconnect.type", "c2c"},
    {nvml::PartField::kGpmC2cRx, &kGpuInterconnectThroughput, kPerMib, "gpu.interconnect.direction",
     "receive", "gpu.interconnect.type", "c2c"},
    {nvml::PartField::kGpmC2cDataTx, &kGpuC2cThroughput, kPerMib, "gpu.interconnect.direction", "transmit",
     "gpu.interconnect.payload", "data"},
    {nvml::PartField::kGpmC2cDataRx, &kGpuC2cThroughput, kPerMib, "gpu.interconnect.direction", "receive",
     "gpu.interconnect.payload", "data"},
};

inline constexpr PartRow kMigRows[] = {
    {nvml::PartField::kMemoryTotal, &kGpuMigMemoryTotal},
    {nvml::PartField::kMemoryUsed, &kGpuMigMemoryUsed},
    {nvml::PartField::kMemoryFree, &kGpuMigMemoryFree},
    {nvml::PartField::kMemoryReserved, &kGpuMigMemoryReserved},
    {nvml::PartField::kBar1Used, &kGpuMigBar1Used, 1, {}, {}, {}, {}, true},
};

inline constexpr PartRow kVgpuRows[] = {
    {nvml::PartField::kVgpuMemoryUsed, &kGpuVgpuMemoryUsed},
    {nvml::PartField::kVgpuLicensed, &kGpuVgpuLicensed},
    {nvml::PartField::kVgpuSm, &kGpuVgpuUtilization, 100, "gpu.task.type", "compute"},
    {nvml::PartField::kVgpuMemory, &kGpuVgpuUtilization, 100, "gpu.task.type", "memory_controller"},
    {nvml::PartField::kVgpuEncoder, &kGpuVgpuUtilization, 100, "gpu.task.type", "encoder"},
    {nvml::PartField::kVgpuDecoder, &kGpuVgpuUtilization, 100, "gpu.task.type", "decoder"},
    {nvml::PartField::kVgpuJpeg, &kGpuVgpuUtilization, 100, "gpu.task.type", "jpeg"},
    {nvml::PartField::kVgpuOfa, &kGpuVgpuUtilization, 100, "gpu.task.type", "optical_flow"},
};

}  // namespace gpulens
