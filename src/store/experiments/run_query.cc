#include "store/experiments/run_query.h"

#include <sqlite3.h>

#include <algorithm>
#include <cctype>
#include <set>

#include "base/parse.h"
#include "base/result.h"

namespace gpulens::experiments {
namespace {

using sqlite::kMostDepth;
using sqlite::kMostMemory;
using sqlite::kMostSqlBytes;
using sqlite::kMostValueBytes;
using sqlite::Quoted;
using sqlite::Statement;

// Metrics and params that become columns of `experiments`; more are in their own views.
constexpr int kMostColumns = 400;
// Longer names are in the other views alone.
constexpr size_t kLongestColumn = 256;

#define GPULENS_TIME(column)                                                                 \
  "strftime('%Y-%m-%dT%H:%M:%S'," column "/1000000000,'unixepoch')||printf('.%03dZ'," column \
  "/1000000%"                                                                                \
  "1000)"
#define GPULENS_DURATION                                                \
  "CASE WHEN r.ended_ns IS NOT NULL THEN (r.ended_ns-r.started_ns)/1e9" \
  " WHEN r.status='running' THEN CAST(strftime('%s','now') AS REAL)-r.started_ns/1e9 END"

constexpr const char* kViews =
    "CREATE TEMP VIEW runs AS SELECT r.id AS id, r.name AS name, r.status COLLATE NOCASE AS status,"
    "  r.parent_id AS parent_id, " GPULENS_TIME("r.started_ns") " AS started, " GPULENS_TIME(
        "r.ended_ns") " AS ended, " GPULENS_DURATION
    " AS duration, r.script AS script, r.command AS command, r.git_commit AS git_commit, r.host AS host,"
    "  r.exit_code AS exit_code, r.reason AS reason, r.resumed AS resumed, r.dropped AS dropped,"
    "  r.energy_joules AS energy_joules, r.energy_uncertainty_joules AS energy_uncertainty_joules,"
    "  r.energy_method AS energy_method, r.energy_validity AS energy_validity,"
    "  r.attribution AS energy_attribution, r.device_energy_joules AS device_energy_joules,"
    "  r.vendor AS device_vendor, r.devices AS devices, r.mean_power_watts AS mean_power_watts,"
    "  r.peak_power_watts AS peak_power_watts, r.mean_utilization_ratio AS mean_utilization_ratio,"
    "  r.peak_utilization_ratio AS peak_utilization_ratio, r.mean_memory_used_bytes AS mean_memory_used_bytes,"
    "  r.peak_memory_used_bytes AS peak_memory_used_bytes FROM run_now r;"
    "CREATE TEMP VIEW params AS SELECT p.run_id AS run_id, r.name AS run, p.key AS key, p.type AS type,"
    "  p.value AS value FROM param p JOIN run r ON r.id=p.run_id;"
    "CREATE TEMP VIEW metrics AS SELECT m.run_id AS run_id, r.name AS run, m.key AS key, p.step AS step,"
    "  " GPULENS_TIME("p.unix_ns") " AS time, p.value AS value"
    "  FROM metric m JOIN run r ON r.id=m.run_id JOIN point p ON p.metric_id=m.id;"
    "CREATE TEMP VIEW summaries AS SELECT m.run_id AS run_id, r.name AS run, m.key AS key, m.count AS count,"
    "  m.last_step AS last_step, m.last_value AS last, m.min_value AS min, m.max_value AS max"
    "  FROM metric m JOIN run r ON r.id=m.run_id;"
    "CREATE TEMP VIEW tags AS SELECT t.run_id AS run_id, r.name AS run, t.key AS key, t.value AS value"
    "  FROM tag t JOIN run r ON r.id=t.run_id;"
    "CREATE TEMP VIEW artifacts AS SELECT a.run_id AS run_id, r.name AS run, a.name AS name, a.path AS path,"
    "  a.bytes AS bytes, a.sha256 AS sha256, a.copied AS copied FROM artifact a JOIN run r ON r.id=a.run_id;";

// Columns of every file, including those of the zernel project's queries.
constexpr const char* kExperiments =
    "CREATE TEMP VIEW experiments AS SELECT r.id AS id, r.name AS name, r.status COLLATE NOCASE AS status,"
    "  r.script AS script, r.git_commit AS git_commit, " GPULENS_TIME("r.started_ns") " AS created_at,"
    "  " GPULENS_TIME("r.ended_ns") " AS finished_at, " GPULENS_DURATION
    " AS duration, r.exit_code AS exit_code, r.host AS host, r.energy_joules AS energy_joules";
constexpr const char* kOwnColumns[] = {"id",         "name",       "status",       "script",
                                       "git_commit", "created_at", "finished_at",  "duration",
                                       "exit_code",  "host",       "energy_joules"};
// Always columns, whether there is such a metric or not.
constexpr const char* kOldColumns[] = {"loss",  "accuracy", "grad_norm",  "learning_rate", "throughput",
                                       "epoch", "step",     "perplexity", "eval_loss"};
#undef GPULENS_TIME
#undef GPULENS_DURATION

std::string Lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return out;
}

std::string MetricOf(std::string_view key) {
  return "(SELECT last_value FROM metric WHERE run_id=r.id AND key=" + Quoted(key, '\'') + ")";
}

// Columns have names that differ by more than case.
class Columns {
 public:
  Columns() {
    for (const char* name : kOwnColumns) taken_.insert(name);
  }
  bool Add(const std::string& name, const std::string& value) {
    if (taken_.size() >= kMostColumns || !IsName(name) || !taken_.insert(Lower(name)).second) return false;
    sql_ += ", " + value + " AS " + Quoted(name);
    return true;
  }
  const std::string& sql() const noexcept { return sql_; }
  // A NUL ends a statement.
  static bool IsName(std::string_view key) noexcept {
    return key.size() <= kLongestColumn && key.find('\0') == std::string_view::npos;
  }

