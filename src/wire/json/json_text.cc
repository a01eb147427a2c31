#include "wire/json/json_text.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/text.h"
#include "wire/exposition/text_page.h"

namespace gpulens {
namespace {

std::string_view SpecialName(double value) noexcept {
  if (std::isnan(value)) return "NaN";
  return value > 0 ? "+Inf" : "-Inf";
}

void AppendDigits(std::string& out, int64_t value, int width) {
  char text[8];
  for (int i = width - 1; i >= 0; --i) {
    text[i] = static_cast<char>('0' + value % 10);
    value /= 10;
  }
  out.append(text, static_cast<size_t>(width));
}

// A bound is data, not a reading: an infinite one is a word.
void AppendBoundMember(std::string& out, std::string_view key, double bound) {
  AppendJsonKey(out, key);
  if (std::isfinite(bound)) return AppendJsonNumber(out, bound);
  out += '"';
  out += SpecialName(bound);
  out += '"';
}

void AppendCount(std::string& out, std::string_view key, Cell cell, bool whole) {
  if (!whole) return AppendJsonMember(out, key, cell.d);
  AppendJsonKey(out, key);
  AppendJsonInt(out, cell.i);
}

void AppendShape(std::string& out, const SeriesInfo& info, const Cell* cells) {
  const Shape& shape = *info.shape;
  bool summary = info.desc->kind == Kind::kSummary;
  bool whole = info.desc->number == Number::kInt;
  out += summary ? "\"quantiles\":[" : "\"buckets\":[";
  for (size_t i = 0; i < shape.bounds.size(); ++i) {
    out += i == 0 ? "{" : ",{";
    AppendBoundMember(out, summary ? "quantile" : "le", shape.bounds[i]);
    out += ',';
    if (summary) AppendJsonMember(out, "value", cells[i].d);
    else AppendCount(out, "count", cells[i], whole);
    out += '}';
  }
  out += ']';
  if (shape.has_sum) {
    out += ',';
    AppendJsonMember(out, "sum", cells[shape.sum_cell()].d);
  }
  if (shape.has_count) {
    out += ',';
    AppendCount(out, "count", cells[shape.count_cell()], whole);
  }
}

// Days since 1970-01-01 as a date of the proleptic Gregorian calendar: eras of 400 years that begin in
// March, so that the leap day is the last of its year.
void AppendDate(std::string& out, int64_t days) {
  days += 719468;
  int64_t era = days / 146097;
  int64_t day_of_era = days % 146097;
  int64_t year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36524 - day_of_era / 146096) / 365;
  int64_t day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
  int64_t month = (5 * day_of_year + 2) / 153;
  int64_t day = day_of_year - (153 * month + 2) / 5 + 1;
  month = month < 10 ? month + 3 : month - 9;
  AppendDigits(out, year_of_era + era * 400 + (month <= 2), 4);
  out += '-';
  AppendDigits(out, month, 2);
  out += '-';
  AppendDigits(out, day, 2);
}

}  // namespace

void AppendJsonKey(std::string& out, std::string_view key) {
  out += '"';
  out += key;
  out += "\":";
}

void AppendJsonInt(std::string& out, int64_t value) {
  char text[24];
  out.append(text, std::to_chars(text, text + sizeof text, value).ptr);
}

void AppendJsonNumber(std::string& out, double value) {
  if (!std::isfinite(value)) {
    out += "null";
    return;
  }
  char text[kNumberBytes];
  out.append(text, WriteNumber(text, value));
}

void AppendJsonMember(std::string& out, std::string_view key, double value) {
  if (std::isfinite(value)) {
    AppendJsonKey(out, key);
    return AppendJsonNumber(out, value);
  }
  out += '"';
  if (key != "value") {
    out += key;
    out += '_';
  }
  out += "special\":\"";
  out += SpecialName(value);
  out += '"';
}

void AppendJsonAttribute(std::string& out, const AttributeSet::Attribute& attribute) {
  AppendJsonString(out, attribute.key);
  out += ':';
  if (const auto* text = std::get_if<std::string_view>(&attribute.value)) return AppendJsonString(out, *text);
  if (const auto* number = std::get_if<double>(&attribute.value); number && !std::isfinite(*number))
    return AppendJsonString(out, SpecialName(*number));
  AppendValue(out, attribute.value);
}

void AppendJsonAttributes(std::string& out, const AttributeSet& attributes) {
  char before = '{';
  for (AttributeSet::Attribute attribute : attributes) {
    out += before;
    before = ',';
    AppendJsonAttribute(out, attribute);
  }
  out += before == '{' ? "{}" : "}";
}

void AppendJsonSeconds(std::string& out, int64_t milliseconds) {
  if (milliseconds < 0) out += '-';
  uint64_t whole = static_cast<uint64_t>(milliseconds < 0 ? -milliseconds : milliseconds);
  AppendJsonInt(out, static_cast<int64_t>(whole / 1000));
  out += '.';
  AppendDigits(out, static_cast<int64_t>(whole % 1000), 3);
}

void AppendRfc3339(std::string& out, int64_t unix_ns) {
  constexpr int64_t kDayMs = 86'400'000;
  // int64_t nanoseconds reach from 1677 to 2262, so every moment has a date of four digits.
  int64_t ms = unix_ns / 1'000'000 - (unix_ns % 1'000'000 < 0);
  int64_t days = ms / kDayMs - (ms % kDayMs < 0);
  int64_t rest = ms - days * kDayMs;
  AppendDate(out, days);
  out += 'T';
  AppendDigits(out, rest / 3'600'000, 2);
  out += ':';
  AppendDigits(out, rest / 60'000 % 60, 2);
  out += ':';
  AppendDigits(out, rest / 1000 % 60, 2);
  out += '.';
  AppendDigits(out, rest % 1000, 3);
  out += 'Z';
}

void AppendJsonReading(std::string& out, const Frame& frame, uint32_t slot) {
  const SeriesInfo& info = (*frame.layout)[slot];
  const Cell* cells = frame.cells.data() + info.first_cell;
  if (info.shape) AppendShape(out, info, cells);
  else AppendCount(out, "value", *cells, info.desc->number == Number::kInt);
}

void AppendJsonReading(std::string& out, const Frame& frame, uint32_t slot, double scale, bool whole) {
  const SeriesInfo& info = (*frame.layout)[slot];
  if (info.shape || (scale == 1 && !whole)) return AppendJsonReading(out, frame, slot);
  const Cell cell = frame.cells[info.first_cell];
  const double value = (info.desc->number == Number::kInt ? static_cast<double>(cell.i) : cell.d) * scale;
  AppendJsonMember(out, "value", whole ? std::round(value) : value);
}

int64_t AgeMsAt(const Frame& frame, uint32_t slot, Instant now) noexcept {
  int64_t since = (now - frame.read_at).count() / 1'000'000 + int64_t{frame.AgeMs(slot)};
  return std::max<int64_t>(since, 0);
}

}  // namespace gpulens
