// Text that came from elsewhere, made safe to print, and help with words people mistyped.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace gpulens {

// Appends `text` as a JSON string with its quotes. Control characters are escaped; invalid UTF-8 becomes
// U+FFFD, so the output is always valid JSON.
void AppendJsonString(std::string& out, std::string_view text);
// Appends `text` with control characters (terminal escapes, newlines; C1, and those that turn the direction
// of writing) and invalid UTF-8 as \xNN. All that came from elsewhere goes through this on its way to a
// terminal.
void AppendPrintable(std::string& out, std::string_view text);
// The length of the well-formed UTF-8 sequence at the front of `text`; 0 when there is none.
size_t Utf8Length(std::string_view text) noexcept;
bool IsUtf8(std::string_view text) noexcept;
// The text itself when it is valid UTF-8. Otherwise a copy in `room`, in which every byte that belongs to no
// character is U+FFFD; those bytes are counted. For every text that enters from outside: names of processes,
// answers of vendor libraries, pages, programs. `room` must outlive the result.
std::string_view ValidUtf8(std::string_view text, std::string& room);
// Bytes that ValidUtf8 has replaced since the process started. Thread-safe.
uint64_t ReplacedUtf8Bytes() noexcept;
// Appends a code point, which is at most 0x10FFFF and no half of a surrogate pair, as UTF-8.
void AppendUtf8(std::string& out, uint32_t point);

// Whether a pattern is of this text: `*` stands for any text, `one` for one character, unless it is NUL. In
// time of at most pattern times text.
bool MatchesStars(std::string_view pattern, std::string_view text, char one = '\0') noexcept;

// The candidate that `word` most likely meant (edit distance at most a third of its length, at
// least 1); empty when none is near.
std::string_view NearestWord(std::string_view word, std::span<const std::string_view> candidates);

}  // namespace gpulens
