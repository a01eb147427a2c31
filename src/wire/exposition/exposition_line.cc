#include "wire/exposition/exposition_line.h"

#include <array>
#include <cmath>

#include "base/text.h"

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace gpulens {
namespace {

enum : uint8_t { kNameStart = 1, kNamePart = 2, kColon = 4 };

constexpr auto kClasses = [] {
  std::array<uint8_t, 256> classes{};
  for (unsigned c = 'a'; c <= 'z'; ++c) classes[c] = classes[c - 32] = kNameStart | kNamePart;
  for (unsigned c = '0'; c <= '9'; ++c) classes[c] = kNamePart;
  classes['_'] = kNameStart | kNamePart;
  classes[':'] = kColon;
  return classes;
}();

uint8_t ClassOf(char c) noexcept { return kClasses[static_cast<unsigned char>(c)]; }

bool IsBlank(char c) noexcept { return c == ' ' || c == '\t'; }

void SkipBlanks(const char*& p, const char* end) noexcept {
  while (p != end && IsBlank(*p)) ++p;
}

std::string_view Between(const char* from, const char* to) noexcept {
  return {from, static_cast<size_t>(to - from)};
}

const char* FindQuoteOrEscape(const char* p, const char* end) noexcept {
#if defined(__SSE2__)
  const __m128i quote = _mm_set1_epi8('"'), escape = _mm_set1_epi8('\\');
  for (; end - p >= 16; p += 16) {
    __m128i block = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
    int hits = _mm_movemask_epi8(_mm_or_si128(_mm_cmpeq_epi8(block, quote), _mm_cmpeq_epi8(block, escape)));
    if (hits != 0) return p + __builtin_ctz(static_cast<unsigned>(hits));
  }
#endif
  while (p != end && *p != '"' && *p != '\\') ++p;
  return p;
}

// Whether every byte is ASCII; a NUL byte is left to the slower check.
bool IsPlain(std::string_view text) noexcept {
  const char *p = text.data(), *end = p + text.size();
#if defined(__SSE2__)
  for (; end - p >= 16; p += 16) {
    __m128i block = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
    // Signed: a byte above 127 is negative, so "greater than zero" is exactly what is allowed.
    if (_mm_movemask_epi8(_mm_cmpgt_epi8(block, _mm_setzero_si128())) != 0xFFFF) return false;
  }
#endif
  return std::all_of(p, end, [](char c) { return static_cast<signed char>(c) > 0; });
}

// A NUL byte is text: OpenMetrics and Prometheus allow it in help texts and label values.
bool IsText(std::string_view text) noexcept { return IsPlain(text) || IsUtf8(text); }

struct TypeWord {
  std::string_view word;
  ExpositionType type;
};
constexpr TypeWord kTypeWords[] = {
    {"unknown", ExpositionType::kUnknown}, {"counter", ExpositionType::kCounter},
    {"gauge", ExpositionType::kGauge},     {"histogram", ExpositionType::kHistogram},
    {"summary", ExpositionType::kSummary}, {"gaugehistogram", ExpositionType::kGaugeHistogram},
    {"info", ExpositionType::kInfo},       {"stateset", ExpositionType::kStateSet},
    {"untyped", ExpositionType::kUnknown},
};

}  // namespace

std::string_view LineErrorName(LineError error) noexcept {
  constexpr std::string_view kNames[kLineErrors] = {
      "bad_name",        "bad_label",         "duplicate_label", "bad_value", "bad_timestamp",
      "bad_exemplar",    "bad_type",          "bad_bound",       "not_utf8",  "too_long",
      "too_many_labels", "too_many_families", "trailing",        "after_eof"};
  return kNames[static_cast<size_t>(error)];
}

std::string_view ExpositionTypeName(ExpositionType type) noexcept {
  for (const TypeWord& row : kTypeWords) {
    if (row.type == type) return row.word;
  }
  return "unknown";
}

bool LineReader::Fail(LineError why) {
  error = why;
  return false;
}

void LineReader::Reset(size_t bytes) {
  labels.clear();
  timestamp_ms.reset();
  has_exemplar = false;
  scratch_.clear();
  if (scratch_.capacity() < bytes) scratch_.reserve(bytes);
}

// An undefined escape stays as it is written: Windows paths occur in real pages.
std::string_view LineReader::Unescape(std::string_view raw, bool quotes) {
  size_t at = raw.find('\\');
  if (at == std::string_view::npos) return raw;
  const size_t start = scratch_.size();
  while (at != std::string_view::npos && at + 1 < raw.size()) {
    scratch_.append(raw.substr(0, at));
    char next = raw[at + 1];
    if (next == 'n') {
      scratch_ += '\n';
    } else {
      if (next != '\\' && !(quotes && next == '"')) scratch_ += '\\';
      scratch_ += next;
    }
    raw.remove_prefix(at + 2);
    at = raw.find('\\');
  }
  scratch_.append(raw);
  return std::string_view(scratch_).substr(start);
}

// Reads from an opening quote and leaves `p` after the closing one.
bool LineReader::Quoted(const char*& p, const char* end, std::string_view& out, size_t limit) {
  const char* const start = ++p;
  bool escaped = false;
  for (;;) {
    p = FindQuoteOrEscape(p, end);
    if (p == end) return Fail(LineError::kBadLabel);
    if (*p == '"') break;
    escaped = true;
    if (end - p < 2) return Fail(LineError::kBadLabel);
    p += 2;
  }
  out = Between(start, p++);
  if (out.size() > limit) return Fail(LineError::kTooLong);
  if (escaped) out = Unescape(out, true);
  return true;
}

bool LineReader::LabelName(const char*& p, const char* end, std::string_view& out, bool& quoted) {
  quoted = p != end && *p == '"';
  if (quoted) {
    if (!Quoted(p, end, out, limits.name_bytes)) return false;
    return !out.empty() || Fail(LineError::kBadLabel);
  }
  const char* const start = p;
  if (p == end || !(ClassOf(*p) & kNameStart)) return Fail(LineError::kBadLabel);
  while (p != end && (ClassOf(*p) & kNamePart)) ++p;
  out = Between(start, p);
  return out.size() <= limits.name_bytes || Fail(LineError::kTooLong);
}

// One `name="value"`, or the quoted metric name when none is known yet.
bool LineReader::Label(const char*& p, const char* end, std::vector<LabelView>& out) {
  LabelView label;
  bool quoted = false;
  if (!LabelName(p, end, label.name, quoted)) return false;
  SkipBlanks(p, end);
  if (quoted && &out == &labels && name.data() == nullptr && out.empty()) {
    if (p != end && *p != '=') {
      name = label.name;
      return true;
    }
    return Fail(LineError::kBadName);
  }
  if (p == end || *p++ != '=') return Fail(LineError::kBadLabel);
  SkipBlanks(p, end);
  if (p == end || *p != '"') return Fail(LineError::kBadLabel);
  if (!Quoted(p, end, label.value, limits.value_bytes)) return false;
  return AddLabel(label, out);
}

// Reads labels of the common form, `name="value"` without blanks, quoted names and escapes, as far as
// they go. False when one of them cannot be right; whatever is only unusual is left to Label.
bool LineReader::PlainLabels(const char*& p, const char* end, std::vector<LabelView>& out) {
  while (p != end && (ClassOf(*p) & kNameStart)) {
    const char* at = p + 1;
    while (at != end && (ClassOf(*at) & kNamePart)) ++at;
    if (end - at < 3 || at[0] != '=' || at[1] != '"') return true;
    std::string_view label = Between(p, at);
    const char* const start = at + 2;
    at = FindQuoteOrEscape(start, end);
    if (at == end || *at == '\\') return true;
    std::string_view quoted = Between(start, at);
    if (label.size() > limits.name_bytes || quoted.size() > limits.value_bytes) {
      return Fail(LineError::kTooLong);
    }
    if (!AddLabel({label, quoted}, out)) return false;
    p = at + 1;
    if (p == end || *p != ',') return true;
    ++p;
  }
  return true;
}

bool LineReader::AddLabel(const LabelView& label, std::vector<LabelView>& out) {
  for (const LabelView& other : out) {
    if (other.name.size() == label.name.size() && other.name == label.name) {
      return Fail(LineError::kDuplicateLabel);
    }
  }
  if (label.name == "__name__") return Fail(LineError::kDuplicateLabel);
  if (out.size() == limits.labels) return Fail(LineError::kTooManyLabels);
  out.push_back(label);
  return true;
}

// At an opening brace. A comma may follow the last label, none may precede the first.
bool LineReader::Labels(const char*& p, const char* end, std::vector<LabelView>& out, bool name_inside) {
  ++p;
  // PlainLabels may stop before a comma, after one, or where a label begins.
  bool comma = true;
  if (!name_inside) {
    if (!PlainLabels(p, end, out)) return false;
    comma = out.empty() || p[-1] == ',';
  }
  SkipBlanks(p, end);
  while (p != end && *p != '}') {
    if (!comma) {
      if (*p != ',') return Fail(LineError::kBadLabel);
      ++p;
      SkipBlanks(p, end);
      if (p == end || *p == '}') break;
    }
    comma = true;
    if (!Label(p, end, out)) return false;
    if (name_inside && name.data() == nullptr) return Fail(LineError::kBadName);
    SkipBlanks(p, end);
    if (p == end) break;
    if (*p == '}') break;
    if (*p != ',') return Fail(LineError::kBadLabel);
    ++p;
    SkipBlanks(p, end);
  }
  if (p == end) return Fail(LineError::kBadLabel);
  ++p;
  return true;
}

bool LineReader::Series(const char*& p, const char* end) {
  name = {};
  const char* const start = p;
  if (p != end && (ClassOf(*p) & (kNameStart | kColon))) {
    while (p != end && (ClassOf(*p) & (kNamePart | kColon))) ++p;
    name = Between(start, p);
    if (name.size() > limits.name_bytes) return Fail(LineError::kTooLong);
    if (p != end && !IsBlank(*p) && *p != '{') return Fail(LineError::kBadName);
    SkipBlanks(p, end);
    if (p != end && *p == '{' && !Labels(p, end, labels, false)) return false;
  } else {
    if (p == end || *p != '{') return Fail(LineError::kBadName);
    if (!Labels(p, end, labels, true)) return false;
    if (name.empty()) return Fail(LineError::kBadName);
  }
  return true;
}

bool LineReader::Timestamp(const char*& p, const char* end, bool seconds, std::optional<int64_t>& out) {
  const char* const start = p;
  while (p != end && !IsBlank(*p)) ++p;
  if (!seconds) {
    out = ParseInt<int64_t>(Between(start, p));
    return out.has_value() || Fail(LineError::kBadTimestamp);
  }
  auto number = ParseExpositionNumber(Between(start, p));
  if (!number || !std::isfinite(*number)) return Fail(LineError::kBadTimestamp);
  // OpenMetrics sets no bound, and milliseconds have one.
  constexpr double kLast = 9e18;
  out = std::llround(std::clamp(*number * 1000, -kLast, kLast));
  return true;
}

// At the `#`.
bool LineReader::Exemplar(const char*& p, const char* end) {
  ++p;
  SkipBlanks(p, end);
  const char* const start = p;
  exemplar_labels.clear();
  if (p == end || *p != '{' || !Labels(p, end, exemplar_labels, false)) return Fail(LineError::kBadExemplar);
  exemplar_text = Between(start, p);
  SkipBlanks(p, end);
  p = ReadExpositionNumber(p, end, exemplar_value);
  if (p == nullptr) return Fail(LineError::kBadExemplar);
  SkipBlanks(p, end);
  exemplar_timestamp_ms.reset();
  if (p != end && !Timestamp(p, end, true, exemplar_timestamp_ms)) return Fail(LineError::kBadExemplar);
  has_exemplar = true;
  return true;
}

bool LineReader::ReadTail(std::string_view tail) {
  const char *p = tail.data(), *end = p + tail.size();
  if (p != end && end[-1] == '\r') --end;
  const bool open = format == ExpositionFormat::kOpenMetrics100;
  timestamp_ms.reset();
  has_exemplar = false;
  // Read has reserved for the whole line; a caller that starts here has not.
  if (scratch_.capacity() - scratch_.size() < tail.size()) Reset(tail.size());
  SkipBlanks(p, end);
  if (p != end && *p != '#') {
    if (!Timestamp(p, end, open, timestamp_ms)) return false;
    SkipBlanks(p, end);
  }
  if (p != end && *p == '#' && open) {
    if (!IsText(Between(p, end))) return Fail(LineError::kNotUtf8);
    if (!Exemplar(p, end)) return false;
    SkipBlanks(p, end);
  }
  return p == end || Fail(LineError::kTrailing);
}

bool LineReader::ReadSeries(std::string_view series) {
  Reset(series.size());
  const char *p = series.data(), *end = p + series.size();
  SkipBlanks(p, end);
  if (!Series(p, end)) return false;
  SkipBlanks(p, end);
  return p == end || Fail(LineError::kTrailing);
}

bool LineReader::ReadLabelSet(std::string_view braces) {
  Reset(braces.size());
  name = "-";
  const char *p = braces.data(), *end = p + braces.size();
  if (p == end || *p != '{') return Fail(LineError::kBadLabel);
  return Labels(p, end, labels, false) && (p == end || Fail(LineError::kTrailing));
}

LineKind LineReader::Keyword(std::string_view word, const char* p, const char* end) {
  auto bad = [this](LineError why) { return Fail(why), LineKind::kBad; };
  SkipBlanks(p, end);
  if (p == end) return LineKind::kComment;
  if (*p == '"') {
    if (!Quoted(p, end, name, limits.name_bytes)) return LineKind::kBad;
  } else {
    const char* const start = p;
    if (!(ClassOf(*p) & (kNameStart | kColon))) return bad(LineError::kBadName);
    while (p != end && (ClassOf(*p) & (kNamePart | kColon))) ++p;
    name = Between(start, p);
    if (name.size() > limits.name_bytes) return bad(LineError::kTooLong);
  }
  if (name.empty() || (p != end && !IsBlank(*p))) return bad(LineError::kBadName);
  SkipBlanks(p, end);
  text = Between(p, end);
  if (text.size() > limits.value_bytes) return bad(LineError::kTooLong);
  if (word == "HELP") {
    text = Unescape(text, format == ExpositionFormat::kOpenMetrics100);
    return LineKind::kHelp;
  }
  text = Trim(text);
  if (word == "UNIT") return LineKind::kUnit;
  for (const TypeWord& row : kTypeWords) {
    if (row.word == text) return type = row.type, LineKind::kType;
  }
  return bad(LineError::kBadType);
}

// Reads a line after its `#`. Without a keyword between blanks it is a comment.
LineKind LineReader::Metadata(const char* p, const char* end) {
  const bool open = format == ExpositionFormat::kOpenMetrics100;
  if (p == end || !IsBlank(*p)) return LineKind::kComment;
  SkipBlanks(p, end);
  const char* const start = p;
  while (p != end && !IsBlank(*p)) ++p;
  std::string_view word = Between(start, p);
  if (open && word == "EOF") {
    SkipBlanks(p, end);
    return p == end ? LineKind::kEof : LineKind::kComment;
  }
  if (word == "HELP" || word == "TYPE" || (open && word == "UNIT")) return Keyword(word, p, end);
  return LineKind::kComment;
}

LineKind LineReader::Read(std::string_view line, const char* memory_end) {
  if (line.size() > limits.line_bytes) return Fail(LineError::kTooLong), LineKind::kBad;
  if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
  const char *p = line.data(), *end = p + line.size();
  SkipBlanks(p, end);
  if (p == end) return LineKind::kBlank;
  if (!IsText(line)) return Fail(LineError::kNotUtf8), LineKind::kBad;
  Reset(line.size());
  if (*p == '#') return Metadata(p + 1, end);
  if (!Series(p, end)) return LineKind::kBad;
  SkipBlanks(p, end);
  literal_bytes = static_cast<size_t>(p - line.data());
  p = ReadExpositionNumber(p, memory_end == nullptr || p == end ? end : memory_end, value);
  if (p == nullptr) return Fail(LineError::kBadValue), LineKind::kBad;
  return p == end || ReadTail(Between(p, end)) ? LineKind::kSample : LineKind::kBad;
}

}  // namespace gpulens
