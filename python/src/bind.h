// Shared by the files of bindings, each of which binds one part of the SDK. A failed Status becomes a Python
// exception here. All functions need the GIL (or, without one, an attached thread) unless stated otherwise.
#pragma once

#include <chrono>
#include <string>
#include <string_view>
#include <utility>

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

inline nb::str ToPython(std::string_view text) { return nb::str(text.data(), text.size()); }
// As repr() writes a float: "nan", "0.25".
std::string FloatText(double value);
// Seconds as a duration; 0 only where `or_zero`. Raises InvalidArgumentError with the argument's name.
std::chrono::nanoseconds Span(double seconds, const char* name, bool or_zero = false);
// Calls `call` without the GIL.
template <class F>
auto WithoutGil(F&& call) {
  const nb::gil_scoped_release released;
  return call();
}
// __enter__ of context managers.
inline nb::object EnterSelf(nb::object self) { return self; }

}  // namespace gpulens::python
