#include "store/telemetry/clickhouse/click_writer.h"

#include <algorithm>
#include <random>

#include "base/clock.h"
#include "base/parse.h"
#include "base/result.h"
#include "store/experiments/run_rows.h"
#include "store/telemetry/clickhouse/click_reader.h"
#include "store/telemetry/clickhouse/click_tables.h"

namespace gpulens::telemetry {
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

size_t TextsOf(const Row& row) noexcept {
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

Status ClickWriter::Insert(std::span<const Row> rows) {
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

size_t ClickWriter::PieceOf(std::span<const Row> rows) {
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
Status ClickWriter::WritePiece(std::span<const Row> rows) {
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

Result<Kept> ClickWriter::Write(std::span<const Row> rows, uint64_t dropped) {
  RETURN_IF_ERROR(Reconnect());
  while (done_rows_ < rows.size()) {
    if (Status status = WritePiece(rows.subspan(done_rows_)); !status) return Lost(std::move(status));
  }
  const Kept kept = done_;
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
