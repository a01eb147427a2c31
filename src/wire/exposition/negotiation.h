// Which exposition format and which escaping of names a scraper gets, from what it says it accepts.
#pragma once

#include <string_view>

#include "wire/exposition/name_escaping.h"

namespace gpulens {

struct Negotiated {
  PageForm form = ExpositionFormat::kText004;
  std::string_view content_type;  // states format and escaping; static storage
};

// `accept` as in RFC 9110 (several fields joined by ", "): q-values, wildcards, parameters. Among formats of
// equal q the newer wins, as scrapers list what they would rather have. A scraper that accepts none of ours
// gets text 0.0.4, as one that says nothing does: every Prometheus reads it, and a page helps a person more
// than a 406. One that names a newer OpenMetrics than ours, and nothing else of ours, gets our OpenMetrics.
//
// Names are escaped as the chosen element's `escaping` asks, and by underscores when it asks for nothing that
// is known: a reader that does not speak of escaping may refuse the whole page for one quoted name.
Negotiated Negotiate(std::string_view accept) noexcept;

}  // namespace gpulens
