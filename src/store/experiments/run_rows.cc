#include "store/experiments/run_rows.h"

#include <pwd.h>
#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <cstdio>
#include <cstdlib>

#include "base/clock.h"
#include "base/files.h"
#include "base/parse.h"
#include "base/result.h"
#include "base/text.h"
#include "wire/json/json_text.h"

namespace gpulens::experiments {
namespace {

// Field 22 of /proc/PID/stat. The name of the program, field 2, may hold anything, blanks and brackets too.
std::optional<int64_t> StartTicks(int64_t pid) {
  auto text = ReadFile("/proc/" + std::to_string(pid) + "/stat", 4096);
  if (!text) return std::nullopt;
  size_t close = text->rfind(')');
  if (close == std::string::npos) return std::nullopt;
  std::string_view rest = Trim(std::string_view(*text).substr(close + 1));
  std::string_view state = TakeUntil(rest, ' ');
  if (state == "Z" || state == "X") return std::nullopt;
  for (int field = 4; field < 22; ++field) TakeUntil(rest, ' ');
  return ParseInt<int64_t>(TakeUntil(rest, ' '));
}

std::string LinkOf(const char* path) {
  char target[256];
  ssize_t size = ::readlink(path, target, sizeof target);
  return size > 0 ? std::string(target, static_cast<size_t>(size)) : std::string();
}

}  // namespace

double RunRow::duration_seconds(int64_t now_ns) const noexcept {
  if (!ended_ns && status != kRunning) return kNotMeasured;
  return static_cast<double>(std::max<int64_t>(0, ended_ns.value_or(now_ns) - started_ns)) / 1e9;
}

std::optional<int64_t> LastStep(const std::vector<MetricRow>& metrics) {
  std::optional<int64_t> last;
  for (const MetricRow& metric : metrics) {
    if (metric.last_step && (!last || *metric.last_step > *last)) last = metric.last_step;
  }
  return last;
}

double JoulesPerStep(const RunRow& run, const std::vector<MetricRow>& metrics) {
  const auto step = LastStep(metrics);
  return step && *step > 0 && run.resumed == 0 ? run.energy.joules / static_cast<double>(*step)
                                               : kNotMeasured;
}

std::string ValueText(const RunParamValue& value) {
  if (const auto* text = std::get_if<std::string>(&value)) return *text;
  if (const auto* yes = std::get_if<bool>(&value)) return *yes ? "true" : "false";
  std::string out;
  if (const auto* whole = std::get_if<int64_t>(&value)) {
    AppendJsonInt(out, *whole);
    return out;
  }
  const double number = std::get<double>(value);
  if (number != number) return "nan";
  if (number == std::numeric_limits<double>::infinity()) return "inf";
  if (number == -std::numeric_limits<double>::infinity()) return "-inf";
  AppendJsonNumber(out, number);
  return out;
}

ProcessObserver HereAndNow() {
  ProcessObserver here;
  char name[HOST_NAME_MAX + 1] = {};
  if (::gethostname(name, sizeof name - 1) == 0) here.host = name;
  auto boot = ReadFile(std::string("/proc/sys/kernel/random/boot_id"), 128);
  std::string space = LinkOf("/proc/self/ns/pid");
  if (boot && !space.empty()) here.place = std::string(Trim(*boot)) + " " + space;
  here.now_ns = RealClock().Now().unix_ns;
  here.start_of = &StartTicks;
  return here;
}

ProcessRow ThisProcess(const ProcessObserver& here) {
  ProcessRow row;
  row.host = here.host;
  row.place = here.place;
  row.pid = ::getpid();
  row.start_ticks = here.start_of(row.pid).value_or(0);
  row.started_ns = row.heartbeat_ns = here.now_ns;
  return row;
}

bool IsAlive(const ProcessRow& process, const ProcessObserver& observer) {
  if (process.ended_ns) return false;
  const bool ours = !process.place.empty() && process.place == observer.place && process.start_ticks > 0;
  if (ours) return observer.start_of(process.pid) == process.start_ticks;
  // A clock that is ahead of ours is no sign of death.
  const int64_t limit = std::max(kLeastHeartbeatLimitNs, kMissedHeartbeats * process.heartbeat_every_ns);
  return observer.now_ns - process.heartbeat_ns <= limit;
}

namespace {

std::string HomeFolder() {
  if (const char* home = std::getenv("HOME"); home && *home) return home;
  passwd entry{}, *found = nullptr;
  std::vector<char> room(16 << 10);
  bool known = ::getpwuid_r(::getuid(), &entry, room.data(), room.size(), &found) == 0 && found;
  return known && entry.pw_dir ? entry.pw_dir : "";
}

// Columns of the use of devices.
#define GPULENS_USE_COLUMNS                                                            \
  "vendor TEXT NOT NULL, devices INTEGER NOT NULL, mean_power_watts REAL,"             \
  "  peak_power_watts REAL, mean_utilization_ratio REAL, peak_utilization_ratio REAL," \
  "  mean_memory_used_bytes REAL, peak_memory_used_bytes REAL,"                        \
  "  run_id TEXT PRIMARY KEY NOT NULL "

// Columns of the attribution of energy.
#define GPULENS_PART_COLUMNS \
  "attribution TEXT NOT NULL, device_energy_joules REAL, run_id TEXT PRIMARY KEY NOT NULL "

// A point's value is NULL for NaN, which SQLite cannot store. Points are stored in reading order; `n`
// distinguishes two of one moment. Deleting a metric deletes its points explicitly, since a foreign key would
// be looked up for each of them.
constexpr const char* kSteps[] = {
    "CREATE TABLE run("
    "  id TEXT PRIMARY KEY NOT NULL, name TEXT NOT NULL, status TEXT NOT NULL, parent_id TEXT,"
    "  started_ns INTEGER NOT NULL, ended_ns INTEGER, resumed INTEGER NOT NULL DEFAULT 0,"
    "  script TEXT NOT NULL DEFAULT '', command TEXT NOT NULL DEFAULT '', folder TEXT NOT NULL DEFAULT '',"
    "  git_commit TEXT NOT NULL DEFAULT '', host TEXT NOT NULL DEFAULT '', exit_code INTEGER,"
    "  reason TEXT NOT NULL DEFAULT '', dropped INTEGER NOT NULL DEFAULT 0,"
    "  energy_joules REAL, energy_uncertainty_joules REAL, energy_method TEXT NOT NULL DEFAULT '',"
    "  energy_validity TEXT NOT NULL DEFAULT '', energy_reason TEXT NOT NULL DEFAULT '');"
    "CREATE INDEX run_by_start ON run(started_ns);"
    "CREATE INDEX run_by_name ON run(name, started_ns);"
    "CREATE INDEX run_by_status ON run(status);"
    "CREATE INDEX run_by_parent ON run(parent_id) WHERE parent_id IS NOT NULL;"
    "CREATE TABLE process("
    "  id INTEGER PRIMARY KEY AUTOINCREMENT, run_id TEXT NOT NULL REFERENCES run(id) ON DELETE CASCADE,"
    "  role TEXT NOT NULL, host TEXT NOT NULL, place TEXT NOT NULL, pid INTEGER NOT NULL,"
    "  start_ticks INTEGER NOT NULL, started_ns INTEGER NOT NULL, heartbeat_ns INTEGER NOT NULL,"
    "  heartbeat_every_ns INTEGER NOT NULL, ended_ns INTEGER, outcome TEXT NOT NULL DEFAULT '');"
    "CREATE INDEX process_by_run ON process(run_id);"
    "CREATE TABLE param("
    "  run_id TEXT NOT NULL REFERENCES run(id) ON DELETE CASCADE, key TEXT NOT NULL, type TEXT NOT NULL,"
    "  value, PRIMARY KEY(run_id, key)) WITHOUT ROWID;"
    "CREATE TABLE tag("
    "  run_id TEXT NOT NULL REFERENCES run(id) ON DELETE CASCADE, key TEXT NOT NULL, value TEXT NOT NULL,"
    "  PRIMARY KEY(run_id, key)) WITHOUT ROWID;"
    "CREATE TABLE artifact("
    "  run_id TEXT NOT NULL REFERENCES run(id) ON DELETE CASCADE, name TEXT NOT NULL, path TEXT NOT NULL,"
    "  bytes INTEGER NOT NULL, sha256 TEXT NOT NULL, copied INTEGER NOT NULL, unix_ns INTEGER NOT NULL,"
    "  PRIMARY KEY(run_id, name)) WITHOUT ROWID;"
    "CREATE TABLE metric("
    "  id INTEGER PRIMARY KEY AUTOINCREMENT, run_id TEXT NOT NULL REFERENCES run(id) ON DELETE CASCADE,"
    "  key TEXT NOT NULL, source TEXT NOT NULL, count INTEGER, nan_count INTEGER NOT NULL DEFAULT 0,"
    "  last_step INTEGER, last_ns INTEGER, last_value REAL, min_value REAL, max_value REAL,"
    "  UNIQUE(run_id, key));"
    "CREATE TABLE point("
    "  metric_id INTEGER NOT NULL, step INTEGER NOT NULL, unix_ns INTEGER NOT NULL, n INTEGER NOT NULL,"
    "  value REAL, PRIMARY KEY(metric_id, step, unix_ns, n)) WITHOUT ROWID;",
    "CREATE TABLE device_use(" GPULENS_USE_COLUMNS "REFERENCES run(id) ON DELETE CASCADE) WITHOUT ROWID;",
    "CREATE TABLE energy_part(" GPULENS_PART_COLUMNS "REFERENCES run(id) ON DELETE CASCADE) WITHOUT ROWID;",
};

// Milliseconds are all that SQLite reads of a time.
#define GPULENS_NS_OF(column)  \
  "CAST(strftime('%s'," column \
  ") AS INTEGER)*1000000000"   \
  "+CAST(substr(strftime('%f'," column "),4,3) AS INTEGER)*1000000"

// The status is JSON text with its quotes; params and metrics are JSON objects. An object that is none holds
// nothing.
constexpr const char* kOldTables =
    "PRAGMA temp_store=MEMORY;"
    "CREATE TEMP TABLE run AS SELECT id, COALESCE(name,'') AS name, lower(trim(COALESCE(status,''),'\"')) AS status,"
    "  CAST(NULL AS TEXT) AS parent_id, COALESCE(" GPULENS_NS_OF("created_at") ",0) AS started_ns,"
    "  COALESCE(" GPULENS_NS_OF("created_at") "+CAST(duration_secs*1000000000 AS INTEGER)," GPULENS_NS_OF(
        "finished_at") ") AS ended_ns, 0 AS resumed, COALESCE(script,'') AS script, '' AS command, '' AS folder,"
    "  COALESCE(git_commit,'') AS git_commit, '' AS host, CAST(NULL AS INTEGER) AS exit_code, '' AS reason,"
    "  0 AS dropped, CAST(NULL AS REAL) AS energy_joules, CAST(NULL AS REAL) AS energy_uncertainty_joules,"
    "  '' AS energy_method, '' AS energy_validity, '' AS energy_reason FROM main.experiments;"
    "CREATE INDEX temp.run_by_id ON run(id);"
    "CREATE TEMP TABLE param AS SELECT e.id AS run_id, j.key AS key,"
    "  CASE j.type WHEN 'integer' THEN 'int' WHEN 'real' THEN 'real' WHEN 'true' THEN 'bool' WHEN 'false' THEN 'bool'"
    "  ELSE 'text' END AS type, COALESCE(j.value,'null') AS value FROM main.experiments e,"
    "  json_each(CASE WHEN json_valid(e.hyperparams) THEN e.hyperparams ELSE '{}' END) j WHERE j.key IS NOT NULL;"
    "CREATE TEMP TABLE metric AS SELECT row_number() OVER () AS id, e.id AS run_id, j.key AS key, 'output' AS source,"
    "  CAST(NULL AS INTEGER) AS count, 0 AS nan_count, CAST(NULL AS INTEGER) AS last_step,"
    "  CAST(NULL AS INTEGER) AS last_ns, CAST(j.value AS REAL) AS last_value, CAST(NULL AS REAL) AS min_value,"
    "  CAST(NULL AS REAL) AS max_value FROM main.experiments e,"
    "  json_each(CASE WHEN json_valid(e.metrics) THEN e.metrics ELSE '{}' END) j"
    "  WHERE j.key IS NOT NULL AND j.type IN ('integer','real','null');"
    "CREATE INDEX temp.metric_by_run ON metric(run_id, key);"
    "CREATE INDEX temp.param_by_run ON param(run_id, key);"
    "CREATE TEMP TABLE point(metric_id INTEGER, step INTEGER, unix_ns INTEGER, n INTEGER, value REAL);"
    "CREATE TEMP TABLE tag(run_id TEXT, key TEXT, value TEXT);"
    "CREATE TEMP TABLE artifact(run_id TEXT, name TEXT, path TEXT, bytes INTEGER, sha256 TEXT, copied INTEGER,"
    "  unix_ns INTEGER);"
    "CREATE TEMP TABLE process(id INTEGER, run_id TEXT, role TEXT, host TEXT, place TEXT, pid INTEGER,"
    "  start_ticks INTEGER, started_ns INTEGER, heartbeat_ns INTEGER, heartbeat_every_ns INTEGER,"
    "  ended_ns INTEGER, outcome TEXT);";
// The pragma first, as everywhere: to change it later would drop the table.
constexpr const char* kNoUse =
    "PRAGMA temp_store=MEMORY; CREATE TEMP TABLE device_use(" GPULENS_USE_COLUMNS ");";
constexpr const char* kNoPart =
    "PRAGMA temp_store=MEMORY; CREATE TEMP TABLE energy_part(" GPULENS_PART_COLUMNS ");";
#undef GPULENS_NS_OF
#undef GPULENS_USE_COLUMNS
#undef GPULENS_PART_COLUMNS

}  // namespace

Result<std::string> FindDatabase(std::string_view given) {
  std::string path(given);
  if (path.empty()) {
    const char* named = std::getenv("GPULENS_EXPERIMENTS_DB");
    path = named && *named ? named : "~/.gpulens/experiments.db";
  }
  if (!path.starts_with("~/")) return path;
  std::string home = HomeFolder();
  if (home.empty())
    return Status{Code::kInvalidArgument, "no home folder for " + path + "; set GPULENS_EXPERIMENTS_DB"};
  return home + path.substr(1);
}

std::string MakeRunId(int64_t unix_ns) {
  std::string time;
  AppendRfc3339(time, unix_ns);  // 2026-11-21T02:07:01.120Z
  uint32_t chance = 0;
  if (::getrandom(&chance, sizeof chance, 0) != sizeof chance)
    chance = static_cast<uint32_t>(unix_ns) ^ static_cast<uint32_t>(::getpid()) << 16;
  char digits[9];
  std::snprintf(digits, sizeof digits, "%08x", chance);
  return "exp-" + time.substr(0, 4) + time.substr(5, 2) + time.substr(8, 2) + "-" + time.substr(11, 2) +
         time.substr(14, 2) + time.substr(17, 2) + "-" + digits;
}

bool IsRunId(std::string_view text) noexcept {
  if (text.empty() || text.size() > kMostIdBytes || text.front() == '.') return false;
  for (char c : text) {
    bool good = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
                c == '_' || c == '-';
    if (!good) return false;
  }
  return true;
}

bool IsKey(std::string_view text) noexcept {
  if (text.empty() || text.size() > kMostKeyBytes || !IsUtf8(text)) return false;
  for (char c : text) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) return false;
  }
  return true;
}

