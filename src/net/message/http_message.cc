#include "net/message/http_message.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <ctime>

#include "base/parse.h"
#include "base/text.h"

namespace gpulens {
namespace {

// Names of our own: strftime's follow the locale.
constexpr std::array<std::string_view, 7> kDays = {"Sunday",   "Monday", "Tuesday", "Wednesday",
                                                   "Thursday", "Friday", "Saturday"};
constexpr std::array<std::string_view, 12> kMonths = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                                      "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};

}  // namespace

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
    tm t{};
    ::gmtime_r(&now, &t);
    const auto day = static_cast<size_t>(t.tm_wday), month = static_cast<size_t>(t.tm_mon);
    int written =
        std::snprintf(text, sizeof(text), "%.3s, %02d %s %04d %02d:%02d:%02d GMT", kDays[day].data(),
                      t.tm_mday, kMonths[month].data(), t.tm_year + 1900, t.tm_hour, t.tm_min, t.tm_sec);
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

namespace {

using std::chrono::days;
using std::chrono::seconds;

constexpr seconds kLongest = days(1);

// The numbers of a date, not yet checked to be a day that exists.
struct WrittenDate {
  int year = 0, month = 0, day = 0, hour = 0, minute = 0, second = 0;
};

bool IsDigit(char c) noexcept { return c >= '0' && c <= '9'; }

// Parses a date of a fixed format. In `format` `a` and `A` are the short and the full name of a day, `b` a
// month, `Y` and `y` years of four and two digits, `d` `H` `M` `S` two digits, `e` the same with an optional
// blank in front, `Z` "GMT"; other characters are literal.
std::optional<WrittenDate> ParseDate(std::string_view text, std::string_view format) noexcept {
  WrittenDate out;
  for (char c : format) {
    const std::span<const std::string_view> names =
        c == 'b' ? std::span<const std::string_view>(kMonths) : kDays;
    int* into = nullptr;
    size_t digits = 2;
    switch (c) {
      case 'a':
      case 'A':
      case 'b': {
        const size_t letters = c == 'A' ? std::string_view::npos : 3;
        const auto found = std::ranges::find_if(
            names, [&](std::string_view name) { return text.starts_with(name.substr(0, letters)); });
        if (found == names.end()) return std::nullopt;
        if (c == 'b') out.month = static_cast<int>(found - names.begin()) + 1;
        text.remove_prefix(found->substr(0, letters).size());
        continue;
      }
      case 'Y':
        into = &out.year;
        digits = 4;
        break;
      case 'y': into = &out.year; break;
      case 'd':
      case 'e': into = &out.day; break;
      case 'H': into = &out.hour; break;
      case 'M': into = &out.minute; break;
      case 'S': into = &out.second; break;
      case 'Z':
        if (!text.starts_with("GMT")) return std::nullopt;
        text.remove_prefix(3);
        continue;
      default:
        if (!text.starts_with(c)) return std::nullopt;
        text.remove_prefix(1);
        continue;
    }
    if (text.size() < digits) return std::nullopt;
    std::string_view number = text.substr(0, digits);
    if (c == 'e' && number.starts_with(' ')) number.remove_prefix(1);
    const auto value = std::ranges::all_of(number, IsDigit) ? ParseInt<int>(number) : std::nullopt;
    if (!value) return std::nullopt;
    *into = *value;
    text.remove_prefix(digits);
  }
  return text.empty() ? std::optional(out) : std::nullopt;
}

// Since the epoch; nothing for a day or time that does not exist. A leap second is the one after it.
std::optional<seconds> UnixTime(const WrittenDate& date) noexcept {
  using namespace std::chrono;
  year_month_day day(year(date.year), month(static_cast<unsigned>(date.month)),
                     std::chrono::day(static_cast<unsigned>(date.day)));
  if (!day.ok() || date.hour > 23 || date.minute > 59 || date.second > 60) return std::nullopt;
  return sys_days(day).time_since_epoch() + hours(date.hour) + minutes(date.minute) + seconds(date.second);
}

}  // namespace

std::optional<Duration> RetryAfter(std::string_view field, Instant now) noexcept {
  field = Trim(field);
  if (field.empty()) return std::nullopt;
  if (std::all_of(field.begin(), field.end(), IsDigit)) {
    auto wait = ParseInt<int64_t>(field);
    return wait ? std::min(seconds(*wait), kLongest) : kLongest;
  }
  auto this_second = std::chrono::floor<seconds>(Duration(now.unix_ns));
  auto today = std::chrono::floor<days>(std::chrono::sys_seconds(this_second));
  int this_year = static_cast<int>(std::chrono::year_month_day(today).year());
  auto date = ParseDate(field, "a, d b Y H:M:S Z");
  if (!date && (date = ParseDate(field, "A, d-b-y H:M:S Z"))) {
    // A year of two digits is the one at most 50 years away.
    date->year += this_year - this_year % 100;
    if (date->year > this_year + 50) date->year -= 100;
    else if (date->year < this_year - 50) date->year += 100;
  }
  if (!date) date = ParseDate(field, "a b e H:M:S Y");
  auto at = date ? UnixTime(*date) : std::nullopt;
  if (!at) return std::nullopt;
  // Dates are compared in seconds: a far one in nanoseconds is more than a Duration holds.
  if (*at <= this_second) return Duration{};
  if (*at > this_second + kLongest) return kLongest;
  constexpr int64_t kSecond = 1'000'000'000;
  Duration since_second((now.unix_ns % kSecond + kSecond) % kSecond);
  return *at - this_second - since_second;
}

namespace {

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
  // Mostly the requested address in other words, so its query, and at another host its path, may hold keys.
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

bool IsHttpToken(std::string_view text) noexcept {
  constexpr std::string_view kOthers = "!#$%&'*+-.^_`|~";
  return !text.empty() && std::ranges::all_of(text, [&](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           kOthers.find(c) != std::string_view::npos;
  });
}

Status AddRequestField(std::string& headers, std::string_view name, std::string_view value) {
  constexpr std::string_view kOurs[] = {"Connection", "Content-Length",    "Host",    "Keep-Alive", "TE",
                                        "Trailer",    "Transfer-Encoding", "Upgrade", "Expect"};
  if (!IsHttpToken(name)) {
    return {Code::kInvalidArgument, "\"" + Printable(name) + "\" is not a valid header field name"};
  }
  for (std::string_view ours : kOurs) {
    if (EqualsIgnoringCase(name, ours))
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
  headers += "Authorization: Basic ";
  AppendBase64(headers, std::string(user) + ':' + std::string(password));
  headers += "\r\n";
}

}  // namespace gpulens
