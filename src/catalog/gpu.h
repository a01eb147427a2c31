// Rows of gpu.def: metrics of GPUs.
#pragma once

#include "catalog/row.h"

namespace gpulens {

#define METRIC GPULENS_DECLARE_METRIC
#include "catalog/gpu.def"
#undef METRIC

#define METRIC GPULENS_LIST_METRIC
inline constexpr const MetricDesc* kGpuRows[] = {
#include "catalog/gpu.def"
};
#undef METRIC

}  // namespace gpulens
