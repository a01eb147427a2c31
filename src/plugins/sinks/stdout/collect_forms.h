// Formats of the stdout sink: JSON for programs, a table for people; and what both need: series grouped by
// entity, and numbers in readable units.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/frame.h"
#include "core/layout.h"
#include "core/metric_desc.h"
#include "core/named_series.h"
#include "core/series_finder.h"
#include "export/sink_names.h"
#include "wire/per_layout.h"

namespace gpulens {

// A series of an entity, with the attributes that distinguish it within its family.
struct EntityReading {
  uint32_t slot = 0;
  std::vector<AttributeSet::Attribute> extra;  // lives as long as the layout
};

struct EntityGroup {
  std::string type;                               // "gpu"; empty: the series belong to no entity
  std::vector<AttributeSet::Attribute> known_by;  // sorted by key; lives as long as the layout
  std::vector<AttributeSet::Attribute> own;       // without those of parents and enrichers
  std::vector<EntityReading> readings;            // by family name, then slot
};

// Groups the series of a layout, in order of their first slots. An attribute belongs to the entity when the
// entity or a parent has it, or when the series' family cannot add it (then an enricher did).
std::vector<EntityGroup> GroupByEntity(const Layout& layout);

// Scale of the values of one row or column: one unit, three or four figures, commas for thousands.
struct HumanScale {
  double factor = 1;
  std::string_view unit;  // "GiB"; empty: a plain number
  int decimals = 0;
};

// Returns the scale for values of a family (unit "By", "1", "s", …) with the maximum magnitude `largest`.
HumanScale HumanScaleFor(const MetricDesc& desc, double largest) noexcept;
// Returns "1,755", "71.2", "NaN". Zero has no sign.
std::string HumanNumber(double value, const HumanScale& scale);
// Returns the columns of the text on a terminal: its UTF-8 characters.
size_t DisplayWidth(std::string_view text) noexcept;

// The JSON form of the stdout sink: one array on one line per tick, an element per entity of a collector.
//
//   [{"schema":"gpulens.collect/1","collector":"nvidia","read_at":"2026-11-21T02:14:09.120Z",
//     "duration_s":0.0148,"entity_type":"gpu","entity":{"gpu.index":0},
//     "readings":[{"name":"gpu.power.draw","unit":"W","value":612.3,"quality":"ok","age_s":0.011}],
//     "absent":[{"name":"gpu.fan.speed","unit":"1","reason":"not_read"}]}]
//
// `"resource":{…}` follows `duration_s` where the snapshot has one. Unknown `duration_s` and empty
// `attributes` of a reading are omitted. Each further name of a reading is a reading of its own after the
// native one.
//
// Not thread-safe. Omits the agent's self-metrics.
class CollectJson {
 public:
  // `gpus_only`: writes GPUs and parts of GPUs only; a GPU of several collectors is one element, with the
  // name of the first. `names`: names of series; those of OpenTelemetry with their dots.
  CollectJson(bool gpus_only, const SinkNames& names);
  // Appends a line with its newline.
  void Append(const Snapshot& snapshot, std::string& out);

 private:
  struct Reading {
    uint32_t slot = 0;
    std::string text;  // `{"name":"…","unit":"…"` and perhaps attributes
    double scale = 1;
    bool whole = false;  // after scaling
  };
  struct Group {
    std::string entity;  // `"entity_type":"gpu","entity":{…}`
    std::vector<Reading> readings;
  };
  using Groups = std::vector<Group>;

  Groups MakeNames(const Layout& layout) const;
  // Adds the readings of a series: its own, and one for each other name.
  void NameReading(const SeriesInfo& info, const EntityReading& reading, const EntityGroup& from,
                   Group& group) const;
  static void AddReading(Reading reading, std::vector<AttributeSet::Attribute> extra, const EntityGroup& from,
                         Group& group);
  std::string HeadOf(const SnapshotEntry& entry, const Snapshot& snapshot);
  const Groups& GroupsOf(const SnapshotEntry& entry);
  // Returns the group of the same GPU in another frame; null when it has none, or frames are not joined.
  const Group* SameIn(const SnapshotEntry& entry, const Group& group);
  void AppendGroup(const Group& group, std::span<const SnapshotEntry> entries, Instant now, std::string& out);
  static void AppendReadings(const Group& group, const SnapshotEntry& entry, Instant now, bool& any,
                             std::string& out);
  static void AppendAbsent(const Group& group, const SnapshotEntry& entry, bool& any, std::string& out);

  const bool gpus_only_;
  const bool native_, others_;  // which names are written
  const SeriesNamer namer_;
  const AttributeFilter attribute_filter_;
  SeriesFinder durations_;
  PerLayout<Groups> groups_;
};

// The source of the agent's self-metrics.
inline constexpr std::string_view kSelfSource = "gpulens";

// The table form of the stdout sink, for people: a block per collector and entity type, a row per series with
// its unit, a column per entity. It may change; programs read the JSON form.
//
//   gpu (nvidia) by gpu.index         0     1
//     gpu.power.draw          W     612   598~
//     gpu.temperature hotspot °C     71     –
//
//   2026-11-21T02:14:09.120Z: 2 entities, 3 readings, 1 of them stale (~), 1 absent (–)
//
// Not thread-safe. Omits the agent's self-metrics.
class CollectTable {
 public:
  // Blocks with more columns than fit into `width` are wrapped.
  explicit CollectTable(size_t width = 110) : width_(width) {}
  void Append(const Snapshot& snapshot, std::string& out);

 private:
  struct Counts {
    size_t entities = 0, readings = 0, stale = 0, absent = 0;
  };
  void AppendFrame(const SnapshotEntry& entry, const std::vector<EntityGroup>& groups, Counts& counts,
                   std::string& out) const;

  const size_t width_;
  PerLayout<std::vector<EntityGroup>> groups_;
};

}  // namespace gpulens
