#include "src/bind.h"

namespace gpulens::python {

void Raise(const Status& status) {
  const nb::object of_code = nb::module_::import_("gpulens.errors").attr("of_code");
  const nb::object error = of_code(ToPython(CodeName(status.code)), ToPython(status.detail));
  PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(error.ptr())), error.ptr());
  throw nb::python_error();
}

std::string FloatText(double value) {
  const nb::object number = nb::steal(PyFloat_FromDouble(value));
  return nb::repr(number).c_str();
}

std::chrono::nanoseconds Span(double seconds, const char* name, bool or_zero) {
  if (!(seconds > 0 && seconds < 1e9) && !(or_zero && seconds >= 0 && seconds < 9e9))
    Raise({Code::kInvalidArgument, std::string(name) +
                                       (or_zero ? " must be a number of seconds; got "
                                                : " must be a positive number of seconds; got ") +
                                       FloatText(seconds)});
  return std::chrono::nanoseconds(std::llround(seconds * 1e9));
}

}  // namespace gpulens::python

NB_MODULE(_core, m) {
  namespace nb = nanobind;
  m.doc() = "The native part of gpulens. Use the modules of gpulens instead.";
#define GPULENS_PART(name) gpulens::python::Bind##name(m);
#include "src/parts.def"
#undef GPULENS_PART
}
