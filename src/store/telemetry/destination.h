// Where rows go that a recorder has taken: a file, or a database server.
#pragma once

#include <cstdint>
#include <span>

#include <gpulens/status.h>

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

}  // namespace gpulens::telemetry
