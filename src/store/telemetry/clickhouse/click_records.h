// Inference records in a ClickHouse database: its tables, their readers, and a writer. For a URL that names
// the table NAME:
//
//   NAME          a row per call with the file's columns; writer_id and id identify it
//   NAME_poison   rejected records, with the reason
//   NAME_writer   rows per writing process, of which the newest counts
//
// All are ReplacingMergeTree: repeated rows count once, for readers with FINAL at once, for others after a
// merge.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <gpulens/inference.h>

#include "base/backoff.h"
#include "store/clickhouse/clickhouse.h"
#include "store/telemetry/rows.h"

namespace gpulens::telemetry {

struct ClickTable {
  std::string engine;                        // empty: there is no such table
  std::map<std::string, std::string> types;  // by the name of the column
  // Rows are read with FINAL.
  bool replaces() const noexcept { return engine.ends_with("ReplacingMergeTree"); }
};
Result<ClickTable> FindClickTable(const clickhouse::Server& server);

// RecordColumns() and the additional ones, with their types, in the order of AppendRowBytes.
struct ClickColumn {
  std::string name, type;
};
std::vector<ClickColumn> ClickColumns();

// Creates missing tables and columns; several programs may do so at once. Returns the types of the table,
// which differ from ours only in LowCardinality. kDataLoss: there is another table of this name.
Result<std::vector<ClickColumn>> PrepareClickTables(const clickhouse::Server& server);
// For readers. kDataLoss: there is no table of inference records.
Result<ClickTable> CheckClickTables(const clickhouse::Server& server);

// Encode rows in ClickHouse's format RowBinaryWithNamesAndTypes: numbers keep all bits, and a table whose
// types have changed refuses them. `columns`: of PrepareClickTables.
void AppendRowHeader(std::string& out, std::span<const ClickColumn> columns);
void AppendRowBytes(std::string& out, const RecordRow& row, uint64_t id, uint64_t writer_id);

// Readers of the records, for any thread; each call makes its own connection. As those of summary.h: all rows
// of the query are read, in a consistent state of the table.
Result<std::vector<InferenceSummary>> SummarizeClick(const std::string& url, const Query& query);
// Calls `on_row` in the order of time, with all columns, until it returns false.
Status EachClickRow(const std::string& url, const Query& query,
                    const std::function<bool(const RecordRow&)>& on_row);
Result<uint64_t> CountClickRecords(const std::string& url);
// Whether the records can be read.
Status CheckClick(const std::string& url);
// Deletes all records. Returns their number.
Result<uint64_t> ClearClickRows(const clickhouse::Server& server);

// Counts rows. `where`: SQL after the name of the table.
Result<uint64_t> CountClickRows(const clickhouse::Server& server, const std::string& where, Duration timeout);
// SQL of a number, which is read back as the same one.
std::string ClickNumber(double value);

// Writes rows.
//
// There are no transactions: rows are sent in pieces, each stored whole or not at all, and a Write that
// failed continues where it stopped. A piece whose INSERT had no answer is sent again unchanged, with the
// same token and ids: the server stores it once, or merges what it stored twice. The child of a fork abandons
// the writer and opens another.
class ClickWriter final : public RecordDestination {
 public:
  // `retention` zero: rows are kept forever.
  static Result<std::unique_ptr<ClickWriter>> Open(const std::string& url,
                                                   std::chrono::nanoseconds retention);

  Result<WriteCounts> Write(std::span<const RecordRow> rows, uint64_t dropped) override;
  Status SetAside(std::string_view record, std::string_view reason) override;
  Status Close(uint64_t dropped) override;
  Result<uint64_t> Clear() override;
  Status Vacuum() override;

 private:
  ClickWriter(std::unique_ptr<clickhouse::Server> server, std::chrono::nanoseconds retention);
  Status Prepare();
  Status Reconnect();
  Status WritePiece(std::span<const RecordRow> rows);
  Status Insert(std::span<const RecordRow> rows);
  // Number of rows of the next piece.
  size_t PieceOf(std::span<const RecordRow> rows);
  Status Reject(std::string_view record, std::string_view reason);
  Status Account(uint64_t dropped, bool closed);
  Status Forget();
  // Starts the back-off, and returns `status`.
  Status Lost(Status status);
  std::string Token(const char* kind, uint64_t number) const;

  const std::unique_ptr<clickhouse::Server> server_;
  const std::chrono::nanoseconds retention_;
  const uint64_t writer_id_;
  const int64_t started_ns_;
  std::vector<ClickColumn> columns_;
  std::string insert_;
  uint64_t next_id_ = 1, next_poison_ = 1;
  size_t pending_ = 0;           // rows of a piece that was sent without an answer
  size_t most_rows_;             // of a piece; fewer while one is looked for that the server refuses
  size_t done_rows_ = 0;         // of the rows that come again
  WriteCounts done_, reported_;  // of these rows; of all before them
  int64_t next_account_ns_ = 0, next_forget_ns_ = 0, next_try_ns_ = 0;
  Backoff backoff_;  // failed: the server is tried again at next_try_ns_
  Status why_lost_;
};

}  // namespace gpulens::telemetry
