#include "wire/number_text.h"

#include <charconv>
#include <cmath>
#include <cstring>
#include <string_view>

namespace gpulens {
namespace {

// Numbers of at most six decimals, as people and sensors write them: the same text as to_chars gives,
// several times quicker. Null when the value is another one.
char* WriteDecimals(char* at, double value) noexcept {
  constexpr double kMillion = 1e6;
  double size = std::fabs(value);
  if (!(size >= 1e-3 && size < 1e9)) return nullptr;
  auto millionths = static_cast<uint64_t>(size * kMillion + 0.5);
  if (static_cast<double>(millionths) / kMillion != size) return nullptr;
  if (value < 0) *at++ = '-';
  at = std::to_chars(at, at + kNumberBytes, millionths / 1'000'000).ptr;
  *at++ = '.';
  auto rest = static_cast<uint32_t>(millionths % 1'000'000);
  for (int i = 5; i >= 0; --i, rest /= 10) at[i] = static_cast<char>('0' + rest % 10);
  at += 6;
  while (at[-1] == '0') --at;
  return at;
}

char* Copy(char* at, std::string_view text) noexcept {
  std::memcpy(at, text.data(), text.size());
  return at + text.size();
}

}  // namespace

char* WriteInteger(char* at, int64_t value) noexcept {
  return std::to_chars(at, at + kNumberBytes, value).ptr;
}

char* WriteNumber(char* at, double value) noexcept {
  // Whole numbers below 2^53 are exact as integers, and several times quicker to write.
  constexpr double kExact = 9007199254740992.0;
  if (value > -kExact && value < kExact) {
    int64_t whole = static_cast<int64_t>(value);
    if (static_cast<double>(whole) == value && (whole != 0 || !std::signbit(value)))
      return WriteInteger(at, whole);
  }
  if (std::isnan(value)) return Copy(at, "NaN");
  if (std::isinf(value)) return Copy(at, value > 0 ? "+Inf" : "-Inf");
  if (char* end = WriteDecimals(at, value)) return end;
  return std::to_chars(at, at + kNumberBytes, value).ptr;
}

}  // namespace gpulens
