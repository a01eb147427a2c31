// Texts to typed values, as people write them in a configuration, and back. When a text is wrong the
// answer says what, where in it and how it should look. No I/O, no state, thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/clock.h"

namespace gpulens {

struct ValueError {
  std::string problem;  // "expected a duration, got the text "fast""
  std::string hint;
  size_t at = 0;      // byte of the text
  size_t length = 0;  // bytes; 0: the whole text
};
// Nothing: the text was good.
using ValueCheck = std::optional<ValueError>;

// Only true and false.
ValueCheck ParseBoolValue(std::string_view text, bool& out);
ValueCheck ParseIntValue(std::string_view text, int64_t& out);
// Finite.
ValueCheck ParseDoubleValue(std::string_view text, double& out);
// Numbers with the units ns us ms s m h d, biggest first: 500ms, 1.5s, 1h30m. 0 needs no unit.
ValueCheck ParseTimeValue(std::string_view text, Duration& out);
// Bytes: 4096, 10kB (1000), 64MiB (1024²), up to 2^63-1.
ValueCheck ParseSizeValue(std::string_view text, int64_t& out);
// scheme://host[:port][/path]. Empty `schemes`: http and https.
ValueCheck CheckUrlValue(std::string_view text, std::span<const std::string_view> schemes = {});

// Where a server listens: "127.0.0.1:9091", "[::1]:9091", "localhost:9091", ":9091" (all interfaces),
// "unix:/path".
struct ListenAddress {
  std::string host;  // without brackets; empty: all interfaces; "unix" for a path
  uint16_t port = 0;
  bool loopback = false;  // only this machine can reach it
};
ValueCheck ParseListenValue(std::string_view text, ListenAddress& out);

// The shortest text that reads back as the same value.
std::string FormatTimeValue(Duration value);
std::string FormatSizeValue(int64_t bytes);
std::string FormatDoubleValue(double value);

}  // namespace gpulens
