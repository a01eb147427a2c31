// JSON text, walked value by value without a tree: for readers that know what they look for.
//
//   scanner.Enter();                                   // at '{'
//   for (bool begun = false; scanner.NextMember(begun, key);) scanner.Skip();
//
// Strict as RFC 8259 is. After the first failure every call fails. Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace gpulens {

class JsonScanner {
 public:
  enum Kind : unsigned char { kNothing, kObject, kArray, kString, kNumber, kTrue, kFalse, kNull };

  // `text` is UTF-8 and outlives the scanner.
  JsonScanner(std::string_view text, size_t most_depth) noexcept : text_(text), most_depth_(most_depth) {}

  // Of the value that comes next; kNothing at what begins none.
  Kind Peek() noexcept;
  // Into the object or array that comes next.
  bool Enter() noexcept;
  // To the value of the next member, and its key, which holds until the next text is read. False at the end
  // of the object, which then is left. `begun`: false before the first.
  bool NextMember(bool& begun, std::string_view& key);
  bool NextItem(bool& begun) noexcept { return More(begun, ']'); }

  // Each takes the value of its kind. What is returned holds until the next text is read.
  bool String(std::string_view& out);
  bool Number(std::string_view& out) noexcept;
  bool Word() noexcept;  // true, false, null
  bool Skip();           // whatever it is
  // Nothing but blanks is left.
  bool AtEnd() noexcept;

  // Always false. The first one stays; `what` has static storage.
  bool Fail(const char* what) noexcept;
  bool failed() const noexcept { return what_ != nullptr; }
  bool too_deep() const noexcept { return too_deep_; }
  const char* what() const noexcept { return what_; }
  size_t at() const noexcept { return at_; }

 private:
  bool Take(char c) noexcept;
  void Blank() noexcept;
  bool More(bool& begun, char close) noexcept;
  bool Digits() noexcept;
  bool Escape();
  bool CodeUnit(unsigned& unit) noexcept;

  const std::string_view text_;
  const size_t most_depth_;
  size_t at_ = 0, depth_ = 0;
  std::string scratch_;  // of text with escapes
  const char* what_ = nullptr;
  bool too_deep_ = false;
};

}  // namespace gpulens
