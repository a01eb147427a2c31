// Converts values of OTLP attributes to text, for rules that compare values as text. Pure; safe from any
// thread.
#pragma once

#include <string>
#include <string_view>

namespace gpulens::split {

// Views into the message.
struct KeyValueView {
  std::string_view key, value;  // `value` is an AnyValue
};

// Reads a KeyValue. If a field is repeated, the last one counts. False: the bytes are not a KeyValue.
bool ReadKeyValue(std::string_view message, KeyValueView& out) noexcept;

// Sets `out` to the string of an AnyValue, as a view into it, or to the text of another value, which is
// written to `room`: true, 5, 1.5, NaN, +Inf; arrays and key-value lists as JSON: ["a",1], {"k":true}. False
// if the value has no text: bytes, an unset value, lists nested deeper than 32, malformed protobuf.
bool AttributeText(std::string_view any_value, std::string& room, std::string_view& out);

}  // namespace gpulens::split
