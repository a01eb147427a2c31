#include "net/websocket/websocket_frame.h"

#include <algorithm>
#include <boost/beast/core/detail/sha1.hpp>

#include "base/text.h"

namespace gpulens {

using Kind = FrameReader::Event::Kind;

FrameReader::Event FrameReader::Error(uint16_t code) {
  failed_ = true;
  return {Kind::kError, code, {}};
}

FrameReader::Event FrameReader::Next(std::string_view& bytes) {
  if (failed_) {
    bytes = {};
    return {};
  }
  while (!bytes.empty()) {
    if (in_payload_) {
      Event event = TakePayload(bytes);
      if (event.kind != Kind::kNone) return event;
      continue;
    }
    head_[head_size_++] = static_cast<uint8_t>(bytes.front());
    bytes.remove_prefix(1);
    if (head_size_ == 2) {
      uint8_t size = head_[1] & 0x7f;
      // An unmasked frame is refused at once: its rest cannot be trusted.
      if ((head_[1] & 0x80) == 0 || (head_[0] & 0x70) != 0) return Error(CloseCode::kProtocolError);
      head_needs_ = static_cast<uint8_t>(6 + (size == 126 ? 2 : size == 127 ? 8 : 0));
    }
    if (head_size_ < head_needs_) continue;
    Event event = FinishHead();
    if (event.kind != Kind::kNone) return event;
  }
  return {};
}

FrameReader::Event FrameReader::FinishHead() {
  fin_ = (head_[0] & 0x80) != 0;
  opcode_ = static_cast<Opcode>(head_[0] & 0x0f);
  uint64_t size = head_[1] & 0x7f;
  size_t extra = head_needs_ - 6u;
  if (extra > 0) {
    size = 0;
    for (size_t i = 0; i < extra; ++i) size = size << 8 | head_[2 + i];
    // The form must be the shortest, and the top bit is never set.
    if (size >> 63 || size < (extra == 2 ? 126u : 65536u)) return Error(CloseCode::kProtocolError);
  }
  std::copy_n(head_.begin() + static_cast<ptrdiff_t>(2 + extra), 4, mask_.begin());
  head_size_ = 0;
  head_needs_ = 2;
  bool control = opcode_ >= Opcode::kClose;
  if (control) {
    if (opcode_ > Opcode::kPong || !fin_ || size > control_.size()) return Error(CloseCode::kProtocolError);
  } else {
    if (opcode_ > Opcode::kBinary || (opcode_ == Opcode::kContinuation) != in_message_) {
      return Error(CloseCode::kProtocolError);
    }
    if (!in_message_) {
      in_message_ = true;
      is_text_ = opcode_ == Opcode::kText;
      message_size_ = 0;
    }
    if (size > max_message_ - message_size_) return Error(CloseCode::kTooBig);
    message_size_ += size;
  }
  left_ = size;
  at_ = 0;
  in_payload_ = true;
  return size == 0 ? FinishFrame() : Event{};
}

FrameReader::Event FrameReader::TakePayload(std::string_view& bytes) {
  size_t count = static_cast<size_t>(std::min<uint64_t>(left_, bytes.size()));
  bool control = opcode_ >= Opcode::kClose;
  for (size_t i = 0; i < count; ++i, ++at_) {
    uint8_t byte = static_cast<uint8_t>(static_cast<uint8_t>(bytes[i]) ^ mask_[at_ % 4]);
    if (control) {
      control_[at_] = static_cast<char>(byte);
    } else if (is_text_ && !CheckUtf8(byte)) {
      return Error(CloseCode::kBadData);
    }
  }
  bytes.remove_prefix(count);
  left_ -= count;
  return left_ == 0 ? FinishFrame() : Event{};
}

FrameReader::Event FrameReader::FinishFrame() {
  in_payload_ = false;
  std::string_view payload(control_.data(), static_cast<size_t>(at_));
  switch (opcode_) {
    case Opcode::kPing: return {Kind::kPing, 0, payload};
    case Opcode::kPong: return {Kind::kPong, 0, payload};
    case Opcode::kClose: {
      failed_ = true;  // nothing follows a close
      return FinishClose();
    }
    default: break;
  }
  if (!fin_) return {};
  in_message_ = false;
  if (is_text_ && utf8_left_ != 0) return Error(CloseCode::kBadData);
  return {Kind::kMessage, 0, {}};
}

FrameReader::Event FrameReader::FinishClose() const {
  std::string_view payload(control_.data(), static_cast<size_t>(at_));
  if (payload.empty()) return {Kind::kClose, CloseCode::kNormal, {}};
  if (payload.size() == 1) return {Kind::kError, CloseCode::kProtocolError, {}};
  auto code = static_cast<uint16_t>(static_cast<uint8_t>(payload[0]) << 8 | static_cast<uint8_t>(payload[1]));
  bool known =
      (code >= 1000 && code <= 1003) || (code >= 1007 && code <= 1014) || (code >= 3000 && code <= 4999);
  if (!known) return {Kind::kError, CloseCode::kProtocolError, {}};
  if (!IsUtf8(payload.substr(2))) return {Kind::kError, CloseCode::kBadData, {}};
  return {Kind::kClose, code, payload.substr(2)};
}

// Table 3-7 of the Unicode standard, a byte at a time: fragments may split a character.
bool FrameReader::CheckUtf8(uint8_t byte) noexcept {
  if (utf8_left_ > 0) {
    if (byte < utf8_low_ || byte > utf8_high_) return false;
    --utf8_left_;
    utf8_low_ = 0x80;
    utf8_high_ = 0xbf;
    return true;
  }
  if (byte < 0x80) return true;
  if (byte < 0xc2 || byte > 0xf4) return false;
  utf8_left_ = byte < 0xe0 ? 1 : byte < 0xf0 ? 2 : 3;
  if (byte == 0xe0) utf8_low_ = 0xa0;
  if (byte == 0xed) utf8_high_ = 0x9f;
  if (byte == 0xf0) utf8_low_ = 0x90;
  if (byte == 0xf4) utf8_high_ = 0x8f;
  return true;
}

void AppendFrameHead(std::string& out, Opcode opcode, size_t payload_size) {
  out += static_cast<char>(0x80 | static_cast<uint8_t>(opcode));
  int extra = payload_size < 126 ? 0 : payload_size < 65536 ? 2 : 8;
  out += static_cast<char>(extra == 0 ? payload_size : extra == 2 ? 126 : 127);
  for (int shift = (extra - 1) * 8; shift >= 0; shift -= 8)
    out += static_cast<char>(payload_size >> shift & 0xff);
}

std::string CloseFrame(uint16_t code, std::string_view reason) {
  reason = reason.substr(0, 123);
  std::string frame;
  AppendFrameHead(frame, Opcode::kClose, reason.size() + 2);
  frame += static_cast<char>(code >> 8);
  frame += static_cast<char>(code & 0xff);
  frame += reason;
  return frame;
}

std::string AcceptKey(std::string_view key) {
  // Beast's SHA-1: OpenSSL's would cost its start-up memory for twenty bytes without secrets.
  namespace detail = boost::beast::detail;
  constexpr std::string_view kGuid = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
  detail::sha1_context context;
  detail::init(context);
  detail::update(context, key.data(), key.size());
  detail::update(context, kGuid.data(), kGuid.size());
  char digest[20];
  detail::finish(context, digest);
  std::string accept;
  AppendBase64(accept, {digest, sizeof digest});
  return accept;
}

}  // namespace gpulens
