// One row of the incident table: an event, and the readings of its GPU in the half minute before.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/frame.h"

namespace gpulens {

struct Incident {
  int64_t id = 0;  // given by the store, counts up
  int64_t unix_ns = 0;
  std::string name;  // of the event
  EventSeverity severity = EventSeverity::kUnset;
  std::optional<int64_t> gpu_index;
  std::string gpu_uuid;
  std::string body;
  std::string attributes;  // JSON object
  std::string readings;    // JSON object as ReadingsJson makes it; empty: none were kept
};

// Numbers of one GPU over some seconds.
struct IncidentReadings {
  struct Column {
    std::string name, unit;
    AttributeSet attributes;  // beyond the GPU's own
  };
  struct Sample {
    double seconds = 0;          // before the event negative
    std::vector<double> values;  // by column; NaN: absent
  };
  std::vector<Column> columns;
  std::vector<Sample> samples;
};

// The row of an event: its own attributes over those of its entity.
Incident MakeIncident(const Event& event);

// {"columns":[{"name":"gpu.power.draw","unit":"W"},…],"samples":[[-29.5,612.3,null],…]}: the first number of
// a sample is its time in seconds from the event. Empty when there is no sample.
std::string ReadingsJson(const IncidentReadings& readings);

}  // namespace gpulens
