// What stands in front of the body of each record of a request log:
//
//   0xFF kind:8 flags:8 source:8 key:32 body
//
// Version 0.1.0 wrote one byte, the kind, which is below 0x80; such records are read. Pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace gpulens {

struct Envelope {
  uint8_t kind = 0;    // how the body is encoded: a number of the sink that reads it
  uint8_t source = 0;  // who made it: 0 is the program itself
  bool alone = false;  // all records before it must be done before it is sent
  uint32_t key = 0;    // requests of one key stay in order
};

// Replaces what is in `out`, whose memory is used again.
inline void WriteEnvelope(const Envelope& envelope, std::string_view body, std::string& out) {
  out.clear();
  out.push_back('\xff');
  out.push_back(static_cast<char>(envelope.kind));
  out.push_back(static_cast<char>(envelope.alone));
  out.push_back(static_cast<char>(envelope.source));
  for (int shift = 0; shift < 32; shift += 8) out.push_back(static_cast<char>(envelope.key >> shift));
  out.append(body);
}

// Cuts it off `record`. Nothing when there is none.
inline std::optional<Envelope> TakeEnvelope(std::string_view& record) noexcept {
  if (record.empty()) return std::nullopt;
  Envelope envelope;
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(record[i]); };
  if (byte(0) < 0x80) {
    envelope.kind = byte(0);
    record.remove_prefix(1);
    return envelope;
  }
  if (byte(0) != 0xff || record.size() < 8) return std::nullopt;
  envelope.kind = byte(1);
  envelope.alone = (byte(2) & 1) != 0;
  envelope.source = byte(3);
  for (size_t i = 0; i < 4; ++i) envelope.key |= static_cast<uint32_t>(byte(4 + i)) << (8 * i);
  record.remove_prefix(8);
  return envelope;
}

}  // namespace gpulens
