// Writes rows into a ClickHouse database.
//
// There are no transactions: rows go in pieces, each stored whole or not at all, and what is done is
// remembered, so that a Write that failed goes on where it stopped. A piece whose INSERT had no answer is
// sent again as it was, with the token and the ids of the first time: the server stores it once, or what it
// stored twice becomes one (click_tables.h). In the child of a fork the writer is left alone, and another
// one opened.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "base/backoff.h"
#include "store/clickhouse/clickhouse.h"
#include "store/telemetry/clickhouse/click_tables.h"
#include "store/telemetry/destination.h"

namespace gpulens::telemetry {

class ClickWriter final : public Destination {
 public:
  // `retention` zero: rows stay for ever.
  static Result<std::unique_ptr<ClickWriter>> Open(const std::string& url,
                                                   std::chrono::nanoseconds retention);

  Result<Kept> Write(std::span<const Row> rows, uint64_t dropped) override;
  Status SetAside(std::string_view record, std::string_view reason) override;
  Status Close(uint64_t dropped) override;
  Result<uint64_t> Clear() override;
  Status Vacuum() override;

 private:
  ClickWriter(std::unique_ptr<clickhouse::Server> server, std::chrono::nanoseconds retention);
  Status Prepare();
  Status Reconnect();
  Status WritePiece(std::span<const Row> rows);
  Status Insert(std::span<const Row> rows);
  // Number of rows of the next piece.
  size_t PieceOf(std::span<const Row> rows);
  Status Reject(std::string_view record, std::string_view reason);
  Status Account(uint64_t dropped, bool closed);
  Status Forget();
  // It is tried again later.
  Status Lost(Status status);
  std::string Token(const char* kind, uint64_t number) const;

  const std::unique_ptr<clickhouse::Server> server_;
  const std::chrono::nanoseconds retention_;
  const uint64_t writer_id_;
  const int64_t started_ns_;
  std::vector<ClickColumn> columns_;
  std::string insert_;
  uint64_t next_id_ = 1, next_poison_ = 1;
  size_t pending_ = 0;    // rows of a piece that was sent without an answer
  size_t most_rows_;      // of a piece; fewer while one is looked for that the server refuses
  size_t done_rows_ = 0;  // of the rows that come again
  Kept done_, reported_;  // of these rows; of all before them
  int64_t next_account_ns_ = 0, next_forget_ns_ = 0, next_try_ns_ = 0;
  Backoff backoff_;  // failed: the server is tried again at next_try_ns_
  Status why_lost_;
};

}  // namespace gpulens::telemetry
