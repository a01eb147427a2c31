// Untrusted text made printable, UTF-8, escapes, patterns and nearest words. Pure functions but for a
// counter.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace gpulens {

// Appends `text` as a JSON string with its quotes. Control characters are escaped; invalid UTF-8 becomes
// U+FFFD, so the output is always valid JSON.
void AppendJsonString(std::string& out, std::string_view text);
// Appends `text` with control characters (terminal escapes, newlines, C1, direction marks) and invalid UTF-8
// as \xNN. For untrusted text on its way to a terminal.
void AppendPrintable(std::string& out, std::string_view text);
std::string Printable(std::string_view text);
// The length of the well-formed UTF-8 sequence at the front of `text`; 0 when there is none.
size_t Utf8Length(std::string_view text) noexcept;
bool IsUtf8(std::string_view text) noexcept;
// The text itself if it is valid UTF-8, else a copy in `room` with U+FFFD for each byte outside of a
// character, counted. For text from outside: names of processes, vendor libraries, pages, programs. `room`
// must outlive the result.
std::string_view ValidUtf8(std::string_view text, std::string& room);
// Bytes that ValidUtf8 has replaced since the process started. Thread-safe.
uint64_t ReplacedUtf8Bytes() noexcept;
// Appends a code point, at most 0x10FFFF and no surrogate, as UTF-8.
void AppendUtf8(std::string& out, uint32_t point);

// Whether a text matches a pattern, in which `*` is any text and `one`, unless NUL, one character. At most
// quadratic.
bool MatchesStars(std::string_view pattern, std::string_view text, char one = '\0') noexcept;

// The candidate nearest to `word`, within an edit distance of a third of its length, at least 1; else empty.
std::string_view NearestWord(std::string_view word, std::span<const std::string_view> candidates);

// The value of a hexadecimal digit, or -1.
constexpr int HexDigit(char c) noexcept {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

// Appends two lower-case hexadecimal digits a byte.
void AppendHex(std::string& out, std::string_view bytes);
// Reads hexadecimal digits, two a byte, into `out`. False unless there are exactly `size` bytes of them.
constexpr bool FromHex(std::string_view digits, char* out, size_t size) noexcept {
  if (digits.size() != 2 * size) return false;
  for (size_t i = 0; i < size; ++i) {
    const int high = HexDigit(digits[2 * i]), low = HexDigit(digits[2 * i + 1]);
    if (high < 0 || low < 0) return false;
    out[i] = static_cast<char>(high << 4 | low);
  }
  return true;
}

// Encodes bytes as %XX that are neither unreserved (RFC 3986, 2.3: letters, digits, "-._~") nor in
// `also_plain`.
std::string PercentEncoded(std::string_view text, std::string_view also_plain = {});
// Keeps broken escapes.
std::string PercentDecoded(std::string_view text);

// Appends base64 with padding.
void AppendBase64(std::string& out, std::string_view bytes);
// Replaces `out` with decoded base64 of either alphabet, with or without padding. False for other text.
bool FromBase64(std::string_view text, std::string& out);

// The printable part of a URL with "://": scheme://user@host:port/path, without password and parameters.
std::string UrlName(std::string_view url);

}  // namespace gpulens
