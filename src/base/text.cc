#include "base/text.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <vector>

namespace gpulens {
namespace {

constexpr char kHex[] = "0123456789abcdef";
constexpr std::string_view kReplacementCharacter = "\xEF\xBF\xBD";

std::atomic<uint64_t> replaced_utf8_bytes{0};

// The number of ASCII bytes at the front, in words of eight: most texts are all ASCII.
size_t AsciiWords(std::string_view text) noexcept {
  size_t size = 0;
  for (uint64_t word; text.size() - size >= sizeof word; size += sizeof word) {
    std::memcpy(&word, text.data() + size, sizeof word);
    if ((word & 0x8080808080808080) != 0) break;
  }
  return size;
}

bool Continues(std::string_view text, size_t at) noexcept {
  return at < text.size() && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80;
}

void AppendHex(std::string& out, const char* lead, unsigned char byte) {
  out += lead;
  out += kHex[byte >> 4];
  out += kHex[byte & 15];
}

// Whether a character controls a terminal or the direction of text: C1 (as CSI, U+009B), direction marks,
// separators of lines and paragraphs.
bool IsControl(std::string_view character) noexcept {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(character[i]); };
  if (character.size() == 2) return (byte(0) == 0xC2 && byte(1) < 0xA0) || character == "\u061C";
  if (character.size() != 3 || byte(0) != 0xE2) return false;
  if (byte(1) == 0x80) return byte(2) == 0x8E || byte(2) == 0x8F || (byte(2) >= 0xA8 && byte(2) <= 0xAE);
  return byte(1) == 0x81 && byte(2) >= 0xA6 && byte(2) <= 0xA9;
}

size_t EditDistance(std::string_view a, std::string_view b) {
  // Three rows of the table: a swap of two neighbours is one mistake.
  std::vector<size_t> row(b.size() + 1), above, above_that;
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    above_that.swap(above);
    above = row;
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min({above[j] + 1, row[j - 1] + 1, above[j - 1] + (a[i - 1] != b[j - 1])});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) row[j] = std::min(row[j], above_that[j - 2] + 1);
    }
  }
  return row[b.size()];
}

int Base64Digit(char c) noexcept {
  if (c >= 'A' && c <= 'Z') return c - 'A';
  if (c >= 'a' && c <= 'z') return c - 'a' + 26;
  if (c >= '0' && c <= '9') return c - '0' + 52;
  if (c == '+' || c == '-') return 62;
  return c == '/' || c == '_' ? 63 : -1;
}

bool IsUnreserved(char c) noexcept {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' || c == '.' ||
         c == '_' || c == '~';
}

}  // namespace

// RFC 3629: no overlong forms, no surrogates, nothing above U+10FFFF.
size_t Utf8Length(std::string_view text) noexcept {
  if (text.empty()) return 0;
  auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  unsigned char first = byte(0);
  if (first < 0x80) return 1;
  if (first < 0xC2 || first > 0xF4 || !Continues(text, 1)) return 0;
  if (first < 0xE0) return 2;
  if (!Continues(text, 2)) return 0;
  if (first < 0xF0) {
    if ((first == 0xE0 && byte(1) < 0xA0) || (first == 0xED && byte(1) > 0x9F)) return 0;
    return 3;
  }
  if (!Continues(text, 3)) return 0;
  if ((first == 0xF0 && byte(1) < 0x90) || (first == 0xF4 && byte(1) > 0x8F)) return 0;
  return 4;
}

bool IsUtf8(std::string_view text) noexcept {
  for (text.remove_prefix(AsciiWords(text)); !text.empty();) {
    size_t length = Utf8Length(text);
    if (length == 0) return false;
    text.remove_prefix(length);
  }
  return true;
}

std::string_view ValidUtf8(std::string_view text, std::string& room) {
  if (IsUtf8(text)) return text;
  std::string valid;
  uint64_t replaced = 0;
  for (size_t length; !text.empty(); text.remove_prefix(std::max<size_t>(1, length))) {
    length = Utf8Length(text);
    if (length == 0) ++replaced;
    valid += length == 0 ? kReplacementCharacter : text.substr(0, length);
  }
  replaced_utf8_bytes.fetch_add(replaced, std::memory_order_relaxed);
  room = std::move(valid);
  return room;
}

uint64_t ReplacedUtf8Bytes() noexcept { return replaced_utf8_bytes.load(std::memory_order_relaxed); }

void AppendJsonString(std::string& out, std::string_view text) {
  out += '"';
  while (!text.empty()) {
    size_t length = Utf8Length(text);
    unsigned char byte = static_cast<unsigned char>(text[0]);
    if (length == 0) {
      out += "\\ufffd";
      length = 1;
    } else if (byte == '"' || byte == '\\') {
      out += '\\';
      out += text[0];
    } else if (byte == '\n') {
      out += "\\n";
    } else if (byte < 0x20 || byte == 0x7F) {
      AppendHex(out, "\\u00", byte);
    } else if (IsControl(text.substr(0, length))) {
      uint32_t point = byte & (length == 2 ? 0x1Fu : 0x0Fu);
      for (size_t i = 1; i < length; ++i) point = point << 6 | (static_cast<unsigned char>(text[i]) & 0x3Fu);
      AppendHex(out, "\\u", static_cast<unsigned char>(point >> 8));
      AppendHex(out, "", static_cast<unsigned char>(point));
    } else {
      out += text.substr(0, length);
    }
    text.remove_prefix(length);
  }
  out += '"';
}

