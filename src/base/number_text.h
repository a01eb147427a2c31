// Numbers as exposition text, as quickly as a page of thousands wants them. No locale, no allocation.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace gpulens {

// Both may write this many bytes at `at`, and return the end of what counts.
inline constexpr size_t kNumberBytes = 32;

// Whole numbers below 2^53 without a point, others as short as they can be read back exactly, NaN,
// +Inf, -Inf: the text that std::to_chars gives, but for whole numbers above 2^53.
char* WriteNumber(char* at, double value) noexcept;
char* WriteInteger(char* at, int64_t value) noexcept;

// As they, for a text that has the room.
inline char* WriteText(char* at, std::string_view text) noexcept {
  std::memcpy(at, text.data(), text.size());
  return at + text.size();
}

}  // namespace gpulens
