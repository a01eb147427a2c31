#include "store/experiments/run_writer.h"

#include <algorithm>
#include <cmath>

#include "base/result.h"
#include "store/experiments/run_files.h"
#include "store/experiments/run_reader.h"
#include "store/experiments/run_schema.h"

namespace gpulens::experiments {

using sqlite::Statement;
using sqlite::Transaction;

namespace {

std::string_view SourceName(Source source) noexcept {
  return source == Source::kProgram ? "program" : "output";
}

void BindValue(Statement& statement, int type_at, int value_at, const Value& value) {
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

// The id to go on with; empty: a new run.
Result<std::string> RunWriter::Resumable(const Start& start, const Observer& observer) {
  if (start.resume != "auto") return start.run.id;
  ASSIGN_OR_RETURN(Statement last,
                   database_.Prepare("SELECT id,status FROM run WHERE name=? AND"
                                     " parent_id IS ? ORDER BY started_ns DESC, id DESC LIMIT 1"));
  last.Bind(1, start.run.name);
  if (start.run.parent_id.empty()) last.BindNull(2);
  else last.Bind(2, start.run.parent_id);
  ASSIGN_OR_RETURN(bool found, last.Step());
  if (!found) return std::string();
  std::string id(last.Text(0)), status(last.Text(1));
  last.Reset();
  if (status == kFailed) return id;
  if (status != kRunning) return std::string();
  ASSIGN_OR_RETURN(std::vector<CrashedRun> crashed, FindCrashed(database_, observer));
  bool dead =
      std::any_of(crashed.begin(), crashed.end(), [&](const CrashedRun& run) { return run.id == id; });
  return dead ? id : std::string();
}

Status RunWriter::Begin(const Start& start, const Observer& observer) {
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
  ASSIGN_OR_RETURN(
      Statement insert,
      database_.Prepare("INSERT INTO run(id,name,status,parent_id,started_ns,script,command,folder,"
                        "git_commit,host) VALUES(?,?,'running',?,?,?,?,?,?,?)"));
  insert.Bind(1, run.id).Bind(2, run.name).Bind(4, run.started_ns).Bind(5, run.script).Bind(6, run.command);
  if (run.parent_id.empty()) insert.BindNull(3);
  else insert.Bind(3, run.parent_id);
  insert.Bind(7, run.folder).Bind(8, run.git_commit).Bind(9, run.host);
  return insert.Execute();
}

// A run that ended goes on; one that runs is joined. Processes of it that are gone are told as gone, so that
// they do not make it crashed when all others have left well.
Status RunWriter::ReopenRun(const Start& start, const Observer& observer) {
  if (start.rename) {
    ASSIGN_OR_RETURN(Statement name, database_.Prepare("UPDATE run SET name=? WHERE id=?"));
    RETURN_IF_ERROR(name.Bind(1, start.run.name).Bind(2, run_id_).Execute());
    run_name_ = start.run.name;
  }
  ASSIGN_OR_RETURN(std::vector<CrashedRun> crashed, FindCrashed(database_, observer));
  bool dead =
      std::any_of(crashed.begin(), crashed.end(), [&](const CrashedRun& run) { return run.id == run_id_; });
  if (dead) {
    ASSIGN_OR_RETURN(
        Statement bury,
        database_.Prepare("UPDATE process SET ended_ns=heartbeat_ns WHERE run_id=? AND ended_ns IS NULL"));
    RETURN_IF_ERROR(bury.Bind(1, run_id_).Execute());
  }
  ASSIGN_OR_RETURN(Statement reopen,
                   database_.Prepare("UPDATE run SET resumed=resumed+1, status='running', ended_ns=NULL,"
                                     " exit_code=NULL, reason='' WHERE id=?1 AND (status<>'running' OR ?2)"));
  RETURN_IF_ERROR(reopen.Bind(1, run_id_).Bind(2, int64_t{dead}).Execute());
  if (database_.changes() == 0) return Ok();
  ASSIGN_OR_RETURN(Statement earlier,
                   database_.Prepare("UPDATE process SET outcome='earlier' WHERE run_id=?"));
  return earlier.Bind(1, run_id_).Execute();
}

Status RunWriter::InsertProcess(const ProcessRow& process) {
  ASSIGN_OR_RETURN(Statement insert,
                   database_.Prepare("INSERT INTO process(run_id,role,host,place,pid,start_ticks,"
                                     "started_ns,heartbeat_ns,heartbeat_every_ns)"
                                     " VALUES(?,?,?,?,?,?,?,?,?)"));
  insert.Bind(1, run_id_).Bind(2, process.role).Bind(3, process.host).Bind(4, process.place);
  insert.Bind(5, process.pid).Bind(6, process.start_ticks).Bind(7, process.started_ns);
  insert.Bind(8, process.heartbeat_ns).Bind(9, process.heartbeat_every_ns);
  RETURN_IF_ERROR(insert.Execute());
  process_id_ = database_.last_row_id();
  return Ok();
}

Status RunWriter::Write(const Batch& batch, Source source) {
  ASSIGN_OR_RETURN(Transaction transaction, Transaction::Begin(database_));
  if (!heartbeat_) {
    ASSIGN_OR_RETURN(heartbeat_, database_.Prepare("UPDATE process SET heartbeat_ns=? WHERE id=?"));
  }
  RETURN_IF_ERROR(heartbeat_.Bind(1, batch.heartbeat_ns).Bind(2, process_id_).Execute());
  if (database_.changes() == 0) return {Code::kUnavailable, "the run " + run_id_ + " was deleted"};
  RETURN_IF_ERROR(WriteTexts(batch));
  RETURN_IF_ERROR(WritePoints(batch, source));
  RETURN_IF_ERROR(WriteEnergy(batch.energy));
  if (batch.dropped != 0) {
    ASSIGN_OR_RETURN(Statement drops, database_.Prepare("UPDATE run SET dropped=dropped+? WHERE id=?"));
    RETURN_IF_ERROR(drops.Bind(1, batch.dropped).Bind(2, run_id_).Execute());
  }
  return transaction.Commit();
}

Status RunWriter::WriteTexts(const Batch& batch) {
  if (!batch.params.empty()) {
    ASSIGN_OR_RETURN(Statement put,
                     database_.Prepare("INSERT INTO param(run_id,key,type,value) VALUES(?,?,?,?)"
                                       " ON CONFLICT DO UPDATE SET type=excluded.type,"
                                       " value=excluded.value"));
    for (const ParamRow& param : batch.params) {
      put.Bind(1, run_id_).Bind(2, param.key);
      BindValue(put, 3, 4, param.value);
      RETURN_IF_ERROR(put.Execute());
    }
  }
  if (!batch.tags.empty()) {
    ASSIGN_OR_RETURN(Statement put, database_.Prepare("INSERT INTO tag(run_id,key,value) VALUES(?,?,?)"
                                                      " ON CONFLICT DO UPDATE SET value=excluded.value"));
    for (const TagRow& tag : batch.tags)
      RETURN_IF_ERROR(put.Bind(1, run_id_).Bind(2, tag.key).Bind(3, tag.value).Execute());
  }
  if (!batch.artifacts.empty()) {
    ASSIGN_OR_RETURN(
        Statement put,
        database_.Prepare("INSERT INTO artifact(run_id,name,path,bytes,sha256,copied,unix_ns)"
                          " VALUES(?,?,?,?,?,?,?) ON CONFLICT DO UPDATE SET path=excluded.path,"
                          " bytes=excluded.bytes, sha256=excluded.sha256, copied=excluded.copied,"
                          " unix_ns=excluded.unix_ns"));
    for (const ArtifactRow& artifact : batch.artifacts) {
      put.Bind(1, run_id_).Bind(2, artifact.name).Bind(3, artifact.path).Bind(4, artifact.bytes);
      put.Bind(5, artifact.sha256).Bind(6, int64_t{artifact.copied}).Bind(7, artifact.unix_ns);
      RETURN_IF_ERROR(put.Execute());
    }
  }
  return Ok();
}

// Other ranks write the same metrics, so its row is read in each transaction anew.
Result<RunWriter::Metric> RunWriter::OpenMetric(const std::string& key, Source source) {
  if (!find_metric_) {
    ASSIGN_OR_RETURN(
        find_metric_,
        database_.Prepare("SELECT id,source,count,nan_count,last_step,last_ns,last_value,min_value,"
                          "max_value FROM metric WHERE run_id=? AND key=?"));
    ASSIGN_OR_RETURN(insert_metric_,
                     database_.Prepare("INSERT INTO metric(run_id,key,source,count) VALUES(?,?,?,0)"));
  }
  Metric metric;
  ASSIGN_OR_RETURN(bool known, find_metric_.Bind(1, run_id_).Bind(2, key).Step());
  if (!known) {
    RETURN_IF_ERROR(insert_metric_.Bind(1, run_id_).Bind(2, key).Bind(3, SourceName(source)).Execute());
    metric.id = database_.last_row_id();
    return metric;
  }
  metric.id = find_metric_.Int(0);
  const bool from_output = find_metric_.Text(1) == SourceName(Source::kOutput);
  metric.count = find_metric_.Int(2), metric.nan_count = find_metric_.Int(3);
  metric.last_step = find_metric_.MaybeInt(4), metric.last_ns = find_metric_.Int(5);
  metric.last = find_metric_.Real(6), metric.min = find_metric_.Real(7), metric.max = find_metric_.Real(8);
  find_metric_.Reset();
  metric.skip = source == Source::kOutput && !from_output;
  if (source == Source::kProgram && from_output) {
    // What was read from its output so far is the same, seen through a glass.
    std::string id = std::to_string(metric.id);
    RETURN_IF_ERROR(database_.Run("DELETE FROM point WHERE metric_id=" + id +
                                  "; UPDATE metric SET source='program' WHERE id=" + id));
    int64_t same = metric.id;
    metric = Metric();
    metric.id = same;
  }
  return metric;
}

Status RunWriter::WritePoints(const Batch& batch, Source source) {
  if (batch.points.empty()) return Ok();
  if (!insert_point_) {
    ASSIGN_OR_RETURN(insert_point_, database_.Prepare("INSERT INTO point VALUES(?,?,?,?,?)"));
  }
  std::vector<std::optional<Metric>> metrics(batch.keys.size());
  for (const Batch::Point& point : batch.points) {
    std::optional<Metric>& metric = metrics[point.key];
    if (!metric) {
      ASSIGN_OR_RETURN(metric, OpenMetric(batch.keys[point.key], source));
    }
    if (metric->skip) continue;
    int64_t step = point.step;
    if (step == kNextStep) step = metric->last_step ? *metric->last_step + 1 : 0;
    insert_point_.Bind(1, metric->id).Bind(2, step).Bind(3, point.unix_ns);
    insert_point_.Bind(4, process_id_ << 32 | (++points_ & 0xffffffff)).Bind(5, point.value);
    RETURN_IF_ERROR(insert_point_.Execute());
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
  update_metric_.Bind(1, metric.count).Bind(2, metric.nan_count).Bind(3, metric.last_step);
  update_metric_.Bind(4, metric.last_ns).Bind(5, metric.last).Bind(6, metric.min).Bind(7, metric.max);
  return update_metric_.Bind(8, metric.id).Execute();
}

// That nothing is known does not overwrite what was known a heartbeat ago.
Status RunWriter::WriteEnergy(const EnergyRow& energy) {
  if (!energy.asked()) return Ok();
  ASSIGN_OR_RETURN(
      Statement put,
      database_.Prepare("UPDATE run SET energy_joules=?1,energy_uncertainty_joules=?2,energy_method=?3,"
                        "energy_validity=?4,energy_reason=?5 WHERE id=?6 AND"
                        " (?1 IS NOT NULL OR energy_joules IS NULL)"));
  put.Bind(1, energy.joules).Bind(2, energy.uncertainty_joules).Bind(3, energy.method);
  put.Bind(4, energy.validity).Bind(5, energy.reason).Bind(6, run_id_);
  RETURN_IF_ERROR(put.Execute());
  if (!energy.attribution.empty()) {
    ASSIGN_OR_RETURN(
        Statement part,
        database_.Prepare("INSERT OR REPLACE INTO energy_part(run_id,attribution,device_energy_joules)"
                          " VALUES(?,?,?)"));
    part.Bind(1, run_id_).Bind(2, energy.attribution).Bind(3, energy.device_joules);
    RETURN_IF_ERROR(part.Execute());
  }
  if (energy.devices == 0) return Ok();
  ASSIGN_OR_RETURN(
      Statement use,
      database_.Prepare("INSERT OR REPLACE INTO device_use(run_id,vendor,devices,mean_power_watts,"
                        "peak_power_watts,mean_utilization_ratio,peak_utilization_ratio,"
                        "mean_memory_used_bytes,peak_memory_used_bytes) VALUES(?,?,?,?,?,?,?,?,?)"));
  use.Bind(1, run_id_).Bind(2, energy.vendor).Bind(3, energy.devices);
  use.Bind(4, energy.mean_power_watts).Bind(5, energy.peak_power_watts);
  use.Bind(6, energy.mean_utilization_ratio).Bind(7, energy.peak_utilization_ratio);
  use.Bind(8, energy.mean_memory_used_bytes).Bind(9, energy.peak_memory_used_bytes);
  return use.Execute();
}

Status RunWriter::Leave(const End& end) {
  ASSIGN_OR_RETURN(Transaction transaction, Transaction::Begin(database_));
  ASSIGN_OR_RETURN(
      Statement leave,
      database_.Prepare("UPDATE process SET ended_ns=?1, heartbeat_ns=?1, outcome=?2 WHERE id=?3"));
  RETURN_IF_ERROR(leave.Bind(1, end.unix_ns).Bind(2, end.outcome).Bind(3, process_id_).Execute());
  RETURN_IF_ERROR(WriteEnergy(end.energy));
  if (end.outcome == kFailed || end.exit_code) {
    ASSIGN_OR_RETURN(Statement why,
                     database_.Prepare("UPDATE run SET reason=CASE WHEN ?1='' THEN reason ELSE ?1 END,"
                                       " exit_code=COALESCE(?2, exit_code) WHERE id=?3"));
    RETURN_IF_ERROR(why.Bind(1, end.reason).Bind(2, end.exit_code).Bind(3, run_id_).Execute());
  }
  // One that failed makes the run failed, also when others left well after it.
  const std::string finished =
      end.decides ? "?2"
                  : "CASE WHEN EXISTS(SELECT 1 FROM process WHERE run_id=?1 AND outcome='failed' AND"
                    " role<>'fork') THEN 'failed' ELSE ?2 END";
  ASSIGN_OR_RETURN(
      Statement finish,
      database_.Prepare("UPDATE run SET status=" + finished +
                        ", ended_ns=?3 WHERE id=?1 AND status='running' AND (?4 OR NOT EXISTS"
                        "(SELECT 1 FROM process WHERE run_id=?1 AND ended_ns IS NULL AND role<>'fork'))"));
  finish.Bind(1, run_id_).Bind(2, end.outcome).Bind(3, end.unix_ns).Bind(4, int64_t{end.decides});
  RETURN_IF_ERROR(finish.Execute());
  return transaction.Commit();
}

}  // namespace gpulens::experiments
