// The text of an OTLP attribute's value, for rules that compare values as text. Pure; safe from any thread.
#pragma once

#include <string>
#include <string_view>

namespace gpulens::split {

// Views into the message.
struct KeyValueView {
  std::string_view key, value;  // `value` is an AnyValue
};

// False: the bytes are no KeyValue. Of a field that occurs twice the last counts.
bool ReadKeyValue(std::string_view message, KeyValueView& out) noexcept;

// Sets `out` to the text itself, or to what is written to `room`: true, 5, 1.5, NaN, +Inf, and for lists
// JSON: ["a",1], {"k":true}. False for a value without a text: bytes, no value, lists nested deeper than
// 32, bytes that are no AnyValue.
bool AttributeText(std::string_view any_value, std::string& room, std::string_view& out);

}  // namespace gpulens::split
