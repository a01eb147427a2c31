// Rows of ledger.def: whose joules, seconds and money.
#pragma once

#include "catalog/gpu.h"

namespace gpulens {

#define METRIC GPULENS_DECLARE_METRIC
#include "catalog/ledger.def"
#undef METRIC

#define METRIC GPULENS_LIST_METRIC
inline constexpr const MetricDesc* kLedgerRows[] = {
#include "catalog/ledger.def"
};
#undef METRIC

}  // namespace gpulens
