// Inference records in a PostgreSQL database: its tables, which are those of the file (schema.h) without
// roll-ups, their readers, and a writer.
//
//   telemetry          a row per call, the file's columns
//   telemetry_poison   rejected records, with the reason
//   telemetry_writer   a row per writing process; `batch` counts its transactions
//   telemetry_schema   one row: the version
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <gpulens/inference.h>

#include "base/backoff.h"
#include "store/postgres/postgres.h"
#include "store/telemetry/rows.h"

namespace gpulens::telemetry {

// Creates missing tables, in one transaction; several programs may do so at once. kDataLoss: there is another
// table of this name. kUnavailable: the tables are of a newer program.
Status PrepareTables(const postgres::Connection& connection);
// For readers. kDataLoss: there is no table of inference records.
Status CheckTables(const postgres::Connection& connection);

// Readers of the records, for any thread; each call makes its own connection. As those of summary.h: all rows
// of the query are read, some thousands at a time, in a consistent state of the table.
Result<std::vector<InferenceSummary>> SummarizePostgres(const std::string& url, const Query& query);
// Calls `on_row` in the order of time, with all columns, until it returns false.
Status EachPostgresRow(const std::string& url, const Query& query,
                       const std::function<bool(const RecordRow&)>& on_row);
Result<uint64_t> CountPostgresRecords(const std::string& url);
// Whether the records can be read.
Status CheckPostgres(const std::string& url);
// Deletes all records. Returns their number.
Result<uint64_t> ClearPostgres(const std::string& url);

struct PostgresOptions {
  std::string url;
  std::chrono::nanoseconds retention{};  // zero: rows are kept forever
};

// Writes rows. Each Write is one transaction and is stored once: when the connection is lost during the
// commit, the next one queries whether it happened. Reconnects with a back-off of up to five seconds. The
// child of a fork abandons the writer and opens another.
class PostgresWriter final : public RecordDestination {
 public:
  static Result<std::unique_ptr<PostgresWriter>> Open(PostgresOptions options);

  Result<WriteCounts> Write(std::span<const RecordRow> rows, uint64_t dropped) override;
  Status SetAside(std::string_view record, std::string_view reason) override;
  Status Close(uint64_t dropped) override;
  Result<uint64_t> Clear() override;
  Status Vacuum() override;

 private:
  // Sent to be committed, without an answer.
  struct Pending {
    size_t rows = 0;
    WriteCounts kept;
  };

  explicit PostgresWriter(PostgresOptions options);
  Status Connect();
  Status Reconnect();
  Status Enter();
  Status Settle();
  Status WriteBatch(std::span<const RecordRow> rows, uint64_t dropped, WriteCounts& kept);
  Status Insert(std::span<const RecordRow* const> rows, WriteCounts& kept);
  Status Reject(std::string_view record, std::string_view reason);
  Status Account(const WriteCounts& kept, uint64_t dropped);
  Status Forget();
  // Drops a connection that failed, and returns `status`.
  Status Lost(Status status);

  const PostgresOptions options_;
  const std::string insert_;
  std::optional<postgres::Connection> connection_;
  int64_t writer_id_ = 0, batch_ = 0;  // the last batch that was committed
  std::optional<Pending> pending_;
  WriteCounts committed_;  // of a pending batch that turned out to be, with how many rows
  size_t committed_rows_ = 0;
  int64_t next_forget_ns_ = 0, next_try_ns_ = 0;
  Backoff backoff_;
  Status why_lost_;
};

}  // namespace gpulens::telemetry
