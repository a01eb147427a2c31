// Other people's names for our series: tables, read by one function.
//
// A row is pure per series: from a native row, perhaps only where attributes have given values, to a
// name, a unit, a scale and renamed attributes. Nothing is added up or taken apart. What a label says
// may be known of the series' GPU or host elsewhere in the tick, and a row may give way to a better series
// of the tick (src/names/facts.h).
//
// Static storage; thread-safe.
#pragma once

#include <array>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/metric_desc.h"
#include "core/named_series.h"
#include "names/facts.h"

namespace gpulens {

struct DialectWord {
  std::string_view ours, theirs;
};

struct DialectLabel {
  enum As : uint8_t {
    kPlain,
    kNvmlBusId,  // "0000:0f:00.0" as NVML has it: "00000000:0F:00.0"
  };
  std::string_view label;           // as the page shows it
  std::string_view attribute = {};  // without a value there is no such label
  std::string_view text = {};       // before the value; alone where no attribute is named
  std::string_view then = {};       // a second attribute; it and `join` are left out where it has no value
  std::string_view join = {};       // before the second attribute; alone where none is named
  As as = kPlain;
  std::span<const DialectWord> words = {};  // what a value is called there; one that is not here stays
  bool listed = false;                      // a value that is not among the words gives no label
};

struct DialectWhere {
  std::string_view key = {};
  std::string_view value = {};  // empty: only series without this attribute
};

struct DialectRow {
  const MetricDesc* native;
  std::string_view name, unit, help;
  Kind kind = Kind::kGauge;
  double scale = 1;
  std::span<const DialectLabel> labels = {};
  std::array<DialectWhere, 3> where = {};  // all that have a key must hold
  bool whole = false;                      // theirs is an integer
  // Before `labels`, every attribute of the series as native pages spell it, but this one.
  bool all_attributes = false;
  std::string_view without = {};
  // Behind `labels`, every attribute that none of them has told.
  bool other_attributes = false;
  std::span<const Rival> unless = {};  // left out where the tick has one of these
  // For a dialect over native: the series keeps its native name beside this one.
  bool keep_native = false;
};

// A family that shows HELP and TYPE although nothing feeds it yet.
struct DialectFamily {
  std::string_view name, help;
  Kind kind = Kind::kGauge;
};

struct Dialect {
  std::string_view name, help;
  std::span<const DialectRow> rows;  // a row without a name hides its series in a dialect over native
  std::span<const DialectFamily> families = {};  // those that are always shown, in their order
  // Only series of this vendor's GPUs, as far as the vendor is known. Empty: all.
  std::string_view vendor = {};
  // Labels, `vendor` or `unless` ask for more than the series itself says, so each new tick is looked
  // through.
  bool looks = false;
  // Its names, units and labels are OpenTelemetry's: a page spells them by the rules for native ones.
  bool otel = false;
  // It is native but for its rows: a series without one is spelt as the catalogue does, with `labels`
  // besides. On a page that shows native, too, only its rows are added.
  bool over_native = false;
  std::span<const DialectLabel> labels = {};
  // The same rows as that one's, under other names; a manual shows them once.
  std::string_view renames = {};
};

// "native" is no table: it spells every series by the catalogue's rules, scraped ones verbatim.
inline constexpr std::string_view kNativeDialect = "native";
// The names that configuration may use.
inline constexpr std::string_view kDialectNames[] = {kNativeDialect, "zernel", "dcgm",       "dcgm@4.6",
                                                     "otel_hw",      "l9gpu",  "otel_genai", "zumik"};

// Null for an unknown name, and for "native".
const Dialect* FindDialect(std::string_view name) noexcept;
std::span<const std::string_view> DialectNames() noexcept;

void NameNative(const SeriesInfo& series, std::vector<NamedSeries>& out);

// How OpenTelemetry's names are told: as exposition pages spell them, or as they are, which is for JSON
// and for protocols of its own.
enum class NameForm : uint8_t { kPrometheus, kOtel };

// One speller for a page's dialects, in their order. Unknown names are ignored: configuration has
// refused them. `level` holds for native names alone: rows above it have none; below kAll a state set shows
// the state that holds, and what identifies a GPU besides its UUID and index stands on info rows only.
SeriesNamer MakeSeriesNamer(std::span<const std::string> names, NameForm form = NameForm::kPrometheus,
                            MetricLevel level = MetricLevel::kAll);
// Whether native names show that attribute of a series at that level.
bool ShowsAttribute(const MetricDesc& desc, std::string_view key, MetricLevel level) noexcept;
// The row's name as an exposition page has it.
std::string PrometheusNameOf(const Dialect& dialect, const DialectRow& row);
// The families those dialects always show.
std::vector<NamedSeries> AlwaysShown(std::span<const std::string> names);

}  // namespace gpulens
