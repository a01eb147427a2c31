#include "wire/otlp/otlp_logs.h"

#include "wire/otlp/otlp_fields.h"

namespace gpulens {
namespace {

using namespace otlp;

struct Severity {
  uint64_t number;
  std::string_view text;
};

Severity SeverityOf(EventSeverity severity) noexcept {
  switch (severity) {
    case EventSeverity::kInfo: return {9, "INFO"};
    case EventSeverity::kWarning: return {13, "WARN"};
    case EventSeverity::kError: return {17, "ERROR"};
    case EventSeverity::kFatal: return {21, "FATAL"};
    case EventSeverity::kUnset: break;
  }
  return {0, ""};
}

AttributeSet AttributesOf(const Event& event) {
  AttributeSet all = event.attributes;
  for (const Entity* entity = event.entity.get(); entity; entity = entity->parent.get())
    all = all.OverlaidOn(entity->attributes);
  return all;
}

void AppendRecord(const Event& event, std::string& out) {
  AppendFixed(out, kLogTime, static_cast<uint64_t>(event.at.unix_ns));
  AppendFixed(out, kObservedTime, static_cast<uint64_t>(event.at.unix_ns));
  const Severity severity = SeverityOf(event.severity);
  if (severity.number != 0) {
    AppendNumber(out, kSeverityNumber, severity.number);
    AppendText(out, kSeverityText, severity.text);
  }
  if (!event.body.empty()) {
    std::string body;
    AppendText(body, kString, event.body);
    AppendBytes(out, kBody, body);
  }
  AppendAttribute(out, kLogAttributes, "event.name", event.name);
  AppendAttributes(out, kLogAttributes, AttributesOf(event));
  AppendText(out, kEventName, event.name);
}

}  // namespace

void EncodeOtlpLogs(const Events& events, std::string_view version, std::string& out) {
  out.clear();
  Nesting nesting(out);
  std::string part, scope;
  const size_t resource = nesting.Open(kResourceList);
  AppendAttributes(part, kResourceAttributes, events.resource);
  AppendBytes(out, kResource, part);
  const size_t list = nesting.Open(kScopeList);
  AppendText(scope, kScopeName, "gpulens.events");
  AppendText(scope, kScopeVersion, version);
  AppendBytes(out, kScope, scope);
  for (const Event& event : events.list) {
    const size_t record = nesting.Open(kItems);
    AppendRecord(event, out);
    nesting.Close(record);
  }
  AppendText(out, kSchemaUrlField, kSchemaUrl);
  nesting.Close(list);
  AppendText(out, kSchemaUrlField, kSchemaUrl);
  nesting.Close(resource);
}

}  // namespace gpulens
