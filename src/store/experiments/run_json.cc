#include "store/experiments/run_json.h"

#include <cmath>
#include <optional>
#include <utility>

namespace gpulens::experiments {
namespace {

void AddWhole(JsonObject& object, std::string_view key, std::optional<int64_t> value) {
  if (value) object.Whole(key, *value);
}

void AddTime(JsonObject& object, std::string_view key, std::optional<int64_t> unix_ns) {
  if (unix_ns && *unix_ns != 0) object.Time(key, *unix_ns);
}

void AddEnergy(JsonObject& run, const EnergyRow& energy) {
  if (energy.validity.empty() && std::isnan(energy.joules)) return;
  JsonObject object(run.Key("energy"));
  object.Number("energy_joules", energy.joules);
  object.Number("uncertainty_joules", energy.uncertainty_joules);
  object.TextIfAny("method", energy.method);
  object.TextIfAny("attribution", energy.attribution);
  if (!energy.attribution.empty()) object.Number("device_energy_joules", energy.device_joules);
  object.TextIfAny("validity", energy.validity);
  object.TextIfAny("reason", energy.reason);
  if (energy.devices == 0) return;
  object.TextIfAny("vendor", energy.vendor);
  object.Whole("devices", energy.devices);
  object.Number("mean_power_watts", energy.mean_power_watts);
  object.Number("peak_power_watts", energy.peak_power_watts);
  object.Number("mean_utilization_ratio", energy.mean_utilization_ratio);
  object.Number("peak_utilization_ratio", energy.peak_utilization_ratio);
  object.Number("mean_memory_used_bytes", energy.mean_memory_used_bytes);
  object.Number("peak_memory_used_bytes", energy.peak_memory_used_bytes);
}

}  // namespace

void AppendValueJson(std::string& out, const RunParamValue& value) {
  if (const auto* text = std::get_if<std::string>(&value)) AppendJsonString(out, *text);
  else if (const auto* number = std::get_if<double>(&value)) AppendJsonNumber(out, *number);
  else out += ValueText(value);
}

void AddRunJson(JsonObject& object, const RunRow& run, int64_t now_ns, RunJson which) {
  object.Text("id", run.id);
  object.Text("name", run.name);
  object.TextIfAny("status", run.status);
  object.TextIfAny("reason", run.reason);
  object.TextIfAny("parent_id", run.parent_id);
  AddTime(object, "started", run.started_ns);
  AddTime(object, "ended", run.ended_ns);
  object.Number("duration_seconds", run.duration_seconds(now_ns));
  AddWhole(object, "exit_code", run.exit_code);
  if (which == RunJson::kAll) {
    object.TextIfAny("script", run.script);
    object.TextIfAny("command", run.command);
    object.TextIfAny("folder", run.folder);
  }
  object.TextIfAny("git_commit", run.git_commit);
  object.TextIfAny("host", run.host);
  object.Whole("resumed", run.resumed);
  object.Whole("dropped", run.dropped);
  AddEnergy(object, run.energy);
}

void AddMetricsJson(JsonObject& run, const std::vector<MetricRow>& metrics) {
  JsonObject object(run.Key("metrics"));
  for (const MetricRow& metric : metrics) {
    JsonObject row(object.Key(metric.key));
    AppendJsonMember(row.Next(), "last", metric.last);
    AddWhole(row, "last_step", metric.last_step);
    AddWhole(row, "count", metric.count);
    AddWhole(row, "nan_count", metric.nan_count);
    for (auto [key, value] : {std::pair("min", metric.min), std::pair("max", metric.max)}) {
      if (!std::isnan(value)) AppendJsonMember(row.Next(), key, value);
    }
  }
}

}  // namespace gpulens::experiments
