// Slurm jobs on this machine and the jobs of processes, from the kernel: control groups first, which only
// root can set, then the environment of the job's processes.
//
// Runs no program. Reading a process's environment can wait for the kernel, so it is not for the agent's
// tick.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace gpulens::slurm {

inline constexpr size_t kMostLocalJobs = 4096;

// Facts of a job; unknown ones are empty.
struct JobFacts {
  std::string name, user, account, partition, qos, array_job, array_task, nodes;
  std::string node_name;                 // Slurm's name of this machine
  std::optional<std::vector<int>> gpus;  // Slurm's indices, on this machine

  // Fills unknown facts from `weaker`.
  void Add(const JobFacts& weaker);
  friend bool operator==(const JobFacts&, const JobFacts&) = default;
};

struct ProcessJob {
  uint64_t job = 0;
  std::string step;        // "0", "batch", "extern", "interactive"; empty: unknown
  bool by_cgroup = false;  // else by the process's own environment, which its user can write
  JobFacts facts;          // of the environment, if it names the same job

  friend bool operator==(const ProcessJob&, const ProcessJob&) = default;
};

// "/slurm/uid_1000/job_123/step_0/task_0", "/system.slice/slurmstepd.scope/job_123/step_batch/user/task_0",
// in any line of /proc/PID/cgroup. None: no job's control group.
std::optional<ProcessJob> JobOfCgroup(std::string_view cgroup_file);

// SLURM_* of a NUL-separated environment. None: it names no job.
std::optional<ProcessJob> JobOfEnvironment(std::string_view environment);

// Both, of a process below `root`. None: the process is gone, may not be read, or belongs to no job.
std::optional<ProcessJob> JobOfProcess(const std::string& root, int64_t pid);

// The jobs that have a control group on this machine, ascending; versions 1 and 2.
std::vector<uint64_t> LocalJobs(const std::string& root);

// A folder with a file per GPU index, "0", whose lines are job ids, as prologs write it for dcgm-exporter.
// None: the folder cannot be read. A GPU without a job is not in the map.
std::optional<std::map<int, std::vector<std::string>>> ReadJobMapping(const std::string& folder);

}  // namespace gpulens::slurm
