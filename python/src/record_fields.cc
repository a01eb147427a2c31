#include "src/inference_store.h"

#include <cmath>
#include <optional>
#include <variant>

#include "src/fast_methods.h"
#include "store/telemetry/rows.h"

namespace gpulens::python {
namespace {

using R = InferenceRecord;

struct OtherField {};  // read by TakeOther

struct RecordField {
  const char* name;
  std::variant<std::string_view R::*, std::optional<int64_t> R::*, double R::*, bool R::*, OtherField> at;
};

constexpr RecordField kFields[] = {
    {"model", &R::model},
    {"engine", &R::engine},
    {"agent", &R::agent},
    {"batch_id", &R::batch_id},
    {"error_type", &R::error_type},
    {"metadata", OtherField{}},
    {"time", OtherField{}},
    {"prompt_tokens", &R::prompt_tokens},
    {"prompt_tokens_evaluated", &R::prompt_tokens_evaluated},
    {"cached_prompt_tokens", &R::cached_prompt_tokens},
    {"completion_tokens", &R::completion_tokens},
    {"total_tokens", &R::total_tokens},
    {"latency_seconds", &R::latency_seconds},
    {"ttft_seconds", &R::ttft_seconds},
    {"consumer_seconds", &R::consumer_seconds},
    {"cost_usd", &R::cost_usd},
    {"energy_joules", &R::energy_joules},
    {"prefill_energy_joules", &R::prefill_energy_joules},
    {"decode_energy_joules", &R::decode_energy_joules},
    {"energy_uncertainty_joules", &R::energy_uncertainty_joules},
    {"gpu_energy_joules", &R::gpu_energy_joules},
    {"cpu_energy_joules", &R::cpu_energy_joules},
    {"dram_energy_joules", &R::dram_energy_joules},
    {"energy_method", &R::energy_method},
    {"energy_vendor", &R::energy_vendor},
    {"power_watts", &R::power_watts},
    {"gpu_utilization_ratio", &R::gpu_utilization_ratio},
    {"gpu_memory_used_bytes", &R::gpu_memory_used_bytes},
    {"gpu_temperature_celsius", &R::gpu_temperature_celsius},
    {"itl_seconds", OtherField{}},
    {"outcome", OtherField{}},
    {"streaming", &R::streaming},
    {"warmup", &R::warmup},
};

[[noreturn]] void Wrong(const char* name, const char* wanted, PyObject* got) {
  PyErr_Clear();
  if (const nb::object type = TypeName(got); type.is_valid())
    PyErr_Format(PyExc_TypeError, "%s must be %s, not %S", name, wanted, type.ptr());
  throw nb::python_error();
}

// Invalid times become one before 1970, which no store accepts.
std::chrono::system_clock::time_point TimeOf(PyObject* value) {
  double seconds = 0;
  if (!NumberOf(value, seconds)) Wrong("time", "Unix seconds or None", value);
  if (!(std::abs(seconds) < 9e9)) seconds = -1;
  const auto at = telemetry::TimeOf(seconds);
  // 0 would mean now.
  return at == std::chrono::system_clock::time_point{} ? at + std::chrono::microseconds(1) : at;
}

// Interned names of the fields, kept for the life of the process, since each record looks them up.
PyObject* const* Names() {
  static PyObject* const* const names = [] {
    auto* const made = new PyObject*[std::size(kFields)];
    for (size_t i = 0; i < std::size(kFields); ++i) made[i] = PyUnicode_InternFromString(kFields[i].name);
    return made;
  }();
  return names;
}

size_t PlaceOf(PyObject* name) {
  PyObject* const* const names = Names();
  for (size_t i = 0; i < std::size(kFields); ++i)
    if (names[i] == name) return i;
  for (size_t i = 0; i < std::size(kFields); ++i)
    if (PyUnicode_CompareWithASCIIString(name, kFields[i].name) == 0) return i;
  PyErr_Format(PyExc_TypeError, "InferenceRecord has no field %U", name);
  throw nb::python_error();
}

}  // namespace

std::string_view RecordFields::Text(const char* name, PyObject* value) {
  if (value == Py_None) return {};
  if (!PyUnicode_Check(value)) Wrong(name, "a string", value);
  Py_ssize_t size = 0;
  if (const char* const text = PyUnicode_AsUTF8AndSize(value, &size))
    return {text, static_cast<size_t>(size)};
  PyErr_Clear();  // half of a surrogate pair: not valid UTF-8, which the store rejects
  const nb::object bytes = nb::steal(PyUnicode_AsEncodedString(value, "utf-8", "surrogatepass"));
  if (!bytes.is_valid()) throw nb::python_error();
  kept_.push_back(bytes);
  return {PyBytes_AsString(bytes.ptr()), static_cast<size_t>(PyBytes_Size(bytes.ptr()))};
}

void RecordFields::TakeOther(const char* name, PyObject* value) {
  const std::string_view which = name;
  if (value == Py_None) return;
  if (which == "time") {
    record_.time = TimeOf(value);
  } else if (which == "itl_seconds") {
    if (!nb::try_cast(nb::handle(value), record_.itl_seconds)) Wrong(name, "a Distribution", value);
  } else if (which == "outcome") {
    const std::string_view text = Text(name, value);
    for (const Outcome outcome : {Outcome::kOk, Outcome::kError, Outcome::kCancelled}) {
      if (text != OutcomeName(outcome)) continue;
      record_.outcome = outcome;
      return;
    }
    throw nb::type_error("outcome must be \"ok\", \"error\" or \"cancelled\"");
  } else if (PyObject_IsTrue(value) == 1) {  // metadata
    static const char* const kDumps = "dumps";
    nb::object text = PyUnicode_Check(value) ? nb::borrow(value)
                                             : nb::module_::import_("json").attr(kDumps)(nb::handle(value));
    kept_.push_back(text);
    record_.metadata_json = Text(name, kept_.back().ptr());
  }
}

void RecordFields::Take(PyObject* name, PyObject* value) {
  const RecordField& field = kFields[PlaceOf(name)];
  const auto set = [&]<class T>(const T& at) {
    if constexpr (std::is_same_v<T, OtherField>) {
      TakeOther(field.name, value);
    } else if constexpr (std::is_same_v<T, std::string_view R::*>) {
      record_.*at = Text(field.name, value);
    } else if constexpr (std::is_same_v<T, bool R::*>) {
      const int truth = PyObject_IsTrue(value);
      if (truth < 0) throw nb::python_error();
      record_.*at = truth == 1;
    } else if (value != Py_None) {
      std::conditional_t<std::is_same_v<T, double R::*>, double, int64_t> number{};
      if (!NumberOf(value, number))
        Wrong(field.name, std::is_same_v<T, double R::*> ? "a number or None" : "a 64-bit integer or None",
              value);
      record_.*at = number;
    }
  };
  std::visit(set, field.at);
}

void RecordFields::TakeAll(nb::handle from) {
  PyObject* const* const names = Names();
  for (size_t i = 0; i < std::size(kFields); ++i) {
    nb::object value = nb::steal(PyObject_GetAttr(from.ptr(), names[i]));
    if (!value.is_valid()) throw nb::python_error();
    Take(names[i], value.ptr());
    // Another thread, or Python code that runs meanwhile, may replace the object's text.
    if (PyUnicode_Check(value.ptr()) && PyUnicode_GetLength(value.ptr()) > 0)
      kept_.push_back(std::move(value));
  }
}

}  // namespace gpulens::python
