#include "src/telemetry_rows.h"

#include <string>
#include <variant>
#include <vector>

#include "base/result.h"
#include "store/telemetry/summary/call_scan.h"

namespace gpulens::python {
namespace {

constexpr std::string_view kInternal = "measured";  // bits: which of a row's zeros are measured

struct Blob {
  std::string bytes;
};
using Cell = std::variant<std::monostate, int64_t, double, std::string, Blob>;

struct Rows {
  std::vector<std::string> names;
  std::vector<Cell> cells;  // row by row
};

Cell CellOf(const sqlite::Statement& row, int column) {
  using Type = sqlite::Statement::Type;
  switch (row.TypeOf(column)) {
    case Type::kInteger: return row.Int(column);
    case Type::kReal: return row.Real(column);
    case Type::kText: return std::string(row.Text(column));
    case Type::kBlob: return Blob{std::string(row.Text(column))};
    case Type::kNull: break;
  }
  return {};
}

// Must not wait for the GIL: the thread that has it may be about to fork, and a fork waits for this to end.
Status Copy(const sqlite::Database& database, const Query& query, Rows& out) {
  ASSIGN_OR_RETURN(sqlite::Statement rows, telemetry::SelectAsTheyAre(database, query));
  std::vector<int> columns;
  for (int i = 0; i < rows.columns(); ++i) {
    if (rows.ColumnName(i) == kInternal) continue;
    columns.push_back(i);
    out.names.emplace_back(rows.ColumnName(i));
  }
  return rows.Each([&] {
    for (int column : columns) out.cells.push_back(CellOf(rows, column));
  });
}

nb::object ToObject(const Cell& cell) {
  const auto as = []<class T>(const T& value) -> nb::object {
    if constexpr (std::is_same_v<T, std::monostate>) {
      return nb::none();
    } else if constexpr (std::is_same_v<T, Blob>) {
      return nb::bytes(value.bytes.data(), value.bytes.size());
    } else if constexpr (std::is_same_v<T, std::string>) {
      // Other programs write what they like; no byte is lost.
      const auto size = static_cast<Py_ssize_t>(value.size());
      nb::object text = nb::steal(PyUnicode_DecodeUTF8(value.data(), size, "surrogateescape"));
      if (!text.is_valid()) throw nb::python_error();
      return text;
    } else {
      return nb::cast(value);
    }
  };
  return std::visit(as, cell);
}

}  // namespace

nb::list RowsOf(internal::InferenceCore& core, const Query& query) {
  Rows rows;
  Check(WithoutGil([&] {
    return core.Read([&](const sqlite::Database& database) { return Copy(database, query, rows); });
  }));
  std::vector<nb::object> names;
  for (const std::string& name : rows.names) names.push_back(ToPython(name));
  nb::list out;
  for (size_t at = 0; at < rows.cells.size(); at += names.size()) {
    nb::dict row;
    for (size_t i = 0; i < names.size(); ++i) row[names[i]] = ToObject(rows.cells[at + i]);
    out.append(std::move(row));
  }
  return out;
}

}  // namespace gpulens::python
