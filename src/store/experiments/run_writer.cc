#include "store/experiments/run_writer.h"

#include <sys/stat.h>

#include <algorithm>
#include <cmath>

#include "base/result.h"
#include "store/experiments/run_reader.h"

namespace gpulens::experiments {

using sqlite::Statement;
using sqlite::Transaction;

namespace {

std::string_view SourceName(PointSource source) noexcept {
  return source == PointSource::kProgram ? "program" : "output";
}

void BindValue(Statement& statement, int type_at, int value_at, const RunParamValue& value) {
  if (const auto* text = std::get_if<std::string>(&value)) {
    statement.Bind(type_at, std::string_view("text")).Bind(value_at, *text);
  } else if (const auto* yes = std::get_if<bool>(&value)) {
    statement.Bind(type_at, std::string_view("bool")).Bind(value_at, int64_t{*yes});
  } else if (const auto* whole = std::get_if<int64_t>(&value)) {
    statement.Bind(type_at, std::string_view("int")).Bind(value_at, *whole);
  } else {
    statement.Bind(type_at, std::string_view("real")).Bind(value_at, std::get<double>(value));
  }
}

}  // namespace

// A row of `metric` while its points are written.
struct RunWriter::Metric {
  int64_t id = 0;
  bool skip = false;  // the program logs it itself
  int64_t count = 0, nan_count = 0;
  std::optional<int64_t> last_step;
  int64_t last_ns = 0;
  double last = kNotMeasured, min = kNotMeasured, max = kNotMeasured;

