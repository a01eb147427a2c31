#include "cli/commands.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <set>
#include <vector>

#include "agent/plugin_tables.h"
#include "base/parse.h"
#include "base/text.h"
#include "catalog/all.h"
#include "catalog/events.h"
#include "catalog/prometheus_name.h"
#include "catalog/quality.h"
#include "cli/common/json_object.h"
#include "cli/common/text_table.h"
#include "cli/help/help.h"
#include "names/naming.h"
#include "pipeline/self_metrics.h"

namespace gpulens {
namespace {

// One row as all three formats show it.
struct Row {
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

// Every collector and analyzer that writes the row, and the agent itself; empty: no part of this program
// does.
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

Row NativeRow(const MetricDesc& metric) {
  Row row;
  row.name = metric.name;
  row.unit = metric.unit;
  row.kind = KindName(metric.kind);
  row.level = MetricLevelName(metric.level);
  row.prometheus = PrometheusName(metric);
  for (std::string_view key : metric.keys)
    row.attributes += (row.attributes.empty() ? "" : " ") + std::string(key);
  row.help = metric.help;
  row.stability = metric.stability == Stability::kStable ? "stable" : "development";
  row.from = SourcesOf(metric);
  return row;
}

std::vector<Row> NativeRows() {
  std::vector<Row> rows;
  for (const MetricDesc* metric : AllMetrics()) {
    Row row = NativeRow(*metric);
    if (!row.from.empty()) rows.push_back(std::move(row));
  }
  return rows;
}

// A family of a dialect: every row that has its name, or what is shown before any row feeds it.
Row NamingFamilyRow(const MetricNaming& dialect, const NamingFamily& family) {
  Row row;
  row.name = row.prometheus = family.name;
  row.kind = KindName(family.kind);
  row.help = family.help;
  std::set<std::string_view> natives, labels;
  auto add_label = [&](std::string_view label) {
    if (labels.insert(label).second) AppendWord(row.attributes, label, " ");
  };
  for (const NamingRow& from : dialect.rows) {
    if (from.name != family.name) continue;
    row.unit = from.unit;
    row.prometheus = PrometheusNameOf(dialect, from);
    if (natives.insert(from.native->name).second) AppendWord(row.from, from.native->name, " ");
    if (from.all_attributes) add_label("(as native)");
    for (const NamingLabel& label : from.labels) add_label(label.label);
    for (const NamingLabel& label : dialect.labels) add_label(label.label);
    if (from.other_attributes) add_label("(others as native)");
  }
  if (row.from.empty()) row.from = "no collector yet: HELP and TYPE only";
  return row;
}

std::vector<Row> DialectRows(const MetricNaming& dialect) {
  std::vector<Row> rows;
  std::set<std::string_view> seen = {""};
  for (const NamingFamily& family : dialect.families) {
    if (seen.insert(family.name).second) rows.push_back(NamingFamilyRow(dialect, family));
  }
  for (const NamingRow& row : dialect.rows) {
    if (seen.insert(row.name).second)
      rows.push_back(NamingFamilyRow(dialect, {row.name, row.help, row.kind}));
  }
  return rows;
}

std::string PaddedColumn(std::string_view text, size_t width) {
  return std::string(text).append(std::max(width, WidthOf(text) + 2) - WidthOf(text), ' ');
}

// The columns that every table begins with.
std::string FirstColumns(const Row& row) {
  return PaddedColumn(row.name, 38) + PaddedColumn(row.unit.empty() ? kNoValue : row.unit, 14) +
         PaddedColumn(row.kind, 16);
}

// One metric a line, whatever its length: for grep and other programs.
std::string Table(const std::vector<Row>& rows) {
  std::string out;
  for (const Row& row : rows)
    out += FirstColumns(row) + PaddedColumn(row.level, 11) + PaddedColumn(row.from, 32) + row.help + "\n";
  return out;
}

// For a terminal: a line of columns for each metric, and below it what it means and where it is from. In 80
// columns there is room for all but the longest names.
std::string TerminalTable(const std::vector<Row>& rows, size_t width) {
  std::string out;
  for (const Row& row : rows) {
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
    out += PaddedColumn(cells[0], 21) + cells[2] + "\n    " + cells[1] + " · " + cells[3] + "\n";
  }
  return WrappedLines(out, width);
}

std::string KeysOf(const EventDesc& event) {
  std::string keys;
  for (std::string_view key : event.keys) keys += (keys.empty() ? "" : " ") + std::string(key);
  return keys;
}

std::string EventsMarkdown() {
  std::string out =
      "\n## Events\n\nWhat happens, once each: docs/events.md. A GPU that no collector knows is named by `" +
      std::string(kEventPciBusId) + "`.\n\n| name | severity | attributes | meaning |\n|---|---|---|---|\n";
  for (const EventDesc* event : kEvents) {
    out += "| `" + std::string(event->name) + "` | " + std::string(EventSeverityName(event->severity)) +
           " | " + KeysOf(*event) + " | " + std::string(event->help) + " |\n";
  }
  return out;
}

std::string Json(const std::vector<Row>& rows, bool events) {
  return JsonDocumentText("gpulens.metrics/1", [&](JsonObject& root) {
    auto add_row = [](std::string& out, const Row& row) {
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
      object.Text("attributes", KeysOf(*event));
      object.Text("severity", EventSeverityName(event->severity));
      object.Text("help", event->help);
    };
    root.List("metrics", rows, add_row, "\n", "\n");
    if (events) root.List("events", kEvents, add_event, "\n", "\n");
  });
}

// Names of others have no level: a sink with these names shows all of them.
std::string Markdown(const std::vector<Row>& rows) {
  const bool levels = !rows.empty() && !rows.front().level.empty();
  std::string out = std::string("| name | unit | kind |") + (levels ? " level |" : "") +
                    " Prometheus | attributes | from | meaning |\n|---|---|---|" + (levels ? "---|" : "") +
                    "---|---|---|---|\n";
  for (const Row& row : rows) {
    out += "| `" + row.name + "` | " + (row.unit.empty() ? "–" : "`" + row.unit + "`") + " | " + row.kind +
           " | " + (levels ? row.level + " | " : "") + "`" + row.prometheus + "` | " +
           (row.attributes.empty() ? "–" : row.attributes) + " | " + row.from + " | " + row.help + " |\n";
  }
  return out;
}

}  // namespace

std::string MetricPage(const std::string& name, std::string& nearest) {
  std::vector<std::string> known;
  for (const MetricDesc* metric : AllMetrics()) {
    Row row = NativeRow(*metric);
    known.push_back(row.name);
    known.push_back(row.prometheus);
    const NamingRow* dialect_row = nullptr;
    std::string dialects;
    for (std::string_view dialect_name : NamingNames()) {
      const MetricNaming* dialect = FindNaming(dialect_name);
      for (const NamingRow& candidate : dialect ? dialect->rows : std::span<const NamingRow>()) {
        if (candidate.native != metric || candidate.name.empty()) continue;
        dialects += " · " + std::string(dialect_name) + " " + std::string(candidate.name);
        if (candidate.name == name || PrometheusNameOf(*dialect, candidate) == name) dialect_row = &candidate;
      }
    }
    if (row.name != name && row.prometheus != name && !dialect_row) continue;
    std::string out = PaddedColumn(row.name, 24) + row.help + "   " + row.kind +
                      (row.unit.empty() ? "" : ", " + row.unit) + ", " + row.stability + "\n";
    out += "  level       " + row.level + "\n";
    out += "  prometheus  " + row.prometheus + dialects + "\n";
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
  const MetricNaming* dialect = names == kNativeNaming ? nullptr : FindNaming(names);
  std::vector<Row> rows = dialect ? DialectRows(*dialect) : NativeRows();
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
    const MetricNaming* dialect = FindNaming(name);
    if (!dialect) continue;
    out += "\n## Names `" + std::string(name) + "`: " + std::string(dialect->help) + "\n\n";
    if (dialect->renames.empty()) {
      out += Markdown(DialectRows(*dialect));
    } else {
      out += "The rows of `" + std::string(dialect->renames) +
             "` under other names: `gpulens metrics --names " + std::string(name) + "`.\n";
    }
  }
  return out;
}

int RunMetrics(const MetricsOptions& options) {
  const std::string format = options.json ? "json" : options.format;
  // What goes to another program or a file stays whole.
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
    const MetricNaming* dialect = options.names == kNativeNaming ? nullptr : FindNaming(options.names);
    const std::vector<Row> rows = dialect ? DialectRows(*dialect) : NativeRows();
    text = format == "json" ? Json(rows, !dialect) : Markdown(rows);
  }
  std::fputs(text.c_str(), stdout);
  return 0;
}

}  // namespace gpulens
