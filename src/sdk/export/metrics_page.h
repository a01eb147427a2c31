// A program's samples as a page to scrape, spelt as the agent spells its own: names with the words of their
// unit and kind, attributes as labels. Pure.
#pragma once

#include <span>
#include <string>

#include <gpulens/registry.h>

#include "base/clock.h"
#include "core/attribute_set.h"
#include "wire/exposition/exposition_format.h"

namespace gpulens::sdk {

// Writes the page to `out` (cleared first). Exponential histograms get classic buckets with exact counts
// (wire/otlp/exponential_bounds.h). `resource`, unless it is empty, is the labels of `target_info`.
// Attributes that become one label are told apart as on the agent's page. Series that are left out, since
// another one has their name, are counted on the page in `gpulens_page_series_dropped`, which is absent when
// there are none.
void WriteMetricsPage(std::span<const Sample> samples, const AttributeSet& resource, PageForm form,
                      Instant now, std::string& out);

}  // namespace gpulens::sdk
