// What the files of bindings share. Each binds one part of the SDK; a failed Status becomes a Python
// exception here and nowhere else. All functions need the GIL (or, without one, an attached thread) unless
// they say otherwise.
#pragma once

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
std::string MakeNames(double value);

}  // namespace gpulens::python
