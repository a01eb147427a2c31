// The grammar of one line of a Prometheus exposition, without any memory of other lines. What several
// lines mean together is in exposition_parser.h and exposition_page.h.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "wire/exposition/exposition_format.h"

namespace gpulens {

// What one page may cost us. A line, label or name above its limit is a bad line; a page above `page_bytes`,
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
  kTrailing,  // bytes behind a complete sample
  kAfterEof,  // bytes behind "# EOF"
};
constexpr size_t kLineErrors = 14;
// "bad_name": as it stands in metrics and logs. Static storage.
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

  // `line` without its newline; a return at its end is let pass. Linear in its length. `memory_end`: up
  // to where bytes may be looked at, when a newline follows the line; it only makes numbers faster.
  LineKind Read(std::string_view line, const char* memory_end = nullptr);
  // What stands behind the number of a sample: timestamp and exemplar. False: see `error`.
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
  size_t literal_bytes = 0;                        // kSample: what stands before the number
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

}  // namespace gpulens
