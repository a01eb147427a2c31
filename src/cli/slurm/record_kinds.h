// Which columns of Slurm's tables are numbers, and of what. All others are texts.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "catalog/slurm.h"

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

struct RecordColumn {
  std::string_view name;  // in snake case
  ColumnType type = ColumnType::kText;
};

struct RecordKind {
  const RecordDesc* desc;
  std::span<const RecordColumn> typed;
};

extern const RecordKind kNodeKind, kJobKind, kAccountingKind, kQosKind, kUserKind, kPartitionKind,
    kConfigKind, kPriorityKind, kShareKind;

// The columns that squeue is asked for, in order, and the names they have in records.
struct QueueColumn {
  std::string_view field, name;
};
std::span<const QueueColumn> QueueColumns() noexcept;

}  // namespace gpulens