  void Add(int64_t step, int64_t ns, double value) noexcept {
    ++count;
    if (!last_step || step > *last_step || (step == *last_step && ns >= last_ns))
      last_step = step, last_ns = ns, last = value;
    if (std::isnan(value)) {
      ++nan_count;
      return;
    }
    min = std::fmin(min, value);  // of a NaN and a number the number
    max = std::fmax(max, value);
  }
};

// The id of the run to resume; empty: a new run.
Result<std::string> RunWriter::Resumable(const RunStart& start, const ProcessObserver& observer) {
  if (start.resume != "auto") return start.run.id;
  ASSIGN_OR_RETURN(Statement last,
                   database_.Prepare("SELECT id,status FROM run WHERE name=? AND parent_id IS nullif(?,'')"
                                     " ORDER BY started_ns DESC, id DESC LIMIT 1"));
  ASSIGN_OR_RETURN(bool found, last.BindAll(start.run.name, start.run.parent_id).Step());
  if (!found) return std::string();
  std::string id(last.Text(0)), status(last.Text(1));
  last.Reset();
  if (status == kFailed) return id;
  if (status != kRunning) return std::string();
  ASSIGN_OR_RETURN(std::vector<CrashedRun> crashed, FindCrashed(database_, observer));
  bool dead = std::ranges::any_of(crashed, [&](const CrashedRun& run) { return run.id == id; });
  return dead ? id : std::string();
}

Status RunWriter::Begin(const RunStart& start, const ProcessObserver& observer) {
  ASSIGN_OR_RETURN(Transaction transaction, Transaction::Begin(database_));
  ASSIGN_OR_RETURN(run_id_, Resumable(start, observer));
  if (!run_id_.empty()) {
    ASSIGN_OR_RETURN(Statement find, database_.Prepare("SELECT name FROM run WHERE id=?"));
    ASSIGN_OR_RETURN(joined_, find.Bind(1, run_id_).Step());
    if (joined_) run_name_ = find.Text(0);
  }
  if (!joined_ && start.must_exist)
    return {Code::kInvalidArgument, "no run " + run_id_ + " in " + database_.path() + " to resume"};
  if (joined_) {
    RETURN_IF_ERROR(ReopenRun(start, observer));
  } else {
    RunRow run = start.run;
    if (run_id_.empty()) run_id_ = MakeRunId(run.started_ns);
    run.id = run_id_;
    run_name_ = run.name;
    RETURN_IF_ERROR(InsertRun(run));
  }
  RETURN_IF_ERROR(InsertProcess(start.process));
  return transaction.Commit();
}

void RunWriter::Attach(std::string run_id, int64_t process_id, int64_t points) noexcept {
  run_id_ = std::move(run_id), process_id_ = process_id, points_ = points;
}

Status RunWriter::InsertRun(const RunRow& run) {
  return database_.Execute(
      "INSERT INTO run(id,name,status,parent_id,started_ns,script,command,folder,git_commit,host)"
      " VALUES(?,?,'running',nullif(?,''),?,?,?,?,?,?)",
      run.id, run.name, run.parent_id, run.started_ns, run.script, run.command, run.folder, run.git_commit,
      run.host);
}

// Reopens an ended run, or joins a running one. Its dead processes are marked as ended, so that they do not
// make it crashed when all others have left well.
Status RunWriter::ReopenRun(const RunStart& start, const ProcessObserver& observer) {
  if (start.rename) {
    RETURN_IF_ERROR(database_.Execute("UPDATE run SET name=? WHERE id=?", start.run.name, run_id_));
    run_name_ = start.run.name;
  }
  ASSIGN_OR_RETURN(std::vector<CrashedRun> crashed, FindCrashed(database_, observer));
  bool dead = std::ranges::any_of(crashed, [&](const CrashedRun& run) { return run.id == run_id_; });
  if (dead)
    RETURN_IF_ERROR(database_.Execute(
        "UPDATE process SET ended_ns=heartbeat_ns WHERE run_id=? AND ended_ns IS NULL", run_id_));
  RETURN_IF_ERROR(
      database_.Execute("UPDATE run SET resumed=resumed+1, status='running', ended_ns=NULL, exit_code=NULL,"
                        " reason='' WHERE id=?1 AND (status<>'running' OR ?2)",
                        run_id_, int64_t{dead}));
  if (database_.changes() == 0) return Ok();
  return database_.Execute("UPDATE process SET outcome='earlier' WHERE run_id=?", run_id_);
}

Status RunWriter::InsertProcess(const ProcessRow& process) {
  RETURN_IF_ERROR(database_.Execute(
      "INSERT INTO process(run_id,role,host,place,pid,start_ticks,started_ns,heartbeat_ns,heartbeat_every_ns)"
      " VALUES(?,?,?,?,?,?,?,?,?)",
      run_id_, process.role, process.host, process.place, process.pid, process.start_ticks,
      process.started_ns, process.heartbeat_ns, process.heartbeat_every_ns));
  process_id_ = database_.last_row_id();
  return Ok();
}

Status RunWriter::Write(const RunBatch& batch, PointSource source) {
  ASSIGN_OR_RETURN(Transaction transaction, Transaction::Begin(database_));
  if (!heartbeat_) {
    ASSIGN_OR_RETURN(heartbeat_, database_.Prepare("UPDATE process SET heartbeat_ns=? WHERE id=?"));
  }
  RETURN_IF_ERROR(heartbeat_.BindAll(batch.heartbeat_ns, process_id_).Execute());
  if (database_.changes() == 0)
    return {Code::kUnavailable, "the run " + run_id_ + " was deleted from " + database_.path()};
  RETURN_IF_ERROR(WriteTexts(batch));
  RETURN_IF_ERROR(WritePoints(batch, source));
  RETURN_IF_ERROR(WriteEnergy(batch.energy));
  if (batch.dropped != 0)
    RETURN_IF_ERROR(database_.Execute("UPDATE run SET dropped=dropped+? WHERE id=?", batch.dropped, run_id_));
  return transaction.Commit();
}

Status RunWriter::WriteTexts(const RunBatch& batch) {
  if (!batch.params.empty()) {
    ASSIGN_OR_RETURN(Statement put,
                     database_.Prepare("INSERT INTO param(run_id,key,type,value) VALUES(?,?,?,?)"
                                       " ON CONFLICT DO UPDATE SET type=excluded.type,"
                                       " value=excluded.value"));
    for (const ParamRow& param : batch.params) {
      put.BindAll(run_id_, param.key);
      BindValue(put, 3, 4, param.value);
      RETURN_IF_ERROR(put.Execute());
    }
  }
  if (!batch.tags.empty()) {
    ASSIGN_OR_RETURN(Statement put, database_.Prepare("INSERT INTO tag(run_id,key,value) VALUES(?,?,?)"
                                                      " ON CONFLICT DO UPDATE SET value=excluded.value"));
    for (const TagRow& tag : batch.tags) RETURN_IF_ERROR(put.BindAll(run_id_, tag.key, tag.value).Execute());
  }
  if (!batch.artifacts.empty()) {
    ASSIGN_OR_RETURN(
        Statement put,
        database_.Prepare("INSERT INTO artifact(run_id,name,path,bytes,sha256,copied,unix_ns)"
                          " VALUES(?,?,?,?,?,?,?) ON CONFLICT DO UPDATE SET path=excluded.path,"
                          " bytes=excluded.bytes, sha256=excluded.sha256, copied=excluded.copied,"
                          " unix_ns=excluded.unix_ns"));
    for (const ArtifactRow& artifact : batch.artifacts)
      RETURN_IF_ERROR(put.BindAll(run_id_, artifact.name, artifact.path, artifact.bytes, artifact.sha256,
                                  int64_t{artifact.copied}, artifact.unix_ns)
                          .Execute());
  }
  return Ok();
}

// Other ranks write the same metrics, so its row is read again in each transaction.
Result<RunWriter::Metric> RunWriter::OpenMetric(const std::string& key, PointSource source) {
  if (!find_metric_) {
    ASSIGN_OR_RETURN(
        find_metric_,
        database_.Prepare("SELECT id,source,count,nan_count,last_step,last_ns,last_value,min_value,"
                          "max_value FROM metric WHERE run_id=? AND key=?"));
    ASSIGN_OR_RETURN(insert_metric_,
                     database_.Prepare("INSERT INTO metric(run_id,key,source,count) VALUES(?,?,?,0)"));
  }
  Metric metric;
  ASSIGN_OR_RETURN(bool known, find_metric_.BindAll(run_id_, key).Step());
  if (!known) {
    RETURN_IF_ERROR(insert_metric_.BindAll(run_id_, key, SourceName(source)).Execute());
    metric.id = database_.last_row_id();
    return metric;
  }
  metric.id = find_metric_.Int(0);
  const bool from_output = find_metric_.Text(1) == SourceName(PointSource::kOutput);
  metric.count = find_metric_.Int(2), metric.nan_count = find_metric_.Int(3);
  metric.last_step = find_metric_.MaybeInt(4), metric.last_ns = find_metric_.Int(5);
  metric.last = find_metric_.Real(6), metric.min = find_metric_.Real(7), metric.max = find_metric_.Real(8);
  find_metric_.Reset();
  metric.skip = source == PointSource::kOutput && !from_output;
  if (source == PointSource::kProgram && from_output) {
    // Points read from the output so far are the same values with fewer digits.
    std::string id = std::to_string(metric.id);
    RETURN_IF_ERROR(database_.Run("DELETE FROM point WHERE metric_id=" + id +
                                  "; UPDATE metric SET source='program' WHERE id=" + id));
    int64_t same = metric.id;
    metric = Metric();
    metric.id = same;
  }
  return metric;
}

Status RunWriter::WritePoints(const RunBatch& batch, PointSource source) {
  if (batch.points.empty()) return Ok();
  if (!insert_point_) {
    ASSIGN_OR_RETURN(insert_point_, database_.Prepare("INSERT INTO point VALUES(?,?,?,?,?)"));
  }
  std::vector<std::optional<Metric>> metrics(batch.keys.size());
  for (const RunBatch::Point& point : batch.points) {
    std::optional<Metric>& metric = metrics[point.key];
    if (!metric) {
      ASSIGN_OR_RETURN(metric, OpenMetric(batch.keys[point.key], source));
    }
    if (metric->skip) continue;
    int64_t step = point.step;
    if (step == kNextStep) step = metric->last_step ? *metric->last_step + 1 : 0;
    const int64_t number = process_id_ << 32 | (++points_ & 0xffffffff);
    RETURN_IF_ERROR(insert_point_.BindAll(metric->id, step, point.unix_ns, number, point.value).Execute());
    metric->Add(step, point.unix_ns, point.value);
  }
  for (const std::optional<Metric>& metric : metrics) {
    if (metric && !metric->skip) RETURN_IF_ERROR(CloseMetric(*metric));
  }
  return Ok();
}

Status RunWriter::CloseMetric(const Metric& metric) {
  if (!update_metric_) {
    ASSIGN_OR_RETURN(
        update_metric_,
        database_.Prepare("UPDATE metric SET count=?,nan_count=?,last_step=?,last_ns=?,last_value=?,"
                          "min_value=?,max_value=? WHERE id=?"));
  }
  return update_metric_
      .BindAll(metric.count, metric.nan_count, metric.last_step, metric.last_ns, metric.last, metric.min,
               metric.max, metric.id)
      .Execute();
}

// An unknown value does not overwrite one from an earlier heartbeat.
Status RunWriter::WriteEnergy(const EnergyRow& energy) {
  if (!energy.queried()) return Ok();
  RETURN_IF_ERROR(database_.Execute(
      "UPDATE run SET energy_joules=?1,energy_uncertainty_joules=?2,energy_method=?3,energy_validity=?4,"
      "energy_reason=?5 WHERE id=?6 AND (?1 IS NOT NULL OR energy_joules IS NULL)",
      energy.joules, energy.uncertainty_joules, energy.method, energy.validity, energy.reason, run_id_));
  if (!energy.attribution.empty())
    RETURN_IF_ERROR(database_.Execute(
        "INSERT OR REPLACE INTO energy_part(run_id,attribution,device_energy_joules) VALUES(?,?,?)", run_id_,
        energy.attribution, energy.device_joules));
  if (energy.devices == 0) return Ok();
  return database_.Execute(
      "INSERT OR REPLACE INTO device_use(run_id,vendor,devices,mean_power_watts,peak_power_watts,"
      "mean_utilization_ratio,peak_utilization_ratio,mean_memory_used_bytes,peak_memory_used_bytes)"
      " VALUES(?,?,?,?,?,?,?,?,?)",
      run_id_, energy.vendor, energy.devices, energy.mean_power_watts, energy.peak_power_watts,
      energy.mean_utilization_ratio, energy.peak_utilization_ratio, energy.mean_memory_used_bytes,
      energy.peak_memory_used_bytes);
}

Status RunWriter::Leave(const RunEnd& end) {
  ASSIGN_OR_RETURN(Transaction transaction, Transaction::Begin(database_));
  RETURN_IF_ERROR(database_.Execute("UPDATE process SET ended_ns=?1, heartbeat_ns=?1, outcome=?2 WHERE id=?3",
                                    end.unix_ns, end.outcome, process_id_));
  RETURN_IF_ERROR(WriteEnergy(end.energy));
  if (end.outcome == kFailed || end.exit_code)
    RETURN_IF_ERROR(
        database_.Execute("UPDATE run SET reason=CASE WHEN ?1='' THEN reason ELSE ?1 END,"
                          " exit_code=COALESCE(?2, exit_code) WHERE id=?3",
                          end.reason, end.exit_code, run_id_));
  // A failed process makes the run failed, even when others end well after it.
  const std::string finished =
      end.decides ? "?2"
                  : "CASE WHEN EXISTS(SELECT 1 FROM process WHERE run_id=?1 AND outcome='failed' AND"
                    " role<>'fork') THEN 'failed' ELSE ?2 END";
  RETURN_IF_ERROR(
      database_.Execute("UPDATE run SET status=" + finished +
                            ", ended_ns=?3 WHERE id=?1 AND status='running' AND (?4 OR NOT EXISTS"
                            "(SELECT 1 FROM process WHERE run_id=?1 AND ended_ns IS NULL AND role<>'fork'))",
                        run_id_, end.outcome, end.unix_ns, int64_t{end.decides}));
  return transaction.Commit();
}

using sqlite::Statement;
using sqlite::Transaction;

namespace {

// Timeout of a batch's transaction. Ranks of one job take turns, each for milliseconds.
constexpr int kBusyMs = 10'000;

// Checks a file before it is opened for writing, which changes it.
Status CheckIsOurs(const std::string& path, Duration longest) {
  struct stat info{};
  if (::stat(path.c_str(), &info) != 0 || info.st_size == 0) return Ok();
  auto database = sqlite::Database::Open(
      {.path = path, .read_only = true, .busy_ms = kBusyMs, .longest = longest, .bound_memory = false});
  if (!database) return database.error();
  ASSIGN_OR_RETURN(bool old, IsOldFile(*database));
  if (old)
    return {Code::kInvalidArgument,
            path + " is a file of the zernel project, which is read-only. Use another file"};
  ASSIGN_OR_RETURN(int64_t version, CheckVersion(*database, kRunSchema));
  ASSIGN_OR_RETURN(int64_t tables, database->Number("SELECT count(*) FROM sqlite_master"));
  if (version == 0 && tables != 0) return {Code::kInvalidArgument, path + " is not a file of experiments"};
  return Ok();
}

}  // namespace

Result<std::unique_ptr<RunWriter>> RunWriter::Open(const std::string& path, Duration longest) {
  RETURN_IF_ERROR(CheckIsOurs(path, longest));
  ASSIGN_OR_RETURN(sqlite::Database database, sqlite::Database::Open({.path = path,
                                                                      .busy_ms = kBusyMs,
                                                                      .durable = false,
                                                                      .triggers = false,
                                                                      .longest = longest,
                                                                      .bound_memory = false}));
  RETURN_IF_ERROR(BringUpToDate(database, kRunSchema));
  return std::unique_ptr<RunWriter>(new RunWriter(std::move(database)));
}

Result<std::vector<std::string>> RunWriter::Delete(std::string_view id) {
  ASSIGN_OR_RETURN(Transaction transaction, Transaction::Begin(database_));
  constexpr const char* kFamily =
      "WITH RECURSIVE family(id) AS (SELECT id FROM run WHERE id=? UNION SELECT r.id FROM run r JOIN family "
      "f ON"
      " r.parent_id=f.id) ";
  ASSIGN_OR_RETURN(Statement family, database_.Prepare(std::string(kFamily) + "SELECT id FROM family"));
  family.Bind(1, id);
  std::vector<std::string> ids;
  RETURN_IF_ERROR(family.Each([&] { ids.emplace_back(family.Text(0)); }));
  if (ids.empty()) return Status{Code::kInvalidArgument, "no run " + std::string(id)};
  ASSIGN_OR_RETURN(Statement points, database_.Prepare("DELETE FROM point WHERE metric_id IN"
                                                       " (SELECT id FROM metric WHERE run_id=?)"));
  ASSIGN_OR_RETURN(Statement run, database_.Prepare("DELETE FROM run WHERE id=?"));
  for (const std::string& each : ids) {
    RETURN_IF_ERROR(points.Bind(1, each).Execute());
    RETURN_IF_ERROR(run.Bind(1, each).Execute());
  }
  RETURN_IF_ERROR(transaction.Commit());
  return ids;
}

}  // namespace gpulens::experiments
