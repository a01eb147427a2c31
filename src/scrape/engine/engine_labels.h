// What a row of an engine's table does with the labels of a series: the column `labels` of engine_row.h,
// applied.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "wire/exposition/exposition_page.h"

namespace gpulens::engine_page {

// Views into the row's text: static storage. Not thread-safe only in that nothing here is shared.
class LabelPlan {
 public:
  explicit LabelPlan(std::string_view labels);

  // A label whose other series, or whose own value, decide for the whole family.
  struct Choice {
    std::string_view label, value;
    bool preferred;  // name?value; else name~value
    bool active = false;
  };
  std::span<Choice> choices() noexcept { return choices_; }
  // Tells every choice of one series of the family; once all were shown, the plan can be used.
  void Look(const std::vector<PageLabel>& labels) noexcept;

  // Whether the row is for a series with these labels.
  bool Takes(const std::vector<PageLabel>& labels) const noexcept;

  using Attributes = std::vector<std::pair<std::string, std::string>>;
  // The attributes of such a series. `all`: labels that the row does not name stay under their own names.
  void Apply(const std::vector<PageLabel>& labels, bool all, Attributes& out) const;

 private:
  struct Op {
    enum Kind : uint8_t { kBecomes, kOnly, kAdd, kDrop } kind;
    std::string_view name, text;  // text: the attribute, or the value
    std::string_view map = {};    // "a:b c*:d"
  };
  static std::string_view Mapped(std::string_view map, std::string_view value) noexcept;

  std::vector<Op> ops_;
  std::vector<Choice> choices_;
};

// The value of a label; empty when it is not there.
std::string_view LabelOf(const std::vector<PageLabel>& labels, std::string_view name) noexcept;

}  // namespace gpulens::engine_page
