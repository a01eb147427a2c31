// Tables as Slurm's programs print them: a row a line, values between delimiters, columns named by a header
// or known beforehand. They hold texts of users, so a row may span several lines, be broken, or hold invalid
// bytes.
#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <gpulens/status.h>

namespace gpulens::slurm {

struct TableLimits {
  size_t columns = 256;
  size_t record_bytes = 1u << 20;    // of one row, over all its lines
  size_t record_lines = 128u << 10;  // a text of 64 KiB may be all newlines
};

// Parses a table in pieces of any size, row by row. Used by one thread.
class TableReader {
 public:
  // Receives the values of one row, one per column, trimmed and valid during the call. Returns false to stop.
  using OnRow = std::function<bool(std::span<const std::string_view> values)>;

  // The first line names the columns.
  TableReader(std::string delimiter, OnRow on_row, TableLimits limits = {});
  // No header. `closed`: each row ends with a delimiter.
  TableReader(std::string delimiter, std::vector<std::string> columns, bool closed, OnRow on_row,
              TableLimits limits = {});

  // False: stopped by the callback, or a malformed header; nothing more is read.
  bool Add(std::string_view bytes);
  // The last line may lack its end. kDataLoss: there was no header.
  Status Finish();

  const std::vector<std::string>& columns() const noexcept { return columns_; }
  // The last column of the name: sinfo prints a short form first. SIZE_MAX: none.
  size_t Find(std::string_view column) const noexcept;
  size_t rows() const noexcept { return rows_; }
  // Lines that belong to no whole row.
  size_t bad_lines() const noexcept { return bad_lines_; }

 private:
  struct Line {
    std::string text;
    size_t delimiters = 0;
  };

  bool TakeLine(std::string_view line);
  bool TakeHeader(std::string_view line);
  void DropFirst();
  bool HandOut();
  size_t Count(std::string_view text) const noexcept;

  const std::string delimiter_;
  const OnRow on_row_;
  const TableLimits limits_;
  std::vector<std::string> columns_;
  bool has_columns_ = false, closed_ = false, ended_ = false, skipping_ = false;
  std::string part_;        // of a line that is not whole yet
  std::deque<Line> lines_;  // of a row that is not whole yet
  size_t held_bytes_ = 0, held_delimiters_ = 0;
  size_t rows_ = 0, bad_lines_ = 0;
};

// A whole table in memory.
struct SlurmTable {
  std::vector<std::string> columns;
  std::vector<std::vector<std::string>> rows;
  size_t bad_lines = 0;

  size_t Find(std::string_view column) const noexcept;  // as TableReader's
  // Empty where there is no such column.
  std::string_view At(size_t row, std::string_view column) const noexcept;
};

// A header in the first line. kDataLoss: none. kExhausted: more than `most_rows`.
Result<SlurmTable> ParseTable(std::string_view text, std::string_view delimiter, size_t most_rows = 1u << 20);
// Without a header; each row ends with a delimiter.
Result<SlurmTable> ParseRows(std::string_view text, std::string_view delimiter,
                             std::span<const std::string_view> columns, size_t most_rows = 1u << 20);

}  // namespace gpulens::slurm
