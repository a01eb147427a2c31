// Rows of Slurm's tables as log records: a name, and attributes that are numbers where the column is one.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cli/slurm/record_kinds.h"
#include "core/frame.h"

namespace gpulens {

struct RecordContext {
  std::string cluster;           // empty: not told
  bool derive_cluster = false;   // the cluster with the partition behind a dot, too
  bool utc = true;               // times in the table are UTC
  std::string_view time_column;  // whose time is the record's; empty, or not told in a row: `now`
};

// For tables with these columns. Immutable; thread-safe.
class RecordMaker {
 public:
  // Columns as the program names them. Of two with one name the last counts.
  RecordMaker(const RecordKind& kind, std::span<const std::string> columns, RecordContext context);

  // One value per column. What says nothing, and a number that is none, is absent.
  Event Make(std::span<const std::string_view> values, Instant now) const;

 private:
  struct Column {
    std::string key;
    ColumnType type;
  };
  const RecordKind& kind_;
  const RecordContext context_;
  std::vector<Column> columns_;
  std::optional<size_t> partition_, time_;
};

}  // namespace gpulens
