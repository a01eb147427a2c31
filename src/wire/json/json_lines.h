// Readings as lines of JSON, one line each, each whole in itself:
//
//   {"ts":"2026-11-21T02:14:09.120Z","name":"gpu.power.draw","unit":"W","source":"nvidia",
//    "attributes":{"gpu.index":0},"value":612.3}
//
// (on one line). `ts` is when the value was read. A reading is written once: values that only ride along
// until their collector runs again, and stale ones, are not repeated. Resource attributes come first
// among the attributes; a series' own win.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/frame.h"
#include "core/named_series.h"
#include "wire/per_layout.h"

namespace gpulens {

// Not thread-safe.
class JsonLines {
 public:
  // Under the catalogue's names.
  JsonLines() = default;
  // Under the names of `speller`, as OpenTelemetry has them.
  explicit JsonLines(SeriesNamer namer) : namer_(std::move(namer)) {}

  // Appends a line for each value read since the last Commit.
  void Append(const Snapshot& snapshot, std::string& out);
  // What was appended last has arrived: it is not written again.
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
  void AddLine(const SeriesInfo& info, const NamedSeries& told, std::string_view source, Line line,
               LayoutLines& text) const;

  std::optional<SeriesNamer> namer_;
  AttributeSet resource_;
  PerLayout<LayoutLines> texts_;
  std::map<std::string, Run, std::less<>> written_, appended_;  // by source
};

// "info", "warning", "error", "fatal"; "unset".
std::string_view JsonSeverityName(EventSeverity severity) noexcept;

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
