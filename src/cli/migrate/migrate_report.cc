#include "cli/migrate/migrate_report.h"

#include <algorithm>
#include <map>

#include "base/parse.h"
#include "base/text.h"
#include "cli/common/output.h"
#include "wire/json/json_object.h"

namespace gpulens {

using migrate::CheckedMetric;
using migrate::CheckedQuery;
using migrate::TableLine;
using migrate::Verdict;

namespace {

constexpr Verdict kAllVerdicts[] = {Verdict::kKeeps, Verdict::kChanges, Verdict::kMissing, Verdict::kUnread,
                                    Verdict::kOther};

std::string_view CountWords(Verdict verdict) {
  switch (verdict) {
    case Verdict::kKeeps: return "keep working";
    case Verdict::kChanges: return "change";
    case Verdict::kMissing: return "not available";
    case Verdict::kUnread: return "not readable";
    case Verdict::kOther: break;
  }
  return "of other exporters";
}

std::string_view Heading(Verdict verdict) {
  switch (verdict) {
    case Verdict::kKeeps: return "keeps working";
    case Verdict::kChanges: return "changes: replace the first query by the second";
    case Verdict::kMissing: return "not available";
    case Verdict::kUnread: return "cannot be read: look at it yourself";
    case Verdict::kOther: break;
  }
  return "of other exporters, not changed";
}

// A text of several lines, each escaped and indented.
void AppendLines(std::string& out, std::string_view text, std::string_view first, std::string_view indent) {
  bool begun = false;
  while (!text.empty()) {
    std::string_view line = TakeUntil(text, '\n');
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.find_first_not_of(" \t") == line.npos) continue;
    out += begun ? indent : first;
    AppendPrintable(out, line);
    out += '\n';
    begun = true;
  }
}

std::string PlaceOf(const CheckedQuery& query) {
  std::string out = Printable(query.query.file);
  if (!query.query.title.empty()) out += " · " + Printable(query.query.title);
  return out;
}

void AppendQuery(std::string& out, const CheckedQuery& query) {
  if (!query.query.place.empty()) out += "  " + Printable(query.query.place) + "\n";
  AppendLines(out, query.query.text, "    ", "    ");
  if (query.verdict == Verdict::kChanges) AppendLines(out, query.replacement, "    → ", "      ");
  const bool alert = query.query.place.starts_with("alert ");
  if (!query.legend.empty())
    AppendLines(out, query.legend, alert ? "    with " : "    legend: ", alert ? "         " : "      ");
  for (const CheckedMetric& metric : query.metrics) {
    if (metric.becomes.empty()) out += "    " + Printable(metric.name) + ": " + metric.note + "\n";
  }
  for (const std::string& note : query.notes) out += "    " + Printable(note) + "\n";
}

void AppendVerdict(std::string& out, const MigrateReport& report, Verdict verdict) {
  std::string place;
  bool begun = false;
  for (const CheckedQuery& query : report.queries) {
    if (query.verdict != verdict) continue;
    if (!begun) out.append("\n").append(Heading(verdict)).append("\n");
    begun = true;
    if (std::string here = PlaceOf(query); here != place) {
      out += "\n" + here + "\n";
      place = std::move(here);
    }
    AppendQuery(out, query);
  }
}

// Metrics of the queries that the page does not have: no such GPU, no such collector, or a level too low.
void AppendNotOnPage(std::string& out, const MigrateReport& report) {
  std::set<std::string> absent;
  for (const CheckedQuery& query : report.queries) {
    for (const CheckedMetric& metric : query.metrics) {
      if (!metric.becomes.empty() && !report.IsOnPage(metric.becomes)) absent.insert(metric.becomes);
    }
  }
  out += "\npage " + Printable(report.page) +
         (absent.empty() ? ": has all of these metrics\n" : ": has now no series of\n\n");
  for (const std::string& metric : absent) out += "  " + Printable(metric) + "\n";
}

// Why a dashboard of a library without a page has nothing to check.
std::string NoPageText(const migrate::Exporter& exporter) {
  return std::string(exporter.title) +
         " is a library and has no metrics page: no query is of it. What it measures is in `gpulens migrate "
         "table --from " +
         std::string(exporter.name) + "`.\n";
}

void AppendConfiguration(std::string& out, const migrate::Needs& needs) {
  if (needs.names.empty()) return;
  out += "\nconfiguration\n\n  sinks:\n    prometheus: {names: [" + Joined(needs.Names(), ", ") + "]" +
         (needs.NeedsLevel() ? ", metrics: all" : "") + "}\n";
}

// The labels, once each; "" where there are none.
std::string LabelsMarkdown(const std::vector<TableLine>& lines) {
  std::map<std::string_view, std::vector<std::string_view>> metrics;  // by "theirs → ours"
  for (const TableLine& line : lines) {
    for (std::string_view rest = line.labels; !rest.empty();) {
      const std::string_view pair = rest.substr(0, rest.find(", "));
      rest.remove_prefix(std::min(rest.size(), pair.size() + 2));
      metrics[pair].push_back(line.name);
    }
  }
  std::string out;
  for (const auto& [pair, names] : metrics) {
    constexpr std::string_view kArrow = " → ";
    const size_t arrow = pair.find(kArrow);
    if (arrow == pair.npos) continue;
    out.append("| `")
        .append(pair.substr(0, arrow))
        .append("` | `")
        .append(pair.substr(arrow + kArrow.size()));
    out.append("` | `").append(names.front()).append("`");
    if (names.size() > 1) out += " and " + Plural(names.size() - 1, "other", "others");
    out += " |\n";
  }
  return out.empty() ? out : "| label | here | on |\n|---|---|---|\n" + out + "\n";
}

std::string TableMarkdown(const std::vector<TableLine>& lines) {
  auto cell = [](std::string_view text) {
    std::string out;
    for (const char c : text) out += c == '|' ? std::string("\\|") : std::string(1, c);
    return out.empty() ? std::string(kNoValue) : out;
  };
  std::string out = LabelsMarkdown(lines) + "| name | here | note |\n|---|---|---|\n";
  for (const TableLine& line : lines) {
    out += "| `" + line.name + "` | " +
           (line.becomes.empty() ? std::string(kNoValue) : "`" + cell(line.becomes) + "`") + " | " +
           cell(line.note) + " |\n";
  }
  return out;
}

}  // namespace

