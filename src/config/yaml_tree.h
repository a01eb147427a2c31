// A YAML text as a tree with the place of every key and value, under limits: a hostile text cannot
// make it recurse, loop or grow. Knows nothing about options.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "config/diagnostic.h"

namespace gpulens {

inline constexpr size_t kConfigBytes = 1 << 20;
inline constexpr int kConfigDepth = 32;
inline constexpr size_t kConfigValues = 20'000;  // with every alias counted as what it stands for
inline constexpr size_t kConfigKeyBytes = 256;

struct YamlNode {
  enum Kind : uint8_t { kNull, kScalar, kList, kMap };
  struct Member {
    std::string key;
    TextSpan key_span;
    const YamlNode* value = nullptr;
  };

  const YamlNode* Find(std::string_view key) const noexcept;
  const Member* FindMember(std::string_view key) const noexcept;
  // The place of `length` bytes at byte `at` of a scalar's text; the whole scalar when it is written
  // with escapes or over several lines.
  TextSpan Within(size_t at, size_t length) const noexcept;

  Kind kind = kNull;
  bool literal = false;   // the text stands in the source as it is, from `text_column`
  bool replaced = false;  // the text stands elsewhere: ExpandValues has put it here
  bool secret = false;    // in a file that may hold a secret: it is not shown
  int text_column = 0;
  TextSpan span;
  std::string text;
  std::vector<const YamlNode*> items;
  std::vector<Member> members;  // keys are unique
  size_t expanded = 1;          // values below and with it, aliases expanded
  int height = 1;
};

// Owns the nodes. Immutable once parsed; move keeps the nodes where they are.
class YamlTree {
 public:
  // Null: the text is empty, only comments, or could not be parsed.
  const YamlNode* root() const noexcept { return root_; }
  const std::deque<YamlNode>& nodes() const noexcept { return nodes_; }
  std::deque<YamlNode>& nodes() noexcept { return nodes_; }

 private:
  friend class YamlBuilder;
  std::deque<YamlNode> nodes_;
  const YamlNode* root_ = nullptr;
};

// Adds what is wrong to `problems`: syntax, duplicate keys, limits, bytes that are no text. Never throws.
YamlTree ParseYaml(const SourceText& source, Problems& problems);

}  // namespace gpulens
