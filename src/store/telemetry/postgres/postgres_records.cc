#include "store/telemetry/postgres/postgres_records.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/clock.h"
#include "base/result.h"
#include "store/experiments/run_rows.h"
#include "store/telemetry/schema.h"
#include "store/telemetry/summary.h"
#include "store/telemetry/sums.h"

namespace gpulens::telemetry {
namespace {

// Lock held while tables are made ("gpulens" in ASCII).
constexpr const char* kLock = "SELECT pg_advisory_xact_lock(29114480594577011)";

constexpr const char* kColumnsThere =
    "SELECT count(*) FROM pg_attribute WHERE attrelid = to_regclass('telemetry') AND NOT attisdropped AND "
    "attname IN ('timestamp', 'model_id', 'measured')";
constexpr const char* kTableThere = "SELECT count(*) FROM pg_class WHERE oid = to_regclass('telemetry')";

constexpr const char* kOtherTables[] = {
    "CREATE TABLE IF NOT EXISTS telemetry_poison(id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY, "
    "unix_ns BIGINT NOT NULL, reason TEXT NOT NULL, record TEXT NOT NULL)",
    "CREATE TABLE IF NOT EXISTS telemetry_writer(id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY, "
    "host TEXT NOT NULL, place TEXT NOT NULL, pid BIGINT NOT NULL, start_ticks BIGINT NOT NULL, "
    "started_ns BIGINT NOT NULL, flushed_ns BIGINT NOT NULL, stored BIGINT NOT NULL DEFAULT 0, "
    "rejected BIGINT NOT NULL DEFAULT 0, dropped BIGINT NOT NULL DEFAULT 0, batch BIGINT NOT NULL DEFAULT 0, "
    "ended_ns BIGINT, outcome TEXT NOT NULL DEFAULT '')",
    "CREATE INDEX IF NOT EXISTS telemetry_by_time ON telemetry(timestamp)",
    "CREATE INDEX IF NOT EXISTS telemetry_by_model ON telemetry(model_id, timestamp)",
    "CREATE INDEX IF NOT EXISTS telemetry_by_engine ON telemetry(engine, timestamp)",
    "CREATE INDEX IF NOT EXISTS telemetry_by_batch ON telemetry(batch_id, timestamp) WHERE batch_id <> ''",
    "CREATE TABLE IF NOT EXISTS telemetry_schema(version BIGINT NOT NULL)",
};

// SQLite's REAL and INTEGER have 64 bits; PostgreSQL's 32.
std::string Declare(std::string_view name, std::string_view declaration) {
  std::string sql = "\"" + std::string(name) + "\" ";
  for (auto [theirs, ours] : {std::pair<std::string_view, const char*>{"REAL", "DOUBLE PRECISION"},
                              std::pair<std::string_view, const char*>{"INTEGER", "BIGINT"}}) {
    if (declaration.starts_with(theirs)) return sql + ours + std::string(declaration.substr(theirs.size()));
  }
  return sql + std::string(declaration);
}

std::string CreateTable() {
  std::string sql = "CREATE TABLE telemetry(id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY";
  for (const RecordColumn& column : RecordColumns()) sql += ", " + Declare(column.name, column.declaration);
  return sql + ", " + Declare("outcome", kOutcomeDeclaration) + ", " +
         Declare("measured", kMeasuredDeclaration) + ")";
}

// nullopt: there are no tables as yet.
Result<std::optional<int64_t>> VersionOf(const postgres::Connection& connection) {
  ASSIGN_OR_RETURN(
      const int64_t there,
      connection.Number("SELECT count(*) FROM pg_class WHERE oid = to_regclass('telemetry_schema')"));
  if (there == 0) return std::optional<int64_t>();
  ASSIGN_OR_RETURN(const int64_t version, connection.Number("SELECT max(version) FROM telemetry_schema"));
  return std::optional(version);
}

Status MakeTables(const postgres::Connection& connection) {
  RETURN_IF_ERROR(connection.Run(kLock));
  ASSIGN_OR_RETURN(const std::optional<int64_t> version, VersionOf(connection));
  if (version) return Ok();  // another program was quicker
  ASSIGN_OR_RETURN(const int64_t there, connection.Number(kTableThere));
  if (there > 0) RETURN_IF_ERROR(CheckTables(connection));
  else RETURN_IF_ERROR(connection.Run(CreateTable()));
  for (const char* statement : kOtherTables) RETURN_IF_ERROR(connection.Run(statement));
  return connection.Run("INSERT INTO telemetry_schema VALUES(" + std::to_string(kVersion) + ")");
}

constexpr const char* kFetch = "FETCH 4096 FROM calls";

// A query's conditions with the values of their parameters.
struct Where {
  std::string sql = " WHERE true";
  std::vector<std::optional<std::string>> values;

