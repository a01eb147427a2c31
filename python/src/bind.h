// Shared by the binding files, each of which binds one part of the SDK. Converts errors to Python exceptions.
// All functions need the GIL (or, without one, an attached thread) unless stated otherwise.
#pragma once

#include <chrono>
#include <cmath>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gpulens/registry.h>
#include <gpulens/status.h>

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>

namespace gpulens::python {

namespace nb = nanobind;
using nb::literals::operator""_a;

#define GPULENS_PART(name) void Bind##name(nb::module_& m);
#include "src/parts.def"
#undef GPULENS_PART

// Raises the class of gpulens.errors for this code.
[[noreturn]] void Raise(const Status& status);
inline void Check(const Status& status) {
  if (!status.ok()) Raise(status);
}
template <class T>
T Take(Result<T> result) {
  if (!result.ok()) Raise(result.error());
  return *std::move(result);
}

// Returns the name of an object's type as a str; invalid, with a Python error set, where it has none.
inline nb::object TypeName(PyObject* of) noexcept {
  return nb::steal(PyObject_GetAttrString(reinterpret_cast<PyObject*>(Py_TYPE(of)), "__name__"));
}
inline nb::str ToPython(std::string_view text) { return nb::str(text.data(), text.size()); }
// Returns repr() of a float: "nan", "0.25".
std::string FloatText(double value);
// Converts seconds to a duration; 0 is allowed only if `or_zero`. Raises InvalidArgumentError with the
// argument's name.
std::chrono::nanoseconds Span(double seconds, const char* name, bool or_zero = false);
// Converts seconds of a monotonic clock, of magnitude below 9e9.
inline std::chrono::steady_clock::time_point SteadyTime(double seconds) {
  return std::chrono::steady_clock::time_point(std::chrono::nanoseconds(std::llround(seconds * 1e9)));
}
inline double SecondsOf(std::chrono::nanoseconds span) noexcept {
  return std::chrono::duration<double>(span).count();
}
// Returns the registry, or that of the process for null.
inline Registry& OrProcess(Registry* registry) { return registry ? *registry : Registry::Process(); }
// Calls `call` without the GIL.
template <class F>
auto WithoutGil(F&& call) {
  const nb::gil_scoped_release released;
  return call();
}
// Arguments of a call whose type is checked here, since nanobind's own error lists every signature. They
// raise a TypeError with the argument's name. Numbers takes any iterable; the text lives as long as the
// object.
std::vector<double> Numbers(nb::handle values, const char* name);
std::string_view Text(nb::handle value, const char* name);
// __enter__ of context managers.
inline nb::object EnterSelf(nb::object self) { return self; }

}  // namespace gpulens::python