size_t MigrateReport::Count(Verdict verdict) const noexcept {
  return static_cast<size_t>(
      std::ranges::count_if(queries, [&](const CheckedQuery& query) { return query.verdict == verdict; }));
}

bool MigrateReport::IsOnPage(std::string_view metric) const {
  if (on_page.contains(metric)) return true;
  for (const std::string_view suffix : {"_bucket", "_sum", "_count", "_total"}) {
    if (metric.ends_with(suffix) && on_page.contains(metric.substr(0, metric.size() - suffix.size())))
      return true;
  }
  return false;
}

std::string MigrateText(const MigrateReport& report, bool all) {
  std::string out = "from " + std::string(report.exporter->title) + ": " +
                    Plural(report.files, "file", "files") + ", " +
                    Plural(report.queries.size(), "query", "queries") + "\n";
  for (const Verdict verdict : kAllVerdicts) {
    if (const size_t count = report.Count(verdict); count > 0)
      out.append(RightAligned(CountText(static_cast<int64_t>(count)), 7))
          .append(" ")
          .append(CountWords(verdict))
          .append("\n");
  }
  if (report.other_sources > 0)
    out +=
        RightAligned(CountText(static_cast<int64_t>(report.other_sources)), 7) + " for other data sources\n";
  if (!report.exporter->has_page) out += NoPageText(*report.exporter);
  AppendConfiguration(out, report.needs);
  if (report.has_page) AppendNotOnPage(out, report);
  for (const Verdict verdict : {Verdict::kChanges, Verdict::kMissing, Verdict::kUnread})
    AppendVerdict(out, report, verdict);
  if (all) {
    for (const Verdict verdict : {Verdict::kKeeps, Verdict::kOther}) AppendVerdict(out, report, verdict);
  }
  if (!report.bad_files.empty()) {
    out += "\nfiles that cannot be read\n\n";
    for (const MigrateReport::BadFile& bad : report.bad_files)
      out += "  " + Printable(bad.file) + ": " + Printable(bad.why) + "\n";
  }
  return out;
}

