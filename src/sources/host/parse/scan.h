// Lines, fields, numbers and error texts for the parsers of this folder. Pure functions that allocate only to
// describe an error.
#pragma once

#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gpulens/status.h>

#include "base/parse.h"
#include "base/text.h"

namespace gpulens {

// Limit of lists (devices, mounts, interfaces, zones). Past it: kExhausted.
inline constexpr size_t kMaxHostDevices = 4096;
// Lines of a file of keys and values.
inline constexpr size_t kMaxHostKeys = 2048;

// kDataLoss with the file, what is wrong, and the start of the text in printable form.
inline Status BadText(std::string_view file, std::string_view what, std::string_view text = {}) {
  Status status{Code::kDataLoss, std::string(file)};
  status.detail.append(": ").append(what);
  if (!text.empty()) {
    status.detail += ": \"";
    AppendPrintable(status.detail, text.substr(0, 48));
    status.detail += '"';
  }
  return status;
}

inline Status TooMany(std::string_view file, std::string_view what, size_t limit) {
  return {Code::kExhausted,
          std::string(file) + ": more than " + std::to_string(limit) + " " + std::string(what)};
}

// For readers that go on after a failure and report the first one.
inline void KeepFirst(Status& first, Status status) {
  if (first.ok() && !status.ok()) first = std::move(status);
}

// Splits a text into lines. A last line without its newline means that the text was cut, and a cut number is
// a wrong number, so such a text is refused as a whole.
class LineScanner {
 public:
  LineScanner(std::string_view file, std::string_view text, size_t max_lines) noexcept
      : file_(file), rest_(text), lines_left_(max_lines), max_lines_(max_lines) {
    if (text.empty()) problem_ = "empty";
    else if (text.back() != '\n') problem_ = "cut off in the last line";
    else if (std::memchr(text.data(), 0, text.size()) != nullptr) problem_ = "binary data";
  }

  bool Next(std::string_view& line) noexcept {
    if (problem_ != nullptr || rest_.empty()) return false;
    if (lines_left_-- == 0) {
      problem_ = "";
      return false;
    }
    line = TakeUntil(rest_, '\n');
    if (line.ends_with('\r')) problem_ = "carriage return";
    return problem_ == nullptr;
  }
  // Why Next() ended: ok at the end of the text.
  Status status() const {
    if (problem_ == nullptr) return Ok();
    return *problem_ == 0 ? TooMany(file_, "lines", max_lines_) : BadText(file_, problem_);
  }

 private:
  std::string_view file_;
  std::string_view rest_;
  size_t lines_left_;
  size_t max_lines_;
  const char* problem_ = nullptr;
};

constexpr bool IsBlank(char c) noexcept { return c == ' ' || c == '\t'; }
constexpr bool IsDigit(char c) noexcept { return c >= '0' && c <= '9'; }
constexpr bool AllDigits(std::string_view text) noexcept {
  for (char c : text) {
    if (!IsDigit(c)) return false;
  }
  return !text.empty();
}

// The next field between blanks and tabs; empty at the end of the line.
constexpr std::string_view NextField(std::string_view& rest) noexcept {
  size_t begin = 0;
  while (begin < rest.size() && IsBlank(rest[begin])) ++begin;
  size_t end = begin;
  while (end < rest.size() && !IsBlank(rest[end])) ++end;
  std::string_view field = rest.substr(begin, end - begin);
  rest.remove_prefix(end);
  return field;
}

// The next field as a number; false when it is none (negative, too large, garbage, absent).
inline bool NextUint(std::string_view& rest, uint64_t& value) noexcept {
  auto parsed = ParseInt<uint64_t>(NextField(rest));
  value = parsed.value_or(0);
  return parsed.has_value();
}

// Plain decimals as the kernel prints them ("12.34"): no sign, exponent, inf or nan.
inline std::optional<double> ParseDecimal(std::string_view text) noexcept {
  if (text.empty() || !IsDigit(text.front())) return std::nullopt;
  for (char c : text) {
    if (!IsDigit(c) && c != '.') return std::nullopt;
  }
  auto value = ParseDouble(text);
  return value && *value < 1e18 ? value : std::nullopt;
}

// False when the product does not fit.
inline bool Scale(uint64_t value, uint64_t factor, uint64_t& out) noexcept {
  return !__builtin_mul_overflow(value, factor, &out);
}

// Maps a key of a file to a member.
template <class T>
struct UintKey {
  std::string_view key;
  std::optional<uint64_t> T::* member;
  uint64_t factor = 1;
};

template <class T>
const UintKey<T>* FindKey(std::span<const UintKey<T>> keys, std::string_view key) noexcept {
  for (const UintKey<T>& row : keys) {
    if (row.key == key) return &row;
  }
  return nullptr;
}

// Element `index` of a list that is refilled on each read; existing elements, and with them the memory of
// their strings, are reused.
template <class T>
T& SlotAt(std::vector<T>& list, size_t index) {
  if (index == list.size()) list.emplace_back();
  return list[index];
}

// A file that holds one number and a newline.
inline Status ParseScalar(std::string_view file, std::string_view text, uint64_t& out) {
  if (!text.empty() && text.back() == '\n') text.remove_suffix(1);
  auto value = ParseInt<uint64_t>(text);
  if (!value) return BadText(file, text.empty() ? "empty" : "not a number", text);
  out = *value;
  return Ok();
}

// Lines "key number"; keys outside the table only have to be well formed.
template <class T>
Status ParseKeyedUints(std::string_view file, std::string_view text, std::span<const UintKey<T>> keys,
                       T& out) {
  out = {};
  LineScanner lines(file, text, kMaxHostKeys);
  for (std::string_view line; lines.Next(line);) {
    std::string_view rest = line;
    std::string_view key = NextField(rest);
    uint64_t value = 0;
    if (!NextUint(rest, value) || !NextField(rest).empty()) return BadText(file, "not \"key number\"", line);
    const UintKey<T>* row = FindKey(keys, key);
    if (row == nullptr) continue;
    if (!Scale(value, row->factor, value)) return BadText(file, "number too large", line);
    out.*(row->member) = value;
  }
  return lines.status();
}

}  // namespace gpulens
