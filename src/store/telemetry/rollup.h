// What is kept beside the rows so that a summary need not read them all. The store's writer feeds it.
#pragma once

#include <gpulens/status.h>

#include "store/sqlite/sqlite.h"
#include "store/telemetry/rows.h"

namespace gpulens::telemetry {

// Used by the writer's thread alone.
class Rollup {
 public:
  virtual ~Rollup() = default;
  // Makes its tables; within the transaction that brings a file up to date, at each opening for writing.
  virtual Status Prepare(const sqlite::Database& database) = 0;
  // A row has been inserted, with this id, within a transaction. Ids ascend, but not by one: other programs
  // insert, too.
  virtual void Add(int64_t id, const Row& row) = 0;
  // Before the commit of that transaction: writes what was added. Ids up to `before` existed when it began.
  virtual Status Write(const sqlite::Database& database, int64_t before) = 0;
  // After it: whether what was written stays.
  virtual void Done(bool committed) noexcept = 0;
  // Within a transaction that deletes the rows with timestamps below `timestamp`.
  virtual Status Forget(const sqlite::Database& database, double timestamp) = 0;
};

}  // namespace gpulens::telemetry
