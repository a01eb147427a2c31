// Tables of what the families on an engine's page mean, one per engine.
//
// The rows are in tables/*.tsv, one family and one meaning a line:
//
//   family    as TYPE names it in the text format 0.0.4, `_total` of counters included; a `*` at its end
//             or its beginning matches any text. Several rows of one family have several meanings, or
//             are for several label values.
//   type      as TYPE has it; "histogram|gauge" where versions differ. Another one on the page is drift.
//   labels    what happens to labels, separated by commas:
//               name>attribute             becomes this attribute …
//               name>attribute(a:b c*:d)   … with these values replaced; `c*` matches all that begin with `c`
//               name=value                 the row is only for series with this value (name= without one)
//               name?value                 others are left out while one with this value is on the page
//               name~value                 this value is left out while another one is on the page
//               +attribute=value           is added
//               name!                      personal: dropped, and series that become equal are combined
//               @                          the text of the file's line @labels
//             Any other label stays an attribute under its own name.
//   unit      of the numbers on the page
//   role      the meaning, an ENGINE_METRIC of catalog/inference.def without kInference:
//               Role          the family is the metric
//               Role:sum      this counter is the sum of a histogram without buckets …
//               Role:count    … this one its count
//               Role:count@count   … the count of this histogram is its count
//               Role@sum, Role@count   the sum or count of this histogram is that counter
//               pass          no native meaning: exported where raw families are enabled
//               ignore        dropped; the note has the reason
//   scale     from the page's unit to the metric's; on a histogram it is applied to bounds and sum.
//             label:NAME: the number is in that label. names:NAME: the number of names in the label.
//   alias_of  another name of the same observations: while that one is on the page, this one is left out
//   since, until, note   for people
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "core/metric_desc.h"
#include "wire/exposition/exposition_parser.h"

namespace gpulens::engine_page {

// How a family's numbers become those of its metric.
enum class RowUse : uint8_t {
  kPass,
  kIgnore,
  kSame,           // the family is the metric
  kSumOfRole,      // Role:sum
  kCountOfRole,    // Role:count
  kCellCountRole,  // Role:count@count
  kOwnSum,         // Role@sum
  kOwnCount,       // Role@count
  kLabelNumber,    // label:NAME
  kLabelNames,     // names:NAME
};

struct EngineRow {
  std::string_view family;
  uint8_t types = 0;  // bit 1 << ExpositionType
  RowUse use = RowUse::kPass;
  const MetricDesc* metric = nullptr;  // null for kPass and kIgnore
  double scale = 1;
  std::string_view label = {};  // kLabelNumber, kLabelNames
  std::string_view labels = {}, unit = {}, alias_of = {}, since = {}, until = {}, note = {};

  bool Takes(ExpositionType type) const noexcept { return (types >> static_cast<unsigned>(type) & 1u) != 0; }
};

struct Engine {
  std::string_view name;      // "vllm"; inference.engine
  std::string_view layer;     // engine, worker, cache, router, gateway: a sum goes over one of them
  std::string_view provider;  // gen_ai.provider.name
  uint16_t port = 0;
  std::string_view path;        // of its page
  std::string_view recognised;  // prefixes of families that only it has, separated by blanks
  std::string_view reads;       // an engine whose families this one has, too; mostly empty
  // An engine whose prefixes are on this one's page without being its page: a router that exports its
  // engines' numbers under their names. Their sum would count each request twice.
  std::string_view instead_of;
  std::span<const EngineRow> rows;
};

// Families of this prefix are read as those of the other one.
struct EnginePrefix {
  std::string_view prefix, canonical;
};

// Static storage; thread-safe.
std::span<const Engine> AllEngines() noexcept;
const Engine* FindEngine(std::string_view name) noexcept;  // null for an unknown name
std::span<const EngineRow> CommonRows() noexcept;          // families that any page may have
std::span<const EnginePrefix> AllPrefixes() noexcept;

// Returns the rows of one family, which are adjacent. `family` may have `_total` or not, and a prefix that
// means another one. Empty: unknown to the engine.
std::span<const EngineRow> RowsOf(const Engine& engine, std::string_view family) noexcept;
std::span<const EngineRow> CommonRowsOf(std::string_view family) noexcept;

// Removes `_total`, which a counter's TYPE line has in only one of the formats.
constexpr std::string_view WithoutTotal(std::string_view family) noexcept {
  constexpr std::string_view kTotal = "_total";
  if (family.ends_with(kTotal)) family.remove_suffix(kTotal.size());
  return family;
}

// Returns the family's name in the tables.
std::string CanonicalFamily(std::string_view family);

}  // namespace gpulens::engine_page
