#include "wire/json/json_event.h"

#include "base/text.h"
#include "wire/json/json_text.h"

namespace gpulens {

std::string_view JsonSeverityName(EventSeverity severity) noexcept {
  switch (severity) {
    case EventSeverity::kUnset: return "unset";
    case EventSeverity::kInfo: return "info";
    case EventSeverity::kWarning: return "warning";
    case EventSeverity::kError: return "error";
    case EventSeverity::kFatal: return "fatal";
  }
  return "unset";
}

void AppendJsonEvent(std::string& out, const Event& event, const AttributeSet& resource) {
  out += "{\"ts\":\"";
  AppendRfc3339(out, event.at.unix_ns);
  out += "\",\"type\":\"event\",\"name\":";
  AppendJsonString(out, event.name);
  out += ",\"severity\":\"";
  out += JsonSeverityName(event.severity);
  out += "\",\"body\":";
  AppendJsonString(out, event.body);
  out += ",\"attributes\":";
  AppendJsonAttributes(out, event.attributes);
  if (event.entity) {
    out += ",\"entity_type\":";
    AppendJsonString(out, event.entity->type);
    AttributeSet known_by;
    for (const Entity* entity = event.entity.get(); entity; entity = entity->parent.get()) {
      known_by = known_by.OverlaidOn(entity->attributes);
    }
    out += ",\"entity\":";
    AppendJsonAttributes(out, known_by);
  }
  if (!resource.empty()) {
    out += ",\"resource\":";
    AppendJsonAttributes(out, resource);
  }
  out += '}';
}

void AppendJsonEvents(std::string& out, const Events& events) {
  for (const Event& event : events.list) {
    AppendJsonEvent(out, event, events.resource);
    out += '\n';
  }
}

}  // namespace gpulens
