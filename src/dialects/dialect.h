// Other people's names for our series: tables, read by one function.
//
// A row is pure per series: from a native row, perhaps only where an attribute has a value, to a
// name, a unit, a scale and renamed attributes. Static storage; thread-safe.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "core/metric_desc.h"
#include "core/spelled_series.h"

namespace gpulens {

struct DialectLabel {
  std::string_view label;      // as the page shows it
  std::string_view attribute;  // of the native series; a series without it has no such label
};

struct DialectRow {
  const MetricDesc* native;
  std::string_view name, unit, help;
  Kind kind = Kind::kGauge;
  double scale = 1;
  std::span<const DialectLabel> labels = {};
  std::string_view where_key = {}, where_value = {};  // only series with this attribute value
};

// A family that shows HELP and TYPE although nothing feeds it yet.
struct DialectFamily {
  std::string_view name, help;
  Kind kind = Kind::kGauge;
};

struct Dialect {
  std::string_view name, help;
  std::span<const DialectRow> rows;
  std::span<const DialectFamily> families;  // all of them, in the order they are documented
};

// "native" is no table: it spells every series by the catalogue's rules, scraped ones verbatim.
inline constexpr std::string_view kNativeDialect = "native";

// Null for an unknown name, and for "native".
const Dialect* FindDialect(std::string_view name) noexcept;
// The names that configuration may use, native first.
std::span<const std::string_view> DialectNames() noexcept;

void SpellNative(const SeriesInfo& series, std::vector<SpelledSeries>& out);
void SpellDialect(const Dialect& dialect, const SeriesInfo& series, std::vector<SpelledSeries>& out);

// One speller for a sink's dialects, in their order. Unknown names are ignored: configuration has
// refused them.
Speller MakeSpeller(std::span<const std::string> names);
// The families those dialects always show.
std::vector<SpelledSeries> AlwaysShown(std::span<const std::string> names);

}  // namespace gpulens
