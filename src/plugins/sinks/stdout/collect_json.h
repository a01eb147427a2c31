// The JSON form of the stdout sink: one array on one line per tick, an element per entity of a collector.
//
//   [{"schema":"gpulens.collect/1","collector":"nvidia","read_at":"2026-11-21T02:14:09.120Z",
//     "duration_s":0.0148,"entity_type":"gpu","entity":{"gpu.index":0},
//     "readings":[{"name":"gpu.power.draw","unit":"W","value":612.3,"quality":"ok","age_s":0.011}],
//     "absent":[{"name":"gpu.fan.speed","unit":"1","reason":"not_read"}]}]
//
// Between `duration_s` and `entity_type` stands `"resource":{…}` where the snapshot has one.
// `duration_s` is left out where it is not known, `attributes` of a reading where it adds none. A reading
// under another dialect's name is a reading of its own, beside the native one.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "core/frame.h"
#include "core/named_series.h"
#include "core/series_finder.h"
#include "export/sink_names.h"
#include "plugins/sinks/stdout/entity_groups.h"
#include "wire/per_layout.h"

namespace gpulens {

// Not thread-safe. What the agent says of itself is left out.
class CollectJson {
 public:
  // `gpus_only`: entities that are no GPU and no part of one are left out, and so are processes; a GPU is one
  // element, whoever read it, under the name of the first.
  // `names`: how series are told; those of OpenTelemetry with their dots.
  CollectJson(bool gpus_only, const SinkNames& names);
  // Appends the line with its newline.
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
  // The readings of a series: its own, and one for each other name.
  void NameReading(const SeriesInfo& info, const EntityReading& reading, const EntityGroup& from,
                   Group& group) const;
  static void AddReading(Reading reading, std::vector<AttributeSet::Attribute> extra, const EntityGroup& from,
                         Group& group);
  std::string HeadOf(const SnapshotEntry& entry, const Snapshot& snapshot);
  const Groups& GroupsOf(const SnapshotEntry& entry);
  // The group of the same GPU in another frame; null when it has none, or frames are not joined.
  const Group* SameIn(const SnapshotEntry& entry, const Group& group);
  void AppendGroup(const Group& group, std::span<const SnapshotEntry> entries, Instant now, std::string& out);
  static void AppendReadings(const Group& group, const SnapshotEntry& entry, Instant now, bool& any,
                             std::string& out);
  static void AppendAbsent(const Group& group, const SnapshotEntry& entry, bool& any, std::string& out);

  const bool gpus_only_;
  const bool native_, others_;  // which names are told
  const SeriesNamer namer_;
  const AttributeFilter attribute_filter_;
  SeriesFinder durations_;
  PerLayout<Groups> groups_;
};

// The source whose frame says how the agent itself does.
inline constexpr std::string_view kSelfSource = "gpulens";

}  // namespace gpulens
