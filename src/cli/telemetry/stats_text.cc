#include "cli/telemetry/telemetry_command.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <functional>

#include "base/parse.h"
#include "base/text.h"
#include "cli/common/output.h"
#include "wire/json/json_object.h"
#include "wire/json/json_text.h"

namespace gpulens {

namespace {

// Longest names, in wide and narrow terminals.
constexpr size_t kMostName = 40, kMostNameNarrow = 24, kNarrow = 100;
constexpr size_t kLeastWidth = 40;  // of tables

// 84,102.41
std::string Fixed(double value, int digits) {
  if (std::isnan(value)) return kNoValue;
  char text[64];
  std::snprintf(text, sizeof text, "%.*f", digits, std::abs(value));
  std::string out = text;
  for (size_t at = std::min(out.find('.'), out.size()); at > 3; at -= 3) out.insert(at - 3, ",");
  return (value < 0 ? "-" : "") + out;
}

// Three digits: 0.412, 41.2, 1,204.
std::string Three(double value) {
  const double size = std::abs(value);
  return Fixed(value, size >= 99.95               ? 0
                      : size >= 9.995             ? 1
                      : size >= 0.9995            ? 2
                      : size >= 0.01 || size == 0 ? 3
                                                  : 6);
}

std::string Count(uint64_t count) { return CountText(static_cast<int64_t>(count)); }

// The total of a measure; NaN when no call has it.
double TotalOf(const Distribution& of) noexcept { return of.n == 0 ? kNotMeasured : of.sum; }

std::string MeasuredBy(const Distribution& of, uint64_t calls) {
  return of.n == 0 || of.n == calls ? "" : Count(of.n) + " of " + Count(calls) + " calls";
}

// "2026-11-21 02:07" of a group of time.
std::string NameOf(const InferenceSummary& group, GroupBy by, size_t width) {
  if (by != GroupBy::kMinute && by != GroupBy::kHour && by != GroupBy::kDay)
    return group.key.empty()
               ? "(none)"
               : Shortened(group.key, width > 0 && width < kNarrow ? kMostNameNarrow : kMostName);
  const auto seconds = ParseInt<int64_t>(group.key);
  if (!seconds) return "(no time)";
  std::string time;
  AppendRfc3339(time, *seconds * 1'000'000'000);
  time[10] = ' ';
  return time.substr(0, by == GroupBy::kDay ? 10 : 16);
}

struct TableColumn {
  const char* head;
  std::function<double(const InferenceSummary&)> value;  // NaN: not measured
  int digits;
  const char* unit = "";
};

// Ordered by importance.
const std::vector<TableColumn>& TableColumns() {
  using S = const InferenceSummary&;
  static const std::vector<TableColumn> columns = {
      {"Calls", [](S s) { return static_cast<double>(s.calls); }, 0},
      {"Failed", [](S s) { return s.errors > 0 ? static_cast<double>(s.errors) : kNotMeasured; }, 0},
      {"Tokens", [](S s) { return static_cast<double>(s.total_tokens); }, 0},
      {"Avg Latency", [](S s) { return s.latency_seconds.mean; }, 3, "s"},
      {"TTFT p95", [](S s) { return s.ttft_seconds.p95 * 1e3; }, 0, "ms"},
      {"Tok/s", [](S s) { return s.output_tokens_per_second; }, 1},
      {"Energy (J)", [](S s) { return TotalOf(s.energy_joules); }, 2},
      {"E/OutTok (J)", [](S s) { return s.joules_per_output_token; }, 6},
      {"Cost (USD)", [](S s) { return TotalOf(s.cost_usd); }, 6},
      {"Tok/s/W", [](S s) { return s.output_tokens_per_second_per_watt; }, 2},
      {"GPU Util %", [](S s) { return s.gpu_utilization_ratio.mean * 100; }, 1},
      {"Mean ITL", [](S s) { return s.itl_seconds.mean * 1e3; }, 2, "ms"},
      {"P95 ITL", [](S s) { return s.call_means.itl_p95_seconds * 1e3; }, 2, "ms"},
  };
  return columns;
}

TextTable GroupTable(const std::string& title, const std::vector<InferenceSummary>& groups, GroupBy by,
                     size_t width) {
  // Omits columns without any value.
  std::vector<const TableColumn*> columns;
  for (const TableColumn& column : TableColumns()) {
    if (std::ranges::any_of(groups, [&](const auto& group) { return !std::isnan(column.value(group)); }))
      columns.push_back(&column);
  }
  std::vector<std::string> head = {title};
  for (const TableColumn* column : columns) head.emplace_back(column->head);
  TextTable table(head);
  for (size_t i = 1; i < head.size(); ++i) table.AlignRight(i);
  for (const InferenceSummary& group : groups) {
    std::vector<std::string> cells = {NameOf(group, by, width)};
    for (const TableColumn* column : columns) {
      const double value = column->value(group);
      cells.push_back(Fixed(value, column->digits) + (std::isnan(value) ? "" : column->unit));
    }
    table.Add(std::move(cells));
  }
  return table;
}

class Overview {
 public:
  void Line(const char* name, const std::string& value, const std::string& note = {}) {
    out_ += "  " + Padded(name, 28) + RightAligned(value, 16) + (note.empty() ? "" : "   " + note) + "\n";
  }
  // Omits an unknown value.
  void Known(const char* name, double value, int digits, const std::string& note = {}) {
    if (!std::isnan(value)) Line(name, Fixed(value, digits), note);
  }
  const std::string& text() const noexcept { return out_; }

 private:
  std::string out_;
};

std::string Totals(const InferenceSummary& all) {
  Overview out;
  out.Line("Total Calls", Count(all.calls));
  out.Line("Total Tokens", Count(all.total_tokens),
           all.total_tokens == 0
               ? ""
               : Count(all.prompt_tokens) + " in, " + Count(all.completion_tokens) + " out");
  out.Line("Total Cost (USD)", Fixed(TotalOf(all.cost_usd), 6), MeasuredBy(all.cost_usd, all.calls));
  out.Line("Total Latency (s)", Fixed(TotalOf(all.latency_seconds), 2),
           MeasuredBy(all.latency_seconds, all.calls));
  out.Known("Total Energy (J)", TotalOf(all.energy_joules), 2, MeasuredBy(all.energy_joules, all.calls));
  out.Known("Avg Throughput (tok/s)", all.output_tokens_per_second, 1, "output tokens / latency");
  out.Known("Avg GPU Utilization (%)", all.gpu_utilization_ratio.mean * 100, 1,
            MeasuredBy(all.gpu_utilization_ratio, all.calls));
  out.Known("Energy/Output Token (J)", all.joules_per_output_token, 6);
  out.Known("Throughput/Watt (tok/s/W)", all.output_tokens_per_second_per_watt, 2);
  out.Known("Prefill Energy (J)", all.prefill_energy_joules, 2);
  out.Known("Decode Energy (J)", all.decode_energy_joules, 2);
  out.Known("Mean ITL (ms)", all.itl_seconds.mean * 1e3, 2, MeasuredBy(all.itl_seconds, all.calls));
  out.Known("Median ITL (ms)", all.call_means.itl_median_seconds * 1e3, 2);
  out.Known("P95 ITL (ms)", all.call_means.itl_p95_seconds * 1e3, 2);
  return out.text();
}

std::string Spread(const InferenceSummary& all, size_t width) {
  TextTable table({"Per call", "mean", "p50", "p90", "p95", "p99", "max", "calls"});
  for (size_t i = 1; i < 8; ++i) table.AlignRight(i);
  bool some = false;
  const auto row = [&](const char* name, const Distribution& of, double scale) {
    if (of.n == 0) return;
    some = true;
    std::vector<std::string> cells = {name};
    for (double value : {of.mean, of.p50, of.p90, of.p95, of.p99, of.max})
      cells.push_back(Three(value * scale));
    cells.push_back(Count(of.n));
    table.Add(std::move(cells));
  };
  row("Latency (s)", all.latency_seconds, 1);
  row("TTFT (ms)", all.ttft_seconds, 1e3);
  row("ITL, mean (ms)", all.itl_seconds, 1e3);
  row("Energy (J)", all.energy_joules, 1);
  return some ? "\n" + table.Text(width) : "";
}

std::string Title(const TelemetryStats& stats) {
  std::string out = "Telemetry Overview";
  std::string about;
  const auto add = [&](const std::string& what) { about += (about.empty() ? "" : ", ") + what; };
  if (!stats.since.empty()) add("since " + stats.since);
  if (!stats.until.empty()) add("until " + stats.until);
  if (!stats.query.model.empty()) add("model " + stats.query.model);
  if (!stats.query.engine.empty()) add("engine " + stats.query.engine);
  if (!stats.query.batch_id.empty()) add("batch " + stats.query.batch_id);
  if (!stats.query.warmup) add("without warm-up");
  if (stats.all.errors > 0) add(Count(stats.all.errors) + " failed");
  if (stats.all.cancelled > 0) add(Count(stats.all.cancelled) + " cancelled");
  if (!about.empty()) out += "   " + Printable(about);
  return out + "\n";
}

std::string Capital(std::string text) {
  if (!text.empty() && text.front() >= 'a' && text.front() <= 'z')
    text.front() = static_cast<char>(text.front() - 'a' + 'A');
  return text;
}

std::vector<InferenceSummary> First(const std::vector<InferenceSummary>& groups, size_t n) {
  return {groups.begin(), groups.begin() + static_cast<std::ptrdiff_t>(std::min(n, groups.size()))};
}

std::string TopTitle(size_t shown, size_t all, const std::string& what) {
  return shown < all
             ? "Top " + std::to_string(shown) + " of " + CountText(static_cast<int64_t>(all)) + " " + what
             : what;
}

void AddSpread(JsonObject& parent, std::string_view key, const Distribution& of) {
  JsonObject object(parent.Key(key));
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

void AppendSummary(std::string& out, const InferenceSummary& of, std::string_view key_name) {
  JsonObject object(out);
  if (!key_name.empty()) object.Text(key_name, of.key);
  object.Count("calls", of.calls);
  object.Count("errors", of.errors);
  object.Count("cancelled", of.cancelled);
  object.Count("prompt_tokens", of.prompt_tokens);
  object.Count("prompt_tokens_evaluated", of.prompt_tokens_evaluated);
  object.Count("cached_prompt_tokens", of.cached_prompt_tokens);
  object.Count("completion_tokens", of.completion_tokens);
  object.Count("total_tokens", of.total_tokens);
  AddSpread(object, "latency_seconds", of.latency_seconds);
  AddSpread(object, "ttft_seconds", of.ttft_seconds);
  AddSpread(object, "itl_seconds", of.itl_seconds);
  AddSpread(object, "energy_joules", of.energy_joules);
  AddSpread(object, "cost_usd", of.cost_usd);
  AddSpread(object, "gpu_utilization_ratio", of.gpu_utilization_ratio);
  object.Number("prefill_energy_joules", of.prefill_energy_joules);
  object.Number("decode_energy_joules", of.decode_energy_joules);
  object.Number("joules_per_output_token", of.joules_per_output_token);
  object.Number("output_tokens_per_second", of.output_tokens_per_second);
  object.Number("output_tokens_per_second_per_watt", of.output_tokens_per_second_per_watt);
  object.Number("joules_per_token", of.joules_per_token);
  object.Number("mean_of_itl_median_seconds", of.call_means.itl_median_seconds);
  object.Number("mean_of_itl_p95_seconds", of.call_means.itl_p95_seconds);
}

}  // namespace

std::string StatsText(const TelemetryStats& stats, size_t width) {
  if (width > 0) width = std::max(width, kLeastWidth);
  std::string out = Title(stats) + Totals(stats.all) + Spread(stats.all, width);
  size_t left_out = 0;
  const auto add = [&](const std::string& title, const std::vector<InferenceSummary>& groups, GroupBy by) {
    const TextTable table = GroupTable(title, groups, by, width);
    out += "\n" + table.Text(width);
    left_out = std::max(left_out, table.LeftOut(width));
  };
  if (stats.by.empty()) {
    const auto models = First(stats.models, stats.top);
    add(TopTitle(models.size(), stats.models.size(), "Models"), models, GroupBy::kModel);
    add("Engines", stats.engines, GroupBy::kEngine);
  } else {
    const bool time = stats.query.by >= GroupBy::kMinute;
    const auto shown = time ? stats.groups : First(stats.groups, stats.top);
    const std::string title = TopTitle(shown.size(), stats.groups.size(), Capital(stats.by));
    add(time ? title + " (UTC)" : title, shown, stats.query.by);
  }
  if (left_out > 0)
    out += "\n" + std::to_string(left_out) + " more columns in a wider terminal, or with --json\n";
  return out;
}

std::string StatsJson(const TelemetryStats& stats) {
  return JsonDocumentText("gpulens.telemetry_stats/1", [&](JsonObject& root) {
    root.Text("db", stats.path);
    const auto time = [&](std::string_view key, const auto& at) {
      if (!at) return root.Raw(key, "null");
      root.Time(key, std::chrono::duration_cast<std::chrono::nanoseconds>(at->time_since_epoch()).count());
    };
    time("since", stats.query.since);
    time("until", stats.query.until);
    AppendSummary(root.Key("total"), stats.all, {});
    const auto list = [&](std::string_view key, const std::vector<InferenceSummary>& groups,
                          std::string_view key_name) {
      root.List(
          key, groups,
          [&](std::string& out, const InferenceSummary& group) { AppendSummary(out, group, key_name); },
          "\n");
    };
    if (stats.by.empty()) {
      list("models", stats.models, "model");
      list("engines", stats.engines, "engine");
    } else {
      root.Text("by", stats.by);
      // Of a time: seconds since 1970, as text.
      list("groups", stats.groups, "key");
    }
  });
}

}  // namespace gpulens
