// Writes rows into a PostgreSQL database.
//
// What one Write took is one transaction, and is stored once: when the connection is lost while it commits,
// the next one asks whether it did. A lost connection is made anew, at growing intervals up to five seconds.
// In the child of a fork the writer is left alone, and another one opened.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "store/postgres/postgres.h"
#include "store/telemetry/destination.h"

namespace gpulens::telemetry {

struct ServerOptions {
  std::string url;
  std::chrono::nanoseconds retention{};  // zero: rows stay for ever
};

class ServerWriter final : public Destination {
 public:
  static Result<std::unique_ptr<ServerWriter>> Open(ServerOptions options);

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

  explicit ServerWriter(ServerOptions options);
  Status Connect();
  Status Reconnect();
  Status Enter();
  Status Settle();
  Status WriteBatch(std::span<const Row> rows, uint64_t dropped, Kept& kept);
  Status Insert(std::span<const Row* const> rows, Kept& kept);
  Status Reject(std::string_view record, std::string_view reason);
  Status Account(const Kept& kept, uint64_t dropped);
  Status Forget();
  // Of what failed the connection is not used again.
  Status Lost(Status status);

  const ServerOptions options_;
  const std::string insert_;
  std::optional<postgres::Connection> connection_;
  int64_t writer_id_ = 0, batch_ = 0;  // the last batch that was committed
  std::optional<Pending> pending_;
  Kept committed_;  // of a pending batch that turned out to be, with how many rows
  size_t committed_rows_ = 0;
  int64_t next_forget_ns_ = 0, next_try_ns_ = 0, backoff_ns_ = 0;
  Status why_lost_;
};

}  // namespace gpulens::telemetry
