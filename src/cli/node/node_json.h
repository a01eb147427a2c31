// Reads the pages /api/now, /api/history and /api/events (docs/api.md) into plain structs, for the commands
// that show a node. Pages of another program or of a newer agent are data from outside: members that are not
// known are left out, and there are limits.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gpulens/status.h>

#include "core/attribute_set.h"
#include "history/series_window.h"

namespace gpulens {

inline constexpr size_t kMostNodeSeries = 200'000;
inline constexpr size_t kMostNodeSamples = 4'000'000;
inline constexpr size_t kMostNodeEvents = 10'000;

// The latest value of a series, by its id.
struct NodeValue {
  uint32_t id = 0;
  double value = 0;
  int64_t stale_ms = 0;  // age of a stale value before the last reading of its source; 0: not stale
};

// The page /api/now.
struct NodeNow {
  AttributeSet node;  // host.name and other attributes of all data
  std::string version;
  bool simulated = false;
  int64_t at_ms = 0;  // the tick
  uint64_t tick = 0;
  double interval_s = 0;  // 0: not known
  uint64_t layout = 0;
  double history_s = 0;                               // what the history keeps; 0: not known
  int64_t history_begin_ms = 0;                       // its oldest sample; 0: none
  std::optional<std::vector<KeptSeries>> series;      // nothing: the layout is the one that was known
  std::vector<std::pair<std::string, int64_t>> read;  // when each source was last read
  std::vector<NodeValue> values;                      // sorted by id; a series without one is absent
};

// The page /api/history. Either samples or, with a step, steps.
struct NodeHistory {
  int64_t from_ms = 0, to_ms = 0;
  int64_t begin_ms = 0;                // of the oldest sample that is kept; 0: none
  double step_s = 0;                   // 0: samples
  std::vector<SeriesWindow> series;    // without samples where there are steps
  std::vector<SteppedSeries> stepped;  // of series[i]; a statistic that the page lacks is empty
};

// An element of /api/events, newest first.
struct NodeEvent {
  int64_t at_ms = 0;
  std::string name, severity, body;
  AttributeSet attributes;
};

// kDataLoss: invalid JSON, or another page. kExhausted: over a limit.
Result<NodeNow> ParseNodeNow(std::string_view json);
Result<NodeHistory> ParseNodeHistory(std::string_view json);
Result<std::vector<NodeEvent>> ParseNodeEvents(std::string_view json);

// A target of /api/history: name=value pairs, escaped.
std::string NodeTarget(std::string_view path,
                       const std::vector<std::pair<std::string_view, std::string>>& parameters);

}  // namespace gpulens
