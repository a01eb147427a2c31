// A program's samples as a page to scrape, with names and labels as on the agent's page. Pure.
#pragma once

#include <span>
#include <string>

#include <gpulens/registry.h>

#include "base/clock.h"
#include "core/attribute_set.h"
#include "wire/exposition/exposition_format.h"

namespace gpulens::sdk {

// Writes the page to `out` (cleared first). Exponential histograms get classic buckets with exact counts
// (wire/otlp/exponential_bounds.h). `resource`, unless empty, becomes the labels of `target_info`. Attributes
// whose label names collide are distinguished as on the agent's page. Series dropped because of an equal name
// are counted in `gpulens_page_series_dropped`, which is omitted when there are none.
void WriteMetricsPage(std::span<const Sample> samples, const AttributeSet& resource, PageForm form,
                      Instant now, std::string& out);

}  // namespace gpulens::sdk
