#include "store/clickhouse/tab_rows.h"

#include <limits>

#include "base/parse.h"
#include "base/result.h"

namespace gpulens::clickhouse {
namespace {

// The format escapes these alone; another byte behind a backslash is itself.
char Unescaped(char c) noexcept {
  switch (c) {
    case 'b': return '\b';
    case 'f': return '\f';
    case 'n': return '\n';
    case 'r': return '\r';
    case 't': return '\t';
    case '0': return '\0';
    default: return c;
  }
}

}  // namespace

Status TabRows::Feed(std::string_view bytes, const OnRow& on_row) {
  while (!bytes.empty()) {
    const size_t end = bytes.find('\n');
    if (line_.size() + std::min(end, bytes.size()) > kMostLine)
      return {Code::kExhausted, "a row of the response is longer than 1 MiB"};
    if (end == std::string_view::npos) {
      line_ += bytes;
      return Ok();
    }
    std::string_view line = bytes.substr(0, end);
    bytes.remove_prefix(end + 1);
    if (!line_.empty()) line = line_ += line;
    const Status status = OnLine(line, on_row);
    line_.clear();
    RETURN_IF_ERROR(status);
  }
  return Ok();
}

Status TabRows::OnLine(std::string_view line, const OnRow& on_row) {
  RETURN_IF_ERROR(Split(line));
  if (names_.empty()) {
    for (size_t i = 0; i < fields_.size(); ++i) names_.emplace_back(Text(static_cast<int>(i)));
    return Ok();
  }
  if (fields_.size() != names_.size())
    return {Code::kDataLoss, "a row of the response has " + std::to_string(fields_.size()) + " fields of " +
                                 std::to_string(names_.size())};
  return on_row();
}

Status TabRows::Split(std::string_view line) {
  fields_.clear();
  text_.clear();
  for (bool more = true; more;) {
    more = line.find('\t') != std::string_view::npos;
    std::string_view field = TakeUntil(line, '\t');
    if (fields_.size() == kMostColumns)
      return {Code::kExhausted, "the response has more than " + std::to_string(kMostColumns) + " columns"};
    const size_t from = text_.size();
    const bool null = field == "\\N";
    while (!field.empty() && !null) {
      const std::string_view plain = field.substr(0, field.find('\\'));
      text_ += plain;
      field.remove_prefix(plain.size());
      if (field.empty()) break;
      if (field.size() < 2) return {Code::kDataLoss, "a field of the response ends within an escape"};
      text_ += Unescaped(field[1]);
      field.remove_prefix(2);
    }
    fields_.push_back({.from = from, .size = text_.size() - from, .null = null});
  }
  return Ok();
}

Status TabRows::End() const {
  if (!line_.empty()) return {Code::kDataLoss, "the response ends within a row"};
  if (names_.empty()) return {Code::kDataLoss, "the response is empty"};
  return Ok();
}

std::string_view TabRows::Text(int column) const noexcept {
  const Field& field = At(column);
  return std::string_view(text_).substr(field.from, field.size);
}
double TabRows::Real(int column) const noexcept {
  return ParseDouble(Text(column)).value_or(std::numeric_limits<double>::quiet_NaN());
}
std::optional<int64_t> TabRows::MaybeInt(int column) const noexcept {
  return ParseInt<int64_t>(Text(column));
}

}  // namespace gpulens::clickhouse
