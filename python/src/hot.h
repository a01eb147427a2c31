// Methods that are called for each thing that happens: add, set, record. They are plain C functions of the
// type and not nanobind's, which looks at every argument's name and kind and takes twice as long.
//
//   static PyMethodDef methods[] = {Hot<Counter, int64_t, &AddOne>::Method("add", "amount", doc), {}};
//   static PyType_Slot slots[] = {{Py_tp_methods, methods}, {0, nullptr}};
//   nb::class_<Counter>(m, "Counter", nb::type_slots(slots))
#pragma once

#include "src/attributes.h"

namespace gpulens::python {

// False: with a Python TypeError set.
bool NumberOf(PyObject* from, int64_t& to) noexcept;
bool NumberOf(PyObject* from, double& to) noexcept;

// In a catch of such a method: the exception becomes Python's. Null, which the method returns.
PyObject* RaiseCurrent() noexcept;

// The two arguments of such a call; null: not given. The number may go by `name`.
struct HotArguments {
  PyObject* number = nullptr;
  PyObject* attributes = nullptr;
  // False: with a Python TypeError set.
  bool Take(const char* name, PyObject* const* given, Py_ssize_t positional, PyObject* names) noexcept;
};

// `Do` records; `kOne`: without a number it is 1. `Name` is the number's.
template <class T, class Number, auto Do, const char* const& Name, bool kOne = false>
struct Hot {
  static PyObject* Call(PyObject* self, PyObject* const* given, Py_ssize_t positional,
                        PyObject* names) noexcept {
    Number number{1};
    if (!nb::inst_ready(self)) {
      PyErr_SetString(PyExc_TypeError, "the instrument is not initialized: its __init__ did not run");
      return nullptr;
    }
    const T& instrument = *nb::inst_ptr<T>(self);
    if (positional == 1 && !names) [[likely]] {
      if (!NumberOf(given[0], number)) return nullptr;
      Do(instrument, number);
      Py_RETURN_NONE;
    }
    HotArguments arguments;
    if (!arguments.Take(Name, given, positional, names)) return nullptr;
    if (arguments.number) {
      if (!NumberOf(arguments.number, number)) return nullptr;
    } else if (!kOne) {
      PyErr_Format(PyExc_TypeError, "%s is missing", Name);
      return nullptr;
    }
    return With(instrument, number, arguments.attributes);
  }

  // The entry in a type's table. `doc` begins with the signature, as Python's own do: "add($self,
  // amount=1)\n--\n\n…"
  static PyMethodDef Method(const char* name, const char* doc) noexcept {
    return {name, reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(&Call)),
            METH_FASTCALL | METH_KEYWORDS, doc};
  }

 private:
  static PyObject* With(const T& instrument, Number number, PyObject* attributes) noexcept try {
    if (attributes && attributes != Py_None) {
      AttributeList list;
      list.Add(attributes);
      Do(instrument.Bind(list.all()), number);
    } else {
      Do(instrument, number);
    }
    Py_RETURN_NONE;
  } catch (...) {
    return RaiseCurrent();
  }
};

}  // namespace gpulens::python
