#include "net/grpc/grpc_wire.h"

#include <libdeflate.h>

#include <algorithm>
#include <array>
#include <memory>
#include <protozero/pbf_reader.hpp>
#include <protozero/pbf_writer.hpp>

#include "base/parse.h"
#include "base/text.h"

namespace gpulens {
namespace {

using std::chrono::seconds;

constexpr std::array<std::string_view, kGrpcCodes> kNames = {
    "OK",        "CANCELLED",      "UNKNOWN",           "INVALID_ARGUMENT",   "DEADLINE_EXCEEDED",
    "NOT_FOUND", "ALREADY_EXISTS", "PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION",
    "ABORTED",   "OUT_OF_RANGE",   "UNIMPLEMENTED",     "INTERNAL",           "UNAVAILABLE",
    "DATA_LOSS", "UNAUTHENTICATED"};
constexpr size_t kMessageBytes = 1000;
constexpr std::string_view kRetryInfo = "type.googleapis.com/google.rpc.RetryInfo";
// Field numbers of google.rpc.Status, google.protobuf.Any, google.rpc.RetryInfo and google.protobuf.Duration.
constexpr uint32_t kCode = 1, kMessage = 2, kDetails = 3, kTypeUrl = 1, kValue = 2, kRetryDelay = 1,
                   kSeconds = 1, kNanos = 2;
constexpr int64_t kLongestRetry = 86400, kSecondNs = 1'000'000'000;
constexpr Duration kLongestTimeout = std::chrono::hours(24 * 365);

bool IsMessage(const protozero::pbf_reader& reader) {
  return reader.wire_type() == protozero::pbf_wire_type::length_delimited;
}

// A google.protobuf.Duration.
Duration ReadDelay(protozero::pbf_reader reader) {
  int64_t whole = 0, nanos = 0;
  while (reader.next()) {
    const bool number = reader.wire_type() == protozero::pbf_wire_type::varint;
    if (number && reader.tag() == kSeconds) whole = reader.get_int64();
    else if (number && reader.tag() == kNanos) nanos = reader.get_int32();
    else reader.skip();
  }
  whole = std::clamp<int64_t>(whole, 0, kLongestRetry);
  nanos = std::clamp<int64_t>(nanos, 0, kSecondNs - 1);
  return Duration(std::min(whole * kSecondNs + nanos, kLongestRetry * kSecondNs));
}

// Fields of one google.protobuf.Any.
std::optional<Duration> ReadDetail(protozero::pbf_reader reader) {
  std::string_view type, value;
  while (reader.next()) {
    if (IsMessage(reader) && (reader.tag() == kTypeUrl || reader.tag() == kValue)) {
      // Taking the value forgets the tag where protozero checks itself.
      std::string_view& into = reader.tag() == kTypeUrl ? type : value;
      const protozero::data_view bytes = reader.get_view();
      into = std::string_view(bytes.data(), bytes.size());
    } else {
      reader.skip();
    }
  }
  if (type != kRetryInfo) return std::nullopt;
  Duration delay{};
  protozero::pbf_reader info(value.data(), value.size());
  while (info.next()) {
    if (IsMessage(info) && info.tag() == kRetryDelay) delay = ReadDelay(info.get_message());
    else info.skip();
  }
  return delay;
}

// Bytes of an empty gzip member; its last four are the size of its content.
constexpr size_t kSmallestMember = 18, kSizeBytes = 4;
// Maximum compression ratio of DEFLATE: a member that announces more is wrong.
constexpr size_t kLargestRatio = 1032;
// Reserved at once for a message; a larger one grows as it arrives.
constexpr size_t kMostAhead = size_t{1} << 20;

uint32_t LittleEndian(const char* bytes) noexcept {
  uint32_t value = 0;
  for (int i = 3; i >= 0; --i) value = value << 8 | static_cast<unsigned char>(bytes[i]);
  return value;
}

}  // namespace

std::string_view GrpcCodeName(GrpcCode code) noexcept {
  const auto number = static_cast<size_t>(code);
  return number < kNames.size() ? kNames[number] : kNames[static_cast<size_t>(GrpcCode::kUnknown)];
}

std::optional<GrpcCode> ReadGrpcCode(std::string_view text) noexcept {
  const auto number = ParseInt<uint32_t>(text);
  if (!number) return std::nullopt;
  return *number < kGrpcCodes ? static_cast<GrpcCode>(*number) : GrpcCode::kUnknown;
}

GrpcCode GrpcCodeOfHttp(int http_status) noexcept {
  switch (http_status) {
    case 400: return GrpcCode::kInternal;
    case 401: return GrpcCode::kUnauthenticated;
    case 403: return GrpcCode::kPermissionDenied;
    case 404: return GrpcCode::kUnimplemented;
    case 429:
    case 502:
    case 503:
    case 504: return GrpcCode::kUnavailable;
    default: return GrpcCode::kUnknown;
  }
}

std::string EncodeGrpcMessage(std::string_view message) {
  // Printable, and not the percent sign: the rest of ASCII between blank and tilde is unreserved.
  constexpr std::string_view kPlain = " !\"#$&'()*+,/:;<=>?@[\\]^`{|}";
  return PercentEncoded(message.substr(0, kMessageBytes), kPlain);
}

std::string DecodeGrpcMessage(std::string_view field) {
  std::string message = PercentDecoded(field.substr(0, 3 * kMessageBytes));
  if (message.size() > kMessageBytes) message.resize(kMessageBytes);
  return message;
}

std::string GrpcTimeout(Duration timeout) {
  constexpr int64_t kMost = 99'999'999;
  struct Unit {
    int64_t ns;
    char letter;
  };
  int64_t left = std::max<int64_t>(1, timeout.count());
  for (Unit unit : {Unit{1, 'n'}, {1000, 'u'}, {1'000'000, 'm'}, {kSecondNs, 'S'}, {60 * kSecondNs, 'M'}}) {
    const int64_t count = left / unit.ns + (left % unit.ns != 0);
    if (count <= kMost) return std::to_string(count) + unit.letter;
  }
  return std::to_string(kMost) + 'M';
}

std::optional<Duration> ReadGrpcTimeout(std::string_view field) noexcept {
  if (field.size() < 2 || field.size() > 9) return std::nullopt;
  const auto count = ParseInt<uint32_t>(field.substr(0, field.size() - 1));
  if (!count) return std::nullopt;
  int64_t unit = 0;
  switch (field.back()) {
    case 'H': unit = 3600 * kSecondNs; break;
    case 'M': unit = 60 * kSecondNs; break;
    case 'S': unit = kSecondNs; break;
    case 'm': unit = 1'000'000; break;
    case 'u': unit = 1000; break;
    case 'n': unit = 1; break;
    default: return std::nullopt;
  }
  if (*count > kLongestTimeout.count() / unit) return kLongestTimeout;
  return Duration(int64_t{*count} * unit);
}

std::string EncodeGrpcBinary(std::string_view bytes) {
  std::string field;
  AppendBase64(field, bytes);
  field.erase(field.find_last_not_of('=') + 1);
  return field;
}

std::optional<std::string> DecodeGrpcBinary(std::string_view field) {
  std::string bytes;
  return FromBase64(field, bytes) ? std::optional(std::move(bytes)) : std::nullopt;
}

std::string MakeGrpcDetails(GrpcCode code, std::string_view message, std::optional<Duration> retry_after) {
  std::string bytes;
  protozero::pbf_writer status(bytes);
  status.add_int32(kCode, static_cast<int32_t>(code));
  status.add_string(kMessage, message.data(), message.size());
  if (!retry_after) return bytes;
  std::string info;
  {
    protozero::pbf_writer retry(info);
    protozero::pbf_writer delay(retry, kRetryDelay);
    const int64_t ns = std::max<int64_t>(0, retry_after->count());
    delay.add_int64(kSeconds, ns / kSecondNs);
    if (ns % kSecondNs != 0) delay.add_int32(kNanos, static_cast<int32_t>(ns % kSecondNs));
  }
  {
    // Its length is written when it ends.
    protozero::pbf_writer any(status, kDetails);
    any.add_string(kTypeUrl, kRetryInfo.data(), kRetryInfo.size());
    any.add_bytes(kValue, info);
  }
  return bytes;
}

std::optional<Duration> ReadGrpcRetryInfo(std::string_view details) {
  try {
    protozero::pbf_reader reader(details.data(), details.size());
    while (reader.next()) {
      if (!IsMessage(reader) || reader.tag() != kDetails) {
        reader.skip();
      } else if (auto delay = ReadDetail(reader.get_message())) {
        return delay;
      }
    }
  } catch (const protozero::exception&) {
    return std::nullopt;
  }
  return std::nullopt;
}

bool GrpcMessageReader::TakeHead() {
  if (static_cast<unsigned char>(head_[0]) > 1) {
    why_ = "a message with an unknown flag";
    state_ = State::kBad;
    return false;
  }
  packed_ = head_[0] == 1;
  for (size_t i = 1; i < kHeadBytes; ++i) announced_ = announced_ << 8 | static_cast<unsigned char>(head_[i]);
  if (announced_ <= limit_) return true;
  why_ = "a message above the limit";
  state_ = State::kTooLarge;
  return false;
}

GrpcMessageReader::State GrpcMessageReader::Feed(std::string_view bytes) {
  if (bytes.empty() || state_ == State::kTooLarge || state_ == State::kBad) return state_;
  if (state_ == State::kWhole) {
    why_ = "more than one message";
    return state_ = State::kBad;
  }
  if (head_size_ < kHeadBytes) {
    const size_t part = std::min(bytes.size(), kHeadBytes - head_size_);
    bytes.copy(head_ + head_size_, part);
    head_size_ += part;
    bytes.remove_prefix(part);
    if (head_size_ < kHeadBytes || !TakeHead()) return state_;
    message_.reserve(std::min(announced_, kMostAhead));
  }
  const size_t part = std::min(bytes.size(), announced_ - message_.size());
  message_.append(bytes.substr(0, part));
  bytes.remove_prefix(part);
  if (message_.size() < announced_) return state_;
  state_ = State::kWhole;
  return Feed(bytes);
}

std::string GrpcMessageHead(bool packed, size_t size) {
  std::string head(GrpcMessageReader::kHeadBytes, packed ? '\1' : '\0');
  for (size_t i = 1; i < head.size(); ++i) head[i] = static_cast<char>(size >> (8 * (4 - i)) & 0xff);
  return head;
}

size_t GrpcUnpackedSize(std::string_view packed) noexcept {
  return packed.size() < kSmallestMember ? 0 : LittleEndian(packed.data() + packed.size() - kSizeBytes);
}

bool GrpcGunzip(std::string_view packed, size_t size, std::string& out) {
  out.clear();
  if (packed.size() < kSmallestMember || size / kLargestRatio > packed.size()) return false;
  thread_local const std::unique_ptr<libdeflate_decompressor, decltype(&libdeflate_free_decompressor)>
      unpacker(libdeflate_alloc_decompressor(), &libdeflate_free_decompressor);
  if (!unpacker) return false;
  out.resize(size);
  size_t in_used = 0, out_used = 0;
  const auto result = libdeflate_gzip_decompress_ex(unpacker.get(), packed.data(), packed.size(), out.data(),
                                                    out.size(), &in_used, &out_used);
  if (result == LIBDEFLATE_SUCCESS && in_used == packed.size() && out_used == size) return true;
  out.clear();
  return false;
}

}  // namespace gpulens
