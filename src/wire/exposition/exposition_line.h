// The grammar of one line of a Prometheus exposition, without any memory of other lines. What several
// lines mean together is in exposition_parser.h and exposition_page.h.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/parse.h"
#include "wire/exposition/exposition_format.h"

namespace gpulens {

// Limits of one page. A line, label or name above its limit is a bad line; a page above `page_bytes`,
// `samples` or `families` is not read at all.
struct ExpositionLimits {
  size_t page_bytes = 64u << 20;
  size_t line_bytes = 1u << 20;
  size_t labels = 64;              // of one sample
  size_t name_bytes = 1u << 10;    // a metric or label name
  size_t value_bytes = 64u << 10;  // a label value or a help text, as written
  size_t samples = 20'000;         // of one page: lines that look like samples
  size_t families = 10'000;        // of one page
};

enum class ExpositionType : uint8_t {
  kUnknown,
  kCounter,
  kGauge,
  kHistogram,
  kGaugeHistogram,
  kSummary,
  kInfo,
  kStateSet,
};

// Why a line was not understood.
enum class LineError : uint8_t {
  kBadName,         // no metric name, or bytes in it that need quotes
  kBadLabel,        // label name, equals sign, quotes, comma or closing brace
  kDuplicateLabel,  // one label name twice; `__name__` counts as one
  kBadValue,        // the number
  kBadTimestamp,
  kBadExemplar,
  kBadType,   // "# TYPE" with a word that is no type
  kBadBound,  // bucket without a numeric `le`, or a quantile that is no number
  kNotUtf8,   // invalid UTF-8
  kTooLong,   // line, name or value above its limit
  kTooManyLabels,
  kTooManyFamilies,
  kTrailing,  // bytes after a complete sample
  kAfterEof,  // bytes after "# EOF"
};
constexpr size_t kLineErrors = 14;
// "bad_name", as in metrics and logs. Static storage.
std::string_view LineErrorName(LineError error) noexcept;
std::string_view ExpositionTypeName(ExpositionType type) noexcept;  // the OpenMetrics word

struct LabelView {
  std::string_view name, value;  // unescaped
  bool operator==(const LabelView&) const = default;
};

enum class LineKind : uint8_t { kBlank, kComment, kHelp, kType, kUnit, kEof, kSample, kBad };

// Reads line after line into its public fields. Views point into the line last read or into a buffer
// of the reader, and hold until the next call. Steady use does not allocate. One thread at a time.
class LineReader {
 public:
  LineReader(ExpositionFormat line_format, const ExpositionLimits& line_limits)
      : format(line_format), limits(line_limits) {
    labels.reserve(std::min<size_t>(limits.labels, 64));
  }

  // Reads `line`, which has no newline; a return at its end is ignored. Linear in its length. `memory_end`:
  // the end of readable memory, when a newline follows the line; it only makes numbers faster.
  LineKind Read(std::string_view line, const char* memory_end = nullptr);
  // Reads what follows the number of a sample: timestamp and exemplar. False: see `error`.
  bool ReadTail(std::string_view tail);
  // `name{labels}` alone, with blanks around. Sets `name` and `labels`.
  bool ReadSeries(std::string_view text);
  // `{labels}` alone, into `labels`.
  bool ReadLabelSet(std::string_view text);

  ExpositionFormat format;
  ExpositionLimits limits;

  LineError error{};                               // kBad
  std::string_view name;                           // kHelp, kType, kUnit, kSample
  std::string_view text;                           // kHelp (unescaped), kUnit
  ExpositionType type = ExpositionType::kUnknown;  // kType
  std::vector<LabelView> labels;                   // kSample, in the order of the page
  size_t literal_bytes = 0;                        // kSample: of the text before the number
  double value = 0;                                // kSample
  std::optional<int64_t> timestamp_ms;             // kSample
  bool has_exemplar = false;                       // kSample, OpenMetrics
  std::vector<LabelView> exemplar_labels;
  std::string_view exemplar_text;  // the same as written, with braces
  double exemplar_value = 0;
  std::optional<int64_t> exemplar_timestamp_ms;

 private:
  bool Fail(LineError why);
  bool Quoted(const char*& p, const char* end, std::string_view& out, size_t limit);
  bool LabelName(const char*& p, const char* end, std::string_view& out, bool& quoted);
  bool Labels(const char*& p, const char* end, std::vector<LabelView>& out, bool name_inside);
  bool Label(const char*& p, const char* end, std::vector<LabelView>& out);
  bool AddLabel(const LabelView& label, std::vector<LabelView>& out);
  bool PlainLabels(const char*& p, const char* end, std::vector<LabelView>& out);
  bool Series(const char*& p, const char* end);
  bool Timestamp(const char*& p, const char* end, bool seconds, std::optional<int64_t>& out);
  bool Exemplar(const char*& p, const char* end);
  LineKind Metadata(const char* p, const char* end);
  LineKind Keyword(std::string_view word, const char* p, const char* end);
  std::string_view Unescape(std::string_view raw, bool quotes);
  void Reset(size_t bytes);

