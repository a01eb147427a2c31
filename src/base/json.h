// JSON from outside, strict (RFC 8259) and under limits: a scanner that walks a text value by value without a
// tree, and small documents that are read by JSON pointers.
//
//   JsonScanner json(text);
//   json.Object([&](std::string_view key) {
//     if (key == "name") name = json.Text();
//   });
//   if (Status status = json.Finish(); !status) …
#pragma once

#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <gpulens/status.h>

#include "base/parse.h"

namespace gpulens {

// The integer value of a JSON number, also written as 1.0 or 1e3; none if it has a fraction or does
// not fit.
template <std::integral T>
std::optional<T> JsonInteger(std::string_view number) noexcept {
  if (const auto whole = ParseInt<T>(number)) return whole;
  // 2^63 for an int64_t: the first double above the range, which is a power of 2.
  constexpr double kEnd = 2.0 * static_cast<double>(T{1} << (std::numeric_limits<T>::digits - 1));
  constexpr double kBegin = std::is_signed_v<T> ? -kEnd : 0;
  const auto value = ParseDouble(number);
  if (!value || !(*value >= kBegin && *value < kEnd) || *value != std::floor(*value)) return {};
  return static_cast<T>(*value);
}

// After the first failure every call fails. Not thread-safe; the text must outlive the scanner.
class JsonScanner {
 public:
  enum Kind : unsigned char { kNothing, kObject, kArray, kString, kNumber, kTrue, kFalse, kNull };

  explicit JsonScanner(std::string_view text, size_t max_depth = 64) noexcept
      : text_(text), max_depth_(max_depth) {}

  // Kind of the next value; kNothing at the end, after a failure and where no value begins.
  Kind Peek() noexcept;

  // Typed reading: a value of another type is skipped and yields nothing.
  //
  // Calls `member(key)` for each member of the object, which reads the value or leaves it to be skipped.
  // The key is valid inside the call.
  template <class Member>
  void Object(Member&& member) {
    if (Peek() != kObject) return static_cast<void>(Skip());
    std::string room;
    std::string_view key;
    Enter();
    for (bool begun = false; NextMember(begun, key);) {
      if (!key.empty() && key.data() == scratch_.data()) key = room.assign(key);
      const size_t before = ValueAt();
      if (CheckUtf8(key)) member(key);
      if (at_ == before) Skip();
    }
  }
  // Calls `item()` for each item of the array, likewise.
  template <class Item>
  void Array(Item&& item) {
    if (Peek() != kArray) return static_cast<void>(Skip());
    Enter();
    for (bool begun = false; NextItem(begun);) {
      const size_t before = ValueAt();
      item();
      if (at_ == before) Skip();
    }
  }
  std::string_view Text();  // UTF-8, valid until the next string is read
  std::optional<double> Double();
  std::optional<uint64_t> Unsigned();  // without fraction or exponent
  std::optional<bool> Bool();
  // Fails unless only blanks are left. kDataLoss: invalid JSON. kExhausted: nested too deep.
  Status Finish();

  // Step by step; each returns false on failure.
  //
  // Enters the object or array that comes next.
  bool Enter() noexcept;
  // Advances to the value of the next member. The key is valid until the next string is read. False at the
  // end of the object, which then is left. `begun`: false before the first.
  bool NextMember(bool& begun, std::string_view& key);
  bool NextItem(bool& begun) noexcept { return More(begun, ']'); }
  // Each takes a value of its kind and fails at another. Strings are valid until the next one is read and
  // as UTF-8 as the text is.
  bool String(std::string_view& out);
  bool Number(std::string_view& out) noexcept;
  bool Word() noexcept;  // true, false, null
  bool Skip();           // any value
  bool AtEnd() noexcept;

  // Returns false. The first failure stays; `what` has static storage.
  bool Fail(const char* what, Code code = Code::kDataLoss) noexcept;
  bool failed() const noexcept { return what_ != nullptr; }
  Code code() const noexcept { return code_; }
  const char* what() const noexcept { return what_; }
  size_t at() const noexcept { return at_; }

 private:
  bool Take(char c) noexcept;
  void Blank() noexcept;
  size_t ValueAt() noexcept { return Blank(), at_; }
  bool More(bool& begun, char close) noexcept;
  bool Digits() noexcept;
  bool Escape();
  bool CodeUnit(unsigned& unit) noexcept;
  bool CheckUtf8(std::string_view text) noexcept;

  const std::string_view text_;
  const size_t max_depth_;
  size_t at_ = 0, depth_ = 0;
  std::string scratch_;  // of strings with escapes
  const char* what_ = nullptr;
  Code code_ = Code::kOk;
};

// A small document. Immutable; thread-safe.
class JsonDocument {
 public:
  static constexpr size_t kMaxBytes = 4u << 20;
  static constexpr size_t kMaxDepth = 32;

  // kDataLoss: invalid JSON, with the place. kExhausted: larger or deeper than the limits.
  static Result<JsonDocument> Parse(std::string_view text);

  // `pointer` is a JSON pointer (RFC 6901): "/data/0/id"; "" is the whole. Each returns nothing when there is
  // no value of that type. A number is the double that is nearest to it.
  std::optional<std::string> Text(std::string_view pointer) const;
  std::optional<double> Number(std::string_view pointer) const;
  std::optional<uint64_t> Whole(std::string_view pointer) const { return Integral<uint64_t>(pointer); }
  std::optional<int64_t> Integer(std::string_view pointer) const { return Integral<int64_t>(pointer); }
  std::optional<bool> Truth(std::string_view pointer) const;
  bool IsNull(std::string_view pointer) const;
  // Keys of the object, in its order. Of a key that comes twice the last value counts.
  std::optional<std::vector<std::string>> Names(std::string_view pointer) const;
  // Number of elements of the array; 0 when there is none.
  size_t Size(std::string_view pointer) const;

 private:
  struct Node {
    JsonScanner::Kind kind = JsonScanner::kNothing;
    uint32_t key_at = 0, key_size = 0;  // in `texts_`
    uint32_t at = 0, size = 0;          // of a string or number in `texts_`, of children in `nodes_`
  };

  Node Store(std::string_view text, JsonScanner::Kind kind);
  bool Read(JsonScanner& json, Node& out);
  void SortMembers(std::vector<Node>& members) const;
  std::string_view KeyOf(const Node& node) const { return At(node.key_at, node.key_size); }
  std::string_view At(uint32_t at, uint32_t size) const { return std::string_view(texts_).substr(at, size); }
  const Node* Find(std::string_view pointer) const;
  const Node* Find(std::string_view pointer, JsonScanner::Kind kind) const;
  template <class T>
  std::optional<T> Integral(std::string_view pointer) const {
    const Node* node = Find(pointer, JsonScanner::kNumber);
    return node ? JsonInteger<T>(At(node->at, node->size)) : std::nullopt;
  }

  std::string texts_;
  std::vector<Node> nodes_;  // children of one node are contiguous, members of an object sorted by key
  Node root_;
};

}  // namespace gpulens
