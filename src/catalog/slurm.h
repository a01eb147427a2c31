// Metrics (slurm.def) and records of a Slurm cluster. Static storage; thread-safe.
#pragma once

#include <string_view>

#include "catalog/row.h"

namespace gpulens {

#define METRIC GPULENS_DECLARE_METRIC
#include "catalog/slurm.def"
#undef METRIC

#define METRIC GPULENS_LIST_METRIC
inline constexpr const MetricDesc* kSlurmRows[] = {
#include "catalog/slurm.def"
};
#undef METRIC

// A row of a table that Slurm or a file system holds, exported as a log record; its attributes begin with
// `prefix` (docs/slurm.md lists them).
struct RecordDesc {
  std::string_view name, prefix, help;
};

inline constexpr RecordDesc kRecordSlurmNode{"slurm.node", "slurm.node.", "A node in one of its partitions."};
inline constexpr RecordDesc kRecordSlurmJob{"slurm.job", "slurm.job.", "A job that waits or runs."};
inline constexpr RecordDesc kRecordSlurmAccounting{"slurm.accounting", "slurm.accounting.",
                                                   "A job or a step from the accounting database."};
inline constexpr RecordDesc kRecordSlurmQos{"slurm.qos", "slurm.qos.",
                                            "A quality of service with its limits."};
inline constexpr RecordDesc kRecordSlurmUser{"slurm.user", "slurm.user.", "A user in one account."};
inline constexpr RecordDesc kRecordSlurmPartition{"slurm.partition", "slurm.partition.",
                                                  "A partition with its limits and weights."};
inline constexpr RecordDesc kRecordSlurmConfig{"slurm.config", "slurm.config.",
                                               "The controller's configuration."};
inline constexpr RecordDesc kRecordSlurmPriority{"slurm.priority", "slurm.priority.",
                                                 "The components of the priority of a waiting job."};
inline constexpr RecordDesc kRecordSlurmShare{"slurm.share", "slurm.share.",
                                              "The share of an account or a user."};
inline constexpr RecordDesc kRecordStorageMount{"storage.mount", "storage.", "The use of a file system."};
inline constexpr RecordDesc kRecordStorageUser{"storage.user", "storage.", "The use of a folder by a user."};

inline constexpr const RecordDesc* kRecords[] = {
    &kRecordSlurmNode,  &kRecordSlurmJob,       &kRecordSlurmAccounting, &kRecordSlurmQos,
    &kRecordSlurmUser,  &kRecordSlurmPartition, &kRecordSlurmConfig,     &kRecordSlurmPriority,
    &kRecordSlurmShare, &kRecordStorageMount,   &kRecordStorageUser};

// Attributes of every record: the cluster's name, and the derived one where partitions count as clusters.
inline constexpr std::string_view kRecordCluster = "slurm.cluster.name";
inline constexpr std::string_view kRecordDerivedCluster = "slurm.cluster.derived";

}  // namespace gpulens
