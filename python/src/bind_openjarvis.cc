// Native part of gpulens.compat.openjarvis: rows in the units of its table.
#include <cmath>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include <nanobind/stl/optional.h>

#include "base/result.h"
#include "sdk/inference/core.h"
#include "src/fast_methods.h"
#include "src/inference_store.h"
#include "src/values.h"
#include "store/telemetry/rows.h"
#include "store/telemetry/summary.h"

namespace gpulens::python {
namespace {

using telemetry::kNoCount;
using telemetry::RecordColumn;
using telemetry::RecordNumbers;
using telemetry::RecordRow;
using telemetry::TextColumn;

// A column of the record class, with its interned name.
struct FieldColumn {
  const RecordColumn* column;
  nb::object name;
};

std::vector<FieldColumn> ColumnsOf(nb::handle kind) {
  const nb::object fields = kind.attr("__dataclass_fields__");
  std::vector<FieldColumn> known;
  for (const RecordColumn& column : telemetry::RecordColumns()) {
    nb::object name = nb::steal(PyUnicode_InternFromString(std::string(column.name).c_str()));
    if (nb::cast<bool>(fields.attr("__contains__")(name))) known.push_back({&column, std::move(name)});
  }
  return known;
}

[[noreturn]] void Wrong(const RecordColumn& column, const char* wanted) {
  PyErr_Clear();
  throw nb::type_error((std::string(column.name) + wanted).c_str());
}

// Writes telemetry records into a store. Immutable and therefore thread-safe.
class TelemetryWriter {
 public:
  TelemetryWriter(nb::object store, nb::handle record_class)
      : store_(std::move(store)),
        class_(nb::borrow(record_class)),
        columns_(ColumnsOf(record_class)),
        dumps_(nb::module_::import_("json").attr("dumps")) {}

  // Stores records that cannot be a row, with the reason, in a table of their own.
  void Record(nb::handle record) const {
    const int ours = PyObject_IsInstance(record.ptr(), class_.ptr());
    if (ours < 0) throw nb::python_error();
    if (ours == 0) CheckIsRecord(record);
    std::vector<nb::object> kept;
    RecordRow row;
    std::string why;
    try {
      row = RowOf(record, ours == 0, kept);
    } catch (const nb::builtin_exception& error) {
      why = error.what();
    } catch (const nb::python_error& error) {
      why = error.what();
    }
    if (why.empty()) nb::cast<StoreHandle&>(store_).Record(row);
    else SetAside(record, why);
  }

  void SetAside(nb::handle record, const std::string& why) const {
    std::string text;
    try {
      text = nb::repr(record).c_str();
    } catch (const nb::python_error&) {
      text = "(it has no repr)";
    }
    internal::InferenceCore& core = nb::cast<StoreHandle&>(store_)->core();
    Check(WithoutGil([&] { return core.SetAside(text, why) ? Status() : core.blocked(); }));
  }

 private:
  static void CheckIsRecord(nb::handle record) {
    for (const char* const name : {"timestamp", "model_id"}) {
      if (nb::hasattr(record, name)) continue;
      if (const nb::object type = TypeName(record.ptr()); type.is_valid()) {
        PyErr_Format(PyExc_TypeError, "%S is not a telemetry record: it has no attribute %s", type.ptr(),
                     name);
      }
      throw nb::python_error();
    }
  }

  // `foreign`: another package's record, where an absent attribute and None are not measured.
  RecordRow RowOf(nb::handle record, bool foreign, std::vector<nb::object>& kept) const {
    RecordRow row;
    for (const auto& [column, name] : columns_) {
      nb::object value = nb::steal(PyObject_GetAttr(record.ptr(), name.ptr()));
      if (!value.is_valid()) {
        if (!foreign || !PyErr_ExceptionMatches(PyExc_AttributeError)) throw nb::python_error();
        PyErr_Clear();
        continue;
      }
      if (foreign && value.is_none() && column->name != "model_id" && column->name != "timestamp") continue;
      if (const auto* const real = std::get_if<double RecordNumbers::*>(&column->at)) {
        double number = 0;
        if (!NumberOf(value.ptr(), number)) Wrong(*column, " must be a number");
        // In these records 0 means not measured.
        row.numbers.*(*real) = number == 0 && column->masked ? kNotMeasured : number;
      } else if (const auto* const whole = std::get_if<int64_t RecordNumbers::*>(&column->at)) {
        int64_t number = kNoCount;
        if (!value.is_none() && !NumberOf(value.ptr(), number)) Wrong(*column, " must be an integer");
        if (value.is_none() && column->masked) Wrong(*column, " must be an integer");
        row.numbers.*(*whole) = number == 0 && column->masked ? kNoCount : number;
      } else {
        const auto which = std::get<TextColumn>(column->at);
        if (which == TextColumn::kMetadata) value = Metadata(row, value, kept);
        row.text(which) = Text(*column, value, kept);
      }
    }
    return row;
  }

