// The families of a page: what HELP, TYPE and UNIT lines say, and which family a sample belongs to.
// The rule is the same wherever on the page those lines stand: first all of them, then the samples.
//
// Pages without TYPE lines, and Prometheus' /federate, which calls everything untyped, have histograms all
// the same: where `x_bucket` has an `le` that is a number, and neither `x` nor `x_bucket` has another TYPE
// than untyped, `x` is a histogram with its `x_bucket`, `x_sum`, `x_count` and `x_created`.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "wire/exposition/exposition_hash.h"
#include "wire/exposition/exposition_line.h"

namespace gpulens {

// What a sample is to its family.
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
  bool inferred = false;  // TYPE says nothing: `type` is kHistogram because its buckets are on the page
  bool alive = false;     // false: this place in the list is free
};

// Where a sample belongs.
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
  // Families whose samples must be looked at anew, since a TYPE came, went or changed.
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
  std::string last_name_;  // Samples of one name stand together: the last answer is mostly the next.
  SampleHome last_;
  bool last_valid_ = false;
  size_t type_conflicts_ = 0;
  bool refused_ = false;
  uint64_t version_ = 1;
};

// The next line that starts with `#` or a blank, at or behind `p`, which is inside a line.
const char* NextMetadata(const char* p, const char* end) noexcept;

// The label that carries the bound of a role: `le`, `quantile` or none.
std::string_view BoundLabel(SampleRole role) noexcept;

}  // namespace gpulens
