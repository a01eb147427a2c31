#include "cli/commands.h"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <set>
#include <vector>

#include "agent/plugin_tables.h"
#include "base/parse.h"
#include "base/text.h"
#include "catalog/all.h"
#include "catalog/events.h"
#include "catalog/exported_name.h"
#include "catalog/quality.h"
#include "cli/common/output.h"
#include "cli/help/help.h"
#include "names/naming.h"
#include "pipeline/self_metrics.h"
#include "wire/json/json_object.h"

namespace gpulens {
namespace {

// A row of the list, for all three formats.
struct MetricTableRow {
  std::string name, unit, kind, level, prometheus, attributes, help, stability, from;
};

std::string PrometheusName(const MetricDesc& metric) {
  std::string out;
  AppendPrometheusName(out, metric);
  return out;
}

void AppendWord(std::string& words, std::string_view word, std::string_view between) {
  if (!words.empty()) words += between;
  words += word;
}

// The collectors and analyzers that write the metric, and the agent itself; empty: none does.
std::string SourcesOf(const MetricDesc& metric) {
  std::string sources;
  auto add = [&](std::string_view name, std::span<const MetricDesc* const> rows) {
    if (std::ranges::find(rows, &metric) != rows.end()) AppendWord(sources, name, " ");
  };
  for (const CollectorSpec* spec : AllCollectors()) add(spec->name, spec->metrics);
  for (const AnalyzerSpec* spec : AllAnalyzers()) add(spec->name, spec->metrics);
  add("gpulens", SelfMetricRows());
  return sources;
}

// An example query for Prometheus: the value of a gauge, the rate of a counter, a quantile.
std::string QueryOf(const MetricDesc& metric, const std::string& name) {
  switch (metric.kind) {
    case Kind::kCounter: return "rate(" + name + "[5m])";
    case Kind::kHistogram: return "histogram_quantile(0.95, sum by (le) (rate(" + name + "_bucket[5m])))";
    case Kind::kGaugeHistogram: return "histogram_quantile(0.95, sum by (le) (" + name + "_bucket))";
    case Kind::kSummary: return name + "{quantile=\"0.99\"}";
    case Kind::kStateSet: return name + " == 1";
    default: return name;
  }
}

MetricTableRow NativeRow(const MetricDesc& metric) {
  MetricTableRow row;
  row.name = metric.name;
  row.unit = metric.unit;
  row.kind = KindName(metric.kind);
  row.level = MetricLevelName(metric.level);
  row.prometheus = PrometheusName(metric);
  row.attributes = Joined(metric.keys, " ");
  row.help = metric.help;
  row.stability = metric.stability == Stability::kStable ? "stable" : "development";
  row.from = SourcesOf(metric);
  return row;
}

std::vector<MetricTableRow> NativeRows() {
  std::vector<MetricTableRow> rows;
  for (const MetricDesc* metric : AllMetrics()) {
    MetricTableRow row = NativeRow(*metric);
    if (!row.from.empty()) rows.push_back(std::move(row));
  }
  return rows;
}

// Combines the rows of a family of a naming; a family without rows has HELP and TYPE only.
MetricTableRow NamingFamilyRow(const MetricNaming& naming, const NamingFamily& family) {
  MetricTableRow row;
  row.name = row.prometheus = family.name;
  row.kind = KindName(family.kind);
  row.help = family.help;
  std::set<std::string_view> natives, labels;
  auto add_label = [&](std::string_view label) {
    if (labels.insert(label).second) AppendWord(row.attributes, label, " ");
  };
  for (const NamingRow& from : naming.rows) {
    if (from.name != family.name) continue;
    row.unit = from.unit;
    row.prometheus = PrometheusNameOf(naming, from);
    if (natives.insert(from.native->name).second) AppendWord(row.from, from.native->name, " ");
    if (from.all_attributes) add_label("(as native)");
    for (const NamingLabel& label : from.labels) add_label(label.label);
    for (const NamingLabel& label : naming.labels) add_label(label.label);
    if (from.other_attributes) add_label("(others as native)");
  }
  if (row.from.empty()) row.from = "no collector yet: HELP and TYPE only";
  return row;
}

std::vector<MetricTableRow> NamingRows(const MetricNaming& naming) {
  std::vector<MetricTableRow> rows;
  std::set<std::string_view> seen = {""};
  for (const NamingFamily& family : naming.families) {
    if (seen.insert(family.name).second) rows.push_back(NamingFamilyRow(naming, family));
  }
  for (const NamingRow& row : naming.rows) {
    if (seen.insert(row.name).second) rows.push_back(NamingFamilyRow(naming, {row.name, row.help, row.kind}));
  }
  return rows;
}

// The columns that every table begins with.
std::string FirstColumns(const MetricTableRow& row) {
  return Padded(row.name, 38) + Padded(row.unit.empty() ? kNoValue : row.unit, 14) + Padded(row.kind, 16);
}

// One metric a line, whatever its length: for grep and other programs.
std::string Table(const std::vector<MetricTableRow>& rows) {
  std::string out;
  for (const MetricTableRow& row : rows)
    out += FirstColumns(row) + Padded(row.level, 11) + Padded(row.from, 32) + row.help + "\n";
  return out;
}

// For a terminal: a line of columns for each metric, and below it its meaning and sources. All but the
// longest names fit into 80 columns.
std::string TerminalTable(const std::vector<MetricTableRow>& rows, size_t width) {
  std::string out;
  for (const MetricTableRow& row : rows) {
    out += FirstColumns(row) + row.level;
    out.erase(out.find_last_not_of(' ') + 1);
    out += "\n    " + row.help + " · " + row.from + "\n";
  }
  return WrappedLines(out, width);
}

// The rows of docs/quality.md: when a reading is rejected, of which metrics, and why.
std::string TerminalRules(size_t width) {
  const std::string table = QualityMarkdown();
  std::string_view rest = table;
  std::string out;
  for (int row = 0; !rest.empty(); ++row) {
    std::string_view line = TakeUntil(rest, '\n');
    if (row == 1) continue;  // below the head
    TakeUntil(line, '|');
    std::string cells[4];
    for (std::string& cell : cells) {
      cell = TakeUntil(line, '|');
      std::erase(cell, '`');
      if (cell.size() > 2) cell = cell.substr(1, cell.size() - 2);
    }
    out += Padded(cells[0], 21) + cells[2] + "\n    " + cells[1] + " · " + cells[3] + "\n";
  }
  return WrappedLines(out, width);
}

std::string EventsMarkdown() {
  std::string out =
      "\n## Events\n\nWhat happens, once each: docs/events.md. A GPU that no collector knows is named by `" +
      std::string(kEventPciBusId) + "`.\n\n| name | severity | attributes | meaning |\n|---|---|---|---|\n";
  for (const EventDesc* event : kEvents) {
    out += "| `" + std::string(event->name) + "` | " + std::string(EventSeverityName(event->severity)) +
           " | " + Joined(event->keys, " ") + " | " + std::string(event->help) + " |\n";
  }
  return out;
}

std::string Json(const std::vector<MetricTableRow>& rows, bool events) {
  return JsonDocumentText("gpulens.metrics/1", [&](JsonObject& root) {
    auto add_row = [](std::string& out, const MetricTableRow& row) {
      JsonObject object(out);
      object.Text("name", row.name);
      object.Text("unit", row.unit);
      object.Text("kind", row.kind);
      object.TextIfAny("level", row.level);
      object.Text("prometheus", row.prometheus);
      object.Text("attributes", row.attributes);
      object.Text("from", row.from);
      object.TextIfAny("stability", row.stability);
      object.Text("help", row.help);
    };
    auto add_event = [](std::string& out, const EventDesc* event) {
      JsonObject object(out);
      object.Text("name", event->name);
      object.Text("attributes", Joined(event->keys, " "));
      object.Text("severity", EventSeverityName(event->severity));
      object.Text("help", event->help);
    };
    root.List("metrics", rows, add_row, "\n", "\n");
    if (events) root.List("events", kEvents, add_event, "\n", "\n");
  });
}

// Names of other projects have no level: a sink with these names exports all of them.
std::string Markdown(const std::vector<MetricTableRow>& rows) {
  const bool levels = !rows.empty() && !rows.front().level.empty();
  std::string out = std::string("| name | unit | kind |") + (levels ? " level |" : "") +
                    " Prometheus | attributes | from | meaning |\n|---|---|---|" + (levels ? "---|" : "") +
                    "---|---|---|---|\n";
  for (const MetricTableRow& row : rows) {
    out += "| `" + row.name + "` | " + (row.unit.empty() ? "–" : "`" + row.unit + "`") + " | " + row.kind +
           " | " + (levels ? row.level + " | " : "") + "`" + row.prometheus + "` | " +
           (row.attributes.empty() ? "–" : row.attributes) + " | " + row.from + " | " + row.help + " |\n";
  }
  return out;
}

struct MetricsOptions {
  std::string name;              // empty: all; a native or Prometheus name, or one of `names`
  std::string format = "table";  // table, md, json
  std::string names;             // a naming; empty: native
  bool json = false;             // the same as the format json
  bool rules = false;            // list the rules by which readings are rejected instead
};

// Returns 0 when printed, 2 for an unknown metric.
int RunMetrics(const MetricsOptions& options) {
  const std::string format = options.json ? "json" : options.format;
  // Output to other programs and files is not wrapped.
  const bool terminal = format == "table" && ::isatty(STDOUT_FILENO) == 1;
  const size_t width = terminal ? HelpStyleOf(STDOUT_FILENO).width : 0;
  if (!options.rules && !options.name.empty()) {
    std::string nearest;
    const std::string page = MetricPage(options.name, nearest);
    WriteText(page);
    if (!page.empty()) return 0;
    if (!nearest.empty()) nearest = " Did you mean " + nearest + "?";
    WriteNote("gpulens metrics: no metric \"" + options.name + "\"." + nearest +
              "   gpulens metrics lists all");
    return 2;
  }
  std::string text;
  if (options.rules) {
    text = MetricRules(width);
  } else if (format == "table") {
    text = MetricsTable(options.names, width);
  } else if (format == "md" && options.names.empty()) {
    text = MetricsMarkdown();
  } else {
    const MetricNaming* naming = options.names == kNativeNaming ? nullptr : FindNaming(options.names);
    const std::vector<MetricTableRow> rows = naming ? NamingRows(*naming) : NativeRows();
    text = format == "json" ? Json(rows, !naming) : Markdown(rows);
  }
  std::fputs(text.c_str(), stdout);
  return 0;
}

}  // namespace

std::string MetricPage(const std::string& name, std::string& nearest) {
  std::vector<std::string> known;
  for (const MetricDesc* metric : AllMetrics()) {
    MetricTableRow row = NativeRow(*metric);
    known.push_back(row.name);
    known.push_back(row.prometheus);
    const NamingRow* match = nullptr;
    std::string other_names;
    for (std::string_view naming_name : NamingNames()) {
      const MetricNaming* naming = FindNaming(naming_name);
      for (const NamingRow& candidate : naming ? naming->rows : std::span<const NamingRow>()) {
        if (candidate.native != metric || candidate.name.empty()) continue;
        other_names += " · " + std::string(naming_name) + " " + std::string(candidate.name);
        if (candidate.name == name || PrometheusNameOf(*naming, candidate) == name) match = &candidate;
      }
    }
    if (row.name != name && row.prometheus != name && !match) continue;
    std::string out = Padded(row.name, 24) + row.help + "   " + row.kind +
                      (row.unit.empty() ? "" : ", " + row.unit) + ", " + row.stability + "\n";
    out += "  level       " + row.level + "\n";
    out += "  prometheus  " + row.prometheus + other_names + "\n";
    if (!row.attributes.empty()) out += "  attributes  " + row.attributes + "\n";
    out += "  from        " + (row.from.empty() ? "no collector of this program yet" : row.from) + "\n";
    for (const RuleText& rule : RulesOf(*metric)) {
      out += "  rejected    " + rule.rule + "   as " + std::string(ValidationName(rule.verdict)) + "; " +
             rule.source + "\n";
    }
    out += "  query       " + QueryOf(*metric, row.prometheus) + "\n";
    return out;
  }
  std::vector<std::string_view> words(known.begin(), known.end());
  nearest = NearestWord(name, words);
  return {};
}

std::string MetricsTable(const std::string& names, size_t width) {
  const MetricNaming* naming = names == kNativeNaming ? nullptr : FindNaming(names);
  std::vector<MetricTableRow> rows = naming ? NamingRows(*naming) : NativeRows();
  rows.insert(rows.begin(), {"NAME", "UNIT", "KIND", "LEVEL", "", "", "MEANING", "", "FROM"});
  return width == 0 ? Table(rows) : TerminalTable(rows, width);
}

std::string MetricRules(size_t width) { return width == 0 ? QualityMarkdown() : TerminalRules(width); }

std::string MetricsMarkdown() {
  std::string out =
      "# Metrics\n\nMade by `gpulens metrics --format md`; a test fails when this page is stale.\n\n"
      "An unknown value is left out, never 0. The attributes of a GPU (`gpu.index` and `gpu.uuid`) are not "
      "repeated\nhere. `level`: the lowest value of `metrics:` that shows it (docs/cardinality.md). `from`: "
      "the "
      "collectors and\nanalyzers that write it.\n\n## Native names\n\n";
  out += Markdown(NativeRows());
  out += EventsMarkdown();
  for (std::string_view name : NamingNames()) {
    const MetricNaming* naming = FindNaming(name);
    if (!naming) continue;
    out += "\n## Names `" + std::string(name) + "`: " + std::string(naming->help) + "\n\n";
    if (naming->renames.empty()) {
      out += Markdown(NamingRows(*naming));
    } else {
      out += "The rows of `" + std::string(naming->renames) +
             "` under other names: `gpulens metrics --names " + std::string(name) + "`.\n";
    }
  }
  return out;
}

void AddMetrics(CLI::App& app, int& code) {
  auto kept = std::make_shared<MetricsOptions>();
  CLI::App* metrics = app.add_subcommand("metrics", "List the metrics, or show one.");
  metrics->group("Look");
  metrics->add_option("NAME", kept->name, "Show one metric, by its native, Prometheus or other name");
  metrics->add_flag("--json", kept->json, "JSON");
  metrics->add_option("--format", kept->format, "table, md (docs/metrics.md) or json")
      ->check(CLI::IsMember({"table", "md", "json"}));
  metrics->add_flag("--rules", kept->rules, "List which readings are rejected, and why");
  const std::vector<std::string> names(NamingNames().begin(), NamingNames().end());
  metrics->add_option("--names", kept->names, "Names to list (default native)")->check(CLI::IsMember(names));
  metrics->add_option("--dialect", kept->names, "")->check(CLI::IsMember(names))->group("");
  metrics->callback([kept, &code] { code = RunMetrics(*kept); });
}

}  // namespace gpulens
