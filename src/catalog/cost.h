// Rows of cost.def: money, energy for tokens, and carbon.
#pragma once

#include "catalog/row.h"

namespace gpulens {

#define METRIC GPULENS_DECLARE_METRIC
#include "catalog/cost.def"
#undef METRIC

#define METRIC GPULENS_LIST_METRIC
inline constexpr const MetricDesc* kCostRows[] = {
#include "catalog/cost.def"
};
#undef METRIC

}  // namespace gpulens
