#include "plugins/analyzers/gpu_events/event_facts.h"

#include "catalog/codes/codes.h"
#include "catalog/events.h"

namespace gpulens {
namespace {

constexpr std::pair<std::string_view, EventSeverity> kWords[] = {
    {"info", EventSeverity::kInfo},         {"warning", EventSeverity::kWarning},
    {"error", EventSeverity::kError},       {"fatal", EventSeverity::kFatal},
    {"corrected", EventSeverity::kWarning}, {"correctable", EventSeverity::kWarning},
    {"deferred", EventSeverity::kError},    {"recoverable", EventSeverity::kError},
    {"nonfatal", EventSeverity::kError},    {"non_fatal", EventSeverity::kWarning},
};
// Where events say themselves how bad they are.
constexpr std::string_view kSeverityKeys[] = {"nvswitch.sxid.severity", "gpu.ras.severity",
                                              "gpu.pcie.aer.severity", "host.error.severity"};

EventSeverity SeverityOf(std::string_view word) noexcept {
  for (auto [name, severity] : kWords) {
    if (name == word) return severity;
  }
  return EventSeverity::kUnset;
}

// The facts of a code that an event has; null when it has none, or nobody speaks of it.
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

void AddFacts(Event& event) {
  const CodeFacts* facts = FactsOf(event);
  if (event.name == kEventGpuXid.name) {
    std::vector<AttributeSet::Attribute> more = {
        {"gpu.xid.class", facts ? facts->klass : std::string_view("unknown")}};
    if (facts) more.push_back({"gpu.xid.name", facts->name});
    // What to do is said by the message, by a source or by nobody. A link that the driver calls nonfatal
    // recovers.
    bool recovers = event.attributes.Text("gpu.xid.severity") == "warning";
    if (recovers) more.push_back({"gpu.xid.action", std::string_view("none")});
    else if (facts && facts->action != "unknown") more.push_back({"gpu.xid.action", facts->action});
    event.attributes =
        event.attributes.OverlaidOn(AttributeSet(std::span<const AttributeSet::Attribute>(more)));
    // What the message itself says outweighs what its code usually means: a link error may be fatal or not.
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
  // The event's own: the driver's order in an XID 154, else the table's.
  std::string own = event.attributes.Text("gpu.xid.action");
  std::string_view action = ActionSentence(!own.empty() ? std::string_view(own) : facts ? facts->action : "");
  return action.empty() ? text + " No source documents what to do." : text + " " + std::string(action);
}

}  // namespace gpulens
