// What an OTLP receiver answers: bytes from outside, read with limits. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "core/received_otlp.h"

namespace gpulens {

// Of an Export…ServiceResponse: what was not taken although the request was. A plain value.
struct OtlpPartialSuccess {
  int64_t rejected = 0;  // points or records; never below 0
  std::string message;   // printable, at most 500 bytes; with 0 rejected it is a warning
};

// None when the bytes are no such answer. An empty answer means that all was accepted.
std::optional<OtlpPartialSuccess> ReadOtlpAnswer(std::string_view bytes);
// The message of a google.rpc.Status, as OTLP/HTTP sends it with an error; empty when there is none.
std::string ReadOtlpError(std::string_view bytes);

// Answers to senders, as protobuf or as JSON.

enum class OtlpFormat : uint8_t { kProtobuf, kJson };

// "application/x-protobuf", "application/json".
std::string_view OtlpContentType(OtlpFormat encoding) noexcept;

// An Export…ServiceResponse. With `rejected` items, or something to say, it is a partial success.
std::string OtlpSuccess(OtlpSignal signal, OtlpFormat encoding, uint64_t rejected, std::string_view message);

// A google.rpc.Status. `code` is one of gRPC's: 3 invalid argument, 8 resource exhausted, 14 unavailable.
std::string OtlpFailure(OtlpFormat encoding, uint32_t code, std::string_view message);

}  // namespace gpulens
