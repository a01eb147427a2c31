// HTTP/2 frames written and read by hand, right or wrong, for tests.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace gpulens::testing {

inline constexpr std::string_view kPreface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
enum FrameType : uint8_t {
  kData,
  kHeaders,
  kPriority,
  kReset,
  kSettings,
  kPush,
  kPing,
  kGoaway,
  kWindow,
  kContinuation
};
constexpr uint8_t kEndStream = 1, kAck = 1, kEndHeaders = 4;

inline std::string Number(uint32_t value, int bytes = 4) {
  std::string text;
  for (int i = bytes - 1; i >= 0; --i) text += static_cast<char>(value >> (8 * i) & 0xff);
  return text;
}

inline std::string Frame(FrameType type, uint8_t flags, uint32_t stream, std::string_view payload = {}) {
  std::string frame = Number(static_cast<uint32_t>(payload.size()), 3);
  frame += static_cast<char>(type);
  frame += static_cast<char>(flags);
  frame += Number(stream);
  return frame.append(payload);
}

// A number with a prefix of so many bits, as HPACK has it; the bits before it are 0.
inline std::string HpackNumber(size_t value, int bits) {
  const size_t most = (size_t{1} << bits) - 1;
  if (value < most) return std::string(1, static_cast<char>(value));
  std::string text(1, static_cast<char>(most));
  for (value -= most; value >= 128; value /= 128) text += static_cast<char>(value % 128 + 128);
  return text + static_cast<char>(value);
}

// Literal fields that are not put into the table.
inline std::string Hpack(const std::vector<std::pair<std::string, std::string>>& fields) {
  std::string block;
  for (const auto& [name, value] : fields) {
    block += '\0';
    block += HpackNumber(name.size(), 7) + name + HpackNumber(value.size(), 7) + value;
  }
  return block;
}

// The fields of a call.
inline std::string CallFields(const std::string& path,
                              std::vector<std::pair<std::string, std::string>> more = {}) {
  std::vector<std::pair<std::string, std::string>> fields = {
      {":method", "POST"},         {":scheme", "http"}, {":path", path},
      {":authority", "localhost"}, {"te", "trailers"},  {"content-type", "application/grpc"}};
  fields.insert(fields.end(), more.begin(), more.end());
  return Hpack(fields);
}

struct SeenFrame {
  uint8_t type = 0, flags = 0;
  uint32_t stream = 0;
  std::string payload;
};

// The whole frames at the front of `bytes`, which are taken off.
inline std::vector<SeenFrame> TakeFrames(std::string& bytes) {
  auto number = [&](size_t at, int count) {
    uint32_t value = 0;
    for (int i = 0; i < count; ++i)
      value = value << 8 | static_cast<unsigned char>(bytes[at + static_cast<size_t>(i)]);
    return value;
  };
  std::vector<SeenFrame> frames;
  while (bytes.size() >= 9 && bytes.size() >= 9 + number(0, 3)) {
    const size_t size = number(0, 3);
    frames.push_back({static_cast<uint8_t>(bytes[3]), static_cast<uint8_t>(bytes[4]), number(5, 4),
                      bytes.substr(9, size)});
    bytes.erase(0, 9 + size);
  }
  return frames;
}

// The error code of the last GOAWAY among them; -1: there is none.
inline int64_t GoawayError(const std::vector<SeenFrame>& frames) {
  int64_t error = -1;
  for (const SeenFrame& frame : frames) {
    if (frame.type != kGoaway || frame.payload.size() < 8) continue;
    error = 0;
    for (size_t i = 4; i < 8; ++i) error = error << 8 | static_cast<unsigned char>(frame.payload[i]);
  }
  return error;
}

}  // namespace gpulens::testing
