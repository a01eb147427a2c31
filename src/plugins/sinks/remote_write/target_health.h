// What Prometheus itself says of a target it scrapes, `up` among it, from what our scrapes say of theirs.
// Pure.
#pragma once

#include <vector>

#include "core/named_series.h"

namespace gpulens {

// Appends `up`, `scrape_duration_seconds` or `scrape_samples_scraped` for the series that has that number.
// Its labels are those that the target's own series have from the configuration, `target` among them.
void NameTargetHealth(const SeriesInfo& series, std::vector<NamedSeries>& out);

}  // namespace gpulens
