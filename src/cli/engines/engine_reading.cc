#include "cli/engines/engine_reading.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "base/text.h"
#include "catalog/inference.h"
#include "cli/common/output.h"
#include "wire/json/json_object.h"
#include "wire/json/json_text.h"

namespace gpulens {

namespace {

// The metrics that are shown, in this order.
constexpr const MetricDesc* kDistributions[] = {
    &kInferenceTimeToFirstToken, &kInferenceInterTokenLatency, &kInferenceTimePerOutputToken,
    &kInferenceRequestDuration,  &kInferenceQueueTime,         &kInferencePrefillTime,
    &kInferenceDecodeTime,
};
constexpr const MetricDesc* kNumbers[] = {
    &kInferenceRequestsRunning,  &kInferenceRequestsWaiting, &kInferenceRequestsInFlight,
    &kInferenceRouterQueueDepth, &kInferenceKvCacheUsage,    &kInferenceRequestsFinished,
    &kInferenceRequestsFailed,   &kInferencePromptTokens,    &kInferenceGenerationTokens,
};

bool IsShown(const MetricDesc* metric) {
  return std::ranges::count(kDistributions, metric) + std::ranges::count(kNumbers, metric) > 0;
}

// One series of a frame, taken out of it.
struct SeriesValue {
  const SeriesInfo* info = nullptr;
  double number = 0;
  Buckets buckets;  // of a histogram
};

// Values by the identity of their series. `frame` outlives the result.
std::map<std::string, SeriesValue> ValuesOf(const Frame& frame, const ReadFilter& filter) {
  std::map<std::string, SeriesValue> values;
  std::vector<double> numbers;
  for (uint32_t slot = 0; slot < frame.layout->slots(); ++slot) {
    const SeriesInfo& info = (*frame.layout)[slot];
    if (!info.desc || frame.quality[slot] != Quality::kOk || !IsShown(info.desc)) continue;
    if (!filter.engine.empty() && info.attributes.Text("inference.engine") != filter.engine) continue;
    if (!filter.model.empty() && info.attributes.Text("model.name") != filter.model) continue;
    // Other tiers than the GPU's memory fill up on purpose.
    std::string tier = info.attributes.Text("cache.type");
    if (info.desc == &kInferenceKvCacheUsage && !tier.empty() && tier != "gpu") continue;
    SeriesValue value;
    value.info = &info;
    std::span<const Cell> cells(frame.cells.data() + info.first_cell, info.cells());
    if (info.shape) {
      CopyNumbers(cells, info.desc->number, numbers);
      value.buckets = ReadBuckets(*info.shape, numbers);
    } else {
      value.number = info.desc->number == Number::kInt ? static_cast<double>(cells[0].i) : cells[0].d;
    }
    std::string identity(info.desc->name);
    for (auto [key, text] : info.attributes) {
      identity.append(1, '\x1f').append(key).append(1, '=');
      AppendValue(identity, text);
    }
    values.emplace(std::move(identity), std::move(value));
  }
  return values;
}

// The sum of all series of one role and model.
struct RoleSum {
  Buckets buckets;
  double number = 0;
  size_t series = 0;
  bool any_shape = false;
};

void Add(RoleSum& sum, const SeriesValue& value) {
  if (value.info->shape) {
    sum.buckets = sum.any_shape ? Merge(sum.buckets, value.buckets) : value.buckets;
    sum.any_shape = true;
  } else {
    sum.number += value.number;
  }
  ++sum.series;
}

struct ModelKey {
  std::string engine, layer, model;
  auto operator<=>(const ModelKey&) const = default;
};
using ModelSums = std::map<ModelKey, std::map<const MetricDesc*, RoleSum>>;

ModelSums SumsOf(const std::map<std::string, SeriesValue>& values) {
  ModelSums sums;
  for (const auto& [identity, value] : values) {
    const AttributeSet& known_by = value.info->attributes;
    ModelKey key{known_by.Text("inference.engine"), known_by.Text("inference.layer"),
                 known_by.Text("model.name")};
    Add(sums[key][value.info->desc], value);
  }
  return sums;
}

std::optional<ReadDistribution> DistributionOf(const MetricDesc* metric, const RoleSum& sum) {
  ReadDistribution out;
  out.metric = metric;
  out.count = sum.buckets.count;
  if (!(out.count > 0)) return std::nullopt;
  if (sum.buckets.sum && std::isfinite(*sum.buckets.sum)) out.mean = *sum.buckets.sum / out.count;
  out.p50 = Quantile(sum.buckets, 0.5);
  out.p95 = Quantile(sum.buckets, 0.95);
  out.p99 = Quantile(sum.buckets, 0.99);
  if (!sum.buckets.bounds.empty()) {
    out.first_bound = sum.buckets.bounds.front();
    out.last_bound = sum.buckets.bounds.back();
  }
  return out;
}

ReadNumber NumberOf(const MetricDesc* metric, const RoleSum& sum, std::optional<double> window_s) {
  ReadNumber out{metric, sum.number, {}};
  const EngineMetric* role = EngineMetricOf(*metric);
  if (role && role->combine == Combine::kMean) out.value /= static_cast<double>(sum.series);
  if (metric->kind == Kind::kCounter && window_s) out.per_second = out.value / *window_s;
  return out;
}

EngineReading Reading(std::string source, const std::map<std::string, SeriesValue>& values,
                      std::optional<double> window_s) {
  EngineReading reading{std::move(source), window_s, {}};
  for (const auto& [key, roles] : SumsOf(values)) {
    ModelReading model{key.engine, key.layer, key.model, {}, {}};
    for (const MetricDesc* metric : kDistributions) {
      auto at = roles.find(metric);
      if (at == roles.end()) continue;
      if (auto distribution = DistributionOf(metric, at->second))
        model.distributions.push_back(*distribution);
    }
    for (const MetricDesc* metric : kNumbers) {
      auto at = roles.find(metric);
      if (at != roles.end()) model.numbers.push_back(NumberOf(metric, at->second, window_s));
    }
    if (!model.distributions.empty() || !model.numbers.empty()) reading.models.push_back(std::move(model));
  }
  return reading;
}

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

std::string Seconds(const std::optional<double>& value) {
  if (!value) return "–";
  if (*value < 1) return Printed("%.3g ms", *value * 1e3);
  return Printed("%.4g s", *value);
}

// The resolution of buckets: nothing finer than the first bound, nothing above the last.
std::string QuantileText(const ReadDistribution& row, const std::optional<double>& value) {
  if (value && row.first_bound && *value < *row.first_bound) return "<" + Seconds(row.first_bound);
  if (value && row.last_bound && *value >= *row.last_bound) return ">" + Seconds(row.last_bound);
  return Seconds(value);
}

constexpr size_t kNumberColumn = 12;

std::string NumberText(const ReadNumber& number) {
  if (number.metric == &kInferenceKvCacheUsage) return Printed("%.1f %%", number.value * 100);
  std::string out = Printed("%.15g", number.value);
  if (number.per_second) out += "   " + Printed("%.4g", *number.per_second) + " per second";
  return out;
}

void AppendModel(std::string& out, const ModelReading& model) {
  out += '\n' + model.engine + " (" + model.layer + ")";
  if (!model.model.empty()) out += "   " + Printable(model.model);
  out += '\n';
  if (!model.distributions.empty()) {
    out.append(26, ' ');
    for (const char* head : {"p50", "p95", "p99", "mean", "count"})
      out += RightAligned(head, kNumberColumn, 1);
    out += '\n';
  }
  for (const ReadDistribution& row : model.distributions) {
    out += Padded("  " + Words(*row.metric, ' '), 26, 1);
    for (const std::optional<double>& value : {row.p50, row.p95, row.p99})
      out += RightAligned(QuantileText(row, value), kNumberColumn, 1);
    out += RightAligned(Seconds(row.mean), kNumberColumn, 1) +
           RightAligned(Printed("%.15g", row.count), kNumberColumn, 1) + "\n";
  }
  for (const ReadNumber& number : model.numbers)
    out += Padded("  " + Words(*number.metric, ' '), 29, 1) + NumberText(number) + "\n";
}

void AddNumber(JsonObject& object, std::string_view key, const std::optional<double>& value) {
  if (value && std::isfinite(*value)) object.Number(key, *value);
  else if (value) AppendJsonMember(object.Next(), key, *value);
}

void AppendModelJson(std::string& out, const ModelReading& model) {
  JsonObject object(out);
  object.Text("engine", model.engine);
  object.Text("layer", model.layer);
  object.TextIfAny("model", model.model);
  for (const ReadDistribution& row : model.distributions) {
    JsonObject distribution(object.Key(Words(*row.metric, '_'), "\n "));
    AddNumber(distribution, "p50", row.p50);
    AddNumber(distribution, "p95", row.p95);
    AddNumber(distribution, "p99", row.p99);
    AddNumber(distribution, "mean", row.mean);
    AddNumber(distribution, "count", row.count);
    AddNumber(distribution, "first_bound", row.first_bound);
    AddNumber(distribution, "last_bound", row.last_bound);
  }
  for (const ReadNumber& number : model.numbers) {
    AppendJsonNumber(object.Key(Words(*number.metric, '_'), "\n "), number.value);
    if (number.per_second) object.Number(Words(*number.metric, '_') + "_per_second", *number.per_second);
  }
}

}  // namespace

const ReadDistribution* ModelReading::Find(const MetricDesc& metric) const noexcept {
  auto at =
      std::ranges::find_if(distributions, [&](const ReadDistribution& row) { return row.metric == &metric; });
  return at == distributions.end() ? nullptr : &*at;
}

const ReadNumber* ModelReading::FindNumber(const MetricDesc& metric) const noexcept {
  auto at = std::ranges::find_if(numbers, [&](const ReadNumber& row) { return row.metric == &metric; });
  return at == numbers.end() ? nullptr : &*at;
}

EngineReading ReadLifetime(std::string source, const Frame& now, const ReadFilter& filter) {
  return Reading(std::move(source), ValuesOf(now, filter), std::nullopt);
}

EngineReading ReadWindow(std::string source, const Frame& before, const Frame& now,
                         const ReadFilter& filter) {
  const std::map<std::string, SeriesValue> old = ValuesOf(before, filter);
  std::map<std::string, SeriesValue> values = ValuesOf(now, filter);
  for (auto& [identity, value] : values) {
    auto at = old.find(identity);
    // A series that was not there before counted from 0.
    if (at == old.end()) continue;
    if (value.info->shape) {
      value.buckets = DeltaOf(at->second.buckets, value.buckets).buckets;
    } else if (value.info->desc->kind == Kind::kCounter && value.number >= at->second.number) {
      value.number -= at->second.number;
    }
  }
  double seconds = std::chrono::duration<double>(now.read_at - before.read_at).count();
  return Reading(std::move(source), values, seconds > 0 ? seconds : 0.001);
}

std::string ReadingText(const EngineReading& reading) {
  std::string out = Printable(reading.source);
  out += reading.window_s ? ": the last " + Printed("%.3g", *reading.window_s) + " s\n"
                          : ": since the engine started; use --window 30s for current values\n";
  for (const ModelReading& model : reading.models) AppendModel(out, model);
  return out;
}

std::string ReadingJson(const EngineReading& reading) {
  return JsonDocumentText("gpulens.engines.read/1", [&](JsonObject& root) {
    root.Text("source", reading.source);
    root.Text("over", reading.window_s ? "window" : "engine lifetime");
    AddNumber(root, "window_s", reading.window_s);
    root.List("engines", reading.models, AppendModelJson, "\n", "\n");
  });
}

}  // namespace gpulens
