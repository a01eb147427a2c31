#include "plugins/analyzers/gpu_events/event_join.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "catalog/codes/codes.h"
#include "catalog/events.h"

namespace gpulens {
namespace {

// A report may come that late: from a log file that is flushed seldom.
constexpr int64_t kMemoryNs = 60'000'000'000;
constexpr std::string_view kSourceKey = "event.source";

// "kmsg+nvml": sorted, so that it does not depend on the order.
std::string Joined(const std::vector<std::string>& sources) {
  std::vector<std::string> sorted = sources;
  std::sort(sorted.begin(), sorted.end());
  std::string out;
  for (const std::string& source : sorted) out += (out.empty() ? "" : "+") + source;
  return out;
}

constexpr int64_t kContained = 94, kUncontained = 95;
// The NVLink error of all generations, and those of the units of an NVLink 5 port.
constexpr int64_t kLink = 74, kFirstOfPort = 144, kLastOfPort = 150;

std::string WhatOf(const Event& event) {
  return std::string(event.name) + ' ' + event.attributes.Text("gpu.poison.result");
}

constexpr std::pair<std::string_view, EventSeverity> kSeverityWords[] = {
    {"info", EventSeverity::kInfo},         {"warning", EventSeverity::kWarning},
    {"error", EventSeverity::kError},       {"fatal", EventSeverity::kFatal},
    {"corrected", EventSeverity::kWarning}, {"correctable", EventSeverity::kWarning},
    {"deferred", EventSeverity::kError},    {"recoverable", EventSeverity::kError},
    {"nonfatal", EventSeverity::kError},    {"non_fatal", EventSeverity::kWarning},
};
// Attributes with a severity of the source.
constexpr std::string_view kSeverityKeys[] = {"nvswitch.sxid.severity", "gpu.ras.severity",
                                              "gpu.pcie.aer.severity", "host.error.severity"};

EventSeverity SeverityOf(std::string_view word) noexcept {
  for (auto [name, severity] : kSeverityWords) {
    if (name == word) return severity;
  }
  return EventSeverity::kUnset;
}

// The facts of an event's code; null without a code, or for one that no table has.
const CodeFacts* FactsOf(const Event& event) {
  constexpr int64_t kNone = -1;
  if (event.name == kEventGpuDriverFault.name) return FindMessage(event.attributes.Text("gpu.driver.fault"));
  bool xid = event.name == kEventGpuXid.name, sxid = event.name == kEventNvswitchSxid.name;
  if (!xid && !sxid) return nullptr;
  AttributeSet::Value value = event.attributes.Find(xid ? "gpu.xid.code" : "nvswitch.sxid.code", kNone);
  const int64_t* code = std::get_if<int64_t>(&value);
  if (!code) return nullptr;
  return xid ? FindXid(*code) : FindSxid(*code);
}

}  // namespace

EventJoin::Outcome EventJoin::Add(Key key, Event event, bool wait, Instant now) {
  std::string source = event.attributes.Text(kSourceKey);
  for (Pending& pending : pending_) {
    bool same = pending.key == key && std::abs(pending.happened_ns - event.at.boot_ns) <= kWindowNs;
    // A source reports each event once: two reports are two events.
    if (!same || std::find(pending.sources.begin(), pending.sources.end(), source) != pending.sources.end())
      continue;
    pending.sources.push_back(source);
    pending.until_ns = now.boot_ns;
    if (pending.handed_over) return Outcome::kJoined;
    std::string sources = Joined(pending.sources);
    AttributeSet both = pending.event.attributes.OverlaidOn(event.attributes);
    pending.event.attributes = AttributeSet({{kSourceKey, std::string_view(sources)}}).OverlaidOn(both);
    if (!pending.event.entity) pending.event.entity = event.entity;
    // The kernel's line has more than a source with the code alone.
    if (event.body.size() > pending.event.body.size()) pending.event.body = std::move(event.body);
    return Outcome::kJoined;
  }
  if (pending_.size() >= kMaxPending) {
    // The oldest is no longer joined, but not lost.
    if (!pending_.front().handed_over) evicted_.push_back(std::move(pending_.front().event));
    pending_.erase(pending_.begin());
  }
  Pending added;
  added.key = std::move(key);
  added.happened_ns = event.at.boot_ns;
  added.until_ns = wait ? now.boot_ns + kWindowNs : now.boot_ns;
  added.sources = {std::move(source)};
  added.event = std::move(event);
  pending_.push_back(std::move(added));
  return Outcome::kNew;
}

void EventJoin::TakeReady(Instant now, std::vector<Event>& out) {
  for (Event& event : evicted_) out.push_back(std::move(event));
  evicted_.clear();
  for (Pending& pending : pending_) {
    if (pending.handed_over || pending.until_ns > now.boot_ns) continue;
    pending.handed_over = true;
    out.push_back(std::move(pending.event));
    pending.event = {};
  }
  std::erase_if(pending_, [&](const Pending& pending) {
    return pending.handed_over && now.boot_ns - pending.until_ns > kMemoryNs;
  });
}

bool EventFold::Hold(const Event& event, Instant now) {
  auto equal = std::ranges::find_if(groups_, [&](const Group& group) {
    return group.last.name == event.name && group.last.entity == event.entity &&
           group.last.body == event.body && group.last.attributes == event.attributes;
  });
  if (equal == groups_.end()) {
    if (groups_.size() < kMaxGroups)
      groups_.push_back({.last = event, .passed = 1, .held = 0, .until_ns = now.boot_ns + kWindowNs});
    return false;
  }
  equal->last.at = event.at;
  if (equal->passed < kEach) {
    ++equal->passed;
    return false;
  }
  ++equal->held;
  return true;
}

void EventFold::TakeReady(Instant now, std::vector<Event>& out) {
  std::erase_if(groups_, [&](Group& group) {
    if (group.until_ns > now.boot_ns) return false;
    if (group.held == 0) return true;
    const auto repeats = static_cast<int64_t>(std::exchange(group.held, 0));
    Event sum = group.last;
    sum.attributes = AttributeSet({{kEventRepeats, repeats}}).OverlaidOn(sum.attributes);
    out.push_back(std::move(sum));
    group.passed = kEach;
    group.until_ns = now.boot_ns + kWindowNs;
    return false;
  });
}

std::optional<Event> EventFollow::DerivedFrom(const Event& xid) {
  if (xid.name != kEventGpuXid.name) return std::nullopt;
  AttributeSet::Value value = xid.attributes.Find("gpu.xid.code", int64_t{-1});
  const int64_t* code = std::get_if<int64_t>(&value);
  if (!code) return std::nullopt;
  bool poison = *code == kContained || *code == kUncontained;
  bool link = *code == kLink || (*code >= kFirstOfPort && *code <= kLastOfPort);
  if (!poison && !link) return std::nullopt;
  std::string source = xid.attributes.Text("event.source"), bus = xid.attributes.Text(kEventPciBusId);
  std::vector<AttributeSet::Attribute> attributes;
  if (!source.empty()) attributes.push_back({"event.source", std::string_view(source)});
  if (!xid.entity && !bus.empty()) attributes.push_back({kEventPciBusId, std::string_view(bus)});
  if (poison) {
    std::string_view result = *code == kContained ? "contained" : "uncontained";
    attributes.push_back({"gpu.poison.result", result});
  } else {
    attributes.push_back({"gpu.interconnect.type", std::string_view("nvlink")});
    auto value_of_link = xid.attributes.Find("gpu.interconnect.link_index", int64_t{-1});
    const int64_t* index = std::get_if<int64_t>(&value_of_link);
    if (index && *index >= 0) attributes.push_back({"gpu.interconnect.link_index", *index});
  }
  Event event;
  event.at = xid.at;
  event.name = poison ? kEventGpuPoison.name : kEventGpuInterconnectFailure.name;
  event.entity = xid.entity;
  event.attributes = AttributeSet(std::span<const AttributeSet::Attribute>(attributes));
  event.body = xid.body;
  return event;
}

bool EventFollow::Repeats(const Event& event, std::string_view device, bool derived) {
  bool poison = event.name == kEventGpuPoison.name;
  if (!poison && event.name != kEventGpuInterconnectFailure.name) return false;
  std::string what = WhatOf(event);
  bool repeats = std::any_of(recent_.begin(), recent_.end(), [&](const Recent& recent) {
    return recent.what == what && recent.device == device &&
           std::abs(recent.at_ns - event.at.boot_ns) <= kWindowNs;
  });
  if (!repeats) {
    if (recent_.size() >= kMaxRecent) recent_.erase(recent_.begin());
    recent_.push_back({std::move(what), std::string(device), event.at.boot_ns});
  }
  return repeats && (poison || derived);
}

void AddFacts(Event& event) {
  const CodeFacts* facts = FactsOf(event);
  if (event.name == kEventGpuXid.name) {
    std::vector<AttributeSet::Attribute> more = {
        {"gpu.xid.class", facts ? facts->klass : std::string_view("unknown")}};
    if (facts) more.push_back({"gpu.xid.name", facts->name});
    // A link that the driver calls nonfatal recovers.
    bool recovers = event.attributes.Text("gpu.xid.severity") == "warning";
    if (recovers) more.push_back({"gpu.xid.action", std::string_view("none")});
    else if (facts && facts->action != "unknown") more.push_back({"gpu.xid.action", facts->action});
    event.attributes =
        event.attributes.OverlaidOn(AttributeSet(std::span<const AttributeSet::Attribute>(more)));
    // The message's severity outweighs the usual one of its code: a link error may be fatal or not.
    event.severity = SeverityOf(event.attributes.Text("gpu.xid.severity"));
    if (facts && event.severity == EventSeverity::kUnset) event.severity = SeverityOf(facts->severity);
  }
  for (std::string_view key : kSeverityKeys) {
    if (event.severity == EventSeverity::kUnset && event.attributes.Has(key))
      event.severity = SeverityOf(event.attributes.Text(key));
  }
  if (event.severity == EventSeverity::kUnset && event.name == kEventGpuDriverFault.name && facts)
    event.severity = SeverityOf(facts->severity);
  const EventDesc* row = FindEvent(event.name);
  if (event.severity == EventSeverity::kUnset && row) event.severity = row->severity;
}

std::string LogText(const Event& event) {
  bool coded = event.name == kEventGpuXid.name || event.name == kEventNvswitchSxid.name;
  bool plain = event.name == kEventGpuLost.name || event.name == kEventGpuRas.name ||
               event.name == kEventGpuInterconnectFailure.name || event.name == kEventGpuReset.name;
  if (!coded && !plain) return {};
  std::string index = event.entity ? event.entity->attributes.Text("gpu.index") : "";
  std::string text;
  if (!index.empty()) text = "GPU " + index + ": ";
  else if (event.attributes.Has(kEventPciBusId))
    text = "device " + event.attributes.Text(kEventPciBusId) + ": ";
  else if (event.attributes.Has("nvswitch.id"))
    text = "NVSwitch " + event.attributes.Text("nvswitch.id") + ": ";
  if (plain) {
    const EventDesc* row = FindEvent(event.name);
    return text + std::string(row->help) + (event.body.empty() ? "" : " (" + event.body + ")");
  }
  bool xid = event.name == kEventGpuXid.name;
  text += (xid ? "XID " : "SXid ") + event.attributes.Text(xid ? "gpu.xid.code" : "nvswitch.sxid.code");
  const CodeFacts* facts = FactsOf(event);
  text += facts && !facts->meaning.empty() ? ", " + std::string(facts->meaning) : ", of unknown meaning";
  if (event.attributes.Has("process.pid")) {
    text += "; " + event.attributes.Text("process.executable.name") + " (pid " +
            event.attributes.Text("process.pid") + ")";
  }
  text += '.';
  // The event's own action (of XID 154: the driver's), else the table's.
  std::string own = event.attributes.Text("gpu.xid.action");
  std::string_view action = ActionSentence(!own.empty() ? std::string_view(own) : facts ? facts->action : "");
  return action.empty() ? text + " No source documents what to do." : text + " " + std::string(action);
}

}  // namespace gpulens
