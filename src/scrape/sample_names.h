// How the samples of a scraped page are called. ScrapedPage tells families; whether the samples of a
// counter `x` are named `x` or `x_total` stands only on the page itself.
#pragma once

#include <string_view>
#include <unordered_map>
#include <unordered_set>

#include "wire/exposition/exposition_line.h"
#include "wire/exposition/exposition_parser.h"

namespace gpulens {

// The suffix that samples of such a family may have in place of its name; empty for other types.
std::string_view OptionalSuffix(ExpositionType type) noexcept;

// Whether samples of the `asked` families (by name, each with an OptionalSuffix) carry the suffix; the
// first sample decides, a family without any is not in the answer. One pass over the page, for when
// families appear. `asked` must outlive the answer.
std::unordered_map<std::string_view, bool> FindSuffixed(std::string_view body, ExpositionFormat format,
                                                        const std::unordered_set<std::string_view>& asked);

}  // namespace gpulens
