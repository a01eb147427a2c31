// The families of a page: what HELP, TYPE and UNIT lines say, and which family a sample belongs to.
// The rule is the same wherever on the page those lines stand: first all of them, then the samples.
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
  bool typed = false;  // a TYPE line exists
  bool alive = false;  // false: this place in the list is free
};

// Where a sample belongs.
struct SampleHome {
  uint32_t family = 0;
  SampleRole role = SampleRole::kValue;
};

// Keeps the families from page to page under stable indices. One thread at a time.
//
//   BeginPage, Declare for every metadata line, EndDeclarations, then Resolve for samples.
class FamilyTable {
 public:
  static constexpr uint32_t kNone = 0xFFFFFFFF;

  explicit FamilyTable(size_t limit) : limit_(limit), key_(ProcessHashKey()), ids_(0, Hasher{&key_}) {}
  FamilyTable(const FamilyTable&) = delete;
  FamilyTable& operator=(const FamilyTable&) = delete;

  void BeginPage();
  // A line of kind kHelp, kType or kUnit. The first of a page wins. False: above the limit.
  bool Declare(LineKind kind, const LineReader& line);
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
    bool declared = false, helped = false, typed = false, united = false;  // on this page
    bool was_typed = false;                                                // on the page before
    ExpositionType was = ExpositionType::kUnknown;
  };

  uint32_t Find(std::string_view name) const;
  uint32_t Add(std::string_view name);
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
  uint64_t version_ = 1;
};

// Reads the metadata lines of a page into `families`: BeginPage, Declare, EndDeclarations. Lines that
// are none or wrong are passed over; in OpenMetrics it ends at "# EOF", and without one the page is cut.
void DeclareFamilies(std::string_view page, LineReader& reader, FamilyTable& families);

// The label that carries the bound of a role: `le`, `quantile` or none.
std::string_view BoundLabel(SampleRole role) noexcept;

}  // namespace gpulens
