// Parsers of scontrol (jobs with their resources per node, partitions, the configuration) and sdiag. Pure
// functions over bytes from outside.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gpulens/status.h>

#include "sources/slurm/parse/words.h"

namespace gpulens::slurm {

inline constexpr size_t kMostJobs = 1u << 20, kMostFields = 1024;

// "Key=value" in the order of the text. Values may hold blanks and equals signs.
using ScontrolFields = std::vector<std::pair<std::string, std::string>>;

// Parses `scontrol show partition -o`: a record a line; a line without any key is left out.
std::vector<ScontrolFields> ParseOneLineRecords(std::string_view text);

// Parses `scontrol show config`: "Key = value" lines, with their heading in front of the key,
// "cgroup_support.allowed_ram_space". Keys in snake case.
ScontrolFields ParseConfig(std::string_view text);

// Resources of a job on some of its nodes.
struct JobNodes {
  std::string nodes;  // a host list
  std::vector<Gres> gres;
};

struct Job {
  uint64_t id = 0;
  std::string name, user, account, partition, qos, state, nodes;
  std::optional<uint64_t> array_job;
  std::string array_task;  // "28", or "28-59%100" of tasks that have not begun
  std::optional<int64_t> node_count;
  std::vector<JobNodes> detail;  // with -d
  // A key that scontrol prints once occurs twice: a text of the user, such as the job's name, imitates lines
  // of scontrol. Only `id` is trustworthy.
  bool ambiguous = false;
  bool running() const noexcept {
    return state == "RUNNING" || state == "COMPLETING" || state == "SUSPENDED";
  }
};

// Parses `scontrol show job -d`. A record without a number is left out. A text of a user may forge whole
// records, so several records in the answer about one job are not trustworthy.
std::vector<Job> ParseJobs(std::string_view text);

// The indices of the job's GPUs on the node. None: it has no GPU there, the indices are unknown, or two lines
// list this node.
std::optional<std::vector<int>> GpusOn(const Job& job, std::string_view node);

// Numbers of sdiag: durations in microseconds; counters since `since_unix` (the start of slurmctld, midnight,
// or a reset).
struct Sdiag {
  std::optional<double> since_unix;
  std::optional<double> server_threads, agents, agent_threads, agent_queue, dbd_agent_queue;
  std::optional<double> cycle_last, cycle_max, cycle_mean, cycle_sum, cycles, cycle_per_minute, queue_length;
  std::optional<double> jobs_submitted, jobs_started, jobs_completed, jobs_canceled, jobs_failed,
      jobs_pending, jobs_running;
  std::optional<double> backfilled, backfill_cycles, backfill_cycle_last, backfill_cycle_max,
      backfill_cycle_mean, backfill_cycle_sum, backfill_queue;
};

// kDataLoss: none of the lines that every version prints.
Result<Sdiag> ParseSdiagText(std::string_view text);
// Numbers plain, or as {"set", "infinite", "number"}. kDataLoss: no JSON, or no statistics in it.
Result<Sdiag> ParseSdiagJson(std::string_view text);

}  // namespace gpulens::slurm
