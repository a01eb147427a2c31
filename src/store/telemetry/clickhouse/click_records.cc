#include "store/telemetry/clickhouse/click_records.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstring>
#include <optional>
#include <random>

#include "base/clock.h"
#include "base/parse.h"
#include "base/result.h"
#include "store/experiments/run_rows.h"
#include "store/telemetry/summary.h"
#include "store/telemetry/sums.h"

namespace gpulens::telemetry {
namespace {

using clickhouse::NameQuoted;
using clickhouse::Quoted;

// Number of recent inserts that a table remembers, so that a repeated one is not stored. Replicated tables
// ignore it and remember by themselves.
constexpr const char* kRemember = " SETTINGS non_replicated_deduplication_window=1000";
constexpr std::string_view kEssential[] = {"timestamp", "model_id", "measured"};
// Few different texts.
constexpr std::string_view kLowCardinality[] = {"model_id", "engine", "agent", "energy_method",
                                                "energy_vendor"};

std::string_view WithoutLowCardinality(std::string_view type) noexcept {
  constexpr std::string_view kBegin = "LowCardinality(";
  if (!type.starts_with(kBegin) || !type.ends_with(')')) return type;
  return type.substr(kBegin.size(), type.size() - kBegin.size() - 1);
}

std::string Declare(const ClickColumn& column) {
  std::string sql = NameQuoted(column.name) + " " + column.type;
  // A column that a table did not have: rows that are there have no metadata.
  return column.name == "metadata" ? sql + " DEFAULT '{}'" : sql;
}

std::string CreateTable(const std::string& name) {
  std::string sql = "CREATE TABLE IF NOT EXISTS " + NameQuoted(name) + "(";
  for (const ClickColumn& column : ClickColumns()) sql += Declare(column) + ", ";
  return sql +
         "CONSTRAINT metadata_is_json CHECK isValidJSON(metadata)) ENGINE=ReplacingMergeTree "
         "ORDER BY (timestamp, writer_id, id)" +
         kRemember;
}

std::string CreatePoison(const std::string& name) {
  return "CREATE TABLE IF NOT EXISTS " + NameQuoted(name + "_poison") +
         "(writer_id UInt64, id UInt64, unix_ns Int64, reason String, record String) "
         "ENGINE=ReplacingMergeTree ORDER BY (writer_id, id)" +
         kRemember;
}

std::string CreateWriter(const std::string& name) {
  return "CREATE TABLE IF NOT EXISTS " + NameQuoted(name + "_writer") +
         "(id UInt64, host String, place String, pid Int64, start_ticks Int64, started_ns Int64, "
         "flushed_ns Int64, stored UInt64, rejected UInt64, dropped UInt64, ended_ns Nullable(Int64), "
         "outcome String) ENGINE=ReplacingMergeTree(flushed_ns) ORDER BY id" +
         kRemember;
}

// The first column of all rows, with the second.
Result<std::map<std::string, std::string>> Pairs(const clickhouse::Server& server, const std::string& sql) {
  std::map<std::string, std::string> pairs;
  clickhouse::TabRows rows;
  ASSIGN_OR_RETURN(const std::string answer, server.Query(sql + " FORMAT TabSeparatedWithNames"));
  RETURN_IF_ERROR(rows.Feed(answer, [&] {
    if (rows.columns() != 2) return Status{Code::kDataLoss, "unexpected response of the server"};
    pairs.emplace(rows.Text(0), rows.Text(1));
    return Ok();
  }));
  RETURN_IF_ERROR(rows.End());
  return pairs;
}

Status NotOurs(const clickhouse::Server& server, const std::string& why) {
  return {Code::kDataLoss, "the table `" + server.address().table + "` " + why};
}

Status CheckColumns(const clickhouse::Server& server, const ClickTable& table) {
  const bool ours = std::ranges::all_of(
      kEssential, [&](std::string_view name) { return table.types.contains(std::string(name)); });
  return ours ? Ok() : NotOurs(server, "is not a table of inference records");
}

static_assert(std::endian::native == std::endian::little, "the format is");

// Flag before the value of a column that may be NULL.
constexpr char kNotNull = 0, kNull = 1;

template <class Number>
void AppendNumber(std::string& out, Number value) {
  char bytes[sizeof value];
  std::memcpy(bytes, &value, sizeof value);
  out.append(bytes, sizeof bytes);
}

// LEB128.
void AppendLength(std::string& out, size_t length) {
  for (; length >= 0x80; length >>= 7) out += static_cast<char>(0x80 | (length & 0x7F));
  out += static_cast<char>(length);
}

void AppendText(std::string& out, std::string_view text) {
  AppendLength(out, text.size());
  out += text;
}

void AppendValue(std::string& out, const RecordColumn& column, const RecordRow& row) {
  const StoredValue stored = StoredOf(column, row);
  if (column.nullable()) out += std::holds_alternative<std::monostate>(stored) ? kNull : kNotNull;
  if (const auto* text = std::get_if<std::string_view>(&stored)) AppendText(out, *text);
  else if (const auto* whole = std::get_if<int64_t>(&stored)) AppendNumber(out, *whole);
  else if (const auto* real = std::get_if<double>(&stored)) AppendNumber(out, *real);
}

std::string Conditions(const Query& query) {
  std::string sql = " WHERE 1";
  const TimeRange range = RangeOf(query);
  if (std::isfinite(range.since)) sql += " AND timestamp>=" + ClickNumber(range.since);
  if (std::isfinite(range.until)) sql += " AND timestamp<=" + ClickNumber(range.until);
  const auto text = [&](const char* column, const std::string& wanted) {
    if (!wanted.empty()) sql += std::string(" AND ") + column + "=" + Quoted(wanted);
  };
  text("model_id", query.model);
  text("engine", query.engine);
  text("agent", query.agent);
  text("batch_id", query.batch_id);
  if (query.by == GroupBy::kBatch) sql += " AND batch_id<>''";
  if (!query.warmup) sql += " AND is_warmup=0";
  if (query.token_counting_version)
    sql += " AND token_counting_version=" + std::to_string(*query.token_counting_version);
  return sql;
}

std::string From(const clickhouse::Server& server, const ClickTable& table) {
  return " FROM " + NameQuoted(server.address().table) + (table.replaces() ? " FINAL" : "");
}

Status Scan(const std::string& url, const std::function<std::string(const ClickTable&)>& select,
            const std::string& behind, const std::function<bool(const RecordRow&)>& on_row) {
  ASSIGN_OR_RETURN(const auto server, clickhouse::Server::Open(url));
  ASSIGN_OR_RETURN(const ClickTable table, CheckClickTables(*server));
  clickhouse::TabRows rows;
  std::optional<BasicRowReader<clickhouse::TabRows>> reader;
  bool enough = false;
  const auto on_piece = [&](std::string_view piece) {
    return rows.Feed(piece, [&] {
      if (!reader) reader.emplace(rows);
      enough = !on_row(reader->Read());
      return enough ? Status{Code::kExhausted, "enough"} : Ok();
    });
  };
  const Status read = server->Read(
      "SELECT " + select(table) + From(*server, table) + behind + " FORMAT TabSeparatedWithNames", on_piece);
  if (enough) return Ok();
  RETURN_IF_ERROR(read);
  return rows.End();
}

// The summed columns that the table has.
std::string SummedColumns(const ClickTable& table) {
  std::string columns;
  for (std::string_view name : kSummedColumns) {
    if (table.types.contains(std::string(name))) columns += (columns.empty() ? "" : ",") + std::string(name);
  }
  return columns;
}

// Type of a column in ClickHouse: "Nullable(Float64)".
std::string ClickType(std::string_view declaration) {
  const std::string type = declaration.starts_with("REAL")      ? "Float64"
                           : declaration.starts_with("INTEGER") ? "Int64"
                                                                : "String";
  return declaration.find("NOT NULL") == std::string_view::npos ? "Nullable(" + type + ")" : type;
}

}  // namespace

std::vector<ClickColumn> ClickColumns() {
  std::vector<ClickColumn> columns = {{"id", "UInt64"}};
  for (const RecordColumn& column : RecordColumns()) {
    std::string type = ClickType(column.declaration);
    if (std::ranges::find(kLowCardinality, column.name) != std::end(kLowCardinality))
      type = "LowCardinality(" + type + ")";
    columns.push_back({std::string(column.name), std::move(type)});
  }
  columns.push_back({"outcome", ClickType(kOutcomeDeclaration)});
  columns.push_back({"measured", ClickType(kMeasuredDeclaration)});
  columns.push_back({"writer_id", "UInt64"});
  return columns;
}

Result<ClickTable> FindClickTable(const clickhouse::Server& server) {
  const std::string name = Quoted(server.address().table);
  ClickTable table;
  ASSIGN_OR_RETURN(
      const auto engines,
      Pairs(server,
            "SELECT name, engine FROM system.tables WHERE database=currentDatabase() AND name=" + name));
  if (engines.empty()) return table;
  table.engine = engines.begin()->second;
  ASSIGN_OR_RETURN(table.types, Pairs(server,
                                      "SELECT name, type FROM system.columns WHERE "
                                      "database=currentDatabase() AND table=" +
                                          name));
  return table;
}

Result<ClickTable> CheckClickTables(const clickhouse::Server& server) {
  ASSIGN_OR_RETURN(ClickTable table, FindClickTable(server));
  if (table.engine.empty()) return NotOurs(server, "does not exist");
  RETURN_IF_ERROR(CheckColumns(server, table));
  return table;
}

Result<std::vector<ClickColumn>> PrepareClickTables(const clickhouse::Server& server) {
  const std::string& name = server.address().table;
  std::vector<ClickColumn> columns = ClickColumns();
  ASSIGN_OR_RETURN(ClickTable table, FindClickTable(server));
  if (table.engine.empty()) {
    RETURN_IF_ERROR(server.Run(CreateTable(name)));
    // Another program may have been quicker.
    ASSIGN_OR_RETURN(table, FindClickTable(server));
  }
  RETURN_IF_ERROR(CheckColumns(server, table));
  if (!table.replaces())
    return NotOurs(server, "has the engine " + table.engine + "; it needs ReplacingMergeTree");
  for (ClickColumn& column : columns) {
    const auto found = table.types.find(column.name);
    if (found == table.types.end()) {
      RETURN_IF_ERROR(
          server.Run("ALTER TABLE " + NameQuoted(name) + " ADD COLUMN IF NOT EXISTS " + Declare(column)));
    } else if (WithoutLowCardinality(found->second) != WithoutLowCardinality(column.type)) {
      return NotOurs(server, "has " + found->second + " as " + column.name + "; it needs " + column.type);
    } else {
      column.type = found->second;
    }
  }
  RETURN_IF_ERROR(server.Run(CreatePoison(name)));
  RETURN_IF_ERROR(server.Run(CreateWriter(name)));
  return columns;
}

void AppendRowHeader(std::string& out, std::span<const ClickColumn> columns) {
  AppendLength(out, columns.size());
  for (const ClickColumn& column : columns) AppendText(out, column.name);
  for (const ClickColumn& column : columns) AppendText(out, column.type);
}

void AppendRowBytes(std::string& out, const RecordRow& row, uint64_t id, uint64_t writer_id) {
  AppendNumber(out, id);
  for (const RecordColumn& column : RecordColumns()) AppendValue(out, column, row);
  out += kNotNull;
  AppendText(out, OutcomeName(static_cast<Outcome>(row.numbers.outcome)));
  out += kNotNull;
  AppendNumber(out, MeasuredMask(row));
  AppendNumber(out, writer_id);
}

std::string ClickNumber(double value) {
  char digits[32];
  const auto end = std::to_chars(digits, digits + sizeof digits, value, std::chars_format::scientific).ptr;
  return {digits, end};
}

Result<std::vector<InferenceSummary>> SummarizeClick(const std::string& url, const Query& query) {
  return SummarizeRows(query, [&](const std::function<bool(const RecordRow&)>& on_row) {
    return Scan(url, SummedColumns, Conditions(query), on_row);
  });
}

Status EachClickRow(const std::string& url, const Query& query,
                    const std::function<bool(const RecordRow&)>& on_row) {
  const auto ordered = [&](const char* direction) {
    std::string order = " ORDER BY ";
    for (const char* column : {"timestamp", "writer_id", "id"})
      order += std::string(order.size() > 10 ? "," : "") + column + direction;
    return order;
  };
  std::string order = ordered(query.newest_first ? " DESC" : "");
  if (query.limit > 0) order += " LIMIT " + std::to_string(query.limit);
  return Scan(url, [](const ClickTable&) { return std::string("*"); }, Conditions(query) + order, on_row);
}

Result<uint64_t> CountClickRows(const clickhouse::Server& server, const std::string& where,
                                Duration timeout) {
  ASSIGN_OR_RETURN(const ClickTable table, CheckClickTables(server));
  ASSIGN_OR_RETURN(const std::string answer,
                   server.Query("SELECT count()" + From(server, table) + where, timeout));
  if (const auto count = ParseInt<uint64_t>(Trim(answer))) return *count;
  return Status{Code::kDataLoss, "the server returned no number of rows"};
}

Result<uint64_t> CountClickRecords(const std::string& url) {
  ASSIGN_OR_RETURN(const auto server, clickhouse::Server::Open(url));
  return CountClickRows(*server, "", clickhouse::Server::kLong);
}

Result<uint64_t> ClearClickRows(const clickhouse::Server& server) {
  ASSIGN_OR_RETURN(const uint64_t count, CountClickRows(server, "", clickhouse::Server::kLong));
  RETURN_IF_ERROR(server.Run("TRUNCATE TABLE " + NameQuoted(server.address().table)));
  return count;
}

Status CheckClick(const std::string& url) {
  ASSIGN_OR_RETURN(const auto server, clickhouse::Server::Open(url));
  return CheckClickTables(*server).status();
}

namespace {

using clickhouse::NameQuoted;
using clickhouse::Quoted;

constexpr Duration kFirstWait = std::chrono::milliseconds(100), kLongestWait = std::chrono::seconds(5);
// A row of telemetry_writer is a part of a table; deleting rewrites parts.
constexpr int64_t kAccountEveryNs = 60'000'000'000, kForgetEveryNs = 600'000'000'000;
constexpr size_t kMostRows = 4096, kMostTexts = 4 << 20;  // of a piece
constexpr Duration kLongTime = std::chrono::hours(1);

int64_t Now() noexcept { return RealClock().Now().unix_ns; }

uint64_t AnyNumber() {
  std::random_device source;
  return (uint64_t{source()} << 32 | source()) | 1;
}

std::string InsertSql(const std::string& table, std::span<const ClickColumn> columns) {
  std::string names;
  for (const ClickColumn& column : columns) names += (names.empty() ? "" : ",") + NameQuoted(column.name);
  return "INSERT INTO " + NameQuoted(table) + "(" + names + ") FORMAT RowBinaryWithNamesAndTypes";
}

size_t TextsOf(const RecordRow& row) noexcept {
  size_t size = 0;
  for (const std::string_view text : row.texts) size += text.size();
  return size;
}

}  // namespace

ClickWriter::ClickWriter(std::unique_ptr<clickhouse::Server> server, std::chrono::nanoseconds retention)
    : server_(std::move(server)),
      retention_(retention),
      writer_id_(AnyNumber()),
      started_ns_(Now()),
      most_rows_(kMostRows),
      backoff_({.initial = kFirstWait, .cap = kLongestWait}, writer_id_) {}

Result<std::unique_ptr<ClickWriter>> ClickWriter::Open(const std::string& url,
                                                       std::chrono::nanoseconds retention) {
  ASSIGN_OR_RETURN(std::unique_ptr<clickhouse::Server> server, clickhouse::Server::Open(url));
  std::unique_ptr<ClickWriter> writer(new ClickWriter(std::move(server), retention));
  RETURN_IF_ERROR(writer->Prepare());
  RETURN_IF_ERROR(writer->Account(0, false));
  return writer;
}

Status ClickWriter::Prepare() {
  ASSIGN_OR_RETURN(columns_, PrepareClickTables(*server_));
  insert_ = InsertSql(server_->address().table, columns_);
  return Ok();
}

// Checks the tables after a reconnect, since they may have been changed.
Status ClickWriter::Reconnect() {
  if (!backoff_.failed()) return Ok();
  const int64_t now = Now();
  if (now < next_try_ns_ && next_try_ns_ - now <= kLongestWait.count()) return why_lost_;
  if (Status prepared = Prepare(); !prepared) return Lost(std::move(prepared));
  return Ok();
}

Status ClickWriter::Lost(Status status) {
  next_try_ns_ = Now() + backoff_.Next().count();
  why_lost_ = status;
  return status;
}

std::string ClickWriter::Token(const char* kind, uint64_t number) const {
  return "gpulens-" + std::to_string(writer_id_) + "-" + kind + std::to_string(number);
}

Status ClickWriter::Insert(std::span<const RecordRow> rows) {
  std::string bytes;
  AppendRowHeader(bytes, columns_);
  for (size_t i = 0; i < rows.size(); ++i) AppendRowBytes(bytes, rows[i], next_id_ + i, writer_id_);
  // Pieces of other sizes may begin with the same row.
  return server_->Insert(insert_, bytes, Token("r", next_id_) + "-" + std::to_string(rows.size()));
}

Status ClickWriter::Reject(std::string_view record, std::string_view reason) {
  const std::string sql = "INSERT INTO " + NameQuoted(server_->address().table + "_poison") +
                          "(writer_id,id,unix_ns,reason,record) FORMAT Values ";
  const std::string values = "(" + std::to_string(writer_id_) + "," + std::to_string(next_poison_) + "," +
                             std::to_string(Now()) + "," + Quoted(Storable(reason)) + "," +
                             Quoted(Storable(record)) + ")";
  RETURN_IF_ERROR(server_->Insert(sql, values, Token("p", next_poison_)));
  ++next_poison_;
  return Ok();
}

size_t ClickWriter::PieceOf(std::span<const RecordRow> rows) {
  if (pending_ > 0) return pending_;
  size_t count = 0, texts = 0;
  while (count < std::min(rows.size(), most_rows_) && WhyNot(rows[count]).empty()) {
    texts += TextsOf(rows[count]);
    if (count > 0 && texts > kMostTexts) break;
    ++count;
  }
  return count;
}

// Finds rejected rows by bisection, so that one bad row of thousands costs some statements.
Status ClickWriter::WritePiece(std::span<const RecordRow> rows) {
  const size_t count = PieceOf(rows);
  if (count == 0) {
    RETURN_IF_ERROR(Reject(ToJson(rows.front()), WhyNot(rows.front())));
    return ++done_rows_, ++done_.rejected, Ok();
  }
  pending_ = count;
  Status status = Insert(rows.first(count));
  if (status) {
    done_.stored += count;
    most_rows_ = std::min(2 * most_rows_, kMostRows);
  } else if (status.code != Code::kInvalidArgument) {
    return status;
  } else if (count > 1) {
    most_rows_ = count / 2;
    return pending_ = 0, Ok();
  } else {
    // When the table was replaced, the row is not to blame.
    RETURN_IF_ERROR(Prepare());
    RETURN_IF_ERROR(Reject(ToJson(rows.front()), status.detail));
    ++done_.rejected;
  }
  done_rows_ += count, next_id_ += count;
  pending_ = 0;
  return Ok();
}

Result<WriteCounts> ClickWriter::Write(std::span<const RecordRow> rows, uint64_t dropped) {
  RETURN_IF_ERROR(Reconnect());
  while (done_rows_ < rows.size()) {
    if (Status status = WritePiece(rows.subspan(done_rows_)); !status) return Lost(std::move(status));
  }
  const WriteCounts kept = done_;
  reported_.stored += kept.stored, reported_.rejected += kept.rejected;
  done_ = {}, done_rows_ = 0;
  backoff_.Reset();
  // The rows are there; what fails now is done next time.
  if (Now() >= next_account_ns_) static_cast<void>(Account(dropped, false));
  static_cast<void>(Forget());
  return kept;
}

Status ClickWriter::Account(uint64_t dropped, bool closed) {
  const experiments::ProcessRow me = experiments::ThisProcess(experiments::HereAndNow());
  const int64_t now = Now();
  next_account_ns_ = now + kAccountEveryNs;
  std::string values =
      "(" + std::to_string(writer_id_) + "," + Quoted(Storable(me.host)) + "," + Quoted(Storable(me.place));
  for (const int64_t number : {me.pid, me.start_ticks, started_ns_, now})
    values += "," + std::to_string(number);
  for (const uint64_t number :
       {reported_.stored + done_.stored, reported_.rejected + done_.rejected, dropped})
    values += "," + std::to_string(number);
  values += closed ? "," + std::to_string(now) + ",'closed')" : ",NULL,'')";
  return server_->Insert("INSERT INTO " + NameQuoted(server_->address().table + "_writer") +
                             "(id,host,place,pid,start_ticks,started_ns,flushed_ns,stored,rejected,dropped,"
                             "ended_ns,outcome) FORMAT Values ",
                         values, Token("w", static_cast<uint64_t>(now)));
}

Status ClickWriter::Forget() {
  const int64_t now = Now();
  if (retention_.count() == 0 || now < next_forget_ns_) return Ok();
  next_forget_ns_ = now + kForgetEveryNs;
  const std::string where =
      " WHERE timestamp<" + ClickNumber(static_cast<double>(now - retention_.count()) / 1e9);
  ASSIGN_OR_RETURN(const uint64_t old, CountClickRows(*server_, where, clickhouse::Server::kUsual));
  if (old == 0) return Ok();
  return server_->Run("DELETE FROM " + NameQuoted(server_->address().table) + where);
}

Status ClickWriter::SetAside(std::string_view record, std::string_view reason) {
  RETURN_IF_ERROR(Reconnect());
  if (Status status = Reject(record, reason); !status) return Lost(std::move(status));
  ++reported_.rejected;
  backoff_.Reset();
  return Ok();
}

Status ClickWriter::Close(uint64_t dropped) {
  RETURN_IF_ERROR(Reconnect());
  return Account(dropped, true);
}

Result<uint64_t> ClickWriter::Clear() {
  RETURN_IF_ERROR(Reconnect());
  return ClearClickRows(*server_);
}

Status ClickWriter::Vacuum() {
  RETURN_IF_ERROR(Reconnect());
  return server_->Run("OPTIMIZE TABLE " + NameQuoted(server_->address().table) + " FINAL", kLongTime);
}

}  // namespace gpulens::telemetry
