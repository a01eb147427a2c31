// OTLP between its two encodings: protobuf, which is what the rest of us speaks, and JSON as OTLP has it
// (field names in lowerCamelCase, 64-bit integers as text, enumerations as numbers, ids as hexadecimal).
//
//   OtlpJsonWriter writer;
//   Status status = writer.Write(OtlpMessage::kMetrics, request, json);       // {"resourceMetrics":[…]}
//   status = OtlpFromJson(OtlpMessage::kLogs, body, 16 << 20, request);
//
// Both directions take bytes from outside. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <gpulens/status.h>

#include "wire/otlp_json/otlp_schema.h"

namespace gpulens {

// Messages inside one another, in either direction; a message of OTLP itself has up to 12.
inline constexpr size_t kOtlpMostDepth = 64;

// Protobuf to JSON. Not thread-safe; keeps its memory between calls, so a steady one does not allocate.
class OtlpJsonWriter {
 public:
  // One line without its end in `out` (cleared first). What is there is written, also when it is the default;
  // unknown fields are not, and text that is not UTF-8 gets U+FFFD. The JSON is longer than the protobuf by
  // a factor that is bounded (below 32), so who limits one limits the other.
  // kDataLoss: no such message. kExhausted: nested deeper than kOtlpMostDepth. Then `out` is empty.
  Status Write(OtlpMessage message, std::string_view protobuf, std::string& out);

 private:
  class Walk;
  // One field of a message that is being written.
  struct Part {
    const OtlpField* field;
    uint64_t number;         // of a number, its bits
    std::string_view bytes;  // of anything else
  };
  std::vector<Part> parts_;
};

// JSON to protobuf in `out` (cleared first), the shortest encoding there is: fields in the order in which the
// JSON has them, the default only where presence means something. Unknown fields are skipped, as OTLP asks.
// Liberal as protobuf's own readers are: numbers also as text, enumerations also by name, field names also as
// in the .proto files, base64 of both alphabets with or without padding, null for what is not there.
//
// kDataLoss: no JSON, or not of this form, with what is wrong at which byte. kExhausted: deeper than
// kOtlpMostDepth, or the result is larger than `most_bytes`. Then `out` is empty. `out` never gets larger
// than most_bytes and the text together.
Status OtlpFromJson(OtlpMessage message, std::string_view json, size_t most_bytes, std::string& out);

}  // namespace gpulens
