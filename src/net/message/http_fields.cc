#include "net/message/http_fields.h"

#include <algorithm>
#include <array>
#include <cstdint>

#include "base/parse.h"
#include "base/text.h"

namespace gpulens {
namespace {

using std::chrono::days;
using std::chrono::seconds;

constexpr seconds kLongest = days(1);

constexpr std::array<std::string_view, 7> kDays = {"Monday", "Tuesday",  "Wednesday", "Thursday",
                                                   "Friday", "Saturday", "Sunday"};
constexpr std::array<std::string_view, 12> kMonths = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                                      "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};

// The numbers of a date, not yet checked to be a day that exists.
struct WrittenDate {
  int year = 0, month = 0, day = 0, hour = 0, minute = 0, second = 0;
};

bool IsDigit(char c) noexcept { return c >= '0' && c <= '9'; }

// Parses a date from its front; stays bad after the first mismatch.
class DateReader {
 public:
  explicit DateReader(std::string_view text) noexcept : rest_(text) {}

  bool ended() const noexcept { return good_ && rest_.empty(); }

  void Text(std::string_view wanted) noexcept {
    if (!rest_.starts_with(wanted)) return Spoil();
    rest_.remove_prefix(wanted.size());
  }
  // Exactly `digits` digits; with `blank` the first may be a blank.
  int Number(size_t digits, bool blank = false) noexcept {
    std::string_view text = rest_.substr(0, digits);
    if (blank && text.starts_with(' ')) text.remove_prefix(1);
    auto value = std::all_of(text.begin(), text.end(), IsDigit) ? ParseInt<int>(text) : std::nullopt;
    if (rest_.size() < digits || !value) return Spoil(), 0;
    rest_.remove_prefix(digits);
    return *value;
  }
  // The number, from 1, of the name that follows; of each only the first `size` letters count.
  template <size_t N>
  int Name(const std::array<std::string_view, N>& names, size_t size = std::string_view::npos) noexcept {
    for (size_t i = 0; i < N; ++i) {
      std::string_view name = names[i].substr(0, size);
      if (!rest_.starts_with(name)) continue;
      rest_.remove_prefix(name.size());
      return static_cast<int>(i) + 1;
    }
    return Spoil(), 0;
  }

 private:
  void Spoil() noexcept { good_ = false; }

  std::string_view rest_;
  bool good_ = true;
};

void ReadTime(DateReader& reader, WrittenDate& out) noexcept {
  out.hour = reader.Number(2);
  reader.Text(":");
  out.minute = reader.Number(2);
  reader.Text(":");
  out.second = reader.Number(2);
}

// "Sun, 06 Nov 1994 08:49:37 GMT".
std::optional<WrittenDate> ReadFixed(std::string_view text) noexcept {
  DateReader reader(text);
  WrittenDate out;
  reader.Name(kDays, 3);
  reader.Text(", ");
  out.day = reader.Number(2);
  reader.Text(" ");
  out.month = reader.Name(kMonths);
  reader.Text(" ");
  out.year = reader.Number(4);
  reader.Text(" ");
  ReadTime(reader, out);
  reader.Text(" GMT");
  return reader.ended() ? std::optional(out) : std::nullopt;
}

// "Sunday, 06-Nov-94 08:49:37 GMT": the year is the one that is not more than 50 years away.
std::optional<WrittenDate> ReadRfc850(std::string_view text, int this_year) noexcept {
  DateReader reader(text);
  WrittenDate out;
  reader.Name(kDays);
  reader.Text(", ");
  out.day = reader.Number(2);
  reader.Text("-");
  out.month = reader.Name(kMonths);
  reader.Text("-");
  out.year = this_year - this_year % 100 + reader.Number(2);
  if (out.year > this_year + 50) out.year -= 100;
  else if (out.year < this_year - 50) out.year += 100;
  reader.Text(" ");
  ReadTime(reader, out);
  reader.Text(" GMT");
  return reader.ended() ? std::optional(out) : std::nullopt;
}

// "Sun Nov  6 08:49:37 1994".
std::optional<WrittenDate> ReadAsctime(std::string_view text) noexcept {
  DateReader reader(text);
  WrittenDate out;
  reader.Name(kDays, 3);
  reader.Text(" ");
  out.month = reader.Name(kMonths);
  reader.Text(" ");
  out.day = reader.Number(2, true);
  reader.Text(" ");
  ReadTime(reader, out);
  reader.Text(" ");
  out.year = reader.Number(4);
  return reader.ended() ? std::optional(out) : std::nullopt;
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
  auto date = ReadFixed(field);
  if (!date) date = ReadRfc850(field, this_year);
  if (!date) date = ReadAsctime(field);
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

Status AddRequestField(std::string& headers, std::string_view name, std::string_view value) {
  constexpr std::string_view kOurs[] = {"Connection", "Content-Length",    "Host",    "Keep-Alive", "TE",
                                        "Trailer",    "Transfer-Encoding", "Upgrade", "Expect"};
  if (!IsToken(name)) {
    std::string shown;
    AppendPrintable(shown, name);
    return {Code::kInvalidArgument, "\"" + shown + "\" is not a valid header field name"};
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
