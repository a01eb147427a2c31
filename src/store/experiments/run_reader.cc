#include "store/experiments/run_reader.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>
#include <variant>

#include "base/result.h"

namespace gpulens::experiments {
namespace {

using sqlite::Statement;

// Fewer characters fit too many ids by chance.
constexpr size_t kLeastIdPart = 4;
constexpr size_t kMostNamed = 5;

constexpr const char* kCrashTable =
    "PRAGMA temp_store=MEMORY;"
    "CREATE TEMP TABLE crashed_run(id TEXT PRIMARY KEY, last_ns INTEGER) WITHOUT ROWID;"
    "CREATE TEMP VIEW run_now AS SELECT r.id AS id, name, CASE WHEN c.id IS NULL THEN status ELSE 'crashed' "
    "END AS"
    "  status, parent_id, started_ns, COALESCE(ended_ns, c.last_ns) AS ended_ns, resumed, script, command, "
    "folder,"
    "  git_commit, host, exit_code, reason, dropped, energy_joules, energy_uncertainty_joules, energy_method,"
    "  energy_validity, energy_reason, vendor, devices, mean_power_watts, peak_power_watts,"
    "  mean_utilization_ratio, peak_utilization_ratio, mean_memory_used_bytes, peak_memory_used_bytes,"
    "  attribution, device_energy_joules FROM run r LEFT JOIN crashed_run c ON c.id = r.id"
    "  LEFT JOIN device_use u ON u.run_id = r.id LEFT JOIN energy_part e ON e.run_id = r.id;";

constexpr const char* kRunColumns =
    "SELECT "
    "id,name,status,parent_id,started_ns,ended_ns,resumed,script,command,folder,git_commit,host,exit_code,"
    "reason,dropped,energy_joules,energy_uncertainty_joules,energy_method,energy_validity,energy_reason,"
    "vendor,devices,mean_power_watts,peak_power_watts,mean_utilization_ratio,peak_utilization_ratio,"
    "mean_memory_used_bytes,peak_memory_used_bytes,attribution,device_energy_joules FROM run_now ";

RunRow ReadRun(const Statement& row) {
  RunRow run;
  run.id = row.Text(0), run.name = row.Text(1), run.status = row.Text(2), run.parent_id = row.Text(3);
  run.started_ns = row.Int(4), run.ended_ns = row.MaybeInt(5), run.resumed = row.Int(6);
  run.script = row.Text(7), run.command = row.Text(8), run.folder = row.Text(9);
  run.git_commit = row.Text(10), run.host = row.Text(11), run.exit_code = row.MaybeInt(12);
  run.reason = row.Text(13), run.dropped = row.Int(14);
  run.energy.joules = row.Real(15), run.energy.uncertainty_joules = row.Real(16);
  run.energy.method = row.Text(17), run.energy.validity = row.Text(18), run.energy.reason = row.Text(19);
  EnergyRow& use = run.energy;
  use.vendor = row.Text(20), use.devices = row.Int(21);
  use.mean_power_watts = row.Real(22), use.peak_power_watts = row.Real(23);
  use.mean_utilization_ratio = row.Real(24), use.peak_utilization_ratio = row.Real(25);
  use.mean_memory_used_bytes = row.Real(26), use.peak_memory_used_bytes = row.Real(27);
  use.attribution = row.Text(28), use.device_joules = row.Real(29);
  return run;
}

ProcessRow ReadProcess(const Statement& row, int at) {
  ProcessRow process;
  process.role = row.Text(at), process.host = row.Text(at + 1), process.place = row.Text(at + 2);
  process.pid = row.Int(at + 3), process.start_ticks = row.Int(at + 4), process.started_ns = row.Int(at + 5);
  process.heartbeat_ns = row.Int(at + 6), process.heartbeat_every_ns = row.Int(at + 7);
  process.ended_ns = row.MaybeInt(at + 8);
  return process;
}

constexpr const char* kProcessColumns =
    "p.role,p.host,p.place,p.pid,p.start_ticks,p.started_ns,p.heartbeat_ns,p.heartbeat_every_ns,p.ended_ns";

// A pattern of LIKE that means just this text.
std::string LikePattern(std::string_view text) {
  std::string out;
  for (char c : text) {
    if (c == '%' || c == '_' || c == '\\') out += '\\';
    out += c;
  }
  return out;
}

// `read` makes a row of each.
template <class Row, class Read>
Result<std::vector<Row>> All(const sqlite::Database& database, const std::string& sql, std::string_view id,
                             Read read) {
  ASSIGN_OR_RETURN(Statement rows, database.Prepare(sql));
  rows.Bind(1, id);
  std::vector<Row> out;
  RETURN_IF_ERROR(rows.Each([&] { out.push_back(read(rows)); }));
  return out;
}

RunParamValue ReadValue(const Statement& row, int type_at, int value_at) {
  std::string_view type = row.Text(type_at);
  if (type == "bool") return row.Int(value_at) != 0;
  if (type == "int") return row.Int(value_at);
  if (type == "real") return row.Real(value_at);
  return std::string(row.Text(value_at));
}

// The conditions and the order of a filter, with the values that they bind.
class FilterSql {
 public:
  explicit FilterSql(int64_t now_ns) : now_ns_(now_ns) {}

