// Snapshots to one JSON object: every family with its series, for people and programs that do not read
// the exposition formats.
//
//   {"schema":"gpulens.json/1", …members…, "tick":7,"last_update_ms":1711800000000,"resource":{…},
//    "metrics":{"gpu.power.draw":{"kind":"gauge","unit":"W","help":"…","names":["gpu_power_draw_watts"],
//      "series":[{"attributes":{"gpu.index":0},"source":"nvidia","value":612.3,"quality":"ok","age_s":0.011}],
//      "absent":[{"attributes":{"gpu.index":1},"source":"nvidia","reason":"not_supported"}]}}}
//
// `names` are those under which /metrics shows the family. Families are keyed by their own names; one that
// has series but no value now has an empty list. `absent`, which is left out where nothing is, holds the
// series without a value, and why when that is known. A series whose kind or unit is not that of its family
// (two sources may use the same name) carries its own. Nothing is merged away: two sources of one series
// are two elements.
//
// No I/O. Objects are for one user; not thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/frame.h"
#include "core/named_series.h"
#include "core/series_finder.h"
#include "wire/per_layout.h"

namespace gpulens {

// Between layout changes a page is the same text with other numbers, so a steady Render copies prepared
// bytes and formats numbers.
class JsonSnapshot {
 public:
  // `namer` gives the `names`, `attribute_filter` selects the exported series and their attributes.
  explicit JsonSnapshot(SeriesNamer namer, AttributeFilter attribute_filter = {})
      : namer_(std::move(namer)), attribute_filter_(std::move(attribute_filter)) {}

  // Families that are there even when nothing feeds them, unless another one has their name among its
  // `names`.
  void AlwaysShow(std::vector<NamedSeries> families);

  // Writes the object to `out` (cleared first). `members` is JSON text that is put into it, `"a":1,"b":2`;
  // may be empty.
  void Render(const Snapshot& snapshot, std::string_view members, std::string& out);

 private:
  struct Line {
    uint32_t text = 0, text_size = 0;  // in LayoutText::arena: `{"attributes":{…},`
    uint32_t slot = 0;
    bool only_if_set = false;
  };
  struct Family {
    std::string name, head;  // `"kind":"gauge","unit":"W",`, then the help
    std::string own;         // the part of `head` before the help
    std::vector<std::string> names;
    uint32_t first_line = 0, lines = 0;
  };
  struct LayoutText {
    std::string arena;
    std::vector<Line> lines;
    std::vector<Family> families;  // by name
  };
  // Series of one family from one frame, with the text before and in each of them.
  struct Segment {
    std::string before;  // up to the first series of the family; empty when it goes on
    std::string source;  // `"source":"nvidia",` and what differs from the family
    const LayoutText* text = nullptr;
    uint32_t frame = 0, first = 0, count = 0;
  };
  class Planner;

  LayoutText MakeNames(const Layout& layout) const;
  void Plan(const Snapshot& snapshot);
  enum class Which { kValued, kAbsent };
  // The text before the next series of a list: nothing is in it yet, or something is.
  static constexpr const char *kFirst = "\n", *kNext = ",\n";
  // One family: the segments from `first` on up to the next that begins another one. Returns that one.
  size_t RenderFamily(size_t first, const Snapshot& snapshot, std::string& out) const;
  // The series of a segment that have a value, or those that have none. `before` is written before the first
  // of them; returns what precedes the next.
  const char* RenderSegment(const Segment& segment, const Snapshot& snapshot, Which which, const char* before,
                            std::string& out) const;

  const SeriesNamer namer_;
  const AttributeFilter attribute_filter_;
  std::vector<NamedSeries> always_;
  PerLayout<LayoutText> texts_;
  PlannedFrames planned_;
  std::vector<Segment> segments_;
  std::string end_;
};

// Memory of processes on GPUs by the key of the zernel API, "<pid>:<gpu index>": the process's attribute
// is process.pid, the GPU's gpu.index. Where several series have one key, the first counts.
class MemoryByProcess {
 public:
  struct Bytes {
    std::optional<int64_t> current, peak;
  };

  MemoryByProcess(const MetricDesc& used, const MetricDesc& peak) : used_(used), peak_(peak) {}
  std::map<std::string, Bytes> Of(const Snapshot& snapshot);

 private:
  SeriesFinder used_, peak_;
};

}  // namespace gpulens
