// What clients of tests send and read.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "net/testing/test_client.h"

namespace gpulens::testing {

// Of a client, without the last blank line.
inline constexpr const char* kHandshake =
    "GET /any/path HTTP/1.1\r\nHost: 127.0.0.1:9092\r\nUpgrade: WebSocket\r\nConnection: keep-alive, "
    "Upgrade\r\n"
    "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";

struct Frame {
  int opcode = -1;  // -1: the connection ended
  std::string payload;
};

inline Frame ReadFrame(TestClient& client) {
  std::string head = client.ReadBytes(2);
  if (head.size() < 2) return {};
  size_t size = static_cast<uint8_t>(head[1]);
  if (size >= 126) {
    std::string more = client.ReadBytes(size == 126 ? 2 : 8);
    size = 0;
    for (char c : more) size = size << 8 | static_cast<uint8_t>(c);
  }
  return {static_cast<uint8_t>(head[0]) & 0x0f, client.ReadBytes(size)};
}

// Masked with zeros; up to 125 bytes.
inline std::string ClientFrame(int opcode, std::string payload) {
  std::string frame{static_cast<char>(0x80 | opcode), static_cast<char>(0x80 | payload.size())};
  return frame + std::string(4, '\0') + payload;
}

// 0: not a close frame.
inline int CloseCodeOf(const Frame& frame) {
  if (frame.opcode != 8 || frame.payload.size() < 2) return 0;
  return static_cast<uint8_t>(frame.payload[0]) << 8 | static_cast<uint8_t>(frame.payload[1]);
}

}  // namespace gpulens::testing
