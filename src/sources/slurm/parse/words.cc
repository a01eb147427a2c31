#include "sources/slurm/parse/words.h"

#include <time.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "base/parse.h"
#include "base/rfc3339.h"
#include "base/text.h"

namespace gpulens::slurm {
namespace {

constexpr std::string_view kNothing[] = {"",     "(null)",  "N/A",  "n/a",           "None", "NONE",
                                         "none", "Unknown", "NULL", "None assigned", "n/s",  "INVALID"};
constexpr double kMostDays = 1e6;

bool IsUpper(char c) noexcept { return c >= 'A' && c <= 'Z'; }
bool IsLower(char c) noexcept { return c >= 'a' && c <= 'z'; }
bool IsDigit(char c) noexcept { return c >= '0' && c <= '9'; }

// Finite and not negative.
std::optional<double> ParsePlain(std::string_view text) noexcept {
  if (text.empty() || !(IsDigit(text.front()) || text.front() == '.')) return std::nullopt;
  std::optional<double> value = ParseDouble(text);
  if (!value || !std::isfinite(*value) || *value < 0) return std::nullopt;
  return value;
}

std::optional<double> WithLetter(std::string_view text, double step, double unit) noexcept {
  constexpr std::string_view kLetters = "KMGTPE";
  if (text.empty()) return std::nullopt;
  char last = text.back();
  if (last >= 'a' && last <= 'z') last = static_cast<char>(last - 'a' + 'A');
  const size_t power = kLetters.find(last);
  const bool plain = power == std::string_view::npos;
  std::optional<double> value = ParsePlain(plain ? text : text.substr(0, text.size() - 1));
  if (value) *value *= plain ? unit : std::pow(step, static_cast<double>(power) + 1);
  return value;
}

// Whether one element of a host list, "rack[1-2]n[01-04]", matches the host.
bool ElementHas(std::string_view part, std::string_view host, int depth) noexcept {
  // More brackets than Slurm has dimensions are nonsense, and would cost time.
  constexpr int kMostBrackets = 6;
  const size_t open = part.find('[');
  if (open == std::string_view::npos) return part == host;
  if (depth == kMostBrackets || !host.starts_with(part.substr(0, open))) return false;
  host.remove_prefix(open);
  const size_t close = part.find(']', open);
  if (close == std::string_view::npos) return false;
  std::string_view ranges = part.substr(open + 1, close - open - 1), rest = part.substr(close + 1);
  while (!ranges.empty()) {
    std::string_view range = TakeUntil(ranges, ',');
    std::string_view low = TakeUntil(range, '-');
    const std::string_view high = range.empty() ? low : range;
    const size_t width = low.size();
    std::optional<uint64_t> from = ParseInt<uint64_t>(low), to = ParseInt<uint64_t>(high);
    if (!from || !to) continue;
    // A number as wide as the low end, or wider without zeros in front: node[8-12] has node8 and node12.
    for (size_t digits = width; digits <= high.size() && digits <= host.size(); ++digits) {
      std::optional<uint64_t> number = ParseInt<uint64_t>(host.substr(0, digits));
      if (!number || *number < *from || *number > *to) continue;
      if (digits > width && host.front() == '0') continue;
      if (ElementHas(rest, host.substr(digits), depth + 1)) return true;
    }
  }
  return false;
}

// Takes the part before the next comma outside of brackets.
std::string_view TakePart(std::string_view& rest) noexcept {
  int depth = 0;
  for (size_t at = 0; at < rest.size(); ++at) {
    depth += rest[at] == '(';
    depth -= rest[at] == ')';
    if (rest[at] != ',' || depth > 0) continue;
    std::string_view part = rest.substr(0, at);
    rest.remove_prefix(at + 1);
    return part;
  }
  return std::exchange(rest, {});
}

std::optional<Gres> ParseResource(std::string_view text) {
  Gres out;
  std::string_view inner;
  bool counted = false;
  if (const size_t open = text.find('('); open != std::string_view::npos) {
    inner = text.substr(open + 1);
    if (const size_t close = inner.find(')'); close != std::string_view::npos) inner = inner.substr(0, close);
    text = text.substr(0, open);
  }
  if (inner.starts_with("IDX:")) out.indices = ParseIndices(inner.substr(4));
  // Newer versions write the sockets in front: "S:0-1,IDX:0".
  if (const size_t at = inner.find(",IDX:"); at != std::string_view::npos)
    out.indices = ParseIndices(inner.substr(at + 5));
  if (inner.starts_with("CNT:")) {
    std::optional<double> count = ParseCount(inner.substr(4));
    if (!count) return std::nullopt;
    out.count = *count;
    counted = true;
  }
  // "gpu:a100:8", "gpu:8", "gpu:a100", "gpu". Older versions have "gres:" in front, newer ones "gres/".
  if (text.starts_with("gres:") || text.starts_with("gres/")) text.remove_prefix(5);
  out.name = TakeUntil(text, ':');
  if (out.name.empty()) return std::nullopt;
  while (!text.empty()) {
    std::string_view word = TakeUntil(text, ':');
    std::optional<double> count = counted ? std::nullopt : ParseCount(word);
    if (count && text.empty()) {
      out.count = *count;
      counted = true;
    } else if (out.type.empty() && !word.empty()) {
      out.type = word;
    }
  }
  if (!counted) out.count = 1;
  // A list of another length than the count is ignored.
  if (out.indices && static_cast<double>(out.indices->size()) != out.count) out.indices.reset();
  return out;
}

std::optional<int64_t> UnitSeconds(std::string_view unit) {
  if (unit.ends_with('s')) unit.remove_suffix(1);
  if (unit == "second") return 1;
  if (unit == "minute" || unit == "min") return 60;
  if (unit == "hour") return 3600;
  if (unit == "day") return 86400;
  if (unit == "week") return 7 * 86400;
  return std::nullopt;
}

}  // namespace

bool IsAbsent(std::string_view text) noexcept {
  return std::ranges::find(kNothing, Trim(text)) != std::end(kNothing);
}

std::optional<double> ParseSpan(std::string_view text) noexcept {
  text = Trim(text);
  double days = 0;
  bool has_days = false;
  if (const size_t dash = text.find('-'); dash != std::string_view::npos) {
    std::optional<uint32_t> whole = ParseInt<uint32_t>(text.substr(0, dash));
    if (!whole || *whole > kMostDays) return std::nullopt;
    days = *whole;
    has_days = true;
    text.remove_prefix(dash + 1);
  }
  std::array<double, 3> parts{};
  size_t count = 0;
  for (bool more = !text.empty(); more;) {
    more = text.find(':') != std::string_view::npos;
    std::string_view part = TakeUntil(text, ':');
    // The last one may have a fraction.
    std::optional<double> value;
    if (more) {
      if (auto whole = ParseInt<uint32_t>(part)) value = *whole;
    } else {
      value = ParsePlain(part);
    }
    if (!value || *value > kMostDays * 24 || count == parts.size()) return std::nullopt;
    parts[count++] = *value;
  }
  // "2-03" is days and hours, "05:00" minutes and seconds. A number alone could be minutes or seconds.
  if (count == 0 || (count == 1 && !has_days)) return std::nullopt;
  if (has_days) {
    return days * 86400 + parts[0] * 3600 + (count > 1 ? parts[1] * 60 : 0) + (count > 2 ? parts[2] : 0);
  }
  return count == 3 ? parts[0] * 3600 + parts[1] * 60 + parts[2] : parts[0] * 60 + parts[1];
}

std::optional<double> ParseSize(std::string_view text, double unit) noexcept {
  text = Trim(text);
  if (text.ends_with('n') || text.ends_with('c')) text.remove_suffix(1);
  return WithLetter(text, 1024, unit);
}

std::optional<double> ParseCount(std::string_view text) noexcept { return WithLetter(Trim(text), 1000, 1); }

std::vector<std::pair<std::string, double>> ParseTres(std::string_view text) {
  std::vector<std::pair<std::string, double>> out;
  while (!text.empty() && out.size() < kMostTres) {
    std::string_view part = TakeUntil(text, ',');
    const size_t equals = part.find('=');
    if (equals == std::string_view::npos || equals == 0) continue;
    std::string_view name = part.substr(0, equals), number = part.substr(equals + 1);
    const bool memory = name == "mem" || name == "vmem";
    // Slurm counts memory in MiB where it names no unit.
    std::optional<double> value = memory ? ParseSize(number, 1024.0 * 1024) : ParseCount(number);
    if (value) out.emplace_back(name, *value);
  }
  return out;
}

std::optional<double> TresOf(std::string_view text, std::string_view name) {
  for (const auto& [known, value] : ParseTres(text)) {
    if (known == name) return value;
  }
  return std::nullopt;
}

std::optional<int64_t> ParseTime(std::string_view text) noexcept {
  text = Trim(text);
  std::array<char, 20> zoned{};
  if (text.size() != zoned.size() - 1) return std::nullopt;
  *std::ranges::copy(text, zoned.begin()).out = 'Z';
  const auto ns = ParseRfc3339({zoned.data(), zoned.size()});
  return ns ? std::optional(*ns / 1'000'000'000) : std::nullopt;
}

std::string TimeText(int64_t unix_seconds) {
  struct tm broken = {};
  const time_t seconds = unix_seconds;
  char text[32];
  if (!::gmtime_r(&seconds, &broken)) return {};
  return {text, ::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &broken)};
}

std::optional<std::vector<int>> ParseIndices(std::string_view text) {
  std::vector<int> out;
  while (!text.empty()) {
    std::string_view range = TakeUntil(text, ',');
    std::string_view low = TakeUntil(range, '-');
    std::optional<uint16_t> from = ParseInt<uint16_t>(low),
                            to = range.empty() ? from : ParseInt<uint16_t>(range);
    if (!from || !to || *to < *from || static_cast<size_t>(*to - *from) >= kMostIndices) return std::nullopt;
    for (int index = *from; index <= *to; ++index) out.push_back(index);
    if (out.size() > kMostIndices) return std::nullopt;
  }
  std::ranges::sort(out);
  out.erase(std::ranges::unique(out).begin(), out.end());
  return out;
}

bool HostListHas(std::string_view list, std::string_view host) noexcept {
  if (host.empty()) return false;
  size_t begin = 0;
  int depth = 0;
  for (size_t at = 0; at <= list.size(); ++at) {
    const bool ends = at == list.size() || (list[at] == ',' && depth == 0);
    if (!ends) {
      depth += list[at] == '[';
      depth -= list[at] == ']' && depth > 0;
      continue;
    }
    if (ElementHas(Trim(list.substr(begin, at - begin)), host, 0)) return true;
    begin = at + 1;
  }
  return false;
}

std::string SnakeCase(std::string_view name) {
  std::string out;
  name = Trim(name);
  for (size_t i = 0; i < name.size(); ++i) {
    const char c = name[i];
    if (!IsUpper(c) && !IsLower(c) && !IsDigit(c)) {
      if (!out.empty() && out.back() != '_') out += '_';
      continue;
    }
    const bool after_lower = i > 0 && (IsLower(name[i - 1]) || IsDigit(name[i - 1]));
    // CPUTime: the T begins a word; AllocCPUS, ReqGRES and TotalCPUs end with one.
    auto lower = [&](size_t at) { return at < name.size() && IsLower(name[at]); };
    const bool plural = i + 1 < name.size() && name[i + 1] == 's' && !lower(i + 2);
    const bool before_lower = i > 0 && IsUpper(name[i - 1]) && lower(i + 1) && !plural;
    if (IsUpper(c) && (after_lower || before_lower) && !out.empty() && out.back() != '_') out += '_';
    out += IsUpper(c) ? static_cast<char>(c - 'A' + 'a') : c;
  }
  while (out.ends_with('_')) out.pop_back();
  return out;
}

std::string CleanText(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const size_t length = Utf8Length(text);
    if (length == 0) {
      out += "\xEF\xBF\xBD";
      text.remove_prefix(1);
      continue;
    }
    const auto byte = static_cast<unsigned char>(text.front());
    const bool control = length == 1 && (byte < 0x20 || byte == 0x7F) && byte != '\t' && byte != '\n';
    if (control) {
      out += ' ';
    } else {
      out.append(text.substr(0, length));
    }
    text.remove_prefix(length);
  }
  return out;
}

