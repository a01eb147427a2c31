#include "cli/telemetry/telemetry_command.h"

#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <limits>

#include "base/clock.h"
#include "base/parse.h"
#include "base/result.h"
#include "base/rfc3339.h"
#include "base/text.h"
#include "cli/common/output.h"
#include "cli/help/help.h"
#include "config/value_parse.h"
#include "net/client/http_client.h"
#include "store/telemetry/rollup_tables.h"
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
Without that file, ~/.openjarvis/telemetry.db is read. export and check never write; stats only renews roll-ups.
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

// The width of the terminal; 0 without one.
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
  const auto summarize_by = [&](GroupBy by) {
    query.by = by;
    return summarize(query);
  };
  ASSIGN_OR_RETURN(const std::vector<InferenceSummary> all, summarize_by(GroupBy::kAll));
  stats.all = all.front();
  if (!options.by.empty()) {
    stats.by = options.by;
    ASSIGN_OR_RETURN(stats.groups, summarize_by(stats.query.by));
    return stats;
  }
  ASSIGN_OR_RETURN(stats.models, summarize_by(GroupBy::kModel));
  ASSIGN_OR_RETURN(stats.engines, summarize_by(GroupBy::kEngine));
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

int ReportStats(const TelemetryStats& stats, const TelemetryOptions& options, bool records) {
  if (options.json) return PrintText(StatsJson(stats));
  if (stats.all.calls > 0) return PrintText(StatsText(stats, ScreenWidth()));
  return PrintText(records ? "No matching telemetry data.\n" : kNothing);
}

Result<int> ServerStats(const std::string& url, const TelemetryOptions& options) {
  const auto summarize = [&url](const Query& query) { return telemetry::SummarizeServer(url, query); };
  ASSIGN_OR_RETURN(const uint64_t records, telemetry::CountServerRecords(url));
  ASSIGN_OR_RETURN(const TelemetryStats stats, ReadStats(telemetry::ServerName(url), summarize, options));
  return ReportStats(stats, options, records > 0);
}

constexpr int kBusyMs = 10'000;           // a writer's batch takes milliseconds
constexpr size_t kRollUpAtOnce = 65'536;  // rows in a transaction, so that writers wait no longer than 0.2 s

std::string Counted(int64_t count, const char* what) {
  return CountText(count) + " " + what + (count == 1 ? "" : "s");
}

Status RollUpAll(const sqlite::Database& database) {
  telemetry::RollupWriter rollups;
  for (bool more = true; more;) {
    ASSIGN_OR_RETURN(sqlite::Transaction transaction, sqlite::Transaction::Begin(database));
    ASSIGN_OR_RETURN(more, rollups.CatchUp(database, kRollUpAtOnce));
    RETURN_IF_ERROR(transaction.Commit());
  }
  return Ok();
}

// Rows that are read one by one without a word: a second, about.
constexpr int64_t kManyRows = 300'000;

// Brings the roll-ups that a file has up to date, if it may be written: the next summary is fast. A file
// without them is left as it is.
Status RenewRollups(const sqlite::Database& database) {
  ASSIGN_OR_RETURN(const telemetry::RollupState state, telemetry::ReadState(database));
  if (state.there) {
    ASSIGN_OR_RETURN(const bool lags, telemetry::RollupWriter::IsBehind(database));
    if (!lags) return Ok();
    const auto writable =
        sqlite::Database::Open({.path = database.path(), .create = false, .busy_ms = kBusyMs});
    if (writable && RollUpAll(*writable)) return Ok();
  }
  ASSIGN_OR_RETURN(const int64_t last, database.Number("SELECT coalesce(max(id),0) FROM telemetry"));
  const int64_t rows = last - (state.stale ? 0 : state.covered);
  if (rows < kManyRows) return Ok();
  ::dprintf(STDERR_FILENO,
            "%s: some %s records are read one by one; \"gpulens telemetry vacuum\" sums them up once\n",
            database.path().c_str(), CountText(rows).c_str());
  return Ok();
}

