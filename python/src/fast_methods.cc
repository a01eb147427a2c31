#include "src/fast_methods.h"

namespace gpulens::python {
namespace {

bool NotA(const char* wanted, PyObject* got) noexcept {
  PyErr_Clear();
  if (const nb::object type = TypeName(got); type.is_valid())
    PyErr_Format(PyExc_TypeError, "expected %s, got %S", wanted, type.ptr());
  return false;
}

std::string_view View(PyObject* text) {
  Py_ssize_t size = 0;
  const char* const bytes = PyUnicode_AsUTF8AndSize(text, &size);
  if (!bytes) nb::raise_python_error();
  return {bytes, static_cast<size_t>(size)};
}

int64_t Whole(PyObject* number) {
  int overflow = 0;
  const int64_t value = PyLong_AsLongLongAndOverflow(number, &overflow);
  if (overflow) Raise({Code::kInvalidArgument, "an integer attribute value must fit into 64 bits"});
  if (value == -1 && PyErr_Occurred()) nb::raise_python_error();
  return value;
}

}  // namespace

bool NumberOf(PyObject* from, int64_t& to) noexcept {
  constexpr const char* kWanted = "an integer of at most 64 bits";
  if (!PyLong_Check(from) && !PyIndex_Check(from)) return NotA(kWanted, from);
  to = PyLong_AsLongLong(from);
  return to != -1 || !PyErr_Occurred() || NotA(kWanted, from);
}

bool NumberOf(PyObject* from, double& to) noexcept {
  if (PyFloat_CheckExact(from)) [[likely]] {
    to = PyFloat_AsDouble(from);
    return true;
  }
  to = PyFloat_AsDouble(from);
  return to != -1.0 || !PyErr_Occurred() || NotA("a number", from);
}

PyObject* RaiseCurrent() noexcept try { throw; } catch (nb::python_error& error) {
  error.restore();
  return nullptr;
} catch (const nb::builtin_exception& error) {
  PyErr_SetString(PyExc_TypeError, error.what());
  return nullptr;
} catch (const std::bad_alloc&) {
  return PyErr_NoMemory();
}

bool FastArguments::Take(const char* name, PyObject* const* given, Py_ssize_t positional,
                         PyObject* names) noexcept {
  if (positional > 2) {
    PyErr_Format(PyExc_TypeError, "expected %s and attributes, got %zd arguments", name, positional);
    return false;
  }
  if (positional > 0) number = given[0];
  if (positional > 1) attributes = given[1];
  for (Py_ssize_t i = 0; names && i < PyTuple_Size(names); ++i) {
    PyObject* const key = PyTuple_GetItem(names, i);
    PyObject** const to = PyUnicode_CompareWithASCIIString(key, name) == 0           ? &number
                          : PyUnicode_CompareWithASCIIString(key, "attributes") == 0 ? &attributes
                                                                                     : nullptr;
    if (!to || *to) {
      PyErr_Format(PyExc_TypeError, to ? "argument %U was passed twice" : "unexpected argument %U", key);
      return false;
    }
    *to = given[positional + i];
  }
  return true;
}

void AttributeList::AddOne(PyObject* key, PyObject* value) {
  if (!PyUnicode_Check(key)) throw nb::type_error("an attribute key must be a str");
  const std::string_view name = View(key);
  if (PyUnicode_Check(value)) attributes_.push_back({name, View(value)});
  else if (PyBool_Check(value)) attributes_.push_back({name, value == Py_True});
  else if (PyLong_Check(value)) attributes_.push_back({name, Whole(value)});
  else if (PyFloat_Check(value)) attributes_.push_back({name, PyFloat_AsDouble(value)});
  else if (PyIndex_Check(value)) attributes_.push_back({name, Whole(nb::steal(PyNumber_Index(value)).ptr())});
  else throw nb::type_error("an attribute value must be a str, bool, int or float");
}

void AttributeList::Add(nb::handle mapping) {
  nb::object items;
  if (PyDict_Check(mapping.ptr())) items = nb::borrow(mapping);
  else {
    if (!nb::hasattr(mapping, "keys"))
      throw nb::type_error("attributes must be a mapping of str to str, bool, int or float");
    items = nb::steal(
        PyObject_CallFunctionObjArgs(reinterpret_cast<PyObject*>(&PyDict_Type), mapping.ptr(), nullptr));
    if (!items.is_valid()) nb::raise_python_error();
    kept_.push_back(items);
  }
  attributes_.reserve(attributes_.size() + static_cast<size_t>(PyDict_Size(items.ptr())));
  for (const auto [key, value] : nb::borrow<nb::dict>(items)) {
#ifdef Py_GIL_DISABLED
    kept_.push_back(nb::borrow(key)),
        kept_.push_back(nb::borrow(value));  // another thread may change the mapping
#endif
    AddOne(key.ptr(), value.ptr());
  }
}

}  // namespace gpulens::python
