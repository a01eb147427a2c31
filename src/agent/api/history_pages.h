// The pages /api/now and /api/history (docs/api.md), and the pieces of JSON of which /api/live is made, too.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "agent/api/api.h"
#include "base/clock.h"
#include "core/frame.h"
#include "history/history.h"

namespace gpulens {

// What the pages are made from. All of it is thread-safe and outlives the Api.
struct NodeReadings {
  History* history = nullptr;
  std::function<Ref<const Snapshot>()> latest;  // null before the first tick
  const Clock* clock = &RealClock();
  bool simulated = false;              // GPUs are those of --demo
  std::function<Duration()> interval;  // between two ticks
  std::function<bool()> gateway = {};  // whether there is /api/fleet; empty: no
};

void AddNowPage(Api& api, const NodeReadings& readings);
void AddHistoryPage(Api& api, const NodeReadings& readings);

// Makes the message of /api/now. Without `with_series` the list of series is left out.
std::string NowJson(const NodeReadings& readings, const History::Current& current, bool with_series);
// Appends the object that describes a series: {"id":0,"name":…}.
void AppendSeriesJson(std::string& out, const KeptSeries& series);

// Begins the history, and has it observe the latest tick, so that it is not empty.
void BeginHistory(const NodeReadings& readings);

// Reads a time such as 5m or 500ms. kInvalidArgument names the parameter and what is allowed.
Result<int64_t> MillisecondsOf(std::string_view parameter, std::string_view text);

}  // namespace gpulens
