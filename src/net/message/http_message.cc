#include "net/message/http_message.h"

#include <algorithm>
#include <cstdio>
#include <ctime>

#include "base/parse.h"
#include "base/text.h"

namespace gpulens {

SharedBytes::SharedBytes(std::string text) {
  auto kept = std::make_shared<const std::string>(std::move(text));
  bytes = *kept;
  owner = std::move(kept);
}

std::string_view HttpRequest::path() const noexcept {
  std::string_view all = target();
  return all.substr(0, all.find('?'));
}

std::string_view HttpRequest::query() const noexcept {
  std::string_view all = target();
  size_t mark = all.find('?');
  return mark == std::string_view::npos ? std::string_view{} : all.substr(mark + 1);
}

std::string_view HttpRequest::Header(std::string_view name) const noexcept {
  for (const FieldRange& each : fields_) {
    if (EqualsIgnoringCase(Piece(each.name), name)) return Piece(each.value);
  }
  return {};
}

size_t HttpRequest::CountHeader(std::string_view name) const noexcept {
  size_t count = 0;
  for (const FieldRange& each : fields_) count += EqualsIgnoringCase(Piece(each.name), name);
  return count;
}

bool HttpRequest::HasHeader(std::string_view name) const noexcept { return CountHeader(name) > 0; }

std::string HttpRequest::JoinedHeader(std::string_view name) const {
  std::string joined;
  for (const FieldRange& each : fields_) {
    if (!EqualsIgnoringCase(Piece(each.name), name)) continue;
    if (!joined.empty()) joined += ", ";
    joined += Piece(each.value);
  }
  return joined;
}

bool HttpRequest::HeaderHasToken(std::string_view name, std::string_view token) const {
  for (const FieldRange& each : fields_) {
    if (!EqualsIgnoringCase(Piece(each.name), name)) continue;
    std::string_view rest = Piece(each.value);
    while (!rest.empty()) {
      if (EqualsIgnoringCase(Trim(TakeUntil(rest, ',')), token)) return true;
    }
  }
  return false;
}

std::optional<std::string> HttpRequest::Parameter(std::string_view name) const {
  std::string_view rest = query();
  while (!rest.empty()) {
    std::string_view value = TakeUntil(rest, '&');
    std::string_view key = TakeUntil(value, '=');
    if (DecodePercent(key) == name) return DecodePercent(value);
  }
  return std::nullopt;
}

void HttpResponse::AddHeader(std::string_view name, std::string_view value) {
  headers += name;
  headers += ": ";
  for (char c : value) headers += static_cast<unsigned char>(c) < 0x20 || c == 0x7f ? ' ' : c;
  headers += "\r\n";
}

HttpResponse HttpResponse::Text(int status, std::string sentence) {
  HttpResponse response;
  response.status = status;
  sentence += '\n';
  response.body = std::move(sentence);
  return response;
}

bool HttpHasBody(int status) noexcept { return status != 204 && status != 304; }

std::string HttpHead(const HttpResponse& response, std::string_view more, std::string_view connection) {
  std::string head;
  head.reserve(256 + response.headers.size() + more.size());
  head = "HTTP/1.1 ";
  head += std::to_string(response.status);
  head += ' ';
  head += HttpReason(response.status);
  head += "\r\nDate: ";
  head += HttpDate();
  if (!response.content_type.empty()) {
    head += "\r\nContent-Type: ";
    head += response.content_type;
  }
  if (HttpHasBody(response.status)) {
    head += "\r\nContent-Length: ";
    head += std::to_string(response.body.bytes.size());
  }
  head += "\r\n";
  head += response.headers;
  head += more;
  head += connection;
  head += "\r\n";
  return head;
}

std::string_view HttpReason(int status) noexcept {
  switch (status) {
    case 100: return "Continue";
    case 101: return "Switching Protocols";
    case 200: return "OK";
    case 202: return "Accepted";
    case 204: return "No Content";
    case 206: return "Partial Content";
    case 301: return "Moved Permanently";
    case 302: return "Found";
    case 304: return "Not Modified";
    case 400: return "Bad Request";
    case 401: return "Unauthorized";
    case 403: return "Forbidden";
    case 404: return "Not Found";
    case 405: return "Method Not Allowed";
    case 406: return "Not Acceptable";
    case 408: return "Request Timeout";
    case 413: return "Content Too Large";
    case 414: return "URI Too Long";
    case 415: return "Unsupported Media Type";
    case 417: return "Expectation Failed";
    case 426: return "Upgrade Required";
    case 429: return "Too Many Requests";
    case 431: return "Request Header Fields Too Large";
    case 500: return "Internal Server Error";
    case 501: return "Not Implemented";
    case 503: return "Service Unavailable";
    case 505: return "HTTP Version Not Supported";
    default: return "Unknown";
  }
}

std::string_view HttpDate() {
  thread_local time_t made_at = -1;
  thread_local char text[40];
  thread_local size_t size = 0;
  time_t now = ::time(nullptr);
  if (now != made_at) {
    // Names of our own: strftime's follow the locale.
    static constexpr const char* kDayNames[] = {"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
    static constexpr const char* kMonthNames[] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                                  "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
    tm t{};
    ::gmtime_r(&now, &t);
    int written =
        std::snprintf(text, sizeof(text), "%s, %02d %s %04d %02d:%02d:%02d GMT", kDayNames[t.tm_wday],
                      t.tm_mday, kMonthNames[t.tm_mon], t.tm_year + 1900, t.tm_hour, t.tm_min, t.tm_sec);
    size = static_cast<size_t>(written);
    made_at = now;
  }
  return {text, size};
}

bool AcceptsGzip(std::string_view accept_encoding) noexcept {
  double gzip = -1, any = 0;
  while (!accept_encoding.empty()) {
    std::string_view parameters = TakeUntil(accept_encoding, ',');
    std::string_view coding = Trim(TakeUntil(parameters, ';'));
    double q = 1;
    while (!parameters.empty()) {
      std::string_view value = TakeUntil(parameters, ';');
      if (EqualsIgnoringCase(Trim(TakeUntil(value, '=')), "q")) q = ParseDouble(Trim(value)).value_or(0);
    }
    if (EqualsIgnoringCase(coding, "gzip") || EqualsIgnoringCase(coding, "x-gzip")) gzip = q;
    if (coding == "*") any = q;
  }
  return gzip >= 0 ? gzip > 0 : any > 0;
}

std::string DecodePercent(std::string_view text) {
  std::string blanks(text);
  std::ranges::replace(blanks, '+', ' ');
  return PercentDecoded(blanks);
}

}  // namespace gpulens
