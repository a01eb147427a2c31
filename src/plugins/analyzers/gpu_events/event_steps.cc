#include "plugins/analyzers/gpu_events/event_steps.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "catalog/codes/codes.h"
#include "catalog/gpu.h"
#include "catalog/self.h"

namespace gpulens {
namespace {

// A report may come that late: from a log file that is flushed seldom.
constexpr int64_t kMemoryNs = 60'000'000'000;
constexpr std::string_view kSourceKey = "event.source";

// "kmsg+nvml": sorted, so that it does not depend on the order.
std::string Joined(const std::vector<std::string>& sources) {
  std::vector<std::string> sorted = sources;
  std::ranges::sort(sorted);
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
    if (!same || std::ranges::find(pending.sources, source) != pending.sources.end()) continue;
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
  event.attributes = AttributeSet(attributes);
  event.body = xid.body;
  return event;
}

bool EventFollow::Repeats(const Event& event, std::string_view device, bool derived) {
  bool poison = event.name == kEventGpuPoison.name;
  if (!poison && event.name != kEventGpuInterconnectFailure.name) return false;
  std::string what = WhatOf(event);
  bool repeats = std::ranges::any_of(recent_, [&](const Recent& recent) {
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
    event.attributes = event.attributes.OverlaidOn(AttributeSet(more));
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

namespace {

constexpr std::string_view kGradeNames[] = {"corrected", "deferred", "fatal"};
constexpr int64_t kOther = -1;

int64_t IntOf(const Event& event, std::string_view key, int64_t fallback) {
  AttributeSet::Value value = event.attributes.Find(key, fallback);
  const int64_t* number = std::get_if<int64_t>(&value);
  return number ? *number : fallback;
}

constexpr std::string_view kActionNames[] = {"none",  "restart_app",    "reset_gpu",         "reboot",
                                             "drain", "contact_vendor", "check_mechanicals", "unknown"};
constexpr uint8_t kUnknownAction = 7;
// A reset settles actions up to a reset.
constexpr uint8_t kLastSettledByReset = 2;

uint8_t ActionOf(std::string_view name) noexcept {
  auto at = std::ranges::find(kActionNames, name);
  return at == std::end(kActionNames) ? kUnknownAction : static_cast<uint8_t>(at - std::begin(kActionNames));
}

}  // namespace

void EventCounters::CountXid(PerGpu& gpu, const Event& event) {
  int64_t code = IntOf(event, "gpu.xid.code", 0);
  ++gpu.xids;
  if (event.at.unix_ns >= gpu.last.unix_ns) gpu.last = {event.at.unix_ns, code};
  auto find = [&](int64_t value) { return std::ranges::find(gpu.codes, value, &CodeCount::code); };
  auto at = find(code);
  if (at == gpu.codes.end()) {
    // The last one is for all others.
    if (gpu.codes.size() + 1 >= kMaxCodes) code = kOther;
    at = find(code);
    if (at == gpu.codes.end()) at = gpu.codes.insert(at, {code, 0, {}});
  }
  ++at->count;
}

void EventCounters::Count(const Event& event, size_t gpu) {
  for (size_t i = 0; i < std::size(kEvents); ++i) events_[i] += kEvents[i]->name == event.name;
  if (gpu == GpuEventTable::kNone) return;
  if (gpus_.size() <= gpu) gpus_.resize(gpu + 1);
  if (event.name == kEventGpuXid.name) return CountXid(gpus_[gpu], event);
  if (event.name != kEventGpuRas.name) return;
  std::string grade = event.attributes.Text("gpu.ras.severity");
  for (size_t i = 0; i < kGrades; ++i) gpus_[gpu].ras[i] += kGradeNames[i] == grade;
}

void EventCounters::Undeclare(PerGpu& gpu, SeriesTable& table) {
  if (gpu.entity) table.Retire(gpu.entity);
  gpu.entity = {};
  gpu.xid_series = gpu.last_time = gpu.last_code = {};
  gpu.ras_series = {};
  for (CodeCount& code : gpu.codes) code.series = {};
}

void EventCounters::Declare(PerGpu& gpu, const TrackedGpu& tracked, Watched watched, SeriesTable& table) {
  gpu.entity = tracked.entity;
  if (watched.xids && tracked.vendor == "nvidia" && !gpu.xid_series) {
    gpu.xid_series = table.Declare(kGpuXidErrors, gpu.entity);
    auto before = remembered_.find(tracked.uuid);
    if (before != remembered_.end() && before->second.unix_ns > gpu.last.unix_ns) gpu.last = before->second;
  }
  for (CodeCount& code : gpu.codes) {
    if (code.series || !watched.xids) continue;
    AttributeSet extra = code.code == kOther ? AttributeSet({{"gpu.xid.code", std::string_view("other")}})
                                             : AttributeSet({{"gpu.xid.code", code.code}});
    code.series = table.Declare(kGpuXidCodeErrors, gpu.entity, extra);
  }
  // Gaudi cards have the vendor of GPUs without known messages: their counters begin with the first event.
  bool any = gpu.ras != decltype(gpu.ras){};
  if (watched.ras && (tracked.vendor == "amd" || any) && !gpu.ras_series[0]) {
    for (size_t i = 0; i < kGrades; ++i) {
      gpu.ras_series[i] = table.Declare(kGpuRasErrors, gpu.entity, {{"gpu.ras.severity", kGradeNames[i]}});
    }
  }
}

void EventCounters::WriteGpu(PerGpu& gpu, Watched watched, FrameWriter& out) {
  if (watched.xids && gpu.xid_series) {
    out.Set(gpu.xid_series, gpu.xids);
    if (gpu.last.unix_ns != 0) {
      // Not before there is one: another page may have it.
      out.DeclareAndSet(gpu.last_time, kGpuXidLastErrorTimestamp, gpu.entity, {},
                        static_cast<double>(gpu.last.unix_ns) * 1e-9);
      out.DeclareAndSet(gpu.last_code, kGpuXidLastErrorCode, gpu.entity, {}, gpu.last.code);
    }
    for (const CodeCount& code : gpu.codes) out.Set(code.series, code.count);
  }
  if (!watched.ras || !gpu.ras_series[0]) return;
  for (size_t i = 0; i < kGrades; ++i) out.Set(gpu.ras_series[i], gpu.ras[i]);
}

void EventCounters::Write(const GpuEventTable& table, Watched watched, Instant now, FrameWriter& out) {
  for (size_t i = 0; i < std::size(kEvents); ++i) {
    out.DeclareAndSet(event_series_[i], kSelfEvents, {}, {{"event", kEvents[i]->name}}, events_[i]);
  }
  if (gpus_.size() < table.size()) gpus_.resize(table.size());
  for (size_t i = 0; i < gpus_.size(); ++i) {
    PerGpu& gpu = gpus_[i];
    const TrackedGpu& tracked = table[i];
    bool gone = !tracked.present && now.boot_ns - tracked.seen_boot_ns > kKeepGoneNs;
    if (gpu.entity && (gone || gpu.entity != tracked.entity)) Undeclare(gpu, out.table());
    if (gone) continue;
    Declare(gpu, tracked, watched, out.table());
    WriteGpu(gpu, watched, out);
  }
}

RecentXids::PerGpu& RecentXids::Of(size_t gpu) {
  if (gpus_.size() <= gpu) gpus_.resize(gpu + 1);
  return gpus_[gpu];
}

void RecentXids::Add(size_t gpu, int64_t at_boot_ns, std::string_view action) {
  if (gpu == GpuEventTable::kNone) return;
  std::vector<Xid>& xids = Of(gpu).xids;
  if (xids.size() >= kMaxPerGpu) xids.erase(xids.begin());
  xids.push_back({at_boot_ns, ActionOf(action)});
}

void RecentXids::Clear(size_t gpu, int64_t before_boot_ns) {
  for (size_t i = 0; i < gpus_.size(); ++i) {
    if (gpu == GpuEventTable::kNone || gpu == i)
      std::erase_if(gpus_[i].xids, [&](const Xid& xid) { return xid.at_ns <= before_boot_ns; });
  }
}

void RecentXids::ClearByReset(size_t gpu, int64_t before_boot_ns) {
  if (gpu == GpuEventTable::kNone) return;
  std::erase_if(Of(gpu).xids, [&](const Xid& xid) {
    return xid.at_ns <= before_boot_ns && xid.action <= kLastSettledByReset;
  });
}

void RecentXids::Remember(std::vector<Past> history) {
  past_ = std::move(history);
  std::ranges::sort(past_, {}, [](const Past& past) { return std::pair(past.boot_ns, past.kind); });
}

void RecentXids::Recall(size_t gpu, const std::string& uuid) {
  std::vector<Xid> since = std::move(Of(gpu).xids);
  gpus_[gpu].xids.clear();
  for (const Past& past : past_) {
    if (!past.gpu_uuid.empty() && past.gpu_uuid != uuid) continue;
    if (past.kind == Past::kXid) Add(gpu, past.boot_ns, past.action);
    else if (past.kind == Past::kReset) ClearByReset(gpu, past.boot_ns);
    else Clear(gpu, past.boot_ns);
  }
  gpus_[gpu].xids.insert(gpus_[gpu].xids.end(), since.begin(), since.end());
}

void RecentXids::WriteGpu(PerGpu& gpu, Instant now, FrameWriter& out) const {
  std::erase_if(gpu.xids, [&](const Xid& xid) { return now.boot_ns - xid.at_ns > window_ns_; });
  std::array<uint64_t, kActions> counts{};
  for (const Xid& xid : gpu.xids) ++counts[xid.action];
  for (size_t i = 0; i < kActions; ++i) {
    // The first exists from the start: XIDs are watched.
    if (i > 0 && counts[i] == 0 && !gpu.series[i]) continue;
    out.DeclareAndSet(gpu.series[i], kGpuXidRecent, gpu.entity, {{"gpu.xid.action", kActionNames[i]}},
                      counts[i]);
  }
}

void RecentXids::Write(const GpuEventTable& table, bool watched, Instant now, FrameWriter& out) {
  if (gpus_.size() < table.size()) gpus_.resize(table.size());
  for (size_t i = 0; i < table.size(); ++i) {
    const TrackedGpu& tracked = table[i];
    PerGpu& gpu = gpus_[i];
    if (!gpu.recalled && !tracked.uuid.empty()) {
      gpu.recalled = true;
      Recall(i, tracked.uuid);
    }
    if (gpu.entity && (!tracked.present || gpu.entity != tracked.entity)) {
      for (Series& series : gpu.series) {
        if (series) out.table().Retire(series);
        series = {};
      }
      gpu.entity = {};
    }
    if (!tracked.present || tracked.vendor != "nvidia" || !watched) continue;
    gpu.entity = tracked.entity;
    WriteGpu(gpu, now, out);
  }
}

}  // namespace gpulens