std::vector<Gres> ParseGres(std::string_view text) {
  std::vector<Gres> out;
  text = Trim(text);
  if (IsAbsent(text)) return out;
  while (!text.empty() && out.size() < kMostGres) {
    std::string_view part = Trim(TakePart(text));
    if (part.empty()) continue;
    if (std::optional<Gres> gres = ParseResource(part)) out.push_back(std::move(*gres));
  }
  return out;
}

std::optional<double> GresCount(std::string_view text, std::string_view name) {
  std::optional<double> sum;
  for (const Gres& gres : ParseGres(text)) {
    if (gres.name == name) sum = sum.value_or(0) + gres.count;
  }
  return sum;
}

Result<int64_t> ParseWhen(std::string text, int64_t now) {
  std::string_view typed = Trim(text);
  if (typed == "now") return now;
  if (typed.ends_with(" ago")) {
    std::string_view rest = typed.substr(0, typed.size() - 4);
    std::optional<int32_t> count = ParseInt<int32_t>(TakeUntil(rest, ' '));
    std::optional<int64_t> unit = UnitSeconds(Trim(rest));
    if (count && unit && *count >= 0 && *count * *unit <= now) return now - *count * *unit;
  }
  std::string full(typed);
  if (full.ends_with('Z')) full.pop_back();
  if (full.size() == 10) full += "T00:00";
  if (full.size() == 16) full += ":00";
  if (full.size() == 19 && full[10] == ' ') full[10] = 'T';
  if (std::optional<int64_t> at = ParseTime(full)) return *at;
  std::string shown;
  AppendPrintable(shown, typed);
  return Status{Code::kInvalidArgument,
                "not a time: \"" + shown + "\"; like 2026-11-22T10:00:00 (UTC), 3 hours ago, now"};
}

}  // namespace gpulens::slurm
