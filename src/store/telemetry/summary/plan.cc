#include "store/telemetry/summary/plan.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace gpulens::telemetry {
namespace {

// The whole spans within [from, to), and beside them, at both ends, narrower ones.
void Cover(std::vector<Plan::Rollups>& out, size_t level, int64_t widest, int64_t from, int64_t to) {
  if (level == kSpans.size() || from >= to) return;
  const int64_t span = kSpans[level];
  const int64_t first = (from + span - 1) / span * span, end = to / span * span;
  if (span > widest || first >= end) return Cover(out, level + 1, widest, from, to);
  Cover(out, level + 1, widest, from, first);
  out.push_back({span, first, end});
  Cover(out, level + 1, widest, end, to);
}

}  // namespace

Plan MakePlan(const TimeRange& range, const RollupState& state, int64_t widest) {
  Plan plan;
  const bool open = std::isinf(range.since) && std::isinf(range.until);
  const bool use = state.there && !state.stale && widest > 0;
  const double since = std::clamp(std::max(range.since, state.floor), 0.0, kLastTime);
  const double until = std::clamp(range.until, 0.0, kLastTime);
  // What is rolled up has a time. Rounded outwards where nothing lies beyond.
  const auto from = static_cast<int64_t>(std::ceil(since / kMinute)) * kMinute;
  const auto to = std::isinf(range.until) ? static_cast<int64_t>(kLastTime)
                                          : static_cast<int64_t>(std::floor(until / kMinute)) * kMinute;
  if (!use || from >= to) {
    plan.rows.push_back({.since = range.since, .until = range.until, .last = true, .any_time = open});
    return plan;
  }
  Cover(plan.rollups, 0, widest, from, to);
  const auto begin = static_cast<double>(from), end = static_cast<double>(to);
  if (range.since < begin && begin > 0) plan.rows.push_back({.since = range.since, .until = begin});
  if (range.until >= end && end < kLastTime)
    plan.rows.push_back({.since = end, .until = range.until, .last = true});
  plan.rows.push_back({.since = begin, .until = end, .above = state.covered, .any_time = open && begin <= 0});
  return plan;
}

}  // namespace gpulens::telemetry
