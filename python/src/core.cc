#include <mutex>
#include <set>

#include "base/version.h"
#include "src/fast_methods.h"
#include "src/values.h"

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

std::vector<double> Numbers(nb::handle values, const char* name) {
  const auto fail = [&](const char* wanted, nb::handle got) {
    PyErr_Clear();
    throw nb::type_error(
        (std::string(name) + " must be " + wanted + ", not " + nb::type_name(got.type()).c_str()).c_str());
  };
  if (PyUnicode_Check(values.ptr()) || PyBytes_Check(values.ptr())) fail("numbers", values);
  const nb::object iterator = nb::steal(PyObject_GetIter(values.ptr()));
  if (!iterator.is_valid()) fail("an iterable of numbers", values);
  std::vector<double> out;
  for (;;) {
    const nb::object value = nb::steal(PyIter_Next(iterator.ptr()));
    if (!value.is_valid()) break;
    if (!NumberOf(value.ptr(), out.emplace_back())) fail("numbers", value);
  }
  if (PyErr_Occurred()) nb::raise_python_error();
  return out;
}

std::string_view Text(nb::handle value, const char* name) {
  std::string_view text;
  if (!nb::try_cast(value, text))
    throw nb::type_error(
        (std::string(name) + " must be a str, not " + nb::type_name(value.type()).c_str()).c_str());
  return text;
}

std::string_view Interned(std::string text) {
  static std::mutex mutex;
  static std::set<std::string>* const texts =
      new std::set<std::string>;  // never destroyed, as static texts are
  const std::lock_guard lock(mutex);
  return *texts->insert(std::move(text)).first;
}

std::string PrintedAttributes(nb::handle self, const std::vector<const char*>& names) {
  std::string out = nb::cast<std::string>(self.type().attr("__name__")) + "(";
  for (const char* name : names) {
    if (name != names.front()) out += ", ";
    out += std::string(name) + "=" + nb::repr(self.attr(name)).c_str();
  }
  return out + ")";
}

void UnknownField(const char* kind, const std::string& name) {
  Raise({Code::kDataLoss, std::string(kind) + ": the pickle has a field \"" + name +
                              "\" that this version of gpulens does not have; read it with the version that "
                              "wrote it, or with a newer one"});
}

void WrongField(const char* kind, const std::string& name) {
  Raise({Code::kDataLoss, std::string(kind) + ": the field \"" + name + "\" of the pickle has another type"});
}

// Raises ImportError where the modules of Python around this one are of another version.
void NeedSameVersion() {
  const nb::dict modules = nb::module_::import_("sys").attr("modules");
  if (!modules.contains("gpulens")) return;  // the build reads the stubs of this module alone
  const nb::object package = modules["gpulens"];
  const std::string wanted = nb::cast<std::string>(nb::str(nb::getattr(package, "__version__", nb::str(""))));
  if (wanted == Version()) return;
  throw nb::import_error(("gpulens " + wanted + " has a native part of version " + std::string(Version()) +
                          ", of another installation: remove the folder of the package and install it again "
                          "(python -m pip install --force-reinstall gpulens)")
                             .c_str());
}

}  // namespace gpulens::python

NB_MODULE(_core, m) {
  namespace nb = nanobind;
  // Modules of Python, and so what they refer to, are not all destroyed when it exits: not an error of a
  // program.
  nb::set_leak_warnings(false);
  if (PyInterpreterState_GetID(PyInterpreterState_Get()) != 0)
    throw nb::import_error(
        "gpulens works in the main interpreter of a process only, since its native part has state of the "
        "process: "
        "import it there, or use processes (multiprocessing) instead of subinterpreters");
  gpulens::python::NeedSameVersion();
  m.doc() = "The native part of gpulens. Use the modules of gpulens instead.";
#define GPULENS_PART(name) gpulens::python::Bind##name(m);
#include "src/parts.def"
#undef GPULENS_PART
}
