#include "store/telemetry/file_writer.h"

#include <sqlite3.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/result.h"
#include "store/experiments/run_rows.h"
#include "store/telemetry/schema.h"

namespace gpulens::telemetry {
namespace {

constexpr int64_t kForgetEveryNs = 60'000'000'000;
constexpr size_t kMostRejectedBytes = 64 << 10;

int64_t Now() noexcept { return RealClock().Now().unix_ns; }

std::string InsertSql() {
  std::string names, marks;
  for (const RecordColumn& column : RecordColumns())
    names += sqlite::Quoted(column.name) + ",", marks += "?,";
  return "INSERT INTO telemetry(" + names + "outcome,measured) VALUES(" + marks + "?,?)";
}

void BindRow(sqlite::Statement& insert, const RecordRow& row) {
  int parameter = 0;
  const auto bind = [&](const auto& value) { insert.Bind(++parameter, value); };
  for (const RecordColumn& column : RecordColumns()) std::visit(bind, StoredOf(column, row));
  bind(OutcomeName(static_cast<Outcome>(row.numbers.outcome)));
  bind(MeasuredMask(row));
}

}  // namespace

Result<std::unique_ptr<FileWriter>> FileWriter::Open(FileOptions options) {
  std::unique_ptr<FileWriter> writer;  // outlives `use`: its end is a use of its own
  sqlite::ForkGuard use;
  if (sqlite::UnsafeSinceFork())
    return Status{Code::kUnavailable, "this process was forked while another thread was inside SQLite"};
  ASSIGN_OR_RETURN(sqlite::Database database,
                   OpenToWrite(options.path, options.rollup.get(), options.longest));
  writer.reset(new FileWriter(std::move(options), std::move(database)));
  sqlite::AddForkable(writer.get());
  RETURN_IF_ERROR(writer->Enter());
  RETURN_IF_ERROR(writer->Prepare());
  return writer;
}

FileWriter::~FileWriter() {
  sqlite::ForkGuard use;
  CloseForFork();
  sqlite::RemoveForkable(this);
}

Status FileWriter::Prepare() {
  ASSIGN_OR_RETURN(insert_, database_.Prepare(InsertSql()));
  ASSIGN_OR_RETURN(reject_,
                   database_.Prepare("INSERT INTO telemetry_poison(unix_ns,reason,record) VALUES(?,?,?)"));
  ASSIGN_OR_RETURN(account_, database_.Prepare("UPDATE telemetry_writer SET flushed_ns=?, stored=stored+?, "
                                               "rejected=rejected+?, dropped=? WHERE id=?"));
  ASSIGN_OR_RETURN(valid_json_, database_.Prepare("SELECT json_valid(?)"));
  return Ok();
}

// Marks writers without an end whose process is gone and logs each once: records that they had not written
// are lost.
Status FileWriter::FindCrashed() {
  const experiments::ProcessObserver here = experiments::HereAndNow();
  ASSIGN_OR_RETURN(sqlite::Statement open,
                   database_.Prepare("SELECT id, host, place, pid, start_ticks, flushed_ns, stored FROM "
                                     "telemetry_writer WHERE ended_ns IS NULL"));
  std::string ids;
  RETURN_IF_ERROR(open.Each([&] {
    experiments::ProcessRow process;
    process.host = open.Text(1), process.place = open.Text(2);
    process.pid = open.Int(3), process.start_ticks = open.Int(4);
    process.heartbeat_ns = open.Int(5);
    // On another machine silence proves nothing: a writer without records writes nothing.
    const bool ours = process.place == here.place && process.start_ticks > 0;
    if (!ours || experiments::IsAlive(process, here)) return;
    ids += (ids.empty() ? "" : ",") + std::to_string(open.Int(0));
    ++crashed_;
    Log(LogLevel::kWarn, "telemetry", "telemetry_writer_crashed",
        "process " + std::to_string(process.pid) + " ended without closing " + options_.path + "; " +
            std::to_string(open.Int(6)) + " of its records are stored, what it had not flushed is lost");
  }));
  if (ids.empty()) return Ok();
  return database_.Run("UPDATE telemetry_writer SET ended_ns=flushed_ns, outcome='crashed' WHERE id IN (" +
                       ids + ")");
}

Status FileWriter::Enter() {
  ASSIGN_OR_RETURN(sqlite::Transaction change, sqlite::Transaction::Begin(database_));
  RETURN_IF_ERROR(FindCrashed());
  const experiments::ProcessRow me = experiments::ThisProcess(experiments::HereAndNow());
  RETURN_IF_ERROR(database_.Execute(
      "INSERT INTO telemetry_writer(host,place,pid,start_ticks,started_ns,flushed_ns) VALUES(?,?,?,?,?,?)",
      me.host, me.place, me.pid, me.start_ticks, me.started_ns, me.started_ns));
  writer_id_ = database_.last_row_id();
  return change.Commit();
}

Status FileWriter::Reject(std::string_view record, std::string_view reason) {
  record = record.substr(0, kMostRejectedBytes);
  return reject_.BindAll(Now(), reason, record).Execute();
}

Status FileWriter::Insert(const RecordRow& row, WriteCounts& kept) {
  std::string_view why = WhyNot(row);
  if (const std::string_view metadata = row.text(TextColumn::kMetadata); why.empty() && !metadata.empty()) {
    valid_json_.Bind(1, metadata);
    ASSIGN_OR_RETURN(const bool answer, valid_json_.Step());
    if (!answer || valid_json_.Int(0) == 0) why = "metadata that is not JSON";
    valid_json_.Reset();
  }
  if (why.empty()) {
    BindRow(insert_, row);
    Status status = insert_.Execute();
    if (status) {
      ++kept.stored;
      if (options_.rollup) options_.rollup->Add(database_.last_row_id(), row);
      return Ok();
    }
    // An error of this row (a constraint, a trigger) undoes it alone; a full disk concerns all.
    const int code = ::sqlite3_extended_errcode(database_.handle()) & 0xff;
    if (code != SQLITE_CONSTRAINT && code != SQLITE_MISMATCH) return status;
    ++kept.rejected;
    return Reject(ToJson(row), status.detail);
  }
  ++kept.rejected;
  return Reject(ToJson(row), why);
}

Status FileWriter::Account(const WriteCounts& kept, uint64_t dropped, int64_t now_ns) {
  return account_
      .BindAll(now_ns, static_cast<int64_t>(kept.stored), static_cast<int64_t>(kept.rejected),
               static_cast<int64_t>(dropped), writer_id_)
      .Execute();
}

Status FileWriter::Forget() {
  const int64_t now_ns = Now();
  if (options_.retention.count() == 0 || now_ns < next_forget_ns_) return Ok();
  next_forget_ns_ = now_ns + kForgetEveryNs;
  const double before = static_cast<double>(now_ns - options_.retention.count()) / 1e9;
  if (options_.rollup) RETURN_IF_ERROR(options_.rollup->Forget(database_, before));
  return database_.Execute("DELETE FROM telemetry WHERE timestamp < ?", before);
}

Result<WriteCounts> FileWriter::Write(std::span<const RecordRow> rows, uint64_t dropped) {
  sqlite::ForkGuard use;
  RETURN_IF_ERROR(Reopen());
  WriteCounts kept;
  const auto write = [&]() -> Status {
    ASSIGN_OR_RETURN(sqlite::Transaction change, sqlite::Transaction::Begin(database_));
    int64_t before = 0;
    if (options_.rollup) {
      ASSIGN_OR_RETURN(before, database_.Number("SELECT coalesce(max(id),0) FROM telemetry"));
    }
    for (const RecordRow& row : rows) RETURN_IF_ERROR(Insert(row, kept));
    if (options_.rollup) RETURN_IF_ERROR(options_.rollup->Write(database_, before));
    RETURN_IF_ERROR(Forget());
    RETURN_IF_ERROR(Account(kept, dropped, Now()));
    return change.Commit();
  };
  const Status status = write();
  if (options_.rollup) options_.rollup->Done(status.ok());
  if (!status) return status;
  return kept;
}

Status FileWriter::SetAside(std::string_view record, std::string_view reason) {
  sqlite::ForkGuard use;
  RETURN_IF_ERROR(Reopen());
  return Reject(record, reason);
}

Result<bool> FileWriter::Tidy() {
  if (!options_.rollup) return false;
  sqlite::ForkGuard use;
  RETURN_IF_ERROR(Reopen());
  ASSIGN_OR_RETURN(const bool behind, RollupWriter::IsBehind(database_));
  if (!behind) return false;
  ASSIGN_OR_RETURN(sqlite::Transaction change, sqlite::Transaction::Begin(database_));
  ASSIGN_OR_RETURN(const bool more, options_.rollup->CatchUp(database_, RollupWriter::kMostAtOnce));
  RETURN_IF_ERROR(change.Commit());
  return more;
}

Status FileWriter::Close(uint64_t dropped) {
  sqlite::ForkGuard use;
  RETURN_IF_ERROR(Reopen());
  RETURN_IF_ERROR(Account({}, dropped, Now()));
  return database_.Run("UPDATE telemetry_writer SET ended_ns=flushed_ns, outcome='closed' WHERE id=" +
                       std::to_string(writer_id_));
}

Result<uint64_t> FileWriter::Clear() {
  sqlite::ForkGuard use;
  RETURN_IF_ERROR(Reopen());
  ASSIGN_OR_RETURN(sqlite::Transaction change, sqlite::Transaction::Begin(database_));
  ASSIGN_OR_RETURN(const int64_t count, database_.Number("SELECT count(*) FROM telemetry"));
  if (options_.rollup)
    RETURN_IF_ERROR(options_.rollup->Forget(database_, std::numeric_limits<double>::infinity()));
  RETURN_IF_ERROR(database_.Run("DELETE FROM telemetry"));
  RETURN_IF_ERROR(change.Commit());
  return static_cast<uint64_t>(count);
}

Status FileWriter::Vacuum() {
  sqlite::ForkGuard use;
  RETURN_IF_ERROR(Reopen());
  return database_.Run("VACUUM");
}

void FileWriter::CloseForFork() noexcept {
  insert_ = {}, reject_ = {}, account_ = {}, valid_json_ = {};
  sqlite::Database closed = std::move(database_);
}

Status FileWriter::Reopen() {
  if (database_.handle()) return Ok();
  ASSIGN_OR_RETURN(database_, OpenToWrite(options_.path, options_.rollup.get(), options_.longest));
  return Prepare();
}

}  // namespace gpulens::telemetry
