// Numbers of an exposition page, exactly as strtod reads them. Decimal and scientific spelling, and
// the words for infinity and NaN in any case; hexadecimal is refused, as Prometheus does.
// Inline because the steady scrape does little else. Pure functions, safe from any thread.
#pragma once

#include <algorithm>
#include <bit>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <optional>
#include <string_view>

namespace gpulens {

constexpr size_t kMaxNumberBytes = 1024;  // The longest exact double has 767 significant digits.

namespace exposition_internal {

inline bool IsDigit(char c) noexcept { return static_cast<unsigned char>(c - '0') < 10; }
inline bool EndsNumber(char c) noexcept { return c == ' ' || c == '\n' || c == '\t' || c == '\r'; }

inline bool EqualsLower(std::string_view text, std::string_view lower) noexcept {
  return std::equal(text.begin(), text.end(), lower.begin(), lower.end(),
                    [](char a, char b) { return (a >= 'A' && a <= 'Z' ? a + 32 : a) == b; });
}

// What from_chars calls out of range: whether it is too large (otherwise too small) for a double.
inline bool IsTooLarge(std::string_view decimal) noexcept {
  int64_t magnitude = 0;
  bool dot = false, found = false;
  size_t i = 0;
  for (; i < decimal.size() && (decimal[i] | 32) != 'e'; ++i) {
    if (decimal[i] == '.') {
      dot = true;
    } else {
      found = found || decimal[i] != '0';
      if (found && !dot) ++magnitude;
      if (!found && dot) --magnitude;
    }
  }
  bool negative = i + 1 < decimal.size() && decimal[i + 1] == '-';
  int64_t exponent = 0;
  for (; i < decimal.size(); ++i) {
    if (IsDigit(decimal[i])) exponent = std::min<int64_t>(exponent * 10 + (decimal[i] - '0'), 1 << 30);
  }
  return magnitude + (negative ? -exponent : exponent) > 0;
}

constexpr double kPowersOfTen[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,
                                   1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19};

}  // namespace exposition_internal

// The whole of `text` as a number. Too large gives infinity and too small zero, as strtod does; the
// sign of a NaN is dropped.
inline std::optional<double> ParseExpositionNumber(std::string_view text) noexcept {
  using namespace exposition_internal;
  bool negative = !text.empty() && text[0] == '-';
  if (!text.empty() && (text[0] == '-' || text[0] == '+')) text.remove_prefix(1);
  if (text.empty() || text.size() > kMaxNumberBytes) return std::nullopt;
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  double value = 0;
  if (!IsDigit(text[0]) && text[0] != '.') {
    if (EqualsLower(text, "nan")) return std::numeric_limits<double>::quiet_NaN();
    if (!EqualsLower(text, "inf") && !EqualsLower(text, "infinity")) return std::nullopt;
    value = kInfinity;
  } else {
    const char* end = text.data() + text.size();
    auto result = std::from_chars(text.data(), end, value);
    if (result.ec == std::errc::invalid_argument || result.ptr != end) return std::nullopt;
    if (result.ec != std::errc{}) value = IsTooLarge(text) ? kInfinity : 0.0;
  }
  return negative ? -value : value;
}

namespace exposition_internal {

// The digits at the front of 8 bytes: how many, at most 8, and what they amount to. Little-endian only.
struct LeadingDigits {
  unsigned count;
  uint64_t value;
};
inline LeadingDigits ReadLeadingDigits(const char* p) noexcept {
  uint64_t bytes;
  std::memcpy(&bytes, p, sizeof bytes);
  bytes ^= 0x3030303030303030;
  // The high bit of every byte up to the first that is no digit says whether it is one; later bytes
  // may be wrong, as a sum can carry into them.
  uint64_t others = ((bytes + 0x7676767676767676) | bytes) & 0x8080808080808080;
  unsigned count = others == 0 ? 8 : static_cast<unsigned>(std::countr_zero(others)) / 8;
  if (count == 0) return {0, 0};
  bytes <<= 64 - 8 * count;
  bytes = (bytes * 10) + (bytes >> 8);
  return {count, (((bytes & 0x000000FF000000FF) * 0x000F424000000064) +
                  (((bytes >> 16) & 0x000000FF000000FF) * 0x0000271000000001)) >>
                     32};
}

// Up to 7 digits, a dot, up to 7 digits: most numbers there are, without a loop. nullptr: not so.
// Reads 17 bytes from `p`.
inline const char* ReadShortNumber(const char* p, double& value) noexcept {
  const bool negative = *p == '-';
  p += negative;
  LeadingDigits whole = ReadLeadingDigits(p);
  if (whole.count == 8) return nullptr;
  p += whole.count;
  double magnitude = static_cast<double>(static_cast<int64_t>(whole.value));
  if (*p == '.') {
    LeadingDigits fraction = ReadLeadingDigits(++p);
    if (fraction.count == 8 || whole.count + fraction.count == 0) return nullptr;
    p += fraction.count;
    double power = kPowersOfTen[fraction.count];
    magnitude = (magnitude * power + static_cast<double>(static_cast<int64_t>(fraction.value))) / power;
  } else if (whole.count == 0) {
    return nullptr;
  }
  if (!EndsNumber(*p)) return nullptr;
  value = negative ? -magnitude : magnitude;
  return p;
}

}  // namespace exposition_internal

// Reads the number at `p`, which must end at a blank, a line break or `end`. Returns the byte behind
// it; nullptr when it is none.
inline const char* ReadExpositionNumber(const char* p, const char* end, double& value) noexcept {
  using namespace exposition_internal;
  if constexpr (std::endian::native == std::endian::little) {
    if (end - p > 24) [[likely]] {
      if (const char* next = ReadShortNumber(p, value)) [[likely]]
        return next;
    }
  }
  const char* const start = p;
  const bool negative = p != end && *p == '-';
  p += negative;
  const char* const digits = p;
  uint64_t mantissa = 0;
  for (; p != end && IsDigit(*p); ++p) mantissa = mantissa * 10 + static_cast<uint64_t>(*p - '0');
  ptrdiff_t count = p - digits, fraction = 0;
  if (p != end && *p == '.') {
    const char* const dot = ++p;
    for (; p != end && IsDigit(*p); ++p) mantissa = mantissa * 10 + static_cast<uint64_t>(*p - '0');
    fraction = p - dot;
    count += fraction;
  }
  // Both the mantissa and the power of ten are exact doubles here, so one division rounds right.
  if (count > 0 && count <= 19 && mantissa <= (uint64_t{1} << 53) && (p == end || EndsNumber(*p)))
      [[likely]] {
    double magnitude = static_cast<double>(static_cast<int64_t>(mantissa));
    if (fraction != 0) magnitude /= kPowersOfTen[fraction];
    value = negative ? -magnitude : magnitude;
    return p;
  }
  while (p != end && !EndsNumber(*p) && p - start <= static_cast<ptrdiff_t>(kMaxNumberBytes)) ++p;
  auto number = ParseExpositionNumber({start, static_cast<size_t>(p - start)});
  if (!number || (p != end && !EndsNumber(*p))) return nullptr;
  value = *number;
  return p;
}

}  // namespace gpulens