Result<int> PrintStats(const TelemetryOptions& options) {
  ASSIGN_OR_RETURN(const std::string path, FindTelemetry(options.db));
  RETURN_IF_ERROR(QueryOf(options, 0).status());
  if (telemetry::IsServer(path)) return ServerStats(path, options);
  if (::access(path.c_str(), F_OK) != 0) return ReportNothing(options, path);
  ASSIGN_OR_RETURN(const sqlite::Database database, telemetry::OpenToRead(path));
  RETURN_IF_ERROR(RenewRollups(database));
  const auto summarize = [&database](const Query& query) { return telemetry::Summarize(database, query); };
  ASSIGN_OR_RETURN(const TelemetryStats stats, ReadStats(database.path(), summarize, options));
  const auto records = database.Number("SELECT EXISTS(SELECT 1 FROM telemetry)");
  return ReportStats(stats, options, records && *records > 0);
}

Result<int64_t> Clear(const std::string& path) {
  if (telemetry::IsServer(path)) {
    ASSIGN_OR_RETURN(const uint64_t deleted, telemetry::ClearServer(path));
    return static_cast<int64_t>(deleted);
  }
  ASSIGN_OR_RETURN(sqlite::Database database,
                   sqlite::Database::Open({.path = path, .create = false, .busy_ms = kBusyMs}));
  ASSIGN_OR_RETURN(sqlite::Transaction transaction, sqlite::Transaction::Begin(database));
  telemetry::RollupWriter rollups;
  RETURN_IF_ERROR(database.Run("DELETE FROM telemetry"));
  const int64_t deleted = database.changes();
  // Without records no roll-up is stale.
  RETURN_IF_ERROR(rollups.Forget(database, std::numeric_limits<double>::infinity()));
  RETURN_IF_ERROR(transaction.Commit());
  return deleted;
}

Result<int64_t> CountRecords(const std::string& path) {
  if (telemetry::IsServer(path)) {
    ASSIGN_OR_RETURN(const uint64_t count, telemetry::CountServerRecords(path));
    return static_cast<int64_t>(count);
  }
  ASSIGN_OR_RETURN(const sqlite::Database database, telemetry::OpenToRead(path));
  return database.Number("SELECT count(*) FROM telemetry");
}

Result<int64_t> SizeOf(const std::string& path) {
  struct stat info{};
  if (::stat(path.c_str(), &info) != 0) return Status{Code::kUnavailable, "there is no " + path};
  return info.st_size;
}

Result<bool> HasTable(const sqlite::Database& database, const char* name) {
  ASSIGN_OR_RETURN(const int64_t found,
                   database.Number("SELECT count(*) FROM sqlite_master WHERE type='table' AND name='" +
                                   std::string(name) + "'"));
  return found > 0;
}

// What SQLite finds wrong, a line each; empty: nothing.
Result<std::string> Damage(const sqlite::Database& database) {
  ASSIGN_OR_RETURN(sqlite::Statement check, database.Prepare("PRAGMA integrity_check(20)"));
  std::string found;
  for (;;) {
    ASSIGN_OR_RETURN(const bool more, check.Step());
    if (!more) return found;
    if (check.Text(0) == "ok") continue;
    found += "  " + Printable(check.Text(0)) + "\n";
  }
}

Status ReportRollups(const sqlite::Database& database, int64_t records, std::string& out) {
  ASSIGN_OR_RETURN(const telemetry::RollupState state, telemetry::ReadState(database));
  if (!state.there) {
    out += "  no roll-ups: summaries read every record (gpulens telemetry vacuum makes them)\n";
  } else if (state.stale) {
    out += "  roll-ups are stale, as another program changed records; the next writer renews them\n";
  } else {
    ASSIGN_OR_RETURN(const int64_t held, database.Number("SELECT count(*) FROM telemetry WHERE id<=" +
                                                         std::to_string(state.covered)));
    out += "  " + CountText(held) + " of " + Counted(records, "record") + " rolled up\n";
  }
  return Ok();
}

Result<int> ClearTelemetry(const TelemetryOptions& options) {
  ASSIGN_OR_RETURN(const std::string path, FindTelemetry(options.db));
  ASSIGN_OR_RETURN(const int64_t records, CountRecords(path));
  if (!options.yes) {
    if (::isatty(STDIN_FILENO) == 0)
      return Status{Code::kInvalidArgument,
                    "no terminal to confirm on; pass --yes to delete without confirmation"};
    const std::string place = telemetry::IsServer(path) ? telemetry::ServerName(path) : path;
    if (!IsConfirmed("Delete all telemetry records? " + Counted(records, "record") + " in " + place +
                     " [y/N] ")) {
      ::dprintf(STDERR_FILENO, "Aborted.\n");
      return 1;
    }
  }
  ASSIGN_OR_RETURN(const int64_t deleted, Clear(path));
  return PrintText("Deleted " + CountText(deleted) + " telemetry records.\n");
}

