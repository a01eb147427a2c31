#include "core/prometheus_words.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/text.h"

namespace gpulens {
namespace {

using Pair = std::pair<std::string_view, std::string_view>;

constexpr Pair kUnits[] = {
    {"d", "days"},
    {"h", "hours"},
    {"min", "minutes"},
    {"s", "seconds"},
    {"ms", "milliseconds"},
    {"us", "microseconds"},
    {"ns", "nanoseconds"},
    {"By", "bytes"},
    {"KiBy", "kibibytes"},
    {"MiBy", "mebibytes"},
    {"GiBy", "gibibytes"},
    {"TiBy", "tibibytes"},
    {"KBy", "kilobytes"},
    {"MBy", "megabytes"},
    {"GBy", "gigabytes"},
    {"TBy", "terabytes"},
    {"m", "meters"},
    {"V", "volts"},
    {"A", "amperes"},
    {"J", "joules"},
    {"W", "watts"},
    {"g", "grams"},
    {"Cel", "celsius"},
    {"Hz", "hertz"},
    {"1", ""},
    {"%", "percent"},
};
constexpr Pair kPerUnits[] = {
    {"s", "second"}, {"m", "minute"}, {"h", "hour"}, {"d", "day"},
    {"w", "week"},   {"mo", "month"}, {"y", "year"},
};

template <size_t kSize>
std::string_view Find(const Pair (&table)[kSize], std::string_view symbol) noexcept {
  const auto* found = std::ranges::find(table, symbol, &Pair::first);
  return found == std::end(table) ? symbol : found->second;
}

bool IsDigit(char c) noexcept { return c >= '0' && c <= '9'; }
bool IsWordCharacter(char c) noexcept {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || IsDigit(c);
}
// A colon is part of a word: recording rules are named with it.
bool IsNameCharacter(char c) noexcept { return IsWordCharacter(c) || c == ':'; }

}  // namespace

std::string_view PrometheusUnit(std::string_view symbol) noexcept { return Find(kUnits, symbol); }
std::string_view PrometheusPerUnit(std::string_view symbol) noexcept { return Find(kPerUnits, symbol); }

std::string_view TakePrometheusWord(std::string_view& rest) noexcept {
  const auto begin = std::ranges::find_if(rest, IsNameCharacter);
  const auto end = std::find_if_not(begin, rest.end(), IsNameCharacter);
  rest = {end, rest.end()};
  return {begin, end};
}

bool HasPrometheusWord(std::string_view name, std::string_view word) noexcept {
  for (std::string_view next = TakePrometheusWord(name); !next.empty(); next = TakePrometheusWord(name)) {
    if (next == word) return true;
  }
  return false;
}

void AppendPrometheusLabel(std::string& out, std::string_view key) {
  if (!key.empty() && IsDigit(key.front())) out += "key_";
  while (!key.empty()) {
    size_t length = std::max<size_t>(1, Utf8Length(key));
    out += IsWordCharacter(key.front()) ? key.front() : '_';
    key.remove_prefix(length);
  }
}

}  // namespace gpulens
