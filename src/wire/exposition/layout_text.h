// The parts of an exposition page that do not change from tick to tick: for one layout, the text
// before each number, sorted by family. Made once per layout and format, then only read. Names and label
// sets are in it once, however many lines have them.
//
// Names come from a SeriesNamer, which is called once per series. This file knows the syntax of the three
// formats and the escaping of names, nothing else.
#pragma once

#include <cstdint>
#include <cstring>
#include <deque>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/layout.h"
#include "core/named_series.h"
#include "wire/exposition/exposition_format.h"

namespace gpulens {

// Text that lines of one family share: `name{`, then the labels of each with `} `, or without and then
// `,le="0.5"} `. Texts are places of pieces in LayoutText::arena; the one at 0 is empty.
struct TextStyle {
  enum As : uint8_t { kDouble, kInt, kStart };  // kStart: the series' start, `_created`
  uint32_t name = 0, tail = 0;
  double scale = 1;
  As as = kDouble;
  bool has_exemplar = false;  // the line may carry one
  bool whole = false;         // rounded after scaling
  bool only_if_set = false;   // left out while its value is 0
  bool operator==(const TextStyle&) const = default;
};

// A number's place: the text before it, and where its value lies.
struct TextLine {
  uint32_t labels = 0;  // a piece: label sets of several families are in the arena once
  uint32_t style = 0;
  uint32_t cell = 0;
  uint32_t slot = 0;
};

struct TextFamily {
  std::string name;  // as the TYPE line has it, without quotes
  // The name before escaping, when that changed it: of two names that became one, a page has one family.
  std::string unescaped;
  std::string header;
  Kind kind;
  uint32_t first_line = 0, lines = 0;
};

// Texts are copied in steps of this many bytes; the arena has as many spare ones at its end.
inline constexpr size_t kTextStep = 32;

struct LayoutText {
  std::string arena;  // pieces: their size in four bytes, then the text
  std::vector<TextStyle> styles;
  std::vector<TextLine> lines;
  std::vector<TextFamily> families;  // by name, then by name before escaping
  uint64_t type_conflicts = 0;       // series left out since their family has another type here
  uint64_t duplicates = 0;           // lines left out since an equal one comes first

  uint32_t SizeAt(uint32_t piece) const noexcept {
    uint32_t size;
    std::memcpy(&size, arena.data() + piece, sizeof size);
    return size;
  }
  std::string_view PieceAt(uint32_t piece) const noexcept {
    return {arena.data() + piece + sizeof(uint32_t), SizeAt(piece)};
  }
  size_t SizeOf(const TextLine& line) const noexcept {
    const TextStyle& style = styles[line.style];
    return size_t{SizeAt(style.name)} + SizeAt(line.labels) + SizeAt(style.tail);
  }
  // All before the number; ends with the blank. Clears `out`.
  void TextOf(const TextLine& line, std::string& out) const {
    const TextStyle& style = styles[line.style];
    out.clear();
    for (uint32_t piece : {style.name, line.labels, style.tail}) out += PieceAt(piece);
  }
  size_t memory_bytes() const noexcept {
    return arena.capacity() + styles.capacity() * sizeof(TextStyle) + lines.capacity() * sizeof(TextLine) +
           families.capacity() * sizeof(TextFamily);
  }
};

LayoutText NameLayout(const Layout& layout, PageForm form, const SeriesNamer& namer);

// A family without lines: its names, its kind as the form has it, its HELP, TYPE and UNIT lines.
TextFamily NameFamily(const NamedSeries& series, PageForm form);

// A bound as `le` and `quantile` labels show it: "0.5", "1" ("1.0" in OpenMetrics), "+Inf".
void AppendBound(std::string& out, double bound, ExpositionFormat format);

// Appends `text` with the escapes of help texts and, with `quotes`, of label values, quoted names and the
// help of OpenMetrics. A zero byte becomes U+FFFD.
void AppendEscaped(std::string& out, std::string_view text, bool quotes);

// The labels of a line, `a="1",b="2"`, with names as the page's form has them.
//
// No name is in a set twice, since Prometheus refuses a whole page for that: a name that is there already
// after escaping, that the line adds itself (`le`), or that is reserved (`__name__`) gets `exported_` in
// front, as Prometheus calls labels that clash with a target's. A name that needed no escaping keeps itself.
//
// Not thread-safe. Remembers how names are written.
class LabelText {
 public:
  using Label = std::pair<std::string, std::string>;

  explicit LabelText(PageForm form) : form_(form) {}

  // Appends labels in their order. `taken`: the name that the line adds itself, or empty.
  void Append(std::string& out, std::span<const Label> labels, std::string_view taken = {});

 private:
  struct Name {
    std::string_view shown;  // with its quotes
    bool own = true;         // not escaped
  };

  Name Shown(std::string_view name);
  bool AllApart(std::string_view taken) const;
  void Distinguish(std::string_view taken);

  const PageForm form_;
  std::unordered_map<std::string, std::string> written_;  // of names that need quotes or escaping
  std::vector<Name> names_;                               // of the labels at hand
  std::deque<std::string> apart_;
};

}  // namespace gpulens