std::string RunFolder(const std::string& database, std::string_view id, bool old) {
  size_t slash = database.rfind('/');
  std::string folder = slash == std::string::npos ? "." : database.substr(0, slash);
  return folder + (old ? "/" : "/runs/") + std::string(id);
}

std::string LogPath(const std::string& database, std::string_view id, bool old) {
  return RunFolder(database, id, old) + "/output.log";
}

const sqlite::Schema kRunSchema{.application_id = 0x6770756c, .steps = kSteps, .count = 3};

Result<bool> IsOldFile(const sqlite::Database& database) {
  ASSIGN_OR_RETURN(
      int64_t ours,
      database.Number("SELECT count(*) FROM main.sqlite_master WHERE type='table' AND name='run'"));
  ASSIGN_OR_RETURN(
      int64_t theirs,
      database.Number("SELECT count(*) FROM main.sqlite_master WHERE type='table' AND name='experiments'"));
  return ours == 0 && theirs == 1;
}

Status MakeTablesOfOldFile(const sqlite::Database& database) {
  Status made = database.Run(kOldTables);
  if (made || made.code != Code::kInvalidArgument) return made;
  return {Code::kDataLoss, made.detail + "; its table is not of a known version of the zernel project"};
}

Status AddMissingTables(const sqlite::Database& database) {
  for (const auto& [name, make] : {std::pair("'device_use'", kNoUse), std::pair("'energy_part'", kNoPart)}) {
    ASSIGN_OR_RETURN(
        int64_t has,
        database.Number(
            (std::string("SELECT count(*) FROM main.sqlite_master WHERE type='table' AND name=") + name)
                .c_str()));
    if (has == 0) RETURN_IF_ERROR(database.Run(make));
  }
  return Ok();
}

}  // namespace gpulens::experiments
