// gpulens.compat.openjarvis's TelemetryStore: rows in the units of its table.
#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include <nanobind/stl/optional.h>

#include "sdk/inference/core.h"
#include "src/hot.h"
#include "src/inference_store.h"
#include "src/telemetry_rows.h"
#include "store/telemetry/rows.h"

namespace gpulens::python {
namespace {

using telemetry::Column;
using telemetry::kNoCount;
using telemetry::Numbers;
using telemetry::Row;
using telemetry::TextColumn;

// A column that the record has, with its name as Python keeps it.
struct RecordColumn {
  const Column* column;
  nb::object name;
};

std::vector<RecordColumn> ColumnsOf(nb::handle kind) {
  const nb::object fields = kind.attr("__dataclass_fields__");
  std::vector<RecordColumn> known;
  for (const Column& column : telemetry::Columns()) {
    nb::object name = nb::steal(PyUnicode_InternFromString(std::string(column.name).c_str()));
    if (nb::cast<bool>(fields.attr("__contains__")(name))) known.push_back({&column, std::move(name)});
  }
  return known;
}

[[noreturn]] void Wrong(const Column& column, const char* wanted) {
  PyErr_Clear();
  throw nb::type_error((std::string(column.name) + wanted).c_str());
}

// Writes telemetry records into a store. Thread-safe: what it holds does not change.
class TelemetryWriter {
 public:
  TelemetryWriter(nb::object store, nb::handle record_class)
      : store_(std::move(store)),
        columns_(ColumnsOf(record_class)),
        dumps_(nb::module_::import_("json").attr("dumps")) {}

  // Records that cannot be a row are set aside with the reason.
  void Record(nb::handle record) const {
    internal::InferenceCore& core = (*nb::cast<Store&>(store_)).core();
    std::string why;
    try {
      std::vector<nb::object> kept;
      core.Record(RowOf(record, kept));
      return;
    } catch (const nb::builtin_exception& error) {
      why = error.what();
    } catch (const nb::python_error& error) {
      why = error.what();
    }
    std::string text;
    try {
      text = nb::repr(record).c_str();
    } catch (const nb::python_error&) {
      text = "(it has no repr)";
    }
    core.SetAside(text, why);
  }

 private:
  Row RowOf(nb::handle record, std::vector<nb::object>& kept) const {
    Row row;
    for (const auto& [column, name] : columns_) {
      nb::object value = nb::steal(PyObject_GetAttr(record.ptr(), name.ptr()));
      if (!value.is_valid()) throw nb::python_error();
      if (const auto* const real = std::get_if<double Numbers::*>(&column->at)) {
        double number = 0;
        if (!NumberOf(value.ptr(), number)) Wrong(*column, " must be a number");
        // In these records a 0 is what was not measured.
        row.numbers.*(*real) = number == 0 && column->masked ? kNotMeasured : number;
      } else if (const auto* const whole = std::get_if<int64_t Numbers::*>(&column->at)) {
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

  nb::object Metadata(Row& row, const nb::object& value, std::vector<nb::object>& kept) const {
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

  static std::string_view Text(const Column& column, nb::object value, std::vector<nb::object>& kept) {
    const bool optional = std::get<TextColumn>(column.at) == TextColumn::kMiningSession;
    if (value.is_none() && optional) return {};
    Py_ssize_t size = 0;
    if (!PyUnicode_Check(value.ptr())) Wrong(column, " must be a string");
    const char* const text = PyUnicode_AsUTF8AndSize(value.ptr(), &size);
    if (!text) throw nb::python_error();
    kept.push_back(std::move(value));
    return {text, static_cast<size_t>(size)};
  }

  nb::object store_;
  std::vector<RecordColumn> columns_;
  nb::object dumps_;
};

}  // namespace

void BindOpenJarvis(nb::module_& m) {
  const auto rows = [](Store& store, std::optional<double> since, std::optional<double> until,
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
  nb::class_<TelemetryWriter>(m, "TelemetryWriter",
                              "Writes the records of gpulens.compat.openjarvis into a store.")
      .def(nb::init<nb::object, nb::handle>(), "store"_a, "record_class"_a,
           nb::sig("def __init__(self, store: InferenceStore, record_class: type) -> None"))
      .def("record", &TelemetryWriter::Record, "record"_a,
           "Writes a record; one that cannot be a row is set aside with the reason.",
           nb::sig("def record(self, record: typing.Any) -> None"));
}

}  // namespace gpulens::python
