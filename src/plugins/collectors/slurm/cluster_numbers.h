// The tables of a Slurm cluster, added up: nodes, CPUs, GPUs, jobs, users, accounts, partitions. Pure.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "sources/slurm/parse/table.h"

namespace gpulens {

using Amounts = std::map<std::string, double, std::less<>>;  // by state

struct PartitionNumbers {
  Amounts nodes, cpus, gpus, jobs;
};

struct AccountNumbers {
  Amounts jobs;
  double cpus = 0, gpus = 0, nodes = 0;  // of running jobs
};

// Mean and standard deviation of a sample; what one value does not tell is nothing.
struct Spread {
  std::optional<double> mean, deviation;
};
// As values come.
class SpreadOf {
 public:
  void Add(double value) noexcept;
  Spread Make() const noexcept;

 private:
  double count_ = 0, mean_ = 0, squares_ = 0;
};

struct NodeNumbers {
  Amounts nodes, cpus, gpus;
  double down = 0, silent = 0;
};

struct QueueNumbers {
  Amounts jobs, cpus, gpus, nodes;
  double without_user = 0;
  std::optional<double> distributed;  // nothing: no job runs
  double active_users = 0, queued_users = 0;
  Spread jobs_per_user;
  std::map<std::string, AccountNumbers, std::less<>> accounts;
};

struct EndedNumbers {
  Amounts jobs;
  std::optional<double> mean_cpus, mean_gpus;  // weighted by run time
  Spread runtime, wait, suspended;
};

using Partitions = std::map<std::string, PartitionNumbers, std::less<>>;

// What the table must have: the columns that the collector asks for.
inline constexpr std::string_view kNodeColumns[] = {"node", "gres",  "gres_used",
                                                    "cpus", "state", "partition"};
inline constexpr std::string_view kQueueColumns[] = {
    "id", "state", "user", "account", "partition", "cpus", "nodes", "tres_alloc", "tres_per_node"};

// A row a node and partition; a node of several partitions counts once in the whole.
NodeNumbers AddUpNodes(const slurm::Table& table, Partitions& partitions);
QueueNumbers AddUpQueue(const slurm::Table& table, Partitions& partitions);
// sacct's rows, of jobs alone, that ended from `from` to before `to` (seconds since 1970).
EndedNumbers AddUpEnded(const slurm::Table& table, int64_t from, int64_t to);

// "MIXED+DRAIN*" as "mixed"; the words before a flag. Lower case.
std::string PlainState(std::string_view state);
// Whether jobs can begin on a node of that state. nullopt: the state is none we know.
std::optional<bool> IsUp(std::string_view plain_state) noexcept;

}  // namespace gpulens
