// What scontrol prints: jobs with their resources per node, partitions, the configuration. Pure functions
// over bytes from outside.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sources/slurm/parse/gres.h"

namespace gpulens::slurm {

inline constexpr size_t kMostJobs = 1u << 20, kMostFields = 1024;

// "Key=value" in the order they stand in. Values may hold blanks and equals signs.
using Fields = std::vector<std::pair<std::string, std::string>>;

// One line of `scontrol show partition -o` a record; a line without any key is left out.
std::vector<Fields> ParseOneLineRecords(std::string_view text);

// `scontrol show config`: "Key = value" lines, with the heading under which they stand in front of the key,
// "cgroup_support.allowed_ram_space". Keys in snake case.
Fields ParseConfig(std::string_view text);

// What a job has on some of its nodes.
struct JobNodes {
  std::string nodes;  // a host list
  std::vector<Gres> gres;
};

struct Job {
  uint64_t id = 0;
  std::string name, user, account, partition, qos, state, nodes;
  std::optional<uint64_t> array_job;
  std::string array_task;  // "28", or "28-59%100" of what has not begun
  std::optional<int64_t> node_count;
  std::vector<JobNodes> detail;  // with -d
  // A key that scontrol prints once stands there twice: a text of the user, perhaps his job's name, passes
  // for lines of scontrol. Of the rest only the number counts.
  bool ambiguous = false;
  bool running() const noexcept {
    return state == "RUNNING" || state == "COMPLETING" || state == "SUSPENDED";
  }
};

// `scontrol show job -d`. A record without a number is left out. A text of a user may make up whole records,
// so who asked for one job and gets several knows nothing of it.
std::vector<Job> ParseJobs(std::string_view text);

// The indices of the GPUs that a job has on the node. Nothing: it has none there, none is told, or two lines
// tell of this node.
std::optional<std::vector<int>> GpusOn(const Job& job, std::string_view node);

}  // namespace gpulens::slurm
