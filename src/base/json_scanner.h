// Strict (RFC 8259) JSON scanner: walks a text value by value without a tree, with a depth limit.
//
//   JsonScanner json(text);
//   json.Object([&](std::string_view key) {
//     if (key == "name") name = json.Text();
//   });
//   if (Status status = json.Finish(); !status) …
//
// After the first failure every call fails. Not thread-safe; the text must outlive the scanner.
#pragma once

#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>

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

}  // namespace gpulens
