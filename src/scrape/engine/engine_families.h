// Whose families are on a page, and what the tables say of each: looked up when families come or go.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "scrape/engine/engine_row.h"
#include "wire/exposition/exposition_page.h"

namespace gpulens::engine_page {

// What the tables know of one family of a page.
struct KnownFamily {
  enum Kind : uint8_t {
    kGone,  // not on the page
    kUnknown,
    kMapped,
    kAlias,  // another name of a family that is on the page, too
    kPass,
    kIgnored,
  };
  // Of an untyped family: the sum or count of the histogram whose rows it has; or its buckets, declared so
  // by themselves, whose samples are the histogram's.
  enum Part : uint8_t { kWhole, kSum, kCount, kBuckets };
  Kind kind = kGone;
  Part part = kWhole;
  const Engine* engine = nullptr;  // whose table; null: a family that any page may have
  std::span<const EngineRow> rows;
  bool other_type = false;  // TYPE is none that its rows take
};
std::string_view KindName(KnownFamily::Kind kind) noexcept;

// Not thread-safe. Holds for the page of the last Look.
class PageFamilies {
 public:
  // `engine`: whose page it is, as configured; null: found out from the names on it.
  explicit PageFamilies(const Engine* engine) noexcept : configured_(engine) {}

  void Look(const ScrapedPage& page);

  // By family index of the page.
  std::span<const KnownFamily> families() const noexcept { return families_; }
  // Recognised on the page, in the order of the tables; the configured one is among them.
  std::span<const Engine* const> engines() const noexcept { return engines_; }
  // The one the page is mainly of: configured, else the first of layer "engine", else the first. Null: none.
  const Engine* main() const noexcept { return main_; }
  size_t unknown() const noexcept { return unknown_; }
  // An engine's name for its series: nim's for the families that nim reads as its own.
  std::string_view NameFor(const Engine* engine) const noexcept;

 private:
  void Recognise(const ScrapedPage& page);
  KnownFamily Resolve(const ExpositionFamily& family) const;
  void PassOverAliases(const ScrapedPage& page);

  const Engine* const configured_;
  const Engine* main_ = nullptr;
  std::vector<const Engine*> engines_;
  std::vector<KnownFamily> families_;
  size_t unknown_ = 0;
};

}  // namespace gpulens::engine_page
