#include <bit>

#include "src/bind.h"

namespace gpulens::python {

void Raise(const Status& status) {
  const nb::object of_code = nb::module_::import_("gpulens.errors").attr("of_code");
  const nb::object error = of_code(ToPython(CodeName(status.code)), ToPython(status.detail));
  PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(error.ptr())), error.ptr());
  throw nb::python_error();
}

std::string MakeNames(double value) {
  const nb::object number = nb::steal(PyFloat_FromDouble(value));
  return nb::repr(number).c_str();
}

}  // namespace gpulens::python

NB_MODULE(_core, m) {
  namespace nb = nanobind;
  m.doc() = "The native part of gpulens. Use the modules of gpulens instead.";
#define GPULENS_PART(name) gpulens::python::Bind##name(m);
#include "src/parts.def"
#undef GPULENS_PART
}