  void And(const std::string& condition, std::string value) {
    values.emplace_back(std::move(value));
    sql += " AND " + condition + "$" + std::to_string(values.size());
  }
  void Time(const std::string& condition, double seconds) {
    if (!std::isfinite(seconds)) return;
    char digits[32];
    const auto end = std::to_chars(digits, digits + sizeof digits, seconds).ptr;
    And(condition, std::string(digits, end));
    sql += "::float8";
  }
  void Text(const std::string& condition, const std::string& wanted) {
    if (!wanted.empty()) And(condition, wanted);
  }
};

Where Conditions(const Query& query) {
  Where where;
  const TimeRange range = RangeOf(query);
  where.Time("timestamp>=", range.since);
  where.Time("timestamp<=", range.until);
  where.Text("model_id=", query.model);
  where.Text("engine=", query.engine);
  where.Text("agent=", query.agent);
  where.Text("batch_id=", query.batch_id);
  if (query.by == GroupBy::kBatch) where.sql += " AND batch_id<>''";
  if (!query.warmup) where.sql += " AND is_warmup=0";
  if (query.token_counting_version)
    where.sql += " AND token_counting_version=" + std::to_string(*query.token_counting_version);
  return where;
}

// Through a cursor, so that many rows need little memory.
Status Scan(const std::string& url, const std::string& select, const Where& where, const std::string& order,
            const std::function<bool(const RecordRow&)>& on_row) {
  ASSIGN_OR_RETURN(const postgres::Connection connection, postgres::Connection::Open(url));
  RETURN_IF_ERROR(CheckTables(connection));
  RETURN_IF_ERROR(connection.Run("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"));
  RETURN_IF_ERROR(connection.Run(
      "DECLARE calls NO SCROLL CURSOR FOR SELECT " + select + " FROM telemetry" + where.sql + order,
      where.values));
  for (;;) {
    ASSIGN_OR_RETURN(postgres::ResultRows rows, connection.Query(kFetch));
    if (rows.size() == 0) return Ok();
    const BasicRowReader<postgres::ResultRows> reader(rows);
    while (rows.Step()) {
      if (!on_row(reader.Read())) return Ok();
    }
  }
}

}  // namespace

Status CheckTables(const postgres::Connection& connection) {
  ASSIGN_OR_RETURN(const int64_t columns, connection.Number(kColumnsThere));
  if (columns == 3) return Ok();
  return {Code::kDataLoss, "the database has no table `telemetry` of inference records"};
}

Status PrepareTables(const postgres::Connection& connection) {
  ASSIGN_OR_RETURN(const std::optional<int64_t> version, VersionOf(connection));
  if (version && *version > kVersion)
    return {Code::kUnavailable, "the tables are of a newer program: version " + std::to_string(*version)};
  if (version) return CheckTables(connection);
  RETURN_IF_ERROR(connection.Run("BEGIN"));
  const Status made = MakeTables(connection);
  // The first of two errors is more specific.
  const Status ended = connection.Run(made ? "COMMIT" : "ROLLBACK");
  return made ? ended : made;
}

Result<std::vector<InferenceSummary>> SummarizePostgres(const std::string& url, const Query& query) {
  std::string columns;
  for (std::string_view name : kSummedColumns) columns += (columns.empty() ? "" : ",") + std::string(name);
  return SummarizeRows(query, [&](const std::function<bool(const RecordRow&)>& on_row) {
    return Scan(url, columns, Conditions(query), "", on_row);
  });
}

Status EachPostgresRow(const std::string& url, const Query& query,
                       const std::function<bool(const RecordRow&)>& on_row) {
  std::string order = query.newest_first ? " ORDER BY timestamp DESC, id DESC" : " ORDER BY timestamp, id";
  if (query.limit > 0) order += " LIMIT " + std::to_string(query.limit);
  return Scan(url, "*", Conditions(query), order, on_row);
}

Result<uint64_t> CountPostgresRecords(const std::string& url) {
  ASSIGN_OR_RETURN(const postgres::Connection connection, postgres::Connection::Open(url));
  ASSIGN_OR_RETURN(const int64_t count, connection.Number("SELECT count(*) FROM telemetry"));
  return static_cast<uint64_t>(count);
}

Result<uint64_t> ClearPostgres(const std::string& url) {
  ASSIGN_OR_RETURN(const postgres::Connection connection, postgres::Connection::Open(url));
  RETURN_IF_ERROR(CheckTables(connection));
  ASSIGN_OR_RETURN(const postgres::ResultRows rows, connection.Query("DELETE FROM telemetry"));
  return rows.changes();
}

Status CheckPostgres(const std::string& url) {
  ASSIGN_OR_RETURN(const postgres::Connection connection, postgres::Connection::Open(url));
  return CheckTables(connection);
}

namespace {

constexpr int64_t kForgetEveryNs = 60'000'000'000;
constexpr Duration kFirstWait = std::chrono::milliseconds(100), kLongestWait = std::chrono::seconds(5);

int64_t Now() noexcept { return RealClock().Now().unix_ns; }

// All rows in one statement: an array per column. What is no JSON fails the statement, and is kept as it is.
std::string InsertSql() {
  std::string names, places, arrays;
  int number = 0;
  const auto add = [&](std::string_view name, const char* type, bool json = false) {
    const std::string place = "c" + std::to_string(++number);
    const char* comma = number > 1 ? "," : "";
    names += comma + ("\"" + std::string(name) + "\"");
    places += comma + place + (json ? "::json::text" : "");
    arrays += comma + ("$" + std::to_string(number)) + "::" + type + "[]";
  };
  constexpr const char* kTypes[] = {"float8", "int8", "text"};  // by alternative of RecordColumn::at
  for (const RecordColumn& column : RecordColumns())
    add(column.name, kTypes[column.at.index()], column.name == "metadata");
  add("outcome", "text"), add("measured", "int8");
  std::string aliases;
  for (int i = 1; i <= number; ++i) aliases += (i > 1 ? ",c" : "c") + std::to_string(i);
  return "INSERT INTO telemetry(" + names + ") SELECT " + places + " FROM unnest(" + arrays + ") AS rows(" +
         aliases + ")";
}

// PostgreSQL's text form of an array, element by element.
class ArrayText {
 public:
  template <class Number>
  void Add(Number value) {
    Next();
    char digits[32];
    text_.append(digits, std::to_chars(digits, digits + sizeof digits, value).ptr);
  }
  void Add(std::string_view text) {
    Next();
    text_ += '"';
    for (const char c : text) {
      if (c == '"' || c == '\\') text_ += '\\';
      text_ += c;
    }
    text_ += '"';
  }
  void Add(std::monostate) {
    Next();
    text_ += "NULL";
  }
  std::string Take() { return std::move(text_) + "}"; }

