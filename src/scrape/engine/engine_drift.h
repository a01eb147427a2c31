// What changed on an engine's page that its table does not know: said once a family, with the row that would
// teach it.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "scrape/engine/engine_families.h"
#include "wire/exposition/exposition_page.h"

namespace gpulens::engine_page {

// A row of a table, tab by tab, for a family that has none: as good a guess as its name allows.
std::string GuessRow(const ExpositionFamily& family);

// One per target. Not thread-safe.
class DriftWatch {
 public:
  struct Finding {
    enum Kind : uint8_t { kUnknown, kOtherType, kOtherUnit, kGone, kBack } kind;
    std::string family;
    std::string sentence;  // for a log line
    std::string row;       // kUnknown: to be pasted into the table
  };

  // After a look at a page that came whole. What was found before is not found again, but that a family went
  // and came back is.
  std::vector<Finding> Look(const ScrapedPage& page, const PageFamilies& families);

 private:
  static constexpr size_t kMostRemembered = 10'000;
  std::set<std::string> seen_;  // mapped families that were on the page
  std::set<std::string> gone_;  // of these, those that are not
  std::set<std::string> reported_;
};

}  // namespace gpulens::engine_page
