// The parsers behind ParseMessage, one per speaker. For the files of this folder.
#pragma once

#include <optional>
#include <string_view>

#include "sources/kernel_log/parse/notice.h"

namespace gpulens::kernel_log {

std::optional<Notice> ParseNvrm(std::string_view message);
std::optional<Notice> ParseNvswitch(std::string_view message);
std::optional<Notice> ParseAmdgpu(std::string_view message);
std::optional<Notice> ParseHabana(std::string_view message);
std::optional<Notice> ParsePcieError(std::string_view message);
std::optional<Notice> ParseOom(std::string_view message);
std::optional<Notice> ParseHardware(std::string_view message);
// Messages without a code: modules, libraries and engines that fail.
std::optional<Notice> ParseDriverFault(std::string_view message);

// The text behind `mark`, or nothing when it does not stand in `text`.
inline std::optional<std::string_view> After(std::string_view text, std::string_view mark) noexcept {
  size_t at = text.find(mark);
  if (at == std::string_view::npos) return std::nullopt;
  return text.substr(at + mark.size());
}
// Takes a decimal number off the front; nothing, and `text` stays, when there is none or it is too large.
template <class T>
std::optional<T> TakeNumber(std::string_view& text) noexcept {
  size_t end = 0;
  while (end < text.size() && text[end] >= '0' && text[end] <= '9') ++end;
  auto number = ParseInt<T>(text.substr(0, end));
  if (number) text.remove_prefix(end);
  return number;
}
inline bool TakePrefix(std::string_view& text, std::string_view prefix) noexcept {
  if (!text.starts_with(prefix)) return false;
  text.remove_prefix(prefix.size());
  return true;
}

}  // namespace gpulens::kernel_log
