#include "plugins/analyzers/gpu_events/event_follow.h"

#include <algorithm>
#include <cstdlib>

#include "catalog/events.h"

namespace gpulens {
namespace {

constexpr int64_t kContained = 94, kUncontained = 95;
// The NVLink error of all generations, and those of the units of an NVLink 5 port.
constexpr int64_t kLink = 74, kFirstOfPort = 144, kLastOfPort = 150;

std::string WhatOf(const Event& event) {
  return std::string(event.name) + ' ' + event.attributes.Text("gpu.poison.result");
}

}  // namespace

std::optional<Event> EventFollow::Of(const Event& xid) {
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

bool EventFollow::Reported(const Event& event, std::string_view device, bool derived) {
  bool poison = event.name == kEventGpuPoison.name;
  if (!poison && event.name != kEventGpuInterconnectFailure.name) return false;
  std::string what = WhatOf(event);
  bool told = std::any_of(known_.begin(), known_.end(), [&](const Known& known) {
    return known.what == what && known.device == device &&
           std::abs(known.at_ns - event.at.boot_ns) <= kWindowNs;
  });
  if (!told) {
    if (known_.size() >= kMaxKnown) known_.erase(known_.begin());
    known_.push_back({std::move(what), std::string(device), event.at.boot_ns});
  }
  return told && (poison || derived);
}

}  // namespace gpulens