  nb::object Metadata(RecordRow& row, const nb::object& value, std::vector<nb::object>& kept) const {
    if (!nb::isinstance<nb::dict>(value)) return dumps_(value);
    const nb::dict metadata = nb::borrow<nb::dict>(value);
    if (metadata.size() == 0) return nb::str("{}");
    // Outcome of a call as the instrumented engines report it.
    if (metadata.contains("outcome")) {
      const nb::object outcome = metadata["outcome"];
      if (nb::isinstance<nb::str>(outcome)) {
        const std::string_view text = nb::cast<std::string_view>(outcome);
        for (const Outcome known : {Outcome::kError, Outcome::kCancelled})
          if (text == OutcomeName(known)) row.numbers.outcome = static_cast<int64_t>(known);
      }
    }
    if (metadata.contains("error_type") && nb::isinstance<nb::str>(metadata["error_type"])) {
      kept.push_back(nb::object(metadata["error_type"]));
      row.text(TextColumn::kErrorType) = nb::cast<std::string_view>(kept.back());
    }
    return dumps_(value);
  }

  static std::string_view Text(const RecordColumn& column, nb::object value, std::vector<nb::object>& kept) {
    const bool optional = std::get<TextColumn>(column.at) == TextColumn::kMiningSession;
    if (value.is_none() && optional) return {};
    Py_ssize_t size = 0;
    if (!PyUnicode_Check(value.ptr())) Wrong(column, " must be a string");
    const char* const text = PyUnicode_AsUTF8AndSize(value.ptr(), &size);
    if (!text) throw nb::python_error();
    kept.push_back(std::move(value));
    return {text, static_cast<size_t>(size)};
  }

  nb::object store_, class_;
  std::vector<FieldColumn> columns_;
  nb::object dumps_;
};

constexpr std::string_view kInternal = "measured";  // bit mask of the measured zeros of a row

struct Blob {
  std::string bytes;
};
using TableCell = std::variant<std::monostate, int64_t, double, std::string, Blob>;

struct TableRows {
  std::vector<std::string> names;
  std::vector<TableCell> cells;  // row by row
};

TableCell CellOf(const sqlite::Statement& row, int column) {
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

// Must not wait for the GIL: the thread that holds it may fork, and a fork waits for this to end.
Status Copy(const sqlite::Database& database, const Query& query, TableRows& out) {
  ASSIGN_OR_RETURN(sqlite::Statement rows, telemetry::SelectAllColumns(database, query));
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

nb::object ToObject(const TableCell& cell) {
  const auto as = []<class T>(const T& value) -> nb::object {
    if constexpr (std::is_same_v<T, std::monostate>) {
      return nb::none();
    } else if constexpr (std::is_same_v<T, Blob>) {
      return nb::bytes(value.bytes.data(), value.bytes.size());
    } else if constexpr (std::is_same_v<T, std::string>) {
      // Other programs may write invalid UTF-8, which is kept.
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

// Returns the rows that match `query` as dicts with the names and units of the table, except columns that
// only this program can read. Flushes first; the file is read without the GIL.
nb::list RowsOf(internal::InferenceCore& core, const Query& query) {
  TableRows rows;
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

}  // namespace

void BindOpenJarvis(nb::module_& m) {
  const auto rows = [](StoreHandle& store, std::optional<double> since, std::optional<double> until,
                       bool newest_first, size_t limit) {
    const auto at = [](std::optional<double> seconds) {
      if (seconds && !(std::abs(*seconds) < 9e9))
        Raise({Code::kInvalidArgument, "not a valid time: " + FloatText(*seconds)});
      return seconds ? std::optional(telemetry::TimeOf(*seconds)) : std::nullopt;
    };
    return RowsOf(store->core(), {.since = at(since),
                                  .until = at(until),
                                  .warmup = true,
                                  .limit = limit,
                                  .newest_first = newest_first});
  };
  m.def("telemetry_rows", rows, "store"_a, "since"_a = nb::none(), "until"_a = nb::none(),
        "newest_first"_a = false, "limit"_a = 0,
        "Returns the rows of a store's file as they are, by column name, without `measured`. since, until: "
        "Unix seconds, both included. limit: maximum number of rows; 0: all. Flushes before. Raises IoError "
        "and other classes of gpulens.errors when the file cannot be read.",
        nb::sig("def telemetry_rows(store: InferenceStore, since: float | None = None, until: float | None = "
                "None, newest_first: bool = False, limit: int = 0) -> list[dict[str, typing.Any]]"));
  nb::class_<TelemetryWriter> writer(m, "TelemetryWriter",
                                     "Writes the records of gpulens.compat.openjarvis into a store.");
  RefusesPickle(writer, "open the store in the other process");
  writer
      .def(nb::init<nb::object, nb::handle>(), "store"_a, "record_class"_a,
           nb::sig("def __init__(self, store: InferenceStore, record_class: type) -> None"))
      .def("record", &TelemetryWriter::Record, "record"_a,
           "Writes a record of the class, or any object with its attributes, of which only timestamp and "
           "model_id are required; one that cannot be a row is set aside with the reason. Raises TypeError "
           "for any other object.",
           nb::sig("def record(self, record: typing.Any) -> None"))
      .def("set_aside", &TelemetryWriter::SetAside, "record"_a, "why"_a,
           "Keeps the repr of what is no record, with the reason, in the table telemetry_poison.",
           nb::sig("def set_aside(self, record: typing.Any, why: str) -> None"));
}

}  // namespace gpulens::python
