// Samples of one series over a time: what the history returns, and what the page, `gpulens top`, `why`,
// `trace` and `mcp` are made of. Plain values, without locks.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gpulens/status.h>

#include "base/clock.h"
#include "core/attribute_set.h"
#include "core/metric_desc.h"

namespace gpulens {

struct SeriesSample {
  enum Mark : uint8_t {
    kOk,
    kStale,  // the last good value; a newer one was expected by now
    kGap,    // unknown from here to the next sample; `value` is kNotMeasured
  };
  int64_t unix_ms = 0;  // when the source read it; of a gap, the first tick without a value
  double value = 0;
  Mark mark = kOk;
  bool reset = false;  // a counter began again: its difference to the sample before means nothing
};

struct KeptSeries {
  uint32_t id = 0;  // never used again while the agent runs
  std::string name, unit;
  Kind kind = Kind::kGauge;
  AttributeSet attributes;
  std::string source;  // the collector's or analyzer's instance: "nvidia", "targets/chat-a"
  Duration period{};   // between two readings; 0: not known
};

// `samples` are in the order of time. The first may be older than the window: the last one before it, so that
// the value at the window's begin is known.
struct SeriesWindow {
  KeptSeries series;
  std::vector<SeriesSample> samples;
};

// Selects series by name, and by attributes whose values, as text, are equal.
struct SeriesSelector {
  std::string name;
  std::vector<std::pair<std::string, std::string>> attributes;

  bool Matches(std::string_view series_name, const AttributeSet& set) const;
};

// Parses `gpu.power.draw` or `gpu.power.draw{gpu.index="0",gpu.model="H100"}`; in a value \" and \\ are
// escapes. At most 16 attributes. kInvalidArgument names what is wrong.
Result<SeriesSelector> ParseSelector(std::string_view text);

// A series in equal steps. Each list has one value a step, or none at all; kNotMeasured where nothing is
// known. A step is [start + i * step, start + (i + 1) * step). A step without a sample has the value before,
// as long as that holds.
struct SteppedSeries {
  int64_t start_ms = 0, step_ms = 0;
  std::vector<double> min, avg, max;  // of the samples within the step; not of counters
  std::vector<double> last;
  std::vector<double> rate;    // of counters: increase per second
  std::vector<uint8_t> stale;  // 1 where every value of the step is stale
};

// Reduces a window to steps from `from_ms` to `to_ms`. The average weights samples by the time for which they
// were the latest. The increase between two samples that are not stale is spread over the time between them;
// from a sample to a reset it is not known, and counts for nothing. The last sample holds for two periods.
SteppedSeries ToSteps(const SeriesWindow& window, int64_t from_ms, int64_t to_ms, int64_t step_ms);

}  // namespace gpulens
