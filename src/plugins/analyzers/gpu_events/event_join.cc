#include "plugins/analyzers/gpu_events/event_join.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "catalog/events.h"

namespace gpulens {
namespace {

// Reports of one happening may be read that late: a log file that is flushed seldom.
constexpr int64_t kMemoryNs = 60'000'000'000;
constexpr std::string_view kSourceKey = "event.source";

// "kmsg+nvml", by name, so that it does not depend on who was first.
std::string Joined(const std::vector<std::string>& sources) {
  std::vector<std::string> sorted = sources;
  std::sort(sorted.begin(), sorted.end());
  std::string out;
  for (const std::string& source : sorted) out += (out.empty() ? "" : "+") + source;
  return out;
}

}  // namespace

EventJoin::Fate EventJoin::Add(Key key, Event event, bool wait, Instant now) {
  std::string source = event.attributes.Text(kSourceKey);
  for (Known& known : known_) {
    bool same = known.key == key && std::abs(known.happened_ns - event.at.boot_ns) <= kWindowNs;
    // One source tells each happening once: told twice, it happened twice.
    if (!same || std::find(known.sources.begin(), known.sources.end(), source) != known.sources.end())
      continue;
    known.sources.push_back(source);
    known.until_ns = now.boot_ns;
    if (known.handed_over) return Fate::kJoined;
    std::string sources = Joined(known.sources);
    AttributeSet both = known.event.attributes.OverlaidOn(event.attributes);
    known.event.attributes = AttributeSet({{kSourceKey, std::string_view(sources)}}).OverlaidOn(both);
    if (!known.event.entity) known.event.entity = event.entity;
    // The line of the kernel says more than a source that has only the code.
    if (event.body.size() > known.event.body.size()) known.event.body = std::move(event.body);
    return Fate::kJoined;
  }
  if (known_.size() >= kMaxKnown) {
    // A flood: the oldest is no longer joined with anything, but it is not lost.
    if (!known_.front().handed_over) single_.push_back(std::move(known_.front().event));
    known_.erase(known_.begin());
  }
  Known added;
  added.key = std::move(key);
  added.happened_ns = event.at.boot_ns;
  added.until_ns = wait ? now.boot_ns + kWindowNs : now.boot_ns;
  added.sources = {std::move(source)};
  added.event = std::move(event);
  known_.push_back(std::move(added));
  return Fate::kNew;
}

void EventJoin::Forget(Instant now) {
  std::erase_if(known_, [&](const Known& known) {
    return known.handed_over && now.boot_ns - known.until_ns > kMemoryNs;
  });
}

void EventJoin::TakeReady(Instant now, std::vector<Event>& out) {
  for (Event& event : single_) out.push_back(std::move(event));
  single_.clear();
  for (Known& known : known_) {
    if (known.handed_over || known.until_ns > now.boot_ns) continue;
    known.handed_over = true;
    out.push_back(std::move(known.event));
    known.event = {};
  }
  Forget(now);
}

bool EventFold::Hold(const Event& event, Instant now) {
  auto equal = std::ranges::find_if(known_, [&](const Known& known) {
    return known.last.name == event.name && known.last.entity == event.entity &&
           known.last.body == event.body && known.last.attributes == event.attributes;
  });
  if (equal == known_.end()) {
    if (known_.size() < kMaxKnown)
      known_.push_back({.last = event, .told = 1, .held = 0, .until_ns = now.boot_ns + kWindowNs});
    return false;
  }
  equal->last.at = event.at;
  if (equal->told < kEach) {
    ++equal->told;
    return false;
  }
  ++equal->held;
  return true;
}

void EventFold::TakeReady(Instant now, std::vector<Event>& out) {
  std::erase_if(known_, [&](Known& known) {
    if (known.until_ns > now.boot_ns) return false;
    if (known.held == 0) return true;
    const auto repeats = static_cast<int64_t>(std::exchange(known.held, 0));
    Event sum = known.last;
    sum.attributes = AttributeSet({{kEventRepeats, repeats}}).OverlaidOn(sum.attributes);
    out.push_back(std::move(sum));
    known.told = kEach;
    known.until_ns = now.boot_ns + kWindowNs;
    return false;
  });
}

}  // namespace gpulens
