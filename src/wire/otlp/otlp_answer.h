// Responses of OTLP receivers: read, with limits, from others, and written for senders. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "core/received_otlp.h"

namespace gpulens {

// Content of an Export…ServiceResponse: items that were rejected although the request was accepted. A plain
// value.
struct OtlpPartialSuccess {
  int64_t rejected = 0;  // points or records; never below 0
  std::string message;   // printable, at most 500 bytes; with 0 rejected it is a warning
};

// Reads a response; none for invalid bytes. An empty response means that all was accepted.
std::optional<OtlpPartialSuccess> ReadOtlpAnswer(std::string_view bytes);
// Returns the message of a google.rpc.Status, as OTLP/HTTP sends it with an error; empty when it has none.
std::string ReadOtlpError(std::string_view bytes);

// Answers to senders, as protobuf or as JSON.

enum class OtlpFormat : uint8_t { kProtobuf, kJson };

// "application/x-protobuf", "application/json".
std::string_view OtlpContentType(OtlpFormat encoding) noexcept;

// Returns an Export…ServiceResponse: a partial success if items were rejected or `message` is not empty.
std::string OtlpSuccess(OtlpSignal signal, OtlpFormat encoding, uint64_t rejected, std::string_view message);

// Returns a google.rpc.Status. `code` is one of gRPC's: 3 invalid argument, 8 resource exhausted, 14
// unavailable.
std::string OtlpFailure(OtlpFormat encoding, uint32_t code, std::string_view message);

}  // namespace gpulens
