// The labels of a line of an exposition page: `a="1",b="2"`, with names as the page's form has them.
#pragma once

#include <deque>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "wire/exposition/name_escaping.h"

namespace gpulens {

// Appends `text` with the escapes of help texts and, with `quotes`, of label values, quoted names and the
// help of OpenMetrics. A zero byte becomes U+FFFD.
void AppendEscaped(std::string& out, std::string_view text, bool quotes);

// No name stands in a set twice, since Prometheus refuses a whole page for that: a name that is there already
// after escaping, that the line adds itself (`le`), or that is reserved (`__name__`) gets `exported_` in
// front, as Prometheus calls labels that clash with a target's. A name that needed no escaping keeps itself.
//
// Not thread-safe. Remembers how names are written.
class LabelText {
 public:
  using Label = std::pair<std::string, std::string>;

  explicit LabelText(PageForm form) : form_(form) {}

  // Appends labels in their order. `taken`: the name that the line adds itself, or empty.
  void Append(std::string& out, std::span<const Label> labels, std::string_view taken = {});

 private:
  struct Name {
    std::string_view shown;  // with its quotes
    bool own = true;         // not escaped
  };

  Name Shown(std::string_view name);
  bool AllApart(std::string_view taken) const;
  void Distinguish(std::string_view taken);

  const PageForm form_;
  std::unordered_map<std::string, std::string> written_;  // of names that need quotes or escaping
  std::vector<Name> names_;                               // of the labels at hand
  std::deque<std::string> apart_;
};

}  // namespace gpulens