 private:
  void Next() { text_ += text_.empty() ? '{' : ','; }
  std::string text_;
};

std::vector<std::optional<std::string>> ArraysOf(std::span<const RecordRow* const> rows) {
  std::vector<std::optional<std::string>> arrays;
  for (const RecordColumn& column : RecordColumns()) {
    ArrayText array;
    for (const RecordRow* row : rows)
      std::visit([&](const auto& value) { array.Add(value); }, StoredOf(column, *row));
    arrays.emplace_back(array.Take());
  }
  ArrayText outcome, measured;
  for (const RecordRow* row : rows) {
    outcome.Add(OutcomeName(static_cast<Outcome>(row->numbers.outcome)));
    measured.Add(MeasuredMask(*row));
  }
  arrays.emplace_back(outcome.Take());
  arrays.emplace_back(measured.Take());
  return arrays;
}

std::string_view WhyNotOnServer(const RecordRow& row) noexcept {
  if (const std::string_view why = WhyNot(row); !why.empty()) return why;
  for (std::string_view text : row.texts) {
    if (text.find('\0') != std::string_view::npos) return "a text with a NUL, which PostgreSQL cannot store";
  }
  return {};
}

}  // namespace

PostgresWriter::PostgresWriter(PostgresOptions options)
    : options_(std::move(options)),
      insert_(InsertSql()),
      backoff_({.initial = kFirstWait, .cap = kLongestWait}, std::random_device{}()) {}

Result<std::unique_ptr<PostgresWriter>> PostgresWriter::Open(PostgresOptions options) {
  std::unique_ptr<PostgresWriter> writer(new PostgresWriter(std::move(options)));
  RETURN_IF_ERROR(writer->Connect());
  return writer;
}

Status PostgresWriter::Connect() {
  ASSIGN_OR_RETURN(postgres::Connection opened, postgres::Connection::Open(options_.url));
  RETURN_IF_ERROR(PrepareTables(opened));
  connection_.emplace(std::move(opened));
  if (writer_id_ == 0) RETURN_IF_ERROR(Enter());
  return Settle();
}

Status PostgresWriter::Enter() {
  const experiments::ProcessRow me = experiments::ThisProcess(experiments::HereAndNow());
  const std::string now = std::to_string(Now());
  const std::optional<std::string> values[] = {Storable(me.host), Storable(me.place), std::to_string(me.pid),
                                               std::to_string(me.start_ticks), now};
  ASSIGN_OR_RETURN(writer_id_,
                   connection_->Number("INSERT INTO telemetry_writer(host,place,pid,start_ticks,started_ns,"
                                       "flushed_ns) VALUES($1,$2,$3,$4,$5::int8,$5::int8) RETURNING id",
                                       values));
  batch_ = 0;
  return Ok();
}

// Whether what was pending has been committed. The lock waits for a transaction that is still on its way.
Status PostgresWriter::Settle() {
  if (!pending_) return Ok();
  auto batch = connection_->Number(
      "SELECT batch FROM telemetry_writer WHERE id=" + std::to_string(writer_id_) + " FOR UPDATE");
  if (!batch && batch.error().code != Code::kDataLoss) return batch.error();
  if (batch && *batch > batch_) {
    batch_ = *batch;
    committed_ = pending_->kept, committed_rows_ = pending_->rows;
  }
  pending_.reset();
  // The tables were recreated meanwhile.
  return batch ? Ok() : Enter();
}

Status PostgresWriter::Reconnect() {
  if (connection_) return Ok();
  const int64_t now = Now();
  if (now < next_try_ns_ && next_try_ns_ - now <= kLongestWait.count()) return why_lost_;
  const Status status = Connect();
  if (status) return backoff_.Reset(), Ok();
  return Lost(status);
}

Status PostgresWriter::Lost(Status status) {
  connection_.reset();
  next_try_ns_ = Now() + backoff_.Next().count();
  why_lost_ = status;
  return status;
}

Status PostgresWriter::Reject(std::string_view record, std::string_view reason) {
  const std::optional<std::string> values[] = {std::to_string(Now()), Storable(reason), Storable(record)};
  return connection_->Run("INSERT INTO telemetry_poison(unix_ns,reason,record) VALUES($1,$2,$3)", values);
}

// Finds rejected rows by bisection, so that one bad row of thousands costs some statements.
Status PostgresWriter::Insert(std::span<const RecordRow* const> rows, WriteCounts& kept) {
  if (rows.empty()) return Ok();
  RETURN_IF_ERROR(connection_->Run("SAVEPOINT part"));
  Status status = connection_->Run(insert_, ArraysOf(rows));
  if (status) {
    kept.stored += rows.size();
    return connection_->Run("RELEASE part");
  }
  if (status.code != Code::kInvalidArgument) return status;
  RETURN_IF_ERROR(connection_->Run("ROLLBACK TO part"));
  RETURN_IF_ERROR(connection_->Run("RELEASE part"));
  if (rows.size() == 1) {
    ++kept.rejected;
    return Reject(ToJson(*rows.front()), status.detail);
  }
  RETURN_IF_ERROR(Insert(rows.first(rows.size() / 2), kept));
  return Insert(rows.subspan(rows.size() / 2), kept);
}

Status PostgresWriter::Account(const WriteCounts& kept, uint64_t dropped) {
  return connection_->Run("UPDATE telemetry_writer SET flushed_ns=" + std::to_string(Now()) +
                          ", stored=stored+" + std::to_string(kept.stored) + ", rejected=rejected+" +
                          std::to_string(kept.rejected) + ", dropped=" + std::to_string(dropped) +
                          ", batch=" + std::to_string(batch_ + 1) +
                          " WHERE id=" + std::to_string(writer_id_));
}

Status PostgresWriter::Forget() {
  const int64_t now = Now();
  if (options_.retention.count() == 0 || now < next_forget_ns_) return Ok();
  next_forget_ns_ = now + kForgetEveryNs;
  const double before = static_cast<double>(now - options_.retention.count()) / 1e9;
  return connection_->Run("DELETE FROM telemetry WHERE timestamp < " + std::to_string(before) + "::float8");
}

Status PostgresWriter::WriteBatch(std::span<const RecordRow> rows, uint64_t dropped, WriteCounts& kept) {
  RETURN_IF_ERROR(connection_->Run("BEGIN"));
  std::vector<const RecordRow*> good;
  good.reserve(rows.size());
  for (const RecordRow& row : rows) {
    const std::string_view why = WhyNotOnServer(row);
    if (why.empty()) {
      good.push_back(&row);
      continue;
    }
    RETURN_IF_ERROR(Reject(ToJson(row), why));
    ++kept.rejected;
  }
  RETURN_IF_ERROR(Insert(good, kept));
  RETURN_IF_ERROR(Forget());
  RETURN_IF_ERROR(Account(kept, dropped));
  pending_ = Pending{.rows = rows.size(), .kept = kept};
  RETURN_IF_ERROR(connection_->Run("COMMIT"));
  pending_.reset();
  ++batch_;
  return Ok();
}

Result<WriteCounts> PostgresWriter::Write(std::span<const RecordRow> rows, uint64_t dropped) {
  RETURN_IF_ERROR(Reconnect());
  // The same rows come again, and more behind them.
  const size_t before = std::min(committed_rows_, rows.size());
  WriteCounts kept;
  if (before < rows.size()) {
    const Status status = WriteBatch(rows.subspan(before), dropped, kept);
    if (!status) return Lost(status);
  }
  kept.stored += committed_.stored, kept.rejected += committed_.rejected;
  committed_ = {}, committed_rows_ = 0;
  return kept;
}

Status PostgresWriter::SetAside(std::string_view record, std::string_view reason) {
  RETURN_IF_ERROR(Reconnect());
  const Status status = Reject(record, reason);
  return status ? status : Lost(status);
}

Status PostgresWriter::Close(uint64_t dropped) {
  RETURN_IF_ERROR(Reconnect());
  return connection_->Run("UPDATE telemetry_writer SET ended_ns=" + std::to_string(Now()) +
                          ", outcome='closed', dropped=" + std::to_string(dropped) +
                          " WHERE id=" + std::to_string(writer_id_));
}

Result<uint64_t> PostgresWriter::Clear() {
  RETURN_IF_ERROR(Reconnect());
  auto rows = connection_->Query("DELETE FROM telemetry");
  if (!rows) return Lost(rows.error());
  return rows->changes();
}

Status PostgresWriter::Vacuum() {
  RETURN_IF_ERROR(Reconnect());
  const Status status = connection_->Run("VACUUM telemetry");
  return status ? status : Lost(status);
}

}  // namespace gpulens::telemetry
