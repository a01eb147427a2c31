#include "wire/number_text.h"

#include <bit>
#include <charconv>
#include <cmath>
#include <cstring>
#include <string_view>

namespace gpulens {
namespace {

constexpr uint64_t kAsciiZeros = 0x3030303030303030;

static_assert(std::endian::native == std::endian::little, "digits lie in a word, the first one lowest");

// The eight decimal digits of a number below 10^8, one in each byte, the first one lowest: halves of four,
// then of two, then single ones, all at once.
uint64_t EightDigits(uint32_t value) noexcept {
  uint64_t fours = value / 10'000 | static_cast<uint64_t>(value % 10'000) << 32;
  uint64_t hundreds = (fours * 10'486 >> 20) & 0x0000'007F'0000'007F;
  uint64_t twos = hundreds | (fours - 100 * hundreds) << 16;
  uint64_t tens = (twos * 103 >> 10) & 0x000F'000F'000F'000F;
  return tens | (twos - 10 * tens) << 8;
}

char* Put(char* at, uint64_t digits) noexcept {
  digits |= kAsciiZeros;
  std::memcpy(at, &digits, sizeof digits);
  return at + sizeof digits;
}

// Numbers of at most six decimals, as people and sensors write them: the same text as to_chars gives,
// several times quicker. Null when the value is another one.
char* WriteDecimals(char* at, double value) noexcept {
  constexpr double kMillion = 1e6;
  double size = std::fabs(value);
  if (!(size >= 1e-3 && size < 1e9)) return nullptr;
  auto millionths = static_cast<uint64_t>(size * kMillion + 0.5);
  if (static_cast<double>(millionths) / kMillion != size) return nullptr;
  *at = '-';
  at += std::signbit(value);
  at = std::to_chars(at, at + kNumberBytes, static_cast<uint32_t>(millionths / 1'000'000)).ptr;
  *at++ = '.';
  // Two digits more than there are, so that the last ones are always zeros and fall off with the others.
  uint64_t digits = EightDigits(static_cast<uint32_t>(millionths % 1'000'000) * 100);
  Put(at, digits);
  at += 6;
  // Step by step: mostly a family has as many decimals everywhere, and a guessed branch does not wait.
  for (digits <<= 16; digits >> 56 == 0; digits <<= 8) --at;
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
