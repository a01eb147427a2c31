// Keeps the roll-ups of a file (rollup_tables.h) while its writer writes.
//
// Not with every batch: what was added waits until 4,096 rows are not covered, so that bulk inserts are as
// fast as without and a summary reads that many rows one by one at most. A crash loses nothing, as the rows
// are there; the next writer reads them. So are those that other programs inserted.
#pragma once

#include <map>
#include <string>
#include <tuple>

#include "store/telemetry/rollup.h"
#include "store/telemetry/summary/sums.h"

namespace gpulens::telemetry {

// By the writer's thread alone.
class RollupKeeper final : public Rollup {
 public:
  static constexpr int64_t kWaiting = 4'096;     // rows, before they are rolled up
  static constexpr size_t kMostAtOnce = 16'384;  // of rows that are read again: some 20 ms

  Status Prepare(const sqlite::Database& database) override;
  void Add(int64_t id, const Row& row) override;
  Status Write(const sqlite::Database& database, int64_t before) override;
  void Done(bool committed) noexcept override;
  Status Forget(const sqlite::Database& database, double timestamp) override;

  // Rolls up to `rows` rows of the file up, within a transaction; whether there are more.
  Result<bool> CatchUp(const sqlite::Database& database, size_t rows);

 private:
  using Key = std::tuple<int64_t, std::string, std::string, bool>;  // minute, model, engine, warm-up
  struct Pending {
    std::map<Key, Sums> sums;
    int64_t first = 0, last = 0, rows = 0;  // ids; how many
    bool bad_time = false;

    void Add(int64_t id, const Row& row);
  };
  static Status Store(const sqlite::Database& database, const Pending& pending, int64_t covered);

  Pending pending_;
  bool stored_ = false;  // within the transaction
};

}  // namespace gpulens::telemetry
