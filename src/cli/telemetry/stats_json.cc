#include "base/text.h"
#include "cli/telemetry/stats_text.h"
#include "wire/json/json_text.h"

namespace gpulens {
namespace {

class Object {
 public:
  explicit Object(std::string& out) : out_(out) { out_ += '{'; }
  ~Object() { out_ += '}'; }
  Object(const Object&) = delete;
  Object& operator=(const Object&) = delete;

  std::string& Key(std::string_view key) {
    if (!first_) out_ += ',';
    first_ = false;
    AppendJsonString(out_, key);
    out_ += ':';
    return out_;
  }
  void Text(std::string_view key, std::string_view text) { AppendJsonString(Key(key), text); }
  void Count(std::string_view key, uint64_t count) { AppendJsonInt(Key(key), static_cast<int64_t>(count)); }
  void Number(std::string_view key, double value) { AppendJsonNumber(Key(key), value); }
  void Spread(std::string_view key, const Distribution& of) {
    Object object(Key(key));
    object.Count("n", of.n);
    object.Number("sum", of.n == 0 ? kNotMeasured : of.sum);
    object.Number("mean", of.mean);
    object.Number("std", of.std);
    object.Number("min", of.min);
    object.Number("p50", of.p50);
    object.Number("p90", of.p90);
    object.Number("p95", of.p95);
    object.Number("p99", of.p99);
    object.Number("max", of.max);
  }

 private:
  std::string& out_;
  bool first_ = true;
};

void AppendSummary(std::string& out, const InferenceSummary& of, std::string_view key_name) {
  Object object(out);
  if (!key_name.empty()) object.Text(key_name, of.key);
  object.Count("calls", of.calls);
  object.Count("errors", of.errors);
  object.Count("cancelled", of.cancelled);
  object.Count("prompt_tokens", of.prompt_tokens);
  object.Count("prompt_tokens_evaluated", of.prompt_tokens_evaluated);
  object.Count("cached_prompt_tokens", of.cached_prompt_tokens);
  object.Count("completion_tokens", of.completion_tokens);
  object.Count("total_tokens", of.total_tokens);
  object.Spread("latency_seconds", of.latency_seconds);
  object.Spread("ttft_seconds", of.ttft_seconds);
  object.Spread("itl_seconds", of.itl_seconds);
  object.Spread("energy_joules", of.energy_joules);
  object.Spread("cost_usd", of.cost_usd);
  object.Spread("gpu_utilization_ratio", of.gpu_utilization_ratio);
  object.Number("prefill_energy_joules", of.prefill_energy_joules);
  object.Number("decode_energy_joules", of.decode_energy_joules);
  object.Number("joules_per_output_token", of.joules_per_output_token);
  object.Number("output_tokens_per_second", of.output_tokens_per_second);
  object.Number("output_tokens_per_second_per_watt", of.output_tokens_per_second_per_watt);
  object.Number("joules_per_token", of.joules_per_token);
  object.Number("mean_of_itl_median_seconds", of.call_means.itl_median_seconds);
  object.Number("mean_of_itl_p95_seconds", of.call_means.itl_p95_seconds);
}

void AppendSummaries(std::string& out, const std::vector<InferenceSummary>& of, std::string_view key_name) {
  out += '[';
  for (const InferenceSummary& each : of) {
    if (&each != &of.front()) out += ',';
    out += '\n';
    AppendSummary(out, each, key_name);
  }
  out += ']';
}

}  // namespace

std::string StatsJson(const TelemetryStats& stats) {
  std::string out;
  {
    Object object(out);
    object.Text("schema", "gpulens.telemetry_stats/1");
    object.Text("db", stats.path);
    const auto time = [&](std::string_view key, const auto& at) {
      if (!at) {
        object.Key(key) += "null";
        return;
      }
      std::string text;
      AppendRfc3339(text,
                    std::chrono::duration_cast<std::chrono::nanoseconds>(at->time_since_epoch()).count());
      object.Text(key, text);
    };
    time("since", stats.query.since);
    time("until", stats.query.until);
    AppendSummary(object.Key("total"), stats.all, {});
    if (stats.by.empty()) {
      AppendSummaries(object.Key("models"), stats.models, "model");
      AppendSummaries(object.Key("engines"), stats.engines, "engine");
    } else {
      object.Text("by", stats.by);
      // Of a time: seconds since 1970, as text.
      AppendSummaries(object.Key("groups"), stats.groups, "key");
    }
  }
  return out + "\n";
}

}  // namespace gpulens
