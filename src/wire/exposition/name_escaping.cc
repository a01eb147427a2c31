#include "wire/exposition/name_escaping.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <iterator>

#include "base/text.h"

namespace gpulens {
namespace {

constexpr std::string_view kWords[kNameEscapings] = {"allow-utf-8", "underscores", "dots", "values"};

// What a byte may be in a legacy name.
enum NameByte : uint8_t { kNever, kAfterTheFirst, kColon, kAnywhere };

constexpr std::array<NameByte, 256> MakeNameBytes() {
  std::array<NameByte, 256> bytes{};
  for (int c = 'a'; c <= 'z'; ++c) bytes[static_cast<size_t>(c)] = kAnywhere;
  for (int c = 'A'; c <= 'Z'; ++c) bytes[static_cast<size_t>(c)] = kAnywhere;
  for (int c = '0'; c <= '9'; ++c) bytes[static_cast<size_t>(c)] = kAfterTheFirst;
  bytes['_'] = kAnywhere;
  bytes[':'] = kColon;
  return bytes;
}
constexpr std::array<NameByte, 256> kNameBytes = MakeNameBytes();

bool IsLegacy(char c, bool first, bool colon) noexcept {
  const NameByte byte = kNameBytes[static_cast<unsigned char>(c)];
  return byte == kAnywhere || (byte == kColon && colon) || (byte == kAfterTheFirst && !first);
}

bool IsLegacyName(std::string_view name, bool colon) noexcept {
  if (name.empty() || !IsLegacy(name[0], true, colon)) return false;
  return std::all_of(name.begin() + 1, name.end(), [colon](char c) { return IsLegacy(c, false, colon); });
}

// The code point of a valid sequence.
uint32_t CodePoint(std::string_view sequence) noexcept {
  const auto lead = static_cast<unsigned char>(sequence[0]);
  if (sequence.size() == 1) return lead;
  uint32_t point = lead & (0x7Fu >> sequence.size());
  for (char c : sequence.substr(1)) point = point << 6 | (static_cast<unsigned char>(c) & 0x3Fu);
  return point;
}

void AppendHexPoint(std::string& out, uint32_t point) {
  char digits[8];
  const auto [end, error] = std::to_chars(digits, digits + sizeof digits, point, 16);
  out += '_';
  out.append(digits, end);
  out += '_';
}

std::string EscapeName(std::string_view name, NameEscaping escaping, bool colon) {
  if (escaping == NameEscaping::kUtf8 || name.empty() || IsLegacyName(name, colon)) return std::string(name);
  const bool underscores = escaping == NameEscaping::kUnderscores, dots = escaping == NameEscaping::kDots;
  std::string out = escaping == NameEscaping::kValues ? "U__" : "";
  bool first = true;
  for (size_t length; !name.empty(); name.remove_prefix(length), first = false) {
    length = std::max<size_t>(1, Utf8Length(name));
    const char c = name[0];
    if (c == '_' && !underscores) out += "__";
    else if (IsLegacy(c, first, colon)) out += c;
    else if (underscores) out += '_';
    else if (dots) out += c == '.' ? "_dot_" : "__";
    else if (Utf8Length(name) == 0) out += "_FFFD_";
    else AppendHexPoint(out, CodePoint(name.substr(0, length)));
  }
  return out;
}

}  // namespace

std::string_view NameEscapingWord(NameEscaping escaping) noexcept {
  return kWords[static_cast<size_t>(escaping)];
}

std::optional<NameEscaping> FindNameEscaping(std::string_view word) noexcept {
  const auto* found = std::ranges::find(kWords, word);
  if (found == std::end(kWords)) return std::nullopt;
  return static_cast<NameEscaping>(found - std::begin(kWords));
}

bool IsLegacyMetricName(std::string_view name) noexcept { return IsLegacyName(name, true); }
bool IsLegacyLabelName(std::string_view name) noexcept { return IsLegacyName(name, false); }

std::string EscapeMetricName(std::string_view name, NameEscaping escaping) {
  return EscapeName(name, escaping, true);
}
std::string EscapeLabelName(std::string_view name, NameEscaping escaping) {
  return EscapeName(name, escaping, false);
}

}  // namespace gpulens
