#include "src/hot.h"

namespace gpulens::python {
namespace {

bool NotA(const char* wanted, PyObject* got) noexcept {
  PyErr_Clear();
  PyErr_Format(PyExc_TypeError, "expected %s, got %s", wanted, Py_TYPE(got)->tp_name);
  return false;
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
    to = PyFloat_AS_DOUBLE(from);
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

bool HotArguments::Take(const char* name, PyObject* const* given, Py_ssize_t positional,
                        PyObject* names) noexcept {
  if (positional > 2) {
    PyErr_Format(PyExc_TypeError, "expected %s and attributes, got %zd arguments", name, positional);
    return false;
  }
  if (positional > 0) number = given[0];
  if (positional > 1) attributes = given[1];
  for (Py_ssize_t i = 0; names && i < PyTuple_GET_SIZE(names); ++i) {
    PyObject* const key = PyTuple_GET_ITEM(names, i);
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

}  // namespace gpulens::python
