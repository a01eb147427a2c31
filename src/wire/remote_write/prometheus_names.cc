#include "wire/remote_write/prometheus_names.h"

#include <algorithm>
#include <utility>

#include "base/text.h"

namespace gpulens::remote_write_out {
namespace {

using Pair = std::pair<std::string_view, std::string_view>;

// UCUM's symbols, and the words of Prometheus.
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
// What stands behind the slash.
constexpr Pair kPerUnits[] = {{"s", "second"}, {"m", "minute"}, {"h", "hour"}, {"d", "day"},
                              {"w", "week"},   {"mo", "month"}, {"y", "year"}};

template <size_t N>
std::string_view Find(const Pair (&table)[N], std::string_view symbol) noexcept {
  for (const auto& [is, becomes] : table)
    if (is == symbol) return becomes;
  return symbol;
}

bool IsDigit(char c) noexcept { return c >= '0' && c <= '9'; }
bool IsAlnum(char c) noexcept { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || IsDigit(c); }
bool IsWordByte(char c) noexcept { return IsAlnum(c) || c == ':'; }

// Takes the next word off the front of `rest`; empty when there is none.
std::string_view TakeWord(std::string_view& rest) noexcept {
  const auto begin = std::find_if(rest.begin(), rest.end(), IsWordByte);
  const auto end = std::find_if_not(begin, rest.end(), IsWordByte);
  const std::string_view word(begin, end);
  rest = {end, rest.end()};
  return word;
}

bool HasWord(std::string_view name, std::string_view word) noexcept {
  for (std::string_view next = TakeWord(name); !next.empty(); next = TakeWord(name))
    if (next == word) return true;
  return false;
}

// The words of `text` joined by underscores.
void AppendWords(std::string& out, std::string_view text) {
  bool first = true;
  for (std::string_view word = TakeWord(text); !word.empty(); word = TakeWord(text), first = false) {
    if (!first) out += '_';
    out += word;
  }
}

std::string_view Trim(std::string_view text) noexcept {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

// A part of a unit that contains braces says what is counted: it is none in Prometheus.
std::string_view WithoutAnnotation(std::string_view part) noexcept {
  return part.find_first_of("{}") == std::string_view::npos ? Trim(part) : std::string_view();
}

struct UnitParts {
  std::string_view main, per;
};
UnitParts Split(std::string_view unit) noexcept {
  const size_t slash = unit.find('/');
  UnitParts parts;
  parts.main = Find(kUnits, WithoutAnnotation(unit.substr(0, slash)));
  if (slash != std::string_view::npos) parts.per = Find(kPerUnits, WithoutAnnotation(unit.substr(slash + 1)));
  return parts;
}

}  // namespace

void AppendMetricName(std::string& out, std::string_view name, std::string_view unit, NameKind kind) {
  const std::string_view last = kind == NameKind::kCounter                ? "total"
                                : kind == NameKind::kGauge && unit == "1" ? "ratio"
                                                                          : std::string_view();
  const size_t start = out.size();
  const auto separate = [&] {
    if (out.size() > start) out += '_';
  };
  std::string_view rest = name;
  bool any = false;
  for (std::string_view word = TakeWord(rest); !word.empty(); word = TakeWord(rest)) {
    any = true;
    if (word == last) continue;  // it moves to the end
    if (out.size() == start && IsDigit(word.front())) out += '_';
    else separate();
    out += word;
  }
  if (!any) return;
  const auto [main, per] = Split(unit);
  if (!main.empty() && !HasWord(name, main)) {
    const size_t before = out.size();
    separate();
    const size_t begin = out.size();
    AppendWords(out, main);
    if (out.size() == begin) out.resize(before);
  }
  if (!per.empty()) {
    separate();
    out += "per_";
    AppendWords(out, per);
  }
  if (!last.empty()) {
    separate();
    out += last;
  }
}

void AppendUnitName(std::string& out, std::string_view unit) {
  if (unit == "1") {
    out += "ratio";
    return;
  }
  const auto [main, per] = Split(unit);
  AppendWords(out, main);
  if (per.empty()) return;
  if (!out.empty()) out += '_';
  out += "per_";
  AppendWords(out, per);
}

void AppendLabelName(std::string& out, std::string_view key) {
  if (!key.empty() && IsDigit(key.front())) out += "key_";
  for (size_t length; !key.empty(); key.remove_prefix(length)) {
    length = std::max<size_t>(1, Utf8Length(key));
    out += IsAlnum(key.front()) ? key.front() : '_';
  }
}

}  // namespace gpulens::remote_write_out
