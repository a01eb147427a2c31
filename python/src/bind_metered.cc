// gpulens.ring's Metered: the processor time of a coroutine.
#include <gpulens/kernel_telemetry.h>

#include <time.h>

#include <cstdint>

#include "src/bind.h"

namespace gpulens::python {
namespace {

// Reading a thread's clock takes about half a microsecond, which is more than telemetry may cost: so it is an
// estimate from some of the steps, but exact for a coroutine of few. A prime, since programs keep step with
// powers of two and of ten.
constexpr uint64_t kExact = 16, kEach = 31;

double ThreadSeconds() noexcept {
  timespec at{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &at);
  return static_cast<double>(at.tv_sec) + static_cast<double>(at.tv_nsec) * 1e-9;
}

// For the event loop's thread. Holds its coroutine until that has ended.
class Metered {
 public:
  Metered(nb::object work, const KernelRecorder& recorder) : work_(std::move(work)), recorder_(recorder) {}

  // Result of `go`; null: the coroutine raised, StopIteration when it returned.
  template <class Go>
  PyObject* Step(const Go& go) noexcept {
    ++steps_;
    const uint64_t weight = steps_ <= kExact ? 1 : steps_ % kEach == 0 ? kEach : 0;
    if (weight == 0) return go(work_.ptr());
    const double begun = ThreadSeconds();
    PyObject* const result = go(work_.ptr());
    recorder_.AddCpu((ThreadSeconds() - begun) * static_cast<double>(weight));
    return result;
  }

 private:
  const nb::object work_;
  const KernelRecorder recorder_;
  uint64_t steps_ = 0;
};

PyObject* Resume(PyObject* work) noexcept {
#if PY_VERSION_HEX >= 0x030A0000
  PyObject* result = nullptr;
  if (PyIter_Send(work, Py_None, &result) != PYGEN_RETURN) return result;
  if (PyObject* const end = PyObject_CallOneArg(PyExc_StopIteration, result)) {
    PyErr_SetObject(PyExc_StopIteration, end);
    Py_DECREF(end);
  }
  Py_DECREF(result);
  return nullptr;
#else
  static PyObject* const send = PyUnicode_InternFromString("send");
  return PyObject_CallMethodObjArgs(work, send, Py_None, nullptr);
#endif
}

PyObject* Next(PyObject* self) noexcept { return nb::inst_ptr<Metered>(self)->Step(&Resume); }

PyObject* Self(PyObject* self) noexcept {
  Py_INCREF(self);
  return self;
}

nb::object Throw(Metered& self, nb::args what) {
  PyObject* const result = self.Step([&what](PyObject* work) -> PyObject* {
    PyObject* const method = PyObject_GetAttrString(work, "throw");
    if (!method) return nullptr;
    PyObject* const thrown = PyObject_CallObject(method, what.ptr());
    Py_DECREF(method);
    return thrown;
  });
  if (!result) throw nb::python_error();
  return nb::steal(result);
}

}  // namespace

void BindMetered(nb::module_& m) {
  static PyType_Slot slots[] = {{Py_tp_iternext, reinterpret_cast<void*>(&Next)},
                                {Py_tp_iter, reinterpret_cast<void*>(&Self)},
                                {Py_am_await, reinterpret_cast<void*>(&Self)},
                                {0, nullptr}};
  nb::class_<Metered>(
      m, "Metered", nb::type_slots(slots),
      "Awaits a coroutine and adds to a KernelRecorder the processor time of its steps on the event loop's "
      "thread, not of the code between them: exact for the first 16 steps, then an estimate from every 31st.")
      .def(nb::init<nb::object, const KernelRecorder&>(), "work"_a, "recorder"_a,
           nb::sig("def __init__(self, work: collections.abc.Coroutine, recorder: KernelRecorder) -> None"))
      .def("throw", &Throw, nb::sig("def throw(self, *what: typing.Any) -> typing.Any"));
}

}  // namespace gpulens::python
