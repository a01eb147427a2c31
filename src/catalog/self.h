// Rows of self.def: metrics of the agent itself.
#pragma once

#include "catalog/row.h"

namespace gpulens {

#define METRIC GPULENS_DECLARE_METRIC
#include "catalog/self.def"
#undef METRIC

#define METRIC GPULENS_LIST_METRIC
inline constexpr const MetricDesc* kSelfRows[] = {
#include "catalog/self.def"
};
#undef METRIC

// Rows about scraped targets.
inline constexpr auto kSelfScrapeRows = RowsWithPrefix<kSelfRows, "gpulens.scrape.">();

}  // namespace gpulens
