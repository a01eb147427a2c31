#include "net/client/retry_after.h"

#include <algorithm>
#include <array>
#include <cstdint>

#include "base/parse.h"

namespace gpulens {
namespace {

using std::chrono::days;
using std::chrono::seconds;

constexpr seconds kLongest = days(1);

constexpr std::array<std::string_view, 7> kDays = {"Monday", "Tuesday",  "Wednesday", "Thursday",
                                                   "Friday", "Saturday", "Sunday"};
constexpr std::array<std::string_view, 12> kMonths = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                                      "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};

// A date as it is written: numbers in range each, not yet a day that exists.
struct Written {
  int year = 0, month = 0, day = 0, hour = 0, minute = 0, second = 0;
};

bool IsDigit(char c) noexcept { return c >= '0' && c <= '9'; }

// Eats a date from its front. Once something does not fit it stays bad.
class Reader {
 public:
  explicit Reader(std::string_view text) noexcept : rest_(text) {}

  bool ended() const noexcept { return good_ && rest_.empty(); }
  bool good() const noexcept { return good_; }

  void Text(std::string_view wanted) noexcept {
    if (!rest_.starts_with(wanted)) return Spoil();
    rest_.remove_prefix(wanted.size());
  }
  // Exactly `digits` of them; the first may be a blank where `blank` says so.
  int Number(size_t digits, bool blank = false) noexcept {
    std::string_view text = rest_.substr(0, digits);
    if (blank && text.starts_with(' ')) text.remove_prefix(1);
    auto value = std::all_of(text.begin(), text.end(), IsDigit) ? ParseInt<int>(text) : std::nullopt;
    if (rest_.size() < digits || !value) return Spoil(), 0;
    rest_.remove_prefix(digits);
    return *value;
  }
  // Which of the names stands here, counted from 1: their first `size` letters, all of them by default.
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

void ReadTime(Reader& reader, Written& out) noexcept {
  out.hour = reader.Number(2);
  reader.Text(":");
  out.minute = reader.Number(2);
  reader.Text(":");
  out.second = reader.Number(2);
}

// "Sun, 06 Nov 1994 08:49:37 GMT".
std::optional<Written> ReadFixed(std::string_view text) noexcept {
  Reader reader(text);
  Written out;
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
std::optional<Written> ReadRfc850(std::string_view text, int this_year) noexcept {
  Reader reader(text);
  Written out;
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
std::optional<Written> ReadAsctime(std::string_view text) noexcept {
  Reader reader(text);
  Written out;
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

// Since the epoch; nothing when there is no such day or time. A leap second is the one that follows it.
std::optional<seconds> UnixTime(const Written& date) noexcept {
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
    // What no integer can hold is long, too.
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

}  // namespace gpulens
