// A whole Prometheus exposition page in one pass over its samples, without memory of other pages.
// A line that cannot be understood is counted and reported, and reading goes on with the next one.
//
// Does not group samples into histograms nor look for duplicate series: exposition_page.h does, and is faster
// for targets that are read repeatedly.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include <gpulens/status.h>

#include "base/hash.h"
#include "wire/exposition/exposition_format.h"
#include "wire/exposition/exposition_line.h"

namespace gpulens {

// The families of a page. HELP, TYPE and UNIT lines count wherever they are on the page: they are read before
// the samples. Pages without TYPE lines, and Prometheus' /federate, which calls everything untyped, have
// histograms, too: if `x_bucket` has an `le` that is a number, and neither `x` nor `x_bucket` has another
// TYPE than untyped, `x` is a histogram with its `x_bucket`, `x_sum`, `x_count` and `x_created`.

// Role of a sample in its family.
enum class SampleRole : uint8_t {
  kValue,     // gauge, untyped, or a counter with or without `_total`
  kBucket,    // cumulative, up to and including the bound of its `le`
  kQuantile,  // its bound is the quantile
  kSum,
  kCount,
  kCreated,  // Unix seconds
  kInfo,     // always 1
  kState,    // 0 or 1
};

struct ExpositionFamily {
  std::string name;  // as written in TYPE; of an undeclared family, the name of its samples
  std::string help, unit;
  ExpositionType type = ExpositionType::kUnknown;
  bool typed = false;     // a TYPE line exists
  bool inferred = false;  // no TYPE: `type` is kHistogram because its buckets are on the page
  bool alive = false;     // false: this place in the list is free
  // Whether its samples have `_total` or `_info` behind its name, by the first of them; nullopt: none came.
  std::optional<bool> suffixed = {};
};

// Family and role of a sample.
struct SampleHome {
  uint32_t family = 0;
  SampleRole role = SampleRole::kValue;
};

// Keeps the families from page to page under stable indices. One thread at a time.
//
//   BeginPage, Declare for every metadata line, InferHistogram, EndDeclarations, then Resolve for samples.
class FamilyTable {
 public:
  static constexpr uint32_t kNone = 0xFFFFFFFF;

  explicit FamilyTable(size_t limit) : limit_(limit), key_(ProcessHashKey()), ids_(0, Hasher{&key_}) {}
  FamilyTable(const FamilyTable&) = delete;
  FamilyTable& operator=(const FamilyTable&) = delete;

  void BeginPage();
  // A line of kind kHelp, kType or kUnit. The first of a page wins. False: above the limit.
  bool Declare(LineKind kind, const LineReader& line);
  // Whether `base` is a histogram when this page has buckets of it; all Declare calls were made.
  bool MayBeHistogram(std::string_view base) const;
  void InferHistogram(std::string_view base);
  // Drops what this page no longer declares, unless the page is cut. Fills retired().
  void EndDeclarations(bool cut);
  // Families whose samples must be assigned again, since a TYPE came, went or changed.
  const std::vector<uint32_t>& retired() const noexcept { return retired_; }
  // The family and role of a sample; makes an undeclared family when there is none. Its `family` is
  // kNone when that is above the limit.
  SampleHome Resolve(std::string_view name);

  // One series more or less in a family. EndPage drops families without either lines or series, but those
  // of a cut page: what such a page does not declare has not gone.
  void AddSeries(uint32_t family) { ++marks_[family].series; }
  void DropSeries(uint32_t family) { --marks_[family].series; }
  void EndPage(bool cut);

  const std::vector<ExpositionFamily>& families() const noexcept { return families_; }
  size_t type_conflicts() const noexcept { return type_conflicts_; }
  // Families that found no place on this page.
  bool refused() const noexcept { return refused_; }
  // Changes whenever any family came, went or changed its words.
  uint64_t version() const noexcept { return version_; }
  size_t memory_bytes() const noexcept;

 private:
  struct Hasher {
    using is_transparent = void;
    const HashKey* key;
    size_t operator()(std::string_view text) const noexcept { return HashBytes(text, 0, *key); }
  };
  struct Marks {
    uint32_t series = 0;
    bool declared = false, helped = false, typed = false, united = false, inferred = false;  // on this page
    bool was_typed = false, was_inferred = false;  // on the page before
    ExpositionType was = ExpositionType::kUnknown;
  };

  uint32_t Find(std::string_view name) const;
  uint32_t Add(std::string_view name);
  bool Claims(uint32_t base, std::string_view suffix, bool own_untyped) const noexcept;
  void SetText(std::string& old, std::string_view now);
  void RetireRelated(uint32_t changed);

  size_t limit_;
  HashKey key_;
  std::vector<ExpositionFamily> families_;
  std::vector<Marks> marks_;
  std::vector<uint32_t> free_, retired_;
  std::unordered_map<std::string, uint32_t, Hasher, std::equal_to<>> ids_;
  std::string last_name_;  // Samples of one name are adjacent: the last result is mostly the next.
  SampleHome last_;
  bool last_valid_ = false;
  size_t type_conflicts_ = 0;
  bool refused_ = false;
  uint64_t version_ = 1;
};

// Returns the next line that starts with `#` or a blank, at or after `p`, which is inside a line.
const char* NextMetadata(const char* p, const char* end) noexcept;

// The label that carries the bound of a role: `le`, `quantile` or none.
std::string_view BoundLabel(SampleRole role) noexcept;

// Counts of a page and of its errors. Units are lines unless a comment names another.
struct ExpositionReport {
  size_t samples = 0;  // understood
  size_t bad_lines = 0;
  size_t samples_over_limit = 0;   // above 0: the page has so many too many samples and was not read
  bool too_many_families = false;  // likewise
  size_t duplicates = 0;           // series repeated on the page (ScrapedPage only)
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
  // Called once per family, before its first sample: first those with HELP, TYPE or UNIT, merged from the
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

// Finds the bound in the labels (`bound_label` is its index, or labels.size()) and may change the role.
// False: a bucket without a bound.
bool ResolveBound(std::span<const LabelView> labels, SampleRole& role, double& bound, size_t& bound_label);

// Parses an `le` or `quantile`; false for NaN and for text that is not a number.
bool ReadBound(std::string_view text, double& bound) noexcept;

// Whether the line is a sample, according to its first byte.
bool LooksLikeSample(std::string_view line) noexcept;

// Counts and bucket names of a page, found before its samples are parsed. Views into the page.
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
// Skips other lines and invalid ones; in OpenMetrics it ends at "# EOF", and a page without one is cut.
void DeclareFamilies(std::string_view page, const PageOutline& outline, LineReader& reader,
                     FamilyTable& families);

// Checks that the page is within the limits of `reader`. kExhausted: it is not, and `report` has the limit
// that was exceeded.
Status CheckLimits(std::string_view page, const PageOutline& outline, LineReader& reader,
                   ExpositionReport& report);

constexpr size_t kExcerptBytes = 80;

}  // namespace exposition_internal

}  // namespace gpulens
