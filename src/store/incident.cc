#include "store/incident.h"

#include <cmath>

#include "base/text.h"
#include "wire/json/json_text.h"

namespace gpulens {

Incident MakeIncident(const Event& event) {
  Incident row;
  row.unix_ns = event.at.unix_ns;
  row.name = event.name;
  row.severity = event.severity;
  AttributeSet attributes = event.attributes;
  for (const Entity* entity = event.entity.get(); entity; entity = entity->parent.get()) {
    attributes = attributes.OverlaidOn(entity->attributes);
  }
  constexpr int64_t kNone = -1;
  AttributeSet::Value index = attributes.Find("gpu.index", kNone);
  if (const int64_t* number = std::get_if<int64_t>(&index); number && *number >= 0) row.gpu_index = *number;
  row.gpu_uuid = attributes.Text("gpu.uuid");
  row.body = event.body;
  AppendJsonAttributes(row.attributes, attributes);
  return row;
}

std::string ReadingsJson(const IncidentReadings& readings) {
  if (readings.samples.empty() || readings.columns.empty()) return {};
  std::string out = "{\"columns\":[";
  for (const IncidentReadings::Column& column : readings.columns) {
    if (&column != &readings.columns.front()) out += ',';
    out += "{\"name\":";
    AppendJsonString(out, column.name);
    out += ",\"unit\":";
    AppendJsonString(out, column.unit);
    if (!column.attributes.empty()) {
      out += ",\"attributes\":";
      AppendJsonAttributes(out, column.attributes);
    }
    out += '}';
  }
  out += "],\"samples\":[";
  for (const IncidentReadings::Sample& sample : readings.samples) {
    if (&sample != &readings.samples.front()) out += ',';
    out += '[';
    AppendJsonNumber(out, std::round(sample.seconds * 1000) / 1000);
    for (double value : sample.values) {
      out += ',';
      AppendJsonNumber(out, value);  // NaN becomes null
    }
    out += ']';
  }
  return out + "]}";
}

}  // namespace gpulens
