// A row as cells of the table, as sqlite::Statement gives those of a file: what is not known is 0 where the
// table says so, else NULL. Without `id`, which numbers a file's rows.
#pragma once

#include <string>
#include <string_view>

#include "store/sqlite/sqlite.h"
#include "store/telemetry/rows.h"

namespace gpulens {

class RowCells {
 public:
  // `row` outlives it.
  explicit RowCells(const telemetry::Row& row) noexcept : row_(&row) {}

  int columns() const noexcept;
  std::string_view ColumnName(int column) const noexcept;
  sqlite::Statement::Type TypeOf(int column) const noexcept;
  int64_t Int(int column) const noexcept;
  double Real(int column) const noexcept;
  std::string_view Text(int column) const noexcept;

 private:
  const telemetry::Row* row_;
};

}  // namespace gpulens
