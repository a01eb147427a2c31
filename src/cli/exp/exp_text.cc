#include "cli/exp/exp_command.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <set>

#include "base/parse.h"
#include "base/text.h"
#include "store/experiments/run_json.h"
#include "wire/json/json_object.h"
#include "wire/json/json_text.h"

namespace gpulens {

std::string DurationText(double seconds) {
  if (!(seconds >= 0) || seconds > 1e15) return "–";
  if (seconds < 1) return Printed("%.2fs", std::floor(seconds * 100) / 100);
  if (seconds < 60) return Printed("%.1fs", std::floor(seconds * 10) / 10);
  const auto whole = static_cast<int64_t>(seconds);
  const int64_t days = whole / 86'400, hours = whole / 3600 % 24, minutes = whole / 60 % 60;
  if (days > 0) return std::to_string(days) + "d " + std::to_string(hours) + "h";
  if (hours > 0) return std::to_string(hours) + "h " + std::to_string(minutes) + "m";
  return std::to_string(minutes) + "m " + std::to_string(whole % 60) + "s";
}

std::string MetricText(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  if (value == std::floor(value) && std::abs(value) < 1e15) return Printed("%.0f", value);
  return Printed("%.6g", value);
}

std::string EnergyText(double joules) {
  if (std::isnan(joules)) return "–";
  if (std::abs(joules) >= 3.6e5) return Printed("%.4g kWh", joules / 3.6e6);
  if (std::abs(joules) >= 1e4) return Printed("%.4g kJ", joules / 1e3);
  return Printed("%.4g J", joules);
}

std::string ChangeText(double before, double after) {
  if (!std::isfinite(before) || !std::isfinite(after) || before == 0) return {};
  return Printed("%+.1f %%", (after - before) / std::abs(before) * 100);
}

namespace {

using namespace experiments;

const MetricRow* Find(const std::vector<MetricRow>& metrics, std::initializer_list<std::string_view> keys) {
  for (std::string_view key : keys) {
    for (const MetricRow& metric : metrics) {
      if (metric.key == key) return &metric;
    }
  }
  return nullptr;
}

std::string LastOf(const std::vector<MetricRow>& metrics, std::initializer_list<std::string_view> keys) {
  const MetricRow* metric = Find(metrics, keys);
  return metric ? MetricText(metric->last) : kNoValue;
}

std::string Time(int64_t unix_ns) {
  if (unix_ns == 0) return kNoValue;  // of an old file without it
  std::string out;
  AppendRfc3339(out, unix_ns);
  return out;
}

void Field(std::string& out, std::string_view name, std::string_view value) {
  if (value.empty()) return;
  out += Padded(name, 12, 1) + Printable(value) + "\n";
}

std::string PerStepText(const RunRow& run, const std::vector<MetricRow>& metrics) {
  const double joules = JoulesPerStep(run, metrics);
  if (std::isnan(joules)) return kNoValue;
  return joules >= 1000 ? CountText(std::llround(joules)) : MetricText(std::round(joules * 1000) / 1000);
}

// "81 % busy (peak 100 %)"
std::string MeanAndPeak(double mean, double peak, double scale, const char* format) {
  if (std::isnan(mean)) return {};
  char text[64];
  std::snprintf(text, sizeof text, format, mean * scale, peak * scale);
  return text;
}

// Use of the GPUs, or of the processors without GPUs.
std::string UseLine(const EnergyRow& use) {
  std::string out = std::to_string(use.devices) + " " + use.vendor;
  for (const std::string& part :
       {MeanAndPeak(use.mean_utilization_ratio, use.peak_utilization_ratio, 100,
                    "%.0f %% busy (peak %.0f %%)"),
        MeanAndPeak(use.mean_power_watts, use.peak_power_watts, 1, "%.0f W (peak %.0f W)"),
        MeanAndPeak(use.mean_memory_used_bytes, use.peak_memory_used_bytes, 1.0 / (1 << 30),
                    "%.1f GiB (peak %.1f GiB)")}) {
    if (!part.empty()) out += (out.find(':') == std::string::npos ? ": " : ", ") + part;
  }
  return out;
}

std::string EnergyLine(const RunRow& run) {
  const EnergyRow& energy = run.energy;
  if (std::isnan(energy.joules)) {
    if (energy.validity.empty()) return {};
    return std::string(kNoValue) + "  " + energy.validity +
           (energy.reason.empty() ? "" : ": " + energy.reason);
  }
  std::string out = EnergyText(energy.joules);
  if (!std::isnan(energy.uncertainty_joules)) out += " ± " + EnergyText(energy.uncertainty_joules);
  if (!energy.method.empty()) out += "  " + energy.method;
  if (!energy.attribution.empty()) out += ", " + energy.attribution;
  if (energy.device_joules > energy.joules + 0.05) out += " of " + EnergyText(energy.device_joules);
  if (energy.validity == "running") out += ", up to its last heartbeat";
  if (run.resumed > 0) out += ", since it was resumed";
  if (!energy.reason.empty()) out += "; " + energy.reason;
  return out;
}

std::string StatusLine(const RunRow& run, bool old_file) {
  std::string out = run.status;
  if (!run.reason.empty()) out += ": " + run.reason;
  if (run.status == kCrashed && run.ended_ns) out += ": its last heartbeat was at " + Time(*run.ended_ns);
  if (old_file && run.status == kRunning) out += " (according to the old file, which has no heartbeats)";
  return out;
}

void AddPage(JsonObject& object, const RunPage& page, int64_t now_ns) {
  AddRunJson(object, page.run, now_ns, RunJson::kAll);
  object.TextIfAny("log", page.log);
  {
    JsonObject params(object.Key("params"));
    for (const ParamRow& param : page.params) AppendValueJson(params.Key(param.key), param.value);
  }
  {
    JsonObject tags(object.Key("tags"));
    for (const TagRow& tag : page.tags) tags.Text(tag.key, tag.value);
  }
  AddMetricsJson(object, page.metrics);
  object.List("artifacts", page.artifacts, [](std::string& out, const ArtifactRow& artifact) {
    JsonObject row(out);
    row.Text("name", artifact.name);
    row.TextIfAny("path", artifact.path);
    row.Whole("bytes", artifact.bytes);
    row.TextIfAny("sha256", artifact.sha256);
    row.Flag("copied", artifact.copied);
  });
  object.List("children", page.children,
              [](std::string& out, const RunRow& child) { AppendJsonString(out, child.id); });
}

}  // namespace

std::string RunListText(const std::vector<ListedRun>& runs, int64_t now_ns) {
  TextTable table(
      {"ID", "NAME", "STATUS", "STEP", "LOSS", "ACC", "DURATION", "GPUs", "ENERGY", "J/STEP", ""});
  for (size_t column : {3u, 4u, 5u, 6u, 7u, 8u, 9u}) table.AlignRight(column);
  for (const ListedRun& row : runs) {
    const RunRow& run = row.run;
    auto step = LastStep(row.metrics);
    std::string note;
    if (run.status == kCrashed && run.ended_ns) note = "last heartbeat " + Time(*run.ended_ns);
    else if (run.status == kFailed) note = run.reason;
    table.Add({run.id, run.name, run.status, step ? CountText(*step) : kNoValue,
               LastOf(row.metrics, {"loss", "train_loss", "train/loss"}),
               LastOf(row.metrics, {"accuracy", "acc", "eval_accuracy", "val_acc"}),
               DurationText(run.duration_seconds(now_ns)),
               run.energy.gpus() ? CountText(*run.energy.gpus()) : kNoValue, EnergyText(run.energy.joules),
               PerStepText(run, row.metrics), note});
  }
  return table.Text();
}

std::string RunPageText(const RunPage& page, int64_t now_ns) {
  const RunRow& run = page.run;
  std::string out;
  Field(out, "id", run.id);
  Field(out, "name", run.name);
  Field(out, "status", StatusLine(run, page.old_file));
  if (run.exit_code) Field(out, "exit code", std::to_string(*run.exit_code));
  Field(out, "started", Time(run.started_ns));
  if (run.ended_ns && run.status != kCrashed) Field(out, "ended", Time(*run.ended_ns));
  Field(out, "duration", DurationText(run.duration_seconds(now_ns)));
  Field(out, "energy", EnergyLine(run));
  if (std::string text = PerStepText(run, page.metrics); text != kNoValue) Field(out, "J/step", text);
  if (run.energy.devices > 0) Field(out, "devices", UseLine(run.energy));
  Field(out, "script", run.script);
  Field(out, "command", run.command);
  Field(out, "folder", run.folder);
  Field(out, "git commit", run.git_commit);
  Field(out, "host", run.host);
  Field(out, "within", run.parent_id);
  Field(out, "log", page.log);
  if (run.resumed > 0)
    Field(out, "resumed", std::to_string(run.resumed) + (run.resumed == 1 ? " time" : " times"));
  if (page.processes.size() > 1) Field(out, "processes", std::to_string(page.processes.size()));
  if (run.dropped > 0) Field(out, "dropped", CountText(run.dropped) + " records were dropped");
  for (const TagRow& tag : page.tags) Field(out, "tag", tag.key + " = " + tag.value);
  if (!page.params.empty()) {
    TextTable params({"PARAM", "VALUE"});
    for (const ParamRow& param : page.params) params.Add({param.key, ValueText(param.value)});
    out += "\n" + params.Text();
  }
  if (!page.metrics.empty()) {
    TextTable metrics({"METRIC", "LAST", "MIN", "MAX", "N", "LAST STEP"});
    for (size_t column : {1u, 2u, 3u, 4u, 5u}) metrics.AlignRight(column);
    for (const MetricRow& metric : page.metrics) {
      auto known = [](double value) { return std::isnan(value) ? std::string(kNoValue) : MetricText(value); };
      metrics.Add({metric.key, MetricText(metric.last), known(metric.min), known(metric.max),
                   metric.count ? CountText(*metric.count) : kNoValue,
                   metric.last_step ? CountText(*metric.last_step) : kNoValue});
    }
    out += "\n" + metrics.Text();
  }
  if (!page.artifacts.empty()) {
    TextTable artifacts({"ARTIFACT", "BYTES", "SHA-256", "WHERE"});
    artifacts.AlignRight(1);
    for (const ArtifactRow& artifact : page.artifacts)
      artifacts.Add({artifact.name, CountText(artifact.bytes),
                     artifact.sha256.empty() ? kNoValue : artifact.sha256.substr(0, 12),
                     artifact.path + (artifact.copied ? "" : "  (not copied)")});
    out += "\n" + artifacts.Text();
  }
  if (!page.children.empty()) {
    TextTable children({"WITHIN IT", "NAME", "STATUS", "DURATION"});
    for (const RunRow& child : page.children)
      children.Add({child.id, child.name, child.status, DurationText(child.duration_seconds(now_ns))});
    out += "\n" + children.Text();
  }
  return out;
}

std::string CompareText(const std::vector<RunPage>& pages, bool all, int64_t now_ns) {
  std::vector<std::string> head = {""};
  for (const RunPage& page : pages)
    head.push_back(page.run.id.substr(page.run.id.size() - std::min<size_t>(8, page.run.id.size())));
  head.emplace_back("CHANGE");
  TextTable table(head);
  auto add = [&](const std::string& name, std::vector<std::string> values, std::string change) {
    bool same =
        std::ranges::all_of(values, [&](const std::string& value) { return value == values.front(); });
    if (same && !all) return;
    values.insert(values.begin(), name);
    values.push_back(std::move(change));
    table.Add(std::move(values));
  };
  // Adds a row of one value per run, with the change from the first to the last.
  auto numbers = [&](const std::string& name, auto number, auto text) {
    std::vector<std::string> values;
    for (const RunPage& page : pages) values.push_back(text(page));
    add(name, values, ChangeText(number(pages.front()), number(pages.back())));
  };
  auto texts = [&](const std::string& name, auto text) {
    numbers(name, [](const RunPage&) { return kNotMeasured; }, text);
  };
  texts("name", [](const RunPage& page) { return page.run.name; });
  texts("status", [](const RunPage& page) { return page.run.status; });
  texts("git commit", [](const RunPage& page) {
    return page.run.git_commit.empty() ? kNoValue : page.run.git_commit.substr(0, 12);
  });
  auto seconds = [&](const RunPage& page) { return page.run.duration_seconds(now_ns); };
  numbers("duration", seconds, [&](const RunPage& page) { return DurationText(seconds(page)); });
  numbers(
      "energy", [](const RunPage& page) { return page.run.energy.joules; },
      [](const RunPage& page) { return EnergyText(page.run.energy.joules); });
  numbers(
      "J/step", [](const RunPage& page) { return JoulesPerStep(page.run, page.metrics); },
      [](const RunPage& page) { return PerStepText(page.run, page.metrics); });
  std::set<std::string> params, metrics;
  for (const RunPage& page : pages) {
    for (const ParamRow& param : page.params) params.insert(param.key);
    for (const MetricRow& metric : page.metrics) metrics.insert(metric.key);
  }
  for (const std::string& key : params) {
    texts("param " + key, [&](const RunPage& page) {
      const auto param = std::ranges::find(page.params, key, &ParamRow::key);
      return param == page.params.end() ? std::string(kNoValue) : ValueText(param->value);
    });
  }
  for (const std::string& key : metrics) {
    auto last = [&](const RunPage& page) {
      const MetricRow* metric = Find(page.metrics, {key});
      return metric ? metric->last : kNotMeasured;
    };
    numbers(key, last, [&](const RunPage& page) { return LastOf(page.metrics, {key}); });
  }
  return table.Text();
}

std::string RunSummary(const RunRow& run, const std::vector<MetricRow>& metrics, int64_t now_ns) {
  int64_t points = 0;
  for (const MetricRow& metric : metrics) points += metric.count.value_or(0);
  std::string out =
      Printable("gpulens run: " + run.id + " " + run.status + (run.reason.empty() ? "" : ", " + run.reason) +
                ", " + DurationText(run.duration_seconds(now_ns)) + ", " + CountText(points) + " points of " +
                Plural(metrics.size(), "metric", "metrics")) +
      "\n";
  constexpr size_t kShown = 6;
  std::string line;
  for (size_t i = 0; i < metrics.size() && i < kShown; ++i)
    AppendPrintable(line, (i == 0 ? "  " : "   ") + metrics[i].key + " " + MetricText(metrics[i].last));
  if (metrics.size() > kShown) line += "   …";
  if (!line.empty()) out += line + "\n";
  return out + "  gpulens exp show " + run.id + "\n";
}

std::string RunListJson(const std::vector<ListedRun>& runs, int64_t now_ns) {
  return JsonDocumentText("gpulens.experiments/1", [&](JsonObject& root) {
    auto add = [&](std::string& out, const ListedRun& run) {
      JsonObject object(out);
      AddRunJson(object, run.run, now_ns, RunJson::kAll);
      AddMetricsJson(object, run.metrics);
    };
    root.List("runs", runs, add, "\n");
  });
}

std::string RunPageJson(const RunPage& page, int64_t now_ns) {
  return JsonDocumentText("gpulens.experiment/1", [&](JsonObject& root) { AddPage(root, page, now_ns); });
}

std::string CompareJson(const std::vector<RunPage>& pages, int64_t now_ns) {
  return JsonDocumentText("gpulens.experiments/1", [&](JsonObject& root) {
    auto add = [&](std::string& out, const RunPage& page) {
      JsonObject object(out);
      AddPage(object, page, now_ns);
    };
    root.List("runs", pages, add, "\n");
  });
}

}  // namespace gpulens
