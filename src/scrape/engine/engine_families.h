// Engines and families of a page by the tables, and what changed on it that they do not know.
#pragma once

#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "scrape/engine/engine_row.h"
#include "wire/exposition/exposition_page.h"

namespace gpulens::engine_page {

// A family of a page and its rows.
struct KnownFamily {
  enum Kind : uint8_t {
    kGone,  // not on the page
    kUnknown,
    kMapped,
    kAlias,  // another name of a family that is also on the page
    kPass,
    kIgnored,
  };
  // An untyped family may be the sum, the count or the buckets of the histogram whose rows it has.
  enum Part : uint8_t { kWhole, kSum, kCount, kBuckets };
  Kind kind = kGone;
  Part part = kWhole;
  const Engine* engine = nullptr;  // of the table; null: a family that any page may have
  std::span<const EngineRow> rows;
  bool other_type = false;  // its TYPE fits none of the rows
};
std::string_view KindName(KnownFamily::Kind kind) noexcept;

// The families of the page of the last Update. Not thread-safe.
class PageFamilies {
 public:
  // `engine`: as configured; null: detected from the names on the page.
  explicit PageFamilies(const Engine* engine) noexcept : configured_(engine) {}

  // Call when families appear or vanish.
  void Update(const ParsedPage& page);

  // By family index of the page.
  std::span<const KnownFamily> families() const noexcept { return families_; }
  // Detected on the page, in the order of the tables; includes the configured one.
  std::span<const Engine* const> engines() const noexcept { return engines_; }
  // The page's main engine: the configured one, else the first of layer "engine", else the first. Null: none.
  const Engine* main() const noexcept { return main_; }
  size_t unknown() const noexcept { return unknown_; }
  // The name of an engine in its series: nim's for the families that nim reads as its own.
  std::string_view NameFor(const Engine* engine) const noexcept;

 private:
  void DetectEngines(const ParsedPage& page);
  KnownFamily Resolve(const ExpositionFamily& family) const;
  void MarkAliases(const ParsedPage& page);

  const Engine* const configured_;
  const Engine* main_ = nullptr;
  std::vector<const Engine*> engines_;
  std::vector<KnownFamily> families_;
  size_t unknown_ = 0;
};

// Returns a row of a table, separated by tabs, as a start for a family that has none.
std::string GuessRow(const ExpositionFamily& family);

// Finds changes of a page that the tables do not know. One per target. Not thread-safe.
class DriftWatch {
 public:
  struct Finding {
    enum Kind : uint8_t { kUnknown, kOtherType, kOtherUnit, kGone, kBack } kind;
    std::string family;
    std::string sentence;  // for a log line
    std::string row;       // kUnknown: for the table
  };

  // Call after an Update of a whole page. Each finding is returned once, except that a family is gone or
  // back.
  std::vector<Finding> Check(const ParsedPage& page, const PageFamilies& families);

 private:
  static constexpr size_t kMostRemembered = 10'000;
  std::set<std::string> seen_;  // mapped families that were on the page
  std::set<std::string> gone_;  // of these, those that are no longer on it
  std::set<std::string> reported_;
};

}  // namespace gpulens::engine_page
