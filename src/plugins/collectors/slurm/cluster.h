// Numbers of a Slurm cluster (nodes, CPUs, GPUs, jobs, users, accounts, partitions): summed from tables, read
// by running Slurm's programs, and exported as series.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include <gpulens/status.h>

#include "base/clock.h"
#include "core/frame_writer.h"
#include "sources/slurm/parse/scontrol.h"
#include "sources/slurm/parse/table.h"
#include "sources/slurm/programs.h"

namespace gpulens {

using StateAmounts = std::map<std::string, double, std::less<>>;  // by state

struct PartitionNumbers {
  StateAmounts nodes, cpus, gpus, jobs;
};

struct AccountNumbers {
  StateAmounts jobs;
  double cpus = 0, gpus = 0, nodes = 0;  // of running jobs
};

// Mean and standard deviation of a sample; absent for too few values.
struct SampleSpread {
  std::optional<double> mean, deviation;
};
// Computes a Spread incrementally.
class SampleSpreadBuilder {
 public:
  void Add(double value) noexcept;
  SampleSpread Make() const noexcept;

 private:
  double count_ = 0, mean_ = 0, squares_ = 0;
};

struct NodeNumbers {
  StateAmounts nodes, cpus, gpus;
  double down = 0, silent = 0;
};

struct QueueNumbers {
  StateAmounts jobs, cpus, gpus, nodes;
  double without_user = 0;
  std::optional<double> distributed;  // absent: no job runs
  double active_users = 0, queued_users = 0;
  SampleSpread jobs_per_user;
  std::map<std::string, AccountNumbers, std::less<>> accounts;
};

struct EndedNumbers {
  StateAmounts jobs;
  std::optional<double> mean_cpus, mean_gpus;  // weighted by run time
  SampleSpread runtime, wait, suspended;
};

using PartitionTable = std::map<std::string, PartitionNumbers, std::less<>>;

// Columns of the tables.
inline constexpr std::string_view kNodeColumns[] = {"node", "gres",  "gres_used",
                                                    "cpus", "state", "partition"};
inline constexpr std::string_view kQueueColumns[] = {
    "id", "state", "user", "account", "partition", "cpus", "nodes", "tres_alloc", "tres_per_node"};

// Adds up rows of a node and partition each; a node of several partitions counts once in the total.
NodeNumbers AddUpNodes(const slurm::SlurmTable& table, PartitionTable& partitions);
QueueNumbers AddUpQueue(const slurm::SlurmTable& table, PartitionTable& partitions);
// Adds up sacct's rows, of jobs only, that ended in [from, to), in seconds since 1970.
EndedNumbers AddUpEnded(const slurm::SlurmTable& table, int64_t from, int64_t to);

// Returns a state without its flags in lower case: "mixed" for "MIXED+DRAIN*".
std::string PlainState(std::string_view state);
// Whether jobs can start on a node of that state; nullopt for an unknown one.
std::optional<bool> IsUp(std::string_view plain_state) noexcept;

// Result of one poll. Failed parts are empty; `status` holds the first error.
struct ClusterReading {
  Status status;
  Instant at;
  PartitionTable partitions;
  std::optional<NodeNumbers> nodes;
  std::optional<QueueNumbers> queue;
  std::optional<slurm::Sdiag> diagnosis;
  std::optional<EndedNumbers> ended;
};

// Queries a cluster by running Slurm's programs one after the other. Used by one thread.
class ClusterReader {
 public:
  // `window`: the time in which ended jobs are counted.
  ClusterReader(slurm::SlurmPrograms::Options programs, Duration window, const Clock& clock)
      : programs_(std::move(programs), clock), window_(window), clock_(clock) {}

  ClusterReading Read(Instant deadline);

 private:
  Status ReadNodes(ClusterReading& out, Instant deadline);
  Status ReadQueue(ClusterReading& out, Instant deadline);
  Status ReadDiagnosis(ClusterReading& out, Instant deadline);
  Status ReadEnded(ClusterReading& out, Instant deadline);
  Result<slurm::SlurmTable> ReadTable(const char* program, std::vector<std::string> arguments,
                                      std::span<const std::string_view> fields,
                                      std::span<const std::string_view> columns, Instant deadline);
  Result<std::string> Run(const char* program, std::vector<std::string> arguments, Instant deadline);

  const slurm::SlurmPrograms programs_;
  const Duration window_;
  const Clock& clock_;
  bool no_json_ = false;        // this sdiag has no --json
  bool no_accounting_ = false;  // there is no accounting database
};

// One family by state. A state that is absent from a table is 0.
class StateSeries {
 public:
  StateSeries(const MetricDesc& desc, std::string_view key) : desc_(desc), key_(key) {}
  void Write(const StateAmounts& amounts, const EntityRef& entity, FrameWriter& out);

 private:
  const MetricDesc& desc_;
  const std::string_view key_;
  std::map<std::string, Series, std::less<>> by_state_;
};

// Series of a cluster: one per state, account and partition, declared when it is first seen.
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
  void WriteDiagnosis(const slurm::Sdiag& diagnosis, FrameWriter& out);
  void WritePartitions(const ClusterReading& reading, FrameWriter& out);
  void WriteAccounts(const QueueNumbers& queue, FrameWriter& out);
  template <class Map>
  void RetireOld(Map& map, FrameWriter& out);
  void Set(const MetricDesc& desc, std::optional<double> value, FrameWriter& out);

  const EntityRef cluster_;
  std::map<const MetricDesc*, Series> plain_;
  StateSeries nodes_, cpus_, gpus_, jobs_, jobs_cpus_, jobs_gpus_, jobs_nodes_, ended_, events_;
  std::map<std::string, Partition, std::less<>> partitions_;
  std::map<std::string, Account, std::less<>> accounts_;
  StateAmounts job_events_;
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
