// Parses YAML into an immutable tree of nodes that know their lines, under limits: a hostile text cannot make
// it recurse, loop or grow. Never throws.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <initializer_list>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include <gpulens/status.h>

namespace gpulens {

struct YamlLimits {
  size_t bytes = 1 << 20;
  size_t values = 20'000;  // with every alias counted as what it refers to
  size_t depth = 32;
  size_t key_bytes = 256;
  bool anchors = true;  // false: anchors, aliases and tags are refused
};

// A place in a text. `line` counts from 1 (0: no place), `byte` from 0 within the line.
struct YamlMark {
  int line = 0;
  int byte = 0;
  size_t bytes = 1;
};

struct YamlProblem {
  enum Kind : uint8_t {
    kSyntax,    // `message` is yaml-cpp's
    kTooLarge,  // more bytes or values than allowed
    kTooDeep,
    kKeyIsNotText,
    kDuplicateKey,  // of `key`, first at `first`; the first value is kept
    kOther,
  };
  Kind kind = kOther;
  YamlMark mark;
  std::string message;
  std::string hint;  // may be empty
  std::string key;
  YamlMark first;

  // "yaml-cpp: error at line 1, column 5: <message>".
  std::string Text() const;
};

struct YamlNode {
  enum Kind : uint8_t { kNull, kScalar, kList, kMap };
  struct Member {
    std::string key;
    YamlMark key_mark;
    const YamlNode* value = nullptr;
  };

  // Null for an absent key.
  const YamlNode* Find(std::string_view key) const noexcept;
  // The place of `length` bytes at byte `at` of a scalar's text; the whole scalar unless it is literal.
  YamlMark Within(size_t at, size_t length) const noexcept;
  // The text of a scalar member; empty when it is absent or of another kind.
  std::string TextOf(std::string_view key) const;
  // A null counts as a scalar without text.
  bool is_single() const noexcept { return kind == kNull || kind == kScalar; }

  Kind kind = kNull;
  bool quoted = false;
  bool literal = false;  // `text` is in the source as it is, from `text_byte` of its line
  // For the caller; false after parsing.
  bool replaced = false, secret = false;
  int text_byte = 0;
  YamlMark mark;  // of its key where a null has no text
  std::string text;
  std::vector<const YamlNode*> items;
  std::vector<Member> members;  // keys are unique
  size_t expanded = 1;          // values below and with it, aliases expanded
  size_t height = 1;
};

// Owns the nodes, in the order of the text. Moves keep their addresses.
class YamlTree {
 public:
  // Null: the text is empty, only comments, or could not be parsed.
  const YamlNode* root() const noexcept { return root_; }
  // The root, or a null node.
  const YamlNode& top() const noexcept;
  const std::deque<YamlNode>& nodes() const noexcept { return nodes_; }
  std::deque<YamlNode>& nodes() noexcept { return nodes_; }

 private:
  friend class YamlBuilder;
  std::deque<YamlNode> nodes_;
  const YamlNode* root_ = nullptr;
};

// Parses as far as possible and appends what is wrong: syntax, limits, duplicate keys, bytes that are not
// UTF-8.
YamlTree ParseYaml(std::string_view text, const YamlLimits& limits, std::vector<YamlProblem>& problems);

// As above; the first problem is the error: kExhausted for kTooLarge, else kInvalidArgument, with
// "<what> line <line>: <message>", or "<what>: <problem.Text()>" for kSyntax.
Result<YamlTree> ReadYaml(std::string_view text, const YamlLimits& limits, std::string_view what);

// kInvalidArgument "<where><line>: <what>".
Status YamlError(std::string_view where, int line, std::string_view what);

// Reads values of one map by key. Absent keys leave the output as it is; the first failure is kept, and later
// calls do nothing. The map must outlive it.
class YamlFields {
 public:
  template <class T>
  using Bound = std::conditional_t<std::is_integral_v<T>, int64_t, double>;

  // `where` begins every error, before the line.
  YamlFields(const YamlNode& map, std::string_view where);

  // Integers may be hexadecimal (0x…).
  template <class T>
  YamlFields& Number(std::string_view key, T& out, Bound<T> low, Bound<T> high) {
    Bound<T> value = 0;
    if (Parse(key, value, low, high)) out = static_cast<T>(value);
    return *this;
  }
  YamlFields& Flag(std::string_view key, bool& out);
  // "20GiB", "512MiB" or plain bytes.
  YamlFields& Bytes(std::string_view key, double& out);
  YamlFields& String(std::string_view key, std::string& out);
  // `words` in the order of the enumeration, whose first value is 0.
  template <class T>
  YamlFields& Choice(std::string_view key, T& out, std::initializer_list<std::string_view> words) {
    if (int index = IndexOf(key, words); index >= 0) out = static_cast<T>(index);
    return *this;
  }
  // A node of any kind; null when absent.
  const YamlNode* Child(std::string_view key);
  // Calls `read(node)`, which returns a Status, for each item of a list of at most 256.
  template <class Read>
  Status List(std::string_view key, Read read) {
    const YamlNode* list = Child(key);
    if (!list || !status_.ok()) return status_;
    if (!IsShortList(*list, key)) return status_;
    for (const YamlNode* item : list->items) {
      if (Status status = read(*item); !status.ok()) return status;
    }
    return status_;
  }

  // "<key> <what>", at the key's value or else at the map.
  YamlFields& Fail(std::string_view key, std::string_view what);
  YamlFields& FailAt(const YamlNode& node, std::string_view what);
  const YamlNode& map() const noexcept { return map_; }
  const Status& status() const noexcept { return status_; }
  // Also fails for a key that was not read.
  Status Done();

 private:
  bool Parse(std::string_view key, int64_t& out, int64_t low, int64_t high);
  bool Parse(std::string_view key, double& out, double low, double high);
  // -1: absent, or none of these.
  int IndexOf(std::string_view key, std::initializer_list<std::string_view> words);
  bool IsShortList(const YamlNode& list, std::string_view key);
  const std::string* Text(std::string_view key);

  const YamlNode& map_;
  std::string where_;
  std::vector<std::string> known_;
  Status status_;
};

}  // namespace gpulens
