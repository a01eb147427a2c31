#include "src/attributes.h"

namespace gpulens::python {
namespace {

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

void AttributeList::AddOne(PyObject* key, PyObject* value) {
  if (!PyUnicode_Check(key)) throw nb::type_error("an attribute key must be a str");
  const std::string_view name = View(key);
  if (PyUnicode_Check(value)) attributes_.push_back({name, View(value)});
  else if (PyBool_Check(value)) attributes_.push_back({name, value == Py_True});
  else if (PyLong_Check(value)) attributes_.push_back({name, Whole(value)});
  else if (PyFloat_Check(value)) attributes_.push_back({name, PyFloat_AS_DOUBLE(value)});
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
  for (const auto [key, value] : nb::borrow<nb::dict>(items)) AddOne(key.ptr(), value.ptr());
}

}  // namespace gpulens::python
