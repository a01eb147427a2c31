// Reads PromQL as people write it for Grafana: which metrics a query selects, by which labels, and where in
// its text each of them is, so that the query can be written again with other names. It is no evaluator:
// types and functions are not checked. Variables of Grafana ($x, ${x:regex}, [[x]]) may be anywhere. Pure;
// thread-safe.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <gpulens/status.h>

namespace gpulens::migrate {

struct TextSpan {
  size_t begin = 0, end = 0;  // bytes of the query
  bool empty() const noexcept { return begin == end; }
};

// A matcher of a selector: label, operator and value; or a text that is a variable as a whole, without label.
struct Matcher {
  std::string label;   // without quotes
  std::string op;      // = != =~ !~
  std::string value;   // without quotes and escapes
  TextSpan all, rest;  // `rest`: operator and value
};

struct Selector {
  std::string metric;  // empty: the name is a variable or a pattern
  bool variable_name = false;
  TextSpan name;          // the bare name before the braces; empty where it is inside
  TextSpan braces;        // with both braces; empty where there are none
  int name_matcher = -1;  // which of `matchers` is the name: {__name__="x"} or {"x"}
  std::vector<Matcher> matchers;
  // What a change of unit has to enclose: the selector with its offset, or the function that takes its range.
  TextSpan value;
  bool range = false;
  bool aggregated = false;  // sum, avg and the like leave only the labels of their `by`
  bool operand = false;     // an operator of several selectors has it, and it was not aggregated before
  std::string function;     // the function or aggregation that takes it directly; empty: none
};

// A label outside of selectors: in by, without, on, ignoring, group_left, label_replace, label_values.
struct LabelUse {
  std::string label;
  TextSpan at;
  bool quoted = false;
  size_t first = 0, last = SIZE_MAX;  // the selectors that it is about: the indexes from first to before last
};

struct QueryParts {
  std::vector<Selector> selectors;
  std::vector<LabelUse> labels;
  std::vector<TextSpan> bare_groups;  // from group_left or group_right without parentheses to the operand
  bool bare_variable = false;         // a variable is where a metric may be: $metric
};

inline constexpr size_t kMaxQueryBytes = 64 << 10;
inline constexpr size_t kMaxQueryDepth = 96;

// kInvalidArgument: no PromQL, with the place; kExhausted: longer or deeper than the limits.
Result<QueryParts> ReadQuery(std::string_view query);

// Names of labels alone between {{ and }}, as in a legend, or after $labels. in a template of an alert, that
// `rename` has another name for, are replaced. `rename(label)` returns an empty text for a label that stays.
template <class Rename>
std::string RenameInTemplate(std::string_view text, Rename rename);

// Whether a character may be in the name of a label.
constexpr bool IsLabelCharacter(char c) noexcept {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

template <class Rename>
std::string RenameInTemplate(std::string_view text, Rename rename) {
  std::string out;
  bool inside = false;
  for (size_t at = 0; at < text.size();) {
    if (text.substr(at).starts_with("{{")) inside = true;
    if (text.substr(at).starts_with("}}")) inside = false;
    if (!inside || !IsLabelCharacter(text[at])) {
      out += text[at++];
      continue;
    }
    size_t end = at;
    while (end < text.size() && IsLabelCharacter(text[end])) ++end;
    const std::string_view word = text.substr(at, end - at);
    // A legend has the bare label, an alert's template $labels.NAME among functions and texts.
    const size_t before = text.find_last_not_of(" \t", at - 1),
                 behind = std::min(text.find_first_not_of(" \t", end), text.size());
    const bool alone = text.substr(0, before + 1).ends_with("{{") && text.substr(behind).starts_with("}}");
    const bool is_label = alone || out.ends_with("$labels.") || out.ends_with(".Labels.");
    const std::string other = is_label ? rename(word) : std::string();
    out.append(other.empty() ? word : std::string_view(other));
    at = end;
  }
  return out;
}

}  // namespace gpulens::migrate