  std::string scratch_;  // Unescaped text; never grows while a line is read, so views into it hold.
};

// Numbers of a page, exactly as strtod reads them: decimal and scientific, and the words for infinity and NaN
// in any case; hexadecimal is refused, as Prometheus does. Inline because the steady scrape does little else.

constexpr size_t kMaxNumberBytes = 1024;  // The longest exact double has 767 significant digits.

namespace exposition_internal {

inline bool IsDigit(char c) noexcept { return static_cast<unsigned char>(c - '0') < 10; }
inline bool EndsNumber(char c) noexcept { return c == ' ' || c == '\n' || c == '\t' || c == '\r'; }

inline bool EqualsLower(std::string_view text, std::string_view lower) noexcept {
  return std::equal(text.begin(), text.end(), lower.begin(), lower.end(),
                    [](char a, char b) { return (a >= 'A' && a <= 'Z' ? a + 32 : a) == b; });
}

constexpr double kPowersOfTen[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,
                                   1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19};

}  // namespace exposition_internal

// Parses the whole of `text`. A number too large is infinity and one too small is zero, as strtod has it; the
// sign of a NaN is dropped.
inline std::optional<double> ParseExpositionNumber(std::string_view text) noexcept {
  using namespace exposition_internal;
  bool negative = !text.empty() && text[0] == '-';
  if (!text.empty() && (text[0] == '-' || text[0] == '+')) text.remove_prefix(1);
  if (text.empty() || text.size() > kMaxNumberBytes) return std::nullopt;
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  double value = 0;
  if (!IsDigit(text[0]) && text[0] != '.') {
    if (EqualsLower(text, "nan")) return std::numeric_limits<double>::quiet_NaN();
    if (!EqualsLower(text, "inf") && !EqualsLower(text, "infinity")) return std::nullopt;
    value = kInfinity;
  } else {
    const auto number = ParseSaturated(text);
    if (!number) return std::nullopt;
    value = *number;
  }
  return negative ? -value : value;
}

namespace exposition_internal {

// The digits at the front of 8 bytes: their count, at most 8, and their value. Little-endian only.
struct LeadingDigits {
  unsigned count;
  uint64_t value;
};
inline LeadingDigits ReadLeadingDigits(const char* p) noexcept {
  uint64_t bytes;
  std::memcpy(&bytes, p, sizeof bytes);
  bytes ^= 0x3030303030303030;
  // The high bit of each byte, up to the first non-digit, is set if the byte is not a digit; later bytes
  // may be wrong, as a sum can carry into them.
  uint64_t others = ((bytes + 0x7676767676767676) | bytes) & 0x8080808080808080;
  unsigned count = others == 0 ? 8 : static_cast<unsigned>(std::countr_zero(others)) / 8;
  if (count == 0) return {0, 0};
  bytes <<= 64 - 8 * count;
  bytes = (bytes * 10) + (bytes >> 8);
  return {count, (((bytes & 0x000000FF000000FF) * 0x000F424000000064) +
                  (((bytes >> 16) & 0x000000FF000000FF) * 0x0000271000000001)) >>
                     32};
}

// Reads up to 7 digits, a dot and up to 7 digits, as most numbers are, without a loop; nullptr for others.
// Accesses 17 bytes from `p`.
inline const char* ReadShortNumber(const char* p, double& value) noexcept {
  const bool negative = *p == '-';
  p += negative;
  LeadingDigits whole = ReadLeadingDigits(p);
  if (whole.count == 8) return nullptr;
  p += whole.count;
  double magnitude = static_cast<double>(static_cast<int64_t>(whole.value));
  if (*p == '.') {
    LeadingDigits fraction = ReadLeadingDigits(++p);
    if (fraction.count == 8 || whole.count + fraction.count == 0) return nullptr;
    p += fraction.count;
    double power = kPowersOfTen[fraction.count];
    magnitude = (magnitude * power + static_cast<double>(static_cast<int64_t>(fraction.value))) / power;
  } else if (whole.count == 0) {
    return nullptr;
  }
  if (!EndsNumber(*p)) return nullptr;
  value = negative ? -magnitude : magnitude;
  return p;
}

}  // namespace exposition_internal

// Reads the number at `p`, which must end at a blank, a line break or `end`. Returns the byte after it;
// nullptr when it is not a number.
inline const char* ReadExpositionNumber(const char* p, const char* end, double& value) noexcept {
  using namespace exposition_internal;
  if constexpr (std::endian::native == std::endian::little) {
    if (end - p > 24) [[likely]] {
      if (const char* next = ReadShortNumber(p, value)) [[likely]]
        return next;
    }
  }
  const char* const start = p;
  const bool negative = p != end && *p == '-';
  p += negative;
  const char* const digits = p;
  uint64_t mantissa = 0;
  for (; p != end && IsDigit(*p); ++p) mantissa = mantissa * 10 + static_cast<uint64_t>(*p - '0');
  ptrdiff_t count = p - digits, fraction = 0;
  if (p != end && *p == '.') {
    const char* const dot = ++p;
    for (; p != end && IsDigit(*p); ++p) mantissa = mantissa * 10 + static_cast<uint64_t>(*p - '0');
    fraction = p - dot;
    count += fraction;
  }
  // Both the mantissa and the power of ten are exact doubles here, so one division rounds right.
  if (count > 0 && count <= 19 && mantissa <= (uint64_t{1} << 53) && (p == end || EndsNumber(*p)))
      [[likely]] {
    double magnitude = static_cast<double>(static_cast<int64_t>(mantissa));
    if (fraction != 0) magnitude /= kPowersOfTen[fraction];
    value = negative ? -magnitude : magnitude;
    return p;
  }
  while (p != end && !EndsNumber(*p) && p - start <= static_cast<ptrdiff_t>(kMaxNumberBytes)) ++p;
  auto number = ParseExpositionNumber({start, static_cast<size_t>(p - start)});
  if (!number || (p != end && !EndsNumber(*p))) return nullptr;
  value = *number;
  return p;
}

}  // namespace gpulens
