// Rows of nccl.def.
#pragma once

#include "catalog/row.h"

namespace gpulens {

#define METRIC GPULENS_DECLARE_METRIC
#include "catalog/nccl.def"
#undef METRIC

#define METRIC GPULENS_LIST_METRIC
inline constexpr const MetricDesc* kNcclRows[] = {
#include "catalog/nccl.def"
};
#undef METRIC

}  // namespace gpulens
