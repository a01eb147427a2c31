// A reading as text and as JSON.
#include <algorithm>
#include <cstdio>

#include "base/text.h"
#include "catalog/inference.h"
#include "cli/engines/engine_reading.h"
#include "wire/json/json_text.h"

namespace gpulens {
namespace {

// "inference.request.queue_time" → "request queue time"; in JSON "request_queue_time".
std::string Words(const MetricDesc& metric, char between) {
  std::string_view name = metric.name;
  constexpr std::string_view kPrefix = "inference.";
  if (name.starts_with(kPrefix)) name.remove_prefix(kPrefix.size());
  std::string out(name);
  for (char& c : out) {
    if (c == '.' || c == '_') c = between;
  }
  return out;
}

std::string Format(const char* form, double value) {
  char text[48];
  int length = std::snprintf(text, sizeof text, form, value);
  return {text, static_cast<size_t>(std::clamp(length, 0, 47))};
}

std::string Seconds(const std::optional<double>& value) {
  if (!value) return "–";
  if (*value < 1) return Format("%.3g ms", *value * 1e3);
  return Format("%.4g s", *value);
}

// What the buckets can tell: nothing finer than their first bound, nothing above their last.
std::string QuantileText(const ReadDistribution& row, const std::optional<double>& value) {
  if (value && row.first_bound && *value < *row.first_bound) return "<" + Seconds(row.first_bound);
  if (value && row.last_bound && *value >= *row.last_bound) return ">" + Seconds(row.last_bound);
  return Seconds(value);
}

// A dash has three bytes and one place.
void AppendRight(std::string& out, const std::string& text, size_t width) {
  size_t shown = text == "–" ? 1 : text.size();
  out.append(shown < width ? width - shown : 1, ' ');
  out += text;
}

void AppendLeft(std::string& out, const std::string& text, size_t width) {
  out += text;
  out.append(text.size() < width ? width - text.size() : 1, ' ');
}

std::string NumberText(const ReadNumber& number) {
  if (number.metric == &kInferenceKvCacheUsage) return Format("%.1f %%", number.value * 100);
  std::string out = Format("%.15g", number.value);
  if (number.per_second) out += "   " + Format("%.4g", *number.per_second) + " per second";
  return out;
}

void AppendModel(std::string& out, const ModelReading& model) {
  out += '\n' + model.engine + " (" + model.layer + ")";
  if (!model.model.empty()) {
    out += "   ";
    AppendPrintable(out, model.model);
  }
  out += '\n';
  if (!model.distributions.empty()) {
    AppendLeft(out, "", 26);
    for (const char* head : {"p50", "p95", "p99", "mean", "count"}) AppendRight(out, head, 12);
    out += '\n';
  }
  for (const ReadDistribution& row : model.distributions) {
    AppendLeft(out, "  " + Words(*row.metric, ' '), 26);
    for (const std::optional<double>& value : {row.p50, row.p95, row.p99})
      AppendRight(out, QuantileText(row, value), 12);
    AppendRight(out, Seconds(row.mean), 12);
    AppendRight(out, Format("%.15g", row.count), 12);
    out += '\n';
  }
  for (const ReadNumber& number : model.numbers) {
    AppendLeft(out, "  " + Words(*number.metric, ' '), 29);
    out += NumberText(number) + '\n';
  }
}

void AppendMember(std::string& out, std::string_view key, const std::optional<double>& value) {
  if (!value) return;
  if (out.back() != '{') out += ',';
  AppendJsonMember(out, key, *value);
}

void AppendKey(std::string& out, const MetricDesc& metric) {
  out += ",\n ";
  AppendJsonString(out, Words(metric, '_'));
  out += ':';
}

}  // namespace

std::string ReadingText(const EngineReading& reading) {
  std::string out;
  AppendPrintable(out, reading.source);
  out += reading.window_s ? ": the last " + Format("%.3g", *reading.window_s) + " s\n"
                          : ": since the engine started; use --window 30s for current values\n";
  for (const ModelReading& model : reading.models) AppendModel(out, model);
  return out;
}

std::string ReadingJson(const EngineReading& reading) {
  std::string out = "{\"schema\":\"gpulens.engines.read/1\",\"source\":";
  AppendJsonString(out, reading.source);
  out += reading.window_s ? ",\"over\":\"window\"" : ",\"over\":\"engine lifetime\"";
  AppendMember(out, "window_s", reading.window_s);
  out += ",\"engines\":[";
  for (const ModelReading& model : reading.models) {
    out += out.back() == '[' ? "\n{\"engine\":" : ",\n{\"engine\":";
    AppendJsonString(out, model.engine);
    out += ",\"layer\":";
    AppendJsonString(out, model.layer);
    if (!model.model.empty()) {
      out += ",\"model\":";
      AppendJsonString(out, model.model);
    }
    for (const ReadDistribution& row : model.distributions) {
      AppendKey(out, *row.metric);
      out += '{';
      AppendMember(out, "p50", row.p50);
      AppendMember(out, "p95", row.p95);
      AppendMember(out, "p99", row.p99);
      AppendMember(out, "mean", row.mean);
      AppendMember(out, "count", row.count);
      AppendMember(out, "first_bound", row.first_bound);
      AppendMember(out, "last_bound", row.last_bound);
      out += '}';
    }
    for (const ReadNumber& number : model.numbers) {
      AppendKey(out, *number.metric);
      AppendJsonNumber(out, number.value);
      if (!number.per_second) continue;
      out += ',';
      AppendJsonString(out, Words(*number.metric, '_') + "_per_second");
      out += ':';
      AppendJsonNumber(out, *number.per_second);
    }
    out += '}';
  }
  return out + "\n]}\n";
}

}  // namespace gpulens
