#include "sources/slurm/parse/table.h"

#include <utility>

#include "base/parse.h"
#include "base/result.h"

namespace gpulens::slurm {
namespace {

size_t FindLast(const std::vector<std::string>& columns, std::string_view name) noexcept {
  for (size_t i = columns.size(); i-- > 0;) {
    if (columns[i] == name) return i;
  }
  return SIZE_MAX;
}

// The text before the next delimiter, taken off the front.
std::string_view TakeValue(std::string_view& rest, std::string_view delimiter) noexcept {
  const size_t at = rest.find(delimiter);
  std::string_view value = rest.substr(0, at);
  rest = at == std::string_view::npos ? std::string_view{} : rest.substr(at + delimiter.size());
  return Trim(value);
}

}  // namespace

TableReader::TableReader(std::string delimiter, OnRow on_row, TableLimits limits)
    : delimiter_(std::move(delimiter)), on_row_(std::move(on_row)), limits_(limits) {}

TableReader::TableReader(std::string delimiter, std::vector<std::string> columns, bool closed, OnRow on_row,
                         TableLimits limits)
    : delimiter_(std::move(delimiter)),
      on_row_(std::move(on_row)),
      limits_(limits),
      columns_(std::move(columns)),
      has_columns_(true),
      closed_(closed) {}

size_t TableReader::Find(std::string_view column) const noexcept { return FindLast(columns_, column); }

size_t TableReader::Count(std::string_view text) const noexcept {
  size_t count = 0;
  for (size_t at = text.find(delimiter_); at != std::string_view::npos;
       at = text.find(delimiter_, at + delimiter_.size()))
    ++count;
  return count;
}

bool TableReader::Add(std::string_view bytes) {
  while (!bytes.empty() && !ended_) {
    const size_t newline = bytes.find('\n');
    const bool whole = newline != std::string_view::npos;
    std::string_view piece = bytes.substr(0, newline);
    bytes = whole ? bytes.substr(newline + 1) : std::string_view{};
    if (part_.size() + piece.size() > limits_.record_bytes) {
      // A line without end is skipped, and counted once.
      bad_lines_ += !skipping_;
      skipping_ = true;
      part_.clear();
    }
    if (!skipping_) part_ += piece;
    if (!whole) continue;
    if (!std::exchange(skipping_, false)) TakeLine(part_);
    part_.clear();
  }
  return !ended_;
}

bool TableReader::TakeHeader(std::string_view line) {
  if (Trim(line).empty()) return true;
  for (std::string_view rest = line; !rest.empty();) {
    columns_.emplace_back(TakeValue(rest, delimiter_));
    if (columns_.size() > limits_.columns) {
      columns_.clear();
      ended_ = true;
      return false;
    }
  }
  if (line.ends_with(delimiter_) && columns_.size() > 1) closed_ = true;
  has_columns_ = true;
  return true;
}

bool TableReader::TakeLine(std::string_view line) {
  if (line.ends_with('\r')) line.remove_suffix(1);
  if (!has_columns_) return TakeHeader(line);
  if (lines_.empty() && Trim(line).empty()) return true;
  const size_t needed = columns_.size() - (closed_ ? 0 : 1);
  size_t delimiters = Count(line);
  // Some rows of a table end with a delimiter too many.
  if (delimiters == needed + 1 && !closed_ && line.ends_with(delimiter_)) {
    line.remove_suffix(delimiter_.size());
    --delimiters;
  }
  lines_.push_back({std::string(line), delimiters});
  held_bytes_ += line.size() + 1;
  held_delimiters_ += lines_.back().delimiters;
  // More than a row: the first lines belong to another, broken one.
  while (!lines_.empty() && (held_delimiters_ > needed || held_bytes_ > limits_.record_bytes ||
                             lines_.size() > limits_.record_lines))
    DropFirst();
  if (lines_.empty() || held_delimiters_ != needed) return true;
  // Lines before a line that is a whole row are broken.
  while (lines_.size() > 1 && lines_.back().delimiters == needed) DropFirst();
  return HandOut();
}

void TableReader::DropFirst() {
  held_bytes_ -= lines_.front().text.size() + 1;
  held_delimiters_ -= lines_.front().delimiters;
  lines_.pop_front();
  ++bad_lines_;
}

bool TableReader::HandOut() {
  std::string row;
  for (const Line& line : lines_) row += (row.empty() ? "" : "\n") + line.text;
  lines_.clear();
  held_bytes_ = held_delimiters_ = 0;
  std::vector<std::string_view> values;
  values.reserve(columns_.size());
  std::string_view rest = row;
  while (values.size() < columns_.size()) values.push_back(TakeValue(rest, delimiter_));
  ++rows_;
  if (!on_row_(values)) ended_ = true;
  return !ended_;
}

Status TableReader::Finish() {
  if (!part_.empty() && !ended_) TakeLine(part_);
  part_.clear();
  bad_lines_ += lines_.size();
  lines_.clear();
  held_bytes_ = held_delimiters_ = 0;
  if (!has_columns_) return {Code::kDataLoss, "no header"};
  return Ok();
}

size_t SlurmTable::Find(std::string_view column) const noexcept { return FindLast(columns, column); }

std::string_view SlurmTable::At(size_t row, std::string_view column) const noexcept {
  const size_t at = Find(column);
  return at == SIZE_MAX ? std::string_view{} : std::string_view(rows[row][at]);
}

namespace {

// Takes a table through `reader`, whose rows land in `table`.
Result<SlurmTable> Read(TableReader& reader, SlurmTable& table, std::string_view text, const bool& too_many) {
  reader.Add(text);
  RETURN_IF_ERROR(reader.Finish());
  if (too_many) return Status{Code::kExhausted, "more than " + std::to_string(table.rows.size()) + " rows"};
  table.columns = reader.columns();
  table.bad_lines = reader.bad_lines();
  return std::move(table);
}

TableReader::OnRow Into(SlurmTable& table, size_t most_rows, bool& too_many) {
  return [&table, &too_many, most_rows](std::span<const std::string_view> values) {
    too_many = table.rows.size() >= most_rows;
    if (!too_many) table.rows.emplace_back(values.begin(), values.end());
    return !too_many;
  };
}

}  // namespace

Result<SlurmTable> ParseTable(std::string_view text, std::string_view delimiter, size_t most_rows) {
  SlurmTable table;
  bool too_many = false;
  TableReader reader(std::string(delimiter), Into(table, most_rows, too_many));
  return Read(reader, table, text, too_many);
}

Result<SlurmTable> ParseRows(std::string_view text, std::string_view delimiter,
                             std::span<const std::string_view> columns, size_t most_rows) {
  SlurmTable table;
  bool too_many = false;
  TableReader reader(std::string(delimiter), std::vector<std::string>(columns.begin(), columns.end()), true,
                     Into(table, most_rows, too_many));
  return Read(reader, table, text, too_many);
}

}  // namespace gpulens::slurm
