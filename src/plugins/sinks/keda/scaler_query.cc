#include "plugins/sinks/keda/scaler_query.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <optional>
#include <utility>

#include "base/parse.h"
#include "base/result.h"
#include "base/text.h"

namespace gpulens::keda {
namespace {

using std::chrono::seconds;

constexpr Duration kDefaultWindow = seconds(60), kShortestWindow = seconds(15);
constexpr Duration kDefaultAge = seconds(45), kShortestAge = seconds(1),
                   kLongestAge = std::chrono::minutes(10);
constexpr double kMostTarget = 1e9;
constexpr size_t kMostAttributes = 16;
constexpr std::string_view kFromEnv = "FromEnv";

constexpr std::pair<std::string_view, ScalerMetric> kMetrics[] = {
    {"queue", ScalerMetric::kQueue},
    {"running", ScalerMetric::kRunning},
    {"concurrency", ScalerMetric::kConcurrency},
    {"kv_cache", ScalerMetric::kKvCache},
    {"ttft", ScalerMetric::kTtft},
    {"itl", ScalerMetric::kItl},
};

// Keys that KEDA's client reads itself and sends, too.
constexpr std::string_view kOfKeda[] = {"scalerAddress", "enableTLS",     "unsafeSsl",   "tlsCertFile",
                                        "caCert",        "tlsClientCert", "tlsClientKey"};

using Text = const std::string&;
using Parse = Status (*)(Text value, ScalerQuery& out);

Status Bad(const std::string& what) { return {Code::kInvalidArgument, what}; }

Status ParseMetric(Text value, ScalerQuery& out) {
  for (const auto& [name, metric] : kMetrics) {
    if (name != value) continue;
    out.metric = metric;
    return Ok();
  }
  return Bad("is none of queue, running, concurrency, kv_cache, ttft, itl");
}

Status ParseNumber(Text value, double least, bool or_equal, double most, double& out) {
  const auto number = ParseDouble(value);
  if (!number || !(or_equal ? *number >= least : *number > least) || !(*number <= most))
    return Bad(or_equal ? "is not a number from 0 on" : "is not a number above 0");
  out = *number;
  return Ok();
}

// "30", "30s", "2m".
Status ParseSpan(std::string_view text, Duration least, Duration most, Duration& out) {
  double unit = 1;
  if (text.ends_with('m')) unit = 60;
  if (text.ends_with('m') || text.ends_with('s')) text.remove_suffix(1);
  const auto number = ParseDouble(text);
  const double longest = std::chrono::duration<double>(most).count();
  if (number && *number >= 0 && *number * unit <= longest) {
    out = std::chrono::duration_cast<Duration>(std::chrono::duration<double>(*number * unit));
    if (out >= least) return Ok();
  }
  const auto in_seconds = [](Duration time) {
    return std::to_string(std::chrono::duration_cast<seconds>(time).count()) + "s";
  };
  return Bad("is not a time from " + in_seconds(least) + " to " + in_seconds(most) + ", like 60s");
}

Status ParseQuantile(Text value, ScalerQuery& out) {
  std::string_view text = value;
  double scale = 1;
  if (text.starts_with('p')) {
    text.remove_prefix(1);
    scale = 100;
  }
  const auto number = ParseDouble(text);
  if (!number || !(*number > 0) || !(*number < scale)) return Bad("is not a quantile like p95 or 0.95");
  out.quantile = *number / scale;
  return Ok();
}

template <size_t kSize>
Status ParseWord(Text value, const std::pair<std::string_view, bool> (&words)[kSize], bool& out) {
  std::string all;
  for (const auto& [word, meaning] : words) {
    if (word == value) return out = meaning, Ok();
    all += (all.empty() ? "" : " or ") + std::string(word);
  }
  return Bad("is not " + all);
}

// "app=chat,tier=gold".
Status ParseAttributes(std::string_view text, ScalerQuery& out) {
  while (!text.empty()) {
    const size_t comma = std::min(text.find(','), text.size());
    const std::string_view one = text.substr(0, comma);
    text.remove_prefix(std::min(comma + 1, text.size()));
    const size_t equals = one.find('=');
    if (equals == std::string_view::npos || Trim(one.substr(0, equals)).empty())
      return Bad("is not a list like app=chat,tier=gold");
    out.attributes[std::string(Trim(one.substr(0, equals)))] = Trim(one.substr(equals + 1));
    if (out.attributes.size() > kMostAttributes)
      return Bad("has more than " + std::to_string(kMostAttributes) + " attributes");
  }
  return Ok();
}

struct Row : ScalerKey {
  Parse parse;
};

constexpr std::pair<std::string_view, bool> kAggregations[] = {{"avg", false}, {"max", true}};
constexpr std::pair<std::string_view, bool> kTypes[] = {{"AverageValue", false}, {"Value", true}};
constexpr std::pair<std::string_view, bool> kIdle[] = {{"unknown", false}, {"0", true}};

constexpr Row kRows[] = {
    {{"metric", "queue, running, concurrency, kv_cache, ttft or itl; required"}, &ParseMetric},
    {{"target",
      "the value that one replica should have: requests, a share from 0 to 1, or seconds; required"},
     [](Text value, ScalerQuery& out) { return ParseNumber(value, 0, false, kMostTarget, out.target); }},
    {{"activation", "waiting and running requests of all replicas above which the workload is active; 0"},
     [](Text value, ScalerQuery& out) { return ParseNumber(value, 0, true, kMostTarget, out.activation); }},
    {{"metricType", "what metricType of the trigger is: AverageValue (KEDA's default) or Value"},
     [](Text value, ScalerQuery& out) { return ParseWord(value, kTypes, out.value_type); }},
    {{"aggregation", "of kv_cache: avg of all replicas, or max"},
     [](Text value, ScalerQuery& out) { return ParseWord(value, kAggregations, out.greatest); }},
    {{"quantile", "of ttft and itl: p95"}, &ParseQuantile},
    {{"window", "of ttft and itl: the time over which requests count, 15s to 300s; 60s"},
     [](Text value, ScalerQuery& out) {
       return ParseSpan(value, kShortestWindow, kLongestWindow, out.window);
     }},
    {{"whenIdle", "of ttft and itl, while no request waits or runs: unknown, or 0"},
     [](Text value, ScalerQuery& out) { return ParseWord(value, kIdle, out.zero_if_idle); }},
    {{"maxAge", "how old a reading may be, 1s to 600s; 45s"},
     [](Text value, ScalerQuery& out) { return ParseSpan(value, kShortestAge, kLongestAge, out.max_age); }},
    {{"model", "model.name of the series; any"},
     [](Text value, ScalerQuery& out) { return out.model = value, Ok(); }},
    {{"engine", "inference.engine of the series, like vllm; any"},
     [](Text value, ScalerQuery& out) { return out.engine = value, Ok(); }},
    {{"layer", "inference.layer of the series: engine, router, gateway, * for any; engine"},
     [](Text value, ScalerQuery& out) { return out.layer = value == "*" ? "" : value, Ok(); }},
    {{"namespace", "k8s.namespace.name of targets that have one; the ScaledObject's, * for any"},
     [](Text value, ScalerQuery& out) { return out.name_space = value == "*" ? "" : value, Ok(); }},
    {{"attributes", "further attributes of the targets, like app=chat,tier=gold"},
     [](Text value, ScalerQuery& out) { return ParseAttributes(value, out); }},
};

constexpr auto kKeys = [] {
  std::array<ScalerKey, std::size(kRows)> keys{};
  std::ranges::transform(kRows, keys.begin(), [](const Row& row) { return ScalerKey(row); });
  return keys;
}();

std::string Shown(std::string_view text) {
  std::string out = "\"";
  AppendPrintable(out, text.substr(0, 80));
  return out + "\"";
}

std::string AllKeys() {
  std::string all;
  for (const ScalerKey& key : kKeys) all += (all.empty() ? "" : ", ") + std::string(key.name);
  return all;
}

// Refuses keys that the metric has no use for, so that no setting is silently without effect.
Status CheckUse(const ScaledObjectRef& object, const ScalerQuery& query) {
  const auto has = [&](std::string_view key) {
    return object.metadata.contains(key) || object.metadata.contains(std::string(key).append(kFromEnv));
  };
  for (std::string_view key : {"quantile", "window", "whenIdle"})
    if (has(key) && !IsLatency(query.metric))
      return Bad(std::string(key) + " is of the metrics ttft and itl");
  if (has("aggregation") && query.metric != ScalerMetric::kKvCache)
    return Bad("aggregation is of the metric kv_cache");
  if (query.metric == ScalerMetric::kKvCache && query.target > 1)
    return Bad("target of kv_cache is a share of the cache, from 0 to 1");
  return Ok();
}

}  // namespace

std::span<const ScalerKey> ScalerKeys() noexcept { return kKeys; }

std::string ScalerQuery::MetricName() const {
  std::string name(std::ranges::find(kMetrics, metric, [](const auto& row) { return row.second; })->first);
  std::ranges::replace(name, '_', '-');
  if (!IsLatency(metric)) return name;
  std::string percent;
  AppendValue(percent, std::round(quantile * 1e6) / 1e4);
  std::ranges::replace(percent, '.', '-');
  return name + "-p" + percent;
}

Result<ScalerQuery> ParseScalerQuery(const ScaledObjectRef& object) {
  ScalerQuery query;
  query.window = kDefaultWindow;
  query.max_age = kDefaultAge;
  query.layer = "engine";
  query.name_space = object.name_space;
  bool has_metric = false;
  for (const auto& [given, value] : object.metadata) {
    std::string_view key = given;
    if (std::ranges::find(kOfKeda, key) != std::end(kOfKeda)) continue;
    if (key.ends_with(kFromEnv)) key.remove_suffix(kFromEnv.size());
    const auto row = std::ranges::find(kRows, key, [](const Row& each) { return each.name; });
    if (row == std::end(kRows))
      return Bad("unknown key " + Shown(given) + " in the metadata; known: " + AllKeys());
    if (key != given && object.metadata.contains(key)) return Bad(std::string(key) + " is set twice");
    if (Status status = row->parse(value, query); !status)
      return Bad(std::string(key) + ": " + Shown(value) + " " + status.detail);
    has_metric = has_metric || key == "metric";
  }
  if (!has_metric) return Bad("metric is missing; known keys: " + AllKeys());
  if (query.target <= 0) return Bad("target is missing: the value that one replica should have");
  RETURN_IF_ERROR(CheckUse(object, query));
  return query;
}

}  // namespace gpulens::keda
