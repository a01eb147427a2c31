// Snapshots as JSON, as one object or as a line for each value, and events. Not thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/frame.h"
#include "core/named_series.h"
#include "core/series_finder.h"
#include "wire/per_layout.h"

namespace gpulens {

// Writes snapshots as one JSON object: every family with its series, for people and programs that do not read
// the exposition formats.
//
//   {"schema":"gpulens.json/1", …members…, "tick":7,"last_update_ms":1711800000000,"resource":{…},
//    "metrics":{"gpu.power.draw":{"kind":"gauge","unit":"W","help":"…","names":["gpu_power_draw_watts"],
//      "series":[{"attributes":{"gpu.index":0},"source":"nvidia","value":612.3,"quality":"ok","age_s":0.011}],
//      "absent":[{"attributes":{"gpu.index":1},"source":"nvidia","reason":"not_supported"}]}}}
//
// `names` are those under which /metrics shows the family. Families are keyed by their own names; one whose
// series have no value now has an empty list. `absent`, which is left out when empty, has the series without
// a value, and the reason when it is known. A series whose kind or unit is not that of its family (two
// sources may use the same name) has its own. Two sources of one series are two elements.
//
// Between layout changes a page is the same text with other numbers, so a steady Render copies prepared bytes
// and formats numbers.
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

// Summaries of one row by the value of an attribute; by "" without one. Quantiles are those of 0.5 and 0.99,
// NaN where nothing was observed lately.
class SummaryByKey {
 public:
  struct Numbers {
    double p50 = 0, p99 = 0, sum = 0, count = 0;
  };

  SummaryByKey(const MetricDesc& summary, std::string_view key) : finder_(summary), key_(key) {}
  std::map<std::string, Numbers> Of(const Snapshot& snapshot);

 private:
  SeriesFinder finder_;
  const std::string_view key_;
};

// Writes readings as complete lines of JSON:
//
//   {"ts":"2026-11-21T02:14:09.120Z","name":"gpu.power.draw","unit":"W","source":"nvidia",
//    "attributes":{"gpu.index":0},"value":612.3}
//
// (on one line). `ts` is the time at which the value was read. A reading is written once: values of
// collectors that did not run since, and stale ones, are not repeated. Resource attributes come first among
// the attributes; those of the series take precedence.
class JsonLines {
 public:
  // Writes the catalogue's names.
  JsonLines() = default;
  // Writes the names that `namer` gives, for example those of OpenTelemetry.
  explicit JsonLines(SeriesNamer namer) : namer_(std::move(namer)) {}

  // Appends a line for each value read since the last Commit.
  void Append(const Snapshot& snapshot, std::string& out);
  // Marks the values of the last Append as delivered: they are not written again.
  void Commit();

 private:
  struct Line {
    uint32_t slot = 0;
    double scale = 1;
    bool whole = false;
    bool only_if_set = false;
    uint32_t text = 0, text_size = 0;  // in LayoutLines::arena: `","name":…,"attributes":{…},`
  };
  struct LayoutLines {
    std::string arena;
    std::vector<Line> lines;
  };
  struct Run {
    uint64_t run = 0;
    int64_t read_at_ns = 0;
    friend bool operator==(const Run&, const Run&) = default;
  };

  LayoutLines MakeNames(const Layout& layout, std::string_view source) const;
  void AddLine(const SeriesInfo& info, const NamedSeries& named, std::string_view source, Line line,
               LayoutLines& text) const;

  std::optional<SeriesNamer> namer_;
  AttributeSet resource_;
  PerLayout<LayoutLines> texts_;
  std::map<std::string, Run, std::less<>> written_, appended_;  // by source
};

// An event as a line of JSON, the same in every sink:
//
//   {"ts":"2026-11-21T02:14:09.120Z","type":"event","name":"gpu.xid","severity":"fatal","body":"NVRM: Xid …",
//    "attributes":{"gpu.xid.code":79},"entity_type":"gpu","entity":{"gpu.index":3},"resource":{"host.name":"n1"}}
//
// (on one line). `type` distinguishes it from a reading. Without an entity, or a resource, its members are
// left out. Appended without a newline; valid JSON whatever the texts are.
void AppendJsonEvent(std::string& out, const Event& event, const AttributeSet& resource);

// Each event on a line.
void AppendJsonEvents(std::string& out, const Events& events);

}  // namespace gpulens
