// Converts OTLP between its two encodings, protobuf and JSON as OTLP has it
// (field names in lowerCamelCase, 64-bit integers as text, enumerations as numbers, ids as hexadecimal).
//
//   Status status = OtlpToJson(OtlpMessage::kMetrics, request, json);       // {"resourceMetrics":[…]}
//   status = OtlpFromJson(OtlpMessage::kLogs, body, 16 << 20, request);
//
// Both directions take bytes from outside. Pure functions; safe from any thread. Neither allocates anything
// but `out`, save for text with escapes and for fields that are there twice.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include <gpulens/status.h>

#include "wire/otlp/otlp_schema.h"

namespace gpulens {

// Messages inside one another, in either direction; those of OTLP without nested attributes have up to 10.
inline constexpr size_t kOtlpMostDepth = 64;

// One line without its end in `out` (cleared first). What is there is written, also when it is the default;
// unknown fields are not, and text that is not UTF-8 gets U+FFFD. The JSON is longer than the protobuf by
// a factor that is bounded (below 16), so who limits one limits the other.
// kDataLoss: no such message. kExhausted: nested deeper than kOtlpMostDepth, or larger by fields in pieces
// than anybody sends. Then `out` is empty.
Status OtlpToJson(OtlpMessage message, std::string_view protobuf, std::string& out);

// Protobuf in `out` (cleared first), the shortest encoding there is: fields in the order in which the JSON
// has them, defaults only where presence means something. Unknown fields are skipped, as OTLP requires.
// Liberal as protobuf's own readers are: numbers also as text, enumerations also by name, field names also as
// in the .proto files, base64 of both alphabets with or without padding, null for what is not there.
// kDataLoss: no JSON, or not of this form, with what is wrong at which byte. kExhausted: deeper than
// kOtlpMostDepth, or the result has more than `most_bytes`. Then `out` is empty.
Status OtlpFromJson(OtlpMessage message, std::string_view json, size_t most_bytes, std::string& out);

namespace otlp {

// Views into the message; `value` is an AnyValue.
struct KeyValueView {
  std::string_view key, value;
};
// Reads a KeyValue. If a field is repeated, the last one counts. False: the bytes are not a KeyValue.
bool ReadKeyValue(std::string_view message, KeyValueView& out) noexcept;

enum class ValueStyle : uint8_t {
  kLabel,  // numbers as in OTLP's JSON, bytes as base64; unset elements of a list are null
  kPage,   // numbers as on a Prometheus page; bytes and unset values have no text
};
// Sets `out` to the string of an AnyValue, as a view into it, or to the text of another value, which is
// written to `room`: true, 5, 1.5, NaN; arrays and key-value lists as JSON: ["a",1], {"k":true}. False if the
// value has no text: it is not set, nests deeper than kDeepest, or is malformed.
bool ValueText(std::string_view any_value, ValueStyle style, std::string& room, std::string_view& out);

}  // namespace otlp

}  // namespace gpulens
