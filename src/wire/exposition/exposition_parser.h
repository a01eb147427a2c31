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
#include <vector>

#include <gpulens/status.h>

#include "wire/exposition/exposition_families.h"
#include "wire/exposition/exposition_format.h"
#include "wire/exposition/exposition_line.h"

namespace gpulens {

// What was wrong with a page. Counts are of lines unless said.
struct ExpositionReport {
  size_t samples = 0;  // understood
  size_t bad_lines = 0;
  size_t samples_over_limit = 0;   // above 0: the page has so many too many samples and was not read
  bool too_many_families = false;  // likewise
  size_t duplicates = 0;           // series that stood on the page before (ScrapedPage only)
  size_t type_conflicts = 0;       // TYPE lines against the first of their family
  bool truncated = false;          // OpenMetrics without "# EOF"
  bool open_end = false;           // the last line has no newline: perhaps cut
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
// larger than one of the limits; a page of nothing but bad lines is a success with a bad report.
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

// What a page is like before its samples are parsed. Views into the page.
struct PageOutline {
  struct Bucket {
    std::string_view name, line;  // "x_bucket", and one of its lines
  };
  size_t samples = 0;           // lines that look like samples
  size_t names = 0;             // at least as many as there are families
  std::vector<Bucket> buckets;  // names that end in _bucket; one may be there several times
};
PageOutline OutlineOf(std::string_view page, LineReader& reader);

// Reads the metadata lines of a page into `families`: BeginPage, Declare, InferHistogram, EndDeclarations.
// Lines that are none or wrong are passed over; in OpenMetrics it ends at "# EOF", and without one the page
// is cut.
void DeclareFamilies(std::string_view page, const PageOutline& outline, LineReader& reader,
                     FamilyTable& families);

// Whether the page is within the limits of `reader`; kExhausted otherwise, and `report` says of what there
// is too much.
Status CheckLimits(std::string_view page, const PageOutline& outline, LineReader& reader,
                   ExpositionReport& report);

constexpr size_t kExcerptBytes = 80;

}  // namespace exposition_internal

}  // namespace gpulens
