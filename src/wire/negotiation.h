// Which exposition format a scraper gets, from what it says it accepts.
#pragma once

#include <string_view>

#include "wire/exposition/exposition_format.h"

namespace gpulens {

struct Negotiated {
  ExpositionFormat format = ExpositionFormat::kText004;
  std::string_view content_type;  // static storage
};

// `accept` as in RFC 9110 (several fields joined by ", "): q-values, wildcards, parameters. Among formats of
// equal q the newer wins, as scrapers list what they would rather have. A scraper that accepts none of ours
// gets text 0.0.4, as one that says nothing does: every Prometheus reads it, and a page helps a person more
// than a 406.
Negotiated Negotiate(std::string_view accept) noexcept;

}  // namespace gpulens
