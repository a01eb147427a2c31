// Destination of the rows of a recorder.
#pragma once

#include <cstdint>
#include <span>

#include <gpulens/status.h>

#include "store/sqlite/sqlite.h"
#include "store/telemetry/rows.h"

namespace gpulens::telemetry {

struct Kept {
  uint64_t stored = 0, rejected = 0;
};

// Used by one thread at a time; may wait for disks and peers.
class Destination {
 public:
  virtual ~Destination() = default;
  // All of them, each stored or set aside, or none: then it is tried again with the same rows, or more.
  // `dropped`: how many records were lost on their way so far.
  virtual Result<Kept> Write(std::span<const Row> rows, uint64_t dropped) = 0;
  // Sets something aside that is no row.
  virtual Status SetAside(std::string_view record, std::string_view reason) = 0;
  // Deletes all rows; how many there were.
  virtual Result<uint64_t> Clear() = 0;
  // Gives space of deleted rows back.
  virtual Status Vacuum() = 0;
  // Once, last: everything was written that will be.
  virtual Status Close(uint64_t dropped) = 0;
};

// Aggregates stored next to the rows, so that a summary need not read all of them. Fed by the writer's thread
// alone.
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