  void Need(const std::string& condition) { where_ += (where_.empty() ? "WHERE " : " AND ") + condition; }
  // The parameter that has this value.
  std::string Bound(std::variant<std::string, int64_t, double> value) {
    values_.push_back(std::move(value));
    return "?" + std::to_string(values_.size());
  }
  std::string ValueOf(const std::string& table, const std::string& column, const std::string& key) {
    return "(SELECT " + column + " FROM " + table + " WHERE run_id=run_now.id AND key=" + Bound(key) + ")";
  }
  Result<std::string> OrderOf(const std::string& name) {
    if (name == "started") return std::string("started_ns");
    if (name == "ended") return std::string("ended_ns");
    if (name == "name" || name == "status" || name == "energy_joules") return name;
    if (name == "duration")
      return "CASE WHEN ended_ns IS NOT NULL THEN ended_ns-started_ns WHEN status='running' THEN " +
             std::to_string(now_ns_) + "-started_ns END";
    if (name.starts_with("metrics.")) return ValueOf("metric", "last_value", name.substr(8));
    if (name.starts_with("params.")) return ValueOf("param", "value", name.substr(7));
    if (name.starts_with("tags.")) return ValueOf("tag", "value", name.substr(5));
    return Status{Code::kInvalidArgument,
                  "runs are ordered by started, ended, duration, name, status, energy_joules, metrics.KEY, "
                  "params.KEY or tags.KEY; got \"" +
                      name + "\""};
  }
  const std::string& where() const noexcept { return where_; }
  void BindTo(Statement& rows) const {
    for (size_t i = 0; i < values_.size(); ++i) {
      const int parameter = static_cast<int>(i) + 1;
      std::visit([&](const auto& value) { rows.Bind(parameter, value); }, values_[i]);
    }
  }

