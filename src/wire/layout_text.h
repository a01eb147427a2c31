// The parts of an exposition page that do not change from tick to tick: for one layout, the text
// before each number, sorted by family. Made once per layout and format, then only read.
//
// How a series is called is the caller's business (catalogue, dialects): it is asked once per
// series through a Speller. This file knows the syntax of the three formats, nothing else.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/layout.h"
#include "core/spelled_series.h"
#include "wire/exposition/exposition_format.h"

namespace gpulens {

// A number's place: the text before it, and where its value lies.
struct TextLine {
  uint32_t text = 0;       // in LayoutText::arena
  uint32_t text_size = 0;  // ends with the blank before the number
  uint32_t cell = 0;
  uint32_t slot = 0;
  enum As : uint8_t { kDouble, kInt, kStart } as = kDouble;  // kStart: the series' start, `_created`
  bool has_exemplar = false;                                 // the line may carry one
  bool whole = false;                                        // rounded after scaling
  double scale = 1;
};

struct TextFamily {
  std::string name;  // as the TYPE line has it
  std::string header;
  Kind kind;
  uint32_t first_line = 0, lines = 0;
};

// Texts are copied in steps of this many bytes; the arena has as many spare ones at its end.
inline constexpr size_t kTextStep = 32;

struct LayoutText {
  std::string arena;
  std::vector<TextLine> lines;
  std::vector<TextFamily> families;  // by name
  uint64_t type_conflicts = 0;       // series left out since their family has another type here
  uint64_t duplicates = 0;           // lines left out since an equal one comes first

  std::string_view TextOf(const TextLine& line) const noexcept {
    return {arena.data() + line.text, line.text_size};
  }
};

LayoutText SpellLayout(const Layout& layout, ExpositionFormat format, const Speller& speller);

// The HELP, TYPE and UNIT lines of a family, `name` as samples carry it. `family` gets the name as
// the format calls the family.
std::string FamilyHeader(const SpelledSeries& series, ExpositionFormat format, std::string& family);

// A bound as `le` and `quantile` labels show it: "0.5", "1" ("1.0" in OpenMetrics), "+Inf".
void AppendBound(std::string& out, double bound, ExpositionFormat format);

}  // namespace gpulens
