// The numbers of a cluster as series: one per state, account and partition, declared when it is first seen.
#pragma once

#include <map>
#include <string>

#include "core/frame_writer.h"
#include "plugins/collectors/slurm/cluster_reader.h"

namespace gpulens {

// One family by state. A state that is not told any more is 0: the whole table was read.
class StateSeries {
 public:
  StateSeries(const MetricDesc& desc, std::string_view key) : desc_(desc), key_(key) {}
  void Write(const Amounts& amounts, const EntityRef& entity, FrameWriter& out);

 private:
  const MetricDesc& desc_;
  const std::string_view key_;
  std::map<std::string, Series, std::less<>> by_state_;
};

// Used by the collector's run alone.
class ClusterSeries {
 public:
  explicit ClusterSeries(const std::string& cluster);
  void Write(const ClusterReading& reading, FrameWriter& out);

 private:
  struct Partition;
  struct Account;

  void WriteNodes(const NodeNumbers& nodes, FrameWriter& out);
  void WriteQueue(const QueueNumbers& queue, FrameWriter& out);
  void WriteEnded(const EndedNumbers& ended, FrameWriter& out);
  void WriteDiagnosis(const slurm::Sdiag& said, FrameWriter& out);
  void WritePartitions(const ClusterReading& reading, FrameWriter& out);
  void WriteAccounts(const QueueNumbers& queue, FrameWriter& out);
  void Set(const MetricDesc& desc, std::optional<double> value, FrameWriter& out);

  const EntityRef cluster_;
  std::map<const MetricDesc*, Series> plain_;
  StateSeries nodes_, cpus_, gpus_, jobs_, jobs_cpus_, jobs_gpus_, jobs_nodes_, ended_, events_;
  std::map<std::string, Partition, std::less<>> partitions_;
  std::map<std::string, Account, std::less<>> accounts_;
  Amounts said_events_;
  uint64_t round_ = 0;
};

struct ClusterSeries::Partition {
  EntityRef entity;
  StateSeries nodes, cpus, gpus, jobs;
  uint64_t round = 0;
};

struct ClusterSeries::Account {
  EntityRef entity;
  StateSeries jobs;
  Series cpus, gpus, nodes;
  uint64_t round = 0;
};

}  // namespace gpulens