Result<int> VacuumTelemetry(const TelemetryOptions& options) {
  ASSIGN_OR_RETURN(const std::string path, FindTelemetryFile(options.db));
  RETURN_IF_ERROR(telemetry::OpenToRead(path).status());
  ASSIGN_OR_RETURN(const int64_t before, SizeOf(path));
  telemetry::RollupWriter rollups;
  ASSIGN_OR_RETURN(sqlite::Database database, telemetry::OpenToWrite(path, &rollups));
  RETURN_IF_ERROR(RollUpAll(database));
  RETURN_IF_ERROR(database.Run("VACUUM; PRAGMA optimize; PRAGMA wal_checkpoint(TRUNCATE)"));
  ASSIGN_OR_RETURN(const int64_t after, SizeOf(path));
  return PrintText(path + ": " + CountText(before / 1024) + " KiB before, " + CountText(after / 1024) +
                   " KiB now\n");
}

Result<int> CheckTelemetry(const TelemetryOptions& options) {
  ASSIGN_OR_RETURN(const std::string path, FindTelemetryFile(options.db));
  ASSIGN_OR_RETURN(const sqlite::Database database, telemetry::OpenToRead(path));
  ASSIGN_OR_RETURN(const std::string damage, Damage(database));
  if (!damage.empty()) {
    PrintText(path + ": damaged\n" + damage);
    return 1;
  }
  ASSIGN_OR_RETURN(const int64_t records, database.Number("SELECT count(*) FROM telemetry"));
  std::string out = path + ": sound, " + Counted(records, "record") + "\n";
  RETURN_IF_ERROR(ReportRollups(database, records, out));
  ASSIGN_OR_RETURN(const bool poison, HasTable(database, "telemetry_poison"));
  if (poison) {
    ASSIGN_OR_RETURN(const int64_t aside, database.Number("SELECT count(*) FROM telemetry_poison"));
    if (aside > 0) out += "  " + Counted(aside, "record") + " rejected: SELECT * FROM telemetry_poison\n";
  }
  ASSIGN_OR_RETURN(const bool writers, HasTable(database, "telemetry_writer"));
  if (writers) {
    ASSIGN_OR_RETURN(const int64_t dropped,
                     database.Number("SELECT coalesce(sum(dropped), 0) FROM telemetry_writer"));
    if (dropped > 0) out += "  " + Counted(dropped, "record") + " dropped: SELECT * FROM telemetry_writer\n";
  }
  return PrintText(out);
}

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
  stats->callback([kept, &code] { code = ExitCode("telemetry stats", PrintStats(*kept)); });
  CLI::App* exported = telemetry->add_subcommand("export", "Export the records.");
  exported->add_option("-f,--format", options.format, "json (an array), jsonl (a line each) or csv")
      ->check(CLI::IsMember({"json", "jsonl", "csv"}))
      ->capture_default_str();
  AddOption(*exported, "-o,--output", options.output, "The file; default: standard output", "FILE");
  AddFilters(*exported, options);
  exported->callback([kept, &code] { code = ExitCode("telemetry export", ExportTelemetry(*kept)); });
  CLI::App* clear = telemetry->add_subcommand("clear", "Delete all records.");
  clear->add_flag("-y,--yes", options.yes, "Do not ask for confirmation");
  clear->callback([kept, &code] { code = ExitCode("telemetry clear", ClearTelemetry(*kept)); });
  CLI::App* vacuum = telemetry->add_subcommand("vacuum", "Free the space of deleted records.");
  vacuum->callback([kept, &code] { code = ExitCode("telemetry vacuum", VacuumTelemetry(*kept)); });
  CLI::App* check =
      telemetry->add_subcommand("check", "Check the file for damage and show rejected and dropped records.");
  check->callback([kept, &code] { code = ExitCode("telemetry check", CheckTelemetry(*kept)); });
  for (CLI::App* command : {stats, exported, clear, vacuum, check})
    AddOption(*command, "--db", options.db, "The file of records, or the URL of a server", "FILE|URL");
}

}  // namespace gpulens
