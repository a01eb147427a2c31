// The table form of the stdout sink, for eyes: a block per collector and entity type, a row per series,
// a column per entity; the unit stands once in each row. It may change; programs read the JSON form.
//
//   gpu (nvidia) by gpu.index         0     1
//     gpu.power.draw          W     612   598~
//     gpu.temperature hotspot °C     71     –
//
//   2026-11-21T02:14:09.120Z: 2 entities, 3 readings, 1 of them stale (~), 1 absent (–)
#pragma once

#include <string>
#include <vector>

#include "core/frame.h"
#include "plugins/sinks/stdout/entity_groups.h"
#include "wire/per_layout.h"

namespace gpulens {

// Not thread-safe. What the agent says of itself is left out.
class CollectTable {
 public:
  // Blocks with more columns than fit into `width` go on below.
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
