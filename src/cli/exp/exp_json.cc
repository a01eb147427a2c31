// Runs as JSON: base units, stable keys, what is not known is null or not there.
#include <cmath>

#include "base/text.h"
#include "cli/exp/exp_text.h"
#include "wire/json/json_text.h"

namespace gpulens {
namespace {

using namespace experiments;

void AppendText(std::string& out, std::string_view key, std::string_view value) {
  if (value.empty()) return;
  out += ",\"" + std::string(key) + "\":";
  AppendJsonString(out, value);
}

void AppendTime(std::string& out, std::string_view key, std::optional<int64_t> unix_ns) {
  if (!unix_ns || *unix_ns == 0) return;
  out += ",\"" + std::string(key) + "\":\"";
  AppendRfc3339(out, *unix_ns);
  out += '"';
}

void AppendWhole(std::string& out, std::string_view key, std::optional<int64_t> value) {
  if (value) out += ",\"" + std::string(key) + "\":" + std::to_string(*value);
}

void AppendValue(std::string& out, const Value& value) {
  if (const auto* text = std::get_if<std::string>(&value)) AppendJsonString(out, *text);
  else if (const auto* number = std::get_if<double>(&value)) AppendJsonNumber(out, *number);
  else out += ValueText(value);
}

void AppendEnergy(std::string& out, const EnergyRow& energy) {
  if (energy.validity.empty() && std::isnan(energy.joules)) return;
  out += ",\"energy\":{\"energy_joules\":";
  AppendJsonNumber(out, energy.joules);
  out += ",\"uncertainty_joules\":";
  AppendJsonNumber(out, energy.uncertainty_joules);
  AppendText(out, "method", energy.method);
  if (!energy.attribution.empty()) {
    AppendText(out, "attribution", energy.attribution);
    out += ",\"device_energy_joules\":";
    AppendJsonNumber(out, energy.device_joules);
  }
  AppendText(out, "validity", energy.validity);
  AppendText(out, "reason", energy.reason);
  if (energy.devices > 0) {
    AppendText(out, "vendor", energy.vendor);
    AppendWhole(out, "devices", energy.devices);
    for (auto [key, number] : {std::pair("mean_power_watts", energy.mean_power_watts),
                               std::pair("peak_power_watts", energy.peak_power_watts),
                               std::pair("mean_utilization_ratio", energy.mean_utilization_ratio),
                               std::pair("peak_utilization_ratio", energy.peak_utilization_ratio),
                               std::pair("mean_memory_used_bytes", energy.mean_memory_used_bytes),
                               std::pair("peak_memory_used_bytes", energy.peak_memory_used_bytes)}) {
      out += ",\"" + std::string(key) + "\":";
      AppendJsonNumber(out, number);
    }
  }
  out += '}';
}

// The members of a run, without its braces.
void AppendRun(std::string& out, const RunRow& run, int64_t now_ns) {
  out += "\"id\":";
  AppendJsonString(out, run.id);
  out += ",\"name\":";
  AppendJsonString(out, run.name);
  AppendText(out, "status", run.status);
  AppendText(out, "reason", run.reason);
  AppendText(out, "parent_id", run.parent_id);
  AppendTime(out, "started", run.started_ns);
  AppendTime(out, "ended", run.ended_ns);
  out += ",\"duration_seconds\":";
  AppendJsonNumber(out, run.duration_seconds(now_ns));
  AppendWhole(out, "exit_code", run.exit_code);
  AppendText(out, "script", run.script);
  AppendText(out, "command", run.command);
  AppendText(out, "folder", run.folder);
  AppendText(out, "git_commit", run.git_commit);
  AppendText(out, "host", run.host);
  AppendWhole(out, "resumed", run.resumed);
  AppendWhole(out, "dropped", run.dropped);
  AppendEnergy(out, run.energy);
}

void AppendMetrics(std::string& out, const std::vector<MetricRow>& metrics) {
  out += ",\"metrics\":{";
  for (const MetricRow& metric : metrics) {
    if (&metric != &metrics.front()) out += ',';
    AppendJsonString(out, metric.key);
    out += ":{";
    AppendJsonMember(out, "last", metric.last);
    AppendWhole(out, "last_step", metric.last_step);
    AppendWhole(out, "count", metric.count);
    AppendWhole(out, "nan_count", metric.nan_count);
    for (auto [key, value] : {std::pair("min", metric.min), std::pair("max", metric.max)}) {
      if (std::isnan(value)) continue;
      out += ',';
      AppendJsonMember(out, key, value);
    }
    out += '}';
  }
  out += '}';
}

void AppendPage(std::string& out, const RunPage& page, int64_t now_ns) {
  AppendRun(out, page.run, now_ns);
  AppendText(out, "log", page.log);
  out += ",\"params\":{";
  for (const ParamRow& param : page.params) {
    if (&param != &page.params.front()) out += ',';
    AppendJsonString(out, param.key);
    out += ':';
    AppendValue(out, param.value);
  }
  out += "},\"tags\":{";
  for (const TagRow& tag : page.tags) {
    if (&tag != &page.tags.front()) out += ',';
    AppendJsonString(out, tag.key);
    out += ':';
    AppendJsonString(out, tag.value);
  }
  out += '}';
  AppendMetrics(out, page.metrics);
  out += ",\"artifacts\":[";
  for (const ArtifactRow& artifact : page.artifacts) {
    if (&artifact != &page.artifacts.front()) out += ',';
    out += "{\"name\":";
    AppendJsonString(out, artifact.name);
    AppendText(out, "path", artifact.path);
    AppendWhole(out, "bytes", artifact.bytes);
    AppendText(out, "sha256", artifact.sha256);
    out += std::string(",\"copied\":") + (artifact.copied ? "true" : "false") + "}";
  }
  out += "],\"children\":[";
  for (const RunRow& child : page.children) {
    if (&child != &page.children.front()) out += ',';
    AppendJsonString(out, child.id);
  }
  out += ']';
}

}  // namespace

std::string RunListJson(const std::vector<ListedRun>& runs, int64_t now_ns) {
  std::string out = "{\"schema\":\"gpulens.experiments/1\",\"runs\":[";
  for (const ListedRun& run : runs) {
    out += &run != &runs.front() ? ",\n{" : "\n{";
    AppendRun(out, run.run, now_ns);
    AppendMetrics(out, run.metrics);
    out += '}';
  }
  return out + "]}\n";
}

std::string RunPageJson(const RunPage& page, int64_t now_ns) {
  std::string out = "{\"schema\":\"gpulens.experiment/1\",";
  AppendPage(out, page, now_ns);
  return out + "}\n";
}

std::string CompareJson(const std::vector<RunPage>& pages, int64_t now_ns) {
  std::string out = "{\"schema\":\"gpulens.experiments/1\",\"runs\":[";
  for (const RunPage& page : pages) {
    out += &page != &pages.front() ? ",\n{" : "\n{";
    AppendPage(out, page, now_ns);
    out += '}';
  }
  return out + "]}\n";
}

}  // namespace gpulens
