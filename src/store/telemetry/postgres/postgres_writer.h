// Writes rows into a PostgreSQL database. Each Write is one transaction and is stored once: when the
// connection is lost during the commit, the next one queries whether it happened. Reconnects with a back-off
// of up to five seconds. The child of a fork leaves its writer alone and opens another.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <random>
#include <string>

#include "base/backoff.h"
#include "store/postgres/postgres.h"
#include "store/telemetry/destination.h"

namespace gpulens::telemetry {

struct PostgresOptions {
  std::string url;
  std::chrono::nanoseconds retention{};  // zero: rows stay for ever
};

class PostgresWriter final : public Destination {
 public:
  static Result<std::unique_ptr<PostgresWriter>> Open(PostgresOptions options);

  Result<Kept> Write(std::span<const Row> rows, uint64_t dropped) override;
  Status SetAside(std::string_view record, std::string_view reason) override;
  Status Close(uint64_t dropped) override;
  Result<uint64_t> Clear() override;
  Status Vacuum() override;

 private:
  // Sent to be committed, without an answer.
  struct Pending {
    size_t rows = 0;
    Kept kept;
  };

  explicit PostgresWriter(PostgresOptions options);
  Status Connect();
  Status Reconnect();
  Status Enter();
  Status Settle();
  Status WriteBatch(std::span<const Row> rows, uint64_t dropped, Kept& kept);
  Status Insert(std::span<const Row* const> rows, Kept& kept);
  Status Reject(std::string_view record, std::string_view reason);
  Status Account(const Kept& kept, uint64_t dropped);
  Status Forget();
  // Drops a connection that failed, and returns `status`.
  Status Lost(Status status);

  const PostgresOptions options_;
  const std::string insert_;
  std::optional<postgres::Connection> connection_;
  int64_t writer_id_ = 0, batch_ = 0;  // the last batch that was committed
  std::optional<Pending> pending_;
  Kept committed_;  // of a pending batch that turned out to be, with how many rows
  size_t committed_rows_ = 0;
  int64_t next_forget_ns_ = 0, next_try_ns_ = 0;
  Backoff backoff_;
  Status why_lost_;
};

}  // namespace gpulens::telemetry
