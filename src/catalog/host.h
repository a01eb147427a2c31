// Rows of host.def: metrics of the host.
#pragma once

#include "catalog/row.h"

namespace gpulens {

#define METRIC GPULENS_DECLARE_METRIC
#include "catalog/host.def"
#undef METRIC

#define METRIC GPULENS_LIST_METRIC
inline constexpr const MetricDesc* kHostRows[] = {
#include "catalog/host.def"
};
#undef METRIC

}  // namespace gpulens