 private:
  const int64_t now_ns_;
  std::string where_;
  std::vector<std::variant<std::string, int64_t, double>> values_;
};

}  // namespace

Result<std::vector<CrashedRun>> FindCrashed(const sqlite::Database& database,
                                            const ProcessObserver& observer) {
  ASSIGN_OR_RETURN(
      Statement rows,
      database.Prepare(
          std::string("SELECT r.id,") + kProcessColumns +
          " FROM run r JOIN process p ON p.run_id=r.id WHERE r.status='running' AND p.role<>'fork'"));
  struct Seen {
    bool alive = false;
    int64_t last_ns = 0;
  };
  std::map<std::string, Seen, std::less<>> runs;
  RETURN_IF_ERROR(rows.Each([&] {
    Seen& seen = runs[std::string(rows.Text(0))];
    ProcessRow process = ReadProcess(rows, 1);
    seen.alive = seen.alive || IsAlive(process, observer);
    seen.last_ns = std::max({seen.last_ns, process.heartbeat_ns, process.ended_ns.value_or(0)});
  }));
  std::vector<CrashedRun> crashed;
  for (const auto& [id, seen] : runs) {
    if (!seen.alive) crashed.push_back({id, seen.last_ns});
  }
  return crashed;
}

Result<RunReader> RunReader::Open(const std::string& path, ProcessObserver observer, Duration longest) {
  ASSIGN_OR_RETURN(
      sqlite::Database database,
      sqlite::Database::Open({.path = path, .read_only = true, .cache_kib = 2048, .longest = longest}));
  return Prepare(std::move(database), observer);
}

Result<RunReader> RunReader::OpenForAgent(const std::string& path, ProcessObserver observer,
                                          Duration longest) {
  ASSIGN_OR_RETURN(sqlite::Database database, sqlite::Database::Open({.path = path,
                                                                      .read_only = true,
                                                                      .busy_ms = 500,
                                                                      .longest = longest,
                                                                      .bound_memory = false,
                                                                      .temp_in_memory = true}));
  return Prepare(std::move(database), observer);
}

Result<RunReader> RunReader::Prepare(sqlite::Database database, const ProcessObserver& observer) {
  ASSIGN_OR_RETURN(bool old, IsOldFile(database));
  if (old) {
    RETURN_IF_ERROR(MakeTablesOfOldFile(database));
  } else {
    ASSIGN_OR_RETURN(int64_t version, CheckVersion(database, kRunSchema));
    if (version == 0) return Status{Code::kDataLoss, database.path() + " is not a file of experiments"};
  }
  RETURN_IF_ERROR(AddMissingTables(database));
  RETURN_IF_ERROR(database.Run(kCrashTable));
  RunReader reader(std::move(database), old);
  RETURN_IF_ERROR(reader.Validate(observer));
  return reader;
}

Status RunReader::Validate(const ProcessObserver& observer) {
  now_ns_ = observer.now_ns;
  ASSIGN_OR_RETURN(std::vector<CrashedRun> crashed, FindCrashed(database_, observer));
  RETURN_IF_ERROR(database_.Run("DELETE FROM crashed_run"));
  ASSIGN_OR_RETURN(Statement insert, database_.Prepare("INSERT INTO crashed_run VALUES(?,?)"));
  for (const CrashedRun& run : crashed)
    RETURN_IF_ERROR(insert.Bind(1, run.id).Bind(2, run.last_ns).Execute());
  return Ok();
}

Result<std::vector<RunRow>> RunReader::ReadRuns(Statement& rows) {
  std::vector<RunRow> out;
  RETURN_IF_ERROR(rows.Each([&] { out.push_back(ReadRun(rows)); }));
  return out;
}

Result<std::vector<RunRow>> RunReader::Rows(const std::string& where,
                                            std::initializer_list<std::string_view> texts, size_t limit) {
  ASSIGN_OR_RETURN(Statement rows,
                   database_.Prepare(kRunColumns + where + " ORDER BY started_ns DESC, id DESC LIMIT " +
                                     std::to_string(limit)));
  int at = 0;
  for (std::string_view text : texts) rows.Bind(++at, text);
  return ReadRuns(rows);
}

Result<std::vector<RunRow>> RunReader::List(const Filter& filter) {
  FilterSql sql(now_ns_);
  if (!filter.status.empty()) sql.Need("status=" + sql.Bound(filter.status));
  if (!filter.name.empty()) sql.Need("name=" + sql.Bound(filter.name));
  if (!filter.nested) sql.Need("parent_id IS NULL");
  for (const ParamRow& param : filter.params) {
    const std::string value = std::visit(
        [&]<class T>(const T& one) {
          if constexpr (std::is_same_v<T, bool>) return sql.Bound(static_cast<int64_t>(one));
          else return sql.Bound(one);
        },
        param.value);
    sql.Need(sql.ValueOf("param", "value", param.key) + "=" + value);
  }
  for (const TagRow& tag : filter.tags)
    sql.Need(sql.ValueOf("tag", "value", tag.key) + "=" + sql.Bound(tag.value));
  for (const MetricRange& range : filter.metrics) {
    const std::string last = sql.ValueOf("metric", "last_value", range.key);
    sql.Need(last + " IS NOT NULL");
    if (!std::isnan(range.least)) sql.Need(last + ">=" + sql.Bound(range.least));
    if (!std::isnan(range.most)) sql.Need(last + "<=" + sql.Bound(range.most));
  }
  ASSIGN_OR_RETURN(const std::string order, sql.OrderOf(filter.order));
  ASSIGN_OR_RETURN(Statement rows,
                   database_.Prepare(kRunColumns + sql.where() + " ORDER BY (" + order + ") IS NULL, " +
                                     order + (filter.ascending ? "" : " DESC") +
                                     ", started_ns DESC, id DESC LIMIT " + std::to_string(filter.limit)));
  sql.BindTo(rows);
  return ReadRuns(rows);
}

Result<RunRow> RunReader::ById(std::string_view id) {
  ASSIGN_OR_RETURN(std::vector<RunRow> found, Rows("WHERE id=?", {id}, 1));
  if (found.empty()) return Status{Code::kInvalidArgument, "no run " + std::string(id)};
  return std::move(found.front());
}

Result<RunRow> RunReader::Find(std::string_view text) {
  if (auto exact = ById(text)) return exact;
  if (text.size() >= kLeastIdPart) {
    std::string part = LikePattern(text);
    ASSIGN_OR_RETURN(std::vector<RunRow> found, Rows("WHERE id LIKE ?1 ESCAPE '\\' OR id LIKE ?2 ESCAPE '\\'",
                                                     {"%" + part, part + "%"}, kMostNamed));
    if (found.size() == 1) return std::move(found.front());
    if (!found.empty()) {
      std::string several = "several runs are \"" + std::string(text) + "\":";
      for (const RunRow& run : found) several += " " + run.id;
      return Status{Code::kInvalidArgument, several + (found.size() == kMostNamed ? " …" : "")};
    }
  }
  ASSIGN_OR_RETURN(std::vector<RunRow> named, Rows("WHERE name=?", {text}, 1));
  if (!named.empty()) return std::move(named.front());
  return Status{Code::kInvalidArgument, "no run \"" + std::string(text) + "\" in " + path()};
}

Result<std::vector<RunRow>> RunReader::Children(std::string_view id) {
  return Rows("WHERE parent_id=?", {id}, 10'000);
}

Result<std::vector<ParamRow>> RunReader::Params(std::string_view id) {
  return All<ParamRow>(
      database_, "SELECT key,type,value FROM param WHERE run_id=? ORDER BY key", id,
      [](const Statement& row) { return ParamRow{std::string(row.Text(0)), ReadValue(row, 1, 2)}; });
}

Result<std::vector<TagRow>> RunReader::Tags(std::string_view id) {
  return All<TagRow>(
      database_, "SELECT key,value FROM tag WHERE run_id=? ORDER BY key", id,
      [](const Statement& row) { return TagRow{std::string(row.Text(0)), std::string(row.Text(1))}; });
}

Result<std::vector<MetricRow>> RunReader::Metrics(std::string_view id) {
  return All<MetricRow>(database_,
                        "SELECT key,count,nan_count,last_step,last_value,min_value,max_value FROM metric "
                        "WHERE run_id=? ORDER BY key",
                        id, [](const Statement& row) {
                          return MetricRow{.key = std::string(row.Text(0)),
                                           .count = row.MaybeInt(1),
                                           .nan_count = row.Int(2),
                                           .last_step = row.MaybeInt(3),
                                           .last = row.Real(4),
                                           .min = row.Real(5),
                                           .max = row.Real(6)};
                        });
}

Result<std::vector<PointRow>> RunReader::Points(std::string_view id, std::string_view key) {
  ASSIGN_OR_RETURN(
      Statement rows,
      database_.Prepare("SELECT step,unix_ns,value FROM point WHERE metric_id="
                        "(SELECT id FROM metric WHERE run_id=? AND key=?) ORDER BY step,unix_ns,n"));
  rows.BindAll(id, key);
  std::vector<PointRow> out;
  RETURN_IF_ERROR(rows.Each([&] { out.push_back({rows.Int(0), rows.Int(1), rows.Real(2)}); }));
  return out;
}

Result<std::vector<PointRow>> RunReader::Curve(std::string_view id, std::string_view key, size_t most) {
  constexpr const char* kOf = " FROM point WHERE metric_id=(SELECT id FROM metric WHERE run_id=? AND key=?)";
  ASSIGN_OR_RETURN(Statement number, database_.Prepare(std::string("SELECT count(*)") + kOf));
  number.BindAll(id, key);
  int64_t count = 0;
  RETURN_IF_ERROR(number.Each([&] { count = number.Int(0); }));
  const int64_t parts = static_cast<int64_t>(most - 2) / 2;  // two points of each
  const int64_t inner = std::max<int64_t>(count - 2, 1);
  const bool all = count <= static_cast<int64_t>(most);
  ASSIGN_OR_RETURN(Statement rows, database_.Prepare(std::string("SELECT step,unix_ns,value") + kOf +
                                                     " ORDER BY step,unix_ns,n LIMIT ?"));
  rows.BindAll(id, key, count);
  std::vector<PointRow> out;
  struct Placed {
    int64_t place = -1;  // none
    PointRow point;
  };
  Placed least, greatest, unknown;
  const auto close_part = [&] {
    if (least.place < 0) least = unknown, greatest = unknown;
    if (least.place > greatest.place) std::swap(least, greatest);
    if (least.place >= 0) out.push_back(least.point);
    if (greatest.place > least.place) out.push_back(greatest.point);
    least = greatest = unknown = {};
  };
  int64_t place = 0, part = 0;
  RETURN_IF_ERROR(rows.Each([&] {
    const PointRow point{rows.Int(0), rows.Int(1), rows.Real(2)};
    const int64_t here = place++;
    if (all || here == 0) return out.push_back(point);
    if (here == count - 1) return close_part(), out.push_back(point);
    if (const int64_t its = (here - 1) * parts / inner; its != part) close_part(), part = its;
    if (std::isnan(point.value)) {
      if (unknown.place < 0) unknown = {here, point};
      return;
    }
    if (least.place < 0 || point.value < least.point.value) least = {here, point};
    if (greatest.place < 0 || point.value > greatest.point.value) greatest = {here, point};
  }));
  return out;
}

Result<std::vector<ArtifactRow>> RunReader::Artifacts(std::string_view id) {
  return All<ArtifactRow>(
      database_, "SELECT name,path,bytes,sha256,copied,unix_ns FROM artifact WHERE run_id=? ORDER BY name",
      id, [](const Statement& row) {
        return ArtifactRow{.name = std::string(row.Text(0)),
                           .path = std::string(row.Text(1)),
                           .bytes = row.Int(2),
                           .sha256 = std::string(row.Text(3)),
                           .copied = row.Int(4) != 0,
                           .unix_ns = row.Int(5)};
      });
}

Result<std::vector<ProcessRow>> RunReader::Processes(std::string_view id) {
  return All<ProcessRow>(
      database_, std::string("SELECT ") + kProcessColumns + " FROM process p WHERE run_id=? ORDER BY p.id",
      id, [](const Statement& row) { return ReadProcess(row, 0); });
}

}  // namespace gpulens::experiments
