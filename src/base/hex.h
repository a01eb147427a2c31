// Bytes spelled with hexadecimal digits, alone or after a percent sign. Pure functions.
#pragma once

#include <string>
#include <string_view>

namespace gpulens {

// -1: it is none.
constexpr int HexDigit(char c) noexcept {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

// Appends `text` with every byte as %XX that is neither unreserved (RFC 3986, 2.3: letters, digits, "-._~")
// nor in `also_plain`.
void AppendPercentEncoded(std::string& out, std::string_view text, std::string_view also_plain = {});
std::string PercentEncoded(std::string_view text, std::string_view also_plain = {});
// A broken escape stays as it is.
std::string PercentDecoded(std::string_view text);

}  // namespace gpulens
