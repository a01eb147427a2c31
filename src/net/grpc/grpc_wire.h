// gRPC on the wire: status codes with their messages and details, timeouts, and length-prefixed messages. No
// I/O.
#pragma once

#include <cstddef>
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
// Parses a grpc-status field; kUnknown for unassigned numbers, nothing for other text.
std::optional<GrpcCode> ReadGrpcCode(std::string_view text) noexcept;
// The code of a response without grpc-status, by its HTTP status.
GrpcCode GrpcCodeOfHttp(int http_status) noexcept;

// A grpc-message field: bytes outside of printable ASCII, and '%', as %XX; at most 1000 bytes of `message`.
std::string EncodeGrpcMessage(std::string_view message);
// Decodes it; keeps broken escapes. At most 1000 bytes; not yet safe to print.
std::string DecodeGrpcMessage(std::string_view field);

// A grpc-timeout field: at most 8 digits and a unit, rounded up; at least "1n".
std::string GrpcTimeout(Duration timeout);
// Parses it, at most a year; nothing for other text.
std::optional<Duration> ReadGrpcTimeout(std::string_view field) noexcept;

// The base64 of fields whose names end in "-bin"; padding is optional.
std::string EncodeGrpcBinary(std::string_view bytes);
std::optional<std::string> DecodeGrpcBinary(std::string_view field);

// The content of grpc-status-details-bin: a google.rpc.Status, with a google.rpc.RetryInfo if `retry_after`
// is set.
std::string MakeGrpcDetails(GrpcCode code, std::string_view message, std::optional<Duration> retry_after);
// The delay of its first RetryInfo, from 0 to a day; nothing without one or for other bytes.
std::optional<Duration> ReadGrpcRetryInfo(std::string_view details);

// Reads the one message of a unary call, within a limit: five bytes of flag and length, then the message.
class GrpcMessageReader {
 public:
  enum class State : uint8_t {
    kMore,
    kWhole,
    kTooLarge,  // by its head; nothing was kept
    kBad,       // a wrong head, or more than one message; see why
  };
  static constexpr size_t kHeadBytes = 5;

  explicit GrpcMessageReader(size_t limit) noexcept : limit_(limit) {}

  State Feed(std::string_view bytes);
  State state() const noexcept { return state_; }
  // Nothing was received.
  bool empty() const noexcept { return head_size_ == 0; }
  // The length in the head; 0 before that.
  size_t announced() const noexcept { return announced_; }
  bool packed() const noexcept { return packed_; }
  // The received part.
  std::string& message() noexcept { return message_; }
  // Human-readable; static storage.
  std::string_view why() const noexcept { return why_; }

 private:
  bool TakeHead();

  const size_t limit_;
  State state_ = State::kMore;
  char head_[kHeadBytes] = {};
  size_t head_size_ = 0, announced_ = 0;
  bool packed_ = false;
  std::string message_;
  std::string_view why_;
};

// The five bytes before a message, whose length must fit into 32 bits.
std::string GrpcMessageHead(bool packed, size_t size);

// The content size that a gzip member announces; 0 also for other bytes.
size_t GrpcUnpackedSize(std::string_view packed) noexcept;
// Decompresses one gzip member of exactly `size` content bytes into `out`. False on failure.
bool GrpcGunzip(std::string_view packed, size_t size, std::string& out);

}  // namespace gpulens
