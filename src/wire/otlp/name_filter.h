// Names by pattern: "go_*", "*_created", "a*b*c", "plain". Pure.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace gpulens {

// Immutable after it is made; thread-safe. A star stands for any text, also none; all else for itself.
class NameFilter {
 public:
  NameFilter() = default;
  explicit NameFilter(std::span<const std::string> patterns);

  bool empty() const noexcept { return exact_.empty() && starred_.empty(); }
  bool Matches(std::string_view name) const noexcept;

 private:
  std::vector<std::string> exact_;  // sorted
  std::vector<std::string> starred_;
};

}  // namespace gpulens
