// Turns rows of Slurm's tables into log records, with numbers as attributes for numeric columns.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <gpulens/status.h>

#include "catalog/slurm.h"
#include "core/frame.h"
#include "plugins/plugin.h"

namespace gpulens {

enum class ColumnType : uint8_t {
  kText,
  kInt,
  kReal,
  kCount,      // "12", "1.5K"
  kSpan,       // "1-02:03:04" → seconds
  kMinutes,    // a span, or a plain number of minutes → seconds
  kSize,       // "64G" → bytes; a plain number is bytes
  kMebibytes,  // a plain number of MiB → bytes
  kTres,       // "cpu=1,gres/gpu=2" → the text, and a number for each
  kGres,       // "gpu:a100:8(IDX:0-7)" → the text, and `gpus`
  kTime,       // "2026-11-22T10:40:06" → with Z where it is known to be UTC
};

struct RecordColumns {
  ColumnType type = ColumnType::kText;
  std::string_view names;  // in snake case, between blanks
};

struct RecordKind {
  const RecordDesc* desc;
  std::span<const RecordColumns> typed;  // other columns are texts
};

extern const RecordKind kNodeKind, kJobKind, kAccountingKind, kQosKind, kUserKind, kPartitionKind,
    kConfigKind, kPriorityKind, kShareKind;

// The columns requested from squeue, in order, and their names in records.
struct QueueColumn {
  std::string_view field, name;
};
std::span<const QueueColumn> QueueColumns() noexcept;

struct RecordContext {
  std::string cluster;           // empty: unknown
  bool derive_cluster = false;   // add "cluster.partition", too
  bool utc = true;               // times in the table are UTC
  std::string_view time_column;  // with the record's time; empty, or absent in a row: `now`
};

// Makes records of rows with the given columns. Immutable; thread-safe.
class RecordMaker {
 public:
  // Columns as the program names them. Of two with one name the last counts.
  RecordMaker(const RecordKind& kind, std::span<const std::string> columns, RecordContext context);

  // One value per column. Empty values and invalid numbers are omitted.
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

// Sends records in batches. Used by one thread.
class RecordSender {
 public:
  static constexpr size_t kBatch = 500;

  RecordSender(Sink& sink, AttributeSet resource) : sink_(sink), resource_(std::move(resource)) {}

  // After a failure, returns it again and sends nothing more.
  Status Add(Event record);
  // Sends the queued records.
  Status Send();
  uint64_t sent() const noexcept { return sent_; }

 private:
  Sink& sink_;
  const AttributeSet resource_;
  Events batch_;
  Status failed_;
  uint64_t sent_ = 0;
};

}  // namespace gpulens
