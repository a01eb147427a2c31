// What the families on an engine's page mean: tables of rows, one per engine, that one collector reads.
//
// The rows stand in tables/*.tsv, one family and one meaning a line:
//
//   family    as TYPE names it in the text format 0.0.4, `_total` of counters included; a `*` at its end
//             or its beginning stands for any text. Several rows of one family have several meanings, or
//             are for several label values.
//   type      what TYPE says; "histogram|gauge" where versions differ. Another one on the page is drift.
//   labels    what happens to labels, separated by commas:
//               name>attribute             becomes this attribute …
//               name>attribute(a:b c*:d)   … and this value other than `a`, those that begin with `c`
//               name=value                 the row is only for series with this value (name= without one)
//               name?value                 others are left out while one with this value is on the page
//               name~value                 this value is left out while another one is on the page
//               +attribute=value           is added
//               name!                      personal: dropped, and what it told apart is combined
//             Any other label stays an attribute by its own name.
//   unit      of the numbers on the page
//   role      what it means, a name of catalog/inference.def without kInference:
//               Role          the family is the role
//               Role:sum      this counter is the sum of a histogram without buckets …
//               Role:count    … this one its count
//               Role:count@count   … the count of this histogram is its count
//               Role@sum, Role@count   the sum or count of this histogram is that counter
//               pass          no meaning of its own: shown as it is where raw families are asked for
//               ignore        dropped; the note says why
//   scale     from the page's unit to the role's; on a histogram it is applied to bounds and sum.
//             label:NAME: the number is in that label. names:NAME: as many as the label has names.
//   alias_of  another name of the same observations: while that one is on the page, this one is passed over
//   since, until, note   for people
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "core/metric_desc.h"
#include "wire/exposition/exposition_parser.h"

namespace gpulens::engine_page {

// How a family's numbers become those of its role.
enum class Use : uint8_t {
  kPass,
  kIgnore,
  kSame,           // the family is the role
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
  Use use = Use::kPass;
  const MetricDesc* metric = nullptr;  // of the role; null for kPass and kIgnore
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
  std::string_view recognised;  // prefixes of families that only it has, blanks between
  std::string_view reads;       // an engine whose families are this one's, too; mostly empty
  // An engine that a page of this one is not, though families of it begin as that one's: a router that
  // shows what it knows of its engines under their names. Their sum would count each request twice.
  std::string_view instead_of;
  std::span<const EngineRow> rows;
};

// Families of this prefix are read as those of the other one.
struct Prefix {
  std::string_view prefix, stands_for;
};

// Static storage, all of it; thread-safe.
std::span<const Engine> AllEngines() noexcept;
const Engine* FindEngine(std::string_view name) noexcept;  // null for an unknown name
std::span<const EngineRow> CommonRows() noexcept;          // families that any page may have
std::span<const Prefix> AllPrefixes() noexcept;

// The rows of one family: they stand together. `family` may be spelt with or without `_total`, and with a
// prefix that stands for another one. Empty: the engine does not know it.
std::span<const EngineRow> RowsOf(const Engine& engine, std::string_view family) noexcept;
std::span<const EngineRow> CommonRowsOf(std::string_view family) noexcept;

// A counter's TYPE line has `_total` in one format and not in the other.
constexpr std::string_view WithoutTotal(std::string_view family) noexcept {
  constexpr std::string_view kTotal = "_total";
  if (family.ends_with(kTotal)) family.remove_suffix(kTotal.size());
  return family;
}

// The name under which tables have it.
std::string CanonicalFamily(std::string_view family);

}  // namespace gpulens::engine_page
