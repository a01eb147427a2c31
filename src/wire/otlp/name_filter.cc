#include "wire/otlp/name_filter.h"

#include <algorithm>

#include "base/text.h"

namespace gpulens {

NameFilter::NameFilter(std::span<const std::string> patterns) {
  for (const std::string& pattern : patterns)
    (pattern.find('*') == std::string::npos ? exact_ : starred_).push_back(pattern);
  std::sort(exact_.begin(), exact_.end());
}

bool NameFilter::Matches(std::string_view name) const noexcept {
  if (std::binary_search(exact_.begin(), exact_.end(), name)) return true;
  return std::any_of(starred_.begin(), starred_.end(),
                     [name](const std::string& pattern) { return MatchesStars(pattern, name); });
}

}  // namespace gpulens
