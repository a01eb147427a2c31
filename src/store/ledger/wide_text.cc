#include "store/ledger/wide_text.h"

#include <algorithm>

namespace gpulens::ledger {
namespace {

__extension__ using Magnitude = unsigned __int128;

constexpr size_t kMostDigits = 38;  // of 2^127 are 39

Magnitude MagnitudeOf(__int128 value) noexcept {
  return value < 0 ? -static_cast<Magnitude>(value) : static_cast<Magnitude>(value);
}

std::string Digits(Magnitude value, size_t least) {
  std::string digits;
  for (; value != 0; value /= 10) digits += static_cast<char>('0' + static_cast<int>(value % 10));
  if (digits.size() < least) digits.append(least - digits.size(), '0');
  std::ranges::reverse(digits);
  return digits;
}

}  // namespace

std::string WideText(__int128 value, int decimals) {
  const auto places = static_cast<size_t>(decimals);
  std::string text = Digits(MagnitudeOf(value), places + 1);
  if (places > 0) {
    text.insert(text.size() - places, 1, '.');
    text.resize(text.find_last_not_of('0') + 1);
    if (text.back() == '.') text.pop_back();
  }
  return value < 0 ? "-" + text : text;
}

std::string RoundedText(__int128 value, int decimals, int shown, bool grouped) {
  Magnitude divisor = 1;
  for (int i = shown; i < decimals; ++i) divisor *= 10;
  const Magnitude whole = MagnitudeOf(value);
  Magnitude rounded = whole / divisor;
  const Magnitude rest = whole % divisor;
  if (rest > divisor - rest || (rest != 0 && rest == divisor - rest && rounded % 2 == 1)) ++rounded;
  const auto places = static_cast<size_t>(std::min(shown, decimals));
  std::string text = Digits(rounded, places + 1);
  const size_t units = text.size() - places;
  if (places > 0) text.insert(units, 1, '.');
  if (grouped) {
    for (size_t at = units; at > 3;) text.insert(at -= 3, 1, ',');
  }
  return value < 0 && rounded != 0 ? "-" + text : text;
}

std::optional<__int128> ParseWide(std::string_view text) noexcept {
  const bool negative = text.starts_with('-');
  if (negative) text.remove_prefix(1);
  if (text.empty() || text.size() > kMostDigits) return std::nullopt;
  __int128 value = 0;
  for (char digit : text) {
    if (digit < '0' || digit > '9') return std::nullopt;
    value = value * 10 + (digit - '0');
  }
  return negative ? -value : value;
}

}  // namespace gpulens::ledger
