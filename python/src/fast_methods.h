// Methods that programs call for each event: add, set, record. They are plain C functions of the type, since
// nanobind's argument handling takes twice as long.
//
//   static PyMethodDef methods[] = {FastMethod<Counter, int64_t, &AddOne>::Method("add", "amount", doc), {}};
//   static PyType_Slot slots[] = {{Py_tp_methods, methods}, {0, nullptr}};
//   nb::class_<Counter>(m, "Counter", nb::type_slots(slots))
#pragma once

#include <span>
#include <vector>

#include <gpulens/registry.h>

#include "src/bind.h"

namespace gpulens::python {

// Convert a Python number. On false, a Python TypeError is set.
bool NumberOf(PyObject* from, int64_t& to) noexcept;
bool NumberOf(PyObject* from, double& to) noexcept;

// Called in the catch block of such a method: sets the Python error and returns null.
PyObject* RaiseCurrent() noexcept;

// The two arguments of such a call; null: not passed. The number may be passed as keyword `name`.
struct FastArguments {
  PyObject* number = nullptr;
  PyObject* attributes = nullptr;
  // On false, a Python TypeError is set.
  bool Take(const char* name, PyObject* const* given, Py_ssize_t positional, PyObject* names) noexcept;
};

// Attributes as views of the strings of a mapping, which must outlive them.
class AttributeList {
 public:
  // Adds a mapping of str to str, bool, int or float. Raises TypeError for other types, and
  // InvalidArgumentError for an integer of more than 64 bits.
  void Add(nb::handle mapping);
  std::span<const Attribute> all() const noexcept { return attributes_; }

 private:
  void AddOne(PyObject* key, PyObject* value);
  std::vector<Attribute> attributes_;
  std::vector<nb::object> kept_;  // owners of viewed texts
};

// A method that calls `Do`. `Name` is the keyword of the number; `kOne`: its default is 1.
template <class T, class Number, auto Do, const char* const& Name, bool kOne = false>
struct FastMethod {
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
    FastArguments arguments;
    if (!arguments.Take(Name, given, positional, names)) return nullptr;
    if (arguments.number) {
      if (!NumberOf(arguments.number, number)) return nullptr;
    } else if (!kOne) {
      PyErr_Format(PyExc_TypeError, "%s is missing", Name);
      return nullptr;
    }
    return With(instrument, number, arguments.attributes);
  }

  // Returns the entry of a type's table. `doc` begins with the signature, as in Python itself: "add($self,
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
