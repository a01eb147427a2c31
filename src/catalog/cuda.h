// Rows of cuda.def: CUDA calls and waits of processes, and probes.
#pragma once

#include "catalog/gpu.h"
#include "catalog/row.h"

namespace gpulens {

namespace row {
// `cuda.source`: injection or uprobe; one process has one of them.
template <KeyText... keys>
inline constexpr std::string_view kCudaKeys[] = {"process.pid", "process.executable.name", "process.owner",
                                                 "cuda.source", keys.view()...};
}  // namespace row

#define METRIC GPULENS_DECLARE_METRIC
#include "catalog/cuda.def"
#undef METRIC

#define METRIC GPULENS_LIST_METRIC
inline constexpr const MetricDesc* kCudaRows[] = {
#include "catalog/cuda.def"
};
#undef METRIC

}  // namespace gpulens
