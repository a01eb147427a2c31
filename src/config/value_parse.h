// Converts the texts of a configuration to typed values and back. For a wrong text, the
// error has the problem, its place and a hint. No I/O, no state, thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "plugins/config.h"

namespace gpulens {

struct ValueError {
  std::string problem;  // "expected a duration, got the text "fast""
  std::string hint;
  size_t at = 0;      // byte of the text
  size_t length = 0;  // bytes; 0: the whole text
};
// Nothing for a valid text.
using ValueCheck = std::optional<ValueError>;

// Accepts only true and false.
ValueCheck ParseBoolValue(std::string_view text, bool& out);
ValueCheck ParseIntValue(std::string_view text, int64_t& out);
// Accepts only finite numbers.
ValueCheck ParseDoubleValue(std::string_view text, double& out);
// Numbers with the units ns us ms s m h d, biggest first: 500ms, 1.5s, 1h30m. 0 needs no unit.
ValueCheck ParseTimeValue(std::string_view text, Duration& out);
// Bytes: 4096, 10kB (1000), 64MiB (1024²), up to 2^63-1.
ValueCheck ParseSizeValue(std::string_view text, int64_t& out);
// scheme://host[:port][/path]. Empty `schemes`: http and https.
ValueCheck CheckUrlValue(std::string_view text, std::span<const std::string_view> schemes = {});

// Address of a server: "127.0.0.1:9091", "[::1]:9091", "localhost:9091", ":9091" (all interfaces),
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

// A scalar option, or one element of a kTexts.
ValueCheck ConvertText(const OptionSpec& spec, std::string_view text, Config::Value& out);
// Checks one pair of a kTextMap: the name of an attribute must be valid in every output, and not reserved by
// Prometheus, which refuses a whole page for one such name.
ValueCheck CheckPair(const OptionSpec& spec, std::string_view key, std::string_view text);
// The value of an option that is not set and has no default: false, 0, "", empty.
Config::Value EmptyValue(const OptionSpec& spec);
bool IsScalar(OptionType type) noexcept;
// "a duration", "a list of texts".
std::string_view TypeName(OptionType type) noexcept;
// "at least 10ms", "1 to 65536"; empty without bounds.
std::string RangeText(const OptionSpec& spec);
std::vector<std::string_view> KeysOf(std::span<const OptionSpec> options);
// Whether it is a group, or a list of groups, with options.
bool HasKeys(const OptionSpec& spec) noexcept;
// Null for an absent key.
const Config::Entry* FindEntry(const Config& config, std::string_view key);

// The error for a text that `config print` has masked.
inline constexpr std::string_view kHiddenSecret = "expected a secret, got one that config print has hidden";
inline constexpr std::string_view kHiddenHint = "write the whole secret here";
// Whether the value of this key is never shown: passwords and tokens, not files that hold them.
bool IsSecretKey(std::string_view key);
// Whether no value of the map under this key is ever shown: any header field may hold a key.
bool IsSecretMap(std::string_view key);
// "…", or empty for an empty text.
std::string MaskSecret(std::string_view secret);
// Masks the password and the query of a URL, and its path when that is secret. Returns other texts unchanged.
std::string MaskUrl(std::string_view url, bool secret_path = false);
// Whether a text, which may be a malformed URL, may have a password or a query.
bool MayHoldSecret(std::string_view url) noexcept;

// Hint for an unknown key of the group at `path` ("sinks.prometheus") that an older version had: "now called
// names". Empty: it has no newer name.
std::string RenamedKeyHint(std::string_view path, std::string_view key);
// The same for a value that an option does not accept.
std::string RenamedValueHint(std::string_view value);

}  // namespace gpulens
