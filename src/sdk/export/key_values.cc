#include "sdk/export/key_values.h"

#include <algorithm>

#include "base/parse.h"
#include "base/result.h"
#include "base/text.h"

namespace gpulens::sdk {
namespace {

constexpr size_t kMost = 128;

Status Wrong(std::string_view element, std::string_view why) {
  std::string detail = "\"";
  AppendPrintable(detail, element.substr(0, 80));
  detail += "\" ";
  detail += why;
  return {Code::kInvalidArgument, std::move(detail)};
}

Result<std::string> Decode(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    char byte = text[i];
    if (byte == '%') {
      const auto code = ParseInt<uint8_t>(text.substr(i + 1, 2), 16);
      if (text.size() < i + 3 || !code) return Wrong(text, "has a % without two digits after it");
      byte = static_cast<char>(*code);
      i += 2;
    }
    const auto code = static_cast<unsigned char>(byte);
    if (code < 0x20 || code == 0x7f) return Wrong(text, "has a control byte");
    out += byte;
  }
  return out;
}

}  // namespace

Result<KeyValues> ParseKeyValues(std::string_view text) {
  KeyValues out;
  text = Trim(text);
  while (!text.empty()) {
    const std::string_view element = Trim(TakeUntil(text, ','));
    if (element.empty()) continue;
    const size_t equals = element.find('=');
    if (equals == element.npos) return Wrong(element, "has no '='");
    ASSIGN_OR_RETURN(std::string key, Decode(Trim(element.substr(0, equals))));
    ASSIGN_OR_RETURN(std::string value, Decode(Trim(element.substr(equals + 1))));
    if (key.empty()) return Wrong(element, "has no key");
    if (out.size() == kMost) return Wrong(element, "is one too many: at most 128");
    out.emplace_back(std::move(key), std::move(value));
  }
  return out;
}

}  // namespace gpulens::sdk
