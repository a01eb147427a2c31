#include "cli/telemetry/telemetry_command.h"
#include "cli/common/command.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <iterator>

#include "base/clock.h"
#include "base/parse.h"
#include "base/result.h"
#include "base/rfc3339.h"
#include "base/text.h"
#include "cli/common/text_table.h"
#include "cli/help/help.h"
#include "config/value_parse.h"
#include "net/client/http_client.h"
#include "store/telemetry/schema.h"
#include "store/telemetry/servers/servers.h"
#include "store/telemetry/summary.h"

namespace gpulens {
namespace {

using std::chrono::nanoseconds;
using std::chrono::system_clock;

constexpr const char* kFooter = R"(
  gpulens telemetry stats                            totals, by model and engine
  gpulens telemetry stats --since 24h --engine vllm  one engine in the last day
  gpulens telemetry stats --by hour --since 7d       a row for each hour
  gpulens telemetry export -f csv -o calls.csv --since 2026-11-21
  gpulens telemetry clear --yes                      delete all records
  gpulens telemetry vacuum                           return deleted space to the file system
  gpulens telemetry check                            check the file

The file is ~/.gpulens/telemetry.db. --db or $GPULENS_TELEMETRY_DB name another one or, for stats, export and clear,
a server:
  postgresql://USER@HOST:5432/DATABASE             password: in the URL, $PGPASSWORD or ~/.pgpass
  clickhouse://USER@HOST:8123/DATABASE?table=NAME  clickhouses:// for TLS (8443); password: in the URL or $CLICKHOUSE_PASSWORD
Without that file, ~/.openjarvis/telemetry.db is read. stats, export and check never write.
Times are 90m, 24h or 7d ago, 2026-11-21 or 2026-11-21T02:07:00Z; both ends are included. Percentiles are within 0.6 %.
Exit: 0 printed or done · 1 the file cannot be read or written, or is damaged · 2 wrong use)";

constexpr std::string_view kGroups[] = {"all", "model", "engine", "agent", "batch", "minute", "hour", "day"};

// "24h": ago. "2026-11-21": its midnight in UTC.
Result<system_clock::time_point> TimeOf(const char* option, const std::string& text, int64_t now_ns) {
  const auto at = [](int64_t ns) {
    return system_clock::time_point(std::chrono::duration_cast<system_clock::duration>(nanoseconds(ns)));
  };
  Duration ago{};
  if (!ParseTimeValue(text, ago) && ago.count() >= 0) return at(std::max<int64_t>(0, now_ns - ago.count()));
  std::string moment = text.size() == 10 ? text + "T00:00:00Z" : text;
  if (auto ns = ParseRfc3339(moment)) return at(*ns);
  return Status{Code::kInvalidArgument, std::string(option) + " " + text +
                                            ": expected 90m, 24h, 7d, 2026-11-21 or 2026-11-21T02:07:00Z"};
}

// Of the terminal; 0 where there is none, and nothing has to be left out.
size_t ScreenWidth() noexcept {
  if (::isatty(STDOUT_FILENO) == 0) return 0;
  winsize size{};
  return ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

std::string HomePath(const char* below) {
  const char* home = std::getenv("HOME");
  return home && *home ? std::string(home) + below : "";
}

using Queried = std::function<Result<std::vector<InferenceSummary>>(const Query&)>;

Result<TelemetryStats> ReadStats(const std::string& name, const Queried& summarize,
                                 const TelemetryOptions& options) {
  TelemetryStats stats;
  stats.path = name;
  stats.since = options.since;
  stats.until = options.until;
  stats.top = options.top;
  ASSIGN_OR_RETURN(stats.query, QueryOf(options, RealClock().Now().unix_ns));
  Query query = stats.query;
  const auto ask = [&](GroupBy by) {
    query.by = by;
    return summarize(query);
  };
  ASSIGN_OR_RETURN(const std::vector<InferenceSummary> all, ask(GroupBy::kAll));
  stats.all = all.front();
  if (!options.by.empty()) {
    stats.by = options.by;
    ASSIGN_OR_RETURN(stats.groups, ask(stats.query.by));
    return stats;
  }
  ASSIGN_OR_RETURN(stats.models, ask(GroupBy::kModel));
  ASSIGN_OR_RETURN(stats.engines, ask(GroupBy::kEngine));
  return stats;
}

constexpr const char* kNothing = "No telemetry data recorded yet.\n";

int ReportNothing(const TelemetryOptions& options, const std::string& path) {
  TelemetryStats empty;
  empty.path = path;
  empty.by = options.by;
  const int code = PrintText(options.json ? StatsJson(empty) : kNothing);
  ::dprintf(STDERR_FILENO, "gpulens telemetry stats: there is no %s (--db names another file)\n",
            path.c_str());
  return code;
}

int ReportStats(const Result<TelemetryStats>& stats, const TelemetryOptions& options, bool records) {
  if (!stats) return FailCommand("telemetry stats", stats.error());
  if (options.json) return PrintText(StatsJson(*stats));
  if (stats->all.calls > 0) return PrintText(StatsText(*stats, ScreenWidth()));
  return PrintText(records ? "No matching telemetry data.\n" : kNothing);
}

int ServerStats(const std::string& url, const TelemetryOptions& options) {
  const auto summarize = [&url](const Query& query) { return telemetry::SummarizeServer(url, query); };
  auto records = telemetry::CountServerRecords(url);
  if (!records) return FailCommand("telemetry stats", records.error());
  return ReportStats(ReadStats(telemetry::ServerName(url), summarize, options), options, *records > 0);
}

}  // namespace

Result<std::string> FindTelemetry(const std::string& db) {
  LinkSecurePost();
  if (!db.empty()) return telemetry::ExpandPath(db);
  if (const char* named = std::getenv("GPULENS_TELEMETRY_DB"); named && *named)
    return telemetry::ExpandPath(named);
  ASSIGN_OR_RETURN(std::string ours, telemetry::ExpandPath("~/.gpulens/telemetry.db"));
  const std::string theirs = HomePath("/.openjarvis/telemetry.db");
  if (::access(ours.c_str(), F_OK) != 0 && ::access(theirs.c_str(), F_OK) == 0) return theirs;
  return ours;
}

Result<std::string> FindTelemetryFile(const std::string& db) {
  ASSIGN_OR_RETURN(std::string path, FindTelemetry(db));
  if (!telemetry::IsServer(path)) return path;
  return Status{Code::kInvalidArgument,
                telemetry::ServerName(path) + " is a server; vacuum and check are for files"};
}

Result<Query> QueryOf(const TelemetryOptions& options, int64_t now_ns) {
  Query query;
  query.model = options.model;
  query.engine = options.engine;
  query.batch_id = options.batch;
  query.warmup = !options.exclude_warmup;
  if (!options.since.empty()) {
    ASSIGN_OR_RETURN(query.since, TimeOf("--since", options.since, now_ns));
  }
  if (!options.until.empty()) {
    ASSIGN_OR_RETURN(query.until, TimeOf("--until", options.until, now_ns));
  }
  const auto* found = std::ranges::find(kGroups, options.by);
  if (found != std::end(kGroups)) query.by = static_cast<GroupBy>(found - kGroups);
  return query;
}

int RunTelemetryStats(const TelemetryOptions& options) {
  auto path = FindTelemetry(options.db);
  if (!path) return FailCommand("telemetry stats", path.error());
  if (auto query = QueryOf(options, 0); !query) return FailCommand("telemetry stats", query.error());
  if (telemetry::IsServer(*path)) return ServerStats(*path, options);
  if (::access(path->c_str(), F_OK) != 0) return ReportNothing(options, *path);
  auto database = telemetry::OpenToRead(*path);
  if (!database) return FailCommand("telemetry stats", database.error());
  const auto summarize = [&database](const Query& query) { return telemetry::Summarize(*database, query); };
  const auto stats = ReadStats(database->path(), summarize, options);
  auto records = database->Number("SELECT EXISTS(SELECT 1 FROM telemetry)");
  return ReportStats(stats, options, records && *records > 0);
}

namespace {

void AddFilters(CLI::App& command, TelemetryOptions& options) {
  AddOption(command, "--since", options.since, "Only records since then: 24h (ago), 2026-11-21", "T");
  AddOption(command, "--until", options.until, "Only records up to then", "T");
  AddOption(command, "--model", options.model, "Only records of this model", "NAME");
  AddOption(command, "--engine", options.engine, "Only records of this engine", "NAME");
  AddOption(command, "--batch", options.batch, "Only records of this batch, a run of gpulens bench serve",
            "ID");
  command.add_flag("--exclude-warmup", options.exclude_warmup, "Exclude warm-up calls");
}

}  // namespace

void AddTelemetry(CLI::App& app, int& code) {
  auto kept = std::make_shared<TelemetryOptions>();
  TelemetryOptions& options = *kept;
  CLI::App* telemetry =
      app.add_subcommand("telemetry", "Report on recorded inference calls: tokens, time, energy.");
  telemetry->group("Runs and records");
  telemetry->require_subcommand(1);
  telemetry->footer(kFooter);
  CLI::App* stats = telemetry->add_subcommand("stats", "Summarize the records.");
  stats->add_option("-n,--top", options.top, "Maximum number of models")
      ->check(CLI::Range(1, 1'000'000))
      ->capture_default_str();
  stats->add_option("--by", options.by, "Group by this instead of models and engines")
      ->check(CLI::IsMember(std::vector<std::string>(std::begin(kGroups) + 1, std::end(kGroups))));
  stats->add_flag("--json", options.json, "JSON");
  AddFilters(*stats, options);
  stats->callback([kept, &code] { code = RunTelemetryStats(*kept); });
  CLI::App* exported = telemetry->add_subcommand("export", "Export the records.");
  exported->add_option("-f,--format", options.format, "json (an array), jsonl (a line each) or csv")
      ->check(CLI::IsMember({"json", "jsonl", "csv"}))
      ->capture_default_str();
  AddOption(*exported, "-o,--output", options.output, "The file; default: standard output", "FILE");
  AddFilters(*exported, options);
  exported->callback([kept, &code] { code = RunTelemetryExport(*kept); });
  CLI::App* clear = telemetry->add_subcommand("clear", "Delete all records.");
  clear->add_flag("-y,--yes", options.yes, "Do not ask for confirmation");
  clear->callback([kept, &code] { code = RunTelemetryClear(*kept); });
  CLI::App* vacuum = telemetry->add_subcommand("vacuum", "Free the space of deleted records.");
  vacuum->callback([kept, &code] { code = RunTelemetryVacuum(*kept); });
  CLI::App* check =
      telemetry->add_subcommand("check", "Check the file for damage and show rejected records.");
  check->callback([kept, &code] { code = RunTelemetryCheck(*kept); });
  for (CLI::App* command : {stats, exported, clear, vacuum, check})
    AddOption(*command, "--db", options.db, "The file of records, or the URL of a server", "FILE|URL");
}

}  // namespace gpulens
