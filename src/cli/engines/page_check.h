// What the tables make of one page, family by family, as `gpulens engines check` tells it. Pure; thread-safe.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "scrape/engine/engine_families.h"
#include "wire/exposition/exposition_page.h"

namespace gpulens {

struct CheckedFamily {
  std::string name;
  engine_page::KnownFamily::Kind kind = engine_page::KnownFamily::kUnknown;
  std::string_view type;                  // of the page, "untyped" without a TYPE
  std::string_view engine;                // whose table; empty: of any page, or of none
  std::vector<std::string_view> metrics;  // kMapped: what it becomes
  std::string text;      // kAlias: of which family. kIgnored: why. kUnknown: a row for its table
  std::string expected;  // the types that the table knows, where the page's is another one
};

struct PageCheck {
  std::string source;
  std::vector<const engine_page::Engine*> engines;  // recognised
  std::vector<CheckedFamily> families;              // in the order of their names
  size_t samples = 0, bad_lines = 0, duplicates = 0, over_limit = 0;
  std::string first_bad;  // of the bad lines, in words
  bool cut = false;       // the page ends too early

  size_t Count(engine_page::KnownFamily::Kind kind) const noexcept;
};

// `families` looked at `page`.
PageCheck CheckPage(std::string source, const ScrapedPage& page, const engine_page::PageFamilies& families);

std::string CheckText(const PageCheck& check);
std::string CheckJson(const PageCheck& check);
// 0 every family is known, 1 some are not, or none is of an engine.
int CheckResult(const PageCheck& check) noexcept;

}  // namespace gpulens
