#include "base/hex.h"

namespace gpulens {
namespace {

bool IsUnreserved(char c) noexcept {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' || c == '.' ||
         c == '_' || c == '~';
}

}  // namespace

void AppendPercentEncoded(std::string& out, std::string_view text, std::string_view also_plain) {
  constexpr std::string_view kHex = "0123456789ABCDEF";
  for (char c : text) {
    if (IsUnreserved(c) || also_plain.find(c) != std::string_view::npos) {
      out += c;
      continue;
    }
    const auto byte = static_cast<unsigned char>(c);
    out += {'%', kHex[byte >> 4], kHex[byte & 15]};
  }
}

std::string PercentEncoded(std::string_view text, std::string_view also_plain) {
  std::string out;
  AppendPercentEncoded(out, text, also_plain);
  return out;
}

std::string PercentDecoded(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool room = text[i] == '%' && i + 2 < text.size();
    const int high = room ? HexDigit(text[i + 1]) : -1, low = room ? HexDigit(text[i + 2]) : -1;
    if (high < 0 || low < 0) {
      out += text[i];
      continue;
    }
    out += static_cast<char>(high << 4 | low);
    i += 2;
  }
  return out;
}

}  // namespace gpulens
