#include "sources/kernel_log/parse/log_line.h"

#include <algorithm>

#include "base/json.h"
#include "base/parse.h"
#include "base/rfc3339.h"

namespace gpulens::kernel_log {
namespace {

constexpr int64_t kNanos = 1'000'000'000;

bool IsDigit(char c) noexcept { return c >= '0' && c <= '9'; }

// Digits after a point as nanoseconds: "1234" → 123,400,000. Further digits are dropped.
std::optional<int64_t> ParseFraction(std::string_view digits) noexcept {
  if (digits.empty() || !std::all_of(digits.begin(), digits.end(), IsDigit)) return std::nullopt;
  int64_t value = 0;
  for (size_t i = 0; i < 9; ++i) value = value * 10 + (i < digits.size() ? digits[i] - '0' : 0);
  return value;
}

// "123.456789" as nanoseconds. At most about 300 years, so that no sum overflows.
std::optional<int64_t> ParseSeconds(std::string_view text) noexcept {
  size_t point = text.find('.');
  if (point == std::string_view::npos) return std::nullopt;
  auto whole = ParseInt<int64_t>(text.substr(0, point));
  auto fraction = ParseFraction(text.substr(point + 1));
  if (!whole || !fraction || *whole < 0 || *whole > 9'000'000'000) return std::nullopt;
  return *whole * kNanos + *fraction;
}

void SetUnix(LogLine& out, int64_t unix_ns) noexcept {
  out.stamp = LogLine::Stamp::kUnix;
  out.stamp_ns = unix_ns;
}

// The kernel writes every byte that is not printable as \xHH.
std::string_view Unescape(std::string_view text, std::string& scratch) {
  if (text.find("\\x") == std::string_view::npos) return text;
  scratch.clear();
  for (size_t i = 0; i < text.size(); ++i) {
    bool escape = text.substr(i).starts_with("\\x") && i + 3 < text.size();
    auto byte = escape ? ParseInt<uint8_t>(text.substr(i + 2, 2), 16) : std::nullopt;
    scratch += byte ? static_cast<char>(*byte) : text[i];
    if (byte) i += 3;
  }
  return scratch;
}

// "[   12.345678] " in front of a message, as dmesg and some syslogs have it.
void TakeBootStamp(std::string_view& text, LogLine& out) noexcept {
  if (!text.starts_with('[')) return;
  size_t close = text.find(']');
  if (close == std::string_view::npos || close > 32) return;
  auto stamp = ParseSeconds(Trim(text.substr(1, close - 1)));
  if (!stamp) return;
  if (out.stamp == LogLine::Stamp::kNone) {
    out.stamp = LogLine::Stamp::kSinceBoot;
    out.stamp_ns = *stamp;
  }
  text.remove_prefix(close + 1);
  // With caller information: "[   12.345678][  T123] message".
  if (text.starts_with('[')) {
    size_t end = text.find(']');
    if (end != std::string_view::npos && end < 16) text.remove_prefix(end + 1);
  }
  text = Trim(text);
}

// "host kernel: message" → "message"; the word in front of the colon must be the kernel's.
bool TakeHostAndTag(std::string_view& text) noexcept {
  std::string_view rest = text;
  std::string_view host = TakeUntil(rest, ' ');
  constexpr std::string_view kTag = "kernel";
  if (host.empty() || !rest.starts_with(kTag)) return false;
  rest.remove_prefix(kTag.size());
  // Some daemons write a number behind it: "kernel[1]:".
  if (rest.starts_with('[')) {
    size_t close = rest.find(']');
    if (close == std::string_view::npos || close > 8 ||
        !std::all_of(rest.begin() + 1, rest.begin() + close, IsDigit))
      return false;
    rest.remove_prefix(close + 1);
  }
  if (!rest.starts_with(':')) return false;
  text = Trim(rest.substr(1));
  return true;
}

// "1 2026-01-02T03:04:05.5+01:00 node-1 kernel - - - message": RFC 5424, behind its priority. Structured data
// is not what the kernel's records have.
bool TakeRfc5424(std::string_view& text, LogLine& out) noexcept {
  std::string_view rest = text;
  if (TakeUntil(rest, ' ') != "1") return false;
  auto when = ParseRfc3339(TakeUntil(rest, ' '));
  std::string_view host = TakeUntil(rest, ' '), program = TakeUntil(rest, ' ');
  TakeUntil(rest, ' ');  // the process
  TakeUntil(rest, ' ');  // the kind of message
  if (!when || host.empty() || program != "kernel" || TakeUntil(rest, ' ') != "-") return false;
  constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
  if (rest.starts_with(kByteOrderMark)) rest.remove_prefix(kByteOrderMark.size());
  SetUnix(out, *when);
  text = Trim(rest);
  return true;
}

// "[Mon Nov 23 14:00:00 2026] message" (dmesg -T): no zone, and off by the time the machine slept, so the
// time is unknown.
bool TakeLocalTime(std::string_view& text) noexcept {
  constexpr std::string_view kDays = "MonTueWedThuFriSatSun";
  if (text.size() < 27 || text[0] != '[' || text[25] != ']' || text[4] != ' ' || text[14] != ':')
    return false;
  size_t day = kDays.find(text.substr(1, 3));
  if (day == std::string_view::npos || day % 3 != 0) return false;
  text = Trim(text.substr(26));
  return true;
}

// "Jan  2 03:04:05 ": no year and no zone, so the time is unknown.
bool TakeSyslogTime(std::string_view& text) noexcept {
  constexpr std::string_view kMonths = "JanFebMarAprMayJunJulAugSepOctNovDec";
  if (text.size() < 16 || text[3] != ' ' || text[6] != ' ' || text[9] != ':' || text[12] != ':' ||
      text[15] != ' ') {
    return false;
  }
  size_t month = kMonths.find(text.substr(0, 3));
  if (month == std::string_view::npos || month % 3 != 0) return false;
  text.remove_prefix(16);
  return true;
}

// "kern  :warn  : 2025-01-21T04:41:44,285060+00:00 message" (dmesg -x --time-format iso), or with a boot
// stamp.
bool TakeFacility(std::string_view& text, LogLine& out) noexcept {
  constexpr std::string_view kFacility = "kern";
  if (!text.starts_with(kFacility)) return false;
  size_t first = text.find(':');
  size_t second = first == std::string_view::npos ? first : text.find(':', first + 1);
  if (second == std::string_view::npos || second > 24 || Trim(text.substr(0, first)) != kFacility)
    return false;
  text = Trim(text.substr(second + 1));
  std::string_view rest = text;
  if (auto when = ParseRfc3339(TakeUntil(rest, ' '))) {
    SetUnix(out, *when);
    text = rest;
  }
  return true;
}

// The journal writes a message that is not UTF-8 as a list of bytes.
std::string TakeBytes(const JsonDocument& entry, std::string_view pointer) {
  std::string bytes;
  size_t size = std::min(entry.Size(pointer), kMaxLine);
  for (size_t i = 0; i < size; ++i) {
    auto byte = entry.Integer(std::string(pointer) + "/" + std::to_string(i));
    if (!byte || *byte < 0 || *byte > 255) return {};
    bytes += static_cast<char>(*byte);
  }
  return bytes;
}

// An entry of the journal as `journalctl -o json` prints it. The transport is set by the journal itself: no
// program can claim to be the kernel.
bool ParseJournalEntry(std::string_view line, std::string& scratch, LogLine& out) {
  constexpr size_t kMaxEntry = 64 << 10;
  if (line.size() > kMaxEntry) return false;
  auto entry = JsonDocument::Parse(line);
  if (!entry || entry->Text("/_TRANSPORT") != "kernel") return false;
  scratch = entry->Text("/MESSAGE").value_or("");
  if (scratch.empty()) scratch = TakeBytes(*entry, "/MESSAGE");
  if (auto microseconds = ParseInt<int64_t>(entry->Text("/__REALTIME_TIMESTAMP").value_or(""));
      microseconds && *microseconds >= 0 && *microseconds <= INT64_MAX / 1000) {
    SetUnix(out, *microseconds * 1000);
  }
  out.text = std::string_view(scratch).substr(0, kMaxLine);
  return !out.text.empty();
}

}  // namespace

bool ParseKmsgRecord(std::string_view record, std::string& scratch, LogLine& out) {
  out = {};
  size_t semicolon = record.find(';');
  if (semicolon == std::string_view::npos || semicolon > 128) return false;
  std::string_view head = record.substr(0, semicolon);
  auto priority = ParseInt<uint32_t>(TakeUntil(head, ','));
  auto sequence = ParseInt<uint64_t>(TakeUntil(head, ','));
  auto microseconds = ParseInt<int64_t>(TakeUntil(head, ','));
  if (!priority || !sequence || !microseconds) return false;
  if (*microseconds < 0 || *microseconds > INT64_MAX / 1000) return false;
  out.sequence = *sequence;
  // Facility 0 is the kernel. Records that programs write to /dev/kmsg always have another one.
  if (*priority >= 8) return false;
  out.stamp = LogLine::Stamp::kSinceBoot;
  out.stamp_ns = *microseconds * 1000;
  std::string_view text = record.substr(semicolon + 1);
  // Lines that begin with a blank are the record's properties.
  text = text.substr(0, std::min({text.find('\n'), text.size(), kMaxLine}));
  out.text = Unescape(text, scratch);
  return true;
}

bool ParseLogLine(std::string_view line, std::string& scratch, LogLine& out) {
  out = {};
  if (Trim(line.substr(0, kMaxLine)).starts_with('{')) return ParseJournalEntry(line, scratch, out);
  line = Trim(line.substr(0, kMaxLine));
  if (!line.empty() && IsDigit(line[0]) && line.find(',') < 4 && line.find(';') != std::string_view::npos) {
    return ParseKmsgRecord(line, scratch, out);
  }
  std::string_view text = line;
  bool framed = false;          // has a complete head of another form
  if (text.starts_with('<')) {  // "<4>[   12.345678] message"
    size_t close = text.find('>');
    auto priority = close < 5 ? ParseInt<uint32_t>(text.substr(1, close - 1)) : std::nullopt;
    if (!priority || *priority >= 8) return false;
    text.remove_prefix(close + 1);
    framed = TakeRfc5424(text, out);
  }
  framed = framed || TakeLocalTime(text);
  if (!framed && !text.starts_with('[') && !TakeFacility(text, out)) {
    std::string_view rest = text;
    std::string_view first = TakeUntil(rest, ' ');
    std::optional<int64_t> at = ParseRfc3339(first);
    if (!at) at = ParseSeconds(first);
    if (at) {
      SetUnix(out, *at);
      text = rest;
    } else if (!TakeSyslogTime(text)) {
      return false;
    }
    if (!TakeHostAndTag(text)) return false;
  }
  if (!framed) TakeBootStamp(text, out);
  out.text = text;
  return !text.empty();
}

}  // namespace gpulens::kernel_log
