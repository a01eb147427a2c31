#include "net/client/request_fields.h"

#include <algorithm>
#include <array>
#include <cstdint>

#include "base/text.h"
#include "net/client/http_client.h"

namespace gpulens {
namespace {

bool SameWord(std::string_view a, std::string_view b) noexcept {
  auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; };
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [&](char x, char y) { return lower(x) == lower(y); });
}

bool IsToken(std::string_view name) noexcept {
  constexpr std::string_view kOthers = "!#$%&'*+-.^_`|~";
  return !name.empty() && std::all_of(name.begin(), name.end(), [&](char c) {
    bool word = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    return word || kOthers.find(c) != std::string_view::npos;
  });
}

std::string_view ReasonOf(int status) noexcept {
  switch (status) {
    case 204: return " No Content";
    case 400: return " Bad Request";
    case 401: return " Unauthorized";
    case 403: return " Forbidden";
    case 404: return " Not Found";
    case 405: return " Method Not Allowed";
    case 406: return " Not Acceptable";
    case 429: return " Too Many Requests";
    case 500: return " Internal Server Error";
    case 502: return " Bad Gateway";
    case 503: return " Service Unavailable";
    case 504: return " Gateway Timeout";
    default: return "";
  }
}

}  // namespace

std::string_view HttpFailureName(HttpFailure failure) noexcept {
  constexpr std::array<std::string_view, kHttpFailures> kNames = {"none", "connect", "tls",       "timeout",
                                                                  "auth", "status",  "too_large", "protocol"};
  return kNames[static_cast<size_t>(failure)];
}

Code HttpFailureCode(HttpFailure failure) noexcept {
  switch (failure) {
    case HttpFailure::kNone: return Code::kOk;
    case HttpFailure::kConnect:
    case HttpFailure::kStatus: return Code::kUnavailable;
    case HttpFailure::kTls: return Code::kIo;
    case HttpFailure::kTimeout: return Code::kTimeout;
    case HttpFailure::kAuth: return Code::kPermissionDenied;
    case HttpFailure::kTooLarge: return Code::kExhausted;
    case HttpFailure::kProtocol: return Code::kDataLoss;
  }
  return Code::kIo;
}

std::string DescribeStatus(int status, std::string_view location, bool secret_path) {
  std::string out = "answers " + std::to_string(status) + std::string(ReasonOf(status));
  if (status < 300 || status >= 400 || location.empty()) return out;
  out += ", a redirect to ";
  // Mostly the address that was asked, written otherwise: with its query, and elsewhere with its path, which
  // may hold keys.
  const size_t scheme = location.find("://");
  if (scheme == std::string_view::npos && secret_path) return out + "another path, which is not followed";
  const size_t end =
      scheme == std::string_view::npos ? location.find('?') : location.find_first_of("/?", scheme + 3);
  std::string_view shown = location.substr(0, end);
  if (scheme != std::string_view::npos && shown.rfind('@') != std::string_view::npos)
    shown.remove_prefix(shown.rfind('@') + 1);
  AppendPrintable(out, shown.substr(0, 200));
  if (shown.size() < location.size() && end != std::string_view::npos)
    out += location[end] == '?' ? "?…" : end + 1 < location.size() ? "/…" : "/";
  return out + ", which is not followed";
}

std::string WithoutPrefix(std::string text, std::string_view prefix) {
  if (text.starts_with(prefix)) text.erase(0, prefix.size());
  bool word = text.size() > 1 && text[0] >= 'A' && text[0] <= 'Z' && text[1] >= 'a' && text[1] <= 'z';
  if (word) text[0] = static_cast<char>(text[0] - 'A' + 'a');
  return text;
}

Status AddRequestField(std::string& headers, std::string_view name, std::string_view value) {
  constexpr std::string_view kOurs[] = {"Connection", "Content-Length",    "Host",    "Keep-Alive", "TE",
                                        "Trailer",    "Transfer-Encoding", "Upgrade", "Expect"};
  if (!IsToken(name)) {
    std::string shown;
    AppendPrintable(shown, name);
    return {Code::kInvalidArgument, "\"" + shown + "\" is not a valid header field name"};
  }
  for (std::string_view ours : kOurs) {
    if (SameWord(name, ours))
      return {Code::kInvalidArgument, "the header field " + std::string(name) + " is set by gpulens itself"};
  }
  bool control = std::any_of(value.begin(), value.end(), [](char c) {
    return (static_cast<unsigned char>(c) < ' ' && c != '\t') || c == 0x7F;
  });
  if (control) {
    return {Code::kInvalidArgument, "the header field " + std::string(name) + " has a control byte"};
  }
  headers += name;
  headers += ": ";
  headers += value;
  headers += "\r\n";
  return Ok();
}

void AddBasicAuth(std::string& headers, std::string_view user, std::string_view password) {
  constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text(user);
  text += ':';
  text += password;
  headers += "Authorization: Basic ";
  for (size_t i = 0; i < text.size(); i += 3) {
    uint32_t group = 0;
    size_t have = std::min<size_t>(3, text.size() - i);
    for (size_t b = 0; b < 3; ++b) group = group << 8 | (b < have ? static_cast<uint8_t>(text[i + b]) : 0u);
    for (size_t d = 0; d < 4; ++d) headers += d <= have ? kDigits[group >> (18 - 6 * d) & 63] : '=';
  }
  headers += "\r\n";
}

}  // namespace gpulens
