#include "store/telemetry/postgres/postgres_writer.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "store/experiments/run_rows.h"
#include "store/telemetry/postgres/postgres_tables.h"

namespace gpulens::telemetry {
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
  for (const Column& column : Columns()) {
    if (std::holds_alternative<double Numbers::*>(column.at)) add(column.name, "float8");
    else if (std::holds_alternative<int64_t Numbers::*>(column.at)) add(column.name, "int8");
    else add(column.name, "text", std::get<TextColumn>(column.at) == TextColumn::kMetadata);
  }
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
  void AddText(std::string_view text) {
    Next();
    text_ += '"';
    for (const char c : text) {
      if (c == '"' || c == '\\') text_ += '\\';
      text_ += c;
    }
    text_ += '"';
  }
  void AddNull() {
    Next();
    text_ += "NULL";
  }
  std::string Take() { return std::move(text_) + "}"; }

 private:
  void Next() { text_ += text_.empty() ? '{' : ','; }
  std::string text_;
};

void AddValue(ArrayText& to, const Column& column, const Row& row) {
  if (const auto* real = std::get_if<double Numbers::*>(&column.at)) {
    const double value = row.numbers.*(*real);
    if (!std::isnan(value)) to.Add(value);
    else if (column.masked) to.Add(0.0);
    else to.AddNull();
  } else if (const auto* whole = std::get_if<int64_t Numbers::*>(&column.at)) {
    const int64_t value = row.numbers.*(*whole);
    if (value != kNoCount) to.Add(value);
    else if (column.masked) to.Add(int64_t{0});
    else to.AddNull();
  } else {
    const TextColumn which = std::get<TextColumn>(column.at);
    const std::string_view text = row.text(which);
    if (!text.empty()) to.AddText(text);
    else if (which == TextColumn::kMetadata) to.AddText("{}");
    else if (which == TextColumn::kErrorType || which == TextColumn::kMiningSession) to.AddNull();
    else to.AddText("");
  }
}

std::vector<std::optional<std::string>> ArraysOf(std::span<const Row* const> rows) {
  std::vector<std::optional<std::string>> arrays;
  for (const Column& column : Columns()) {
    ArrayText array;
    for (const Row* row : rows) AddValue(array, column, *row);
    arrays.emplace_back(array.Take());
  }
  ArrayText outcome, measured;
  for (const Row* row : rows) {
    outcome.AddText(OutcomeName(static_cast<Outcome>(row->numbers.outcome)));
    measured.Add(MeasuredMask(*row));
  }
  arrays.emplace_back(outcome.Take());
  arrays.emplace_back(measured.Take());
  return arrays;
}

std::string_view WhyNotOnServer(const Row& row) noexcept {
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
Status PostgresWriter::Insert(std::span<const Row* const> rows, Kept& kept) {
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

Status PostgresWriter::Account(const Kept& kept, uint64_t dropped) {
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

Status PostgresWriter::WriteBatch(std::span<const Row> rows, uint64_t dropped, Kept& kept) {
  RETURN_IF_ERROR(connection_->Run("BEGIN"));
  std::vector<const Row*> good;
  good.reserve(rows.size());
  for (const Row& row : rows) {
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

Result<Kept> PostgresWriter::Write(std::span<const Row> rows, uint64_t dropped) {
  RETURN_IF_ERROR(Reconnect());
  // The same rows come again, and more behind them.
  const size_t before = std::min(committed_rows_, rows.size());
  Kept kept;
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