 private:
  std::set<std::string> taken_;
  std::string sql_;
};

Result<std::string> ExperimentsView(const sqlite::Database& database) {
  Columns columns;
  for (const char* name : kOldColumns) {
    std::string value = MetricOf(name);
    if (std::string_view(name) == "accuracy") value = "COALESCE(" + value + "," + MetricOf("acc") + ")";
    if (std::string_view(name) == "learning_rate") value = "COALESCE(" + value + "," + MetricOf("lr") + ")";
    if (std::string_view(name) == "perplexity") value = "COALESCE(" + value + "," + MetricOf("ppl") + ")";
    if (std::string_view(name) == "step")
      value = "COALESCE(" + value + ",(SELECT max(last_step) FROM metric WHERE run_id=r.id))";
    columns.Add(name, value);
  }
  ASSIGN_OR_RETURN(Statement metrics, database.Prepare("SELECT DISTINCT key FROM metric ORDER BY key"));
  RETURN_IF_ERROR(metrics.Each([&] {
    if (Columns::IsName(metrics.Text(0)))
      columns.Add(std::string(metrics.Text(0)), MetricOf(metrics.Text(0)));
  }));
  ASSIGN_OR_RETURN(Statement params, database.Prepare("SELECT DISTINCT key FROM param ORDER BY key"));
  RETURN_IF_ERROR(params.Each([&] {
    if (!Columns::IsName(params.Text(0))) return;
    std::string key(params.Text(0));
    std::string value = "(SELECT value FROM param WHERE run_id=r.id AND key=" + Quoted(key, '\'') + ")";
    if (!columns.Add(key, value)) columns.Add("param_" + key, value);
  }));
  return kExperiments + columns.sql() + " FROM run_now r;";
}

// Authorizer: called for each action of a statement.
constexpr auto kOnlyReading = [](void*, int action, const char*, const char* function, const char*,
                                 const char*) {
  switch (action) {
    case SQLITE_SELECT:
    case SQLITE_READ:
    case SQLITE_RECURSIVE: return SQLITE_OK;
    case SQLITE_FUNCTION:
      return function && std::string_view(function) == "load_extension" ? SQLITE_DENY : SQLITE_OK;
    default: return SQLITE_DENY;
  }
};

struct Deadline {
  const Clock& clock;
  int64_t at_ns;
  static int Over(void* self) {
    const auto* deadline = static_cast<const Deadline*>(self);
    return deadline->clock.Now().boot_ns >= deadline->at_ns;
  }
};

// The authorizer and the limits, for as long as this lives.
class Guard {
 public:
  Guard(sqlite3* database, Deadline& deadline) : database_(database) {
    ::sqlite3_set_authorizer(database_, kOnlyReading, nullptr);
    ::sqlite3_progress_handler(database_, sqlite::kOpsBetweenChecks, &Deadline::Over, &deadline);
    value_ = ::sqlite3_limit(database_, SQLITE_LIMIT_LENGTH, kMostValueBytes);
    sql_ = ::sqlite3_limit(database_, SQLITE_LIMIT_SQL_LENGTH, kMostSqlBytes);
    depth_ = ::sqlite3_limit(database_, SQLITE_LIMIT_EXPR_DEPTH, kMostDepth);
    memory_ = ::sqlite3_hard_heap_limit64(kMostMemory);
  }
  Guard(const Guard&) = delete;
  Guard& operator=(const Guard&) = delete;
  ~Guard() {
    ::sqlite3_set_authorizer(database_, nullptr, nullptr);
    ::sqlite3_progress_handler(database_, 0, nullptr, nullptr);
    ::sqlite3_limit(database_, SQLITE_LIMIT_LENGTH, value_);
    ::sqlite3_limit(database_, SQLITE_LIMIT_SQL_LENGTH, sql_);
    ::sqlite3_limit(database_, SQLITE_LIMIT_EXPR_DEPTH, depth_);
    ::sqlite3_hard_heap_limit64(memory_);
  }

