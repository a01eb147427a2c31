// An event as a line of JSON, the same on stdout, in a file and wherever else events go as JSON:
//
//   {"ts":"2026-11-21T02:14:09.120Z","type":"event","name":"gpu.xid","severity":"fatal","body":"NVRM: Xid …",
//    "attributes":{"gpu.xid.code":79},"entity_type":"gpu","entity":{"gpu.index":3},"resource":{"host.name":"n1"}}
//
// (on one line). `type` tells it from a reading. Without an entity, or a resource, its members are left out.
//
// Pure function; safe from any thread.
#pragma once

#include <string>
#include <string_view>

#include "core/frame.h"

namespace gpulens {

// "info", "warning", "error", "fatal"; "unset".
std::string_view JsonSeverityName(EventSeverity severity) noexcept;

// Appends the object without a newline. Valid JSON whatever the texts are.
void AppendJsonEvent(std::string& out, const Event& event, const AttributeSet& resource);

// Each event on a line.
void AppendJsonEvents(std::string& out, const Events& events);

}  // namespace gpulens
