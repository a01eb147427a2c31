#include "wire/otlp_in/name_filter.h"

#include <algorithm>

namespace gpulens {

// The last star is gone back to when what follows it does not match: earlier ones need not move.
bool MatchesStars(std::string_view pattern, std::string_view name) noexcept {
  size_t p = 0, n = 0, star = std::string_view::npos, from = 0;
  while (n < name.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      from = n;
    } else if (p < pattern.size() && pattern[p] == name[n]) {
      ++p, ++n;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      n = ++from;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

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