 private:
  sqlite3* database_;
  int value_, sql_, depth_;
  sqlite3_int64 memory_;
};

// SQLite's message without the path, and with the available tables.
Status Reported(Status status) {
  if (size_t colon = status.detail.find(": "); colon != std::string::npos) status.detail.erase(0, colon + 2);
  if (status.code == Code::kPermissionDenied || status.detail == "not authorized")
    return {Code::kInvalidArgument, "only SELECT is allowed: a query cannot change anything"};
  if (status.detail.starts_with("no such table"))
    status.detail += ". There are runs, params, metrics, summaries, tags, artifacts and experiments";
  return status;
}

// Whether only blanks, comments and semicolons follow the statement.
bool IsBlankSql(std::string_view rest) {
  for (;;) {
    while (!rest.empty() && (std::isspace(static_cast<unsigned char>(rest.front())) || rest.front() == ';'))
      rest.remove_prefix(1);
    if (!rest.starts_with("--")) return rest.empty();
    TakeUntil(rest, '\n');
  }
}

}  // namespace

Status MakeViews(const RunReader& reader) {
  RETURN_IF_ERROR(reader.database().Run(kViews));
  ASSIGN_OR_RETURN(std::string experiments, ExperimentsView(reader.database()));
  return reader.database().Run(experiments);
}

Result<QueryOutcome> RunQuery(const RunReader& reader, std::string_view sql, const QueryLimits& limits,
                              const Clock& clock, const QueryRow& on_row) {
  sqlite3* database = reader.database().handle();
  Deadline deadline{clock, clock.Now().boot_ns + limits.time.count()};
  Guard guard(database, deadline);
  sqlite3_stmt* made = nullptr;
  const char* rest = nullptr;
  int code = ::sqlite3_prepare_v2(database, sql.data(),
                                  static_cast<int>(std::min<size_t>(sql.size(), INT32_MAX)), &made, &rest);
  if (code != SQLITE_OK) return Reported(sqlite::StatusOf(database, code, ""));
  if (!made) return Status{Code::kInvalidArgument, "no statement"};
  Statement statement = Statement::Adopt(made);
  if (!IsBlankSql(sql.substr(static_cast<size_t>(rest - sql.data()))))
    return Status{Code::kInvalidArgument, "only one statement is allowed"};
  const auto too_long = [&] {
    return Status{Code::kTimeout,
                  "the query takes longer than " +
                      std::to_string(std::chrono::ceil<std::chrono::seconds>(limits.time).count()) + " s"};
  };
  QueryOutcome outcome;
  if (!on_row(statement, true)) return outcome;
  for (;;) {
    auto row = statement.Step();
    if ((!row && row.error().code == Code::kTimeout) || Deadline::Over(&deadline)) return too_long();
    if (!row) return Reported(row.error());
    if (!*row) return outcome;
    if (outcome.rows == limits.rows) {
      outcome.cut = true;
      return outcome;
    }
    ++outcome.rows;
    if (!on_row(statement, false)) {
      if (Deadline::Over(&deadline)) return too_long();
      return outcome;
    }
  }
}

}  // namespace gpulens::experiments
