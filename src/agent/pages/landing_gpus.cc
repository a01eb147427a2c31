#include "agent/pages/landing_gpus.h"

#include <cstdio>
#include <map>
#include <optional>
#include <tuple>

#include "catalog/gpu.h"
#include "core/series_finder.h"

namespace gpulens {
namespace {

struct Reading {
  double value = 0;
  bool stale = false;
};

struct Gpu {
  std::string index, model, health, state;
  std::optional<Reading> busy, used, total, power, temperature;
};

// GPUs of several vendors count from 0 each.
using Gpus = std::map<std::tuple<std::string, int64_t, std::string>, Gpu>;

Gpu& GpuOf(Gpus& gpus, const AttributeSet& attributes) {
  std::string index = attributes.Text("gpu.index");
  auto number = attributes.Find("gpu.index", int64_t{-1});
  const int64_t* order = std::get_if<int64_t>(&number);
  std::string model = attributes.Text("gpu.model");
  Gpu& gpu = gpus[{model, order ? *order : -1, attributes.Text("gpu.uuid")}];
  gpu.index = std::move(index);
  gpu.model = std::move(model);
  return gpu;
}

// Readings of the whole GPU: of parts of it, only the named one.
void Collect(const Snapshot& snapshot, const MetricDesc& desc, std::optional<Reading> Gpu::* member,
             Gpus& gpus, std::string_view key = {}, std::string_view wanted = {}) {
  SeriesFinder(desc).ForEach(snapshot,
                             [&](const SeriesInfo& info, double value, const Frame& frame, uint32_t slot) {
                               const AttributeSet& attributes = info.attributes;
                               if (!attributes.Has("gpu.index") || attributes.Has("gpu.mig.instance_id"))
                                 return;
                               if (!key.empty() && attributes.Text(key) != wanted) return;
                               std::optional<Reading>& place = GpuOf(gpus, attributes).*member;
                               if (!place) place = Reading{value, frame.quality[slot] == Quality::kStale};
                             });
}

// An old word is not shown: it says nothing of now.
void CollectWord(const Snapshot& snapshot, const MetricDesc& desc, std::string Gpu::* member, Gpus& gpus) {
  SeriesFinder(desc).ForEach(
      snapshot, [&](const SeriesInfo& info, double value, const Frame& frame, uint32_t slot) {
        bool whole = info.attributes.Has("gpu.index") && !info.attributes.Has("gpu.mig.instance_id");
        if (whole && value == 1 && frame.quality[slot] == Quality::kOk)
          GpuOf(gpus, info.attributes).*member = info.attributes.Text(desc.name);
      });
}

// The word of the analyzer; without one, the state, unless that is "ok": an answer alone is not health.
std::string HealthOf(const Gpu& gpu) {
  if (!gpu.health.empty()) return gpu.health;
  return gpu.state.empty() || gpu.state == "ok" ? "–" : gpu.state;
}

void AppendCell(std::string& out, const std::optional<Reading>& reading, double scale, const char* unit) {
  out += "<td class=n>";
  if (reading) {
    char text[48];
    std::snprintf(text, sizeof text, "%s%.0f %s", reading->stale ? "~" : "", reading->value * scale, unit);
    out += text;
  } else {
    out += "–";
  }
  out += "</td>";
}

void AppendMemory(std::string& out, const Gpu& gpu) {
  constexpr double kGiB = 1024.0 * 1024 * 1024;
  if (!gpu.used || !gpu.total) return AppendCell(out, gpu.used, 1 / kGiB, "GiB");
  char text[64];
  std::snprintf(text, sizeof text, "<td class=n>%s%.1f of %.1f GiB</td>", gpu.used->stale ? "~" : "",
                gpu.used->value / kGiB, gpu.total->value / kGiB);
  out += text;
}

}  // namespace

void AppendHtml(std::string& out, std::string_view text) {
  for (char c : text) {
    if (c == '&') out += "&amp;";
    else if (c == '<') out += "&lt;";
    else if (c == '>') out += "&gt;";
    else if (c == '"') out += "&quot;";
    else out += c;
  }
}

std::string MakeGpuTable(const Snapshot& snapshot) {
  Gpus gpus;
  Collect(snapshot, kGpuUtilization, &Gpu::busy, gpus, "gpu.task.type", "compute");
  Collect(snapshot, kGpuMemoryUsed, &Gpu::used, gpus);
  Collect(snapshot, kGpuMemoryTotal, &Gpu::total, gpus);
  Collect(snapshot, kGpuPowerDraw, &Gpu::power, gpus);
  Collect(snapshot, kGpuTemperature, &Gpu::temperature, gpus, "gpu.temperature.sensor", "edge");
  CollectWord(snapshot, kGpuHealthState, &Gpu::health, gpus);
  CollectWord(snapshot, kGpuState, &Gpu::state, gpus);
  if (gpus.empty()) return {};
  std::string out =
      "<table><tr><th class=n>gpu</th><th>model</th><th class=n>busy</th><th class=n>memory</th>"
      "<th class=n>power</th><th class=n>temperature</th><th>health</th></tr>\n";
  for (const auto& [place, gpu] : gpus) {
    out += "<tr><td class=n>";
    AppendHtml(out, gpu.index);
    out += "</td><td>";
    AppendHtml(out, gpu.model);
    out += "</td>";
    AppendCell(out, gpu.busy, 100, "%");
    AppendMemory(out, gpu);
    AppendCell(out, gpu.power, 1, "W");
    AppendCell(out, gpu.temperature, 1, "°C");
    out += "<td>";
    AppendHtml(out, HealthOf(gpu));
    out += "</td></tr>\n";
  }
  return out + "</table>\n";
}

}  // namespace gpulens
