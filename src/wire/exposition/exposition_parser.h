// A whole Prometheus exposition page in one pass over its samples, without memory of other pages.
// A line that cannot be understood is counted and reported, and reading goes on with the next one.
//
// It does not group samples into histograms nor look for duplicate series: exposition_page.h does,
// and is the faster one when a target is read again and again.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include <gpulens/status.h>

#include "wire/exposition/exposition_families.h"
#include "wire/exposition/exposition_format.h"
#include "wire/exposition/exposition_line.h"

namespace gpulens {

// What was wrong with a page. Counts are of lines unless said.
struct ExpositionReport {
  size_t samples = 0;  // understood
  size_t bad_lines = 0;
  size_t samples_over_limit = 0;  // sample lines behind the limit on samples; their content was not read
  size_t duplicates = 0;          // series that stood on the page before (ScrapedPage only)
  size_t type_conflicts = 0;      // TYPE lines against the first of their family
  bool truncated = false;         // OpenMetrics without "# EOF"
  bool open_end = false;          // the last line has no newline: perhaps cut
  std::array<uint32_t, kLineErrors> by_error{};  // bad_lines by LineError
};

// One line that was not understood. `excerpt` is at most 80 bytes of it, as they came: print it with
// AppendPrintable.
struct BadLine {
  size_t number = 0;  // from 1
  LineError error{};
  std::string_view excerpt;
};

struct ExemplarView {
  std::span<const LabelView> labels;
  double value = 0;
  std::optional<int64_t> timestamp_ms;
};

// All views hold during the call only.
struct SampleView {
  uint32_t family = 0;  // as in OnFamily
  SampleRole role = SampleRole::kValue;
  std::string_view name;              // as written, with its suffix
  std::span<const LabelView> labels;  // as written, in the order of the page, `le` and `quantile` too
  double bound = 0;                   // kBucket, kQuantile
  double value = 0;
  std::optional<int64_t> timestamp_ms;
  std::optional<ExemplarView> exemplar;
};

class ExpositionHandler {
 public:
  virtual ~ExpositionHandler() = default;
  // Once per family, before its first sample: first those with HELP, TYPE or UNIT, merged from the
  // whole page, then undeclared ones as they are met.
  virtual void OnFamily(uint32_t id, const ExpositionFamily& family) = 0;
  virtual void OnSample(const SampleView& sample) = 0;
  virtual void OnBadLine(const BadLine& /*line*/) {}
};

// Reads `page`. Linear in its size; memory for families only. Fails with kExhausted when the page is
// larger than the limit; a page of nothing but bad lines is a success with a bad report.
Result<ExpositionReport> ParseExposition(std::string_view page, ExpositionFormat format,
                                         const ExpositionLimits& limits, ExpositionHandler& handler);

namespace exposition_internal {

// Finishes what the grammar of a line cannot know: takes the bound out of the labels (`bound_label`
// is its place, or labels.size()) and may change the role. False: a bucket without a bound.
bool ResolveBound(std::span<const LabelView> labels, SampleRole& role, double& bound, size_t& bound_label);

// The number of an `le` or `quantile`; not NaN.
bool ReadBound(std::string_view text, double& bound) noexcept;

// Whether the line is a sample as far as its first byte tells.
bool LooksLikeSample(std::string_view line) noexcept;

// The part of a page behind the limit on samples: counts its sample lines and looks for "# EOF".
struct PageRest {
  size_t samples = 0;
  bool ended = false;
};
PageRest CountRest(std::string_view rest, LineReader& reader);

constexpr size_t kExcerptBytes = 80;

}  // namespace exposition_internal

}  // namespace gpulens