std::string MigrateJson(const MigrateReport& report) {
  return JsonDocumentText("gpulens.migrate.check/1", [&](JsonObject& root) {
    root.Text("from", report.exporter->name);
    root.Count("files", report.files);
    {
      JsonObject counts(root.Key("counts"));
      for (const Verdict verdict : kAllVerdicts)
        counts.Count(migrate::VerdictName(verdict), report.Count(verdict));
      counts.Count("other_sources", report.other_sources);
    }
    {
      JsonObject needs(root.Key("configuration"));
      needs.Texts("names", report.needs.Names());
      needs.Flag("metrics_all", report.needs.NeedsLevel());
    }
    root.TextIfAny("page", report.page);
    root.List(
        "queries", report.queries,
        [&](std::string& out, const CheckedQuery& query) {
          JsonObject object(out);
          object.Text("file", query.query.file);
          object.TextIfAny("title", query.query.title);
          object.TextIfAny("place", query.query.place);
          object.Text("verdict", migrate::VerdictName(query.verdict));
          object.Text("query", query.query.text);
          object.TextIfAny("replacement", query.replacement);
          object.TextIfAny("legend", query.legend);
          object.List("metrics", query.metrics, [&](std::string& text, const CheckedMetric& metric) {
            JsonObject one(text);
            one.Text("name", metric.name);
            one.TextIfAny("becomes", metric.becomes);
            one.TextIfAny("note", metric.note);
            if (report.has_page)
              one.Flag("on_page", !metric.becomes.empty() && report.IsOnPage(metric.becomes));
          });
          object.Texts("notes", query.notes);
        },
        "\n", "\n");
    root.List(
        "bad_files", report.bad_files,
        [](std::string& out, const MigrateReport::BadFile& bad) {
          JsonObject object(out);
          object.Text("file", bad.file);
          object.Text("why", bad.why);
        },
        "\n");
  });
}

int MigrateResult(const MigrateReport& report) noexcept {
  return report.Count(Verdict::kChanges) + report.Count(Verdict::kMissing) + report.Count(Verdict::kUnread) +
                     report.bad_files.size() ==
                 0
             ? 0
             : 1;
}

std::string MigrateTable(const migrate::Exporter& exporter, std::string_view format) {
  const std::vector<TableLine> lines = migrate::TableOf(exporter);
  if (format == "md") return TableMarkdown(lines);
  if (format == "json") {
    return JsonDocumentText("gpulens.migrate.table/1", [&](JsonObject& root) {
      root.Text("from", exporter.name);
      root.List(
          "metrics", lines,
          [](std::string& out, const TableLine& line) {
            JsonObject object(out);
            object.Text("name", line.name);
            object.TextIfAny("becomes", line.becomes);
            object.TextIfAny("labels", line.labels);
            object.TextIfAny("note", line.note);
          },
          "\n", "\n");
    });
  }
  std::string out;
  for (const TableLine& line : lines) {
    out += Padded(line.name, 45) + (line.becomes.empty() ? std::string(kNoValue) : line.becomes);
    if (!line.labels.empty()) out += "\n    " + line.labels;
    if (!line.note.empty()) out += "\n    " + line.note;
    out += "\n";
  }
  return out;
}

}  // namespace gpulens
