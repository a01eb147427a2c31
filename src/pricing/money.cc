#include "pricing/money.h"

#include <numeric>

#include "base/check.h"
#include "base/parse.h"

namespace gpulens::pricing {
namespace {

constexpr int kUsdDecimals = 12;
constexpr int kMicroDecimals = 6;
constexpr size_t kMostWholeDigits = 18;
constexpr size_t kMostMicroDigits = 26;
constexpr size_t kMostRatioDigits = 9;

__extension__ typedef unsigned __int128 UInt128;

Int128 PowerOfTen(int exponent) noexcept {
  Int128 power = 1;
  for (int i = 0; i < exponent; ++i) power *= 10;
  return power;
}

// value / 10^decimals with all decimals.
std::string FixedText(Int128 value, int decimals) {
  const bool negative = value < 0;
  UInt128 rest = negative ? 0 - static_cast<UInt128>(value) : static_cast<UInt128>(value);
  std::string reversed;
  for (int i = 0; rest > 0 || i <= decimals; ++i, rest /= 10) {
    if (i == decimals && decimals > 0) reversed += '.';
    reversed += static_cast<char>('0' + static_cast<int>(rest % 10));
  }
  if (negative) reversed += '-';
  return {reversed.rbegin(), reversed.rend()};
}

bool IsDigits(std::string_view text) noexcept {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
}

Int128 DigitsOf(std::string_view digits) noexcept {
  Int128 value = 0;
  for (char c : digits) value = value * 10 + (c - '0');
  return value;
}

}  // namespace

std::optional<Ratio> ParseRatio(std::string_view text) noexcept {
  Ratio ratio;
  if (const size_t slash = text.find('/'); slash != std::string_view::npos) {
    const std::string_view above = text.substr(0, slash), below = text.substr(slash + 1);
    if (!IsDigits(above) || !IsDigits(below)) return std::nullopt;
    if (above.size() > kMostRatioDigits || below.size() > kMostRatioDigits) return std::nullopt;
    ratio = {static_cast<int64_t>(DigitsOf(above)), static_cast<int64_t>(DigitsOf(below))};
  } else {
    const size_t point = text.find('.');
    const std::string_view whole = text.substr(0, point);
    const std::string_view decimals = point == std::string_view::npos ? "" : text.substr(point + 1);
    if (!IsDigits(whole) || (point != std::string_view::npos && !IsDigits(decimals))) return std::nullopt;
    if (whole.size() + decimals.size() > kMostRatioDigits) return std::nullopt;
    const Int128 scale = PowerOfTen(static_cast<int>(decimals.size()));
    ratio = {static_cast<int64_t>(DigitsOf(whole) * scale + DigitsOf(decimals)), static_cast<int64_t>(scale)};
  }
  if (ratio.denominator == 0) return std::nullopt;
  const int64_t common = std::gcd(ratio.numerator, ratio.denominator);
  return Ratio{ratio.numerator / common, ratio.denominator / common};
}

std::optional<int64_t> Scaled(int64_t amount, Ratio by) noexcept {
  if (amount < 0 || by.numerator < 0 || by.denominator <= 0) return std::nullopt;
  // Both factors are below 2^63, so twice their product fits.
  const Int128 twice = 2 * (Int128{amount} * by.numerator) + by.denominator;
  const Int128 rounded = twice / (2 * Int128{by.denominator});
  if (rounded > INT64_MAX) return std::nullopt;
  return static_cast<int64_t>(rounded);
}

std::string MicrosText(PicoSum sum) { return FixedText(sum.pico(), kMicroDecimals); }

std::optional<PicoSum> ParseMicros(std::string_view text) noexcept {
  const bool negative = text.starts_with('-');
  if (negative) text.remove_prefix(1);
  const size_t point = text.find('.');
  if (point == std::string_view::npos || point > kMostMicroDigits) return std::nullopt;
  const std::string_view whole = text.substr(0, point), decimals = text.substr(point + 1);
  if (!IsDigits(whole) || !IsDigits(decimals) || decimals.size() != kMicroDecimals) return std::nullopt;
  const Int128 pico = DigitsOf(whole) * kPicoPerMicro + DigitsOf(decimals);
  return PicoSum(negative ? -pico : pico);
}

std::string UsdText(PicoSum sum) {
  std::string text = FixedText(sum.pico(), kUsdDecimals);
  const size_t least = text.size() - kUsdDecimals + 2;
  while (text.size() > least && text.back() == '0') text.pop_back();
  return text;
}

std::optional<PicoSum> ParseUsd(std::string_view text) noexcept {
  const bool negative = text.starts_with('-');
  if (negative) text.remove_prefix(1);
  const size_t point = text.find('.');
  const std::string_view whole = text.substr(0, point);
  const std::string_view decimals = point == std::string_view::npos ? "0" : text.substr(point + 1);
  if (!IsDigits(whole) || whole.size() > kMostWholeDigits) return std::nullopt;
  if (!IsDigits(decimals) || decimals.size() > kUsdDecimals) return std::nullopt;
  const Int128 pico = DigitsOf(whole) * kPicoPerUsd +
                      DigitsOf(decimals) * PowerOfTen(kUsdDecimals - static_cast<int>(decimals.size()));
  return PicoSum(negative ? -pico : pico);
}

Int128 MinorUnits(PicoSum sum, int decimals) noexcept {
  CHECK(decimals >= 0 && decimals <= kUsdDecimals);
  const Int128 unit = PowerOfTen(kUsdDecimals - decimals);
  Int128 minor = sum.pico() / unit, rest = sum.pico() % unit;
  const bool negative = rest < 0;
  if (negative) rest = -rest;
  if (2 * rest > unit || (2 * rest == unit && minor % 2 != 0)) minor += negative ? -1 : 1;
  return minor;
}

std::string MinorText(Int128 minor, int decimals) { return FixedText(minor, decimals); }

Int128 RoundingLine(std::span<const PicoSum> lines, int decimals) noexcept {
  PicoSum total;
  Int128 shown = 0;
  for (const PicoSum& line : lines) {
    total.Add(line);
    shown += MinorUnits(line, decimals);
  }
  return MinorUnits(total, decimals) - shown;
}

}  // namespace gpulens::pricing
