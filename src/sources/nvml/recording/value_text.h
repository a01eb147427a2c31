// Single values of the library as text, both ways: numbers with a point, and the union of field values.
#pragma once

#include <algorithm>
#include <charconv>
#include <string>
#include <string_view>

#include "sources/nvml/reader/nvml_abi.h"

namespace gpulens::nvml {

inline std::string TextOf(double value) {
  char text[40];
  auto [end, error] = std::to_chars(text, text + sizeof text, value);
  return {text, end};
}

// "uint", "double", …: the types of the library's union of values. A value is "12" with its type beside it.
inline constexpr std::string_view kValueTypes[] = {"double", "uint", "ulong", "ull", "sll", "int", "ushort"};

inline std::string TextOf(unsigned type, const Value& value) {
  switch (type) {
    case kDouble: return TextOf(value.double_value);
    case kUint: return std::to_string(value.uint_value);
    case kUlong: return std::to_string(value.ulong_value);
    case kSllong: return std::to_string(value.sll_value);
    case kSint: return std::to_string(value.int_value);
    case kUshort: return std::to_string(value.ushort_value);
    default: return std::to_string(value.ull_value);
  }
}
// False when the text is no such value.
bool ValueOf(unsigned type, std::string_view text, Value& out) noexcept;
// kDouble … kUshort; 7 for what is none.
inline unsigned TypeOf(std::string_view name) noexcept {
  return static_cast<unsigned>(std::find(std::begin(kValueTypes), std::end(kValueTypes), name) -
                               std::begin(kValueTypes));
}

// "field 138(3)": scope 0 is omitted, all ones is "all".
std::string FieldQuestion(const FieldValue& value);

}  // namespace gpulens::nvml
