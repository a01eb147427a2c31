// Parser of RFC 3339 times: "2026-06-26T10:12:51Z", with a fraction or an offset. Pure.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string_view>

#include "base/parse.h"

namespace gpulens {

// Nanoseconds since 1970; none for a malformed time, one before 1970 and one after 2199. A comma may begin
// the fraction.
inline std::optional<int64_t> ParseRfc3339(std::string_view text) noexcept {
  using namespace std::chrono;
  constexpr std::string_view kForm = "0000-00-00T00:00:00";
  if (text.size() < kForm.size() + 1 || text.size() > 40) return std::nullopt;
  for (size_t i = 0; i < kForm.size(); ++i) {
    bool digit = text[i] >= '0' && text[i] <= '9';
    if (kForm[i] == '0' ? !digit : text[i] != kForm[i]) return std::nullopt;
  }
  auto number = [&](size_t at, size_t size) { return ParseInt<int>(text.substr(at, size)).value_or(-1); };
  year_month_day date(year(number(0, 4)), month(static_cast<unsigned>(number(5, 2))),
                      day(static_cast<unsigned>(number(8, 2))));
  int hour = number(11, 2), minute = number(14, 2), second = number(17, 2);
  if (!date.ok() || hour > 23 || minute > 59 || second > 60) return std::nullopt;
  if (date.year() < year(1970) || date.year() > year(2199)) return std::nullopt;
  int64_t ns = (sys_days(date).time_since_epoch().count() * 86'400LL + hour * 3600 + minute * 60 + second) *
               1'000'000'000LL;
  text.remove_prefix(kForm.size());
  if (text.front() == '.' || text.front() == ',') {
    int64_t unit = 100'000'000;
    size_t i = 1;
    for (; i < text.size() && text[i] >= '0' && text[i] <= '9'; ++i, unit /= 10) ns += (text[i] - '0') * unit;
    if (i == 1) return std::nullopt;
    text.remove_prefix(i);
  }
  if (text == "Z" || text == "z") return ns;
  if (text.size() != 6 || (text[0] != '+' && text[0] != '-') || text[3] != ':') return std::nullopt;
  auto hours = ParseInt<unsigned>(text.substr(1, 2)), minutes = ParseInt<unsigned>(text.substr(4, 2));
  if (!hours || !minutes || *hours > 23 || *minutes > 59) return std::nullopt;
  int64_t offset = (*hours * 3600LL + *minutes * 60LL) * 1'000'000'000LL;
  return text[0] == '+' ? ns - offset : ns + offset;
}

}  // namespace gpulens
