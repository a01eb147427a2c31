// Strict parsing of numbers (the whole text, C locale, in range), and splitting of text.
#pragma once

#include <algorithm>
#include <charconv>
#include <concepts>
#include <cstdint>
#include <limits>
#include <optional>
#include <string_view>

namespace gpulens {

// Decimal by default. Empty, blanks, a plus sign, trailing bytes and overflow give nothing.
template <std::integral T>
std::optional<T> ParseInt(std::string_view text, int base = 10) noexcept {
  T value{};
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// Decimal or scientific, "inf", "nan"; no hexadecimal, no plus sign.
inline std::optional<double> ParseDouble(std::string_view text) noexcept {
  double value = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// Whether a number that from_chars calls out of range is too large for a double; otherwise it is too small.
inline bool IsTooLarge(std::string_view decimal) noexcept {
  int64_t magnitude = 0;
  bool dot = false, found = false;
  size_t i = 0;
  for (; i < decimal.size() && (decimal[i] | 32) != 'e'; ++i) {
    if (decimal[i] == '.') {
      dot = true;
    } else if (decimal[i] != '-') {
      found = found || decimal[i] != '0';
      if (found && !dot) ++magnitude;
      if (!found && dot) --magnitude;
    }
  }
  bool negative = i + 1 < decimal.size() && decimal[i + 1] == '-';
  int64_t exponent = 0;
  for (; i < decimal.size(); ++i) {
    if (decimal[i] >= '0' && decimal[i] <= '9')
      exponent = std::min<int64_t>(exponent * 10 + (decimal[i] - '0'), 1 << 30);
  }
  return magnitude + (negative ? -exponent : exponent) > 0;
}

// The same, but a number beyond the range of a double is infinite or 0, as strtod has it.
inline std::optional<double> ParseSaturated(std::string_view text) noexcept {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc::invalid_argument || end != text.data() + text.size()) return std::nullopt;
  if (error == std::errc{}) return value;
  const double size = IsTooLarge(text) ? std::numeric_limits<double>::infinity() : 0;
  return text.front() == '-' ? -size : size;
}

// Removes blanks, tabs, returns and newlines around a text.
constexpr std::string_view Trim(std::string_view text) noexcept {
  constexpr std::string_view kBlank = " \t\r\n";
  size_t first = text.find_first_not_of(kBlank);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlank) - first + 1);
}

// Ignores the case of ASCII only.
constexpr bool EqualsIgnoringCase(std::string_view a, std::string_view b) noexcept {
  if (a.size() != b.size()) return false;
  const auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; };
  for (size_t i = 0; i < a.size(); ++i) {
    if (lower(a[i]) != lower(b[i])) return false;
  }
  return true;
}

// Removes the text before the next `separator` from the front of `rest`, or all of it, and returns it.
constexpr std::string_view TakeUntil(std::string_view& rest, char separator) noexcept {
  size_t at = rest.find(separator);
  std::string_view head = rest.substr(0, at);
  rest = at == std::string_view::npos ? std::string_view{} : rest.substr(at + 1);
  return head;
}

}  // namespace gpulens