void AppendPrintable(std::string& out, std::string_view text) {
  while (!text.empty()) {
    size_t length = Utf8Length(text);
    unsigned char byte = static_cast<unsigned char>(text[0]);
    if (length == 0 || byte < 0x20 || byte == 0x7F) {
      AppendHex(out, "\\x", byte);
      length = 1;
    } else if (IsControl(text.substr(0, length))) {
      for (char each : text.substr(0, length)) AppendHex(out, "\\x", static_cast<unsigned char>(each));
    } else {
      out += text.substr(0, length);
    }
    text.remove_prefix(length);
  }
}

std::string Printable(std::string_view text) {
  std::string out;
  AppendPrintable(out, text);
  return out;
}

std::string_view NearestWord(std::string_view word, std::span<const std::string_view> candidates) {
  constexpr size_t kLongestWord = 64;  // the distance is quadratic
  if (word.empty() || word.size() > kLongestWord) return {};
  std::string_view best;
  size_t best_distance = std::max<size_t>(1, word.size() / 3) + 1;
  for (std::string_view candidate : candidates) {
    if (candidate.size() > kLongestWord) continue;
    size_t distance = EditDistance(word, candidate);
    if (distance < best_distance) {
      best_distance = distance;
      best = candidate;
    }
  }
  return best;
}

void AppendUtf8(std::string& out, uint32_t point) {
  if (point < 0x80) {
    out += static_cast<char>(point);
    return;
  }
  const int more = point < 0x800 ? 1 : point < 0x10000 ? 2 : 3;
  constexpr uint32_t kLead[] = {0, 0xC0, 0xE0, 0xF0};
  out += static_cast<char>(kLead[more] | point >> (6 * more));
  for (int i = more - 1; i >= 0; --i) out += static_cast<char>(0x80 | (point >> (6 * i) & 63));
}

// Backtracks to the last star only: earlier ones need not move.
bool MatchesStars(std::string_view pattern, std::string_view text, char one) noexcept {
  size_t p = 0, t = 0, star = std::string_view::npos, from = 0;
  while (t < text.size()) {
    const char wanted = p < pattern.size() ? pattern[p] : '\0';
    if (p < pattern.size() && wanted == '*') {
      star = p++;
      from = t;
    } else if (p < pattern.size() && (wanted == text[t] || (one != '\0' && wanted == one))) {
      ++p, ++t;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      t = ++from;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

std::string PercentEncoded(std::string_view text, std::string_view also_plain) {
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  std::string out;
  for (char c : text) {
    if (IsUnreserved(c) || also_plain.find(c) != std::string_view::npos) {
      out += c;
      continue;
    }
    const auto byte = static_cast<unsigned char>(c);
    out += {'%', kDigits[byte >> 4], kDigits[byte & 15]};
  }
  return out;
}

std::string PercentDecoded(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool room = text[i] == '%' && i + 2 < text.size();
    const int high = room ? HexDigit(text[i + 1]) : -1, low = room ? HexDigit(text[i + 2]) : -1;
    if (high < 0 || low < 0) {
      out += text[i];
      continue;
    }
    out += static_cast<char>(high << 4 | low);
    i += 2;
  }
  return out;
}

void AppendBase64(std::string& out, std::string_view bytes) {
  constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  for (size_t i = 0; i < bytes.size(); i += 3) {
    const size_t count = std::min<size_t>(3, bytes.size() - i);
    uint32_t group = 0;
    for (size_t b = 0; b < 3; ++b) group = group << 8 | (b < count ? static_cast<uint8_t>(bytes[i + b]) : 0u);
    for (size_t d = 0; d < 4; ++d) out += d <= count ? kDigits[group >> (18 - 6 * d) & 63] : '=';
  }
}

bool FromBase64(std::string_view text, std::string& out) {
  out.clear();
  const size_t full = text.size();
  while (text.ends_with('=')) text.remove_suffix(1);
  if (full - text.size() > 2 || (full != text.size() && full % 4 != 0) || text.size() % 4 == 1) return false;
  uint32_t group = 0;
  int bits = 0;
  for (char c : text) {
    const int digit = Base64Digit(c);
    if (digit < 0) return false;
    group = (group << 6 | static_cast<uint32_t>(digit)) & 0xFFFF;
    bits += 6;
    if (bits < 8) continue;
    bits -= 8;
    out += static_cast<char>(group >> bits & 0xFF);
  }
  return true;
}

void AppendHex(std::string& out, std::string_view bytes) {
  for (char byte : bytes) AppendHex(out, "", static_cast<unsigned char>(byte));
}

std::string UrlName(std::string_view url) {
  const size_t from = url.find("://") + 3;
  const std::string_view scheme = url.substr(0, from), rest = url.substr(from);
  // An unescaped password may contain these characters: the last @ ends it.
  const size_t at = rest.rfind('@');
  std::string_view user = at == std::string_view::npos ? "" : rest.substr(0, at);
  std::string_view where = at == std::string_view::npos ? rest : rest.substr(at + 1);
  user = user.substr(0, user.find_first_of(":/?"));
  where = where.substr(0, where.find('?'));
  return std::string(scheme) + std::string(user) + (user.empty() ? "" : "@") + std::string(where);
}

}  // namespace gpulens
