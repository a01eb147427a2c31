// WebSocket frames (RFC 6455 §5) from a client, and the heads of ours. No I/O. Not Beast's: an idle client
// costs 250 bytes instead of several KB, and all clients share one encoded frame.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace gpulens {

// Close codes of RFC 6455 §7.4.1 that we send.
struct CloseCode {
  static constexpr uint16_t kNormal = 1000, kGoingAway = 1001, kProtocolError = 1002, kBadData = 1007,
                            kPolicy = 1008, kTooBig = 1009;
};

enum class Opcode : uint8_t { kContinuation = 0, kText = 1, kBinary = 2, kClose = 8, kPing = 9, kPong = 10 };

// Checks the messages of a client (masking, fragments, UTF-8, size) and drops them. Not thread-safe; does not
// allocate.
class FrameReader {
 public:
  explicit FrameReader(size_t max_message) : max_message_(max_message) {}

  struct Event {
    enum class Kind : uint8_t {
      kNone,     // all bytes are consumed
      kMessage,  // a complete message
      kPing,     // answer with `payload`
      kPong,
      kClose,  // the client closes with `code` (kNormal by default)
      kError,  // close with `code`; read no further
    };
    Kind kind = Kind::kNone;
    uint16_t code = 0;
    std::string_view payload;  // valid until the next call
  };
  // Consumes `bytes` up to the end of one event.
  Event Next(std::string_view& bytes);

 private:
  Event Error(uint16_t code);
  Event FinishHead();
  Event TakePayload(std::string_view& bytes);
  Event FinishFrame();
  Event FinishClose() const;
  bool CheckUtf8(uint8_t byte) noexcept;

  const size_t max_message_;
  std::array<uint8_t, 14> head_{};
  uint8_t head_size_ = 0, head_needs_ = 2;
  bool in_payload_ = false;
  bool failed_ = false;
  bool fin_ = false;
  Opcode opcode_ = Opcode::kContinuation;
  uint64_t left_ = 0;
  uint64_t at_ = 0;
  std::array<uint8_t, 4> mask_{};
  std::array<char, 125> control_{};
  // The message in parts.
  bool in_message_ = false, is_text_ = false;
  uint64_t message_size_ = 0;
  uint8_t utf8_left_ = 0, utf8_low_ = 0x80, utf8_high_ = 0xbf;
};

// Appends the head of an unmasked, final frame.
void AppendFrameHead(std::string& out, Opcode opcode, size_t payload_size);
// A close frame; `reason` is cut to the 123 bytes that fit.
std::string CloseFrame(uint16_t code, std::string_view reason);
// Sec-WebSocket-Accept for a Sec-WebSocket-Key.
std::string AcceptKey(std::string_view key);

}  // namespace gpulens
