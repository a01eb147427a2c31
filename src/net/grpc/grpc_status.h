// What a gRPC call comes back with: codes, and how they, their messages and their details stand on the wire.
// Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/clock.h"

namespace gpulens {

// The numbers are gRPC's.
enum class GrpcCode : uint8_t {
  kOk,
  kCancelled,
  kUnknown,
  kInvalidArgument,
  kDeadlineExceeded,
  kNotFound,
  kAlreadyExists,
  kPermissionDenied,
  kResourceExhausted,
  kFailedPrecondition,
  kAborted,
  kOutOfRange,
  kUnimplemented,
  kInternal,
  kUnavailable,
  kDataLoss,
  kUnauthenticated,
};
inline constexpr size_t kGrpcCodes = 17;

// "RESOURCE_EXHAUSTED". Static storage.
std::string_view GrpcCodeName(GrpcCode code) noexcept;
// A grpc-status field; kUnknown for numbers without a meaning, nothing for what is no number.
std::optional<GrpcCode> ReadGrpcCode(std::string_view text) noexcept;
// What an answer without grpc-status means, by its HTTP status.
GrpcCode GrpcCodeOfHttp(int http_status) noexcept;

// grpc-message: bytes outside of printable ASCII, and '%', as %XX. At most 1000 bytes of `message` are told.
std::string EncodeGrpcMessage(std::string_view message);
// The other way; what is no escape stays as it is. At most 1000 bytes; not yet safe to print.
std::string DecodeGrpcMessage(std::string_view field);

// grpc-timeout: at most 8 digits and a unit, rounded up. A time that is over is "1n".
std::string GrpcTimeout(Duration timeout);
// Nothing for what is no grpc-timeout; more than a year is a year.
std::optional<Duration> ReadGrpcTimeout(std::string_view field) noexcept;

// Fields that end in "-bin" carry base64, with or without its padding. Nothing when it is none.
std::string EncodeGrpcBinary(std::string_view bytes);
std::optional<std::string> DecodeGrpcBinary(std::string_view field);

// A google.rpc.Status of `code` and `message`, with a google.rpc.RetryInfo when there is a `retry_after`: the
// bytes of grpc-status-details-bin, before its base64.
std::string MakeGrpcDetails(GrpcCode code, std::string_view message, std::optional<Duration> retry_after);
// The delay of the first RetryInfo in such bytes, never negative, at most a day; 0 when its delay is missing.
// Nothing when there is none or the bytes are no such message.
std::optional<Duration> ReadGrpcRetryInfo(std::string_view details);

}  // namespace gpulens
