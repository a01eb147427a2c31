// What an OTLP receiver answers: bytes from outside, read with limits. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace gpulens {

// Of an Export…ServiceResponse: what was not taken although the request was. A plain value.
struct OtlpPartialSuccess {
  int64_t rejected = 0;  // points or records; never below 0
  std::string message;   // printable, at most 500 bytes; with 0 rejected it is a warning
};

// Nothing when the bytes are no such answer. An empty answer says that all was taken.
std::optional<OtlpPartialSuccess> ReadOtlpAnswer(std::string_view bytes);
// The message of a google.rpc.Status, as OTLP/HTTP sends it with an error; empty when there is none.
std::string ReadOtlpError(std::string_view bytes);

}  // namespace gpulens
