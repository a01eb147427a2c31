#include "base/number_text.h"

#include <array>
#include <charconv>
#include <cmath>

namespace gpulens {
namespace {

// Three digits, and how many of them stay when zeros at the end are cut off.
struct DigitGroup {
  char text[3];
  uint8_t kept;
};

constexpr std::array<DigitGroup, 1000> kGroups = [] {
  std::array<DigitGroup, 1000> groups{};
  for (unsigned i = 0; i < groups.size(); ++i) {
    auto digit = [](unsigned value) { return static_cast<char>('0' + value % 10); };
    auto kept = static_cast<uint8_t>(i % 10 != 0 ? 3 : i % 100 != 0 ? 2 : i != 0 ? 1 : 0);
    groups[i] = {{digit(i / 100), digit(i / 10), digit(i)}, kept};
  }
  return groups;
}();

// Below a thousand. Four bytes are written, of which the last is none of the number.
char* WriteGroup(char* at, uint32_t value) noexcept {
  std::memcpy(at, &kGroups[value], sizeof(DigitGroup));
  return at + 3;
}

// The same without zeros in front. Such a group is never the last of the table.
char* WriteFirst(char* at, uint32_t value) noexcept {
  uint32_t zeros = uint32_t{value < 100} + uint32_t{value < 10};
  std::memcpy(at, reinterpret_cast<const char*>(kGroups.data()) + value * sizeof(DigitGroup) + zeros,
              sizeof(DigitGroup));
  return at + 3 - zeros;
}

char* WriteUnsigned(char* at, uint64_t value) noexcept {
  constexpr uint64_t kBillion = 1'000'000'000;
  if (value < 1000) return WriteFirst(at, static_cast<uint32_t>(value));
  if (value < kBillion) {
    auto small = static_cast<uint32_t>(value), rest = small % 1000;
    small /= 1000;
    if (small < 1000) {
      at = WriteFirst(at, small);
    } else {
      at = WriteFirst(at, small / 1000);
      at = WriteGroup(at, small % 1000);
    }
    return WriteGroup(at, rest);
  }
  at = WriteUnsigned(at, value / kBillion);
  auto low = static_cast<uint32_t>(value % kBillion);
  at = WriteGroup(at, low / 1'000'000);
  at = WriteGroup(at, low / 1000 % 1000);
  return WriteGroup(at, low % 1000);
}

// Numbers of at most six decimals, as people and sensors write them: the same text as to_chars gives,
// several times quicker. Null when the value is another one.
char* WriteDecimals(char* at, double value) noexcept {
  constexpr double kMillion = 1e6;
  double size = std::fabs(value);
  if (!(size >= 1e-3 && size < 1e9)) return nullptr;
  auto millionths = static_cast<uint64_t>(size * kMillion + 0.5);
  if (static_cast<double>(millionths) / kMillion != size) return nullptr;
  if (value < 0) *at++ = '-';
  at = WriteUnsigned(at, millionths / 1'000'000);
  *at++ = '.';
  auto rest = static_cast<uint32_t>(millionths % 1'000'000);
  uint32_t first = rest / 1000, last = rest % 1000;
  WriteGroup(at, first);
  if (last == 0) return at + kGroups[first].kept;
  WriteGroup(at + 3, last);
  return at + 3 + kGroups[last].kept;
}

}  // namespace

char* WriteInteger(char* at, int64_t value) noexcept {
  // The least number has no positive counterpart, but its bits, read as unsigned, are its magnitude.
  auto size = static_cast<uint64_t>(value);
  if (value < 0) {
    *at++ = '-';
    size = 0 - size;
  }
  return WriteUnsigned(at, size);
}

char* WriteNumber(char* at, double value) noexcept {
  // Whole numbers below 2^53 are exact as integers, and several times quicker to write.
  constexpr double kExact = 9007199254740992.0;
  if (value > -kExact && value < kExact) {
    int64_t whole = static_cast<int64_t>(value);
    if (static_cast<double>(whole) == value && (whole != 0 || !std::signbit(value)))
      return WriteInteger(at, whole);
  }
  if (std::isnan(value)) return WriteText(at, "NaN");
  if (std::isinf(value)) return WriteText(at, value > 0 ? "+Inf" : "-Inf");
  if (char* end = WriteDecimals(at, value)) return end;
  return std::to_chars(at, at + kNumberBytes, value).ptr;
}

}  // namespace gpulens
