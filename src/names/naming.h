// Names of other projects for native metrics: tables of rows, applied to the series of a page.
//
// A row maps series of a native metric, perhaps only those with given attribute values, to a name, a unit, a
// scale and renamed attributes. Nothing is added up or split. Static storage; thread-safe, unless noted.
#pragma once

#include <array>
#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/frame.h"
#include "core/metric_desc.h"
#include "core/named_series.h"

namespace gpulens {

// Selects series that replace another one of the same meaning. Static storage.
struct Rival {
  std::span<const MetricDesc* const> metrics;
  // An attribute of the rival. A series of these metrics that has it has no rival.
  std::string_view key = {}, value = {};
  std::span<const std::string_view> same = {};  // keys with equal values in both; both absent is equal
};

// Attributes of GPUs and hosts that are not on every series, from gpu.info, gpu.mig.info, gpu.driver.info,
// gpulens.scrape.info of all frames and from the resource; and the rivals in a tick. Not thread-safe.
class TickFacts {
 public:
  // Registers rivals for HasRival, before the first Refresh.
  void Watch(std::span<const Rival> rivals);
  // Reads a tick. Returns whether anything changed since the last one.
  bool Refresh(const Snapshot& snapshot);

  // Returns the attribute's value: the series' own, else that of its MIG instance, GPU, driver or host;
  // server.address and server.port are those of its target's page. Empty: unknown.
  std::string Text(const SeriesInfo& series, std::string_view attribute) const;
  // Whether the layouts of the tick have such a rival of the series.
  bool HasRival(const SeriesInfo& series, const Rival& rival) const;

 private:
  struct Facts {
    std::map<std::string, AttributeSet> gpus;     // by uuid, and by "#" and index
    std::map<std::string, AttributeSet> slices;   // by GPU, "/" and MIG instance, "/" and compute instance
    std::map<std::string, AttributeSet> drivers;  // by vendor
    std::map<std::string, AttributeSet> servers;  // by target: server.address, server.port
    AttributeSet resource;
    std::set<std::string> rivals;  // by KeyOf
    friend bool operator==(const Facts&, const Facts&) = default;
  };
  static void AddGpu(const SeriesInfo& info, Facts& facts);
  // The rival and the attributes it has in common with its series.
  static std::string KeyOf(const Rival& rival, const AttributeSet& attributes);
  void AddRivals(const SeriesInfo& info, Facts& facts) const;

  std::vector<const Rival*> watched_;
  Facts facts_;
};

struct NamingWord {
  std::string_view ours, theirs;
};

struct NamingLabel {
  enum As : uint8_t {
    kPlain,
    kNvmlBusId,  // "0000:0f:00.0" as NVML has it: "00000000:0F:00.0"
  };
  std::string_view label;           // as on the page
  std::string_view attribute = {};  // without a value there is no such label
  std::string_view text = {};       // before the value; alone where no attribute is named
  std::string_view then = {};       // a second attribute; it and `join` are left out where it has no value
  std::string_view join = {};       // before the second attribute; alone where none is named
  As as = kPlain;
  std::span<const NamingWord> words = {};  // translations of values; others stay
  bool listed = false;                     // values without a translation give no label
};

struct NamingWhere {
  std::string_view key = {};
  std::string_view value = {};  // empty: only series without this attribute
};

struct NamingRow {
  const MetricDesc* native;
  std::string_view name, unit, help;
  Kind kind = Kind::kGauge;
  double scale = 1;
  std::span<const NamingLabel> labels = {};
  std::array<NamingWhere, 3> where = {};  // all that have a key must hold
  bool whole = false;                     // theirs is an integer
  // Before `labels`: all attributes of the series under their native labels, except this one.
  bool all_attributes = false;
  std::string_view without = {};
  // After `labels`: all attributes that they do not have.
  bool other_attributes = false;
  std::span<const Rival> unless = {};  // left out where the tick has one of these
  // Over native: the series keeps its native name, too.
  bool keep_native = false;
};

// A name for the rows of several metrics.
struct NamingName {
  std::string_view name, unit, help;
  Kind kind = Kind::kGauge;
};
constexpr NamingRow NamedRow(const MetricDesc& native, const NamingName& name) {
  NamingRow row{.native = &native, .name = name.name, .unit = name.unit, .help = name.help};
  row.kind = name.kind;
  return row;
}

// A family whose HELP and TYPE are exported even without series.
struct NamingFamily {
  std::string_view name, help;
  Kind kind = Kind::kGauge;
};

struct MetricNaming {
  std::string_view name, help;
  std::span<const NamingRow> rows;              // over native, a row without a name hides its series
  std::span<const NamingFamily> families = {};  // always exported, in this order
  // Excludes series of GPUs of other vendors. Empty: none.
  std::string_view vendor = {};
  // Labels, `vendor` or `unless` need TickFacts, so each new tick is read.
  bool looks = false;
  // Names, units and labels are OpenTelemetry's: pages translate them as native ones.
  bool otel = false;
  // Series without a row have native names, with `labels` added. On a page with native names only its rows
  // are added.
  bool over_native = false;
  std::span<const NamingLabel> labels = {};
  // The naming with the same rows under other names; the documentation lists them once.
  std::string_view renames = {};
};

// The catalogue's names, without a table; names of scraped series are kept.
inline constexpr std::string_view kNativeNaming = "native";
// The namings that the configuration allows.
inline constexpr std::string_view kNamingNames[] = {kNativeNaming, "zernel", "dcgm",       "dcgm@4.6",
                                                    "otel_hw",     "l9gpu",  "otel_genai", "zumik"};

// Null for an unknown name, and for "native".
const MetricNaming* FindNaming(std::string_view name) noexcept;
std::span<const std::string_view> NamingNames() noexcept;

void NameNative(const SeriesInfo& series, std::vector<NamedSeries>& out);

// The form of OpenTelemetry's names: translated for exposition pages, or unchanged for JSON and OTLP.
enum class NameForm : uint8_t { kPrometheus, kOtel };

// Makes the namer of a page with these namings, in their order. Unknown ones are ignored, as the
// configuration refuses them. `level` limits native names: rows above it have none; below kAll a state set
// has only its current state, and what identifies a GPU, except UUID and index, is only on info rows.
SeriesNamer MakeSeriesNamer(std::span<const std::string> names, NameForm form = NameForm::kPrometheus,
                            MetricLevel level = MetricLevel::kAll);
// Whether series with native names have that attribute at that level.
bool ShowsAttribute(const MetricDesc& desc, std::string_view key, MetricLevel level) noexcept;
// Returns the row's name on an exposition page.
std::string PrometheusNameOf(const MetricNaming& naming, const NamingRow& row);
// Returns the families that those namings always export.
std::vector<NamedSeries> AlwaysShown(std::span<const std::string> names);

}  // namespace gpulens
