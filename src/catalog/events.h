// Events that the agent reports, with their attributes. An event belongs to the GPU's entity where the GPU is
// known; else `gpu.pci.bus_id` has its address. Static storage; thread-safe.
#pragma once

#include "catalog/row.h"
#include "core/frame.h"

namespace gpulens {

struct EventDesc {
  std::string_view name, help;
  std::span<const std::string_view> keys = {};
  EventSeverity severity = EventSeverity::kInfo;  // default of an event without one
};

// The address of a GPU that no collector has.
inline constexpr std::string_view kEventPciBusId = "gpu.pci.bus_id";
// The number of equal events that one event represents.
inline constexpr std::string_view kEventRepeats = "event.repeats";

namespace row {
using enum EventSeverity;
}
#define EVENT(id, ...)                        \
  namespace row {                             \
  inline constexpr EventDesc id{__VA_ARGS__}; \
  }                                           \
  using row::id;
#include "catalog/events.def"
#undef EVENT

#define EVENT(id, ...) &id,
inline constexpr const EventDesc* kEvents[] = {
#include "catalog/events.def"
};
#undef EVENT

// Null for an unknown name.
constexpr const EventDesc* FindEvent(std::string_view name) noexcept {
  for (const EventDesc* event : kEvents) {
    if (event->name == name) return event;
  }
  return nullptr;
}

// "info", "warning", "error", "fatal"; "unset". Static storage.
constexpr std::string_view EventSeverityName(EventSeverity severity) noexcept {
  switch (severity) {
    case EventSeverity::kUnset: return "unset";
    case EventSeverity::kInfo: return "info";
    case EventSeverity::kWarning: return "warning";
    case EventSeverity::kError: return "error";
    case EventSeverity::kFatal: return "fatal";
  }
  return "unset";
}

}  // namespace gpulens
