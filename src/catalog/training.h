// Rows of training.def. Programs export them, at every level; the agent itself writes none.
#pragma once

#include "catalog/row.h"

namespace gpulens {

#define METRIC(id, ...) GPULENS_DECLARE_METRIC(id, Essential(__VA_ARGS__))
#include "catalog/training.def"
#undef METRIC

#define METRIC GPULENS_LIST_METRIC
inline constexpr const MetricDesc* kTrainingRows[] = {
#include "catalog/training.def"
};
#undef METRIC

}  // namespace gpulens
